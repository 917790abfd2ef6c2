//! ApiVersions (API 18): what a broker serves. The first request on most connections.
//!
//! Its response always has header v0, so that a client can read the answer to a version that the
//! broker does not know: that answer is error 35 in version 0.

use crate::protocol::declare::{Array, message};

message! {
    /// Asks what the broker serves.
    pub struct ApiVersionsRequest<'a>: 18, [0..=4], flexible 3 {
        /// The client library's name.
        client_software_name: &'a str [3..],
        /// The client library's version.
        client_software_version: &'a str [3..],
    }
}

message! {
    /// What the broker serves.
    pub struct ApiVersionsResponse<'a>: 18, [0..=4], flexible 3 {
        /// 0, or 35 if the request's version is not served.
        error_code: i16 [0..],
        /// The APIs, each with its versions.
        api_keys: Array<'a, ApiVersion> [0..],
        /// How long the client should hold back, in milliseconds.
        throttle_time_ms: i32 [1..],
        /// Features that the broker could be told to use. Below v4 none with minimum 0 may stand
        /// here: older Java clients cannot read it.
        supported_features: Array<'a, SupportedFeature<'static>> [3..] tag 0,
        /// The age of `finalized_features`; -1 if it is not known.
        finalized_features_epoch: i64 [3..] tag 1 = -1,
        /// Features that the whole cluster uses.
        finalized_features: Array<'a, FinalizedFeature<'static>> [3..] tag 2,
        /// Whether a controller is ready to take over from ZooKeeper.
        zk_migration_ready: bool [3..] tag 3,
    }
}

message! {
    /// The versions of one API.
    pub struct ApiVersion {
        /// The API's key.
        api_key: i16 [0..],
        /// The smallest version.
        min_version: i16 [0..],
        /// The largest version.
        max_version: i16 [0..],
    }
}

message! {
    /// One feature that the broker could use.
    pub struct SupportedFeature<'a> {
        /// Its name.
        name: &'a str [3..],
        /// The smallest level.
        min_version: i16 [3..],
        /// The largest level.
        max_version: i16 [3..],
    }
}

message! {
    /// One feature that the cluster uses.
    pub struct FinalizedFeature<'a> {
        /// Its name.
        name: &'a str [3..],
        /// The largest level in use.
        max_version_level: i16 [3..],
        /// The smallest level in use.
        min_version_level: i16 [3..],
    }
}
