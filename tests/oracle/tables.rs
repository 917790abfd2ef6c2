//! The fields of every message as Kafka's schemas give them, beside kloop's declarations.

use kafka_protocol::messages as kp;
use kloop::protocol::messages::*;

// Produce.
pair! { kp::ProduceRequest => ProduceRequest<'a> {
    transactional_id: leaf [3..], acks: leaf [3..], timeout_ms: leaf [3..],
    topic_data: all<ProduceTopicData<'static>> [3..],
}}
pair! { kp::produce_request::TopicProduceData => ProduceTopicData<'a> {
    name: leaf [..=12], topic_id: leaf [13..],
    partition_data: all<ProducePartitionData<'static>> [3..],
}}
pair! { kp::produce_request::PartitionProduceData => ProducePartitionData<'a> {
    index: leaf [3..], records: leaf [3..],
}}
pair! { kp::ProduceResponse => ProduceResponse<'a> {
    responses: all<ProduceTopicResponse<'static>> [3..], throttle_time_ms: leaf [3..],
    node_endpoints: all<NodeEndpoint<'static>> [10..],
}}
pair! { kp::produce_response::TopicProduceResponse => ProduceTopicResponse<'a> {
    name: leaf [..=12], topic_id: leaf [13..],
    partition_responses: all<ProducePartitionResponse<'static>> [3..],
}}
pair! { kp::produce_response::PartitionProduceResponse => ProducePartitionResponse<'a> {
    index: leaf [3..], error_code: leaf [3..], base_offset: leaf [3..],
    log_append_time_ms: leaf [3..], log_start_offset: leaf [5..],
    record_errors: all<ProduceRecordError<'static>> [8..], error_message: leaf [8..],
    current_leader: plain [10..],
}}
pair! { kp::produce_response::BatchIndexAndErrorMessage => ProduceRecordError<'a> {
    batch_index: leaf [8..], batch_index_error_message: leaf [8..],
}}
pair! { kp::produce_response::LeaderIdAndEpoch => LeaderIdAndEpoch {
    leader_id: leaf [10..], leader_epoch: leaf [10..],
}}
pair! { kp::produce_response::NodeEndpoint => NodeEndpoint<'a> {
    node_id: leaf [10..], host: leaf [10..], port: leaf [10..], rack: leaf [10..],
}}

// Fetch.
pair! { kp::FetchRequest => FetchRequest<'a> {
    cluster_id: leaf [12..], replica_id: leaf [..=14], replica_state: plain [15..],
    max_wait_ms: leaf [4..], min_bytes: leaf [4..], max_bytes: leaf [4..],
    isolation_level: leaf [4..], session_id: leaf [7..], session_epoch: leaf [7..],
    topics: all<FetchTopic<'static>> [4..],
    forgotten_topics_data: all<FetchForgottenTopic<'static>> [7..], rack_id: leaf [11..],
}}
pair! { kp::fetch_request::ReplicaState => FetchReplicaState {
    replica_id: leaf [15..], replica_epoch: leaf [15..],
}}
pair! { kp::fetch_request::FetchTopic => FetchTopic<'a> {
    topic: leaf [..=12], topic_id: leaf [13..], partitions: all<FetchPartition> [4..],
}}
pair! { kp::fetch_request::FetchPartition => FetchPartition {
    partition: leaf [4..], current_leader_epoch: leaf [9..], fetch_offset: leaf [4..],
    last_fetched_epoch: leaf [12..], log_start_offset: leaf [5..],
    partition_max_bytes: leaf [4..], replica_directory_id: leaf [17..],
    high_watermark: leaf [18..],
}}
pair! { kp::fetch_request::ForgottenTopic => FetchForgottenTopic<'a> {
    topic: leaf [7..=12], topic_id: leaf [13..], partitions: leaves<i32> [7..],
}}
pair! { kp::FetchResponse => FetchResponse<'a> {
    throttle_time_ms: leaf [4..], error_code: leaf [7..], session_id: leaf [7..],
    responses: all<FetchTopicResponse<'static>> [4..],
    node_endpoints: all<NodeEndpoint<'static>> [16..],
}}
pair! { kp::fetch_response::FetchableTopicResponse => FetchTopicResponse<'a> {
    topic: leaf [..=12], topic_id: leaf [13..],
    partitions: all<FetchPartitionResponse<'static>> [4..],
}}
pair! { kp::fetch_response::PartitionData => FetchPartitionResponse<'a> {
    partition_index: leaf [4..], error_code: leaf [4..], high_watermark: leaf [4..],
    last_stable_offset: leaf [4..], log_start_offset: leaf [5..],
    diverging_epoch: plain [12..], current_leader: plain [12..], snapshot_id: plain [12..],
    aborted_transactions: any<AbortedTransaction> [4..], preferred_read_replica: leaf [11..],
    records: leaf [4..],
}}
pair! { kp::fetch_response::EpochEndOffset => FetchEpochEndOffset {
    epoch: leaf [12..], end_offset: leaf [12..],
}}
pair! { kp::fetch_response::LeaderIdAndEpoch => LeaderIdAndEpoch {
    leader_id: leaf [12..], leader_epoch: leaf [12..],
}}
pair! { kp::fetch_response::SnapshotId => FetchSnapshotId {
    end_offset: leaf [12..], epoch: leaf [12..],
}}
pair! { kp::fetch_response::AbortedTransaction => AbortedTransaction {
    producer_id: leaf [4..], first_offset: leaf [4..],
}}
pair! { kp::fetch_response::NodeEndpoint => NodeEndpoint<'a> {
    node_id: leaf [16..], host: leaf [16..], port: leaf [16..], rack: leaf [16..],
}}

