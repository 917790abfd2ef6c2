//! Inflating, as the fuzzer does it: any bytes as any codec, into rooms of all sizes.

use super::{framed, walk};
use crate::protocol::records::batch::{ATTRIBUTES_AT, HEADER_LEN};
use crate::protocol::records::{BatchView, Compression, InflateError, Inflater, expected_len};

// Those that this build lacks too, so that an input means the same in every build.
const CODECS: [Compression; 4] =
    [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
/// How many bytes stand on either side of the room, and must stay.
const GUARD: usize = 64;

/// What a second byte means: all small rooms, and some up to 127 KiB.
fn room_of(pick: u8) -> usize {
    match usize::from(pick) {
        small @ ..128 => small,
        large => (large - 127) << 10,
    }
}

/// Calls `f` with room for `room` bytes between guards that are all `guard`, as the room is; gives
/// what came out.
fn guarded(
    room: usize,
    guard: u8,
    f: impl FnOnce(&mut [u8]) -> Result<usize, InflateError>,
) -> Result<Vec<u8>, InflateError> {
    let mut to = vec![guard; GUARD + room + GUARD];
    let result = f(&mut to[GUARD..GUARD + room]);
    assert!(to[..GUARD].iter().all(|byte| *byte == guard), "written before the room");
    assert!(to[GUARD + room..].iter().all(|byte| *byte == guard), "written behind the room");
    result.map(|len| to[GUARD..GUARD + room][..len].to_vec())
}

/// Inflates a batch with these records and walks it.
fn inflate_batch(inflater: &mut Inflater, codec: Compression, records: &[u8], room: usize) {
    let mut packed = framed(records);
    packed[ATTRIBUTES_AT + 1] = codec as u8;
    let batch = BatchView::parse(&packed).expect("a batch");
    let result = guarded(room, 0x3c, |to| inflater.inflate_batch(&batch, to));
    if let Ok(inflated) = result {
        let view = BatchView::parse(&inflated).expect("an inflated batch");
        assert!(view.verify_crc() && view.total_len() == inflated.len());
        assert_eq!((view.count(), view.attributes().compression_code()), (batch.count(), 0));
        walk(&inflated);
    }
}

/// Inflates `bytes`: the first one picks the codec, the second the room, and the third is how many
/// records a batch of the rest says it has.
pub fn fuzz_inflate(bytes: &[u8]) {
    let &[codec, pick, ref records @ ..] = bytes else { return };
    let (codec, room) = (CODECS[usize::from(codec) % CODECS.len()], room_of(pick));
    let stream = records.get(1..).unwrap_or(&[]);
    assert!(expected_len(codec, stream) <= stream.len() << 15);
    let mut inflater = Inflater::new().expect("memory");
    let first = guarded(room, 0xa5, |to| inflater.inflate(codec, stream, to));
    // Nothing depends on what the room held before, or on what was inflated before.
    let second = guarded(room, 0x5a, |to| inflater.inflate(codec, stream, to));
    assert_eq!(first, second);
    if let Ok(whole) = first {
        let exact = guarded(whole.len(), 0xff, |to| inflater.inflate(codec, stream, to));
        assert!(exact.as_deref() == Ok(&whole[..]), "not in the room that it takes");
        if let Some(less) = whole.len().checked_sub(1) {
            let full = guarded(less, 0xff, |to| inflater.inflate(codec, stream, to));
            assert_eq!(full, Err(InflateError::Full));
        }
    }
    inflate_batch(&mut inflater, codec, records, HEADER_LEN + room);
}
