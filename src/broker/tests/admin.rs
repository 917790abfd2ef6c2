//! CreateTopics, DeleteTopics, InitProducerId: rows P44 (as far as it is served), P46, P47.

use super::*;
use crate::protocol::ArrayWriter;

/// What becomes of topics to be created: error, partitions, and whether an id was given.
fn create(
    rig: &mut Rig,
    conn: ConnId,
    version: i16,
    validate_only: bool,
    asked: &[CreatableTopic<'_>],
) -> Vec<(i16, i32, bool)> {
    let topics = |out: &mut ArrayWriter<'_, '_, CreatableTopic<'static>>| {
        asked.iter().for_each(|topic| out.push(topic));
    };
    let topics = Array::emit(asked.len(), &topics);
    let request = CreateTopicsRequest { topics, validate_only, ..Default::default() };
    let body = rig.call(conn, version, &request).unwrap();
    let response = CreateTopicsResponse::decode(&body, version).unwrap();
    let tell = |t: CreatableTopicResult<'_>| {
        if t.error_code == 0 && version >= 5 {
            assert_eq!(t.replication_factor, 1);
            assert!(t.configs.unwrap().len() > 10);
        }
        assert_eq!(t.error_message.is_some(), t.error_code != 0);
        (t.error_code, t.num_partitions, t.topic_id != [0; 16])
    };
    response.topics.iter().map(tell).collect()
}

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic<'_> {
    CreatableTopic { name, num_partitions, replication_factor, ..Default::default() }
}

/// P46: numbers of partitions and replicas.
#[test]
fn numbers() {
    let config = BrokerConfig { num_partitions: 3, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, BrokerLimits::default());
    let conn = rig.connect();
    for version in 2..=7 {
        let name = |what: &str| format!("{what}{version}");
        for (what, partitions, replicas, error, got) in [
            ("default", -1, -1, 0, 3),
            ("five", 5, 1, 0, 5),
            ("none", 0, 1, 37, -1),
            ("negative", -2, 1, 37, -1),
            ("no-replica", 1, 0, 38, -1),
            ("negative-replica", 1, -2, 38, -1),
            ("three-replicas", 1, 3, 38, -1),
            ("too-many", 1_000_000, 1, 44, -1),
        ] {
            let name = name(what);
            let outcome =
                create(&mut rig, conn, version, false, &[topic(&name, partitions, replicas)]);
            let got = if version >= 5 { got } else { -1 };
            assert_eq!(outcome, [(error, got, error == 0 && version >= 7)], "{name}");
        }
    }
    assert_eq!(rig.broker.stats().topics, 12);
}

/// P46: names, and topics named twice or there already.
#[test]
fn names_and_duplicates() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "there.now", 1);
    let asked =
        ["ok", "there.now", "bad name", "twice", "there_now", "twice", ""].map(|n| topic(n, 1, 1));
    let errors: Vec<_> = create(&mut rig, conn, 7, false, &asked).iter().map(|t| t.0).collect();
    assert_eq!(errors, [0, 36, 17, 42, 17, 42, 17]);
    assert_eq!(rig.broker.stats().topics, 2);
}

/// P46: checked and not created.
#[test]
fn validate_only() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "there", 1);
    let asked = [topic("new", 4, 1), topic("there", 1, 1), topic("bad", 0, 1)];
    let outcome = create(&mut rig, conn, 7, true, &asked);
    assert_eq!(outcome, [(0, 4, false), (36, -1, false), (37, -1, false)]);
    assert_eq!(rig.broker.stats().topics, 1);
}

