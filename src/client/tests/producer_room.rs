//! Producers: flush, close, and what happens when there is no room.

use super::producer::with;
use super::world::{MS, Setup, World};
use crate::client::Outcome::{MaybePersisted, Persisted};
use crate::client::{ClientEvent, ClientLimits};
use crate::error::Error;

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
fn every_flush_is_told_before_the_end() {
    let (mut world, topic, producer) = with(&[("linger.ms", "10000")]);
    world.keep_events = true;
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    (1..4).for_each(|user| world.client.flush(producer, user).unwrap());
    world.run();
    world.client.close(&mut world.net, core::time::Duration::ZERO, world.now);
    // It is over and its end was not taken: that is still a flush with an event.
    world.client.flush(producer, 4).unwrap();
    world.keep_events = false;
    world.run();
    assert_eq!(world.outcomes(), [(vec![1], Persisted, None, 0)]);
    let told = |event: &ClientEvent| match event {
        ClientEvent::Flushed { user, owner: 100 } => *user,
        ClientEvent::Closed { owner } => *owner,
        other => panic!("{other:?}"),
    };
    assert_eq!(world.events.iter().map(told).collect::<Vec<_>>(), [1, 2, 3, 4, 100, 7]);
    assert!(!world.client.has_events(), "nothing follows");
}
