//! Core: what all handlers share. It may be used from several threads; each part has its own short
//! lock (the order is in the front page).
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::BrokerStats;
use super::batch_reader::INFLATE_MAX;
use super::config::{BrokerConfig, BrokerLimits, REQUEST_MAX_BYTES, has_api};
use super::log::producer_state::Producers;
use super::log::{Fresh, LogMemory, MIN_LOG_BLOCK, block_size_for};
use super::partition::Partition;
use super::random::{Hasher, Random, uuid_text};
use super::topics::{TopicConfig, Topics};
use crate::error::Error;
use crate::logging::Logger;
use crate::net::pool::Memory;
use crate::protocol::ApiKey;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};

/// What the configuration says, as far as handlers need it.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The broker's id, and the controller's.
    pub node_id: i32,
    /// The cluster's id.
    pub cluster_id: Box<str>,
    /// The rack.
    pub rack: Option<Box<str>>,
    /// Partitions of a topic that does not say how many.
    pub num_partitions: u32,
    /// Whether asking for a topic may create it.
    pub auto_create_topics: bool,
    /// Whether topics may be deleted.
    pub delete_topics: bool,
    /// Bytes that a partition keeps besides its newest segment.
    pub retention_bytes: Option<u64>,
    /// The largest answer to a Fetch, in bytes of records.
    pub fetch_max_bytes: usize,
    /// The APIs that the host answers.
    pub host_apis: [u64; 2],
    /// Whether all memory is touched at creation.
    pub prefault: bool,
    /// The settings of a topic that does not say otherwise.
    pub topic: TopicConfig,
}

/// Where clients are sent to.
#[derive(Debug)]
pub(crate) struct Advertised {
    /// A name or an address.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
}

/// Counts since the broker was made.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Batches appended.
    pub batches_in: AtomicU64,
    /// Bytes of batches appended.
    pub bytes_in: AtomicU64,
    /// Bytes of batches answered to fetches.
    pub bytes_out: AtomicU64,
    /// Batches that were in the log before.
    pub duplicates: AtomicU64,
}

/// Adds to a count.
pub(crate) fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

/// What all handlers share.
#[derive(Debug)]
pub(crate) struct Core {
    /// The configuration.
    pub settings: Settings,
    /// The topics.
    pub topics: Topics,
    /// The memory of all logs.
    pub memory: LogMemory,
    /// What is known of idempotent producers.
    pub producers: Producers<Hasher>,
    /// Ids and keys.
    pub random: Random,
    /// Counts.
    pub counts: Counts,
    /// Where lines go.
    pub logger: Logger,
    advertised: Mutex<Option<Arc<Advertised>>>,
    next_producer_id: AtomicU64,
    appends: AtomicU64,
}

impl Core {
    /// Takes the memory of the logs and the shared tables.
    ///
    /// # Errors
    /// [`Error::NoMemory`], or [`Error::Invalid`] for sizes that do not go together.
    pub(crate) fn new(
        config: BrokerConfig,
        limits: &BrokerLimits,
        logger: Logger,
        seed: u64,
    ) -> Result<Core, Error> {
        let random = Random::new(seed);
        let prefault = matches!(config.memory, Memory::Map { prefault: true });
        let memory = LogMemory::new(config.log_memory, config.memory)?;
        if config.message_max_bytes > batch_max(&memory) {
            return Err(Error::Invalid("message.max.bytes does not fit log.memory.bytes"));
        }
        let max_partitions = limits.max_partitions.min(memory.partitions());
        if max_partitions == 0 || limits.max_topics == 0 || limits.max_producers == 0 {
            return Err(Error::Invalid("a broker needs room for topics and producers"));
        }
        let made_up = uuid_text(&random.uuid());
        let made_up = core::str::from_utf8(&made_up).unwrap_or("kloop");
        let settings = Settings {
            node_id: config.node_id,
            cluster_id: config.cluster_id.unwrap_or_else(|| made_up.into()),
            rack: config.rack,
            num_partitions: config.num_partitions,
            auto_create_topics: config.auto_create_topics,
            delete_topics: config.delete_topics,
            retention_bytes: config.retention_bytes,
            fetch_max_bytes: config.fetch_max_bytes,
            host_apis: config.host_apis,
            prefault,
            topic: TopicConfig {
                log_append_time: config.log_append_time,
                max_message_bytes: config.message_max_bytes,
                compact: false,
                before_max_ms: config.timestamp_before_max_ms,
                after_max_ms: config.timestamp_after_max_ms,
            },
        };
        // A producer of a broker that was here before may still hold an id of its.
        let first_producer_id = random.next() & 0xff_ffff_ffff;
        Ok(Core {
            settings,
            topics: Topics::new(limits.max_topics, max_partitions, random.hasher()),
            memory,
            producers: Producers::new(limits.max_producers, random.hasher()),
            random,
            counts: Counts::default(),
            logger,
            advertised: Mutex::new(None),
            next_producer_id: AtomicU64::new(first_producer_id),
            appends: AtomicU64::new(0),
        })
    }

