//! Connections: first contact, versions, backoff, timeouts, throttling, nodes that move.

use super::cluster::{Act, Cluster};
use super::world::{MS, Setup, World};
use crate::client::{ClientEvent, ConsumerConfig, Outcome};
use crate::error::Error;
use crate::net::{CloseReason, SendRefused};
use crate::properties::Properties;
use crate::protocol::ApiKey;
use crate::time::Instant;

fn versions_asked(cluster: &Cluster) -> Vec<i16> {
    let asked = cluster.seen.iter().filter(|request| request.key == ApiKey::API_VERSIONS);
    asked.map(|request| request.version).collect()
}

#[test]
fn first_contact_asks_versions_then_metadata() {
    let mut world = World::new();
    assert!(world.client.wants_turn());
    world.run();
    let keys: Vec<i16> = world.cluster.seen.iter().map(|request| request.key.0).collect();
    assert_eq!(keys, [18, 3]);
    assert_eq!(versions_asked(&world.cluster), [4]);
    assert_eq!(world.take(|e| matches!(e, ClientEvent::Ready { owner: 7 })).len(), 1);
    // The bootstrap server is node 1: one connection serves both.
    assert_eq!(world.net.open().len(), 1);
    assert_eq!(world.net.connects.len(), 1);
    let stats = world.client.stats();
    assert_eq!((stats.connections, stats.requests, stats.answers), (1, 2, 2));
}

#[test]
fn an_older_broker_is_asked_again_in_its_version() {
    let mut world = World::new();
    world.cluster.versions.retain(|api| api.0 != 18);
    world.cluster.versions.push((18, 0, 2));
    world.run();
    assert_eq!(versions_asked(&world.cluster), [4, 2]);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 1);
}

#[test]
fn a_broker_that_does_not_list_api_versions_is_asked_in_version_0() {
    let mut world = World::new();
    world.cluster.versions.retain(|api| api.0 != 18);
    world.run();
    assert_eq!(versions_asked(&world.cluster), [4, 0]);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 1);
}

#[test]
fn a_broker_that_refuses_twice_is_left_alone_for_a_while() {
    let mut world = World::new();
    world.cluster.plan(ApiKey::API_VERSIONS, [Act::Code(35), Act::Code(35)]);
    world.run();
    assert_eq!(world.net.closed.len(), 1);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 0);
    world.advance(100 * MS);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 1);
}

#[test]
fn a_code_in_the_answer_about_versions_ends_the_connection() {
    let mut world = World::new();
    world.cluster.plan(ApiKey::API_VERSIONS, [Act::Code(42), Act::Body(vec![1, 2, 3])]);
    world.run();
    assert_eq!(world.net.closed.len(), 1);
    world.advance(70 * MS);
    assert_eq!(world.net.closed.len(), 2, "a body that is none");
    world.advance(200 * MS);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 1);
}

#[test]
fn backoff_doubles_up_to_its_maximum_and_ready_ends_it() {
    let mut world = World::new();
    let broker = world.cluster.brokers[&1];
    world.down.insert(broker);
    let mut tries: Vec<Instant> = Vec::new();
    world.run();
    for _ in 0..4000 {
        let before = world.net.connects.len();
        world.advance(MS);
        if world.net.connects.len() > before {
            assert_eq!(world.net.connects.len(), before + 1);
            tries.push(world.now.at);
        }
    }
    let gaps: Vec<u128> = tries.windows(2).map(|w| w[1].since(w[0]).as_millis()).collect();
    for (gap, middle) in gaps.iter().zip([100u128, 200, 400, 800, 1000, 1000]) {
        let low = middle * 8 / 10;
        assert!((low..=(middle * 12 / 10 + 1).min(1001)).contains(gap), "{gaps:?}");
    }
    world.revive(1);
    world.advance(1100 * MS);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 1);
    // Ready again: the next loss starts from the beginning.
    world.hang_up(1);
    let before = world.net.connects.len();
    world.advance(160 * MS);
    assert!(world.net.connects.len() > before, "{:?}", world.log.lock());
}

#[test]
fn a_connect_that_takes_too_long_is_given_up_and_the_next_gets_twice_the_time() {
    let mut world = World::new();
    let broker = world.cluster.brokers[&1];
    world.deaf.insert(broker);
    world.run();
    assert_eq!(world.net.connects.len(), 1);
    world.advance(7900 * MS);
    assert_eq!(world.net.closed.len(), 0);
    world.advance(4200 * MS);
    assert_eq!(world.net.closed.len(), 1);
    world.advance(15_000 * MS);
    assert_eq!(world.net.closed.len(), 1, "the second try has at least 16 seconds");
    world.advance(10_000 * MS);
    assert_eq!(world.net.closed.len(), 2);
    assert!(world.logged("the connect took too long"));
}

