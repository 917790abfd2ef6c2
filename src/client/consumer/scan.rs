//! Scan: one walk over fetched batches: which of them are whole, sound and to be seen, and where
//! the next fetch goes on.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::error::Error;
use crate::net::BufferPool;
use crate::net::pool::{BATCH_BLOCK, Lease, Priority, SharedLease};
use crate::protocol::declare::Array;
use crate::protocol::messages::AbortedTransaction;
use crate::protocol::records::{BatchView, Batches, ControlType};

/// Aborted transactions in one partition's answer at most.
const MAX_ABORTED: usize = 256;

/// What a walk looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    /// The position: records before it were seen already.
    pub(super) position: i64,
    pub(super) check_crcs: bool,
    /// Transactions whose records are not to be seen.
    pub(super) aborted: Option<Array<'a, AbortedTransaction>>,
}

/// What a walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Where the first batch that is to be handed over begins, and where the last one ends.
    pub(super) range: (usize, usize),
    /// Records in it from the position on, that are to be seen; of a compressed batch in which the
    /// position lies, all.
    pub(super) count: u32,
    /// The position behind what was walked.
    pub(super) next: i64,
    /// What stopped the walk, if it was not the end.
    pub(super) error: Option<Error>,
    /// Batches within the range are not to be seen: the rest must be copied.
    pub(super) holes: bool,
    /// Batches that are to be seen are compressed.
    pub(super) compressed: bool,
}

/// Which aborted transactions have ended before the batch at hand.
struct Aborted<'a> {
    list: Array<'a, AbortedTransaction>,
    ended: [u64; MAX_ABORTED / 64],
}

impl<'a> Aborted<'a> {
    fn new(list: Array<'a, AbortedTransaction>) -> Self {
        Aborted { list, ended: [0; MAX_ABORTED / 64] }
    }

    /// Whether a batch is part of an aborted transaction. Control batches must be passed in order
    /// too: they end transactions.
    fn hides(&mut self, batch: &BatchView<'_>) -> bool {
        if !batch.attributes().is_transactional() {
            return false;
        }
        let ends = batch.attributes().is_control() && is_abort(batch);
        let mut hidden = false;
        for (i, aborted) in self.list.iter().enumerate() {
            let Some(word) = self.ended.get_mut(i / 64) else { break };
            let bit = 1u64 << (i % 64);
            if aborted.producer_id != batch.producer_id()
                || aborted.first_offset > batch.base_offset()
                || *word & bit != 0
            {
                continue;
            }
            hidden = true;
            if ends {
                *word |= bit;
            }
        }
        hidden
    }
}

fn is_abort(batch: &BatchView<'_>) -> bool {
    let first = batch.records().ok().and_then(|mut records| records.next());
    matches!(first, Some(Ok(record)) if record.control_type() == Ok(ControlType::Abort))
}

/// Walks `records`.
pub(super) fn scan(records: &[u8], rules: &Rules<'_>) -> Found {
    let mut found = Found {
        range: (0, 0),
        count: 0,
        next: rules.position,
        error: None,
        holes: false,
        compressed: false,
    };
    let none = Array::empty();
    let mut aborted = Aborted::new(rules.aborted.unwrap_or(none));
    if aborted.list.len() > MAX_ABORTED {
        found.error =
            Some(Error::Unsupported("more than 256 aborted transactions in one partition's fetch"));
        return found;
    }
    let mut batches = Batches::new(records);
    let mut at = 0;
    loop {
        let batch = match batches.next() {
            Some(Ok(batch)) => batch,
            Some(Err(bad)) => {
                found.error = Some(bad.into());
                break;
            }
            None => break,
        };
        let hidden = aborted.hides(&batch);
        match look(&batch, rules, found.next) {
            // Wholly before the position.
            Ok(None) => {}
            Ok(Some(count)) => {
                if hidden || batch.attributes().is_control() {
                    found.holes |= hidden;
                } else {
                    found.count = found.count.saturating_add(count);
                    found.compressed |= batch.attributes().is_compressed();
                }
                if found.range.1 == 0 {
                    found.range.0 = at;
                }
                found.range.1 = at + batch.total_len();
                found.next = batch.next_offset();
            }
            Err(error) => {
                found.error = Some(error);
                break;
            }
        }
        at += batch.total_len();
    }
    // Bytes, and not one batch that is whole: it does not fit.
    if found.error.is_none() && found.range.1 == 0 && !records.is_empty() {
        found.error = Some(if batches.rest().is_empty() {
            Error::Protocol("only records before the position were sent")
        } else {
            Error::TooLarge
        });
    }
    found
}

