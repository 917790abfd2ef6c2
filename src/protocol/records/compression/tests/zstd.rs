//! Zstandard, written by the reference compressor, whose other half reads it, and by hand.

use super::*;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, compress_bound};

pub(super) const PACKERS: &[Packer] = &[
    Packer { name: "zstd", codec: Compression::Zstd, pack, checked: false, announces: true },
    Packer {
        name: "zstd, checked",
        codec: Compression::Zstd,
        pack: pack_checked,
        checked: true,
        announces: true,
    },
    Packer {
        name: "zstd, streamed",
        codec: Compression::Zstd,
        pack: pack_streamed,
        checked: false,
        announces: false,
    },
];

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// What a block's header says besides its size.
const LAST: u32 = 1;
const RAW: u32 = 0;
const RLE: u32 = 1 << 1;

fn packed_with(parameters: &[CParameter], bytes: &[u8]) -> Vec<u8> {
    let mut context = CCtx::create();
    for parameter in parameters {
        context.set_parameter(*parameter).unwrap();
    }
    let mut out = vec![0; compress_bound(bytes.len())];
    let len = context.compress2(&mut out[..], bytes).unwrap();
    out.truncate(len);
    out
}

/// With the length, without a checksum: as librdkafka and many others.
fn pack(bytes: &[u8]) -> Vec<u8> {
    packed_with(&[CParameter::CompressionLevel(3)], bytes)
}

fn pack_checked(bytes: &[u8]) -> Vec<u8> {
    packed_with(&[CParameter::ChecksumFlag(true)], bytes)
}

/// Without the length, in pieces, as Java streams it.
fn pack_streamed(bytes: &[u8]) -> Vec<u8> {
    let mut context = CCtx::create();
    let mut out = vec![0; compress_bound(bytes.len()) + 100];
    let mut output = OutBuffer::around(&mut out[..]);
    for piece in bytes.chunks(16 << 10) {
        let mut input = InBuffer::around(piece);
        while input.pos < piece.len() {
            context.compress_stream(&mut output, &mut input).unwrap();
        }
    }
    // Something must have been streamed, or the end would know the length: nothing.
    if bytes.is_empty() {
        context.flush_stream(&mut output).unwrap();
    }
    assert_eq!(context.end_stream(&mut output), Ok(0));
    let len = output.pos();
    out.truncate(len);
    out
}

fn block(kind: u32, size: u32, bytes: &[u8]) -> Vec<u8> {
    [&(size << 3 | kind).to_le_bytes()[..3], bytes].concat()
}

/// A frame of one segment, which is how it says its length in eight bytes.
fn sized(size: u64, blocks: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &[0xe0], &size.to_le_bytes(), blocks].concat()
}

/// A frame with a window of 2^`log`, and no length.
fn windowed(log: u8, blocks: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &[0, (log - 10) << 3], blocks].concat()
}

