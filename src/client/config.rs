//! ClientConfig, ProducerConfig, ConsumerConfig: Kafka's properties, checked once and typed; and
//! the sizes of the client's tables.

use super::bootstrap::{Hosts, parse_servers};
use super::host::Endpoint;
use super::node_state::Schedule;
use super::resolver::ResolverConfig;
use crate::error::Error;
use crate::properties::{BadProperty, Properties, bad};
use core::time::Duration;

/// How to reach a cluster, and how patient to be with it.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `bootstrap.servers`: hosts and ports.
    pub bootstrap: Box<[Endpoint]>,
    /// What hosts are looked up in before any name server is asked.
    pub hosts: Hosts,
    /// `resolver.*`, kloop's own: who is asked for all other hosts.
    pub resolver: ResolverConfig,
    /// `client.id`; `kloop` by default.
    pub client_id: Box<str>,
    /// `reconnect.backoff.ms` (50) and `reconnect.backoff.max.ms` (1000).
    pub reconnect: Schedule,
    /// `retry.backoff.ms` (100) and `retry.backoff.max.ms` (1000).
    pub retry: Schedule,
    /// `socket.connection.setup.timeout.ms` (10 s) and its `.max.ms` (30 s).
    pub setup: Schedule,
    /// `request.timeout.ms` (30 s).
    pub request_timeout: Duration,
    /// `connections.max.idle.ms` (9 min); zero is never.
    pub max_idle: Duration,
    /// `metadata.max.age.ms` (5 min).
    pub metadata_max_age: Duration,
    /// `metadata.recovery.strategy`: whether to start over from the bootstrap list when no known
    /// broker answers.
    pub rebootstrap: bool,
    /// `metadata.recovery.rebootstrap.trigger.ms` (5 min).
    pub rebootstrap_after: Duration,
    /// `send.buffer.bytes` (128 KiB); `None` keeps the system's default.
    pub send_buffer: Option<usize>,
    /// `receive.buffer.bytes` (64 KiB); `None` keeps the system's default.
    pub receive_buffer: Option<usize>,
    /// `allow.auto.create.topics`: whether asking about a topic may create it.
    pub auto_create_topics: bool,
}

impl ClientConfig {
    /// Reads the properties of a client; `/etc/hosts` and `/etc/resolv.conf` are read here, and not
    /// again. `client.dns.lookup` is `use_all_dns_ips`, which is what Kafka means by it: all
    /// addresses of a host are tried.
    ///
    /// # Errors
    /// [`BadProperty`] names the first property that cannot be.
    pub fn from_properties(mut p: Properties<'_>) -> Result<ClientConfig, BadProperty> {
        let hosts = Hosts::read();
        let servers = p.text("bootstrap.servers");
        let servers = servers.ok_or_else(|| bad("bootstrap.servers", "this must be given"))?;
        let resolver = ResolverConfig::take(&mut p)?;
        let ask = !resolver.servers.is_empty();
        let bootstrap =
            parse_servers(servers, &hosts, ask).map_err(|why| bad("bootstrap.servers", why))?;
        let client_id = p.text("client.id").unwrap_or("kloop");
        if client_id.len() > 249 {
            return Err(bad("client.id", "longer than 249 bytes"));
        }
        match p.text("client.dns.lookup") {
            None | Some("use_all_dns_ips") => {}
            Some("resolve_canonical_bootstrap_servers_only") => {
                return Err(bad("client.dns.lookup", "only use_all_dns_ips is in this build"));
            }
            Some(_) => return Err(bad("client.dns.lookup", "no such way")),
        }
        match p.text("security.protocol") {
            None | Some("PLAINTEXT") => {}
            Some("SSL" | "SASL_PLAINTEXT" | "SASL_SSL") => {
                return Err(bad("security.protocol", "only PLAINTEXT is in this build"));
            }
            Some(_) => return Err(bad("security.protocol", "no such protocol")),
        }
        let config = ClientConfig {
            bootstrap,
            hosts,
            resolver,
            client_id: Box::from(client_id),
            reconnect: schedule(
                &mut p,
                ["reconnect.backoff.ms", "reconnect.backoff.max.ms"],
                [50, 1000],
            )?,
            retry: schedule(&mut p, ["retry.backoff.ms", "retry.backoff.max.ms"], [100, 1000])?,
            setup: schedule(
                &mut p,
                ["socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"],
                [10_000, 30_000],
            )?,
            request_timeout: millis(&mut p, "request.timeout.ms", 30_000, 1)?,
            max_idle: optional_millis(&mut p, "connections.max.idle.ms", 540_000)?,
            metadata_max_age: millis(&mut p, "metadata.max.age.ms", 300_000, 0)?,
            rebootstrap: p.choice("metadata.recovery.strategy", 0, &["rebootstrap", "none"])? == 0,
            rebootstrap_after: millis(
                &mut p,
                "metadata.recovery.rebootstrap.trigger.ms",
                300_000,
                0,
            )?,
            send_buffer: buffer(&mut p, "send.buffer.bytes", 131_072)?,
            receive_buffer: buffer(&mut p, "receive.buffer.bytes", 65_536)?,
            auto_create_topics: p.flag("allow.auto.create.topics", true)?,
        };
        p.finish()?;
        Ok(config)
    }
}

