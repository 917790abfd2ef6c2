//! Consumers: batches that are compressed, by every codec of the build.

use super::consumer::{batch, fetches, from_to, sealed, world};
use super::world::{MS, Setup, World};
use crate::client::{ClientEvent, RecordCursor};
use crate::error::Error;
use crate::net::pool::Priority;
use crate::protocol::records::encoders::{CODECS, compressed};
use crate::protocol::records::test_batches::{compressed_batch, with_records};
use crate::protocol::records::{Attributes, BatchView, Compression};

/// Ten records in three batches at offset 0, and one batch that is not compressed behind them.
fn ten(codec: Compression) -> Vec<Vec<u8>> {
    let packed = [(0, &["0", "1", "2", "3"][..]), (4, &["4", "5", "6"]), (7, &["7", "8", "9"])]
        .map(|(base, values)| compressed_batch(codec, &batch(base, values)));
    [&packed[..], &[batch(10, &["10"])]].concat()
}

fn holding(batches: Vec<Vec<u8>>) -> (World, crate::client::TopicId) {
    let (mut world, topic) = world();
    for batch in batches {
        world.cluster.part("t", 1).put(batch);
    }
    (world, topic)
}

#[test]
fn records_of_every_codec_come_as_they_were_sent() {
    for &codec in CODECS {
        let (mut world, topic) = holding(ten(codec));
        let consumer = world.consumer(&[]);
        world.client.assign(consumer, &[(topic, 1, 0)]).unwrap();
        world.run();
        assert_eq!(world.events.len(), 1, "small batches share a block");
        assert_eq!(world.records(), from_to(0..11), "{codec:?}");
        assert_eq!(world.client.position(consumer, topic, 1), Ok(Some(11)));
        world.cluster.part("t", 1).put(compressed_batch(codec, &batch(11, &["11"])));
        world.wake_fetches();
        assert_eq!(world.records(), from_to(11..12));
        assert_eq!(world.client.stats().records_fetched, 12);
        // What the host holds is whole and sound, as if it had never been compressed.
        world.client.assign(consumer, &[(topic, 1, 5)]).unwrap();
        world.advance(600 * MS);
        let Some(ClientEvent::Records { batches, from, count, .. }) = world.events.first() else {
            panic!("{:?}", world.events);
        };
        assert_eq!((*from, *count), (5, 7), "the middle of a batch");
        let first = BatchView::parse(batches).unwrap();
        assert!(first.verify_crc() && first.records().is_ok());
        assert_eq!(world.records(), from_to(5..12));
    }
}

#[test]
fn large_fetches_come_in_several_events_that_are_taken_one_by_one() {
    for &codec in CODECS {
        // 200 KB each: not all of them find room in one block.
        let text = "x".repeat(50_000);
        let values = [text.as_str(); 4];
        let (mut world, topic) =
            holding((0..20).map(|i| compressed_batch(codec, &batch(4 * i, &values))).collect());
        let consumer = world.consumer(&[]);
        world.keep_events = true;
        world.client.assign(consumer, &[(topic, 1, 0)]).unwrap();
        world.run();
        let fetched = fetches(&world).len();
        let (mut events, mut next) = (0, 0);
        while next < 80 {
            assert_eq!(world.client.position(consumer, topic, 1), Ok(Some(next)), "{codec:?}");
            match world.client.next_event() {
                Some(ClientEvent::Ready { .. }) => continue,
                Some(ClientEvent::Records { count, from, .. }) => {
                    assert_eq!((from, count % 4), (next, 0));
                    next += i64::from(count);
                    events += 1;
                }
                other => panic!("{other:?}"),
            }
            assert!(!world.client.has_events(), "one at a time");
            assert_eq!(fetches(&world).len(), fetched, "nothing is fetched meanwhile");
            assert!(world.client.wants_turn());
            world.run();
        }
        assert!(events > 2, "{codec:?}: {events}");
        // Seen when it is answered.
        world.advance(500 * MS);
        assert_eq!(fetches(&world).len(), fetched + 1);
    }
}

#[test]
fn the_end_is_told_behind_the_last_record() {
    let Some(&codec) = CODECS.first() else { return };
    let (mut world, topic) = holding(ten(codec));
    let consumer = world.consumer(&[("enable.partition.eof", "true")]);
    world.client.assign(consumer, &[(topic, 1, 0)]).unwrap();
    world.run();
    assert_eq!(world.records(), from_to(0..11));
    let ends = |event: &&ClientEvent| matches!(event, ClientEvent::Eof { offset: 11, .. });
    assert_eq!(world.events.iter().filter(ends).count(), 1, "{:?}", world.events);
}

