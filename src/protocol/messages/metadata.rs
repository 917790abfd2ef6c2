//! Metadata (API 3): brokers, topics, partitions and their leaders.

use crate::protocol::declare::{Array, Uuid, message};

message! {
    /// Asks for the cluster, and for topics by name or (v12) by id.
    pub struct MetadataRequest<'a>: 3, [0..=13], flexible 9 {
        /// The topics asked for. Null is all of them from v1 on; in v0 an empty list is.
        topics: Option<Array<'a, MetadataRequestTopic<'static>>> [0..],
        /// Whether the broker may create a topic that it does not have.
        allow_auto_topic_creation: bool [4..] = true,
        /// Whether to tell what may be done with the cluster.
        include_cluster_authorized_operations: bool [8..=10],
        /// Whether to tell what may be done with each topic.
        include_topic_authorized_operations: bool [8..],
    }
}

message! {
    /// One topic asked for.
    pub struct MetadataRequestTopic<'a> {
        /// The topic's id; zero asks by name.
        topic_id: Uuid [10..],
        /// The topic's name; null (v10) asks by id.
        name: Option<&'a str> [0..],
    }
}

message! {
    /// The cluster as the broker sees it.
    pub struct MetadataResponse<'a>: 3, [0..=13], flexible 9 {
        /// How long the client should hold back, in milliseconds.
        throttle_time_ms: i32 [3..],
        /// The live brokers.
        brokers: Array<'a, MetadataBroker<'static>> [0..],
        /// The cluster's name.
        cluster_id: Option<&'a str> [2..],
        /// The broker that takes topic creation and deletion.
        controller_id: i32 [1..] = -1,
        /// The topics asked for.
        topics: Array<'a, MetadataTopic<'static>> [0..],
        /// What the caller may do with the cluster; i32::MIN if it was not asked.
        cluster_authorized_operations: i32 [8..=10] = i32::MIN,
        /// An error for the whole answer.
        error_code: i16 [13..],
    }
}

message! {
    /// One broker.
    pub struct MetadataBroker<'a> {
        /// Its id.
        node_id: i32 [0..],
        /// Its advertised host.
        host: &'a str [0..],
        /// Its advertised port.
        port: i32 [0..],
        /// Its rack.
        rack: Option<&'a str> [1..],
    }
}

message! {
    /// One topic.
    pub struct MetadataTopic<'a> {
        /// 0, or why there is no answer for this topic.
        error_code: i16 [0..],
        /// Its name; null (v12) if it was asked by an unknown id.
        name: Option<&'a str> [0..],
        /// Its id.
        topic_id: Uuid [10..],
        /// Whether it belongs to Kafka itself.
        is_internal: bool [1..],
        /// Its partitions.
        partitions: Array<'a, MetadataPartition<'static>> [0..],
        /// What the caller may do with it; i32::MIN if it was not asked.
        topic_authorized_operations: i32 [8..] = i32::MIN,
    }
}

message! {
    /// One partition.
    pub struct MetadataPartition<'a> {
        /// 0, or what is wrong with it.
        error_code: i16 [0..],
        /// Its number.
        partition_index: i32 [0..],
        /// The broker that leads it.
        leader_id: i32 [0..],
        /// The epoch of that leadership.
        leader_epoch: i32 [7..] = -1,
        /// The brokers that hold it.
        replica_nodes: Array<'a, i32> [0..],
        /// Those of them that are in sync.
        isr_nodes: Array<'a, i32> [0..],
        /// Those of them that are down.
        offline_replicas: Array<'a, i32> [5..],
    }
}
