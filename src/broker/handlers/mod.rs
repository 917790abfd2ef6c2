//! Handlers: one file per API, and the table by which a request finds its handler.
//!
//! A handler is a function of what all handlers share, its thread's working tables, one request and
//! the answer to it. It knows no connection, keeps nothing between two requests, and may be called
//! anew with the same request as long as it only parked.

mod api_versions;
mod create_topics;
mod delete_topics;
mod fetch;
mod init_producer_id;
mod list_offsets;
mod metadata;
mod offset_for_leader_epoch;
mod produce;

pub(crate) use api_versions::kafka_versions;

use super::answer::Answer;
use super::core::Core;
use super::request::{Outcome, Request};
use super::scratch::Scratch;
use crate::protocol::ApiKey;

/// What serves an API.
pub(crate) type Handler = fn(&Core, &mut Scratch, &Request<'_>, &mut Answer<'_>) -> Outcome;

/// One API that is served.
#[derive(Debug)]
pub(crate) struct Api {
    /// The API.
    pub key: ApiKey,
    /// The smallest version that is advertised.
    pub min: i16,
    /// The smallest version that is served: requests below it end the connection.
    pub served_from: i16,
    /// The largest version.
    pub max: i16,
    /// What serves it.
    pub handle: Handler,
}

macro_rules! apis {
    ($($KEY:ident $min:literal..=$max:literal from $from:literal $handler:ident;)*) => {
        /// The APIs that are served.
        pub(crate) static APIS: &[Api] = &[$(Api {
            key: ApiKey::$KEY,
            min: $min,
            served_from: $from,
            max: $max,
            handle: $handler::handle,
        }),*];
    };
}

apis! {
    // librdkafka before 2.11.1 compresses only if Produce v0 is advertised (KAFKA-18659), so it
    // is, as by Kafka 4; nobody sends it.
    PRODUCE 0..=11 from 3 produce;
    FETCH 4..=12 from 4 fetch;
    LIST_OFFSETS 1..=7 from 1 list_offsets;
    METADATA 0..=13 from 0 metadata;
    API_VERSIONS 0..=4 from 0 api_versions;
    CREATE_TOPICS 2..=7 from 2 create_topics;
    DELETE_TOPICS 1..=6 from 1 delete_topics;
    INIT_PRODUCER_ID 0..=4 from 0 init_producer_id;
    OFFSET_FOR_LEADER_EPOCH 2..=4 from 2 offset_for_leader_epoch;
}
