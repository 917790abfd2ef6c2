//! Consumers: positions, records, ends, assignments that change.

use super::world::{MS, World};
use crate::client::{ClientEvent, TopicId};
use crate::error::Error;
use crate::net::slots::SlotId;
use crate::protocol::ApiKey;
use crate::protocol::declare::Message;
use crate::protocol::messages::FetchRequest;
use crate::protocol::records::{Attributes, BatchBuilder, Seal, no_headers};

/// A batch at `base` with one record for each value.
pub(super) fn batch(base: i64, values: &[&str]) -> Vec<u8> {
    sealed(base, values, Attributes(0), -1, None)
}

pub(super) fn sealed(
    base_offset: i64,
    values: &[&str],
    attributes: Attributes,
    producer_id: i64,
    key: Option<&[u8]>,
) -> Vec<u8> {
    let mut buf = vec![0; 200 + values.iter().map(|v| v.len() + 60).sum::<usize>()];
    let mut builder = BatchBuilder::new();
    for (i, value) in values.iter().enumerate() {
        let time = 1000 + (base_offset + i as i64) * 10;
        builder.append(&mut buf, time, key, Some(value.as_bytes()), no_headers()).unwrap();
    }
    let sequence = if producer_id < 0 { -1 } else { 0 };
    let seal = Seal {
        base_offset,
        attributes,
        producer_id,
        producer_epoch: sequence as i16,
        base_sequence: sequence,
        ..Seal::default()
    };
    let n = builder.seal(&mut buf, &seal).unwrap();
    buf.truncate(n);
    buf
}

/// The end of a transaction.
fn marker(base: i64, producer_id: i64, commit: bool) -> Vec<u8> {
    let attributes = Attributes(0).with_control().with_transactional();
    sealed(base, &["m"], attributes, producer_id, Some(&[0, 0, 0, u8::from(commit)]))
}

/// A world with topic `t` of two partitions; the first has ten records in three batches.
pub(super) fn world() -> (World, TopicId) {
    let mut world = World::new();
    world.cluster.add_topic("t", &[1, 1]);
    for (base, values) in
        [(0, &["0", "1", "2", "3"][..]), (4, &["4", "5", "6"]), (7, &["7", "8", "9"])]
    {
        world.cluster.part("t", 0).put(batch(base, values));
    }
    let topic = world.topic("t");
    (world, topic)
}

fn reading(pairs: &[(&str, &str)], offset: i64) -> (World, TopicId, SlotId) {
    let (mut world, topic) = world();
    let consumer = world.consumer(pairs);
    world.client.assign(consumer, &[(topic, 0, offset)]).unwrap();
    world.run();
    (world, topic, consumer)
}

pub(super) fn from_to(range: core::ops::Range<i64>) -> Vec<(i64, String)> {
    range.map(|offset| (offset, offset.to_string())).collect()
}

/// What each Fetch asked for: partitions with offsets, and how long it may wait.
pub(super) fn fetches(world: &World) -> Vec<(Vec<(i32, i64)>, i32)> {
    let mut out = Vec::new();
    for request in world.cluster.seen.iter().filter(|r| r.key == ApiKey::FETCH) {
        let message = FetchRequest::decode(&request.body, request.version).unwrap();
        assert_eq!((message.session_id, message.session_epoch, message.replica_id), (0, -1, -1));
        let parts = message.topics.iter().flat_map(|t| t.partitions);
        out.push((parts.map(|p| (p.partition, p.fetch_offset)).collect(), message.max_wait_ms));
    }
    out
}

#[test]
fn records_come_from_the_beginning_and_as_they_are_written() {
    let (mut world, topic, consumer) = reading(&[], -2);
    assert_eq!(world.records(), from_to(0..10));
    assert_eq!(world.client.position(consumer, topic, 0), Ok(Some(10)));
    world.cluster.part("t", 0).put(batch(10, &["10", "11"]));
    world.wake_fetches();
    assert_eq!(world.records(), from_to(10..12));
    // Two connections: one waits for records, the other is free.
    assert_eq!(world.net.open().len(), 2);
    let stats = world.client.stats();
    assert_eq!(stats.records_fetched, 12);
    assert!(stats.bytes_fetched > 0 && stats.fetches >= 2);
}

