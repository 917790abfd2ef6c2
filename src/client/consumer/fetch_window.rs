//! Fetch window: how many answers are asked for or held at a time.
//!
//! All there can be, one for each consumer and node, as long as there is memory. An answer with
//! compressed batches needs a block besides its own; where many are under way in a small pool, each
//! holds what another one waits for. So the window is halved when memory runs out, down to one answer,
//! and grows by one after [`CALM`] answers, until it holds all of the pairs that are in use. While it is
//! narrow, those that wait take turns.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::assigned::Assignments;
use crate::client::client::Client;

/// After how many answers without a shortage the window grows.
const CALM: u32 = 16;

impl Assignments {
    /// Whether some have to wait for their turn.
    pub(super) fn is_narrow(&self) -> bool {
        self.window < self.in_use
    }

    /// Answers that are asked for or held.
    fn under_way(&self) -> usize {
        self.traffic.iter().filter(|traffic| traffic.fetching || traffic.held > 0).count()
    }

    /// How many more may be asked for.
    pub(super) fn room_in_window(&self) -> usize {
        if self.is_narrow() { self.window.saturating_sub(self.under_way()) } else { self.in_use }
    }

    /// An answer came.
    pub(super) fn widen_window(&mut self) {
        if self.is_narrow() {
            self.calm += 1;
            if self.calm >= CALM {
                self.calm = 0;
                self.window += 1;
            }
        }
    }
}

impl Client {
    /// Memory has run out.
    pub(super) fn narrow_window(&mut self) {
        self.assigned.calm = 0;
        self.assigned.window = (self.assigned.under_way().min(self.assigned.window) / 2).max(1);
    }
}
