//! ProducerBatch: one batch from its first record to its outcome.
//!
//! Records are encoded once, into a pool block, and the host's tokens into another. When the batch
//! is sent it is sealed: from then on the block is shared and read only, and the socket reads from
//! it. Numbering it anew (a new epoch) makes a copy, since the old bytes may still be on their way.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::sequence::Sequence;
use crate::client::{OutRecord, Outcome, TopicId};
use crate::error::Error;
use crate::net::BufferPool;
use crate::net::pool::{Lease, Priority, SharedLease};
use crate::net::slots::SlotId;
use crate::protocol::records::{BatchBuilder, HeaderRef, Seal};
use crate::time::Instant;

/// No batch.
pub(in crate::client) const NO_BATCH: u32 = u32::MAX;
/// Bytes of a host's token.
const TOKEN: usize = 8;

/// Where a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum BatchState {
    /// In its partition's queue; takes records while it is the last one there and not full.
    Waiting,
    /// In a request that was sent.
    InFlight,
    /// Its outcome is known. It may still be in a request whose answer will be ignored.
    Finished,
}

#[derive(Debug)]
enum Body {
    Open(Lease),
    Sealed(SharedLease),
    Gone,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct End {
    pub(in crate::client) outcome: Outcome,
    pub(in crate::client) error: Option<Error>,
    pub(in crate::client) base_offset: i64,
}

/// What became of a record that was to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Appended {
    /// It is in; the batch grew by so many bytes.
    Grown(usize),
    /// The batch has no room for it and takes no more.
    Full,
    /// There is no memory for its token.
    NoMemory,
}

#[derive(Debug)]
pub(in crate::client) struct ProducerBatch {
    pub(in crate::client) producer: SlotId,
    pub(in crate::client) topic: TopicId,
    pub(in crate::client) partition: i32,
    /// The partition's dense number.
    pub(in crate::client) part: u32,
    /// Rises with every batch of the producer: the order of sending and of flushes.
    pub(in crate::client) order: u64,
    pub(in crate::client) expires: Instant,
    pub(in crate::client) state: BatchState,
    /// How often it was sent.
    pub(in crate::client) attempts: u32,
    /// It was sent and the answer did not come: the broker may have it.
    pub(in crate::client) doubt: bool,
    /// It need not wait for more records.
    pub(in crate::client) due: bool,
    /// It takes no more records.
    pub(in crate::client) full: bool,
    /// It waits before it is sent again.
    pub(in crate::client) backing_off: bool,
    /// The leader's epoch when it was sent last.
    pub(in crate::client) epoch: i32,
    pub(in crate::client) sequence: Option<Sequence>,
    /// Its numbers were changed since it was last sent.
    pub(in crate::client) renumbered: bool,
    /// It is part of a request that was not answered.
    pub(in crate::client) in_request: bool,
    /// The next one in its partition's queue.
    pub(in crate::client) next: u32,
    /// The next one in its request.
    pub(in crate::client) next_in_request: u32,
    pub(in crate::client) end: Option<End>,
    builder: BatchBuilder,
    body: Body,
    /// The numbers that the sealed bytes bear.
    sealed: Option<Sequence>,
    tokens: Option<Lease>,
    /// Bytes of the record block that count against the producer's memory.
    held: usize,
}

/// What a new batch is given.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct BatchPlace {
    pub(in crate::client) producer: SlotId,
    pub(in crate::client) topic: TopicId,
    pub(in crate::client) partition: i32,
    pub(in crate::client) part: u32,
    pub(in crate::client) order: u64,
    pub(in crate::client) expires: Instant,
}

impl ProducerBatch {
    /// An empty batch that holds `size` bytes; `None` if the pool has no memory for it.
    pub(in crate::client) fn new(
        place: BatchPlace,
        size: usize,
        pool: &BufferPool,
    ) -> Option<Self> {
        let body = pool.lease(size, Priority::Records)?;
        let tokens = pool.lease(TOKEN, Priority::Records)?;
        let BatchPlace { producer, topic, partition, part, order, expires } = place;
        Some(ProducerBatch {
            producer,
            topic,
            partition,
            part,
            order,
            expires,
            state: BatchState::Waiting,
            attempts: 0,
            doubt: false,
            due: false,
            full: false,
            backing_off: false,
            epoch: -1,
            sequence: None,
            renumbered: false,
            in_request: false,
            next: NO_BATCH,
            next_in_request: NO_BATCH,
            end: None,
            builder: BatchBuilder::new(),
            held: body.len(),
            body: Body::Open(body),
            sealed: None,
            tokens: Some(tokens),
        })
    }