#[test]
fn the_end_an_offset_and_a_time_are_starts_too() {
    let (mut world, topic, consumer) = reading(&[], -1);
    assert_eq!(world.records(), []);
    assert_eq!(world.client.position(consumer, topic, 0), Ok(Some(10)));
    world.client.assign(consumer, &[(topic, 0, 5)]).unwrap();
    // The Fetch that waits at the broker comes back first.
    world.advance(500 * MS);
    assert_eq!(world.records(), from_to(5..10), "the middle of a batch");
    world.client.assign_at(consumer, topic, 0, 1000 + 75).unwrap();
    assert_eq!(world.client.position(consumer, topic, 0), Ok(None));
    world.advance(500 * MS);
    assert_eq!(world.records(), from_to(8..10));
    world.client.assign_at(consumer, topic, 0, 99_999).unwrap();
    world.run();
    assert_eq!(world.client.position(consumer, topic, 0), Ok(Some(10)), "nothing is as late");
    let bad = world.client.assign(consumer, &[(topic, 0, -3)]);
    assert!(matches!(bad, Err(Error::Invalid(_))));
    let bad = world.client.assign(consumer, &[(topic, -1, 0)]);
    assert!(matches!(bad, Err(Error::Invalid(_))));
    let bad = world.client.assign(consumer, &[(TopicId(9), 0, 0)]);
    assert!(matches!(bad, Err(Error::Invalid(_))));
}

#[test]
fn the_event_says_where_to_begin_and_how_many_there_are() {
    let (mut world, topic, _) = reading(&[], 5);
    let event = world.events.pop().unwrap();
    match event {
        ClientEvent::Records {
            owner,
            from,
            count,
            high_watermark,
            topic: t,
            partition,
            batches,
        } => {
            assert_eq!((owner, from, count, high_watermark), (200, 5, 5, 10));
            assert_eq!((t, partition), (topic, 0));
            assert_eq!(&batches[..8], 4i64.to_be_bytes(), "the batch begins before it");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_taken_is_not_fetched_further() {
    let (mut world, topic) = world();
    world.cluster.part("t", 1).put(batch(0, &["a"]));
    world.keep_events = true;
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0), (topic, 1, 0)]).unwrap();
    world.advance(5000 * MS);
    assert_eq!(world.cluster.count(ApiKey::FETCH), 1);
    assert_eq!(world.client.position(consumer, topic, 0), Ok(Some(0)), "moves when it is taken");
    let first = world.client.next_event().unwrap();
    assert!(matches!(first, ClientEvent::Records { partition: 0, .. }));
    world.run();
    assert_eq!(world.cluster.count(ApiKey::FETCH), 1, "the other one is not taken yet");
    let second = world.client.next_event().unwrap();
    assert!(matches!(second, ClientEvent::Records { partition: 1, .. }));
    world.advance(500 * MS);
    assert_eq!(fetches(&world)[1], (vec![(0, 10), (1, 1)], 500), "both in one");
    drop((first, second));
}

#[test]
fn a_partition_with_an_untaken_event_stays_out_of_the_next_fetch_until_then() {
    let (mut world, _, _) = reading(&[], 0);
    world.records();
    world.advance(1600 * MS);
    assert_eq!(fetches(&world).len(), 4, "one per half second, and the one with records");
}

#[test]
fn the_end_is_told_once_if_it_is_wanted() {
    let (mut world, topic, consumer) = reading(&[("enable.partition.eof", "true")], 0);
    let order: Vec<bool> =
        world.events.iter().map(|e| matches!(e, ClientEvent::Records { .. })).collect();
    assert_eq!(order[order.len() - 2..], [true, false], "the records first");
    let ends = |world: &mut World| {
        world.take(|e| matches!(e, ClientEvent::Eof { owner: 200, partition: 0, .. }))
    };
    assert_eq!(ends(&mut world).len(), 1);
    world.records();
    world.advance(3000 * MS);
    assert_eq!(ends(&mut world).len(), 0);
    world.cluster.part("t", 0).put(batch(10, &["10"]));
    world.wake_fetches();
    assert!(ends(&mut world)[0].contains("offset: 11"));
    // Assigned anew at the end: told anew.
    world.client.assign(consumer, &[(topic, 0, 3)]).unwrap();
    world.client.assign(consumer, &[(topic, 0, 11)]).unwrap();
    world.advance(1100 * MS);
    assert_eq!(ends(&mut world).len(), 1);
}

#[test]
fn markers_and_gaps_move_the_position_without_an_event() {
    let (mut world, topic) = world();
    let mut gap = batch(0, &["0", "1", "2", "3", "4"]);
    // Compaction left the last record of ten.
    gap[23..27].copy_from_slice(&9i32.to_be_bytes());
    let crc = crate::protocol::records::crc32c(&gap[21..]);
    gap[17..21].copy_from_slice(&crc.to_be_bytes());
    let part = world.cluster.part("t", 1);
    part.put(gap);
    part.put(marker(10, 5, true));
    part.put(batch(11, &["11"]));
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 1, 5)]).unwrap();
    world.run();
    assert_eq!(world.records(), [(11, "11".to_owned())]);
    assert_eq!(world.client.position(consumer, topic, 1), Ok(Some(12)));
    world.client.assign(consumer, &[(topic, 1, 10)]).unwrap();
    world.cluster.part("t", 1).log.pop();
    world.cluster.part("t", 1).end = 11;
    world.advance(500 * MS);
    assert_eq!(world.records(), []);
    assert_eq!(world.client.position(consumer, topic, 1), Ok(Some(11)));
}

