//! Consumers: compressed batches of brokers that lie, and of pools that are small.

use super::answers::fetch_answer;
use super::cluster::{Act, Partition};
use super::consumer::{batch, fetches, sealed, world};
use super::world::{MS, Setup, World};
use crate::client::random::Random;
use crate::client::{ClientEvent, TopicId};
use crate::error::Error;
use crate::net::pool::Priority;
use crate::protocol::ApiKey;
use crate::protocol::records::batch as at;
use crate::protocol::records::encoders::{CODECS, compressed};
use crate::protocol::records::test_batches::{compressed_batch, counting, put, with_records};
use crate::protocol::records::{Attributes, Compression, test_batches};
use core::time::Duration;

/// Text that a codec makes little smaller.
fn noise(len: usize) -> String {
    let mut random = Random::new(7);
    (0..len).map(|_| char::from(b'0' + random.below(64) as u8)).collect()
}

/// A topic of so many partitions, each with these batches.
fn holding(memory: usize, partitions: usize, batches: &[Vec<u8>]) -> (World, TopicId) {
    let mut world = World::with(Setup { memory_limit: Some(memory), ..Setup::default() });
    world.cluster.add_topic("t", &vec![1; partitions]);
    for partition in 0..partitions {
        for batch in batches {
            world.cluster.part("t", partition).put(batch.clone());
        }
    }
    let topic = world.topic("t");
    (world, topic)
}

/// Batches that were read before stand between others: the position does not go back.
#[test]
fn a_batch_before_the_position_is_passed_over() {
    for &codec in CODECS {
        let text = "x".repeat(60_000);
        let ten = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let bytes = [batch(0, &ten), batch(0, &ten[..3]), batch(10, &[text.as_str(); 5])]
            .map(|batch| compressed_batch(codec, &batch))
            .concat();
        let (mut world, topic) = world();
        let rows = [("t".to_owned(), 0, 0, Partition::new(1), bytes)];
        world.cluster.plan(ApiKey::FETCH, [Act::Body(fetch_answer(&rows, 12))]);
        let consumer = world.consumer(&[]);
        world.keep_events = true;
        world.client.assign(consumer, &[(topic, 0, 5)]).unwrap();
        world.run();
        let mut positions = vec![];
        while let Some(event) = world.client.next_event() {
            world.events.push(event);
            world.run();
            positions.extend(world.client.position(consumer, topic, 0).unwrap());
        }
        assert!(positions.is_sorted(), "{codec:?}: {positions:?}");
        let offsets: Vec<i64> = world.records().iter().map(|(offset, _)| *offset).collect();
        assert_eq!(offsets, (5..15).collect::<Vec<i64>>(), "{codec:?}");
    }
}

/// Compaction may leave the header of a batch without records, codec and all.
#[test]
fn a_batch_without_records_is_passed_over() {
    for &codec in CODECS {
        let mut empty = with_records(codec, &batch(1, &["x"]), &[]);
        put(&mut empty, at::COUNT_AT, &0i32.to_be_bytes());
        let empty = test_batches::sealed(empty);
        let others = [batch(0, &["0"]), batch(2, &["2"])].map(|b| compressed_batch(codec, &b));
        let [first, last] = others;
        let (mut world, topic) = holding(32 << 20, 1, &[first, empty, last]);
        let consumer = world.consumer(&[]);
        world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
        world.run();
        assert_eq!(world.failures(), [], "{codec:?}");
        assert_eq!(world.records(), [(0, "0".to_owned()), (2, "2".to_owned())]);
    }
}

/// What ends a transaction is not overlooked: the records behind it would be hidden with it.
#[test]
fn a_control_batch_that_is_compressed_stops_the_partition() {
    for &codec in CODECS {
        let open = Attributes(0).with_transactional();
        let marker = sealed(1, &["m"], open.with_control(), 7, Some(&[0, 0, 0, 0]));
        let batches = [
            sealed(0, &["gone"], open, 7, None),
            compressed_batch(codec, &marker),
            sealed(2, &["committed"], open, 7, None),
        ];
        let (mut world, topic) = holding(32 << 20, 1, &batches);
        world.cluster.part("t", 0).aborted = vec![(7, 0)];
        let consumer = world.consumer(&[("isolation.level", "read_committed")]);
        world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
        world.run();
        let failures = world.failures();
        assert!(matches!(failures[..], [(Error::Protocol(_), 0, 1)]), "{failures:?}");
    }
}

/// A fetch with an aborted transaction is copied; in a small pool there are blocks of some sizes only.
#[test]
fn aborted_transactions_find_memory_in_the_smallest_pool() {
    for codec in CODECS.iter().chain([&Compression::None]) {
        let open = Attributes(0).with_transactional();
        let text = noise(300_000);
        let batches = [sealed(0, &["gone"], open, 7, None), batch(1, &[text.as_str()])]
            .map(|batch| compressed_batch(*codec, &batch));
        let (mut world, topic) = holding(3 << 20, 1, &batches);
        world.cluster.part("t", 0).aborted = vec![(7, 0)];
        let consumer = world.consumer(&[("isolation.level", "read_committed")]);
        world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
        world.run();
        assert_eq!(world.records().len(), 1, "{codec:?}");
    }
}