    /// Bytes that it holds of its producer's memory.
    pub(in crate::client) fn held(&self) -> usize {
        self.held
    }

    /// Bytes of the batch, header included.
    pub(in crate::client) fn len(&self) -> usize {
        self.builder.len()
    }

    /// Records in it.
    pub(in crate::client) fn count(&self) -> i32 {
        self.builder.count()
    }

    /// Appends a record if the batch stays within `limit` bytes; the first may exceed it.
    #[inline]
    pub(in crate::client) fn append<'h>(
        &mut self,
        record: &OutRecord<'_>,
        headers: impl Iterator<Item = HeaderRef<'h>> + Clone,
        timestamp_ms: i64,
        limit: usize,
        pool: &BufferPool,
    ) -> Appended {
        let at = self.builder.count() as usize * TOKEN;
        if self.tokens.as_ref().is_none_or(|tokens| at + TOKEN > tokens.len())
            && !self.grow_tokens(pool)
        {
            return Appended::NoMemory;
        }
        let Body::Open(body) = &mut self.body else { return Appended::Full };
        let room = if self.builder.is_empty() { body.len() } else { limit.min(body.len()) };
        let before = self.builder.len();
        let Some(room) = body.get_mut(..room) else { return Appended::Full };
        let (key, value) = (record.key, record.value);
        if self.builder.append(room, timestamp_ms, key, value, headers).is_none() {
            self.full = true;
            self.due = true;
            return Appended::Full;
        }
        let tokens = self.tokens.as_deref_mut().unwrap_or_default();
        if let Some(place) = tokens.get_mut(at..at + TOKEN) {
            place.copy_from_slice(&record.user.to_ne_bytes());
        }
        let grown = self.builder.len() - before;
        Appended::Grown(if before == BatchBuilder::new().len() { grown + before } else { grown })
    }

    /// Doubles the room for tokens.
    fn grow_tokens(&mut self, pool: &BufferPool) -> bool {
        let Some(old) = self.tokens.take() else { return false };
        let used = self.builder.count() as usize * TOKEN;
        let more = pool.lease(used + old.len(), Priority::Records);
        let grown = more.is_some();
        self.tokens = Some(match more {
            Some(mut more) => {
                if let (Some(to), Some(from)) = (more.get_mut(..used), old.get(..used)) {
                    to.copy_from_slice(from);
                }
                more
            }
            None => old,
        });
        grown
    }

    /// Makes the batch ready to be sent with its present numbers. `false`: the numbers have changed
    /// since it was sealed, and there is no memory for the copy.
    pub(in crate::client) fn seal(&mut self, pool: &BufferPool) -> bool {
        self.full = true;
        let numbers = self.sequence;
        let seal = numbers.map_or_else(Seal::default, |numbers| Seal {
            producer_id: numbers.producer.id,
            producer_epoch: numbers.producer.epoch,
            base_sequence: numbers.base,
            ..Seal::default()
        });
        let mut block = match core::mem::replace(&mut self.body, Body::Gone) {
            Body::Open(block) => block,
            Body::Sealed(old) if self.sealed == numbers => {
                self.body = Body::Sealed(old);
                return true;
            }
            Body::Sealed(old) => match pool.lease(old.len(), Priority::Data) {
                Some(mut block) => {
                    if let Some(to) = block.get_mut(..old.len()) {
                        to.copy_from_slice(&old);
                    }
                    block
                }
                None => {
                    self.body = Body::Sealed(old);
                    return false;
                }
            },
            Body::Gone => return false,
        };
        match self.builder.seal(&mut block, &seal) {
            Some(len) => {
                self.body = Body::Sealed(block.share(len));
                self.sealed = numbers;
                true
            }
            None => false,
        }
    }

    /// The bytes to send, once sealed.
    pub(in crate::client) fn payload(&self) -> Option<&SharedLease> {
        match &self.body {
            Body::Sealed(bytes) => Some(bytes),
            Body::Open(_) | Body::Gone => None,
        }
    }

    /// The outcome is known: the records are let go, the tokens stay for the event.
    pub(in crate::client) fn finish(&mut self, end: End) {
        self.state = BatchState::Finished;
        self.end = Some(end);
        self.body = Body::Gone;
    }

    /// The host's tokens, for the event; once.
    pub(in crate::client) fn take_users(&mut self) -> Option<SharedLease> {
        let len = self.builder.count() as usize * TOKEN;
        self.tokens.take().map(|tokens| tokens.share(len))
    }

    /// Whether the event was taken and no request knows the batch: its place is free.
    pub(in crate::client) fn is_over(&self) -> bool {
        self.state == BatchState::Finished && self.tokens.is_none() && !self.in_request
    }
}
