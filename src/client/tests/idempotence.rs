//! Idempotent producers: numbers, epochs, what is repeated and what is not.

use super::cluster::Act;
use super::producer::{at_once, known};
use super::world::{MS, Setup, World};
use crate::client::ClientEvent;
use crate::client::Outcome::{MaybePersisted, NotPersisted, Persisted};
use crate::error::Error;
use crate::protocol::ApiKey;
use crate::protocol::declare::Message;
use crate::protocol::messages::ProduceRequest;
use crate::protocol::records::BatchView;

#[test]
fn the_first_batch_of_a_partition_goes_alone() {
    let (mut world, topic, producer) = at_once(&[]);
    world.cluster.lenient = true;
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(19)]);
    for user in 0..3 {
        assert_eq!(world.produce(producer, topic, 0, &user.to_string(), user), Ok(true));
        world.run();
    }
    world.advance(1000 * MS);
    assert_eq!(world.cluster.part("t", 0).values(), ["0", "1", "2"]);
}

/// What each Produce carried: partition, and base sequence and epoch of its batch.
fn batches(world: &World) -> Vec<(i32, i32, i16)> {
    let mut out = Vec::new();
    for request in world.cluster.seen.iter().filter(|r| r.key == ApiKey::PRODUCE) {
        let message = ProduceRequest::decode(&request.body, request.version).unwrap();
        for data in message.topic_data.iter().flat_map(|t| t.partition_data) {
            let batch = BatchView::parse(data.records.unwrap()).unwrap();
            out.push((data.index, batch.base_sequence(), batch.producer_epoch()));
        }
    }
    out
}

#[test]
fn a_lost_answer_is_repeated_and_written_once() {
    let (mut world, topic, producer) = at_once(&[]);
    world.cluster.plan(ApiKey::PRODUCE, [Act::WriteAndHangup]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes(), []);
    world.advance(1000 * MS);
    assert_eq!(world.outcomes(), [(vec![1], Persisted, None, -1)]);
    assert_eq!(world.cluster.part("t", 0).values(), ["a"]);
    assert_eq!(batches(&world), [(0, 0, 0), (0, 0, 0)], "the same numbers");
    assert_eq!(world.client.stats().batch_retries, 1);
}

#[test]
fn five_in_flight_lost_at_once_come_back_in_order() {
    let (mut world, topic, producer) = known(&[]);
    world.hold.insert(0);
    for user in 0..5 {
        let value = user.to_string();
        assert_eq!(world.produce(producer, topic, 0, &value, user), Ok(true));
        world.run();
    }
    assert_eq!(world.held.len(), 5);
    world.hold.clear();
    // The first is written, the others were on their way.
    let (_, first) = world.held.remove(0);
    world.held.clear();
    world.cluster.plan(ApiKey::PRODUCE, [Act::WriteAndHangup]);
    world.cluster.handle(&first).unwrap_err();
    world.hang_up(1);
    for user in 5..7 {
        let value = user.to_string();
        assert_eq!(world.produce(producer, topic, 0, &value, user), Ok(true));
    }
    world.advance(3000 * MS);
    let users: Vec<u64> = world.outcomes().into_iter().flat_map(|o| o.0).collect();
    assert_eq!(users, (0..7).collect::<Vec<_>>());
    assert_eq!(world.cluster.part("t", 0).values(), ["-", "0", "1", "2", "3", "4", "5", "6"]);
}

#[test]
fn a_refusal_is_final_and_what_follows_is_numbered_anew() {
    let (mut world, topic, producer) = at_once(&[]);
    world.cluster.plan(ApiKey::PRODUCE, [Act::Serve, Act::Code(10)]);
    for user in 0..4 {
        assert_eq!(world.produce(producer, topic, 0, &user.to_string(), user), Ok(true));
        world.run();
    }
    let outcomes = world.outcomes();
    assert_eq!(outcomes[1], (vec![1], NotPersisted, Some(Error::Kafka(10)), -1));
    let persisted = outcomes.iter().filter(|o| o.1 == Persisted).count();
    assert_eq!(persisted, 3);
    assert_eq!(batches(&world), [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)]);
}

