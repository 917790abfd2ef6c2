//! LZ4: frames of blocks, each up to 4 MiB, independent of each other or linked to the 64 KiB before.

use super::inflater::{InflateError, bad};
use lz4_flex::block::{DecompressError, decompress_into_with_dict};
use xxhash_rust::xxh32::xxh32;

const MAGIC: u32 = 0x184d_2204;
/// Frames with any of these sixteen magics are passed over.
const SKIPPABLE: u32 = 0x184d_2a50;
/// Bits of the first byte of the descriptor; the version is 1.
const VERSION_MASK: u8 = 0xc0;
const VERSION: u8 = 0x40;
const INDEPENDENT: u8 = 0x20;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const RESERVED_OR_DICTIONARY: u8 = 0x03;
/// A block that is not compressed.
const STORED: u32 = 1 << 31;
/// How far a linked block looks back.
const WINDOW: usize = 64 << 10;

/// What a frame's descriptor says.
#[derive(Clone, Copy)]
struct Descriptor {
    flags: u8,
    block_max: usize,
    content_size: Option<u64>,
}

pub(super) fn inflate(from: &[u8], to: &mut [u8]) -> Result<usize, InflateError> {
    let (mut rest, mut done) = (from, 0);
    loop {
        if let Some(after) = after_skippable(rest)? {
            rest = after;
        } else {
            let (after, made) = frame(rest, to.get_mut(done..).unwrap_or_default())?;
            rest = after;
            done += made;
        }
        if rest.is_empty() {
            return Ok(done);
        }
    }
}

/// What follows one frame, and how many bytes came out of it.
fn frame<'a>(from: &'a [u8], to: &mut [u8]) -> Result<(&'a [u8], usize), InflateError> {
    let (descriptor, mut rest) = descriptor(from)?;
    let mut done = 0;
    loop {
        let (size, after) = word(rest)?;
        rest = after;
        if size == 0 {
            break;
        }
        let len = (size & !STORED) as usize;
        let Some((block, after)) = rest.split_at_checked(len) else { return cut_off() };
        rest = after;
        if descriptor.flags & BLOCK_CHECKSUM != 0 {
            let (sum, after) = word(rest)?;
            rest = after;
            if sum != xxh32(block, 0) {
                return bad("an lz4 block whose checksum is wrong");
            }
        }
        done += inflate_block(block, size & STORED != 0, descriptor, to, done)?;
    }
    let whole = to.get(..done).unwrap_or(&[]);
    if descriptor.flags & CONTENT_CHECKSUM != 0 {
        let (sum, after) = word(rest)?;
        rest = after;
        if sum != xxh32(whole, 0) {
            return bad("an lz4 frame whose checksum is wrong");
        }
    }
    if descriptor.content_size.is_some_and(|size| size != done as u64) {
        return bad("an lz4 frame of another length than it says");
    }
    Ok((rest, done))
}

/// Inflates a block behind the `done` bytes of its frame; gives how many bytes that are.
fn inflate_block(
    block: &[u8],
    stored: bool,
    descriptor: Descriptor,
    to: &mut [u8],
    done: usize,
) -> Result<usize, InflateError> {
    let (before, room) = to.split_at_mut_checked(done).unwrap_or_default();
    let room_len = room.len().min(descriptor.block_max);
    let too_long = |len: usize| match len > descriptor.block_max {
        true => bad("an lz4 block that is longer than its frame allows"),
        false => Err(InflateError::Full),
    };
    if stored {
        return match room.get_mut(..block.len()).filter(|_| block.len() <= descriptor.block_max) {
            Some(room) => {
                room.copy_from_slice(block);
                Ok(block.len())
            }
            None => too_long(block.len()),
        };
    }
    let window = match descriptor.flags & INDEPENDENT {
        0 => before.get(done.saturating_sub(WINDOW)..).unwrap_or(&[]),
        _ => &[],
    };
    let room = room.get_mut(..room_len).unwrap_or_default();
    match decompress_into_with_dict(block, room, window) {
        Ok(len) => Ok(len),
        Err(DecompressError::OutputTooSmall { .. }) if room_len == descriptor.block_max => {
            too_long(usize::MAX)
        }
        Err(DecompressError::OutputTooSmall { .. }) => Err(InflateError::Full),
        Err(_) => bad("an lz4 block that cannot be"),
    }
}

/// The descriptor of the frame at the front, and what follows it.
fn descriptor(from: &[u8]) -> Result<(Descriptor, &[u8]), InflateError> {
    let (magic, from) = word(from)?;
    if magic != MAGIC {
        return bad("not an lz4 frame");
    }
    let Some((&[flags, sizes], _)) = from.split_first_chunk::<2>() else { return cut_off() };
    if flags & VERSION_MASK != VERSION || flags & RESERVED_OR_DICTIONARY != 0 {
        return bad("an lz4 frame of another version, or with a dictionary");
    }
    let block_max = match sizes {
        0x40 => 64 << 10,
        0x50 => 256 << 10,
        0x60 => 1 << 20,
        0x70 => 4 << 20,
        _ => return bad("an lz4 frame with a block size that does not exist"),
    };
    let sized = flags & CONTENT_SIZE != 0;
    let len = if sized { 10 } else { 2 };
    let Some((descriptor, rest)) = from.split_at_checked(len) else { return cut_off() };
    let Some((&sum, rest)) = rest.split_first() else { return cut_off() };
    if sum != (xxh32(descriptor, 0) >> 8) as u8 {
        return bad("an lz4 frame whose header checksum is wrong");
    }
    let size = descriptor.last_chunk::<8>().map(|size| u64::from_le_bytes(*size));
    Ok((Descriptor { flags, block_max, content_size: size.filter(|_| sized) }, rest))
}

/// What follows the frame at the front if it is one to pass over.
fn after_skippable(from: &[u8]) -> Result<Option<&[u8]>, InflateError> {
    let (magic, rest) = word(from)?;
    if magic & !0xf != SKIPPABLE {
        return Ok(None);
    }
    let (len, rest) = word(rest)?;
    match rest.get(len as usize..) {
        Some(rest) => Ok(Some(rest)),
        None => cut_off(),
    }
}

fn word(from: &[u8]) -> Result<(u32, &[u8]), InflateError> {
    match from.split_first_chunk::<4>() {
        Some((word, rest)) => Ok((u32::from_le_bytes(*word), rest)),
        None => cut_off(),
    }
}

fn cut_off<T>() -> Result<T, InflateError> {
    bad("an lz4 frame that is cut off")
}

/// The length in the first frame's descriptor.
pub(super) fn announced(from: &[u8]) -> Option<usize> {
    usize::try_from(descriptor(from).ok()?.0.content_size?).ok()
}
