//! OffsetForLeaderEpoch (API 23): where an epoch ends, by which a reader finds a truncated log.

use crate::protocol::declare::{Array, message};

message! {
    /// Asks for the end of one epoch in each partition.
    pub struct OffsetForLeaderEpochRequest<'a>: 23, [2..=4], flexible 4 {
        /// The follower's broker id; -1 is a consumer.
        replica_id: i32 [3..] = -1,
        /// The topics.
        topics: Array<'a, OffsetForLeaderTopic<'static>> [2..],
    }
}

message! {
    /// One topic.
    pub struct OffsetForLeaderTopic<'a> {
        /// Its name.
        topic: &'a str [2..],
        /// Its partitions.
        partitions: Array<'a, OffsetForLeaderPartition> [2..],
    }
}

message! {
    /// One partition.
    pub struct OffsetForLeaderPartition {
        /// Its number.
        partition: i32 [2..],
        /// The leader epoch that the asker knows; -1 skips the check.
        current_leader_epoch: i32 [2..] = -1,
        /// The epoch whose end is asked for.
        leader_epoch: i32 [2..],
    }
}

message! {
    /// The ends.
    pub struct OffsetForLeaderEpochResponse<'a>: 23, [2..=4], flexible 4 {
        /// How long the client should hold back, in milliseconds.
        throttle_time_ms: i32 [2..],
        /// The topics.
        topics: Array<'a, OffsetForLeaderTopicResult<'static>> [2..],
    }
}

message! {
    /// One topic.
    pub struct OffsetForLeaderTopicResult<'a> {
        /// Its name.
        topic: &'a str [2..],
        /// Its partitions.
        partitions: Array<'a, EpochEndOffset> [2..],
    }
}

message! {
    /// One partition.
    pub struct EpochEndOffset {
        /// 0, or why there is no answer.
        error_code: i16 [2..],
        /// Its number.
        partition: i32 [2..],
        /// The largest epoch that is not above the one asked for; -1 if there is none.
        leader_epoch: i32 [2..] = -1,
        /// The offset after that epoch's last record; -1 if there is none.
        end_offset: i64 [2..] = -1,
    }
}
