//! Inflating, held against encoders that share no code with it, and against hostile bytes.
//!
//! Here: samples, and what the tests ask of an inflater. What is particular to a codec stands in its
//! own file.

mod batches;
mod captured;
mod every_codec;
#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(feature = "zstd")]
mod zstd;

use super::*;
use crate::protocol::rng::Rng;

/// Compresses.
type Pack = fn(&[u8]) -> Vec<u8>;

/// One way of writing a codec.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "a build without codecs makes none")]
struct Packer {
    name: &'static str,
    codec: Compression,
    pack: Pack,
    /// No byte of the records can change without being noticed.
    checked: bool,
    /// The stream says how long it is inflated.
    announces: bool,
}

/// All ways of writing the codecs of this build.
fn packers() -> Vec<Packer> {
    let all: &[&[Packer]] = &[
        #[cfg(feature = "gzip")]
        gzip::PACKERS,
        #[cfg(feature = "snappy")]
        snappy::PACKERS,
        #[cfg(feature = "lz4")]
        lz4::PACKERS,
        #[cfg(feature = "zstd")]
        zstd::PACKERS,
    ];
    all.concat()
}

fn noise(len: usize) -> Vec<u8> {
    let mut rng = Rng(7);
    (0..len).map(|_| (rng.next() >> 56) as u8).collect()
}

/// Text with a number in each line, so that it repeats, but not as a whole.
fn text(len: usize) -> Vec<u8> {
    let mut rng = Rng(8);
    let mut out = vec![];
    while out.len() < len {
        let line = format!("record {} of the topic {}\n", rng.next() % 1000, rng.next() % 7);
        out.extend_from_slice(line.as_bytes());
    }
    out.truncate(len);
    out
}

/// Samples of all kinds and of sizes around what blocks and windows are.
fn samples() -> Vec<Vec<u8>> {
    let mut all = vec![vec![], vec![9], text(2), text(100), vec![3; 1000]];
    for len in [32 << 10, 64 << 10, 128 << 10] {
        all.extend([text(len - 1), text(len), text(len + 1), noise(len + 1), vec![0; len]]);
    }
    all.push(text(700_000));
    // Noise between equal text: what is stored and what is compressed, in turns.
    all.push([text(70_000), noise(70_000), text(70_000), noise(70_000)].concat());
    all
}

/// What stands behind the room, and must stay.
const GUARD: u8 = 0xa5;

/// Inflates into `room` bytes between guards.
fn inflated(
    inflater: &mut Inflater,
    codec: Compression,
    from: &[u8],
    room: usize,
) -> Result<Vec<u8>, InflateError> {
    let mut to = vec![GUARD; 64 + room + 64];
    let result = inflater.inflate(codec, from, &mut to[64..64 + room]);
    assert!(to[..64].iter().all(|byte| *byte == GUARD), "written before the room");
    assert!(to[64 + room..].iter().all(|byte| *byte == GUARD), "written behind the room");
    let len = result?;
    assert!(len <= room, "{len} bytes in room for {room}");
    Ok(to[64..64 + len].to_vec())
}

/// Inflates what cannot be.
#[track_caller]
fn assert_malformed(codec: Compression, from: &[u8]) {
    let got = inflated(&mut Inflater::new().unwrap(), codec, from, 1 << 20);
    let got = got.map(|got| got.len());
    assert!(matches!(got, Err(InflateError::Malformed(_))), "{got:?}");
}

/// Inflates what is sound.
#[track_caller]
fn assert_inflates(codec: Compression, from: &[u8], expected: &[u8]) {
    let mut inflater = Inflater::new().unwrap();
    for room in [expected.len(), expected.len() + 1, expected.len() + 100_000] {
        let got = inflated(&mut inflater, codec, from, room);
        assert!(got.as_deref() == Ok(expected), "{:?}", got.map(|got| got.len()));
    }
    if let Some(room) = expected.len().checked_sub(1) {
        assert_eq!(inflated(&mut inflater, codec, from, room), Err(InflateError::Full));
    }
}
