//! Life, Mute: a channel's states, each with its table of legal moves.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

/// Where a channel is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// A connect was asked for and is not decided. Sends may be queued.
    Connecting,
    /// Both directions work.
    Open,
    /// The peer has closed its side and all its frames were handed out; what was queued before is
    /// still written. No new sends.
    Draining,
    /// The owner let go of it; what was queued is still written. Nothing is read, no news follows.
    Finishing,
    /// Over; its last notice waits to be taken.
    Ended,
    /// Over, and nobody wants to know: the table entry is free.
    Gone,
}

/// What happens to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeEvent {
    /// The connect succeeded.
    Established,
    /// The peer closed its side, and everything it sent was handed out.
    PeerClosed,
    /// The socket failed, the peer broke the framing, or it was idle too long.
    Failed,
    /// The owner ends it after what is queued.
    CloseAfterFlush,
    /// Nothing is queued any more.
    Written,
    /// The owner took the last notice, or ends it now.
    Released,
}

impl Life {
    /// The state after `event`; `None` if it cannot happen here.
    pub(super) const fn after(self, event: LifeEvent) -> Option<Life> {
        use Life::*;
        use LifeEvent::*;
        match (self, event) {
            (Connecting, Established) => Some(Open),
            // A connect that is not decided has nothing to read.
            (Open, PeerClosed) => Some(Draining),
            (Connecting | Open | Draining, Failed) => Some(Ended),
            (Connecting | Open | Draining, CloseAfterFlush) => Some(Finishing),
            (Draining, Written) => Some(Ended),
            (Finishing, Failed | Written) => Some(Gone),
            (Connecting | Open | Draining | Finishing | Ended, Released) => Some(Gone),
            _ => None,
        }
    }

    /// Whether a send can be begun.
    pub(super) const fn takes_sends(self) -> bool {
        matches!(self, Life::Connecting | Life::Open)
    }

    /// Whether what is queued can be written now.
    pub(super) const fn writes(self) -> bool {
        matches!(self, Life::Open | Life::Draining | Life::Finishing)
    }
}

/// Why a channel is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mute {
    /// It is read.
    No,
    /// The owner muted it.
    Owner,
    /// The pool had no block for it.
    Memory,
    /// Both. Memory that comes back lifts only its own half.
    OwnerAndMemory,
}

/// What mutes and unmutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MuteEvent {
    /// The owner wants no more frames now.
    Mute,
    /// The owner wants frames again.
    Unmute,
    /// The pool had no block for a read.
    MemoryOut,
    /// There may be blocks again.
    MemoryBack,
}

impl Mute {
    /// The state after `event`; `None` if it cannot happen here.
    pub(super) const fn after(self, event: MuteEvent) -> Option<Mute> {
        use Mute::{Memory, No, Owner, OwnerAndMemory};
        use MuteEvent as E;
        match (self, event) {
            // The owner may repeat itself.
            (No | Owner, E::Mute) => Some(Owner),
            (Memory | OwnerAndMemory, E::Mute) => Some(OwnerAndMemory),
            (No | Owner, E::Unmute) => Some(No),
            (Memory | OwnerAndMemory, E::Unmute) => Some(Memory),
            // A muted channel asks for no block.
            (No, E::MemoryOut) => Some(Memory),
            (Memory, E::MemoryBack) => Some(No),
            (OwnerAndMemory, E::MemoryBack) => Some(Owner),
            _ => None,
        }
    }

    /// Whether its owner muted it.
    pub(super) const fn by_owner(self) -> bool {
        matches!(self, Mute::Owner | Mute::OwnerAndMemory)
    }

    /// Whether it is read.
    pub(super) const fn reads(self) -> bool {
        matches!(self, Mute::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_life_state_with_every_event() {
        use Life::*;
        use LifeEvent::*;
        // Columns: Established, PeerClosed, Failed, CloseAfterFlush, Written, Released.
        let events = [Established, PeerClosed, Failed, CloseAfterFlush, Written, Released];
        let table = [
            (Connecting, [Some(Open), None, Some(Ended), Some(Finishing), None, Some(Gone)]),
            (Open, [None, Some(Draining), Some(Ended), Some(Finishing), None, Some(Gone)]),
            (Draining, [None, None, Some(Ended), Some(Finishing), Some(Ended), Some(Gone)]),
            (Finishing, [None, None, Some(Gone), None, Some(Gone), Some(Gone)]),
            (Ended, [None, None, None, None, None, Some(Gone)]),
            (Gone, [None, None, None, None, None, None]),
        ];
        for (state, row) in table {
            for (event, expected) in events.into_iter().zip(row) {
                assert_eq!(state.after(event), expected, "{state:?} × {event:?}");
            }
        }
    }

    #[test]
    fn every_mute_state_with_every_event() {
        use MuteEvent as E;
        let events = [E::Mute, E::Unmute, E::MemoryOut, E::MemoryBack];
        let (no, owner, memory, both) = (Mute::No, Mute::Owner, Mute::Memory, Mute::OwnerAndMemory);
        let table = [
            (no, [Some(owner), Some(no), Some(memory), None]),
            (owner, [Some(owner), Some(no), None, None]),
            (memory, [Some(both), Some(memory), None, Some(no)]),
            (both, [Some(both), Some(memory), None, Some(owner)]),
        ];
        for (state, row) in table {
            for (event, expected) in events.into_iter().zip(row) {
                assert_eq!(state.after(event), expected, "{state:?} × {event:?}");
            }
        }
    }
}