/// What fails after it was inflated, or for want of room, counts as what was inflated: a turn has one
/// of them.
#[test]
fn a_turn_ends_at_what_was_inflated_in_vain() {
    for &codec in CODECS {
        for (len, count) in [(3 << 20, i32::MAX), (5 << 20, 1)] {
            let bomb = with_records(codec, &batch(0, &["0"]), &compressed(codec, &vec![0; len]));
            let (mut world, topic) = holding(16 << 20, 4, &[counting(count, bomb)]);
            let consumer = world.consumer(&[]);
            world.keep_events = true;
            let all: Vec<_> = (0..4).map(|partition| (topic, partition, 0)).collect();
            world.client.assign(consumer, &all).unwrap();
            let mut told = 0;
            for _ in 0..2000 {
                let turns = world.turns;
                world.step();
                let mut now = 0;
                while let Some(event) = world.client.next_event() {
                    now += usize::from(matches!(event, ClientEvent::Failed { .. }));
                }
                assert!(now <= world.turns - turns, "{codec:?}: {now} in a turn");
                told += now;
                if told == 4 {
                    break;
                }
            }
            assert_eq!(told, 4, "{codec:?}");
        }
    }
}

/// A host that keeps its memory for a minute is left alone meanwhile.
#[test]
fn who_waits_for_memory_is_at_rest() {
    let Some(&codec) = CODECS.last() else { return };
    for partitions in [1usize, 8] {
        let text = "x".repeat(50_000);
        let packed = compressed_batch(codec, &batch(0, &[text.as_str(); 4]));
        let (mut world, topic) = holding(3 << 20, partitions, &[packed]);
        let consumer = world.consumer(&[]);
        let pool = world.client.pool.clone();
        let held: Vec<_> = core::iter::from_fn(|| pool.lease(1 << 20, Priority::Data)).collect();
        let all: Vec<_> = (0..partitions as i32).map(|part| (topic, part, 0)).collect();
        world.client.assign(consumer, &all).unwrap();
        world.advance(1000 * MS);
        let before = fetches(&world).len();
        let (mut wakes, end) = (0, world.now.at.after(Duration::from_secs(60)));
        while let Some(next) = world.client.next_deadline().filter(|at| *at < end) {
            world.advance(next.since(world.now.at).max(Duration::from_nanos(1)));
            wakes += 1;
        }
        let fetched = fetches(&world).len() - before;
        assert!(wakes < 60, "{partitions} partitions: {wakes} times in a minute");
        assert!(fetched < 10 * partitions, "{partitions} partitions: {fetched} fetches");
        drop(held);
        let mut seen = 0;
        for _ in 0..400 {
            world.advance(100 * MS);
            seen += world.records().len();
        }
        assert_eq!(seen, 4 * partitions);
        // One node has nobody to make room for: it is asked as patiently as before.
        let fetched = fetches(&world);
        assert!(fetched.len() > 1 && fetched.iter().all(|fetch| fetch.1 == 500), "{fetched:?}");
    }
}

/// Answers of several nodes that come out of step, each of which needs a second large block: one at a
/// time gets on.
#[test]
fn answers_of_many_nodes_get_on_in_the_smallest_pool() {
    let Some(&codec) = CODECS.last() else { return };
    let names = ["10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092", "10.0.0.4:9092"];
    let brokers: Vec<_> = (0..4).map(|i| (i as i32 + 1, names[i])).collect();
    let setup = Setup { memory_limit: Some(3 << 20), brokers: &brokers, ..Setup::default() };
    let mut world = World::with(setup);
    world.cluster.add_topic("t", &[1, 2, 3, 4]);
    let text = noise(600_000);
    for partition in 0..4 {
        for offset in 0..20 {
            let packed = compressed_batch(codec, &batch(offset, &[text.as_str()]));
            world.cluster.part("t", partition).put(packed);
        }
    }
    let topic = world.topic("t");
    let consumer = world.consumer(&[]);
    let all: Vec<_> = (0..4).map(|partition| (topic, partition, 0)).collect();
    world.client.assign(consumer, &all).unwrap();
    world.latency = 15 * MS;
    let (mut seen, mut ms) = (0, 0);
    while seen < 80 && ms < 20_000 {
        world.advance(5 * MS);
        ms += 5;
        seen += world.records().len();
    }
    assert_eq!(seen, 80, "in {ms} ms");
    let fetched = fetches(&world).len();
    assert!(fetched < 160, "{fetched} fetches for 80 batches");
}
