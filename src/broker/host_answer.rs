//! The frame of an answer that the host gives: kloop's header, and a copy of the host's body.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::error::Error;
use crate::net::pool::Priority;
use crate::net::{BufferPool, SendBuilder, SharedLease};
use crate::protocol::{ApiKey, ResponseHeader, Writer};

/// The longest header of a response.
pub(crate) const HEADER: usize = 5;

/// What the header of the answer says, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The API.
    pub key: ApiKey,
    /// The version.
    pub version: i16,
    /// The answer repeats it.
    pub correlation_id: i32,
}

/// How much room to begin a send with for a body of these parts: for all of it if a block of the
/// pool holds that, else for the header alone.
pub(crate) fn room_for(pool: &BufferPool, parts: &[&[u8]]) -> usize {
    let whole = HEADER + total(parts);
    // The four size bytes are the frame's own.
    if whole + 4 <= pool.largest() { whole } else { HEADER }
}

/// Writes the answer into a send with room for the header at least. A body without room there goes
/// into blocks of the pool.
///
/// # Errors
/// [`Error::Exhausted`] if the pool has no block now, [`Error::Invalid`] for a body over what a frame
/// can hold: the send is then as it was.
pub(crate) fn fill(
    send: &mut SendBuilder,
    pool: &BufferPool,
    asked: Asked,
    parts: &[&[u8]],
) -> Result<(), Error> {
    let inside = HEADER + total(parts) <= send.room();
    let mut blocks: [SharedLease; SendBuilder::MAX_PIECES] = [const { SharedLease::empty() }; _];
    if !inside {
        copy_into_blocks(pool, parts, &mut blocks)?;
    }
    seal(send, asked, if inside { parts } else { &[] }, &mut blocks)
}

/// Writes the header, `parts` that fit behind it, and `blocks` behind those.
///
/// # Errors
/// [`Error::Bug`] if there is no room for them.
pub(crate) fn seal(
    send: &mut SendBuilder,
    asked: Asked,
    parts: &[&[u8]],
    blocks: &mut [SharedLease],
) -> Result<(), Error> {
    let mut w = Writer::new(send.scratch());
    let header = ResponseHeader { correlation_id: asked.correlation_id };
    header.write(&mut w, asked.key, asked.version);
    parts.iter().for_each(|part| w.bytes(part));
    let len = w.finish().map_err(Error::Bug)?;
    send.advance(len);
    for block in blocks {
        let block = core::mem::replace(block, SharedLease::empty());
        let one_too_many = Error::Bug("a new frame has fewer places for pieces than it may hold");
        send.append(block).map_err(|_| one_too_many)?;
    }
    Ok(())
}

/// Copies the parts into blocks of the pool, as few as hold them.
///
/// # Errors
/// As [`fill`].
pub(crate) fn copy_into_blocks(
    pool: &BufferPool,
    parts: &[&[u8]],
    blocks: &mut [SharedLease],
) -> Result<(), Error> {
    const TOO_LARGE: Error = Error::Invalid("the answer is larger than a frame can be");
    let mut left = total(parts);
    // Said before memory is looked for: waiting for some would not help.
    let most = pool.largest().saturating_mul(blocks.len()).min(pool.total());
    if left > most.min(i32::MAX as usize - HEADER) {
        return Err(TOO_LARGE);
    }
    let mut places = blocks.iter_mut();
    let (mut parts, mut part) = (parts.iter(), &[][..]);
    while left > 0 {
        let place = places.next().ok_or(TOO_LARGE)?;
        let len = left.min(pool.largest());
        let lease = pool.lease(len, Priority::Data);
        let mut lease = lease.ok_or(Error::Exhausted("the buffer pool"))?;
        let mut w = Writer::new(&mut lease);
        while w.len() < len {
            if part.is_empty() {
                part = parts.next().ok_or(Error::Bug("a part of an answer is missing"))?;
            }
            let (now, later) = part.split_at(part.len().min(len - w.len()));
            w.bytes(now);
            part = later;
        }
        left -= len;
        *place = lease.share(len);
    }
    Ok(())
}

fn total(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).fold(0, usize::saturating_add)
}
