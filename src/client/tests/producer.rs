//! Producers: batching, outcomes, memory, partitions.

use super::cluster::{Act, name};
use super::world::{MS, Setup, World};
use crate::client::{ClientEvent, ClientLimits, OutRecord, Outcome, TopicId, partition_of_key};
use crate::error::Error;
use crate::net::CloseReason;
use crate::net::slots::SlotId;
use crate::protocol::ApiKey;
use crate::protocol::declare::Message;
use crate::protocol::messages::ProduceRequest;
use crate::protocol::records::{BatchView, Batches};
use Outcome::{MaybePersisted, NotPersisted, Persisted};

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
fn without_idempotence_retries_keep_their_order_among_themselves() {
    let (mut world, topic, producer) = at_once(&[("enable.idempotence", "false")]);
    world.hold.insert(0);
    for user in 0..4 {
        assert_eq!(world.produce(producer, topic, 0, &user.to_string(), user), Ok(true));
        world.run();
    }
    world.hold.clear();
    world.held.clear();
    world.hang_up(1);
    assert_eq!(world.produce(producer, topic, 0, "4", 4), Ok(true));
    world.advance(3000 * MS);
    assert_eq!(world.cluster.part("t", 0).values(), ["0", "1", "2", "3", "4"]);
}

#[test]
fn a_code_that_goes_away_is_waited_out() {
    let (mut world, topic, producer) = at_once(&[]);
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(19), Act::Code(5), Act::Code(2)]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.advance(79 * MS);
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 1, "at least four fifths of 100 ms");
    world.advance(42 * MS);
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 2);
    world.advance(1000 * MS);
    assert_eq!(world.outcomes(), [(vec![1], Persisted, None, 0)]);
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 4);
}

