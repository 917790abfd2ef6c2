//! EngineConfig: the sizes of everything an engine takes at creation, and the sum of its pool.

use crate::logging::Logger;
use crate::net::TurnBudget;
use crate::net::pool::{MAX_BLOCK, MIN_BLOCK, Memory, Term};

/// Blocks of the smallest class that only control traffic may take: heartbeats, metadata and
/// commits go on when data has used up the pool.
pub const CONTROL_BLOCKS: usize = 16;

/// Connections the kernel holds until a turn takes them. A burst over this waits a second for the
/// client's next SYN, so it is not small.
pub const LISTEN_BACKLOG: i32 = 1024;

/// What an engine is made of.
#[derive(Debug)]
pub struct EngineConfig {
    /// Bytes of the pool: every frame received and every batch sent lies in it. The least is the
    /// sum of [`budget_terms`].
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

/// The guaranteed part of an engine's pool, term by term; what `memory_limit` leaves besides is
/// shared by all sizes.
pub fn budget_terms(_config: &EngineConfig) -> [Term; 4] {
    let term = |why, size, blocks| Term { why, size, blocks };
    [
        term("requests and answers that keep a connection alive", MIN_BLOCK, 4 * CONTROL_BLOCKS),
        term("one bulk read and one batch at a time make progress", 4 * MIN_BLOCK, 16),
        term("the request around a batch of the default size is read", 8 * MIN_BLOCK, 8),
        term("one frame of the largest size is read, one is held", MAX_BLOCK, 2),
    ]
}

/// A number from the operating system's randomness.
pub fn random_seed() -> u64 {
    use core::hash::{BuildHasher, Hasher};
    // std seeds each `RandomState` from the operating system and exposes it only through a hash.
    std::hash::RandomState::new().build_hasher().finish()
}