#[test]
fn bytes_that_are_not_the_codecs_stop_the_partition_behind_what_is_sound() {
    for &codec in CODECS {
        for garbage in [&b"garbage that nobody compressed"[..], &[]] {
            let bad = with_records(codec, &batch(4, &["4", "5"]), garbage);
            let sound = compressed_batch(codec, &batch(0, &["0", "1", "2", "3"]));
            let (mut world, topic) = holding(vec![sound, bad, batch(6, &["6"])]);
            let consumer = world.consumer(&[]);
            world.client.assign(consumer, &[(topic, 1, 0)]).unwrap();
            world.run();
            assert_eq!(world.records(), from_to(0..4));
            let failures = world.failures();
            assert!(matches!(failures[..], [(Error::Protocol(_), 1, 4)]), "{codec:?} {failures:?}");
            // The host may go on behind it.
            world.client.assign(consumer, &[(topic, 1, 6)]).unwrap();
            world.run();
            assert_eq!(world.records(), from_to(6..7));
        }
    }
}

/// Neither fewer records than the header says nor more are passed over.
#[test]
fn a_batch_that_lies_about_its_records_is_told() {
    let plain = Compression::None;
    for &codec in CODECS.iter().chain([&plain]) {
        for (values, said) in [(&["4"][..], &["4", "5"][..]), (&["4", "5", "6"], &["4", "5"])] {
            let of = batch(4, values);
            let records = compressed(codec, BatchView::parse(&of).unwrap().records_bytes());
            let lying = with_records(codec, &batch(4, said), &records);
            for from in [4, 5] {
                let (mut world, topic) = holding(vec![lying.clone()]);
                let consumer = world.consumer(&[]);
                world.client.assign(consumer, &[(topic, 1, from)]).unwrap();
                world.run();
                let told = match world.events.iter().find_map(|event| match event {
                    ClientEvent::Records { batches, from, .. } => Some((batches, *from)),
                    _ => None,
                }) {
                    Some((batches, from)) => {
                        let mut cursor = RecordCursor::new(from);
                        core::iter::from_fn(|| cursor.next(batches)).any(|record| record.is_err())
                    }
                    None => matches!(world.failures()[..], [(Error::Protocol(_), 1, _)]),
                };
                assert!(told, "{codec:?} {values:?} said to be {said:?}, from {from}");
            }
        }
    }
}

#[test]
fn what_inflates_to_more_than_any_block_is_told_and_holds_nothing() {
    for &codec in CODECS {
        let zeroes = vec![0; 9 << 20];
        let bomb = with_records(codec, &batch(0, &["0"]), &compressed(codec, &zeroes));
        let (mut world, topic) = holding(vec![bomb, compressed_batch(codec, &batch(1, &["1"]))]);
        let consumer = world.consumer(&[]);
        world.client.assign(consumer, &[(topic, 1, 0)]).unwrap();
        world.run();
        assert_eq!(world.failures(), [(Error::TooLarge, 1, 0)], "{codec:?}");
        world.client.assign(consumer, &[(topic, 1, 1)]).unwrap();
        world.run();
        assert_eq!(world.records(), from_to(1..2));
        world.events.clear();
        world.client.assign(consumer, &[]).unwrap();
        world.advance(600 * MS);
        assert_eq!(world.client.pool.leases(), 0);
    }
}

