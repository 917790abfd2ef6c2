//! ClientConfig, ProducerConfig, ConsumerConfig: Kafka's properties, checked once and typed; and
//! the sizes of the client's tables.

use crate::properties::{BadProperty, Properties};
use core::time::Duration;
use std::net::SocketAddr;

/// How to reach a cluster and how patient to be with it.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `bootstrap.servers`, resolved.
    pub bootstrap: Box<[SocketAddr]>,
    /// `client.id`.
    pub client_id: Box<str>,
    /// `request.timeout.ms`.
    pub request_timeout: Duration,
}

impl ClientConfig {
    /// Reads the properties of a client. Names in `bootstrap.servers` must be numeric, `localhost`
    /// or stand in `/etc/hosts`, which is read here.
    ///
    /// # Errors
    /// [`BadProperty`] names the first property that cannot be.
    pub fn from_properties(_p: Properties<'_>) -> Result<ClientConfig, BadProperty> {
        todo!()
    }
}

/// What a producer promises and how it batches.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// `batch.size`, in bytes.
    pub batch_size: usize,
}

impl ProducerConfig {
    /// Reads the properties of a producer.
    ///
    /// # Errors
    /// [`BadProperty`] names the first property that cannot be.
    pub fn from_properties(_p: Properties<'_>) -> Result<ProducerConfig, BadProperty> {
        todo!()
    }
}

/// What a consumer asks for.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// `check.crcs`.
    pub check_crcs: bool,
}

impl ConsumerConfig {
    /// Reads the properties of a consumer.
    ///
    /// # Errors
    /// [`BadProperty`] names the first property that cannot be.
    pub fn from_properties(_p: Properties<'_>) -> Result<ConsumerConfig, BadProperty> {
        todo!()
    }
}

/// The sizes of a client's tables, all taken at creation.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Brokers known at once.
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

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits {
            max_nodes: 32,
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
