//! Consumers: damaged and foreign batches, codes, lost requests, other leaders.

use super::answers::fetch_answer;
use super::cluster::{Act, Partition};
use super::consumer::{batch, fetches, from_to, world};
use super::world::{MS, Setup, World};
use crate::error::Error;
use crate::protocol::ApiKey;

#[test]
fn a_damaged_batch_stops_its_partition_there() {
    let (mut world, topic) = world();
    let mut bad = batch(10, &["10"]);
    let last = bad.len() - 2;
    bad[last] ^= 1;
    world.cluster.part("t", 0).put(bad);
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
    world.run();
    assert_eq!(world.records(), from_to(0..10), "what is sound comes first");
    let failures = world.failures();
    assert_eq!(failures.len(), 1);
    assert!(matches!(failures[0], (Error::Protocol(_), 0, 10)), "{failures:?}");
    let fetched = world.cluster.count(ApiKey::FETCH);
    world.advance(5000 * MS);
    assert_eq!(world.cluster.count(ApiKey::FETCH), fetched, "it is parked");
    world.client.assign(consumer, &[(topic, 0, 4)]).unwrap();
    world.run();
    assert_eq!(world.records(), from_to(4..10));
    // Who does not want the check gets what is there.
    let (mut world, topic) = self::world();
    let mut bad = batch(10, &["10"]);
    bad[17] ^= 1;
    world.cluster.part("t", 0).put(bad);
    let consumer = world.consumer(&[("check.crcs", "false")]);
    world.client.assign(consumer, &[(topic, 0, 9)]).unwrap();
    world.run();
    assert_eq!(world.records(), from_to(9..11));
}

#[test]
fn nonsense_in_a_batch_header_is_an_error_not_a_loop() {
    // What to write where, in a sound batch, whose checksum is set right again.
    for (at, bytes, what) in [
        (57, &(-1i32).to_be_bytes()[..], "count"),
        (57, &99i32.to_be_bytes(), "count"),
        (23, &(-5i32).to_be_bytes(), "offsets"),
        (22, &[1], "gzip"),
        (22, &[7], "codec"),
        (16, &[1], "magic"),
    ] {
        let (mut world, topic) = world();
        let mut bad = batch(0, &["x", "y"]);
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        let crc = crate::protocol::records::crc32c(&bad[21..]);
        bad[17..21].copy_from_slice(&crc.to_be_bytes());
        let rows = [("t".to_owned(), 0, 0, Partition::new(1), bad)];
        world.cluster.plan(ApiKey::FETCH, [Act::Body(fetch_answer(&rows, 12))]);
        let consumer = world.consumer(&[]);
        world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
        world.run();
        let failures = world.failures();
        assert_eq!(failures.len(), 1, "{what}");
        assert!(failures[0].0.to_string().contains(what), "{what}: {}", failures[0].0);
        assert_eq!(failures[0].2, 0);
    }
}

#[test]
fn a_batch_that_was_cut_off_is_fetched_again_and_one_that_never_fits_is_told() {
    let (mut world, topic) = world();
    let whole = [batch(0, &["0"]), batch(1, &["1"])].concat();
    let cut = whole[..whole.len() - 5].to_vec();
    let mut part = Partition::new(1);
    part.end = 2;
    let rows = [("t".to_owned(), 0, 0, part.clone(), cut.clone())];
    world.cluster.plan(ApiKey::FETCH, [Act::Body(fetch_answer(&rows, 12))]);
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
    world.run();
    let records = world.records();
    assert_eq!(records[0], (0, "0".to_owned()));
    assert_eq!(fetches(&world)[1].0, [(0, 1)]);
    let alone = batch(10, &["10"])[..40].to_vec();
    let rows = [("t".to_owned(), 0, 0, part, alone)];
    world.cluster.plan(ApiKey::FETCH, [Act::Body(fetch_answer(&rows, 12))]);
    world.client.assign(consumer, &[(topic, 0, 10)]).unwrap();
    world.wake_fetches();
    world.advance(600 * MS);
    assert_eq!(world.failures(), [(Error::TooLarge, 0, 10)]);
}

#[test]
fn an_answer_larger_than_a_frame_finds_the_partition_that_is_to_blame() {
    let (mut world, topic) = world();
    world.cluster.part("t", 1).put(batch(0, &["a"]));
    world.cluster.plan(ApiKey::FETCH, [Act::TooLarge, Act::TooLarge]);
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0), (topic, 1, 0)]).unwrap();
    world.advance(2000 * MS);
    assert_eq!(world.failures(), [(Error::TooLarge, 0, 0)]);
    assert_eq!(world.records(), [(0, "a".to_owned())]);
    let asked: Vec<_> = fetches(&world).into_iter().map(|f| (f.0, f.1)).collect();
    assert_eq!(asked[0], (vec![(0, 0), (1, 0)], 500));
    assert_eq!(asked[1], (vec![(0, 0)], 0));
    assert_eq!(asked[2], (vec![(1, 0)], 0));
    assert_eq!(asked[3], (vec![(1, 1)], 500));
}

