//! The broker: connections, request handling, topics and their logs.

mod answer;
pub mod config;
mod connections;
mod core;
mod delayed;
mod epoch;
mod events;
mod handlers;
mod host;
mod log;
mod partition;
mod random;
mod request;
mod scratch;
mod serve;
mod server;
#[cfg(test)]
mod tests;
mod topic_settings;
mod topics;

pub use config::{BrokerConfig, BrokerLimits};
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