#[test]
fn without_memory_it_waits_and_in_the_end_fetches_anew() {
    let Some(&codec) = CODECS.first() else { return };
    let mut world = World::with(Setup { shared: 0, ..Setup::default() });
    world.cluster.add_topic("t", &[1]);
    let text = "x".repeat(50_000);
    for i in 0..3 {
        let packed = compressed_batch(codec, &batch(4 * i, &[text.as_str(); 4]));
        world.cluster.part("t", 0).put(packed);
    }
    let topic = world.topic("t");
    let consumer = world.consumer(&[]);
    // The answer is small; what it inflates to needs one of the four large blocks.
    let pool = world.client.pool.clone();
    let take = || core::iter::from_fn(|| pool.lease(1 << 20, Priority::Data)).collect::<Vec<_>>();
    let held = take();
    assert_eq!(held.len(), 4);
    world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
    world.run();
    world.advance(300 * MS);
    assert_eq!((world.records(), fetches(&world).len()), (vec![], 1), "it waits");
    assert!(!world.client.wants_turn(), "and does not look again and again");
    let next = world.client.next_deadline().unwrap();
    assert!(next > world.now.at.after(1000 * MS), "{next:?}");
    drop(held);
    world.run();
    assert_eq!(world.records().len(), 12);
    world.events.clear();
    // For longer than it waits.
    let held = take();
    world.client.assign(consumer, &[(topic, 0, 4)]).unwrap();
    world.advance(500 * MS);
    let fetched = fetches(&world).len();
    for _ in 0..100 {
        world.advance(100 * MS);
    }
    let anew = fetches(&world).len() - fetched;
    assert!((2..10).contains(&anew) && world.events.is_empty(), "{anew}");
    let blocks = pool.leases();
    assert!(blocks <= held.len() + 1, "{blocks}: it let go of the answers before");
    drop(held);
    for _ in 0..20 {
        world.advance(100 * MS);
    }
    assert_eq!(world.records().len(), 8);
}

#[test]
fn a_partition_that_is_paused_or_moved_lets_go_of_what_is_not_inflated() {
    let Some(&codec) = CODECS.first() else { return };
    let text = "x".repeat(50_000);
    let values = [text.as_str(); 4];
    let packed = |i: i64| compressed_batch(codec, &batch(4 * i, &values));
    let (mut world, topic) = holding((0..3).map(packed).collect());
    let consumer = world.consumer(&[]);
    world.keep_events = true;
    world.client.assign(consumer, &[(topic, 1, 0), (topic, 0, 0)]).unwrap();
    world.run();
    world.client.pause(consumer, &[(topic, 1)], true).unwrap();
    world.keep_events = false;
    world.advance(2000 * MS);
    let seen = world.records();
    let of = |part: usize| seen.iter().filter(|(_, v)| (v.len() > 9) == (part == 1)).count();
    assert_eq!((of(0), of(1)), (10, 4), "what waited comes, the rest does not");
    world.cluster.part("t", 0).put(batch(10, &["10"]));
    world.wake_fetches();
    assert_eq!(world.records(), from_to(10..11), "the other goes on");
    world.client.pause(consumer, &[(topic, 1)], false).unwrap();
    world.advance(1000 * MS);
    assert_eq!(world.records().len(), 8, "the rest, fetched anew");
    // The same for one that moves or goes while it has more to inflate.
    world.keep_events = true;
    world.client.assign(consumer, &[(topic, 1, 0)]).unwrap();
    world.advance(1000 * MS);
    world.client.assign(consumer, &[(topic, 1, 8)]).unwrap();
    world.keep_events = false;
    world.advance(1000 * MS);
    let moved: Vec<i64> = world.records().iter().map(|(offset, _)| *offset).collect();
    assert_eq!(moved, [8, 9, 10, 11]);
    world.keep_events = true;
    world.client.assign(consumer, &[(topic, 1, 0)]).unwrap();
    world.advance(1000 * MS);
    world.client.close_consumer(consumer).unwrap();
    world.keep_events = false;
    world.advance(1000 * MS);
    world.events.clear();
    assert_eq!(world.client.pool.leases(), 0);
}

#[test]
fn aborted_records_are_hidden_in_compressed_batches_too() {
    for &codec in CODECS {
        let open = Attributes(0).with_transactional();
        let packed =
            |base, value, id| compressed_batch(codec, &sealed(base, &[value], open, id, None));
        let (mut world, topic) = holding(vec![
            compressed_batch(codec, &batch(0, &["plain"])),
            packed(1, "gone", 7),
            packed(2, "kept", 8),
        ]);
        world.cluster.part("t", 1).aborted = vec![(7, 1)];
        let consumer = world.consumer(&[("isolation.level", "read_committed")]);
        world.client.assign(consumer, &[(topic, 1, 0)]).unwrap();
        world.run();
        let expected = [(0, "plain"), (2, "kept")].map(|(o, v)| (o, v.to_owned()));
        assert_eq!(world.records(), expected, "{codec:?}");
        assert_eq!(world.client.position(consumer, topic, 1), Ok(Some(3)));
    }
}