/// Checks one batch; gives how many of its records are at or behind the position, `None` if the
/// whole batch lies before it.
fn look(batch: &BatchView<'_>, rules: &Rules<'_>, next: i64) -> Result<Option<u32>, Error> {
    if rules.check_crcs && !batch.verify_crc() {
        return Err(Error::Protocol("a batch whose checksum is wrong"));
    }
    let (base, delta) = (batch.base_offset(), batch.last_offset_delta());
    if base < 0 || delta < 0 || base.checked_add(i64::from(delta) + 1).is_none() {
        return Err(Error::Protocol("a batch whose offsets cannot be"));
    }
    if batch.next_offset() <= rules.position {
        return Ok(None);
    }
    if next > rules.position && base < next {
        return Err(Error::Protocol("batches whose offsets go back"));
    }
    let attributes = batch.attributes();
    if attributes.compression().is_none() {
        return Err(Error::Protocol("a codec that does not exist"));
    }
    // Nobody compresses them, and what ends a transaction must not be overlooked.
    if attributes.is_control() && attributes.is_compressed() {
        return Err(Error::Protocol("a control batch that is compressed"));
    }
    let count =
        u32::try_from(batch.count()).ok().filter(|&count| i64::from(count) <= i64::from(delta) + 1);
    let count = count.ok_or(Error::Protocol("a batch whose record count cannot be"))?;
    if base >= rules.position || attributes.is_compressed() {
        return Ok(Some(count));
    }
    // The position lies within the batch.
    let records = batch.records().map_err(|_| Error::Protocol("a record count that cannot be"))?;
    let mut behind = 0;
    for record in records {
        let record = record.map_err(|bad| Error::Protocol(bad.0))?;
        behind += u32::from(batch.offset_of(&record) >= rules.position);
    }
    Ok(Some(behind))
}

/// A block of so many bytes, or one that every pool guarantees: those of sizes between are shared only,
/// and whoever waited for one might wait for ever.
pub(super) fn lease_of(pool: &BufferPool, size: usize) -> Option<Lease> {
    let largest = pool.largest();
    let sizes = [size, size.max(BATCH_BLOCK).min(largest), size.max(largest)];
    sizes.iter().find_map(|size| pool.lease(*size, Priority::Data))
}

/// Copies the batches of `range` that are to be seen into a block of their own; `None` if the pool
/// has none now. Only fetches that meet an aborted transaction pay for this.
pub(super) fn without_holes(
    records: &[u8],
    found: &Found,
    rules: &Rules<'_>,
    pool: &BufferPool,
) -> Option<SharedLease> {
    let mut aborted = Aborted::new(rules.aborted?);
    let mut block: Lease = lease_of(pool, found.range.1 - found.range.0)?;
    let (mut at, mut len) = (0, 0);
    for batch in Batches::new(records).flatten() {
        let hidden = aborted.hides(&batch);
        let end = at + batch.total_len();
        if !hidden && at >= found.range.0 && end <= found.range.1 {
            block.get_mut(len..len + batch.total_len())?.copy_from_slice(batch.bytes());
            len += batch.total_len();
        }
        at = end;
    }
    Some(block.share(len))
}
