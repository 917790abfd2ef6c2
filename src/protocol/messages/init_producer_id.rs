//! InitProducerId (API 22): the id and epoch of an idempotent or transactional producer.

use crate::protocol::declare::message;

message! {
    /// Asks for a producer id, or for the next epoch of one.
    pub struct InitProducerIdRequest<'a>: 22, [0..=5], flexible 2 {
        /// The transaction's name; null is a producer that is idempotent only.
        transactional_id: Option<&'a str> [0..],
        /// When the broker may abort an idle transaction, in milliseconds.
        transaction_timeout_ms: i32 [0..],
        /// The id that the producer has; -1 is none.
        producer_id: i64 [3..] = -1,
        /// The epoch that it has; -1 is none.
        producer_epoch: i16 [3..] = -1,
    }
}

message! {
    /// The producer id.
    pub struct InitProducerIdResponse: 22, [0..=5], flexible 2 {
        /// How long the client should hold back, in milliseconds.
        throttle_time_ms: i32 [0..],
        /// 0, or why there is no id.
        error_code: i16 [0..],
        /// The id.
        producer_id: i64 [0..] = -1,
        /// Its epoch.
        producer_epoch: i16 [0..],
    }
}