#[test]
fn a_batch_that_was_sent_expires_with_doubt_and_a_late_answer_changes_nothing() {
    let (mut world, topic, producer) = at_once(&[("delivery.timeout.ms", "30000")]);
    // The first attempt is refused for now; the second is in flight when the time is over.
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(19)]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    world.hold.insert(0);
    world.advance(29_999 * MS);
    assert_eq!(world.held.len(), 1);
    assert_eq!(world.outcomes(), []);
    world.advance(MS);
    assert_eq!(world.outcomes(), [(vec![1], MaybePersisted, Some(Error::Timeout), -1)]);
    // The connection lives: the request itself has some time left.
    assert_eq!(world.client.stats().batches, 1);
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Ok(true));
    world.run();
    assert_eq!(world.held.len(), 1, "nothing new before the numbers are known");
    world.hold.clear();
    world.release();
    assert_eq!(world.outcomes(), [(vec![2], Persisted, None, 1)]);
    assert_eq!(world.client.stats().batches, 0);
    assert_eq!(batches(&world).last(), Some(&(0, 1, 0)), "the late answer told");
}

#[test]
fn out_of_order_for_the_next_batch_starts_a_new_epoch() {
    let (mut world, topic, producer) = at_once(&[]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    // The broker has lost what it knew.
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(45)]);
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Ok(true));
    assert_eq!(world.produce(producer, topic, 1, "c", 3), Ok(true));
    world.advance(500 * MS);
    assert!(world.outcomes().iter().all(|o| o.1 == Persisted));
    let all = batches(&world);
    assert_eq!(all[..2], [(0, 0, 0), (0, 1, 0)]);
    assert!(all[2..].contains(&(0, 0, 1)), "{all:?}");
    assert_eq!(world.cluster.part("t", 0).values(), ["a", "b"]);
}

#[test]
fn out_of_order_for_a_later_batch_waits_for_the_first() {
    let (mut world, topic, producer) = known(&[]);
    world.hold.insert(0);
    for user in 0..3 {
        assert_eq!(world.produce(producer, topic, 0, &user.to_string(), user), Ok(true));
        world.run();
    }
    // The first one fails for a reason that goes away; the model answers 45 to the others.
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(19)]);
    world.hold.clear();
    world.release();
    world.advance(2000 * MS);
    let users: Vec<u64> = world.outcomes().into_iter().flat_map(|o| o.0).collect();
    assert_eq!(users, [0, 1, 2]);
    assert_eq!(world.cluster.part("t", 0).values(), ["-", "0", "1", "2"]);
    assert!(batches(&world).iter().all(|b| b.2 == 0), "no new epoch was needed");
}

#[test]
fn a_forgotten_producer_starts_over() {
    let (mut world, topic, producer) = at_once(&[]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    world.cluster.part("t", 0).sequences.clear();
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Ok(true));
    world.advance(500 * MS);
    assert!(world.outcomes().iter().all(|o| o.1 == Persisted));
    assert_eq!(batches(&world), [(0, 0, 0), (0, 1, 0), (0, 0, 1)]);
}

#[test]
fn after_an_expiry_in_doubt_nothing_is_sent_until_the_numbers_are_known() {
    let (mut world, topic, producer) = at_once(&[("delivery.timeout.ms", "31000")]);
    // The first is written but never answered; the second is answered.
    world.cluster.plan(ApiKey::PRODUCE, [Act::WriteAndHangup]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    world.kill(1);
    world.advance(31_000 * MS);
    assert_eq!(world.outcomes(), [(vec![1], MaybePersisted, Some(Error::Timeout), -1)]);
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Ok(true));
    world.revive(1);
    world.advance(3000 * MS);
    assert_eq!(world.outcomes(), [(vec![2], Persisted, None, 1)]);
    // The numbers did not line up, as far as the client knows: a new epoch.
    assert_eq!(batches(&world).last(), Some(&(0, 0, 1)));
}

#[test]
fn the_id_is_asked_for_again_after_a_while() {
    let (mut world, topic, producer) = at_once(&[]);
    world.cluster.plan(ApiKey::INIT_PRODUCER_ID, [Act::Code(15), Act::Hangup]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 0);
    world.advance(2000 * MS);
    assert_eq!(world.cluster.count(ApiKey::INIT_PRODUCER_ID), 3);
    assert_eq!(world.outcomes(), [(vec![1], Persisted, None, 0)]);
}

