//! The broker: connections, request handling, topics and their logs.

use crate::error::Error;
use crate::net::slots::SlotId;
use crate::net::{ChannelOptions, ConnId, Notice, Owner, Selectable, SharedLease};
use crate::time::{Instant, Moment};

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
