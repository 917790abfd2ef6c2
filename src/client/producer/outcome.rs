//! Outcomes: what an answer, a lost connection or a deadline means for a batch.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::producer_batch::{BatchState, End, NO_BATCH};
use super::sequence::{Identity, ProducerId, Sequence, UNACKED_MAX};
use crate::client::Outcome;
use crate::client::client::Client;
use crate::client::events::Source;
use crate::error::Error;
use crate::net::slots::SlotId;
use crate::protocol::ErrorCode;
use crate::time::Instant;

/// What came back for one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The broker's answer: a code, the first record's offset, the log's start.
    Answer { code: ErrorCode, base_offset: i64, log_start: i64 },
    /// With acks=0: it is wholly written.
    Written,
    /// No answer will come. `sent` is false if it cannot have arrived in full.
    Lost { code: ErrorCode, sent: bool },
}

/// Codes after which the broker may have written the batch all the same.
fn leaves_doubt(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UNKNOWN_SERVER_ERROR
            | ErrorCode::REQUEST_TIMED_OUT
            | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
    )
}

/// Codes that say that the picture of the cluster is wrong.
pub(in crate::client) fn is_about_metadata(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::LEADER_NOT_AVAILABLE
            | ErrorCode::NOT_LEADER_OR_FOLLOWER
            | ErrorCode::REPLICA_NOT_AVAILABLE
            | ErrorCode::KAFKA_STORAGE_ERROR
            | ErrorCode::FENCED_LEADER_EPOCH
            | ErrorCode::UNKNOWN_LEADER_EPOCH
            | ErrorCode::LISTENER_NOT_FOUND
            | ErrorCode::UNKNOWN_TOPIC_ID
            | ErrorCode::NETWORK_EXCEPTION
    )
}

impl Client {
    /// A batch comes back from a request.
    pub(super) fn complete(&mut self, index: u32, verdict: Verdict, now: Instant) {
        let Some(batch) = self.batches.get_mut(index) else { return };
        batch.in_request = false;
        batch.next_in_request = NO_BATCH;
        let (producer, part, attempts) = (batch.producer, batch.part, batch.attempts);
        // An answer to numbers that it does not have any more says nothing about the present ones.
        let sequence = batch.sequence.filter(|_| !batch.renumbered);
        let (count, over) = (batch.count(), batch.end.is_some());
        if let Some(p) = self.producers.get_mut(producer)
            && let Some(queue) = p.queues.get_mut(part as usize)
        {
            queue.in_flight = queue.in_flight.saturating_sub(1);
            queue.retried = queue.retried.saturating_sub(u32::from(attempts > 1));
            let acked = matches!(verdict, Verdict::Answer { code, .. } if code.is_ok()
                || code == ErrorCode::DUPLICATE_SEQUENCE_NUMBER);
            // Even if it has expired since: the numbers were used up.
            if let Some(sequence) = sequence.filter(|_| acked) {
                queue.sequences.acked(sequence, count);
            }
        }
        if over {
            self.batches.free_if_over(index);
        } else {
            self.decide_outcome(index, verdict, now);
        }
        self.relink(producer, part);
        self.close_if_done(producer);
    }

    fn decide_outcome(&mut self, index: u32, verdict: Verdict, now: Instant) {
        let (code, base_offset, log_start) = match verdict {
            Verdict::Written => (ErrorCode::NONE, -1, -1),
            Verdict::Answer { code, base_offset, log_start } => (code, base_offset, log_start),
            Verdict::Lost { code, sent } => {
                self.set_doubt(index, sent);
                (code, -1, -1)
            }
        };
        // A repeated batch that is there already has no offset to tell (KIP-98).
        if code.is_ok() || code == ErrorCode::DUPLICATE_SEQUENCE_NUMBER {
            // Nor has an answer with one that no log can have: the host adds to it.
            let count = self.batches.get(index).map_or(0, |batch| i64::from(batch.count()));
            let sound = base_offset >= 0 && base_offset.checked_add(count).is_some();
            let base_offset = if code.is_ok() && sound { base_offset } else { -1 };
            self.finish(index, End { outcome: Outcome::Persisted, error: None, base_offset });
            return;
        }
        self.set_doubt(index, leaves_doubt(code));
        if is_about_metadata(code) {
            self.refresh.need();
        }
        let retry = self.may_retry(index, now) && self.worth_retrying(index, code, log_start);
        if retry {
            self.retry(index, now);
            return;
        }
        let definite = matches!(verdict, Verdict::Answer { .. }) && !code.is_retriable();
        let doubt = self.batches.get(index).is_some_and(|batch| batch.doubt);
        let hole = definite && !doubt && self.is_first(index);
        self.fail(index, code.into());
        if let Some((producer, part)) = self.place_of(index) {
            if hole {
                // It is certainly not there, so nothing behind it can be.
                self.start_over(producer, part);
            } else {
                // It, or one before it, may be there, and what is behind it too: they must keep
                // their numbers to be known again.
                self.set_unresolved(producer, part);
            }
        }
        if code == ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            && let Some((producer, _)) = self.place_of(index)
            && self.producers.get(producer).is_some_and(|p| p.config.idempotence)
        {
            self.fail_producer(producer, code.into());
        }
    }

