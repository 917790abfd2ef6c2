//! Producers: batches, requests and partitions.

use super::world::{MS, Setup, World};
use crate::client::{ClientLimits, OutRecord, Outcome, TopicId};
use crate::error::Error;
use crate::net::slots::SlotId;
use crate::protocol::ApiKey;
use crate::protocol::declare::Message;
use crate::protocol::messages::ProduceRequest;
use crate::protocol::records::{BatchView, Batches};
use Outcome::Persisted;

/// A world with topic `t` of three partitions and a producer.
pub(super) fn with(pairs: &[(&str, &str)]) -> (World, TopicId, SlotId) {
    let mut world = World::new();
    world.cluster.add_topic("t", &[1, 1, 1]);
    let topic = world.topic("t");
    let producer = world.producer(pairs);
    (world, topic, producer)
}

/// One whose batches do not linger.
pub(super) fn at_once(more: &[(&'static str, &'static str)]) -> (World, TopicId, SlotId) {
    let mut pairs = vec![("linger.ms", "0")];
    pairs.extend_from_slice(more);
    with(&pairs)
}

/// A producer whose first batch, for partition 0, is acknowledged.
pub(super) fn known(more: &[(&'static str, &'static str)]) -> (World, TopicId, SlotId) {
    let (mut world, topic, producer) = at_once(more);
    assert_eq!(world.produce(producer, topic, 0, "-", 99), Ok(true));
    world.run();
    world.outcomes();
    (world, topic, producer)
}

#[test]
fn a_record_is_written_and_told() {
    let (mut world, topic, producer) = at_once(&[]);
    let headers = [(&b"h"[..], Some(&b"1"[..])), (b"n", None)];
    let record = OutRecord {
        topic,
        partition: Some(2),
        key: Some(b"key"),
        value: None,
        timestamp_ms: Some(123),
        user: 77,
    };
    let taken = world.client.produce(producer, &record, headers.into_iter(), world.now);
    assert_eq!(taken, Ok(true));
    world.run();
    assert_eq!(world.outcomes(), [(vec![77], Persisted, None, 0)]);
    let log = world.cluster.part("t", 2).log.concat();
    let batch = BatchView::parse(&log).unwrap();
    let record = batch.records().unwrap().next().unwrap().unwrap();
    assert_eq!((record.key, record.value), (Some(&b"key"[..]), None));
    assert_eq!(batch.timestamp_of(&record), 123);
    assert!(record.headers.eq(headers));
    assert_eq!(batch.producer_id(), 1001);
    let stats = world.client.stats();
    assert_eq!((stats.records_accepted, stats.records_delivered, stats.batches), (1, 1, 0));
    assert_eq!(stats.batch_bytes, 0);
}

#[test]
fn linger_ends_on_the_millisecond() {
    let (mut world, topic, producer) = with(&[("linger.ms", "5")]);
    for (user, value) in ["a", "b"].into_iter().enumerate() {
        assert_eq!(world.produce(producer, topic, 0, value, user as u64), Ok(true));
        world.advance(2 * MS);
    }
    world.advance(MS - core::time::Duration::from_nanos(1));
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 0);
    world.advance(core::time::Duration::from_nanos(1));
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 1);
    assert_eq!(world.outcomes(), [(vec![0, 1], Persisted, None, 0)]);
}

#[test]
fn a_full_batch_does_not_linger_and_a_second_one_behind_it_does() {
    let (mut world, topic, producer) = with(&[("linger.ms", "1000"), ("batch.size", "1000")]);
    let value = "x".repeat(300);
    for user in 0..4 {
        assert_eq!(world.produce(producer, topic, 0, &value, user), Ok(true));
    }
    world.run();
    // Three fit into 1000 bytes beside the header; the fourth begins another batch.
    assert_eq!(world.outcomes(), [(vec![0, 1, 2], Persisted, None, 0)]);
    world.advance(999 * MS);
    assert_eq!(world.outcomes(), []);
    world.advance(MS);
    assert_eq!(world.outcomes(), [(vec![3], Persisted, None, 3)]);
}

