//! Question: a name as name servers write it, and the message that asks for its addresses.

use domain::base::{MessageBuilder, Name, Rtype};
use domain::dep::octseq::Array;

/// The longest name on the wire.
const WIRE_MAX: usize = 255;
/// A header, a name, a type and a class.
const QUESTION_MAX: usize = 12 + WIRE_MAX + 4;

/// A question as bytes.
pub(super) type QuestionBytes = Array<QUESTION_MAX>;

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn rtype(self) -> Rtype {
        match self {
            Family::V4 => Rtype::A,
            Family::V6 => Rtype::AAAA,
        }
    }
}

/// A full name: labels with their lengths, and the root.
#[derive(Clone, Copy)]
pub(super) struct QueryName {
    bytes: [u8; WIRE_MAX],
    len: usize,
}

impl QueryName {
    /// `name` with `suffix` behind it. `None` if that is no name: an empty or long label, a name
    /// over 255 bytes, or a letter that no host has (underscores are common enough).
    pub(super) fn new(name: &str, suffix: Option<&str>) -> Option<Self> {
        let mut out = QueryName { bytes: [0; WIRE_MAX], len: 0 };
        let bare = |text: &'_ str| text.len() - usize::from(text.ends_with('.'));
        let (name, suffix) = (name.get(..bare(name))?, suffix.unwrap_or(""));
        let suffix = suffix.get(..bare(suffix))?;
        for label in name.split('.').chain(suffix.split('.').filter(|_| !suffix.is_empty())) {
            let fits = matches!(label.len(), 1..=63);
            let letter = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
            if !fits || !label.bytes().all(letter) {
                return None;
            }
            out.push(label.len() as u8)?;
            label.bytes().try_for_each(|c| out.push(c))?;
        }
        out.push(0)?;
        Some(out)
    }

    fn push(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(self.len)? = byte;
        self.len += 1;
        Some(())
    }

    /// The name as the library has it.
    pub(super) fn name(&self) -> Option<&Name<[u8]>> {
        Name::from_slice(self.bytes.get(..self.len)?).ok()
    }
}

/// The message that asks for the addresses of a name, recursion desired.
pub(super) fn write_question(name: &QueryName, family: Family, id: u16) -> Option<QuestionBytes> {
    let mut message = MessageBuilder::from_target(QuestionBytes::default()).ok()?;
    message.header_mut().set_id(id);
    message.header_mut().set_rd(true);
    let mut question = message.question();
    question.push((name.name()?, family.rtype())).ok()?;
    Some(question.finish())
}

#[cfg(test)]
#[allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_none() {
        let long = "a".repeat(64);
        let full = ["a".repeat(63).as_str(); 4].join(".");
        for bad in ["", ".", "a..b", ".a", "a b", "ä", &long, &full, "a/b", "*"] {
            assert!(QueryName::new(bad, None).is_none(), "{bad}");
        }
        assert!(QueryName::new(&full[..250], None).is_some());
        assert!(QueryName::new(&full[..250], Some("example")).is_none());
        assert!(QueryName::new("kafka_1", Some("example.com.")).is_some());
    }

    #[test]
    fn the_question_is_what_everybody_sends() {
        let name = QueryName::new("kafka-1.", Some("example")).unwrap();
        let bytes = write_question(&name, Family::V6, 0x1234).unwrap();
        let wanted = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07kafka-1\x07example\0\0\x1c\0\x01";
        assert_eq!(bytes.as_ref(), wanted);
    }
}
