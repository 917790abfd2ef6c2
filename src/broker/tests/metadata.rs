//! Metadata: rows P6 to P13.

use super::*;
use crate::protocol::ArrayWriter;

/// A topic as the answer tells it: error, name, id, partitions.
type Told = (i16, Option<String>, [u8; 16], usize);

fn ask(
    rig: &mut Rig,
    conn: ConnId,
    version: i16,
    names: Option<&[&str]>,
    create: bool,
) -> Vec<Told> {
    let topics = |out: &mut ArrayWriter<'_, '_, MetadataRequestTopic<'static>>| {
        for name in names.unwrap_or(&[]) {
            out.push(&MetadataRequestTopic { name: Some(name), ..Default::default() });
        }
    };
    let request = MetadataRequest {
        topics: names.map(|names| Array::emit(names.len(), &topics)),
        allow_auto_topic_creation: create,
        ..Default::default()
    };
    told(&rig.call(conn, version, &request).unwrap(), version)
}

fn told(body: &[u8], version: i16) -> Vec<Told> {
    let response = MetadataResponse::decode(body, version).unwrap();
    let tell = |t: MetadataTopic<'_>| {
        (t.error_code, t.name.map(str::to_owned), t.topic_id, t.partitions.len())
    };
    response.topics.iter().map(tell).collect()
}

/// P6, P7, P10, P11, P48: what the broker says of itself and of partitions, in all versions.
#[test]
fn one_live_broker_leads_everything() {
    let config = BrokerConfig {
        node_id: 5,
        cluster_id: Some("MkU3OEVBNTcwNTJENDM2Qg".into()),
        rack: Some("r1".into()),
        ..BrokerConfig::default()
    };
    let mut rig = Rig::with(config, BrokerLimits::default());
    let conn = rig.connect();
    rig.create(conn, "t", 3);
    for version in 0..=13 {
        let request = MetadataRequest::default();
        let body = rig.call(conn, version, &request).unwrap();
        let response = MetadataResponse::decode(&body, version).unwrap();
        let brokers: Vec<_> = response.brokers.iter().collect();
        assert_eq!(brokers.len(), 1);
        // Nobody said where clients should go, so they are told where this one came to.
        assert_eq!((brokers[0].node_id, brokers[0].host), (5, "192.0.2.2"));
        assert_eq!(brokers[0].port, 9092);
        assert_eq!(brokers[0].rack, (version >= 1).then_some("r1"));
        assert_eq!(response.controller_id, if version >= 1 { 5 } else { -1 });
        assert_eq!(response.cluster_id, (version >= 2).then_some("MkU3OEVBNTcwNTJENDM2Qg"));
        assert_eq!(response.cluster_authorized_operations, i32::MIN);
        assert_eq!((response.error_code, response.throttle_time_ms), (0, 0));
        let topics: Vec<_> = response.topics.iter().collect();
        assert_eq!((topics.len(), topics[0].name), (1, Some("t")));
        assert_eq!(topics[0].topic_authorized_operations, i32::MIN);
        assert_eq!(topics[0].topic_id != [0; 16], version >= 10);
        assert!(!topics[0].is_internal);
        for (number, p) in topics[0].partitions.iter().enumerate() {
            assert_eq!((p.error_code, p.partition_index), (0, number as i32));
            assert_eq!(p.leader_id, 5);
            assert_eq!(p.leader_epoch, if version >= 7 { 0 } else { -1 });
            assert!(p.replica_nodes.iter().eq([5]) && p.isr_nodes.iter().eq([5]));
            assert!(p.offline_replicas.is_empty());
        }
        assert_eq!(topics[0].partitions.len(), 3);
    }
    rig.broker.set_advertised("broker.example", 1234);
    let body = rig.call(conn, 12, &MetadataRequest::default()).unwrap();
    let response = MetadataResponse::decode(&body, 12).unwrap();
    let broker = response.brokers.iter().next().unwrap();
    assert_eq!((broker.host, broker.port), ("broker.example", 1234));
}

/// P8: null is all (in v0 the empty list is), an empty list is none, and neither creates anything.
#[test]
fn all_topics_and_none() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    for name in ["a", "b", "c"] {
        rig.create(conn, name, 1);
    }
    assert_eq!(ask(&mut rig, conn, 0, Some(&[]), true).len(), 3);
    for version in 1..=13 {
        assert_eq!(ask(&mut rig, conn, version, None, true).len(), 3);
        assert_eq!(ask(&mut rig, conn, version, Some(&[]), true).len(), 0);
    }
    assert_eq!(rig.broker.stats().topics, 3);
}