    fn place_of(&self, index: u32) -> Option<(SlotId, u32)> {
        self.batches.get(index).map(|batch| (batch.producer, batch.part))
    }

    /// It is not known whether a batch's numbers are used up: nothing new goes out until it is.
    fn set_unresolved(&mut self, producer: SlotId, part: u32) {
        if let Some(p) = self.producers.get_mut(producer)
            && p.config.idempotence
            && let Some(queue) = p.queues.get_mut(part as usize)
        {
            queue.sequences.unresolved = true;
        }
    }

    fn set_doubt(&mut self, index: u32, doubt: bool) {
        if let Some(batch) = self.batches.get_mut(index) {
            batch.doubt |= doubt;
        }
    }

    /// Whether time and attempts allow another try.
    fn may_retry(&self, index: u32, now: Instant) -> bool {
        let Some(batch) = self.batches.get(index) else { return false };
        let Some(p) = self.producers.get(batch.producer) else { return false };
        p.failed.is_none() && batch.expires > now && batch.attempts <= p.config.retries
    }

    /// Whether nothing that has numbers and stands before it is out.
    fn is_first(&self, index: u32) -> bool {
        let Some((producer, part)) = self.place_of(index) else { return false };
        let queue = self.producers.get(producer).and_then(|p| p.queues.get(part as usize));
        queue.is_some_and(|queue| queue.sequences.unacked().first() == Some(&index))
    }

    /// Whether another try may help. With idempotence two more codes are worth one, after the
    /// numbers were put right.
    fn worth_retrying(&mut self, index: u32, code: ErrorCode, log_start: i64) -> bool {
        let Some(batch) = self.batches.get(index) else { return false };
        let (producer, part, renumbered) = (batch.producer, batch.part, batch.renumbered);
        if batch.sequence.is_none() && !renumbered {
            return code.is_retriable();
        }
        match code {
            // A broker that has forgotten the producer tells, from v5 on, where its log starts.
            ErrorCode::UNKNOWN_PRODUCER_ID if log_start < 0 => true,
            // One before it was lost and will be repeated; or it is itself the first of them: then
            // the broker misses something that will never come, and does not have this one either.
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER | ErrorCode::UNKNOWN_PRODUCER_ID => {
                if !renumbered && self.is_first(index) {
                    self.start_over(producer, part);
                }
                true
            }
            code => code.is_retriable(),
        }
    }

    /// The batch goes back among those that wait, in its order, and rests for a while.
    fn retry(&mut self, index: u32, now: Instant) {
        let retry = self.cluster.config().retry;
        let Some(batch) = self.batches.get_mut(index) else { return };
        let Some(p) = self.producers.get_mut(batch.producer) else { return };
        let wait = retry.delay(batch.attempts.saturating_sub(1), &mut p.random);
        // A leader that is known to be newer need not be spared (KIP-951).
        let same_leader = self.metadata.epoch(batch.part) <= batch.epoch;
        batch.backing_off = same_leader && !wait.is_zero();
        batch.due = true;
        let at = if batch.backing_off { now.after(wait).min(batch.expires) } else { batch.expires };
        let part = batch.part as usize;
        self.batches.timers.set(index as usize, at);
        if let Some(queue) = p.queues.get_mut(part) {
            queue.put_back(index, &mut self.batches);
        }
        self.stats.batch_retries += 1;
    }

    /// The batch failed: whether the broker may have it follows from what happened before.
    fn fail(&mut self, index: u32, error: Error) {
        let doubt = self.batches.get(index).is_some_and(|batch| batch.doubt);
        let outcome = if doubt { Outcome::MaybePersisted } else { Outcome::NotPersisted };
        self.finish(index, End { outcome, error: Some(error), base_offset: -1 });
    }