#[test]
fn aborted_records_are_hidden_from_who_wants_only_committed_ones() {
    let (mut world, topic) = world();
    let open = Attributes(0).with_transactional();
    let part = world.cluster.part("t", 1);
    part.put(sealed(0, &["plain"], Attributes(0), -1, None));
    part.put(sealed(1, &["gone"], open, 7, None));
    part.put(sealed(2, &["kept"], open, 8, None));
    part.put(sealed(3, &["gone too"], open, 7, None));
    part.put(marker(4, 7, false));
    part.put(sealed(5, &["next"], open, 7, None));
    part.put(marker(6, 7, true));
    part.put(marker(7, 8, true));
    part.aborted = vec![(7, 1)];
    let consumer = world.consumer(&[("isolation.level", "read_committed")]);
    world.client.assign(consumer, &[(topic, 1, 0)]).unwrap();
    world.run();
    let expected = [(0, "plain"), (2, "kept"), (5, "next")].map(|(o, v)| (o, v.to_owned()));
    assert_eq!(world.records(), expected);
    assert_eq!(world.client.position(consumer, topic, 1), Ok(Some(8)));
    let all = world.consumer(&[]);
    world.client.assign(all, &[(topic, 1, 0)]).unwrap();
    world.run();
    assert_eq!(world.records().len(), 5, "each consumer has a connection of its own");
}

#[test]
fn an_answer_for_what_is_not_assigned_any_more_is_dropped() {
    let (mut world, topic) = world();
    world.cluster.part("t", 1).put(batch(0, &["a"]));
    world.hold.insert(1);
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0), (topic, 1, 0)]).unwrap();
    world.run();
    assert_eq!(world.held.len(), 1);
    // One leaves; the other moves.
    world.client.assign(consumer, &[(topic, 0, 7)]).unwrap();
    world.run();
    assert_eq!(world.held.len(), 1, "one Fetch at a time");
    world.hold.clear();
    world.release();
    assert_eq!(world.records(), from_to(7..10));
    let gone = world.client.position(consumer, topic, 1);
    assert!(matches!(gone, Err(Error::Invalid(_))), "{gone:?}");
}

#[test]
fn a_partition_that_stays_where_it_is_goes_on_undisturbed() {
    let (mut world, topic) = world();
    world.hold.insert(1);
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
    world.run();
    world.client.assign(consumer, &[(topic, 0, 0), (topic, 1, 0)]).unwrap();
    world.hold.clear();
    world.release();
    assert_eq!(world.records(), from_to(0..10), "the answer that was on its way");
    assert_eq!(fetches(&world)[0].0, [(0, 0)]);
    // An event that waits stays too, and one of a partition that leaves is dropped.
    world.keep_events = true;
    world.cluster.part("t", 0).put(batch(10, &["10"]));
    world.wake_fetches();
    world.client.assign(consumer, &[(topic, 0, 10)]).unwrap();
    assert!(world.client.has_events());
    world.client.assign(consumer, &[]).unwrap();
    assert!(!world.client.has_events());
    assert!(world.client.position(consumer, topic, 0).is_err());
    world.advance(2000 * MS);
}

#[test]
fn a_dropped_event_does_not_hold_its_node_back() {
    let (mut world, topic) = world();
    world.cluster.part("t", 1).put(batch(0, &["a"]));
    world.keep_events = true;
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
    world.run();
    world.client.assign(consumer, &[(topic, 1, 0)]).unwrap();
    world.keep_events = false;
    world.run();
    assert_eq!(world.records(), [(0, "a".to_owned())]);
}

#[test]
fn a_paused_partition_is_not_fetched() {
    let (mut world, topic) = world();
    world.cluster.part("t", 1).put(batch(0, &["a"]));
    let consumer = world.consumer(&[]);
    world.hold.insert(1);
    world.client.assign(consumer, &[(topic, 0, 0), (topic, 1, 0)]).unwrap();
    world.run();
    world.client.pause(consumer, &[(topic, 0)], true).unwrap();
    world.hold.clear();
    world.release();
    assert_eq!(world.records(), [(0, "a".to_owned())], "what was on its way is dropped");
    world.advance(1100 * MS);
    assert!(fetches(&world)[1..].iter().all(|f| f.0 == [(1, 1)]));
    world.client.pause(consumer, &[(topic, 0)], false).unwrap();
    world.advance(600 * MS);
    assert_eq!(world.records(), from_to(0..10));
    let unknown = world.client.pause(consumer, &[(topic, 0), (topic, 7)], true);
    assert!(matches!(unknown, Err(Error::Invalid(_))));
    world.advance(600 * MS);
    assert!(fetches(&world).last().unwrap().0.contains(&(0, 10)), "nothing was paused");
}