/// Which replicas must have a batch before it counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// None: a batch counts when its last byte is in the socket.
    None,
    /// The leader.
    Leader,
    /// All that are in sync.
    All,
}

impl Acks {
    /// The number on the wire.
    pub fn wire(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// What a producer promises, and how it batches.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// `acks`; all by default.
    pub acks: Acks,
    /// `linger.ms` (5): how long a batch waits for more records.
    pub linger: Duration,
    /// `batch.size` (16384): bytes of a batch, its header included.
    pub batch_size: usize,
    /// `buffer.memory` (32 MiB): bytes of blocks that unfinished batches may hold.
    pub buffer_memory: usize,
    /// `max.request.size` (1 MiB): bytes of a request's batches, and of a record's.
    pub max_request_size: usize,
    /// `delivery.timeout.ms`: from the first record of a batch to its outcome. `None` is 2 minutes,
    /// or as much as linger and request timeout take together.
    pub delivery_timeout: Option<Duration>,
    /// `max.block.ms` (1 min): how long a topic that does not exist is waited for.
    pub max_block: Duration,
    /// `enable.idempotence`: retries neither duplicate nor reorder.
    pub idempotence: bool,
    /// `max.in.flight.requests.per.connection` (5).
    pub max_in_flight: usize,
    /// `retries` (as many as fit in `delivery.timeout.ms`).
    pub retries: u32,
    /// `partitioner.ignore.keys`: sticky for records with a key too.
    pub ignore_keys: bool,
}

impl ProducerConfig {
    /// Reads the properties of a producer.
    ///
    /// # Errors
    /// [`BadProperty`] names the first property that cannot be.
    pub fn from_properties(mut p: Properties<'_>) -> Result<ProducerConfig, BadProperty> {
        const RETRIES: i64 = i32::MAX as i64;
        const MIB: i64 = 1 << 20;
        let acks = [Acks::All, Acks::All, Acks::None, Acks::Leader];
        let acks = acks[p.choice("acks", 0, &["all", "-1", "0", "1"])?];
        let max_in_flight = p.number("max.in.flight.requests.per.connection", 5, 1..=1000)?;
        let retries = p.number("retries", RETRIES, 0..=RETRIES)?;
        let wanted = p.text("enable.idempotence");
        let conflict = if acks != Acks::All {
            Some("needs acks=all")
        } else if max_in_flight > 5 {
            Some("needs max.in.flight.requests.per.connection of 5 at most")
        } else if retries == 0 {
            Some("needs retries")
        } else {
            None
        };
        let idempotence = match (wanted, conflict) {
            (None, conflict) => conflict.is_none(),
            (Some("false"), _) => false,
            (Some("true"), None) => true,
            (Some("true"), Some(why)) => return Err(bad("enable.idempotence", why)),
            (Some(_), _) => return Err(bad("enable.idempotence", "neither true nor false")),
        };
        match p.text("compression.type") {
            None | Some("none") => {}
            Some("gzip" | "snappy" | "lz4" | "zstd") => {
                return Err(bad("compression.type", "only none: the producer does not compress"));
            }
            Some(_) => return Err(bad("compression.type", "no such codec")),
        }
        let config = ProducerConfig {
            acks,
            linger: millis(&mut p, "linger.ms", 5, 0)?,
            batch_size: p.number("batch.size", 16_384, 0..=MIB)? as usize,
            buffer_memory: p.number("buffer.memory", 32 * MIB, 0..=i64::MAX)? as usize,
            max_request_size: p.number("max.request.size", MIB, 0..=i64::from(i32::MAX))? as usize,
            delivery_timeout: match p.text("delivery.timeout.ms") {
                Some(_) => Some(millis(&mut p, "delivery.timeout.ms", 0, 0)?),
                None => None,
            },
            max_block: millis(&mut p, "max.block.ms", 60_000, 0)?,
            idempotence,
            max_in_flight: max_in_flight as usize,
            retries: retries as u32,
            ignore_keys: p.flag("partitioner.ignore.keys", false)?,
        };
        p.finish()?;
        Ok(config)
    }
}

/// Where a consumer goes on when its position is not in the log any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReset {
    /// To the end.
    Latest,
    /// To the beginning.
    Earliest,
    /// Nowhere: the partition fails.
    None,
}

