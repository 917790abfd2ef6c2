//! One file per API: its declaration, all versions.
//!
//! A request is named `XRequest`, an answer `XResponse`. The fields stand in the order of the
//! wire; where they differ between versions the range behind the type says so.

pub mod api_versions;
pub mod create_topics;
pub mod delete_topics;
pub mod fetch;
pub mod init_producer_id;
pub mod list_offsets;
pub mod metadata;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod shared;

pub use api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeature, SupportedFeature,
};
pub use create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreatableTopicConfigs,
    CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
pub use delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
pub use fetch::{
    AbortedTransaction, FetchEpochEndOffset, FetchForgottenTopic, FetchPartition,
    FetchPartitionResponse, FetchReplicaState, FetchRequest, FetchResponse, FetchSnapshotId,
    FetchTopic, FetchTopicResponse,
};
pub use init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
pub use list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopic, ListOffsetsTopicResponse,
};
pub use metadata::{
    MetadataBroker, MetadataPartition, MetadataRequest, MetadataRequestTopic, MetadataResponse,
    MetadataTopic,
};
pub use offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition, OffsetForLeaderTopic, OffsetForLeaderTopicResult,
};
pub use produce::{
    ProducePartitionData, ProducePartitionResponse, ProduceRecordError, ProduceRequest,
    ProduceResponse, ProduceTopicData, ProduceTopicResponse,
};
pub use shared::{LeaderIdAndEpoch, NodeEndpoint};