    /// Ends a batch that was not answered, wherever it stands: its time is over, or its producer's.
    pub(in crate::client) fn give_up(&mut self, index: u32, error: Error) {
        let Some(batch) = self.batches.get_mut(index).filter(|batch| batch.end.is_none()) else {
            return;
        };
        let (producer, part) = (batch.producer, batch.part);
        batch.doubt |= batch.state == BatchState::InFlight;
        let numbered = batch.sequence.is_some();
        if batch.state == BatchState::Waiting
            && let Some(p) = self.producers.get_mut(producer)
            && let Some(queue) = p.queues.get_mut(part as usize)
        {
            queue.remove(index, &mut self.batches);
        }
        if numbered {
            self.set_unresolved(producer, part);
        }
        self.fail(index, error);
        self.relink(producer, part);
        self.close_if_done(producer);
    }

    /// The batch is over: its memory goes back, its event is due, flushes and waits are looked at.
    fn finish(&mut self, index: u32, end: End) {
        let Some(batch) = self.batches.get_mut(index) else { return };
        let (producer, part, order) = (batch.producer, batch.part as usize, batch.order);
        let (count, held) = (batch.count(), batch.held());
        batch.finish(end);
        self.batches.timers.clear(index as usize);
        let records = u64::from(count.unsigned_abs());
        match end.outcome {
            Outcome::Persisted => self.stats.records_delivered += records,
            _ => self.stats.records_failed += records,
        }
        self.events.push(Source::Batch(index));
        let Some(p) = self.producers.get_mut(producer) else { return };
        p.unfinished = p.unfinished.saturating_sub(1);
        p.memory = p.memory.saturating_sub(held);
        if let Some(queue) = p.queues.get_mut(part) {
            queue.sequences.forget(index);
        }
        let open = p.flushes.len();
        for _ in 0..open {
            let Some(mut flush) = p.flushes.pop_front() else { break };
            flush.left = flush.left.saturating_sub(u32::from(order < flush.upto));
            let kept = p.flushes.push_back(flush);
            debug_assert!(kept.is_ok(), "it was just taken out");
        }
        if p.has_flushed() {
            self.events.push(Source::Flushed(producer.index() as u32));
        }
    }

    /// After a batch that was sent has expired, and nothing of the partition is out any more:
    /// either the numbers line up after all, or they start over.
    pub(super) fn resolve_sequences(&mut self, producer: SlotId, part: u32) {
        let Some(p) = self.producers.get_mut(producer) else { return };
        let Some(queue) = p.queues.get_mut(part as usize) else { return };
        if !queue.sequences.unresolved
            || queue.in_flight > 0
            || !queue.sequences.unacked().is_empty()
        {
            return;
        }
        if queue.sequences.lines_up() {
            queue.sequences.unresolved = false;
        } else {
            self.start_over(producer, part);
        }
    }

    /// The producer takes its next epoch, and this partition's numbers start at 0 under it: those
    /// of the batches that are out too. Other partitions follow when nothing of theirs is out.
    /// Without a transaction no broker need be asked (KIP-360); when the epochs are used up, another
    /// id is.
    fn start_over(&mut self, producer: SlotId, part: u32) {
        let Some(p) = self.producers.get_mut(producer) else { return };
        let Identity::Has(old) = p.identity else { return };
        let next = match old.epoch.checked_add(1) {
            Some(epoch) if epoch < i16::MAX => ProducerId { epoch, ..old },
            _ => {
                p.identity = Identity::Missing(Instant::from_nanos(0));
                ProducerId::NONE
            }
        };
        if next != ProducerId::NONE {
            p.identity = Identity::Has(next);
        }
        let Some(queue) = p.queues.get_mut(part as usize) else { return };
        queue.sequences.start_over(next);
        let mut out = [NO_BATCH; UNACKED_MAX];
        let len = queue.sequences.unacked().len();
        out.iter_mut().zip(queue.sequences.unacked()).for_each(|(to, from)| *to = *from);
        for &index in out.iter().take(len) {
            let Some(batch) = self.batches.get_mut(index) else { continue };
            if next == ProducerId::NONE {
                // They get numbers again with the new id.
                batch.sequence = None;
                queue.sequences.forget(index);
            } else {
                let Sequence { base, producer } = queue.sequences.renumber(batch.count());
                batch.sequence = Some(Sequence { base, producer });
            }
            batch.renumbered = true;
        }
        self.wants_turn = true;
    }
}
