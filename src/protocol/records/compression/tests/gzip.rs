//! Gzip, written by miniz_oxide, which shares no code with zlib-rs, and by hand.

use super::*;
use flate2::{Compression as Level, Crc, write::GzEncoder};
use std::io::Write;

pub(super) const PACKERS: &[Packer] = &[
    Packer { name: "gzip", codec: Compression::Gzip, pack, checked: true, announces: true },
    Packer {
        name: "gzip, stored",
        codec: Compression::Gzip,
        pack: pack_stored,
        checked: true,
        announces: true,
    },
];

const FINAL_EMPTY_BLOCK: [u8; 2] = [3, 0];
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

fn packed_at(level: u32, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Level::new(level));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn pack(bytes: &[u8]) -> Vec<u8> {
    packed_at(6, bytes)
}

/// Blocks that are not compressed.
fn pack_stored(bytes: &[u8]) -> Vec<u8> {
    packed_at(0, bytes)
}

/// The deflate stream in a member whose header has nothing optional.
fn deflated(bytes: &[u8]) -> Vec<u8> {
    let member = pack(bytes);
    member[HEADER.len()..member.len() - 8].to_vec()
}

/// A member with these flags, these bytes for them, and what the trailer says.
fn member(flags: u8, optional: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut out = HEADER.to_vec();
    out[3] = flags;
    out.extend_from_slice(optional);
    out.extend_from_slice(&deflated(bytes));
    let mut crc = Crc::new();
    crc.update(bytes);
    out.extend_from_slice(&crc.sum().to_le_bytes());
    out.extend_from_slice(&crc.amount().to_le_bytes());
    out
}

#[test]
fn all_levels_come_out() {
    for level in 0..=9 {
        let sample = text(90_000);
        assert_inflates(Compression::Gzip, &packed_at(level, &sample), &sample);
    }
}

#[test]
fn optional_parts_of_the_header_are_passed_over() {
    let sample = text(100);
    for (flags, optional) in [
        (0, &b""[..]),
        // "Probably text".
        (1, b""),
        (2, b"\x12\x34"),
        (4, b"\0\0"),
        (4, b"\x05\0extra"),
        (8, b"\0"),
        (8, b"a name\0"),
        (16, b"a comment\0"),
        (0x1f, b"\x03\0abca name\0a comment\0\x12\x34"),
    ] {
        let whole = member(flags, optional, &sample);
        assert_inflates(Compression::Gzip, &whole, &sample);
        for len in 0..HEADER.len() + optional.len() {
            assert_malformed(Compression::Gzip, &whole[..len]);
        }
    }
    // An extra field, a name and a comment that do not end.
    for (flags, optional) in [(4, &b"\xff\xff"[..]), (8, b"name"), (16, b"comment")] {
        assert_malformed(Compression::Gzip, &[&HEADER[..3], &[flags], &[0; 6], optional].concat());
    }
}

#[test]
fn wrong_headers_are_refused() {
    let right = member(0, b"", b"bytes");
    for (at, byte) in [(0, 0x1e), (1, 0x8c), (2, 7), (3, 0x20), (3, 0x40), (3, 0x80)] {
        let mut wrong = right.clone();
        wrong[at] = byte;
        assert_malformed(Compression::Gzip, &wrong);
    }
}

#[test]
fn members_follow_each_other() {
    let parts = [text(50_000), vec![], noise(1000), vec![0; 70_000]];
    let whole: Vec<u8> = parts.iter().flat_map(|part| pack(part)).collect();
    assert_inflates(Compression::Gzip, &whole, &parts.concat());
    // The window does not reach into the member before: a match at the front of the second one has
    // nothing to copy from. The fixed block says "257 long, 1 back".
    let reaches_back = [&HEADER[..], &[0x83, 0x02, 0], &[0; 8]].concat();
    assert_malformed(Compression::Gzip, &[pack(&text(1000)), reaches_back].concat());
}

#[test]
fn a_wrong_trailer_is_refused() {
    let right = pack(&text(1000));
    for at in right.len() - 8..right.len() {
        let mut wrong = right.clone();
        wrong[at] ^= 1;
        assert_malformed(Compression::Gzip, &wrong);
        // Also in a member that others follow.
        assert_malformed(Compression::Gzip, &[&wrong[..], &right].concat());
    }
}

/// A gibibyte of zeroes in a megabyte: a mebibyte's block, over and over.
#[test]
fn a_bomb_stops_at_the_cap() {
    let mut encoder = GzEncoder::new(vec![], Level::new(9));
    encoder.write_all(&[0; 1 << 20]).unwrap();
    // After a flush the next block begins with a byte of its own.
    encoder.flush().unwrap();
    let mebibyte = encoder.get_ref()[HEADER.len()..].to_vec();
    let mut bomb = HEADER.to_vec();
    (0..1024).for_each(|_| bomb.extend_from_slice(&mebibyte));
    bomb.extend_from_slice(&FINAL_EMPTY_BLOCK);
    bomb.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0x40]);
    println!("{} bytes", bomb.len());
    assert!(bomb.len() < 2 << 20);
    assert_eq!(expected_len(Compression::Gzip, &bomb), 1 << 30);
    let mut inflater = Inflater::new().unwrap();
    for room in [0, 1, 65_536, 1 << 20, (8 << 20) + 1] {
        let got = inflated(&mut inflater, Compression::Gzip, &bomb, room).map(|got| got.len());
        assert_eq!(got, Err(InflateError::Full));
    }
    // Two members: the first fills the room.
    let two = [pack(&text(500)), pack(&vec![0; 1 << 20])].concat();
    let got = inflated(&mut inflater, Compression::Gzip, &two, 500);
    assert_eq!(got, Err(InflateError::Full));
}

#[test]
fn no_more_is_expected_than_can_be() {
    let mut lies = pack(b"short");
    lies.truncate(lies.len() - 4);
    lies.extend_from_slice(&[0xff; 4]);
    assert_eq!(expected_len(Compression::Gzip, &lies), lies.len() * 1032);
    assert_eq!(expected_len(Compression::Gzip, &[1, 2, 3]), 12);
}