// ListOffsets.
pair! { kp::ListOffsetsRequest => ListOffsetsRequest<'a> {
    replica_id: leaf [1..], isolation_level: leaf [2..],
    topics: all<ListOffsetsTopic<'static>> [1..], timeout_ms: leaf [10..],
}}
pair! { kp::list_offsets_request::ListOffsetsTopic => ListOffsetsTopic<'a> {
    name: leaf [1..], partitions: all<ListOffsetsPartition> [1..],
}}
pair! { kp::list_offsets_request::ListOffsetsPartition => ListOffsetsPartition {
    partition_index: leaf [1..], current_leader_epoch: leaf [4..], timestamp: leaf [1..],
}}
pair! { kp::ListOffsetsResponse => ListOffsetsResponse<'a> {
    throttle_time_ms: leaf [2..], topics: all<ListOffsetsTopicResponse<'static>> [1..],
}}
pair! { kp::list_offsets_response::ListOffsetsTopicResponse => ListOffsetsTopicResponse<'a> {
    name: leaf [1..], partitions: all<ListOffsetsPartitionResponse> [1..],
}}
pair! { kp::list_offsets_response::ListOffsetsPartitionResponse => ListOffsetsPartitionResponse {
    partition_index: leaf [1..], error_code: leaf [1..], timestamp: leaf [1..],
    offset: leaf [1..], leader_epoch: leaf [4..],
}}

// Metadata.
pair! { kp::MetadataRequest => MetadataRequest<'a> {
    topics: any<MetadataRequestTopic<'static>> [0..] null 1,
    allow_auto_topic_creation: leaf [4..],
    include_cluster_authorized_operations: leaf [8..=10],
    include_topic_authorized_operations: leaf [8..],
}}
pair! { kp::metadata_request::MetadataRequestTopic => MetadataRequestTopic<'a> {
    topic_id: leaf [10..], name: leaf [0..] null 10,
}}
pair! { kp::MetadataResponse => MetadataResponse<'a> {
    throttle_time_ms: leaf [3..], brokers: all<MetadataBroker<'static>> [0..],
    cluster_id: leaf [2..], controller_id: leaf [1..],
    topics: all<MetadataTopic<'static>> [0..],
    cluster_authorized_operations: leaf [8..=10], error_code: leaf [13..],
}}
pair! { kp::metadata_response::MetadataResponseBroker => MetadataBroker<'a> {
    node_id: leaf [0..], host: leaf [0..], port: leaf [0..], rack: leaf [1..],
}}
pair! { kp::metadata_response::MetadataResponseTopic => MetadataTopic<'a> {
    error_code: leaf [0..], name: leaf [0..] null 12, topic_id: leaf [10..],
    is_internal: leaf [1..], partitions: all<MetadataPartition<'static>> [0..],
    topic_authorized_operations: leaf [8..],
}}
pair! { kp::metadata_response::MetadataResponsePartition => MetadataPartition<'a> {
    error_code: leaf [0..], partition_index: leaf [0..], leader_id: leaf [0..],
    leader_epoch: leaf [7..], replica_nodes: leaves<i32> [0..], isr_nodes: leaves<i32> [0..],
    offline_replicas: leaves<i32> [5..],
}}

// ApiVersions.
pair! { kp::ApiVersionsRequest => ApiVersionsRequest<'a> {
    client_software_name: leaf [3..], client_software_version: leaf [3..],
}}
pair! { kp::ApiVersionsResponse => ApiVersionsResponse<'a> {
    error_code: leaf [0..], api_keys: all<ApiVersion> [0..], throttle_time_ms: leaf [1..],
    supported_features: all<SupportedFeature<'static>> [3..],
    finalized_features_epoch: leaf [3..],
    finalized_features: all<FinalizedFeature<'static>> [3..], zk_migration_ready: leaf [3..],
}}
pair! { kp::api_versions_response::ApiVersion => ApiVersion {
    api_key: leaf [0..], min_version: leaf [0..], max_version: leaf [0..],
}}
pair! { kp::api_versions_response::SupportedFeatureKey => SupportedFeature<'a> {
    name: leaf [3..], min_version: leaf [3..], max_version: leaf [3..],
}}
pair! { kp::api_versions_response::FinalizedFeatureKey => FinalizedFeature<'a> {
    name: leaf [3..], max_version_level: leaf [3..], min_version_level: leaf [3..],
}}

