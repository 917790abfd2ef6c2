//! The broker: an embedded Kafka broker of one node, with its log in memory, that Kafka's clients use
//! unmodified. A state machine: it is given notices, calls and the time, and yields sends, events and
//! a next deadline. It reads no clock and owns no socket.
//!
//! **A request's road** (`serve`):
//!
//! ```text
//!  Notice::Frames ─► next_frame ─► header ─► handlers::APIS ─► handler ─► Answer ─► net.send
//!        ▲                           │                            │
//!        │ unmute                    │ an API of the host's       │ Stop::Park
//!        │                           ▼                            ▼
//!        │                    HostRequests ─► event        Delayed: appends, memory, room
//!        │                           │                            │ ready, or its time is over
//!        └──────── respond ──────────┴──────────── turn ──────────┘ (handled anew)
//! ```
//!
//! A connection's requests are handled one after another within the turn, each to its answer, until
//! one has to wait; then the connection is muted, and what comes behind waits in its socket. So
//! answers leave in the order of requests, and those of a turn in one system call. A handler that
//! parks has changed nothing: it runs again from the start.
//!
//! With threads of its own ([`reactor`]) the same code hands requests to other threads, and what the host
//! answers to [`HostThreads`].
//!
//! **What goes wrong.** What cannot be understood or is not served ends its connection, with a line
//! in the log and without an answer, since the client could not read one (ApiVersions is the
//! exception). Decoding, handling and encoding one request run under a guard: a panic ends its
//! connection, and if it came while a log was changed, that partition answers 56 from then on.
//!
//! **Who shares what.** [`Broker`] is one thread at a time, but its handlers are written for several:
//! they see `core::Core`, which is shared, and `scratch::Scratch`, which each thread has for itself;
//! connections, parked requests and events belong to whoever owns the connection. An append reaches
//! those who wait for it only as a list of partitions (`scratch::Appended`).
//!
//! **On threads of its own** ([`Reactor`]): each processor is a [`Broker`] of this same code over a
//! shared `Core`, whose handlers run elsewhere: see `dispatch` and [`reactor`].
//!
//! **Lock order.** The topic table, then a partition; then, each alone and last, the producers, the
//! log's memory, the advertised address. No lock is held over encoding an answer, over I/O, or over
//! another of its rank: a Produce takes its partitions one after another, and memory is taken (which
//! evicts from other partitions) with no partition locked.
//!
//! **Looking into batches** (`batch_reader`): whoever runs handlers (this broker, or each handler
//! thread) has codecs (140 KB) and room to inflate one batch in, as large as the largest block of the
//! log, but at most 16 MiB (or `message.max.bytes`, if that is more). It is mapped at creation and
//! touched as it is used: a broker that never inflates has none of it resident, and one that inflated
//! a large batch keeps the pages. What a polled broker inflates counts against the bytes of its turn.
//!
//! **Retention** is that of memory: see `log`. **Bounds**: every table is taken at creation
//! ([`BrokerLimits`]); creating a topic allocates its partitions, within the limits; nothing else
//! allocates. What does not fit waits (answers, batches, requests of the host's) or is answered with
//! what there is (long polls).
//!
//! **Deliberately absent**: consumer groups and transactions (their APIs are not advertised; a host
//! can serve them), fetch sessions (every answer says session 0), topic ids in Produce and Fetch
//! (their versions are not advertised), recompression, quotas, ACLs, compaction, time-based
//! retention, other brokers. A request is at most [`config::REQUEST_MAX_BYTES`], because a frame is
//! received into one block. Without groups FindCoordinator is not advertised, and librdkafka then
//! sends what was to be LZ4 uncompressed.

mod answer;
mod batch_reader;
pub mod config;
mod connections;
mod core;
mod delayed;
mod dispatch;
mod epoch;
mod events;
mod handlers;
mod host;
mod host_answer;
mod log;
mod partition;
mod random;
pub mod reactor;
mod request;
mod scratch;
mod serve;
mod server;
#[cfg(test)]
mod tests;
mod topic_settings;
mod topics;

pub(crate) use config::is_cluster_id;
pub use config::{BrokerConfig, BrokerLimits};
pub use reactor::{HostThreads, Reactor, ReactorConfig, Taken};
pub use server::Broker;

use crate::net::slots::SlotId;
use crate::net::{ConnId, SharedLease};

/// What the broker has to tell its host.
#[derive(Debug)]
pub enum BrokerEvent {
    /// A request of an API that the host answers itself.
    Request {
        /// The broker's owner value.
        owner: u64,
        /// The connection.
        conn: ConnId,
        /// Takes exactly one answer.
        request: SlotId,
        /// The body, behind the request header; kept until the answer.
        body: SharedLease,
        /// The API key.
        api_key: i16,
        /// The version.
        api_version: i16,
    },
    /// A connection was taken.
    Opened {
        /// The broker's owner value.
        owner: u64,
        /// The connection.
        conn: ConnId,
    },
    /// A connection ended.
    Gone {
        /// The broker's owner value.
        owner: u64,
        /// The connection; its id is stale.
        conn: ConnId,
    },
    /// A response that was borrowed from the host is written or dropped.
    Sent {
        /// The broker's owner value.
        owner: u64,
        /// The token of the response.
        user: u64,
    },
    /// The broker is closed; nothing of it follows.
    Closed {
        /// The broker's owner value.
        owner: u64,
    },
}

/// What a broker counted since it was made, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerStats {
    /// Open connections.
    pub connections: u64,
    /// Connections taken.
    pub accepted: u64,
    /// Connections ended by the broker because of what the peer sent.
    pub refused: u64,
    /// Requests taken.
    pub requests: u64,
    /// Answers queued.
    pub answers: u64,
    /// Requests that wait now.
    pub parked: u64,
    /// Requests that are with the host now.
    pub host_requests: u64,
    /// Topics.
    pub topics: u64,
    /// Partitions.
    pub partitions: u64,
    /// Batches appended.
    pub batches_in: u64,
    /// Bytes of batches appended.
    pub bytes_in: u64,
    /// Bytes of batches answered to fetches.
    pub bytes_out: u64,
    /// Batches that were in the log before and were not appended again.
    pub duplicates: u64,
    /// Evaluations of waiting fetches.
    pub wakes: u64,
    /// Blocks of the log that were dropped to make room.
    pub evicted: u64,
    /// Bytes of log memory in use, with what readers still hold.
    pub log_in_use: u64,
    /// Bytes of log memory.
    pub log_total: u64,
    /// Requests whose handling panicked.
    pub panics: u64,
}
