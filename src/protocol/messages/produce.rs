//! Produce (API 0): record batches for partitions, and where they were put.
//!
//! Versions 0 to 2 carry message sets of the old formats; nobody serves them any more.

use super::shared::{LeaderIdAndEpoch, NodeEndpoint};
use crate::protocol::declare::{Array, Uuid, message};

message! {
    /// Appends one batch to each of the named partitions.
    pub struct ProduceRequest<'a>: 0, [3..=13], flexible 9 {
        /// The transaction that the batches belong to.
        transactional_id: Option<&'a str> [3..],
        /// How many replicas must have the batch: 0 asks for no answer, 1 the leader, -1 all in sync.
        acks: i16 [3..],
        /// How long the broker may wait for the replicas, in milliseconds.
        timeout_ms: i32 [3..],
        /// The topics.
        topic_data: Array<'a, ProduceTopicData<'static>> [3..],
    }
}

message! {
    /// One topic's batches.
    pub struct ProduceTopicData<'a> {
        /// The topic's name.
        name: &'a str [..=12],
        /// The topic's id.
        topic_id: Uuid [13..],
        /// The partitions.
        partition_data: Array<'a, ProducePartitionData<'static>> [3..],
    }
}

message! {
    /// One partition's batch.
    pub struct ProducePartitionData<'a> {
        /// The partition's number.
        index: i32 [3..],
        /// One record batch, magic 2.
        records: Option<&'a [u8]> [3..],
    }
}

message! {
    /// What became of each batch.
    pub struct ProduceResponse<'a>: 0, [3..=13], flexible 9 {
        /// The topics, in the request's order.
        responses: Array<'a, ProduceTopicResponse<'static>> [3..],
        /// How long the client should hold back, in milliseconds.
        throttle_time_ms: i32 [3..],
        /// Where the leaders hinted at below can be reached.
        node_endpoints: Array<'a, NodeEndpoint<'static>> [10..] tag 0,
    }
}

message! {
    /// One topic's outcomes.
    pub struct ProduceTopicResponse<'a> {
        /// The topic's name.
        name: &'a str [..=12],
        /// The topic's id.
        topic_id: Uuid [13..],
        /// The partitions.
        partition_responses: Array<'a, ProducePartitionResponse<'static>> [3..],
    }
}

message! {
    /// One partition's outcome.
    pub struct ProducePartitionResponse<'a> {
        /// The partition's number.
        index: i32 [3..],
        /// 0, or why the batch was refused.
        error_code: i16 [3..],
        /// The offset of the batch's first record; -1 if it was refused.
        base_offset: i64 [3..],
        /// The time that the broker stamped on the batch; -1 if the producer's stays.
        log_append_time_ms: i64 [3..] = -1,
        /// The oldest offset that the partition still has.
        log_start_offset: i64 [5..] = -1,
        /// The records that made the whole batch be refused.
        record_errors: Array<'a, ProduceRecordError<'static>> [8..],
        /// What is wrong with the batch, in words.
        error_message: Option<&'a str> [8..],
        /// Who leads the partition, if the answering broker does not.
        current_leader: LeaderIdAndEpoch [10..] tag 0,
    }
}

message! {
    /// One record that was refused.
    pub struct ProduceRecordError<'a> {
        /// Its place in the batch, from 0.
        batch_index: i32 [8..],
        /// What is wrong with it, in words.
        batch_index_error_message: Option<&'a str> [8..],
    }
}