#[test]
fn an_answer_to_another_request_ends_the_connection() {
    let mut world = World::new();
    world.cluster.plan(ApiKey::METADATA, [Act::Correlation(1)]);
    world.run();
    assert_eq!(world.net.closed.len(), 1);
    assert!(world.logged("another request"));
    world.advance(300 * MS);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 2);
    assert_eq!(world.take(|e| matches!(e, ClientEvent::Ready { .. })).len(), 1);
}

#[test]
fn a_request_out_of_time_ends_the_connection_and_is_tried_again() {
    let mut world =
        World::with(Setup { client: &[("request.timeout.ms", "1000")], ..Setup::default() });
    world.cluster.plan(ApiKey::METADATA, [Act::Silence]);
    world.advance(1000 * MS);
    assert_eq!(world.net.closed.len(), 1);
    assert_eq!(world.client.stats().request_timeouts, 1);
    world.advance(400 * MS);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 2);
    assert_eq!(world.take(|e| matches!(e, ClientEvent::Ready { .. })).len(), 1);
}

#[test]
fn an_idle_close_is_no_failure() {
    let mut world = World::new();
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let (conn, _) = world.net.open()[0];
    world.net.end(conn, CloseReason::Idle);
    world.run();
    let metadata = world.cluster.count(ApiKey::METADATA);
    world.advance(10_000 * MS);
    assert_eq!(world.net.open().len(), 0, "nobody needs it");
    assert_eq!(world.cluster.count(ApiKey::METADATA), metadata);
    // And when somebody does, there is no backoff.
    let producer = world.producer(&[("linger.ms", "0")]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes().len(), 1);
}

#[test]
fn a_lost_connection_makes_metadata_due() {
    let mut world = World::new();
    world.run();
    world.hang_up(1);
    world.advance(1000 * MS);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 2);
}

#[test]
fn a_throttled_node_gets_nothing_until_its_time_is_over() {
    let mut world = World::new();
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0")]);
    world.cluster.throttle_ms = 500;
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 1);
    world.cluster.throttle_ms = 0;
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Ok(true));
    world.advance(499 * MS);
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 1);
    world.advance(MS);
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 2);
    assert_eq!(world.outcomes().len(), 2);
}

#[test]
fn an_old_brokers_throttle_time_is_over_already() {
    let mut world = World::new();
    world.cluster.versions[0] = (0, 3, 5);
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0")]);
    world.cluster.throttle_ms = 500;
    for user in 0..2 {
        assert_eq!(world.produce(producer, topic, 0, "a", user), Ok(true));
        world.run();
    }
    assert_eq!(world.cluster.count(ApiKey::PRODUCE), 2);
}

