//! DeleteTopics (API 20).

use crate::protocol::declare::{Array, Uuid, message};

message! {
    /// Asks for topics to be deleted.
    pub struct DeleteTopicsRequest<'a>: 20, [1..=6], flexible 4 {
        /// The topics, by name or id.
        topics: Array<'a, DeleteTopicState<'static>> [6..],
        /// The topics' names.
        topic_names: Array<'a, &'static str> [..=5],
        /// How long the broker may wait until they are gone everywhere, in milliseconds.
        timeout_ms: i32 [1..],
    }
}

message! {
    /// One topic to delete.
    pub struct DeleteTopicState<'a> {
        /// Its name; null goes by id.
        name: Option<&'a str> [6..],
        /// Its id; zero goes by name.
        topic_id: Uuid [6..],
    }
}

message! {
    /// What became of each topic.
    pub struct DeleteTopicsResponse<'a>: 20, [1..=6], flexible 4 {
        /// How long the client should hold back, in milliseconds.
        throttle_time_ms: i32 [1..],
        /// The topics.
        responses: Array<'a, DeletableTopicResult<'static>> [1..],
    }
}

message! {
    /// One topic.
    pub struct DeletableTopicResult<'a> {
        /// Its name; null (v6) if it was asked by an unknown id.
        name: Option<&'a str> [1..],
        /// Its id.
        topic_id: Uuid [6..],
        /// 0, or why it was not deleted.
        error_code: i16 [1..],
        /// What is wrong, in words.
        error_message: Option<&'a str> [5..],
    }
}