/// P46: with an assignment both numbers must be -1.
#[test]
fn assignments() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    let mut assign = |name: &str, numbers: (i32, i16), assigned: &[(i32, &[i32])]| {
        let assignments = |out: &mut ArrayWriter<'_, '_, CreatableReplicaAssignment<'static>>| {
            for (partition_index, brokers) in assigned {
                let ids =
                    |out: &mut ArrayWriter<'_, '_, i32>| brokers.iter().for_each(|b| out.push(b));
                let broker_ids = Array::emit(brokers.len(), &ids);
                let partition_index = *partition_index;
                out.push(&CreatableReplicaAssignment { partition_index, broker_ids });
            }
        };
        let assignments = Array::emit(assigned.len(), &assignments);
        let topic = CreatableTopic { assignments, ..topic(name, numbers.0, numbers.1) };
        create(&mut rig, conn, 7, false, &[topic]).remove(0)
    };
    assert_eq!(assign("a", (-1, -1), &[(1, &[1]), (0, &[1])]), (0, 2, true));
    assert_eq!(assign("b", (2, -1), &[(0, &[1])]).0, 42);
    assert_eq!(assign("c", (-1, 1), &[(0, &[1])]).0, 42);
    assert_eq!(assign("d", (-1, -1), &[(0, &[2])]).0, 39);
    assert_eq!(assign("e", (-1, -1), &[(0, &[1, 2])]).0, 39);
    assert_eq!(assign("f", (-1, -1), &[(0, &[1]), (2, &[1])]).0, 39);
    assert_eq!(assign("g", (-1, -1), &[(0, &[1]), (0, &[1])]).0, 39);
    assert_eq!(assign("j", (-1, -1), &[(1, &[1]), (1, &[1]), (1, &[1])]).0, 39);
    assert_eq!(assign("h", (-1, -1), &[(-1, &[1])]).0, 39);
    assert_eq!(assign("i", (-1, -1), &[(0, &[])]).0, 39);
}

#[test]
fn settings() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    for (i, (name, value, error)) in [
        ("retention.ms", "1000", 0),
        ("retention.ms", "-1", 0),
        ("retention.ms", "-2", 40),
        ("retention.ms", "soon", 40),
        ("cleanup.policy", "compact", 0),
        ("cleanup.policy", "compact,delete", 0),
        ("cleanup.policy", "shrink", 40),
        ("compression.type", "producer", 0),
        ("compression.type", "zstd", 40),
        ("message.timestamp.type", "LogAppendTime", 0),
        ("message.timestamp.type", "Now", 40),
        ("max.message.bytes", "100", 0),
        ("max.message.bytes", "99999999", 0),
        ("min.insync.replicas", "1", 0),
        ("min.insync.replicas", "2", 40),
        ("min.cleanable.dirty.ratio", "0.01", 0),
        ("min.cleanable.dirty.ratio", "7", 40),
        ("preallocate", "true", 0),
        ("preallocate", "maybe", 40),
        ("no.such.setting", "1", 40),
    ]
    .into_iter()
    .enumerate()
    {
        let topic = format!("t{i}");
        let code = rig.create_with(conn, &topic, 1, &[(name, value)]);
        assert_eq!(code.0, error, "{name}={value}");
    }
}

/// The settings of a new topic are told, and where each comes from.
#[test]
fn settings_are_told() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    let configs = |out: &mut ArrayWriter<'_, '_, CreatableTopicConfig<'static>>| {
        out.push(&CreatableTopicConfig { name: "retention.ms", value: Some("5") });
        out.push(&CreatableTopicConfig { name: "segment.ms", value: None });
    };
    let topics = |out: &mut ArrayWriter<'_, '_, CreatableTopic<'static>>| {
        let configs = Array::emit(2, &configs);
        out.push(&CreatableTopic { configs, ..topic("t", 1, 1) });
    };
    let topics = Array::emit(1, &topics);
    let body = rig.call(conn, 5, &CreateTopicsRequest { topics, ..Default::default() }).unwrap();
    let response = CreateTopicsResponse::decode(&body, 5).unwrap();
    let told = response.topics.iter().next().unwrap().configs.unwrap();
    let find = |name| told.iter().find(|c| c.name == name).map(|c| (c.value, c.config_source));
    assert_eq!(find("retention.ms"), Some((Some("5"), 1)));
    assert_eq!(find("segment.ms"), Some((Some("604800000"), 5)));
    assert_eq!(find("cleanup.policy"), Some((Some("delete"), 5)));
}

/// What becomes of topics to be deleted: error and name.
fn delete(
    rig: &mut Rig,
    conn: ConnId,
    version: i16,
    asked: &[(Option<&str>, [u8; 16])],
) -> Vec<(i16, Option<String>)> {
    let names = |out: &mut ArrayWriter<'_, '_, &'static str>| {
        asked.iter().for_each(|(name, _)| out.push(&name.unwrap()));
    };
    let states = |out: &mut ArrayWriter<'_, '_, DeleteTopicState<'static>>| {
        asked.iter().for_each(|&(name, topic_id)| out.push(&DeleteTopicState { name, topic_id }));
    };
    let count = |wanted| if wanted { asked.len() } else { 0 };
    let request = DeleteTopicsRequest {
        topics: if version >= 6 { Array::emit(count(true), &states) } else { Array::empty() },
        topic_names: if version < 6 { Array::emit(count(true), &names) } else { Array::empty() },
        timeout_ms: 1000,
    };
    let body = rig.call(conn, version, &request).unwrap();
    let response = DeleteTopicsResponse::decode(&body, version).unwrap();
    response.responses.iter().map(|t| (t.error_code, t.name.map(str::to_owned))).collect()
}