#[test]
fn a_node_that_moves_is_connected_to_at_its_new_place() {
    let mut world = World::new();
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let moved = "10.0.0.9:9092".parse().unwrap();
    world.cluster.brokers.insert(1, moved);
    world.client.refresh.need();
    // The old place still answers this one question.
    world.hold.insert(3);
    world.advance(200 * MS);
    world.hold.clear();
    world.release();
    assert_eq!(world.net.closed.len(), 1);
    let producer = world.producer(&[("linger.ms", "0")]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert!(world.net.open().iter().all(|(_, to)| *to == moved));
    assert_eq!(world.outcomes().len(), 1);
}

#[test]
fn a_node_that_leaves_is_let_go() {
    let brokers = [(1, "10.0.0.1:9092"), (2, "10.0.0.2:9092")];
    let mut world = World::with(Setup { brokers: &brokers, ..Setup::default() });
    world.cluster.add_topic("t", &[2]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0")]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes().len(), 1);
    world.cluster.brokers.remove(&2);
    world.cluster.part("t", 0).leader = 1;
    world.cluster.part("t", 0).epoch = 2;
    world.client.refresh.need();
    world.advance(200 * MS);
    assert!(world.net.open().iter().all(|(_, to)| to.to_string() == "10.0.0.1:9092"));
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Ok(true));
    world.run();
    assert_eq!(world.outcomes().len(), 1);
}

#[test]
fn an_advertised_host_that_cannot_be_resolved_is_said_and_survived() {
    let mut world = World::new();
    world.cluster.brokers.insert(2, "10.0.0.2:9092".parse().unwrap());
    world.cluster.hosts.insert(2, "nowhere.invalid".to_owned());
    world.cluster.add_topic("t", &[2]);
    let topic = world.topic("t");
    let config = [("linger.ms", "0"), ("delivery.timeout.ms", "60000")];
    let producer = world.producer(&config);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.advance(60_000 * MS);
    assert!(
        world.logged("node 2: its host nowhere.invalid cannot be resolved: there is no such name")
    );
    let outcomes = world.outcomes();
    assert_eq!(outcomes[0].1, Outcome::NotPersisted);
    assert_eq!(outcomes[0].2, Some(Error::Timeout));
    // It is told once, not with every attempt.
    let gone = Error::Resolve("there is no such name");
    assert_eq!(world.failures(), [(gone, -1, -1)]);
}

#[test]
fn when_every_known_node_is_gone_the_bootstrap_list_is_a_second_chance() {
    let mut world = World::new();
    let elsewhere = "10.0.0.5:9092".parse().unwrap();
    world.cluster.brokers.insert(1, elsewhere);
    // The bootstrap server is a door that leads to node 1, which is elsewhere.
    world.cluster.brokers.insert(99, "10.0.0.1:9092".parse().unwrap());
    world.run();
    world.cluster.brokers.remove(&99);
    world.client.refresh.need();
    world.advance(300 * MS);
    assert!(world.net.open().iter().all(|(_, to)| *to == elsewhere));
    world.kill(1);
    world.cluster.brokers.insert(99, "10.0.0.1:9092".parse().unwrap());
    let before = world.cluster.count(ApiKey::METADATA);
    world.client.refresh.need();
    world.advance(2000 * MS);
    assert!(world.cluster.count(ApiKey::METADATA) > before);
}

#[test]
fn no_memory_for_a_request_is_waited_out() {
    let mut world = World::new();
    world.net.refuse = Some(SendRefused::NoMemory);
    world.advance(1000 * MS);
    assert_eq!(world.cluster.seen.len(), 0);
    world.net.refuse = None;
    world.advance(20 * MS);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 1);
}

#[test]
fn a_broker_that_serves_no_version_of_produce_refuses_what_is_for_it() {
    let mut world = World::new();
    world.cluster.versions[0] = (0, 13, 20);
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0"), ("enable.idempotence", "false")]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    let outcomes = world.outcomes();
    assert_eq!((outcomes[0].1, outcomes[0].2), (Outcome::NotPersisted, Some(Error::Kafka(35))));
}

#[test]
fn closing_ends_everything_in_order() {
    let mut world = World::new();
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "10000")]);
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
    world.client.request(-1, 60, 0, b"", 5, world.now).unwrap();
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    world.events.clear();
    world.client.request(77, 60, 0, b"", 6, world.now).unwrap();
    world.client.close(&mut world.net, 1000 * MS, world.now);
    let config = ConsumerConfig::from_properties(Properties::new([])).unwrap();
    assert_eq!(world.client.add_consumer(config, 9), Err(Error::Closed));
    assert_eq!(world.produce(producer, topic, 0, "b", 2), Err(Error::Closed));
    world.run();
    let kinds: Vec<u64> = world
        .events
        .iter()
        .map(|event| match event {
            ClientEvent::Reply { user: 6, body: Err(Error::Closed), .. } => 6,
            ClientEvent::Delivered { outcome: Outcome::Persisted, .. } => 1,
            ClientEvent::Closed { owner } => *owner,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [6, 200, 1, 100, 7]);
    assert_eq!(world.net.open().len(), 0);
    assert!(!world.client.has_events() && world.client.next_deadline().is_none());
}

#[test]
fn closing_without_grace_leaves_nothing_open() {
    let mut world = World::new();
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "10000")]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.client.close(&mut world.net, core::time::Duration::ZERO, world.now);
    assert_eq!(world.net.open().len(), 0);
    world.run();
    let outcomes = world.outcomes();
    assert_eq!((outcomes[0].1, outcomes[0].2), (Outcome::NotPersisted, Some(Error::Closed)));
    assert_eq!(world.take(|e| matches!(e, ClientEvent::Closed { .. })).len(), 2);
}

/// A client that was closed while it connected, with a producer whose end was not told yet, opens nothing
/// again.
#[test]
fn a_client_closed_while_it_connects_stays_closed() {
    let mut world = World::new();
    let _producer = world.producer(&[]);
    world.client.turn(&mut world.net, world.now);
    assert!(!world.net.open().is_empty(), "it connects");
    world.client.close(&mut world.net, core::time::Duration::ZERO, world.now);
    world.advance(5000 * MS);
    assert_eq!(world.net.open(), []);
    world.client.turn(&mut world.net, world.now);
    assert_eq!(world.net.open(), []);
    assert!(world.client.next_deadline().is_none());
}