#[test]
fn out_of_range_follows_the_policy() {
    for (policy, expected) in [("earliest", Some(3)), ("latest", Some(10)), ("none", None)] {
        let (mut world, topic) = world();
        world.cluster.part("t", 0).log_start = 3;
        let consumer = world.consumer(&[("auto.offset.reset", policy)]);
        world.client.assign(consumer, &[(topic, 0, 1)]).unwrap();
        world.run();
        match expected {
            Some(from) => {
                assert_eq!(world.records(), from_to(from..10), "{policy}");
                assert_eq!(world.client.position(consumer, topic, 0), Ok(Some(10)));
                assert!(world.logged("out of range"));
            }
            None => assert_eq!(world.failures(), [(Error::Kafka(1), 0, 1)]),
        }
    }
}

#[test]
fn another_leader_is_found_and_read_from() {
    let brokers = [(1, "10.0.0.1:9092"), (2, "10.0.0.2:9092")];
    let mut world = World::with(Setup { brokers: &brokers, ..Setup::default() });
    world.cluster.add_topic("t", &[1]);
    world.cluster.part("t", 0).put(batch(0, &["0"]));
    let topic = world.topic("t");
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
    world.run();
    world.cluster.part("t", 0).leader = 2;
    world.cluster.part("t", 0).epoch = 2;
    world.cluster.part("t", 0).put(batch(1, &["1"]));
    world.advance(1500 * MS);
    assert_eq!(world.records(), from_to(0..2));
    let last = world.cluster.seen.iter().rfind(|r| r.key == ApiKey::FETCH).unwrap();
    assert_eq!(last.node, 2);
}

#[test]
fn a_lost_fetch_is_repeated() {
    let (mut world, topic) = world();
    world.cluster.plan(ApiKey::FETCH, [Act::Hangup, Act::Body(vec![9; 9]), Act::Code(78)]);
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
    world.advance(3000 * MS);
    assert_eq!(world.records(), from_to(0..10));
}

#[test]
fn an_error_in_the_search_for_a_position_is_retried_or_told() {
    let (mut world, topic) = world();
    world.cluster.plan(ApiKey::LIST_OFFSETS, [Act::Code(5), Act::Hangup, Act::Code(78)]);
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, -2)]).unwrap();
    world.advance(3000 * MS);
    assert_eq!(world.records(), from_to(0..10));
    world.cluster.plan(ApiKey::LIST_OFFSETS, [Act::Code(43)]);
    world.client.assign(consumer, &[(topic, 0, -1)]).unwrap();
    world.run();
    assert_eq!(world.failures(), [(Error::Kafka(43), 0, -1)]);
}

#[test]
fn every_code_of_a_fetch_ends_somewhere() {
    for code in (-1..134).filter(|code| *code != 0) {
        let (mut world, topic) = world();
        world.cluster.plan(ApiKey::FETCH, [Act::Code(code)]);
        let consumer = world.consumer(&[("auto.offset.reset", "earliest")]);
        world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
        world.advance(2000 * MS);
        let (records, failures) = (world.records(), world.failures());
        assert!((records.len() == 10) != (failures.len() == 1), "{code}: {failures:?}");
    }
}

/// A partition that the cluster does not have is told once, and read when it comes.
#[test]
fn a_missing_partition_is_told_after_a_while() {
    let (mut world, topic) = world();
    let absent = world.topic("absent");
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 7, 0), (absent, 0, 0)]).unwrap();
    world.run();
    world.advance(4900 * MS);
    assert_eq!(world.failures(), []);
    world.advance(1500 * MS);
    let unknown = Error::Kafka(3);
    let mut failures = world.failures();
    failures.sort_by_key(|failure| failure.1);
    assert_eq!(failures, [(unknown, 0, 0), (unknown, 7, 0)]);
    world.advance(20_000 * MS);
    assert_eq!(world.failures(), [], "once is enough");
}

/// A broker that refuses the position it has just given is not asked at the speed of the wire.
#[test]
fn a_position_that_is_refused_again_and_again_waits() {
    let (mut world, topic) = world();
    world.cluster.plan(ApiKey::FETCH, (0..1000).map(|_| Act::Code(1)));
    let consumer = world.consumer(&[("auto.offset.reset", "earliest")]);
    world.client.assign(consumer, &[(topic, 0, 99)]).unwrap();
    world.run();
    world.advance(10_000 * MS);
    let fetched = world.cluster.count(ApiKey::FETCH);
    assert!((3..40).contains(&fetched), "{fetched} fetches in 10 s");
}