    /// Where clients are sent to, if it was said.
    pub(crate) fn advertised(&self) -> Option<Arc<Advertised>> {
        self.advertised.lock().clone()
    }

    /// Says where clients are sent to.
    pub(crate) fn set_advertised(&self, host: &str, port: u16) {
        *self.advertised.lock() = Some(Arc::new(Advertised { host: host.into(), port }));
    }

    /// Whether the host answers this API.
    pub(crate) fn is_host_api(&self, key: ApiKey) -> bool {
        has_api(&self.settings.host_apis, key.0)
    }

    /// A producer id that was never given out.
    pub(crate) fn producer_id(&self) -> i64 {
        self.next_producer_id.fetch_add(1, Ordering::Relaxed) as i64
    }

    /// Bytes of the largest batch that the log can hold.
    pub(crate) fn batch_max(&self) -> usize {
        batch_max(&self.memory)
    }

    /// Bytes that a batch may inflate to.
    pub(crate) fn inflate_max(&self) -> usize {
        self.memory.pool().largest().min(self.settings.topic.max_message_bytes.max(INFLATE_MAX))
    }

    /// The number of an append, from 1 on.
    pub(crate) fn next_append(&self) -> u64 {
        self.appends.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A block for `partition`, of `want` bytes if possible and with room for a batch of `len`
    /// bytes in any case. When no full segment of any partition is left to drop, everything goes
    /// of the partition that was not written for the longest.
    pub(crate) fn take_block(
        &self,
        partition: &Arc<Partition>,
        want: usize,
        len: usize,
    ) -> Option<Fresh> {
        let need = block_size_for(len).max(MIN_LOG_BLOCK);
        loop {
            if let Some(fresh) = self.memory.take(want, need) {
                return Some(fresh);
            }
            let idle = if self.memory.is_held() { None } else { self.idlest_but(partition) }?;
            if !idle.empty(self) {
                return None;
            }
            self.memory.count_evicted();
        }
    }

    /// The partition other than `but` that holds something and was not written for the longest.
    fn idlest_but(&self, but: &Arc<Partition>) -> Option<Arc<Partition>> {
        let mut idlest: Option<Arc<Partition>> = None;
        let mut place = 0;
        while let Some(topic) = self.topics.at(place) {
            place += 1;
            for partition in topic.iter().flat_map(|topic| &topic.partitions) {
                let at = partition.last_append();
                let older = idlest.as_ref().is_none_or(|idlest| at < idlest.last_append());
                if at > 0 && older && !Arc::ptr_eq(partition, but) {
                    idlest = Some(Arc::clone(partition));
                }
            }
        }
        idlest
    }

    /// The counts that handlers keep, and what the log holds.
    pub(crate) fn stats(&self) -> BrokerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (topics, partitions) = self.topics.count();
        BrokerStats {
            topics: topics as u64,
            partitions: partitions as u64,
            batches_in: read(&self.counts.batches_in),
            bytes_in: read(&self.counts.bytes_in),
            bytes_out: read(&self.counts.bytes_out),
            duplicates: read(&self.counts.duplicates),
            evicted: self.memory.evicted(),
            log_in_use: self.memory.pool().in_use() as u64,
            log_total: self.memory.pool().total() as u64,
            ..BrokerStats::default()
        }
    }
}

/// Bytes of the largest batch that finds a block of this memory, within what a request can carry.
fn batch_max(memory: &LogMemory) -> usize {
    // The inverse of `block_size_for`, rounded down.
    let largest = memory.pool().largest();
    (largest - largest / 200).saturating_sub(64).min(REQUEST_MAX_BYTES)
}