#[test]
fn another_leader_is_found_and_written_to() {
    let brokers = [(1, "10.0.0.1:9092"), (2, "10.0.0.2:9092")];
    let mut world = World::with(Setup { brokers: &brokers, ..Setup::default() });
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0")]);
    world.cluster.part("t", 0).leader = 2;
    world.cluster.part("t", 0).epoch = 2;
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.advance(500 * MS);
    assert_eq!(world.outcomes(), [(vec![1], Persisted, None, 0)]);
    let nodes = world.cluster.seen.iter().filter(|r| r.key == ApiKey::PRODUCE).map(|r| r.node);
    assert_eq!(nodes.collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_leader_named_in_the_answer_is_used_without_metadata_or_backoff() {
    let brokers = [(1, "10.0.0.1:9092"), (2, "10.0.0.2:9092")];
    let mut world = World::with(Setup { brokers: &brokers, ..Setup::default() });
    world.cluster.add_topic("t", &[1, 2]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0")]);
    assert_eq!(world.produce(producer, topic, 1, "b", 0), Ok(true));
    world.run();
    world.outcomes();
    world.cluster.part("t", 0).leader = 2;
    world.cluster.hint = Some((2, 2));
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes(), [(vec![1], Persisted, None, 0)], "at the same moment");
    assert_eq!(world.client.metadata.epoch(0), 2);
    // An older hint changes nothing.
    world.cluster.hint = Some((1, 1));
    assert_eq!(world.produce(producer, topic, 0, "c", 2), Ok(true));
    world.run();
    assert_eq!(world.outcomes(), [(vec![2], Persisted, None, 1)]);
}

#[test]
fn a_code_that_leaves_doubt_is_told_as_doubt() {
    let (mut world, topic, producer) = at_once(&[]);
    world.cluster.plan(ApiKey::PRODUCE, [Act::WriteAndCode(-1)]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes(), [(vec![1], MaybePersisted, Some(Error::Kafka(-1)), -1)]);
}

#[test]
fn a_batch_that_was_never_sent_expires_without_doubt() {
    let (mut world, topic, producer) =
        at_once(&[("delivery.timeout.ms", "30000"), ("enable.idempotence", "false")]);
    world.kill(1);
    world.run();
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.advance(29_999 * MS);
    assert_eq!(world.outcomes(), []);
    world.advance(MS);
    assert_eq!(world.outcomes(), [(vec![1], NotPersisted, Some(Error::Timeout), -1)]);
}

#[test]
fn flush_does_not_wait_for_linger_and_tells_after_the_outcomes() {
    let (mut world, topic, producer) = with(&[("linger.ms", "10000")]);
    world.client.flush(producer, 1).unwrap();
    world.run();
    assert_eq!(world.take(|e| matches!(e, ClientEvent::Flushed { user: 1, .. })).len(), 1);
    world.hold.insert(0);
    for partition in 0..3 {
        assert_eq!(world.produce(producer, topic, partition, "v", partition as u64), Ok(true));
    }
    world.client.flush(producer, 2).unwrap();
    world.run();
    assert_eq!(world.produce(producer, topic, 0, "later", 9), Ok(true));
    world.client.flush(producer, 3).unwrap();
    world.run();
    assert_eq!(world.events.len(), 0);
    world.keep_events = true;
    world.hold.clear();
    world.release();
    world.keep_events = false;
    world.run();
    let order: Vec<u64> = world
        .events
        .iter()
        .map(|event| match event {
            ClientEvent::Delivered { .. } => 0,
            ClientEvent::Flushed { user, owner: 100 } => *user,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(order.iter().filter(|o| **o == 0).count(), 4);
    let place = |user| order.iter().position(|o| *o == user).unwrap();
    assert!(place(2) >= 3 && place(3) > place(2) && place(3) == order.len() - 1, "{order:?}");
    for user in 0..16 {
        assert_eq!(world.produce(producer, topic, 0, "v", 0), Ok(true));
        world.client.flush(producer, user).unwrap();
    }
    assert!(matches!(world.client.flush(producer, 99), Err(Error::Exhausted(_))));
}

#[test]
fn memory_runs_out_and_one_writable_follows() {
    let (mut world, topic, producer) =
        with(&[("linger.ms", "100"), ("buffer.memory", "40000"), ("batch.size", "16384")]);
    world.hold.insert(0);
    let value = "x".repeat(9000);
    assert_eq!(world.produce(producer, topic, 0, &value, 1), Ok(true));
    assert_eq!(world.produce(producer, topic, 1, &value, 2), Ok(true));
    assert_eq!(world.produce(producer, topic, 2, &value, 3), Ok(false));
    assert_eq!(world.produce(producer, topic, 0, &value, 3), Ok(false));
    assert_eq!(world.client.stats().records_refused, 2);
    world.run();
    assert_eq!(world.held.len(), 1, "when memory is short nothing lingers");
    assert_eq!(world.writables(), 0);
    world.hold.clear();
    world.release();
    assert_eq!(world.outcomes().len(), 2);
    assert_eq!(world.writables(), 1);
    assert_eq!(world.produce(producer, topic, 2, &value, 3), Ok(true));
    world.advance(200 * MS);
    assert_eq!(world.outcomes().len(), 1);
    assert_eq!(world.writables(), 0);
}

#[test]
fn an_empty_pool_is_back_pressure_and_whoever_returns_a_block_ends_it() {
    let mut world = World::with(Setup { shared: 256 << 10, ..Setup::default() });
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0")]);
    assert_eq!(world.produce(producer, topic, 0, "warm", 0), Ok(true));
    world.run();
    world.outcomes();
    let pool = crate::net::Selectable::pool(&world.net).clone();
    let hoard: Vec<_> =
        core::iter::from_fn(|| pool.lease(16_384, crate::net::pool::Priority::Data)).collect();
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(false));
    world.advance(1000 * MS);
    assert_eq!(world.writables(), 0);
    drop(hoard);
    world.advance(20 * MS);
    assert_eq!(world.writables(), 1);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes().len(), 1);
}

#[test]
fn the_table_of_batches_is_full_until_events_are_taken() {
    let limits = ClientLimits { max_batches: 2, ..Setup::default().limits };
    let mut world = World::with(Setup { limits, ..Setup::default() });
    world.cluster.add_topic("t", &[1, 1, 1]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0")]);
    world.keep_events = true;
    for partition in 0..2 {
        assert_eq!(world.produce(producer, topic, partition, "v", 1), Ok(true));
    }
    world.run();
    assert_eq!(world.produce(producer, topic, 2, "v", 2), Ok(false));
    world.run();
    world.keep_events = false;
    world.run();
    assert_eq!((world.outcomes().len(), world.writables()), (2, 1));
    assert_eq!(world.produce(producer, topic, 2, "v", 2), Ok(true));
}

#[test]
fn acks_0_is_over_when_it_is_written() {
    let (mut world, topic, producer) = at_once(&[("acks", "0")]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes(), [(vec![1], Persisted, None, -1)]);
    assert_eq!(world.cluster.part("t", 0).values(), ["a"]);
    // Half written when the connection ends: it cannot have been read, and goes again.
    world.net.slow = true;
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Ok(true));
    world.run();
    assert_eq!(world.outcomes(), []);
    let (conn, _) = world.net.open()[0];
    world.net.end(conn, CloseReason::Io(32));
    world.net.slow = false;
    world.advance(2000 * MS);
    assert_eq!(world.outcomes(), [(vec![2], Persisted, None, -1)]);
    assert_eq!(world.client.stats().batch_retries, 1);
}

#[test]
fn retries_have_an_end() {
    let (mut world, topic, producer) =
        at_once(&[("retries", "2"), ("enable.idempotence", "false")]);
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(19), Act::Code(19), Act::Code(19)]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.advance(2000 * MS);
    assert_eq!(world.outcomes(), [(vec![1], NotPersisted, Some(Error::Kafka(19)), -1)]);
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 3);
}

