//! Sequences: a producer's id and epoch, and the numbers by which a partition's leader tells a
//! repeated batch from a new one (KIP-98), and how both start over after a loss (KIP-360).

use crate::time::Instant;

/// Id and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) struct ProducerId {
    pub(in crate::client) id: i64,
    pub(in crate::client) epoch: i16,
}

impl ProducerId {
    pub(in crate::client) const NONE: ProducerId = ProducerId { id: -1, epoch: -1 };
}

/// Where a producer's id stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Identity {
    /// It needs none.
    NotWanted,
    /// It has none; it may be asked for from this time on.
    Missing(Instant),
    /// It was asked for.
    Asked,
    /// It has one.
    Has(ProducerId),
}

/// The numbers of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) struct Sequence {
    pub(in crate::client) producer: ProducerId,
    pub(in crate::client) base: i32,
}

/// Batches of one partition that may be sent and not acknowledged: a broker remembers five.
pub(in crate::client) const UNACKED_MAX: usize = 5;

/// Where one partition's numbers stand.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct PartSequences {
    /// The id and epoch that the numbers belong to.
    pub(in crate::client) producer: ProducerId,
    /// The next batch's first number.
    next: i32,
    /// The last number that was acknowledged; -1 for none.
    last_acked: i32,
    /// A batch that was sent has expired: whether its numbers were used up is not known.
    pub(in crate::client) unresolved: bool,
    /// Batches that have numbers and no acknowledgement, in their order.
    unacked: [u32; UNACKED_MAX],
    unacked_len: u8,
}

impl PartSequences {
    pub(in crate::client) const fn new() -> Self {
        PartSequences {
            producer: ProducerId::NONE,
            next: 0,
            last_acked: -1,
            unresolved: false,
            unacked: [u32::MAX; UNACKED_MAX],
            unacked_len: 0,
        }
    }

    /// Batches with numbers and without an acknowledgement, oldest first.
    pub(in crate::client) fn unacked(&self) -> &[u32] {
        self.unacked.get(..usize::from(self.unacked_len)).unwrap_or(&[])
    }

    /// Whether a batch that has no number yet may get one for `current`: there is room, and no
    /// older epoch's batches are out.
    ///
    /// Until one batch of an epoch is acknowledged there is room for one: a broker that does not
    /// know a producer takes any number from it as the first, so a second batch could be written
    /// while the first has to be repeated. Kafka's own client leaves that to chance.
    pub(in crate::client) fn takes_new(&self, current: ProducerId) -> bool {
        let len = self.unacked().len();
        let room = if self.last_acked < 0 { 1 } else { UNACKED_MAX };
        !self.unresolved && len < room && (len == 0 || self.producer == current)
    }

    /// Gives a batch of `count` records its numbers; the caller has asked
    /// [`PartSequences::takes_new`], so that no epoch begins while another's batches are out.
    pub(in crate::client) fn assign(
        &mut self,
        batch: u32,
        count: i32,
        current: ProducerId,
    ) -> Sequence {
        if self.producer != current {
            debug_assert!(self.unacked().is_empty(), "an older epoch's batches are out");
            self.start_over(current);
        }
        let base = self.next;
        self.next = add(base, count);
        if let Some(place) = self.unacked.get_mut(usize::from(self.unacked_len)) {
            *place = batch;
            self.unacked_len += 1;
        }
        Sequence { producer: current, base }
    }

    /// Takes the numbers of the newest batch back: it was not sent after all.
    pub(in crate::client) fn take_back(&mut self, batch: u32, base: i32) {
        if self.unacked().last() == Some(&batch) {
            self.unacked_len -= 1;
            self.next = base;
        }
    }

    /// A batch is over, whichever way.
    pub(in crate::client) fn forget(&mut self, batch: u32) {
        let Some(at) = self.unacked().iter().position(|&b| b == batch) else { return };
        self.unacked.copy_within(at + 1.., at);
        self.unacked_len -= 1;
    }

