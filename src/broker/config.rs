//! BrokerConfig and BrokerLimits: what a broker does, and how much of everything it may hold.

use crate::net::pool::{MAX_BLOCK, Memory};
use crate::properties::{BadProperty, Properties, bad};
use core::time::Duration;

/// Kafka's default of `message.max.bytes`.
pub const MESSAGE_MAX_BYTES: usize = 1_048_588;

/// Kafka's default of `log.message.timestamp.after.max.ms`: an hour.
pub const TIMESTAMP_AFTER_MAX_MS: i64 = 3_600_000;

/// The largest request that any pool has a block for; what the pool of the broker's connections has
/// ([`crate::net::pool::frame_max`]) bounds it as well.
pub const REQUEST_MAX_BYTES: usize = MAX_BLOCK + MAX_BLOCK / 64;

/// What a broker does. Made by [`BrokerConfig::default`] or [`BrokerConfig::from_properties`]; every
/// field may be set afterwards.
#[derive(Debug)]
pub struct BrokerConfig {
    /// The broker's id in metadata, also the controller's (`node.id`, or `broker.id`).
    pub node_id: i32,
    /// The cluster's id: 22 characters of URL-safe base64 (`cluster.id`). `None` makes one up.
    pub cluster_id: Option<Box<str>>,
    /// The broker's rack (`broker.rack`).
    pub rack: Option<Box<str>>,
    /// Partitions of a topic that does not say how many (`num.partitions`).
    pub num_partitions: u32,
    /// Whether asking for a topic's metadata may create it (`auto.create.topics.enable`).
    pub auto_create_topics: bool,
    /// Whether DeleteTopics is allowed (`delete.topic.enable`).
    pub delete_topics: bool,
    /// The largest batch that is taken (`message.max.bytes`); a topic's own `max.message.bytes` goes
    /// first. The log's memory must hold it in one block.
    pub message_max_bytes: usize,
    /// Stamp batches with the broker's time instead of the producer's
    /// (`log.message.timestamp.type=LogAppendTime`); a topic's own setting goes first.
    pub log_append_time: bool,
    /// How many milliseconds a timestamp may lie behind the broker's time
    /// (`log.message.timestamp.before.max.ms`); a topic's own setting goes first.
    pub timestamp_before_max_ms: i64,
    /// How many milliseconds a timestamp may lie ahead of the broker's time
    /// (`log.message.timestamp.after.max.ms`); a topic's own setting goes first.
    pub timestamp_after_max_ms: i64,
    /// Bytes that all logs together may hold (`log.memory.bytes`, kloop's own). When they are used
    /// up the globally oldest block goes. Its largest block, but no more than 16 MiB, is mapped once
    /// more for each thread that runs handlers, to inflate compressed batches in.
    pub log_memory: usize,
    /// Bytes of records that one partition keeps besides its newest block
    /// (`log.retention.bytes`); `None` leaves it to `log_memory`.
    pub retention_bytes: Option<u64>,
    /// Where the log's memory comes from.
    pub memory: Memory,
    /// The largest answer to a Fetch, in bytes of records (`fetch.max.bytes`).
    pub fetch_max_bytes: usize,
    /// The largest request (`socket.request.max.bytes`); a larger one costs its sender the
    /// connection. More than the pool of the connections can hold in one block is taken as that.
    pub request_max_bytes: usize,
    /// A connection ends when nothing happened for so long (`connections.max.idle.ms`); zero for
    /// never.
    pub max_idle: Duration,
    /// `SO_SNDBUF` of connections (`socket.send.buffer.bytes`); `None` keeps the system's default.
    pub send_buffer: Option<usize>,
    /// `SO_RCVBUF` of connections (`socket.receive.buffer.bytes`); `None` keeps the system's.
    pub receive_buffer: Option<usize>,
    /// Connections at most (`max.connections`); one more is closed at once.
    pub max_connections: usize,
    /// The APIs that the host answers: bit `key % 64` of word `key / 64`. They go out as
    /// [`super::BrokerEvent::Request`], also those that kloop could serve.
    pub host_apis: [u64; 2],
    /// Whether connections are reported as [`super::BrokerEvent::Opened`] and `Gone`.
    pub events: bool,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        BrokerConfig {
            node_id: 1,
            cluster_id: None,
            rack: None,
            num_partitions: 1,
            auto_create_topics: true,
            delete_topics: true,
            message_max_bytes: MESSAGE_MAX_BYTES,
            log_append_time: false,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: TIMESTAMP_AFTER_MAX_MS,
            log_memory: 64 << 20,
            retention_bytes: None,
            memory: Memory::Map { prefault: false },
            fetch_max_bytes: 55 << 20,
            request_max_bytes: 100 << 20,
            max_idle: Duration::from_secs(600),
            send_buffer: None,
            receive_buffer: None,
            max_connections: usize::MAX,
            host_apis: [0; 2],
            events: false,
        }
    }
}

