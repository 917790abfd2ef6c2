//! kloop_version: from Cargo's version and nowhere else.

use super::boundary::guard;

/// The header's event and field set. Raised when event types or fields are added, never reused.
pub const KLOOP_ABI: u32 = 1;

const fn number(text: &str) -> u32 {
    let bytes = text.as_bytes();
    let mut value = 0;
    let mut i = 0;
    while i < bytes.len() {
        value = value * 10 + (bytes[i] - b'0') as u32;
        i += 1;
    }
    value
}

const VERSION: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
    | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
    | number(env!("CARGO_PKG_VERSION_PATCH"));

/// The version of the library that is loaded, as 0xMMmmpp; compare it with `KLOOP_VERSION_NUM`,
/// which is the header's. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn kloop_version() -> u32 {
    guard(0, || VERSION)
}