#[test]
fn a_topic_that_comes_later_is_read_then() {
    let mut world = World::new();
    let topic = world.topic("late");
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, -2), (topic, 1, 0)]).unwrap();
    world.advance(500 * MS);
    world.cluster.add_topic("late", &[1]);
    world.cluster.part("late", 0).put(batch(0, &["0"]));
    world.advance(1500 * MS);
    assert_eq!(world.records(), from_to(0..1));
    world.cluster.add_topic("late", &[1, 1]);
    world.cluster.part("late", 1).put(batch(0, &["0"]));
    world.advance(5000 * MS);
    assert_eq!(world.records(), from_to(0..1), "a partition that comes later too");
}

#[test]
fn the_table_of_assigned_partitions_has_an_end_and_replacing_fits() {
    let mut world = World::new();
    world.cluster.add_topic("t", &[1; 10]);
    let topic = world.topic("t");
    let consumer = world.consumer(&[]);
    let parts = |range: core::ops::Range<i32>| -> Vec<(TopicId, i32, i64)> {
        range.map(|partition| (topic, partition, 0)).collect()
    };
    world.client.assign(consumer, &parts(0..8)).unwrap();
    world.run();
    let over = world.client.assign(consumer, &parts(0..9));
    assert!(matches!(over, Err(Error::Exhausted(_))));
    // Named twice is one place: of those that are there, and of those that come.
    let twice = |range: core::ops::Range<i32>| [parts(range.clone()), parts(range)].concat();
    world.client.assign(consumer, &twice(0..8)).unwrap();
    world.client.assign(consumer, &twice(2..10)).unwrap();
    world.advance(600 * MS);
    assert_eq!(fetches(&world).last().unwrap().0.len(), 8);
    let at = world.client.assign_at(consumer, topic, 0, 5);
    assert!(matches!(at, Err(Error::Exhausted(_))));
}

#[test]
fn a_closed_consumer_is_silent() {
    let (mut world, topic) = world();
    world.hold.insert(1);
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
    world.run();
    world.client.close_consumer(consumer).unwrap();
    assert_eq!(world.client.close_consumer(consumer), Err(Error::Closed));
    let closed = world.client.assign(consumer, &[]);
    assert_eq!(closed, Err(Error::Closed));
    world.run();
    assert_eq!(world.take(|e| matches!(e, ClientEvent::Closed { owner: 200 })).len(), 1);
    assert_eq!(world.client.assign(consumer, &[]), Err(Error::Stale));
    assert_eq!(world.client.position(consumer, topic, 0), Err(Error::Stale));
    // Its place is used again while its Fetch is under way.
    let next = world.consumer(&[]);
    world.client.assign(next, &[(topic, 0, 4)]).unwrap();
    world.run();
    world.hold.clear();
    world.release();
    assert_eq!(world.records(), from_to(4..10));
}

#[test]
fn two_consumers_of_one_partition_do_not_disturb_each_other() {
    let (mut world, topic, first) = reading(&[], 0);
    let second = world.consumer(&[]);
    world.client.assign(second, &[(topic, 0, 8)]).unwrap();
    world.run();
    assert_eq!(world.records().len(), 12);
    world.client.close_consumer(first).unwrap();
    world.cluster.part("t", 0).put(batch(10, &["10"]));
    world.wake_fetches();
    world.advance(600 * MS);
    assert_eq!(world.records(), from_to(10..11));
}

#[test]
fn bytes_asked_for_fit_into_a_block() {
    let (world, _, _) = reading(&[], 0);
    let request = world.cluster.seen.iter().find(|r| r.key == ApiKey::FETCH).unwrap();
    let message = FetchRequest::decode(&request.body, request.version).unwrap();
    let largest = crate::net::Selectable::pool(&world.net).largest() as i32;
    assert!(message.max_bytes < largest && message.max_bytes > largest - 2000);
    let part = message.topics.iter().next().unwrap().partitions.iter().next().unwrap();
    assert_eq!(part.partition_max_bytes, message.max_bytes.min(1 << 20));
    assert_eq!((part.current_leader_epoch, message.min_bytes), (1, 1));
}