#[test]
fn a_large_record_has_a_batch_of_its_own_and_one_too_large_is_refused() {
    let (mut world, topic, producer) = with(&[("linger.ms", "50")]);
    assert_eq!(world.produce(producer, topic, 0, "small", 1), Ok(true));
    let large = "x".repeat(100_000);
    assert_eq!(world.produce(producer, topic, 0, &large, 2), Ok(true));
    assert_eq!(world.produce(producer, topic, 0, "small", 3), Ok(true));
    world.advance(100 * MS);
    let users: Vec<_> = world.outcomes().into_iter().map(|o| (o.0, o.1)).collect();
    assert_eq!(users, [(vec![1], Persisted), (vec![2], Persisted), (vec![3], Persisted)]);
    let huge = "x".repeat(1 << 20);
    assert!(matches!(world.produce(producer, topic, 0, &huge, 4), Err(Error::Invalid(_))));
    assert!(matches!(world.produce(producer, topic, 3, "x", 5), Err(Error::Invalid(_))));
    assert_eq!(world.client.stats().records_accepted, 3);
}

#[test]
fn one_request_carries_a_batch_of_each_partition_that_is_ready() {
    let (mut world, topic, producer) = with(&[("linger.ms", "5")]);
    world.cluster.add_topic("u", &[1, 1]);
    let other = world.topic("u");
    for (i, (topic, partition)) in
        [(topic, 0), (other, 1), (topic, 2), (other, 0), (topic, 1)].into_iter().enumerate()
    {
        assert_eq!(world.produce(producer, topic, partition, "v", i as u64), Ok(true));
    }
    world.advance(5 * MS);
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 1);
    let request = world.cluster.seen.iter().find(|r| r.key == ApiKey::PRODUCE).unwrap();
    let message = ProduceRequest::decode(&request.body, request.version).unwrap();
    let names: Vec<_> = message.topic_data.iter().map(|t| t.name).collect();
    assert_eq!(names, ["t", "u"], "each topic stands there once");
    assert_eq!(message.timeout_ms, 30_000);
    assert_eq!(message.acks, -1);
    assert_eq!(world.outcomes().len(), 5);
}

#[test]
fn more_partitions_than_pieces_take_more_requests() {
    let limits = ClientLimits { max_partitions: 64, max_batches: 64, ..Setup::default().limits };
    let mut world = World::with(Setup { limits, ..Setup::default() });
    world.cluster.add_topic("t", &[1; 40]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "5")]);
    for partition in 0..40 {
        assert_eq!(world.produce(producer, topic, partition, "v", 0), Ok(true));
    }
    world.advance(5 * MS);
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 2);
    assert_eq!(world.outcomes().len(), 40);
}

#[test]
fn a_batch_takes_more_tokens_than_the_smallest_block_holds() {
    let (mut world, topic, producer) = with(&[("linger.ms", "5")]);
    for user in 0..1500 {
        assert_eq!(world.produce(producer, topic, 0, "", user), Ok(true));
    }
    world.advance(5 * MS);
    let outcomes = world.outcomes();
    let users: Vec<u64> = outcomes.iter().flat_map(|o| o.0.clone()).collect();
    assert_eq!(users, (0..1500).collect::<Vec<_>>());
    assert_eq!(outcomes.len(), 1);
}

#[test]
fn five_requests_are_in_flight_and_no_more() {
    let (mut world, topic, producer) = known(&[]);
    world.hold.insert(0);
    for user in 0..8 {
        assert_eq!(world.produce(producer, topic, 0, "v", user), Ok(true));
        world.run();
    }
    assert_eq!(world.held.len(), 5);
    world.hold.clear();
    world.release();
    let users: Vec<u64> = world.outcomes().into_iter().flat_map(|o| o.0).collect();
    assert_eq!(users, (0..8).collect::<Vec<_>>());
    // What waited for room in flight was batched together.
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 7);
}

#[test]
fn with_one_in_flight_a_partition_waits_for_its_answer() {
    let brokers = [(1, "10.0.0.1:9092"), (2, "10.0.0.2:9092")];
    let mut world = World::with(Setup { brokers: &brokers, ..Setup::default() });
    world.cluster.add_topic("t", &[1, 2]);
    let topic = world.topic("t");
    let one = ("max.in.flight.requests.per.connection", "1");
    let producer = world.producer(&[("linger.ms", "0"), ("enable.idempotence", "false"), one]);
    world.hold.insert(0);
    for user in 0..3 {
        assert_eq!(world.produce(producer, topic, 0, "v", user), Ok(true));
        assert_eq!(world.produce(producer, topic, 1, "v", 10 + user), Ok(true));
        world.run();
    }
    assert_eq!(world.held.len(), 2, "one per connection");
    world.release();
    assert_eq!(world.held.len(), 2);
    world.hold.clear();
    world.release();
    assert_eq!(world.outcomes().len(), 4);
}

