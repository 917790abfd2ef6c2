//! Every version of every API that is served, asked and read by the `kafka-protocol` crate.

use super::*;
use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages as kp;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use kafka_protocol::records::RecordBatchDecoder;

fn name(text: &str) -> kp::TopicName {
    kp::TopicName(StrBytes::from_string(text.to_owned()))
}

/// Sends `request` and reads the answer to its last byte.
fn call<Q, A>(rig: &mut Rig, conn: ConnId, key: kp::ApiKey, version: i16, request: &Q) -> A
where
    Q: Encodable + HeaderVersion,
    A: Decodable + HeaderVersion,
{
    let header = kp::RequestHeader::default()
        .with_request_api_key(key as i16)
        .with_request_api_version(version)
        .with_correlation_id(77)
        .with_client_id(Some(StrBytes::from_static_str("oracle")));
    let mut bytes = BytesMut::new();
    header.encode(&mut bytes, Q::header_version(version)).unwrap();
    request.encode(&mut bytes, version).unwrap();
    rig.net.put(conn, bytes.to_vec());
    rig.settle();
    let answer = rig.net.got(conn).unwrap_or_else(|| panic!("{:?}", rig.lines.lock()));
    let mut answer = Bytes::from(answer);
    let header = kp::ResponseHeader::decode(&mut answer, A::header_version(version)).unwrap();
    assert_eq!(header.correlation_id, 77);
    let body = A::decode(&mut answer, version).unwrap();
    assert_eq!(answer.remaining(), 0, "bytes behind the answer");
    body
}

fn rig() -> (Rig, ConnId) {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "t", 2);
    (rig, conn)
}

#[test]
fn api_versions_and_what_they_promise() {
    let (mut rig, conn) = rig();
    for version in 0..=4 {
        let request = kp::ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("oracle"))
            .with_client_software_version(StrBytes::from_static_str("1"));
        let answer: kp::ApiVersionsResponse =
            call(&mut rig, conn, kp::ApiKey::ApiVersions, version, &request);
        assert_eq!((answer.error_code, answer.api_keys.len()), (0, 9));
    }
}

#[test]
fn metadata() {
    let (mut rig, conn) = rig();
    for version in 0..=13 {
        let topic =
            kp::metadata_request::MetadataRequestTopic::default().with_name(Some(name("t")));
        let request = kp::MetadataRequest::default().with_topics(Some(vec![topic]));
        let answer: kp::MetadataResponse =
            call(&mut rig, conn, kp::ApiKey::Metadata, version, &request);
        assert_eq!((answer.brokers.len(), answer.topics.len()), (1, 1));
        assert_eq!((answer.topics[0].error_code, answer.topics[0].partitions.len()), (0, 2));
    }
}

#[test]
fn produce_and_fetch() {
    let (mut rig, conn) = rig();
    let mut end = 0;
    for version in 3..=11 {
        let records = Bytes::from(batch(4));
        let data = kp::produce_request::PartitionProduceData::default()
            .with_index(1)
            .with_records(Some(records));
        let topic = kp::produce_request::TopicProduceData::default()
            .with_name(name("t"))
            .with_partition_data(vec![data]);
        let request = kp::ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(1000)
            .with_topic_data(vec![topic]);
        let answer: kp::ProduceResponse =
            call(&mut rig, conn, kp::ApiKey::Produce, version, &request);
        let part = &answer.responses[0].partition_responses[0];
        assert_eq!((part.index, part.error_code, part.base_offset), (1, 0, end));
        end += 4;
    }
    for version in 4..=12 {
        let partition = |partition, offset, epoch| {
            kp::fetch_request::FetchPartition::default()
                .with_partition(partition)
                .with_fetch_offset(offset)
                .with_last_fetched_epoch(if version < 12 { -1 } else { epoch })
                .with_partition_max_bytes(1 << 20)
        };
        // One full, one that is not there, one that diverges.
        let partitions = vec![partition(1, 6, -1), partition(7, 0, -1), partition(0, 5, 0)];
        let topic = kp::fetch_request::FetchTopic::default()
            .with_topic(name("t"))
            .with_partitions(partitions);
        let request = kp::FetchRequest::default()
            .with_max_wait_ms(0)
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_isolation_level(1)
            .with_topics(vec![topic]);
        let answer: kp::FetchResponse = call(&mut rig, conn, kp::ApiKey::Fetch, version, &request);
        let parts = &answer.responses[0].partitions;
        assert_eq!((parts[0].error_code, parts[0].high_watermark), (0, end));
        assert_eq!(parts[1].error_code, 3);
        let diverging = parts[2].diverging_epoch.end_offset;
        assert_eq!((parts[2].error_code, diverging), if version < 12 { (1, -1) } else { (0, 0) });
        let mut records = parts[0].records.clone().unwrap();
        let decoded = RecordBatchDecoder::decode_all(&mut records).unwrap();
        let offsets: Vec<_> =
            decoded.iter().flat_map(|set| set.records.iter().map(|r| r.offset)).collect();
        assert!(offsets.iter().copied().eq(4..end), "{offsets:?}");
    }
}