/// P47: by name in all versions, by id from v6 on.
#[test]
fn deleting() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    for version in 1..=6 {
        rig.create(conn, "t", 3);
        assert!(rig.produce(conn, "t", 0, &batch(1)).error.is_ok());
        let asked = [(Some("t"), [0; 16]), (Some("none"), [0; 16]), (Some("t"), [0; 16])];
        let outcome = delete(&mut rig, conn, version, &asked);
        let expected = [(0, "t"), (3, "none"), (3, "t")].map(|(e, n)| (e, Some(n.to_owned())));
        assert_eq!(outcome, expected);
        assert_eq!((rig.broker.stats().topics, rig.broker.stats().partitions), (0, 0));
        assert_eq!(rig.broker.stats().log_in_use, 0, "its memory went home");
        assert_eq!(rig.produce(conn, "t", 0, &batch(1)).error.0, 3);
    }
    // A new topic of the old name is another one, and empty.
    rig.create(conn, "t", 1);
    assert_eq!(rig.produce(conn, "t", 0, &batch(1)).offset, 0);
    let body = rig.call(conn, 12, &MetadataRequest::default()).unwrap();
    let response = MetadataResponse::decode(&body, 12).unwrap();
    let id = response.topics.iter().next().unwrap().topic_id;
    let outcome = delete(&mut rig, conn, 6, &[(None, [7; 16]), (None, id), (Some("t"), id)]);
    assert_eq!(outcome[0], (100, None));
    assert_eq!(outcome[1], (0, Some("t".to_owned())));
    assert_eq!(outcome[2].0, 42);
}

#[test]
fn deleting_may_be_switched_off() {
    let config = BrokerConfig { delete_topics: false, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, BrokerLimits::default());
    let conn = rig.connect();
    rig.create(conn, "t", 1);
    assert_eq!(delete(&mut rig, conn, 6, &[(Some("t"), [0; 16])])[0].0, 73);
    assert_eq!(rig.broker.stats().topics, 1);
}

/// Places of topics and partitions are used again, for ever.
#[test]
fn coming_and_going() {
    let limits = BrokerLimits { max_topics: 3, max_partitions: 7, ..BrokerLimits::default() };
    let mut rig = Rig::with(BrokerConfig::default(), limits);
    let conn = rig.connect();
    for i in 0..500 {
        let (a, b) = (format!("a{i}"), format!("b.{i}"));
        rig.create(conn, &a, 3);
        rig.create(conn, &b, 4);
        assert_eq!(rig.create_with(conn, "c", 1, &[]).0, 44);
        rig.produce(conn, &b, 3, &batch(1));
        let outcome = delete(&mut rig, conn, 6, &[(Some(&a), [0; 16]), (Some(&b), [0; 16])]);
        assert!(outcome.iter().all(|t| t.0 == 0));
    }
    assert_eq!(rig.broker.stats().log_in_use, 0);
}

/// P22, P44: ids are given once, with epoch 0; transactions are not served.
#[test]
fn producer_ids() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    let mut ids = std::collections::BTreeSet::new();
    let mut ask = |version, transactional_id, producer_id, producer_epoch| {
        let transaction_timeout_ms = 1000;
        let request = InitProducerIdRequest {
            transactional_id,
            transaction_timeout_ms,
            producer_id,
            producer_epoch,
        };
        let body = rig.call(conn, version, &request).unwrap();
        let response = InitProducerIdResponse::decode(&body, version).unwrap();
        (response.error_code, response.producer_id, response.producer_epoch)
    };
    for version in 0..=4 {
        for _ in 0..3 {
            let (error, id, epoch) = ask(version, None, -1, -1);
            assert_eq!((error, epoch), (0, 0));
            assert!(id >= 0 && ids.insert(id));
        }
        assert_eq!(ask(version, Some(""), -1, -1), (42, -1, -1));
        assert_eq!(ask(version, Some("tx"), -1, -1), (53, -1, -1));
    }
    for version in 3..=4 {
        assert_eq!(ask(version, None, 5, -1).0, 42);
        assert_eq!(ask(version, None, -1, 5).0, 42);
        let (error, id, epoch) = ask(version, None, 5, 3);
        assert_eq!((error, epoch), (0, 0));
        assert!(ids.insert(id), "a fresh one");
    }
}