#[test]
fn no_permission_for_an_id_fails_what_is_there() {
    let (mut world, topic, producer) = at_once(&[]);
    world.cluster.plan(ApiKey::INIT_PRODUCER_ID, [Act::Code(31)]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes(), [(vec![1], NotPersisted, Some(Error::Kafka(31)), -1)]);
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Ok(true));
    world.advance(500 * MS);
    assert_eq!(world.outcomes(), [(vec![2], Persisted, None, 0)]);
}

#[test]
fn no_permission_to_write_idempotently_ends_the_producer() {
    let (mut world, topic, producer) = at_once(&[]);
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(31)]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.failures(), [(Error::Kafka(31), -1, -1)]);
    assert_eq!(world.outcomes()[0].1, NotPersisted);
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Err(Error::Kafka(31)));
    world.client.close_producer(producer, core::time::Duration::ZERO, world.now).unwrap();
    world.run();
    assert_eq!(world.take(|e| matches!(e, ClientEvent::Closed { owner: 100 })).len(), 1);
}

#[test]
fn a_refusal_in_doubt_does_not_renumber_what_may_be_written() {
    let (mut world, topic, producer) = known(&[]);
    world.hold.insert(0);
    for user in 0..2 {
        assert_eq!(world.produce(producer, topic, 0, &user.to_string(), user), Ok(true));
        world.run();
    }
    // Both are written and no answer comes; then the first is not permitted any more.
    let held = core::mem::take(&mut world.held);
    world.cluster.plan(ApiKey::PRODUCE, [Act::WriteAndHangup, Act::WriteAndHangup, Act::Code(29)]);
    held.iter().for_each(|(_, request)| assert!(world.cluster.handle(request).is_err()));
    world.hold.clear();
    world.hang_up(1);
    world.advance(2000 * MS);
    let outcomes = world.outcomes();
    assert_eq!(outcomes[0], (vec![0], MaybePersisted, Some(Error::Kafka(29)), -1));
    assert_eq!((&outcomes[1].0[..], outcomes[1].1), (&[1][..], Persisted));
    assert_eq!(world.cluster.part("t", 0).values(), ["-", "0", "1"], "once each");
    // The numbers line up after all: no new epoch.
    assert_eq!(world.produce(producer, topic, 0, "2", 2), Ok(true));
    world.run();
    assert_eq!(batches(&world).last(), Some(&(0, 3, 0)));
}

#[test]
fn when_the_epochs_are_used_up_there_is_a_new_id() {
    let mut world = World::new();
    world.cluster.first_epoch = i16::MAX - 1;
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0")]);
    assert_eq!(world.produce(producer, topic, 0, "0", 0), Ok(true));
    world.run();
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(45)]);
    world.hold.insert(0);
    for user in 1..4 {
        assert_eq!(world.produce(producer, topic, 0, &user.to_string(), user), Ok(true));
        world.run();
    }
    world.hold.clear();
    world.release();
    world.advance(1000 * MS);
    assert_eq!(world.cluster.count(ApiKey::INIT_PRODUCER_ID), 2);
    assert!(world.outcomes().iter().all(|o| o.1 == Persisted));
    assert_eq!(world.cluster.part("t", 0).values(), ["0", "1", "2", "3"]);
}

#[test]
fn a_new_epoch_does_not_begin_in_a_partition_whose_old_batches_are_out() {
    let (mut world, topic, producer) = known(&[("max.in.flight.requests.per.connection", "2")]);
    assert_eq!(world.produce(producer, topic, 1, "-", 98), Ok(true));
    world.run();
    world.outcomes();
    // A request of each partition is out; the second batch of partition 0 waits for room.
    world.hold.insert(0);
    assert_eq!(world.produce(producer, topic, 1, "refused", 1), Ok(true));
    world.run();
    for user in 2..4 {
        assert_eq!(world.produce(producer, topic, 0, &user.to_string(), user), Ok(true));
        world.run();
    }
    assert_eq!(world.held.len(), 2);
    // The refusal makes a new epoch; then the first batch of partition 0 has to be repeated.
    let first_of_0 = world.held.split_off(1);
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(10), Act::Code(19)]);
    world.release();
    world.held.splice(..0, first_of_0);
    world.hold.clear();
    world.release();
    world.advance(1000 * MS);
    assert_eq!(world.cluster.part("t", 0).values(), ["-", "2", "3"]);
    let outcomes = world.outcomes();
    assert_eq!(outcomes[0], (vec![1], NotPersisted, Some(Error::Kafka(10)), -1));
    assert!(outcomes[1..].iter().all(|o| o.1 == Persisted), "{outcomes:?}");
    let of_0: Vec<_> = batches(&world).into_iter().filter(|b| b.0 == 0).map(|b| b.2).collect();
    assert_eq!(of_0, [0, 0, 0, 1], "the old epoch's batch first");
}

