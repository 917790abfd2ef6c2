//! EngineConfig: the sizes of everything an engine takes at creation, and the sum of its pool.

use crate::error::Error;
use crate::logging::Logger;
use crate::net::TurnBudget;
use crate::net::pool::Memory;

/// Connections the kernel holds until a turn takes them. A burst over this waits a second for the
/// client's next SYN, so it is not small.
pub const LISTEN_BACKLOG: i32 = 1024;

/// What an engine is made of.
#[derive(Debug)]
pub struct EngineConfig {
    /// Bytes of the pool: every frame received and every batch sent lies in it. The least is the
    /// sum of [`crate::net::pool::network_terms`]; the largest frame that can be received is
    /// [`crate::net::pool::frame_max`] of it.
    pub memory_limit: usize,
    /// Where that memory comes from.
    pub memory: Memory,
    /// Connections at most, of all clients and brokers together.
    pub max_connections: usize,
    /// Pieces of unsent output at most, over all connections; a record batch is one.
    pub max_pieces: usize,
    /// Bytes one connection may have unsent before its owner has to wait.
    pub send_queue_max: usize,
    /// Clients at most.
    pub max_clients: usize,
    /// Brokers at most.
    pub max_brokers: usize,
    /// Posts from other threads that wait at most.
    pub max_posts: usize,
    /// What one turn may do.
    pub budget: TurnBudget,
    /// Calls outside of a turn make the descriptor readable when they leave work; without it the
    /// host polls before it waits.
    pub autowake: bool,
    /// Deadlines make the descriptor readable; without it the host obeys the engine's timeout.
    pub timer_descriptor: bool,
    /// Where log lines go.
    pub logger: Logger,
    /// Seed of everything random; `None` takes one from the operating system.
    pub seed: Option<u64>,
}

/// The most of anything that an engine has a table for. More would be gigabytes, and memory that a
/// table does not get ends the process.
pub const TABLE_MAX: usize = 1 << 20;

impl EngineConfig {
    pub(super) fn check(&self) -> Result<(), Error> {
        let tables = [
            self.max_connections,
            self.max_pieces,
            self.max_clients,
            self.max_brokers,
            self.max_posts,
        ];
        match tables.iter().any(|size| *size > TABLE_MAX) {
            true => Err(Error::Invalid("a table of an engine has 1048576 entries at most")),
            false => Ok(()),
        }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            memory_limit: 32 << 20,
            memory: Memory::Map { prefault: false },
            max_connections: 1024,
            max_pieces: 4096,
            send_queue_max: 4 << 20,
            max_clients: 8,
            max_brokers: 4,
            max_posts: 1024,
            budget: TurnBudget::default(),
            autowake: true,
            timer_descriptor: true,
            logger: Logger::silent(),
            seed: None,
        }
    }
}

/// A number from the operating system's randomness.
pub fn random_seed() -> u64 {
    use core::hash::{BuildHasher, Hasher};
    // std seeds each `RandomState` from the operating system and exposes it only through a hash.
    std::hash::RandomState::new().build_hasher().finish()
}