// CreateTopics.
pair! { kp::CreateTopicsRequest => CreateTopicsRequest<'a> {
    topics: all<CreatableTopic<'static>> [2..], timeout_ms: leaf [2..],
    validate_only: leaf [2..],
}}
pair! { kp::create_topics_request::CreatableTopic => CreatableTopic<'a> {
    name: leaf [2..], num_partitions: leaf [2..], replication_factor: leaf [2..],
    assignments: all<CreatableReplicaAssignment<'static>> [2..],
    configs: all<CreatableTopicConfig<'static>> [2..],
}}
pair! { kp::create_topics_request::CreatableReplicaAssignment => CreatableReplicaAssignment<'a> {
    partition_index: leaf [2..], broker_ids: leaves<i32> [2..],
}}
pair! { kp::create_topics_request::CreatableTopicConfig => CreatableTopicConfig<'a> {
    name: leaf [2..], value: leaf [2..],
}}
pair! { kp::CreateTopicsResponse => CreateTopicsResponse<'a> {
    throttle_time_ms: leaf [2..], topics: all<CreatableTopicResult<'static>> [2..],
}}
pair! { kp::create_topics_response::CreatableTopicResult => CreatableTopicResult<'a> {
    name: leaf [2..], topic_id: leaf [7..], error_code: leaf [2..], error_message: leaf [2..],
    topic_config_error_code: leaf [5..], num_partitions: leaf [5..],
    replication_factor: leaf [5..], configs: any<CreatableTopicConfigs<'static>> [5..],
}}
pair! { kp::create_topics_response::CreatableTopicConfigs => CreatableTopicConfigs<'a> {
    name: leaf [5..], value: leaf [5..], read_only: leaf [5..], config_source: leaf [5..],
    is_sensitive: leaf [5..],
}}

// DeleteTopics.
pair! { kp::DeleteTopicsRequest => DeleteTopicsRequest<'a> {
    topics: all<DeleteTopicState<'static>> [6..], topic_names: leaves<&'static str> [..=5],
    timeout_ms: leaf [1..],
}}
pair! { kp::delete_topics_request::DeleteTopicState => DeleteTopicState<'a> {
    name: leaf [6..], topic_id: leaf [6..],
}}
pair! { kp::DeleteTopicsResponse => DeleteTopicsResponse<'a> {
    throttle_time_ms: leaf [1..], responses: all<DeletableTopicResult<'static>> [1..],
}}
pair! { kp::delete_topics_response::DeletableTopicResult => DeletableTopicResult<'a> {
    name: leaf [1..] null 6, topic_id: leaf [6..], error_code: leaf [1..],
    error_message: leaf [5..],
}}

// InitProducerId.
pair! { kp::InitProducerIdRequest => InitProducerIdRequest<'a> {
    transactional_id: leaf [0..], transaction_timeout_ms: leaf [0..], producer_id: leaf [3..],
    producer_epoch: leaf [3..],
}}
pair! { kp::InitProducerIdResponse => InitProducerIdResponse {
    throttle_time_ms: leaf [0..], error_code: leaf [0..], producer_id: leaf [0..],
    producer_epoch: leaf [0..],
}}

// OffsetForLeaderEpoch.
pair! { kp::OffsetForLeaderEpochRequest => OffsetForLeaderEpochRequest<'a> {
    replica_id: leaf [3..], topics: all<OffsetForLeaderTopic<'static>> [2..],
}}
pair! { kp::offset_for_leader_epoch_request::OffsetForLeaderTopic => OffsetForLeaderTopic<'a> {
    topic: leaf [2..], partitions: all<OffsetForLeaderPartition> [2..],
}}
pair! { kp::offset_for_leader_epoch_request::OffsetForLeaderPartition => OffsetForLeaderPartition {
    partition: leaf [2..], current_leader_epoch: leaf [2..], leader_epoch: leaf [2..],
}}
pair! { kp::OffsetForLeaderEpochResponse => OffsetForLeaderEpochResponse<'a> {
    throttle_time_ms: leaf [2..], topics: all<OffsetForLeaderTopicResult<'static>> [2..],
}}
pair! { kp::offset_for_leader_epoch_response::OffsetForLeaderTopicResult
    => OffsetForLeaderTopicResult<'a>
{
    topic: leaf [2..], partitions: all<EpochEndOffset> [2..],
}}
pair! { kp::offset_for_leader_epoch_response::EpochEndOffset => EpochEndOffset {
    error_code: leaf [2..], partition: leaf [2..], leader_epoch: leaf [2..],
    end_offset: leaf [2..],
}}