    /// A batch was acknowledged. A late answer never moves the mark back.
    pub(in crate::client) fn acked(&mut self, sequence: Sequence, count: i32) {
        if sequence.producer != self.producer {
            return;
        }
        let last = add(sequence.base, count - 1);
        if last > self.last_acked || (self.last_acked > i32::MAX / 2 && last < i32::MAX / 2) {
            self.last_acked = last;
        }
    }

    /// Whether `base` follows what was acknowledged last.
    pub(in crate::client) fn is_next(&self, base: i32) -> bool {
        base == if self.last_acked < 0 { 0 } else { add(self.last_acked, 1) }
    }

    /// Whether, with nothing left unacknowledged, the next number follows the last acknowledged.
    pub(in crate::client) fn lines_up(&self) -> bool {
        self.is_next(self.next)
    }

    /// Numbers start at 0 again, under another epoch. The caller renumbers the batches that are
    /// out, in their order, with [`PartSequences::renumber`].
    pub(in crate::client) fn start_over(&mut self, producer: ProducerId) {
        self.producer = producer;
        self.next = 0;
        self.last_acked = -1;
        self.unresolved = false;
    }

    /// The numbers of a batch that is out, under the new epoch.
    pub(in crate::client) fn renumber(&mut self, count: i32) -> Sequence {
        let base = self.next;
        self.next = add(base, count);
        Sequence { producer: self.producer, base }
    }
}

/// The number `by` places on; after i32::MAX comes 0.
fn add(sequence: i32, by: i32) -> i32 {
    sequence.wrapping_add(by) & i32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ProducerId = ProducerId { id: 9, epoch: 0 };

    #[test]
    fn numbers_follow_each_other_and_wrap() {
        let mut s = PartSequences::new();
        assert_eq!(s.assign(0, 10, ONE).base, 0);
        assert_eq!(s.assign(1, 5, ONE).base, 10);
        s.take_back(1, 10);
        assert_eq!(s.assign(2, 5, ONE).base, 10);
        assert_eq!(s.unacked(), [0, 2]);
        s.next = i32::MAX - 1;
        assert_eq!(s.assign(3, 3, ONE).base, i32::MAX - 1);
        assert_eq!(s.next, 1);
    }

    #[test]
    fn an_acknowledgement_never_goes_back() {
        let mut s = PartSequences::new();
        let (a, b) = (s.assign(0, 10, ONE), s.assign(1, 10, ONE));
        s.acked(b, 10);
        s.acked(a, 10);
        s.forget(0);
        s.forget(1);
        assert!(s.is_next(20) && s.lines_up());
    }

    #[test]
    fn a_new_epoch_waits_until_the_old_ones_batches_are_over() {
        let mut s = PartSequences::new();
        let first = s.assign(0, 1, ONE);
        let two = ProducerId { epoch: 1, ..ONE };
        assert!(!s.takes_new(ONE) && !s.takes_new(two), "the first one alone");
        s.acked(first, 1);
        assert!(s.takes_new(ONE) && !s.takes_new(two));
        s.forget(0);
        assert!(s.takes_new(two));
        let first = s.assign(1, 1, two);
        assert_eq!(first.base, 0);
        s.acked(first, 1);
        for batch in 2..6 {
            assert!(s.takes_new(two));
            s.assign(batch, 1, two);
        }
        assert!(!s.takes_new(two), "five are out");
        s.forget(3);
        assert_eq!(s.unacked(), [1, 2, 4, 5]);
        assert!(s.takes_new(two));
        s.unresolved = true;
        assert!(!s.takes_new(two));
    }

    #[test]
    fn starting_over_renumbers_from_zero() {
        let mut s = PartSequences::new();
        s.assign(0, 7, ONE);
        s.assign(1, 2, ONE);
        s.start_over(ProducerId { epoch: 1, ..ONE });
        assert_eq!((s.renumber(7).base, s.renumber(2).base), (0, 7));
        assert!(s.is_next(0));
    }
}
