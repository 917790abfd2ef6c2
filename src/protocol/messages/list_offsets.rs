//! ListOffsets (API 2): the offset that belongs to a time, and the ends of partitions.
//!
//! Version 0 answered with lists of segment starts; nobody serves it any more.

use crate::protocol::declare::{Array, message};

message! {
    /// Asks for one offset of each partition.
    pub struct ListOffsetsRequest<'a>: 2, [1..=10], flexible 6 {
        /// The follower's broker id; -1 is a consumer.
        replica_id: i32 [1..] = -1,
        /// 0 counts everything, 1 only what is committed.
        isolation_level: i8 [2..],
        /// The topics.
        topics: Array<'a, ListOffsetsTopic<'static>> [1..],
        /// How long the broker may take to read remote storage, in milliseconds.
        timeout_ms: i32 [10..],
    }
}

message! {
    /// One topic.
    pub struct ListOffsetsTopic<'a> {
        /// Its name.
        name: &'a str [1..],
        /// Its partitions.
        partitions: Array<'a, ListOffsetsPartition> [1..],
    }
}

message! {
    /// One partition.
    pub struct ListOffsetsPartition {
        /// Its number.
        partition_index: i32 [1..],
        /// The leader epoch that the asker knows; -1 skips the check.
        current_leader_epoch: i32 [4..] = -1,
        /// A time in milliseconds; -1 the end, -2 the start, -3 (v7) the largest timestamp, -4 (v8)
        /// the start of local storage, -5 (v9) the end of remote storage.
        timestamp: i64 [1..],
    }
}

message! {
    /// The offsets.
    pub struct ListOffsetsResponse<'a>: 2, [1..=10], flexible 6 {
        /// How long the client should hold back, in milliseconds.
        throttle_time_ms: i32 [2..],
        /// The topics.
        topics: Array<'a, ListOffsetsTopicResponse<'static>> [1..],
    }
}

message! {
    /// One topic.
    pub struct ListOffsetsTopicResponse<'a> {
        /// Its name.
        name: &'a str [1..],
        /// Its partitions.
        partitions: Array<'a, ListOffsetsPartitionResponse> [1..],
    }
}

message! {
    /// One partition.
    pub struct ListOffsetsPartitionResponse {
        /// Its number.
        partition_index: i32 [1..],
        /// 0, or why there is no offset.
        error_code: i16 [1..],
        /// The timestamp of the record at `offset`; -1 if there is none.
        timestamp: i64 [1..] = -1,
        /// The offset; -1 if there is none.
        offset: i64 [1..] = -1,
        /// The epoch of the record at `offset`; -1 if it is not known.
        leader_epoch: i32 [4..] = -1,
    }
}