fn skippable(low: u8, bytes: &[u8]) -> Vec<u8> {
    let magic = [0x50 | low, 0x2a, 0x4d, 0x18];
    [&magic, &(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

#[test]
fn all_levels_come_out() {
    let sample = [text(90_000), noise(70_000), text(90_000), vec![1; 200_000]].concat();
    for level in [-7, -1, 1, 2, 3, 5, 9, 13, 19, 22] {
        let packed = packed_with(&[CParameter::CompressionLevel(level)], &sample);
        assert_inflates(Compression::Zstd, &packed, &sample);
    }
}

/// The output is the window: what comes again two mebibytes later is found there.
#[test]
fn long_distances_come_out() {
    let once = noise(2 << 20);
    let sample = [&once[..], b"between", &once, &once].concat();
    let long = [CParameter::EnableLongDistanceMatching(true), CParameter::WindowLog(27)];
    let packed = packed_with(&long, &sample);
    assert!(packed.len() < once.len() + 10_000, "{} bytes: nothing looks back", packed.len());
    assert_inflates(Compression::Zstd, &packed, &sample);
}

#[test]
fn frames_follow_each_other_and_some_are_skipped() {
    let (one, two) = (text(100_000), noise(70_000));
    let frames = [
        skippable(0, b""),
        pack(&one),
        skippable(7, b"passed over"),
        pack_checked(&two),
        pack_streamed(&[]),
        pack_streamed(&one),
        skippable(15, &[0; 300]),
    ];
    assert_inflates(Compression::Zstd, &frames.concat(), &[&one[..], &two, &one].concat());
    assert_inflates(Compression::Zstd, &skippable(3, b"alone"), b"");
    for len in 1..13 {
        assert_malformed(Compression::Zstd, &skippable(3, b"alone")[..len]);
    }
    assert_malformed(Compression::Zstd, &[&skippable(3, &[])[..4], &[0xff; 4], b"short"].concat());
}

#[test]
fn a_length_that_is_not_true_is_refused() {
    let blocks = block(RAW | LAST, 3, b"abc");
    assert_inflates(Compression::Zstd, &sized(3, &blocks), b"abc");
    for size in [0, 2, 4, 1 << 32, 1 << 62, u64::MAX - 2] {
        let lies = sized(size, &blocks);
        let got = Inflater::new().unwrap().inflate(Compression::Zstd, &lies, &mut [0; 100]);
        assert!(got.is_err(), "{size}: {got:?}");
        assert!(expected_len(Compression::Zstd, &lies) <= lies.len() << 15);
    }
}

/// Whatever window is asked for, none is made: two gibibytes, and the most that a header can say.
#[test]
fn a_large_window_takes_no_memory() {
    let blocks = block(RAW | LAST, 3, b"abc");
    for log in [10, 20, 27, 31] {
        assert_inflates(Compression::Zstd, &windowed(log, &blocks), b"abc");
    }
    assert_malformed(Compression::Zstd, &windowed(41, &blocks));
}

#[test]
fn what_is_not_supported_or_reserved_is_refused() {
    let blocks = block(RAW | LAST, 3, b"abc");
    // A dictionary of the number 5, and the reserved bit.
    assert_malformed(Compression::Zstd, &[&MAGIC[..], &[1, 0, 5], &blocks].concat());
    assert_malformed(Compression::Zstd, &[&MAGIC[..], &[8, 0], &blocks].concat());
    // The reserved kind of block, and a block without an end.
    assert_malformed(Compression::Zstd, &windowed(20, &block(3 << 1 | LAST, 3, b"abc")));
    assert_malformed(Compression::Zstd, &windowed(20, &block(RAW, 3, b"abc")));
    // Formats from before the standard, which begin with other numbers.
    for first in 0x22..0x28 {
        assert_malformed(Compression::Zstd, &[&[first], &MAGIC[1..], &[0, 80], &blocks].concat());
    }
}

#[test]
fn a_wrong_checksum_is_refused() {
    let packed = pack_checked(&text(1000));
    for at in packed.len() - 4..packed.len() {
        let mut wrong = packed.clone();
        wrong[at] ^= 1;
        assert_malformed(Compression::Zstd, &wrong);
        assert_malformed(Compression::Zstd, &[&wrong[..], &packed].concat());
    }
}

/// A gibibyte of zeroes in 32 KiB: blocks of one byte repeated.
#[test]
fn a_bomb_stops_at_the_cap() {
    let blocks = block(RLE, 128 << 10, &[0]).repeat(8192);
    let with_last = [&blocks[4..], &block(RLE | LAST, 128 << 10, &[0])].concat();
    let mut inflater = Inflater::new().unwrap();
    for bomb in [sized(1 << 30, &with_last), windowed(20, &with_last)] {
        println!("{} bytes", bomb.len());
        for room in [0, 1, 131_072, 131_073, 8 << 20] {
            let got = inflated(&mut inflater, Compression::Zstd, &bomb, room).map(|got| got.len());
            assert_eq!(got, Err(InflateError::Full), "{room}");
        }
    }
    assert_eq!(expected_len(Compression::Zstd, &sized(1 << 30, &with_last)), 1 << 30);
    let short = windowed(20, &[&blocks[..4], &block(RLE | LAST, 9, &[0])].concat());
    assert_inflates(Compression::Zstd, &short, &vec![0; (128 << 10) + 9]);
}
