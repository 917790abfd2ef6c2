//! The client of one cluster: nodes and their connections, metadata, producers and consumers.
//!
//! A state machine: it takes notices, calls and the time, and yields sends, events and a next
//! deadline. It reads no clock and owns no socket. One thread at a time.
//!
//! **Nodes.** A broker has several connections:
//! - one for what is answered at once,
//! - one for the fetches of each consumer,
//! - one for raw requests that it may hold back.
//!
//! Each goes Disconnected → Resolving → Connecting → CheckingVersions → Ready, and back to
//! Disconnected with a backoff that doubles until it has been Ready again. Resolving is for hosts
//! that a name server must be asked for ([`resolver`]), when their addresses are not known, are old,
//! have all failed, or a connection was lost. All addresses of a host are raced. A connection is made
//! when something wants to be sent. Answers are matched with requests by order and id; a mismatch, a
//! malformed answer or a request out of time ends the connection, and what was on it is tried again
//! or fails.
//!
//! **Metadata** is asked for at start, for each new topic, when something shows that it is wrong,
//! and when it is old. A topic keeps its number, a partition too.
//!
//! **Promises.** Each record that was taken ends in exactly one [`ClientEvent::Delivered`], by
//! `delivery.timeout.ms`; what its [`Outcome`] means is in [`producer`]. Each raw request ends in
//! exactly one [`ClientEvent::Reply`]. A partition has at most one event at a time; see
//! [`consumer`]. An event is never dropped, except those of a consumer or of partitions that its
//! host gave up, and [`ClientEvent::Writable`] of a producer that takes no more. After
//! [`ClientEvent::Closed`] nothing follows.
//!
//! **Memory.** All tables are taken by [`Client::new`], [`Client::add_producer`] and
//! [`Client::add_consumer`], the codecs' memory (140 KB) by [`Client::new`] if there may be
//! consumers; [`Client::topic`] may allocate; nothing else does. Records, requests and answers live
//! in pool blocks.
//!
//! Deliberately absent: SASL and TLS, groups, transactions, compressing what is produced.

mod bootstrap;
#[expect(clippy::module_inception, reason = "the file that a newcomer looks for first")]
mod client;
pub mod config;
pub mod consumer;
mod events;
mod host;
mod in_flight;
mod lists;
mod metadata;
mod metadata_refresh;
mod names;
mod network_client;
mod next_event;
mod node_connections;
mod node_state;
mod node_versions;
mod nodes;
pub mod producer;
mod race;
mod random;
pub mod records;
mod requests;
pub mod resolver;
mod stats;
#[cfg(test)]
mod tests;
mod version_check;

pub use bootstrap::Hosts;
pub use client::Client;
pub use config::{Acks, ClientConfig, ClientLimits, ConsumerConfig, OffsetReset, ProducerConfig};
pub use host::{Addresses, Endpoint, HostName, MAX_ADDRESSES};
pub use node_state::Schedule;
pub use producer::partitioner::{murmur2, partition_of_key};
pub use records::{FetchedHeaders, FetchedRecord, RecordCursor};
pub use resolver::ResolverConfig;
pub use stats::ClientStats;

use crate::error::Error;
use crate::net::SharedLease;
use crate::net::slots::SlotId;

/// Exchanges with name servers that one client has under way at most.
pub const LOOKUP_EXCHANGES: usize = 2 * resolver::LOOKUPS;

/// A topic name, interned: valid for the client that gave it, for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(pub u32);

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is certain that the broker does not have it.
    NotPersisted,
    /// The broker may or may not have it.
    MaybePersisted,
    /// The broker acknowledged it (with acks=0: it was written to the socket).
    Persisted,
}

/// What the client has to tell.
#[derive(Debug)]
pub enum ClientEvent {
    /// A run of records of one batch has its outcome.
    Delivered {
        /// The producer's owner value.
        owner: u64,
        /// The host's token of each record, in order, as native-endian u64s.
        users: SharedLease,
        /// How many records.
        count: u32,
        /// The first record's offset; -1 if there is none.
        base_offset: i64,
        /// Where they went.
        topic: TopicId,
        /// Where they went.
        partition: i32,
        /// What became of them.
        outcome: Outcome,
        /// Why, if they were not persisted.
        error: Option<Error>,
    },
    /// A producer that refused a record takes records again.
    Writable {
        /// The producer's owner value.
        owner: u64,
    },
    /// A flush is over: all records accepted before it have their outcome.
    Flushed {
        /// The producer's owner value.
        owner: u64,
        /// The token of the flush.
        user: u64,
    },
    /// Fetched batches of one partition; the records are views into `batches`.
    Records {
        /// The consumer's owner value.
        owner: u64,
        /// Whole record batches, CRC checked. The first may begin before `from`.
        batches: SharedLease,
        /// The position this fetch was for; records before it are skipped when reading.
        from: i64,
        /// Records from `from` on.
        count: u32,
        /// The partition's high watermark.
        high_watermark: i64,
        /// Where they are from.
        topic: TopicId,
        /// Where they are from.
        partition: i32,
    },
    /// The position of a partition reached its end.
    Eof {
        /// The consumer's owner value.
        owner: u64,
        /// Which topic.
        topic: TopicId,
        /// Which partition.
        partition: i32,
        /// The position, which is the high watermark.
        offset: i64,
    },
    /// A partition of a consumer cannot go on, or a handle has something to report. Of a client: a
    /// host cannot be resolved ([`Error::Resolve`]); it is tried again, and said once for each
    /// reason.
    Failed {
        /// The handle's owner value.
        owner: u64,
        /// What.
        error: Error,
        /// Which topic, if one.
        topic: Option<TopicId>,
        /// Which partition, or -1.
        partition: i32,
        /// The position at which it stopped, or -1.
        offset: i64,
    },
    /// A raw request has its answer or its end.
    Reply {
        /// The client's owner value.
        owner: u64,
        /// The request's token.
        user: u64,
        /// The operation.
        op: SlotId,
        /// The answer's body, behind the response header.
        body: Result<SharedLease, Error>,
        /// The request's API key.
        api_key: i16,
        /// The request's version.
        api_version: i16,
    },
    /// The first metadata is here.
    Ready {
        /// The client's owner value.
        owner: u64,
    },
    /// A handle that was closed has ended; nothing of it follows.
    Closed {
        /// The handle's owner value.
        owner: u64,
    },
}

/// One record to produce. Borrowed for the call.
#[derive(Clone, Copy, Debug)]
pub struct OutRecord<'a> {
    /// Where to.
    pub topic: TopicId,
    /// The partition, or `None` to have one chosen: murmur2 of the key as Kafka's own client does
    /// it, sticky without a key.
    pub partition: Option<i32>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Milliseconds since 1970; `None` takes the time of the call.
    pub timestamp_ms: Option<i64>,
    /// The host's token, given back with the outcome.
    pub user: u64,
}