impl BrokerConfig {
    /// Reads a configuration by Kafka's names, and `log.memory.bytes` and `cluster.id` of kloop's
    /// own.
    ///
    /// # Errors
    /// [`BadProperty`] naming the key that is wrong or unknown.
    pub fn from_properties(mut p: Properties<'_>) -> Result<BrokerConfig, BadProperty> {
        let mut c = BrokerConfig::default();
        let broker_id = p.number("broker.id", i64::from(c.node_id), 0..=i64::from(i32::MAX))?;
        c.node_id = p.number("node.id", broker_id, 0..=i64::from(i32::MAX))? as i32;
        if let Some(id) = p.text("cluster.id") {
            if !is_cluster_id(id) {
                return Err(bad("cluster.id", "not 22 characters of URL-safe base64"));
            }
            c.cluster_id = Some(id.into());
        }
        c.rack = p.text("broker.rack").map(Box::from);
        c.num_partitions =
            p.number("num.partitions", i64::from(c.num_partitions), 1..=100_000)? as u32;
        c.auto_create_topics = p.flag("auto.create.topics.enable", c.auto_create_topics)?;
        c.delete_topics = p.flag("delete.topic.enable", c.delete_topics)?;
        let message_max = c.message_max_bytes as i64;
        let most = REQUEST_MAX_BYTES as i64;
        c.message_max_bytes = p.number("message.max.bytes", message_max, 0..=most)? as usize;
        let types = ["CreateTime", "LogAppendTime"];
        c.log_append_time = p.choice("log.message.timestamp.type", 0, &types)? == 1;
        let (before, after) = (c.timestamp_before_max_ms, c.timestamp_after_max_ms);
        let most = 0..=i64::MAX;
        c.timestamp_before_max_ms =
            p.number("log.message.timestamp.before.max.ms", before, most.clone())?;
        c.timestamp_after_max_ms = p.number("log.message.timestamp.after.max.ms", after, most)?;
        c.log_memory =
            p.number("log.memory.bytes", c.log_memory as i64, 1 << 21..=1 << 46)? as usize;
        let retention = p.number("log.retention.bytes", -1, -1..=i64::MAX)?;
        c.retention_bytes = u64::try_from(retention).ok();
        let fetch_max = c.fetch_max_bytes as i64;
        c.fetch_max_bytes =
            p.number("fetch.max.bytes", fetch_max, 1024..=i64::from(i32::MAX))? as usize;
        c.read_network(&mut p)?;
        p.finish()?;
        Ok(c)
    }

    fn read_network(&mut self, p: &mut Properties<'_>) -> Result<(), BadProperty> {
        let positive = 1..=i64::from(i32::MAX);
        let max = self.request_max_bytes as i64;
        let max = p.number("socket.request.max.bytes", max, positive.clone())?;
        self.request_max_bytes = (max as usize).min(REQUEST_MAX_BYTES);
        let idle = p.number("connections.max.idle.ms", 600_000, -1..=i64::MAX)?;
        self.max_idle = Duration::from_millis(u64::try_from(idle).unwrap_or(0));
        let buffer = -1..=i64::from(i32::MAX);
        let send = p.number("socket.send.buffer.bytes", -1, buffer.clone())?;
        self.send_buffer = usize::try_from(send).ok();
        let receive = p.number("socket.receive.buffer.bytes", -1, buffer)?;
        self.receive_buffer = usize::try_from(receive).ok();
        let most = i64::from(i32::MAX);
        self.max_connections = p.number("max.connections", most, positive)? as usize;
        Ok(())
    }

    /// Whether the host answers this API.
    pub fn is_host_api(&self, key: i16) -> bool {
        has_api(&self.host_apis, key)
    }
}

/// Whether an API is in a bit set such as [`BrokerConfig::host_apis`].
pub(crate) fn has_api(set: &[u64; 2], key: i16) -> bool {
    let Ok(key) = usize::try_from(key) else { return false };
    set.get(key / 64).is_some_and(|word| word >> (key % 64) & 1 == 1)
}

/// Whether a text has the form of [`BrokerConfig::cluster_id`].
pub(crate) fn is_cluster_id(id: &str) -> bool {
    id.len() == 22 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// How much of everything a broker may hold. All of it is taken at creation, but for topics, which
/// take theirs when they are created.
#[derive(Clone, Copy, Debug)]
pub struct BrokerLimits {
    /// Connections: as many as the selector has channels, because their indices are used.
    pub max_connections: usize,
    /// Requests that wait: long polls, and batches that wait for memory of the log.
    pub max_parked: usize,
    /// Topics.
    pub max_topics: usize,
    /// Partitions of all topics; also no more than one for each 32 KiB of the log's memory, so that
    /// each can have a block and half of the memory is left for those that are busy.
    pub max_partitions: usize,
    /// Pairs of an idempotent producer and a partition whose last batches are remembered.
    pub max_producers: usize,
    /// Requests that the host has not answered, or whose answer is not written yet.
    pub max_host_requests: usize,
}

impl Default for BrokerLimits {
    fn default() -> Self {
        BrokerLimits {
            max_connections: 1024,
            max_parked: 1024,
            max_topics: 1024,
            max_partitions: 4096,
            max_producers: 4096,
            max_host_requests: 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_kafkas_names_and_names_the_bad_one() {
        let read = |pairs: &[(&'static str, &'static str)]| {
            BrokerConfig::from_properties(Properties::new(pairs.iter().copied()))
        };
        let c = read(&[("broker.id", "7"), ("num.partitions", "4"), ("max.connections", "9")]);
        let c = c.unwrap();
        assert_eq!((c.node_id, c.num_partitions, c.max_connections), (7, 4, 9));
        assert_eq!(read(&[("broker.id", "7"), ("node.id", "8")]).unwrap().node_id, 8);
        for (key, value) in [
            ("node.id", "-1"),
            ("cluster.id", "short"),
            ("num.partitions", "0"),
            ("log.memory.bytes", "1000"),
            ("auto.create.topics.enable", "yes"),
            ("log.message.timestamp.before.max.ms", "-1"),
            ("log.message.timestamp.after.max.ms", "-1"),
            ("no.such.key", "1"),
        ] {
            assert_eq!(read(&[(key, value)]).unwrap_err().key, key);
        }
        let mut c = BrokerConfig::default();
        c.host_apis[1] |= 1 << (68 - 64);
        assert!(c.is_host_api(68) && !c.is_host_api(67) && !c.is_host_api(-1));
        assert!(!c.is_host_api(i16::MAX));
    }
}