#[test]
fn while_there_is_no_id_nothing_goes_out_without_numbers() {
    let brokers = [(1, "10.0.0.1:9092"), (2, "10.0.0.2:9092")];
    let mut world = World::with(Setup { brokers: &brokers, ..Setup::default() });
    world.cluster.first_epoch = i16::MAX - 1;
    world.cluster.add_topic("t", &[1, 2]);
    let topic = world.topic("t");
    let one = ("max.in.flight.requests.per.connection", "1");
    let producer = world.producer(&[("linger.ms", "0"), one]);
    for partition in 0..2 {
        assert_eq!(world.produce(producer, topic, partition, "-", 9), Ok(true));
    }
    world.run();
    world.outcomes();
    // A batch of partition 0 has to be repeated, and its broker comes back without Produce: the
    // batch fails for good, and takes the last epoch with it.
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(19)]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    world.hang_up(1);
    world.hold.extend([0, 3, 18]);
    world.cluster.versions.retain(|versions| versions.0 != 0);
    for user in 2..4 {
        assert_eq!(world.produce(producer, topic, 1, &user.to_string(), user), Ok(true));
        world.run();
    }
    world.advance(1000 * MS);
    // At the same moment there is room for the next batch of partition 1.
    world.hold.clear();
    world.release();
    world.advance(1000 * MS);
    assert!(world.cluster.count(ApiKey::INIT_PRODUCER_ID) > 1);
    let outcomes = world.outcomes();
    assert_eq!(outcomes.iter().filter(|o| o.1 == Persisted).count(), 2, "{outcomes:?}");
    for request in world.cluster.seen.iter().filter(|r| r.key == ApiKey::PRODUCE) {
        let message = ProduceRequest::decode(&request.body, request.version).unwrap();
        for data in message.topic_data.iter().flat_map(|t| t.partition_data) {
            assert!(BatchView::parse(data.records.unwrap()).unwrap().producer_id() >= 0);
        }
    }
}

#[test]
fn a_new_id_waits_for_what_is_out_under_the_old_one() {
    let brokers = [(1, "10.0.0.1:9092"), (2, "10.0.0.2:9092")];
    let mut world = World::with(Setup { brokers: &brokers, ..Setup::default() });
    world.cluster.first_epoch = i16::MAX - 1;
    world.cluster.add_topic("t", &[1, 2]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0")]);
    for partition in 0..2 {
        assert_eq!(world.produce(producer, topic, partition, "-", 9), Ok(true));
    }
    world.run();
    world.outcomes();
    world.hold.insert(0);
    for user in 1..3 {
        assert_eq!(world.produce(producer, topic, 0, &user.to_string(), user), Ok(true));
        world.run();
    }
    // The first is refused, which uses up the last epoch; the second's answer takes its time, and
    // the partition goes to the other broker.
    let second = world.held.split_off(1);
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(10)]);
    world.hold.clear();
    world.release();
    world.cluster.part("t", 0).leader = 2;
    world.cluster.part("t", 0).epoch = 2;
    world.client.refresh.need();
    world.advance(1000 * MS);
    assert_eq!(world.cluster.count(ApiKey::INIT_PRODUCER_ID), 2);
    assert_eq!(world.produce(producer, topic, 0, "3", 3), Ok(true));
    world.run();
    world.held = second;
    world.cluster.plan(ApiKey::PRODUCE, [Act::Code(6)]);
    world.release();
    world.advance(1000 * MS);
    assert_eq!(world.cluster.part("t", 0).values(), ["-", "2", "3"]);
}
