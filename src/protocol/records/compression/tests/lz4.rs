//! LZ4 frames, written by lz4_flex's frame writer, which kloop's reader is not made of, and by hand.

use super::*;
use lz4_flex::block::compress;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use std::io::Write;

pub(super) const PACKERS: &[Packer] = &[
    Packer {
        name: "lz4, as Java",
        codec: Compression::Lz4,
        pack: pack_as_java,
        checked: false,
        announces: false,
    },
    Packer {
        name: "lz4, linked",
        codec: Compression::Lz4,
        pack: pack_linked,
        checked: false,
        announces: true,
    },
    Packer {
        name: "lz4, checked",
        codec: Compression::Lz4,
        pack: pack_checked,
        checked: true,
        announces: true,
    },
];

const MAGIC: [u8; 4] = [4, 0x22, 0x4d, 0x18];
/// Version 1, independent blocks.
const PLAIN: u8 = 0x60;
const MAX_64_KIB: u8 = 0x40;
const END: [u8; 4] = [0; 4];
const STORED: u32 = 1 << 31;

fn packed_as(info: FrameInfo, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, vec![]);
    encoder.write_all(bytes).unwrap();
    // Without a byte the encoder would write no header either.
    encoder.flush().unwrap();
    encoder.finish().unwrap()
}

/// As Kafka's own client: independent blocks of 64 KiB, and nothing optional.
fn pack_as_java(bytes: &[u8]) -> Vec<u8> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB);
    packed_as(info.block_mode(BlockMode::Independent), bytes)
}

fn pack_linked(bytes: &[u8]) -> Vec<u8> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Linked);
    packed_as(info.content_size(Some(bytes.len() as u64)), bytes)
}

fn pack_checked(bytes: &[u8]) -> Vec<u8> {
    let info = FrameInfo::new().block_size(BlockSize::Max4MB).block_checksums(true);
    packed_as(info.content_checksum(true).content_size(Some(bytes.len() as u64)), bytes)
}

/// Magic and descriptor with the header checksum.
fn header(flags: u8, sizes: u8, content_size: Option<u64>) -> Vec<u8> {
    let mut descriptor = vec![flags, sizes];
    descriptor.extend(content_size.iter().flat_map(|size| size.to_le_bytes()));
    let sum = xxhash_rust::xxh32::xxh32(&descriptor, 0);
    [&MAGIC[..], &descriptor, &[(sum >> 8) as u8]].concat()
}

fn block(size: u32, bytes: &[u8]) -> Vec<u8> {
    [&size.to_le_bytes()[..], bytes].concat()
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let bytes = compress(bytes);
    block(bytes.len() as u32, &bytes)
}

fn stored(bytes: &[u8]) -> Vec<u8> {
    block(bytes.len() as u32 | STORED, bytes)
}