#[test]
fn keys_go_where_kafkas_own_client_sends_them() {
    let (mut world, topic, producer) = with(&[("linger.ms", "1")]);
    for (key, partition) in
        [("21", 0), ("foobar", 0), ("abc", 0), ("a-little-bit-long-string", 2), ("", 0)]
    {
        let record = OutRecord {
            topic,
            partition: None,
            key: Some(key.as_bytes()),
            value: Some(key.as_bytes()),
            timestamp_ms: None,
            user: 0,
        };
        let none = core::iter::empty();
        assert_eq!(world.client.produce(producer, &record, none, world.now), Ok(true));
        world.advance(MS);
        assert_eq!(world.cluster.part("t", partition).values().last().unwrap(), key);
    }
}

#[test]
fn without_a_key_records_stick_and_then_move() {
    let (mut world, topic, producer) = with(&[("linger.ms", "0"), ("batch.size", "2000")]);
    let value = "x".repeat(100);
    let mut places = Vec::new();
    for user in 0..400 {
        assert_eq!(world.produce(producer, topic, None, &value, user), Ok(true));
        world.run();
        let full = (0..3).map(|p| world.cluster.part("t", p).end);
        places.push(full.collect::<Vec<_>>());
    }
    world.outcomes();
    let last = places.last().unwrap();
    assert!(last.iter().all(|n| *n > 40), "{last:?}");
    let moved = |w: &[Vec<i64>]| w[0].iter().zip(&w[1]).position(|(a, b)| a != b);
    let places: Vec<_> = places.windows(2).filter_map(moved).collect();
    let switches = places.windows(2).filter(|w| w[0] != w[1]).count();
    assert!((8..60).contains(&switches), "about every {} records: {switches}", 2000 / 170);
}

#[test]
fn a_partition_without_a_leader_gets_nothing_that_may_go_elsewhere() {
    let (mut world, topic, producer) = at_once(&[]);
    world.cluster.part("t", 1).leader = -1;
    world.cluster.part("t", 1).epoch = 2;
    world.client.refresh.need();
    world.advance(200 * MS);
    for user in 0..50 {
        let value = "x".repeat(16_000);
        assert_eq!(world.produce(producer, topic, None, &value, user), Ok(true));
        world.run();
    }
    assert_eq!(world.cluster.part("t", 1).end, 0);
    assert_eq!(world.outcomes().len(), 50);
    // What must go there waits for a leader.
    assert_eq!(world.produce(producer, topic, 1, "here", 99), Ok(true));
    world.advance(500 * MS);
    assert_eq!(world.outcomes(), []);
    world.cluster.part("t", 1).leader = 1;
    world.cluster.part("t", 1).epoch = 3;
    world.advance(1500 * MS);
    assert_eq!(world.outcomes(), [(vec![99], Persisted, None, 0)]);
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let (mut world, _, _) = with(&[]);
    let config = |pairs: &[(&'static str, &'static str)]| {
        let pairs = crate::properties::Properties::new(pairs.iter().copied());
        crate::client::ProducerConfig::from_properties(pairs).unwrap()
    };
    let mut add = |c| world.client.add_producer(c, 1);
    let short = config(&[("delivery.timeout.ms", "1000")]);
    assert!(matches!(add(short), Err(Error::Invalid(_))));
    assert!(matches!(add(config(&[("buffer.memory", "1000")])), Err(Error::Invalid(_))));
    assert!(add(config(&[("batch.size", "0")])).is_ok());
    assert!(matches!(add(config(&[])), Err(Error::Exhausted(_))));
}

#[test]
fn a_batch_size_of_nothing_sends_each_record_alone() {
    let (mut world, topic, producer) = with(&[("batch.size", "0"), ("linger.ms", "1000")]);
    for user in 0..3 {
        assert_eq!(world.produce(producer, topic, 0, "v", user), Ok(true));
    }
    world.advance(1000 * MS);
    assert_eq!(world.outcomes().len(), 3);
    let log = world.cluster.part("t", 0).log.concat();
    assert!(Batches::new(&log).all(|batch| batch.unwrap().count() == 1));
}
