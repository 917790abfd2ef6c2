//! What std lacks on interfaces: the number behind a name, which a link-local address is bound to.
#![expect(unsafe_code, reason = "a system call that std does not have")]

/// The number of the interface that is called so; a name that is a number is that number. `None` if
/// there is none.
pub fn interface_index(name: &str) -> Option<u32> {
    if let Ok(index) = name.parse::<u32>() {
        return Some(index).filter(|index| *index != 0);
    }
    // No name is longer on any system, and none holds a zero.
    let mut text = [0u8; 64];
    let room = text.get_mut(..name.len()).filter(|room| room.len() < 63 && !name.contains('\0'))?;
    room.copy_from_slice(name.as_bytes());
    // SAFETY: the text ends with a zero and lives through the call.
    let index = unsafe { libc::if_nametoindex(text.as_ptr().cast()) };
    Some(index).filter(|index| *index != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(interface_index("7"), Some(7));
        assert_eq!(interface_index("0"), None);
        assert_eq!(interface_index(""), None);
        assert_eq!(interface_index("no such interface"), None);
        assert_eq!(interface_index(&"x".repeat(100)), None);
        #[cfg(target_os = "linux")]
        assert_eq!(interface_index("lo"), Some(1));
    }
}