fn skippable(low: u8, bytes: &[u8]) -> Vec<u8> {
    let magic = [0x50 | low, 0x2a, 0x4d, 0x18];
    [&magic, &(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

#[test]
fn all_kinds_of_frames_come_out() {
    let sizes = [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB];
    let long = [text(90_000), noise(300_000), text(4_000_000), vec![7; 300_000]].concat();
    let mut inflater = Inflater::new().unwrap();
    for kind in 0..64 {
        let bit = |at: u32| kind >> at & 1 != 0;
        let mode = if bit(0) { BlockMode::Linked } else { BlockMode::Independent };
        let info = FrameInfo::new().block_mode(mode).block_size(sizes[kind >> 4]);
        let info = info.block_checksums(bit(1)).content_checksum(bit(2));
        // The long one once for each size of blocks and each mode.
        let short = &long[..100_000];
        for sample in [&[][..], short, &long].into_iter().take(2 + usize::from(kind & 14 == 6)) {
            let size = bit(3).then_some(sample.len() as u64);
            let packed = packed_as(info.clone().content_size(size), sample);
            let got = inflated(&mut inflater, Compression::Lz4, &packed, sample.len());
            assert!(got.as_deref() == Ok(sample), "kind {kind}: {:?}", got.map(|got| got.len()));
        }
    }
}

#[test]
fn linked_blocks_look_back_as_far_as_they_may() {
    // Noise that comes again in the next block, over several blocks.
    let once = noise(60_000);
    let sample = once.repeat(5);
    let packed = pack_linked(&sample);
    assert!(packed.len() < 3 * once.len(), "{} bytes: nothing looks back", packed.len());
    assert_inflates(Compression::Lz4, &packed, &sample);
    // What is stored is looked back to as well. The second block: no literal, 8 bytes from 3 back,
    // then 5 literals, which is how blocks end.
    let again = block(9, &[4, 3, 0, 0x50, b'w', b'x', b'y', b'z', b'!']);
    let frame =
        |flags| [&header(flags, MAX_64_KIB, None)[..], &stored(b"abc"), &again, &END].concat();
    assert_inflates(Compression::Lz4, &frame(0x40), b"abcabcabcabwxyz!");
    assert_malformed(Compression::Lz4, &frame(PLAIN));
    // The farthest: 65535 bytes, of which none is in the block itself.
    let (far, again) = (noise(64 << 10), block(9, &[4, 0xff, 0xff, 0x50, 1, 2, 3, 4, 5]));
    let frame = [&header(0x40, MAX_64_KIB, None)[..], &stored(&far), &again, &END].concat();
    let expected = [&far[..], &far[1..9], &[1, 2, 3, 4, 5]].concat();
    assert_inflates(Compression::Lz4, &frame, &expected);
    // But not into the frame before.
    let second = [&header(0x40, MAX_64_KIB, None)[..], &again, &END].concat();
    assert_malformed(Compression::Lz4, &[pack_linked(b"abc"), second].concat());
}

#[test]
fn frames_follow_each_other_and_some_are_skipped() {
    let (one, two) = (text(100_000), noise(70_000));
    let frames = [
        skippable(0, b""),
        pack_linked(&one),
        skippable(7, b"passed over"),
        pack_checked(&two),
        pack_as_java(&[]),
        pack_as_java(&one),
        skippable(15, &[0; 300]),
    ];
    let expected = [&one[..], &two, &one].concat();
    assert_inflates(Compression::Lz4, &frames.concat(), &expected);
    assert_inflates(Compression::Lz4, &skippable(3, b"alone"), b"");
    for len in 1..8 {
        assert_malformed(Compression::Lz4, &skippable(3, b"alone")[..len]);
    }
    assert_malformed(Compression::Lz4, &[&skippable(3, &[])[..4], &[0xff; 4], b"short"].concat());
}

#[test]
fn headers_that_cannot_be_are_refused() {
    let rest = [stored(b"abc"), END.to_vec()].concat();
    let frame = |flags, sizes| [&header(flags, sizes, None)[..], &rest].concat();
    assert_inflates(Compression::Lz4, &frame(PLAIN, MAX_64_KIB), b"abc");
    // With a dictionary, with the reserved bit, of version 0, 2 and 3.
    for flags in [PLAIN | 1, PLAIN | 2, 0x20, 0xa0, 0xe0] {
        assert_malformed(Compression::Lz4, &frame(flags, MAX_64_KIB));
    }
    for sizes in (0..=255).filter(|sizes| ![0x40, 0x50, 0x60, 0x70].contains(sizes)) {
        assert_malformed(Compression::Lz4, &frame(PLAIN, sizes));
    }
    // A wrong header checksum, of which the older framing of Kafka's client is one: it was computed
    // over the magic as well.
    let mut wrong = frame(PLAIN, MAX_64_KIB);
    wrong[6] = (xxhash_rust::xxh32::xxh32(&wrong[..6], 0) >> 8) as u8;
    assert_malformed(Compression::Lz4, &wrong);
    // The legacy format.
    assert_malformed(Compression::Lz4, &[&[2, 0x21, 0x4c, 0x18][..], &rest].concat());
}

#[test]
fn blocks_longer_than_their_frame_allows_are_refused() {
    let frame = |block: &[u8]| [&header(PLAIN, MAX_64_KIB, None)[..], block, &END].concat();
    for whole in [text(64 << 10), noise(64 << 10)] {
        assert_inflates(Compression::Lz4, &frame(&compressed(&whole)), &whole);
        assert_inflates(Compression::Lz4, &frame(&stored(&whole)), &whole);
    }
    for longer in [text((64 << 10) + 1), noise((64 << 10) + 1), vec![0; 1 << 20]] {
        assert_malformed(Compression::Lz4, &frame(&compressed(&longer)));
        assert_malformed(Compression::Lz4, &frame(&stored(&longer)));
    }
    for size in [u32::MAX, u32::MAX >> 1, 4, 100] {
        assert_malformed(
            Compression::Lz4,
            &[&header(PLAIN, MAX_64_KIB, None)[..], &block(size, b"abc")].concat(),
        );
    }
    // An empty block that is stored does not end a frame.
    let parts = [stored(b"abc"), stored(b""), stored(b"def")].concat();
    assert_inflates(Compression::Lz4, &frame(&parts), b"abcdef");
}

#[test]
fn checksums_and_lengths_are_looked_at() {
    let sample = text(1000);
    let packed = pack_checked(&sample);
    // The last byte of the block's checksum, and each of the content's.
    for at in [5, 1, 2, 3, 4, 9].map(|back| packed.len() - back) {
        let mut wrong = packed.clone();
        wrong[at] ^= 0x10;
        assert_malformed(Compression::Lz4, &wrong);
    }
    // A missing end mark.
    let plain = pack_as_java(&sample);
    assert_malformed(Compression::Lz4, &plain[..plain.len() - 4]);
    assert_malformed(Compression::Lz4, &[&plain[..plain.len() - 4], &plain].concat());
    let sized = |size| {
        [header(PLAIN | 8, MAX_64_KIB, Some(size)), compressed(&sample), END.to_vec()].concat()
    };
    assert_inflates(Compression::Lz4, &sized(1000), &sample);
    for size in [0, 999, 1001, 1 << 62, u64::MAX] {
        assert_malformed(Compression::Lz4, &sized(size));
    }
    let lies = sized(1 << 62);
    assert_eq!(expected_len(Compression::Lz4, &lies), lies.len() * 255);
    assert_eq!(expected_len(Compression::Lz4, b"none"), 16);
}

/// A gibibyte of zeroes: a block of four mebibytes, over and over.
#[test]
fn a_bomb_stops_at_the_cap() {
    let full = compressed(&vec![0; 4 << 20]);
    let mut inflater = Inflater::new().unwrap();
    for flags in [0x40, PLAIN] {
        let bomb =
            [header(flags | 8, 0x70, Some(1 << 30)), full.repeat(256), END.to_vec()].concat();
        println!("{} bytes", bomb.len());
        assert_eq!(expected_len(Compression::Lz4, &bomb), 1 << 30);
        for room in [0, 1, 65_536, 4 << 20, (4 << 20) + 1, (12 << 20) - 1] {
            let got = inflated(&mut inflater, Compression::Lz4, &bomb, room).map(|got| got.len());
            assert_eq!(got, Err(InflateError::Full), "{room}");
        }
    }
}