/// What a consumer asks for.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// `fetch.min.bytes` (1).
    pub min_bytes: i32,
    /// `fetch.max.bytes` (50 MiB); what the pool's largest block holds bounds it.
    pub max_bytes: i32,
    /// `max.partition.fetch.bytes` (1 MiB); bounded likewise.
    pub max_partition_bytes: i32,
    /// `fetch.max.wait.ms` (500): how long a broker holds an answer back for `min_bytes`.
    pub max_wait: Duration,
    /// `check.crcs` (true).
    pub check_crcs: bool,
    /// `auto.offset.reset`; latest by default.
    pub reset: OffsetReset,
    /// `isolation.level`: `true` hides records of transactions that are open or were aborted.
    pub read_committed: bool,
    /// `enable.partition.eof` (false): whether to tell when a partition's end is reached.
    pub partition_eof: bool,
}

impl ConsumerConfig {
    /// Reads the properties of a consumer.
    ///
    /// # Errors
    /// [`BadProperty`] names the first property that cannot be.
    pub fn from_properties(mut p: Properties<'_>) -> Result<ConsumerConfig, BadProperty> {
        const MAX: i64 = i32::MAX as i64;
        let resets = [OffsetReset::Latest, OffsetReset::Earliest, OffsetReset::None];
        let reset = p.choice("auto.offset.reset", 0, &["latest", "earliest", "none"])?;
        let config = ConsumerConfig {
            min_bytes: p.number("fetch.min.bytes", 1, 0..=MAX)? as i32,
            max_bytes: p.number("fetch.max.bytes", 52_428_800, 1..=MAX)? as i32,
            max_partition_bytes: p.number("max.partition.fetch.bytes", 1 << 20, 1..=MAX)? as i32,
            max_wait: millis(&mut p, "fetch.max.wait.ms", 500, 0)?,
            check_crcs: p.flag("check.crcs", true)?,
            reset: resets[reset],
            read_committed: p.choice(
                "isolation.level",
                0,
                &["read_uncommitted", "read_committed"],
            )? == 1,
            partition_eof: p.flag("enable.partition.eof", false)?,
        };
        p.finish()?;
        Ok(config)
    }
}

/// The sizes of a client's tables, all taken at creation. What they cost, in bytes: about 3800 a
/// node and 570 more for each consumer it may have, 120 a topic, 30 a partition, 320 a batch, 230 an
/// assigned partition, 130 a raw request, 4 KiB for lookups of names; each producer takes 80 a
/// partition and 16 a topic besides, each consumer 4 a partition. With the defaults that is about
/// 1 MiB, and 170 KiB a producer.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Brokers known at once, the bootstrap list included.
    pub max_nodes: usize,
    /// Topic names.
    pub max_topics: usize,
    /// Partitions over all topics.
    pub max_partitions: usize,
    /// Requests in flight per connection.
    pub max_in_flight: usize,
    /// Batches open, waiting, in flight or not yet taken as an event, over all producers.
    pub max_batches: usize,
    /// Producers.
    pub max_producers: usize,
    /// Consumers.
    pub max_consumers: usize,
    /// Partitions assigned, over all consumers.
    pub max_assigned: usize,
    /// Raw requests at once.
    pub max_requests: usize,
}

impl ClientLimits {
    /// Whether tables of these sizes can be.
    pub(super) fn check(&self) -> Result<(), Error> {
        let needed = [self.max_nodes, self.max_topics, self.max_partitions, self.max_in_flight];
        let others = [
            self.max_batches,
            self.max_producers,
            self.max_consumers,
            self.max_assigned,
            self.max_requests,
        ];
        if needed.contains(&0) {
            return Err(Error::Invalid("no room for a node, topic, partition or request"));
        }
        if needed.iter().chain(&others).any(|&size| size >= 1 << 24) {
            return Err(Error::Invalid("a table of 2^24 entries or more"));
        }
        if self.max_nodes * self.max_consumers >= 1 << 24 {
            return Err(Error::Invalid("max_nodes times max_consumers is 2^24 or more"));
        }
        Ok(())
    }
}

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits {
            max_nodes: 128,
            max_topics: 256,
            max_partitions: 2048,
            max_in_flight: 16,
            max_batches: 1024,
            max_producers: 8,
            max_consumers: 8,
            max_assigned: 1024,
            max_requests: 64,
        }
    }
}

/// The longest time a property may name: 100 years, which an i64 of nanoseconds holds and nobody
/// waits for.
const MAX_MS: i64 = 100 * 365 * 86_400_000;

