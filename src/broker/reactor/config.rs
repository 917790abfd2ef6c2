//! ReactorConfig: the threads, and what each processor takes at the start.

use crate::error::Error;
use crate::logging::Logger;
use crate::net::pool::Memory;
use crate::net::selector::{Selector, SelectorConfig};
use crate::net::{BufferPool, SendBuilder, TurnBudget};

/// The most processors: so many selectors the log's pool can wake.
pub(super) const MOST: usize = 63;

/// Bytes one connection may have unsent.
const SEND_QUEUE_MAX: usize = 4 << 20;

/// The threads of a reactor and their sizes.
#[derive(Debug)]
pub struct ReactorConfig {
    /// Processors: threads that read and write sockets.
    pub processors: usize,
    /// Handler threads.
    pub handlers: usize,
    /// Requests that wait for a handler thread at most.
    pub max_queued: usize,
    /// Bytes of each processor's pool.
    pub memory: usize,
    /// Processors of the machine to stay on, in turn, the reactor's processors first; empty for none.
    pub cpus: Box<[usize]>,
}

impl Default for ReactorConfig {
    fn default() -> Self {
        ReactorConfig {
            processors: 3,
            handlers: 8,
            max_queued: 500,
            memory: 32 << 20,
            cpus: Box::new([]),
        }
    }
}

impl ReactorConfig {
    /// Whether a broker can be run so.
    ///
    /// # Errors
    /// [`Error::Invalid`] for sizes that cannot be.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=MOST).contains(&self.processors) {
            return Err(Error::Invalid("a reactor has 1 to 63 processors"));
        }
        if !(1..=1024).contains(&self.handlers) {
            return Err(Error::Invalid("a reactor has 1 to 1024 handler threads"));
        }
        if !(1..=1 << 20).contains(&self.max_queued) {
            return Err(Error::Invalid("max_queued is from 1 to 1048576"));
        }
        Ok(())
    }
}

/// A processor's selector and pool.
pub(super) fn selector(
    config: &ReactorConfig,
    connections: usize,
    logger: &Logger,
) -> Result<Selector, Error> {
    let pool = BufferPool::for_network(config.memory, Memory::Map { prefault: false })?;
    // Each request on the way keeps places for the pieces of its answer; those that find none wait.
    let on_the_way = (config.max_queued + config.handlers).min(connections).min(128);
    let config = SelectorConfig {
        max_channels: connections,
        max_listeners: 0,
        max_exchanges: 0,
        max_pieces: 4096 + on_the_way * (2 * SendBuilder::MAX_PIECES + 1),
        send_queue_max: SEND_QUEUE_MAX,
        budget: TurnBudget::default(),
        logger: logger.clone(),
    };
    Selector::new(config, pool)
}