#[test]
fn offsets() {
    let (mut rig, conn) = rig();
    rig.produce(conn, "t", 0, &batch(4));
    for version in 1..=7 {
        let partition = |index, timestamp| {
            kp::list_offsets_request::ListOffsetsPartition::default()
                .with_partition_index(index)
                .with_timestamp(timestamp)
        };
        let topic = kp::list_offsets_request::ListOffsetsTopic::default()
            .with_name(name("t"))
            .with_partitions(vec![partition(0, -1), partition(1, -2), partition(9, -1)]);
        let request = kp::ListOffsetsRequest::default().with_topics(vec![topic]);
        let answer: kp::ListOffsetsResponse =
            call(&mut rig, conn, kp::ApiKey::ListOffsets, version, &request);
        let parts = &answer.topics[0].partitions;
        let told: Vec<_> = parts.iter().map(|p| (p.error_code, p.offset)).collect();
        assert_eq!(told, [(0, 4), (0, 0), (3, -1)]);
    }
    for version in 2..=4 {
        let partition = kp::offset_for_leader_epoch_request::OffsetForLeaderPartition::default()
            .with_partition(0)
            .with_current_leader_epoch(-1)
            .with_leader_epoch(0);
        let topic = kp::offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
            .with_topic(name("t"))
            .with_partitions(vec![partition]);
        let request = kp::OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
        let answer: kp::OffsetForLeaderEpochResponse =
            call(&mut rig, conn, kp::ApiKey::OffsetForLeaderEpoch, version, &request);
        let part = &answer.topics[0].partitions[0];
        assert_eq!((part.error_code, part.leader_epoch, part.end_offset), (0, 0, 4));
    }
}

#[test]
fn topics_and_producer_ids() {
    let (mut rig, conn) = rig();
    for version in 2..=7 {
        let topic = kp::create_topics_request::CreatableTopic::default()
            .with_name(name(&format!("n{version}")))
            .with_num_partitions(2)
            .with_replication_factor(1);
        let bad = topic.clone().with_name(name("bad name"));
        let request = kp::CreateTopicsRequest::default().with_topics(vec![topic, bad]);
        let answer: kp::CreateTopicsResponse =
            call(&mut rig, conn, kp::ApiKey::CreateTopics, version, &request);
        assert_eq!((answer.topics[0].error_code, answer.topics[1].error_code), (0, 17));
    }
    for version in 1..=6 {
        let request = if version < 6 {
            let topic = name(&format!("n{}", version + 1));
            kp::DeleteTopicsRequest::default().with_topic_names(vec![topic])
        } else {
            let topic =
                kp::delete_topics_request::DeleteTopicState::default().with_name(Some(name("n7")));
            let unknown = kp::delete_topics_request::DeleteTopicState::default()
                .with_name(None)
                .with_topic_id(uuid::Uuid::from_bytes([3; 16]));
            kp::DeleteTopicsRequest::default().with_topics(vec![topic, unknown])
        };
        let answer: kp::DeleteTopicsResponse =
            call(&mut rig, conn, kp::ApiKey::DeleteTopics, version, &request);
        assert_eq!(answer.responses[0].error_code, 0, "v{version}");
    }
    for version in 0..=4 {
        let request = kp::InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let answer: kp::InitProducerIdResponse =
            call(&mut rig, conn, kp::ApiKey::InitProducerId, version, &request);
        assert_eq!((answer.error_code, answer.producer_epoch), (0, 0));
    }
}