fn millis(
    p: &mut Properties<'_>,
    key: &str,
    default: i64,
    least: i64,
) -> Result<Duration, BadProperty> {
    // Kafka's "for ever" is the largest number there is.
    let ms = p.number(key, default, least..=i64::MAX)?.min(MAX_MS);
    Ok(Duration::from_millis(ms.unsigned_abs()))
}

/// A time that a negative number switches off.
fn optional_millis(
    p: &mut Properties<'_>,
    key: &str,
    default: i64,
) -> Result<Duration, BadProperty> {
    let ms = p.number(key, default, i64::MIN..=i64::MAX)?.clamp(0, MAX_MS);
    Ok(Duration::from_millis(ms.unsigned_abs()))
}

/// A base and a maximum. If only the base is given, there is no growth (KIP-580).
fn schedule(
    p: &mut Properties<'_>,
    [base_key, max_key]: [&str; 2],
    [base, max]: [i64; 2],
) -> Result<Schedule, BadProperty> {
    let only_base = p.text(base_key).is_some() && p.text(max_key).is_none();
    let base = millis(p, base_key, base, 0)?;
    let max = if only_base { base } else { millis(p, max_key, max, 0)? };
    Ok(Schedule { base, max })
}

/// A socket buffer's size; -1 keeps the system's.
fn buffer(p: &mut Properties<'_>, key: &str, default: i64) -> Result<Option<usize>, BadProperty> {
    let bytes = p.number(key, default, -1..=i64::from(i32::MAX))?;
    Ok(usize::try_from(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn producer(pairs: &[(&'static str, &'static str)]) -> Result<ProducerConfig, BadProperty> {
        ProducerConfig::from_properties(Properties::new(pairs.iter().copied()))
    }

    fn client(pairs: &[(&'static str, &'static str)]) -> Result<ClientConfig, BadProperty> {
        let server = [("bootstrap.servers", "127.0.0.1:9092")];
        let pairs = server.iter().chain(pairs).copied();
        ClientConfig::from_properties(Properties::new(pairs))
    }

    #[test]
    fn defaults_are_kafkas() {
        let config = producer(&[]).unwrap();
        assert_eq!((config.acks, config.idempotence, config.max_in_flight), (Acks::All, true, 5));
        assert_eq!((config.batch_size, config.linger), (16384, Duration::from_millis(5)));
        let config = client(&[("client.dns.lookup", "use_all_dns_ips")]).unwrap();
        assert_eq!(config.reconnect.base, Duration::from_millis(50));
        assert_eq!(config.reconnect.max, Duration::from_millis(1000));
        assert_eq!(config.send_buffer, Some(131_072));
        let config = ConsumerConfig::from_properties(Properties::new([])).unwrap();
        assert_eq!((config.reset, config.check_crcs), (OffsetReset::Latest, true));
    }

    #[test]
    fn idempotence_gives_way_only_if_nobody_asked_for_it() {
        assert!(!producer(&[("acks", "1")]).unwrap().idempotence);
        assert!(!producer(&[("max.in.flight.requests.per.connection", "6")]).unwrap().idempotence);
        assert!(!producer(&[("retries", "0")]).unwrap().idempotence);
        let bad = producer(&[("acks", "0"), ("enable.idempotence", "true")]).unwrap_err();
        assert_eq!(bad.key, "enable.idempotence");
    }

    #[test]
    fn a_base_alone_switches_growth_off() {
        let config = client(&[("reconnect.backoff.ms", "200")]).unwrap();
        assert_eq!(config.reconnect.max, Duration::from_millis(200));
        let both = [("reconnect.backoff.ms", "200"), ("reconnect.backoff.max.ms", "900")];
        assert_eq!(client(&both).unwrap().reconnect.max, Duration::from_millis(900));
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        let key = |pairs: &[(&'static str, &'static str)]| client(pairs).unwrap_err().key;
        assert_eq!(key(&[("security.protocol", "SSL")]), "security.protocol");
        assert_eq!(key(&[("client.dns.lookup", "default")]), "client.dns.lookup");
        let canonical = "resolve_canonical_bootstrap_servers_only";
        assert_eq!(key(&[("client.dns.lookup", canonical)]), "client.dns.lookup");
        assert_eq!(key(&[("bootstrap.servers", "no host.invalid:1")]), "bootstrap.servers");
        assert_eq!(key(&[("resolver.nameservers", "ns.invalid")]), "resolver.nameservers");
        assert_eq!(key(&[("sasl.mechanism", "PLAIN")]), "sasl.mechanism");
        assert_eq!(producer(&[("compression.type", "lz4")]).unwrap_err().key, "compression.type");
        let none = ClientConfig::from_properties(Properties::new([]));
        assert_eq!(none.unwrap_err().key, "bootstrap.servers");
        assert_eq!(client(&[("send.buffer.bytes", "-1")]).unwrap().send_buffer, None);
    }
}
