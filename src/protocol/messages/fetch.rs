//! Fetch (API 1): reads record batches from partitions, by consumers and by followers.
//!
//! Versions 0 to 3 carry message sets of the old formats; nobody serves them any more.

use super::shared::{LeaderIdAndEpoch, NodeEndpoint};
use crate::protocol::declare::{Array, Uuid, message};

message! {
    /// Asks for batches from an offset on, and may wait for some to come.
    pub struct FetchRequest<'a>: 1, [4..=18], flexible 12 {
        /// The cluster's id, if the follower knows it.
        cluster_id: Option<&'a str> [12..] tag 0,
        /// The follower's broker id; -1 is a consumer.
        replica_id: i32 [..=14] = -1,
        /// Which follower asks, in place of `replica_id`.
        replica_state: FetchReplicaState [15..] tag 1,
        /// How long the broker may hold the answer back, in milliseconds.
        max_wait_ms: i32 [4..],
        /// How many bytes of records are worth an answer before that.
        min_bytes: i32 [4..],
        /// How many bytes of records the answer may hold; the first batch may exceed it.
        max_bytes: i32 [4..] = i32::MAX,
        /// 0 reads everything, 1 only what is committed.
        isolation_level: i8 [4..],
        /// The fetch session; 0 is none yet.
        session_id: i32 [7..],
        /// The request's number in the session; -1 is without one, 0 opens one.
        session_epoch: i32 [7..] = -1,
        /// The partitions to read; in a session, those that changed.
        topics: Array<'a, FetchTopic<'static>> [4..],
        /// The partitions that leave the session.
        forgotten_topics_data: Array<'a, FetchForgottenTopic<'static>> [7..],
        /// The rack of the consumer, which may let it read from a near follower.
        rack_id: &'a str [11..],
    }
}

message! {
    /// The follower that fetches.
    pub struct FetchReplicaState {
        /// Its broker id; -1 is a consumer.
        replica_id: i32 [15..] = -1,
        /// The epoch of its registration.
        replica_epoch: i64 [15..] = -1,
    }
}

message! {
    /// One topic to read.
    pub struct FetchTopic<'a> {
        /// The topic's name.
        topic: &'a str [..=12],
        /// The topic's id.
        topic_id: Uuid [13..],
        /// The partitions.
        partitions: Array<'a, FetchPartition> [4..],
    }
}

message! {
    /// One partition to read.
    pub struct FetchPartition {
        /// Its number.
        partition: i32 [4..],
        /// The leader epoch that the reader knows; -1 skips the check.
        current_leader_epoch: i32 [9..] = -1,
        /// The offset to read from.
        fetch_offset: i64 [4..],
        /// The epoch of the last record that the reader has; -1 skips the check.
        last_fetched_epoch: i32 [12..] = -1,
        /// The follower's oldest offset; a consumer says -1.
        log_start_offset: i64 [5..] = -1,
        /// How many bytes of records this partition may add; the first batch may exceed it.
        partition_max_bytes: i32 [4..],
        /// The directory that the follower keeps the partition in.
        replica_directory_id: Uuid [17..] tag 0,
        /// The high watermark that the follower knows; i64::MAX if it does not say.
        high_watermark: i64 [18..] tag 1 = i64::MAX,
    }
}

message! {
    /// Partitions of one topic that leave the session.
    pub struct FetchForgottenTopic<'a> {
        /// The topic's name.
        topic: &'a str [..=12],
        /// The topic's id.
        topic_id: Uuid [13..],
        /// The partitions' numbers.
        partitions: Array<'a, i32> [7..],
    }
}

message! {
    /// The batches.
    pub struct FetchResponse<'a>: 1, [4..=18], flexible 12 {
        /// How long the client should hold back, in milliseconds.
        throttle_time_ms: i32 [4..],
        /// An error for the whole answer, as of the session.
        error_code: i16 [7..],
        /// The fetch session; 0 if there is none.
        session_id: i32 [7..],
        /// The topics.
        responses: Array<'a, FetchTopicResponse<'static>> [4..],
        /// Where the leaders hinted at below can be reached.
        node_endpoints: Array<'a, NodeEndpoint<'static>> [16..] tag 0,
    }
}

message! {
    /// One topic's batches.
    pub struct FetchTopicResponse<'a> {
        /// The topic's name.
        topic: &'a str [..=12],
        /// The topic's id.
        topic_id: Uuid [13..],
        /// The partitions.
        partitions: Array<'a, FetchPartitionResponse<'static>> [4..],
    }
}

message! {
    /// One partition's batches.
    pub struct FetchPartitionResponse<'a> {
        /// Its number.
        partition_index: i32 [4..],
        /// 0, or why there is nothing to read.
        error_code: i16 [4..],
        /// The offset after the last record that all replicas have.
        high_watermark: i64 [4..],
        /// The offset below which every transaction has ended; -1 if it is not known.
        last_stable_offset: i64 [4..] = -1,
        /// The oldest offset that the partition still has.
        log_start_offset: i64 [5..] = -1,
        /// Where the reader's log and the leader's part; default if they do not.
        diverging_epoch: FetchEpochEndOffset [12..] tag 0,
        /// Who leads the partition, if the answering broker does not.
        current_leader: LeaderIdAndEpoch [12..] tag 1,
        /// The snapshot that a follower must read first.
        snapshot_id: FetchSnapshotId [12..] tag 2,
        /// Transactions in this range that were aborted; null if the reader did not ask for committed.
        aborted_transactions: Option<Array<'a, AbortedTransaction>> [4..],
        /// The follower that the consumer should read from; -1 is the leader.
        preferred_read_replica: i32 [11..] = -1,
        /// Record batches, the last of which may be cut off. No records is empty, not null.
        records: Option<&'a [u8]> [4..],
    }
}

message! {
    /// Where an epoch ends in the leader's log.
    pub struct FetchEpochEndOffset {
        /// The epoch.
        epoch: i32 [12..] = -1,
        /// The offset after its last record.
        end_offset: i64 [12..] = -1,
    }
}

message! {
    /// A snapshot of a replicated log's state.
    pub struct FetchSnapshotId {
        /// The offset after the last record that it covers.
        end_offset: i64 [12..] = -1,
        /// The epoch of that record.
        epoch: i32 [12..] = -1,
    }
}

message! {
    /// One transaction that was aborted.
    pub struct AbortedTransaction {
        /// The producer whose transaction it was.
        producer_id: i64 [4..],
        /// The first offset that it wrote.
        first_offset: i64 [4..],
    }
}
