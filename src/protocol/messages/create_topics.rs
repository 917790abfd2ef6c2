//! CreateTopics (API 19).

use crate::protocol::declare::{Array, Uuid, message};

message! {
    /// Asks for topics to be created.
    pub struct CreateTopicsRequest<'a>: 19, [2..=7], flexible 5 {
        /// The topics.
        topics: Array<'a, CreatableTopic<'static>> [2..],
        /// How long the broker may wait until they exist everywhere, in milliseconds.
        timeout_ms: i32 [2..] = 60_000,
        /// Whether to check only and create nothing.
        validate_only: bool [2..],
    }
}

message! {
    /// One topic to create.
    pub struct CreatableTopic<'a> {
        /// Its name.
        name: &'a str [2..],
        /// How many partitions; -1 is the broker's default, or as many as are assigned below.
        num_partitions: i32 [2..] = -1,
        /// How many replicas each; -1 is the broker's default, or as assigned below.
        replication_factor: i16 [2..] = -1,
        /// Which brokers hold which partition; empty leaves it to the broker.
        assignments: Array<'a, CreatableReplicaAssignment<'static>> [2..],
        /// Settings that differ from the broker's defaults.
        configs: Array<'a, CreatableTopicConfig<'static>> [2..],
    }
}

message! {
    /// The brokers of one partition.
    pub struct CreatableReplicaAssignment<'a> {
        /// The partition's number.
        partition_index: i32 [2..],
        /// Its brokers; the first is preferred as leader.
        broker_ids: Array<'a, i32> [2..],
    }
}

message! {
    /// One setting.
    pub struct CreatableTopicConfig<'a> {
        /// Its name.
        name: &'a str [2..],
        /// Its value.
        value: Option<&'a str> [2..],
    }
}

message! {
    /// What became of each topic.
    pub struct CreateTopicsResponse<'a>: 19, [2..=7], flexible 5 {
        /// How long the client should hold back, in milliseconds.
        throttle_time_ms: i32 [2..],
        /// The topics.
        topics: Array<'a, CreatableTopicResult<'static>> [2..],
    }
}

message! {
    /// One topic.
    pub struct CreatableTopicResult<'a> {
        /// Its name.
        name: &'a str [2..],
        /// The id that it got.
        topic_id: Uuid [7..],
        /// 0, or why it was not created.
        error_code: i16 [2..],
        /// What is wrong, in words.
        error_message: Option<&'a str> [2..],
        /// Why the settings are not shown, if they are not.
        topic_config_error_code: i16 [5..] tag 0,
        /// How many partitions it got.
        num_partitions: i32 [5..] = -1,
        /// How many replicas each.
        replication_factor: i16 [5..] = -1,
        /// Its settings; null if they may not be shown.
        configs: Option<Array<'a, CreatableTopicConfigs<'static>>> [5..] = Some(Array::empty()),
    }
}

message! {
    /// One setting of a created topic.
    pub struct CreatableTopicConfigs<'a> {
        /// Its name.
        name: &'a str [5..],
        /// Its value; null if it is sensitive.
        value: Option<&'a str> [5..],
        /// Whether it cannot be changed.
        read_only: bool [5..],
        /// Where the value comes from: 1 the topic, 2 to 4 a broker, 5 the default.
        config_source: i8 [5..] = -1,
        /// Whether it is a secret.
        is_sensitive: bool [5..],
    }
}