#[test]
fn every_code_ends_a_batch_once() {
    for code in (-1..134).filter(|code| *code != 0) {
        let (mut world, topic, producer) = at_once(&[("delivery.timeout.ms", "31000")]);
        world.cluster.plan(ApiKey::PRODUCE, [Act::Code(code), Act::Code(code)]);
        assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
        world.advance(32_000 * MS);
        let outcomes = world.outcomes();
        assert_eq!(outcomes.len(), 1, "{}", name(code));
        let written = world.cluster.part("t", 0).values().len();
        match outcomes[0].1 {
            Persisted => assert!(written == 1 || code == 46, "{}", name(code)),
            NotPersisted => assert_eq!(written, 0, "{}", name(code)),
            MaybePersisted => {}
        }
        assert_eq!(world.client.stats().batches, 0);
    }
}

#[test]
fn close_gets_records_out_and_fails_what_is_late() {
    let (mut world, topic, producer) = with(&[("linger.ms", "10000")]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.client.close_producer(producer, 1000 * MS, world.now).unwrap();
    assert_eq!(
        world.client.close_producer(producer, core::time::Duration::ZERO, world.now),
        Err(Error::Closed)
    );
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Err(Error::Closed));
    world.run();
    assert_eq!(world.outcomes(), [(vec![1], Persisted, None, 0)]);
    assert_eq!(world.take(|e| matches!(e, ClientEvent::Closed { owner: 100 })).len(), 1);
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Err(Error::Stale));

    let (mut world, topic, producer) = with(&[("linger.ms", "10000")]);
    world.hold.insert(0);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.client.close_producer(producer, 1000 * MS, world.now).unwrap();
    world.advance(999 * MS);
    assert_eq!(world.outcomes(), []);
    world.advance(MS);
    assert_eq!(world.outcomes(), [(vec![1], MaybePersisted, Some(Error::Closed), -1)]);
    assert_eq!(world.take(|e| matches!(e, ClientEvent::Closed { owner: 100 })).len(), 1);
    // The late answer is for a producer that is gone, and frees the batch's place.
    assert_eq!(world.client.stats().batches, 1);
    world.hold.clear();
    world.release();
    assert_eq!(world.client.stats().batches, 0);
}

#[test]
fn keys_go_where_kafkas_own_client_sends_them() {
    let (mut world, topic, producer) = with(&[("linger.ms", "1")]);
    for key in ["21", "foobar", "abc", "a-little-bit-long-string", ""] {
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
        let partition = partition_of_key(key.as_bytes(), 3) as usize;
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
    let mut add = |c| world.client.add_producer(c, 1, world.now);
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
