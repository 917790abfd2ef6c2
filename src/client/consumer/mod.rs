//! Consumer: records of assigned partitions, from given positions on.
//!
//! **A partition's road.** Assigned at an offset, or *seeking* one (ListOffsets: end, beginning or a
//! time) → *reading*: it stands in the fetch list of the node that leads it → a Fetch takes all
//! that stand there → the answer's batches are checked where they were received and wait as one
//! event → the host takes the event, which moves the position → it is fetched again. If any of them
//! is compressed, they are inflated a block at a time, an event each, and only behind the last it is
//! fetched again (`compressed_fetch`). So a partition has one event at most, and what a host does not
//! take is not fetched further.
//!
//! **One Fetch per consumer and node.** The next goes out when the answer has come and *all* events
//! made of it were taken: a partition that was taken early must not start a Fetch that waits at the
//! broker while the others have records. When memory runs short, fewer go out (`fetch_window`).
//!
//! **What stops a partition**: a batch that is damaged, compressed by a codec that was not built, or
//! larger than the pool's largest block (as it came, or inflated), a code that does not go away, an
//! offset out of range with `auto.offset.reset=none`. One [`Failed`](super::ClientEvent::Failed) event
//! says why and where; the partition *parks* until it is assigned again.
//!
//! Absent: groups, fetch sessions, following a preferred replica, the check for a truncated log.

mod assigned;
mod compressed_fetch;
mod fetch_window;
mod fetcher;
mod reset;
mod scan;
mod subscription;

use super::ClientEvent;
use super::client::Client;
use super::config::ConsumerConfig;
use super::events::Source;
use super::metadata::NOBODY;
use crate::error::Error;
use crate::net::slots::SlotId;
pub(super) use assigned::Assignments;
use assigned::{Assigned, Kind, Pending, ReadState, Seek, Traffic};
pub(super) use compressed_fetch::INFLATE_TURN;

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) owner: u64,
    config: ConsumerConfig,
    /// By a partition's dense number its place in the table of assigned ones.
    by_part: Box<[u32]>,
    /// Rises with each assignment.
    round: u32,
    closing: bool,
}

impl Client {
    /// Adds a consumer, which reads nothing until it is given an assignment.
    ///
    /// # Errors
    /// [`Error::Exhausted`] for one too many.
    pub fn add_consumer(
        &mut self,
        config: ConsumerConfig,
        owner_value: u64,
    ) -> Result<SlotId, Error> {
        self.open()?;
        let by_part = core::iter::repeat_n(NOBODY, self.limits.max_partitions).collect();
        let consumer = Consumer { owner: owner_value, config, by_part, round: 0, closing: false };
        let inserted = self.consumers.insert(consumer);
        let id = inserted.map_err(|_| Error::Exhausted("consumers (max_consumers)"))?;
        for node in 0..self.limits.max_nodes as u32 {
            if let Some(traffic) = self.assigned.traffic_mut(id, node) {
                *traffic = Traffic::default();
            }
        }
        Ok(id)
    }

    /// Ends a consumer at once; events of it that were not taken are dropped.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Closed`] if it is closing already.
    pub fn close_consumer(&mut self, consumer: SlotId) -> Result<(), Error> {
        let entry = self.consumers.get_mut(consumer).ok_or(Error::Stale)?;
        if core::mem::replace(&mut entry.closing, true) {
            return Err(Error::Closed);
        }
        while let Some(index) = self.assigned.owned.front(consumer.index()) {
            self.unassign(index);
        }
        self.events.push(Source::ConsumerClosed(consumer.index() as u32));
        Ok(())
    }

    /// Takes the event of a partition: records first, then their end, then an error.
    pub(super) fn assigned_event(&mut self, index: u32) -> Option<ClientEvent> {
        let assigned = self.assigned.get_mut(index)?;
        let owner = self.consumers.get(assigned.consumer)?.owner;
        let (topic, partition) = (assigned.topic, assigned.partition);
        let event = if let Some(records) = assigned.records.take() {
            let from = core::mem::replace(&mut assigned.position, records.next);
            let Pending { batches, count, high_watermark, .. } = records;
            self.stats.records_fetched += u64::from(count);
            self.stats.bytes_fetched += batches.len() as u64;
            Some(ClientEvent::Records {
                owner,
                batches,
                from,
                count,
                high_watermark,
                topic,
                partition,
            })
        } else if let Some(offset) = assigned.eof.take() {
            assigned.eof_told = offset;
            Some(ClientEvent::Eof { owner, topic, partition, offset })
        } else if let Some((error, offset)) = assigned.failure.take() {
            Some(ClientEvent::Failed { owner, error, topic: Some(topic), partition, offset })
        } else {
            None
        };
        if assigned.eof.is_some() || assigned.failure.is_some() {
            self.events.push(Source::Assigned(index));
        } else {
            if assigned.compressed.is_none() {
                self.let_go(index);
            }
            self.relink_assigned(index);
        }
        event
    }

    /// A partition has another leader.
    pub(super) fn leader_changed_for_consumers(&mut self, part: u32) {
        for i in 0..self.consumers.capacity() {
            let Some((_, consumer)) = self.consumers.at(i) else { continue };
            let index = consumer.by_part.get(part as usize).copied().unwrap_or(NOBODY);
            if index == NOBODY {
                continue;
            }
            // What is in flight with the old leader is given up; its answer finds nobody.
            if self.assigned.is_sent(index) {
                self.assigned.lists.remove(index);
            }
            self.relink_assigned(index);
        }
    }
}