/// P12: created at once, if the broker and the client allow it.
#[test]
fn topics_are_created_when_they_are_asked_for() {
    let config = BrokerConfig { num_partitions: 4, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, BrokerLimits::default());
    let conn = rig.connect();
    for version in 0..=13 {
        let name = format!("topic{version}");
        let told = ask(&mut rig, conn, version, Some(&[&name]), true);
        assert_eq!((told[0].0, told[0].3), (0, 4), "v{version}");
        assert_eq!(told[0].1.as_deref(), Some(&*name));
    }
    assert_eq!(rig.broker.stats().topics, 14);
    assert_eq!(rig.broker.stats().partitions, 56);
    // The client may say no from v4 on; before, the field is not there and means yes.
    for version in 4..=13 {
        assert_eq!(ask(&mut rig, conn, version, Some(&["no"]), false)[0].0, 3);
    }
    assert_eq!(ask(&mut rig, conn, 3, Some(&["yes"]), false)[0].0, 0);
    let config = BrokerConfig { auto_create_topics: false, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, BrokerLimits::default());
    let conn = rig.connect();
    for version in 0..=13 {
        let told = ask(&mut rig, conn, version, Some(&["t"]), true);
        assert_eq!(told, [(3, Some("t".to_owned()), [0; 16], 0)]);
    }
}

/// P13: what a topic may be called.
#[test]
fn names() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    let long = "x".repeat(249);
    let too_long = "x".repeat(250);
    for (name, error) in [
        ("ok", 0),
        ("A.b-c_9", 0),
        (long.as_str(), 0),
        (too_long.as_str(), 17),
        ("", 17),
        (".", 17),
        ("..", 17),
        ("...", 0),
        ("a b", 17),
        ("a/b", 17),
        ("ä", 17),
        ("A_b-c.9", 17),
        ("A_b-c_9", 17),
    ] {
        for create in [true, false] {
            let told = ask(&mut rig, conn, 9, Some(&[name]), create);
            let expected = if create || error == 0 || !name.starts_with('A') { error } else { 3 };
            assert_eq!((told[0].0, told[0].1.as_deref()), (expected, Some(name)), "{name}");
        }
    }
}

/// P9: ids from v10 in answers, from v12 in requests; random, not zero, and stable.
#[test]
fn topics_by_id() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "a", 1);
    rig.create(conn, "b", 1);
    let ids: Vec<_> = ask(&mut rig, conn, 12, None, true).iter().map(|t| t.2).collect();
    assert!(ids[0] != ids[1] && !ids.contains(&[0; 16]));
    assert_eq!(ask(&mut rig, conn, 10, Some(&["a"]), true)[0].2, ids[0]);
    let by_id = |rig: &mut Rig, version, topic_id, name| {
        let topics = |out: &mut ArrayWriter<'_, '_, MetadataRequestTopic<'static>>| {
            out.push(&MetadataRequestTopic { topic_id, name });
        };
        let topics = Some(Array::emit(1, &topics));
        let body = rig.call(conn, version, &MetadataRequest { topics, ..Default::default() });
        told(&body.unwrap(), version).remove(0)
    };
    for version in [12, 13] {
        assert_eq!(by_id(&mut rig, version, ids[1], None), (0, Some("b".into()), ids[1], 1));
        assert_eq!(by_id(&mut rig, version, [9; 16], None), (100, None, [9; 16], 0));
        assert_eq!(by_id(&mut rig, version, [0; 16], None).0, 100);
    }
    for version in [10, 11] {
        assert_eq!(by_id(&mut rig, version, ids[1], Some("b")).0, 42);
    }
}

#[test]
fn a_topic_asked_for_twice_is_told_once() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    let told = ask(&mut rig, conn, 9, Some(&["a", "b", "a", "a", "b"]), true);
    let names: Vec<_> = told.iter().map(|t| t.1.as_deref().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
    // One that is not there may be named as often as one likes.
    assert_eq!(ask(&mut rig, conn, 9, Some(&["x", "x"]), false).len(), 2);
}

#[test]
fn a_full_broker_says_so_and_creates_nothing() {
    let limits = BrokerLimits { max_topics: 2, max_partitions: 5, ..BrokerLimits::default() };
    let config = BrokerConfig { num_partitions: 3, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, limits);
    let conn = rig.connect();
    let told = ask(&mut rig, conn, 9, Some(&["a", "b"]), true);
    assert_eq!([told[0].0, told[1].0], [0, 44]);
    assert_eq!((rig.broker.stats().topics, rig.broker.stats().partitions), (1, 3));
    assert!(rig.logged("full"));
    rig.create(conn, "c", 2);
    assert_eq!(rig.create_with(conn, "d", 1, &[]), ErrorCode::POLICY_VIOLATION);
    // Names beyond reason end the connection.
    let many: Vec<String> = (0..1025).map(|i| format!("t{i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let topics = |out: &mut ArrayWriter<'_, '_, MetadataRequestTopic<'static>>| {
        for name in &many {
            out.push(&MetadataRequestTopic { name: Some(name), ..Default::default() });
        }
    };
    let topics = Some(Array::emit(many.len(), &topics));
    rig.ask(conn, 9, &MetadataRequest { topics, ..Default::default() });
    rig.assert_closed(conn, "more topics");
}
