//! What the fuzz target calls: takes any bytes as an answer and must come back, in work linear in
//! their length, with a bounded number of addresses.
//!
//! Compiled for tests and for the fuzzer only.

use super::answer::{Verdict, read_answer};
use super::question::{Family, QueryName};
use crate::client::MAX_ADDRESSES;

/// Reads `bytes` as an answer of a name server: as it is, and with the right header and question in
/// front of it, which nobody finds by trying.
#[allow(clippy::disallowed_types, reason = "tests may grow")]
pub fn fuzz_name_answer(bytes: &[u8]) {
    let Some(name) = QueryName::new("kafka.example", None) else { return };
    for (family, rtype) in [(Family::V4, 1), (Family::V6, 28)] {
        let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        check(read_answer(bytes, &name, family, id, true));
        let Some((&counts, body)) = bytes.split_first() else { continue };
        let mut framed: Vec<u8> = [0, 7, 0x81, 0x80, 0, 1, 0, counts, 0, 0, 0, 0].into();
        framed.extend(b"\x05kafka\x07example\0\0");
        framed.extend([rtype, 0, 1]);
        framed.extend(body);
        check(read_answer(&framed, &name, family, 7, false));
    }
}

fn check(verdict: Verdict) {
    if let Verdict::Found(found) = verdict {
        let n = found.all().len();
        assert!((1..=MAX_ADDRESSES).contains(&n));
        assert!(found.all().iter().all(|address| !address.is_unspecified()));
    }
}
