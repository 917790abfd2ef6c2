//! Producers: what answers, lost connections and deadlines make of a batch.

use super::cluster::{Act, name};
use super::producer::at_once;
use super::world::{MS, Setup, World};
use crate::client::Outcome::{MaybePersisted, NotPersisted, Persisted};
use crate::error::Error;
use crate::net::CloseReason;
use crate::protocol::ApiKey;

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

/// A base offset that no log can have is not passed on: the host adds to it.
#[test]
fn a_nonsense_base_offset_is_none() {
    for (lie, told) in [(-5, -1), (i64::MAX, -1), (i64::MAX - 1, i64::MAX - 1), (7, 7)] {
        let (mut world, topic, producer) = at_once(&[]);
        world.cluster.base_lie = Some(lie);
        assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
        world.run();
        assert_eq!(world.outcomes(), [(vec![1], Persisted, None, told)]);
    }
}
