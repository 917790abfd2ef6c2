//! Snappy, written by the snap crate's encoder, bare and in snappy-java's framing, and by hand.

use super::*;
use snap::raw::Encoder;

pub(super) const PACKERS: &[Packer] = &[
    Packer {
        name: "snappy, bare",
        codec: Compression::Snappy,
        pack,
        checked: false,
        announces: true,
    },
    Packer {
        name: "snappy, framed",
        codec: Compression::Snappy,
        pack: pack_framed,
        checked: false,
        announces: true,
    },
];

/// Magic, version 1, and readable by version 1, as Java writes it.
const HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
/// The blocks that Java cuts.
const BLOCK: usize = 32 << 10;

fn pack(bytes: &[u8]) -> Vec<u8> {
    Encoder::new().compress_vec(bytes).unwrap()
}

fn pack_framed(bytes: &[u8]) -> Vec<u8> {
    framed(bytes.chunks(BLOCK).map(pack))
}

fn framed(blocks: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut out = HEADER.to_vec();
    for block in blocks {
        out.extend_from_slice(&(block.len() as u32).to_be_bytes());
        out.extend_from_slice(&block);
    }
    out
}

#[test]
fn streams_follow_each_other_in_the_framing() {
    let (one, two) = (text(100_000), noise(40_000));
    let both = [pack_framed(&one), pack_framed(&two)].concat();
    assert_inflates(Compression::Snappy, &both, &[&one[..], &two].concat());
    assert_eq!(expected_len(Compression::Snappy, &both), 140_000);
    // An empty one before, after and between.
    let with_empty = [HEADER, &both[..], HEADER, HEADER, &pack_framed(&one), HEADER].concat();
    assert_inflates(Compression::Snappy, &with_empty, &[&one[..], &two, &one].concat());
    assert_inflates(Compression::Snappy, HEADER, &[]);
}

/// Some write the versions in the order of their machine: nobody reads them.
#[test]
fn versions_are_passed_over() {
    let mut stream = pack_framed(&text(1000));
    stream[8..16].copy_from_slice(&[1, 0, 0, 0, 1, 0, 0, 0]);
    assert_inflates(Compression::Snappy, &stream, &text(1000));
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let block = pack(&text(100));
    for len in [-1, i32::MIN, i32::MAX, block.len() as i32 + 1, block.len() as i32 - 1, 0, 1] {
        assert_malformed(Compression::Snappy, &[HEADER, &len.to_be_bytes()[..], &block].concat());
    }
    for len in 17..20 {
        assert_malformed(Compression::Snappy, &pack_framed(&text(100))[..len]);
    }
    // Nothing is looked for behind a length that is refused.
    let negative = [HEADER, &[0xff; 4][..], &framed([block].into_iter())].concat();
    assert_malformed(Compression::Snappy, &negative);
}

/// Four gibibytes in five bytes, and more than 32 bits can say.
#[test]
fn an_announced_length_that_cannot_be_is_no_reason_to_look_for_room() {
    for bytes in [&[0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]] {
        assert_malformed(Compression::Snappy, bytes);
        assert_eq!(expected_len(Compression::Snappy, bytes), bytes.len() * 22);
        assert_malformed(Compression::Snappy, &framed([bytes.to_vec()].into_iter()));
    }
    assert_malformed(Compression::Snappy, &[0xff; 12]);
    // A literal of 2 bytes that says it is 3, and that it is 1.
    assert_malformed(Compression::Snappy, b"\x03\x04ab");
    assert_malformed(Compression::Snappy, b"\x01\x04ab");
    assert_inflates(Compression::Snappy, b"\x02\x04ab", b"ab");
}

/// Copies from before the front, or from no way back.
#[test]
fn copies_from_nowhere_are_refused() {
    assert_malformed(Compression::Snappy, b"\x06\x04ab\x0e\x03\0");
    assert_malformed(Compression::Snappy, b"\x06\x04ab\x0e\0\0");
    assert_inflates(Compression::Snappy, b"\x06\x04ab\x0e\x02\0", b"ababab");
    // Blocks of a stream do not see each other.
    let blocks = [b"\x02\x04ab".to_vec(), b"\x04\x0e\x02\0".to_vec()];
    assert_malformed(Compression::Snappy, &framed(blocks.into_iter()));
}

/// The most that so many bytes can be: a byte, and then copies of 64 of it.
#[test]
fn a_bomb_stops_at_the_cap() {
    let mut bomb = vec![0x81, 0x80, 0x80, 0x20, 0, 0];
    bomb.extend_from_slice(&[0xfe, 1, 0].repeat(1 << 20));
    assert_eq!(expected_len(Compression::Snappy, &bomb), (64 << 20) + 1);
    let chunks = framed((0..16).map(|_| bomb.clone()));
    println!("{} bytes", chunks.len());
    assert_eq!(expected_len(Compression::Snappy, &chunks), (1 << 30) + 16);
    let mut inflater = Inflater::new().unwrap();
    for room in [0, 1, 65_536, 64 << 20] {
        for bytes in [&bomb, &chunks] {
            let got = inflated(&mut inflater, Compression::Snappy, bytes, room);
            assert!(got == Err(InflateError::Full));
        }
    }
    let got = inflated(&mut inflater, Compression::Snappy, &bomb, (64 << 20) + 1).unwrap();
    assert!(got.len() == (64 << 20) + 1 && got.iter().all(|byte| *byte == 0));
}
