//! Metadata: unknown topics, refusals, leaders, epochs, age, backoff.

use super::cluster::Act;
use super::world::{MS, Setup, World};
use crate::client::ClientEvent;
use crate::error::Error;
use crate::protocol::ApiKey;
use crate::protocol::declare::Message;
use crate::protocol::messages::MetadataRequest;

fn asked(world: &World, i: usize) -> (Vec<String>, bool) {
    let requests = world.cluster.seen.iter().filter(|r| r.key == ApiKey::METADATA);
    let request = requests.collect::<Vec<_>>()[i];
    let message = MetadataRequest::decode(&request.body, request.version).unwrap();
    let names = message.topics.iter().flatten().filter_map(|t| t.name).map(str::to_owned);
    (names.collect(), message.allow_auto_topic_creation)
}

#[test]
fn a_new_topic_is_asked_for_at_once_and_alone() {
    let mut world = World::new();
    world.cluster.add_topic("a", &[1]);
    world.cluster.add_topic("b", &[1]);
    world.topic("a");
    world.advance(300 * MS);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 1);
    world.topic("b");
    assert_eq!(world.cluster.count(ApiKey::METADATA), 2, "no backoff for a new name");
    assert_eq!(asked(&world, 1), (vec!["b".to_owned()], true));
    let id = world.client.topic("a").unwrap();
    assert_eq!(world.client.topic_name(id), Some("a"));
    world.run();
    assert_eq!(world.cluster.count(ApiKey::METADATA), 2);
}

#[test]
fn names_that_cannot_be_topics_are_refused() {
    let mut world = World::new();
    let long = "x".repeat(250);
    for bad in ["", ".", "..", "a b", "a/b", "ä", &long] {
        assert!(matches!(world.client.topic(bad), Err(Error::Invalid(_))), "{bad}");
    }
    for i in 0..8 {
        world.client.topic(&format!("t{i}")).unwrap();
    }
    assert!(matches!(world.client.topic("one-too-many"), Err(Error::Exhausted(_))));
    world.client.topic("t3").unwrap();
}

#[test]
fn records_for_an_unknown_topic_wait_for_its_creation() {
    let mut world = World::new();
    let topic = world.topic("late");
    let producer = world.producer(&[("linger.ms", "0")]);
    assert_eq!(world.produce(producer, topic, None, "a", 1), Ok(false));
    assert_eq!(world.produce(producer, topic, None, "a", 1), Ok(false));
    world.advance(500 * MS);
    // Each answer may be the news that the host waits for.
    assert!(world.writables() <= 1);
    assert_eq!(world.produce(producer, topic, None, "a", 1), Ok(false));
    world.cluster.add_topic("late", &[1, 1]);
    world.advance(1200 * MS);
    assert_eq!(world.writables(), 1);
    assert_eq!(world.produce(producer, topic, None, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes().len(), 1);
}

#[test]
fn asking_for_a_missing_topic_slows_down() {
    let mut world = World::new();
    world.topic("missing");
    world.advance(10_000 * MS);
    let count = world.cluster.count(ApiKey::METADATA);
    assert!((10..=18).contains(&count), "100, 200, 400, 800, then 1000 ms: {count}");
}

#[test]
fn a_topic_that_stays_missing_is_refused_after_max_block() {
    let mut world = World::new();
    let topic = world.topic("missing");
    let producer = world.producer(&[("max.block.ms", "5000")]);
    assert_eq!(world.produce(producer, topic, None, "a", 1), Ok(false));
    world.advance(4000 * MS);
    assert_eq!(world.produce(producer, topic, None, "a", 1), Ok(false));
    world.advance(3000 * MS);
    assert!(world.writables() >= 1, "so that the host tries and learns it");
    assert_eq!(world.produce(producer, topic, None, "a", 1), Err(Error::Kafka(3)));
    world.cluster.add_topic("missing", &[1]);
    world.advance(1500 * MS);
    assert_eq!(world.produce(producer, topic, None, "a", 1), Ok(true));
}

#[test]
fn a_topic_that_is_not_permitted_is_refused_until_it_is() {
    let mut world = World::new();
    world.cluster.add_topic("secret", &[1]);
    world.cluster.topics.get_mut("secret").unwrap().code = 29;
    let topic = world.topic("secret");
    let producer = world.producer(&[]);
    assert_eq!(world.produce(producer, topic, None, "a", 1), Err(Error::Kafka(29)));
    let consumer = world.consumer(&[]);
    world.client.assign(consumer, &[(topic, 0, 0)]).unwrap();
    world.run();
    assert_eq!(world.failures(), [(Error::Kafka(29), 0, 0)]);
    world.cluster.topics.get_mut("secret").unwrap().code = 0;
    world.advance(300_100 * MS);
    assert_eq!(world.produce(producer, topic, None, "a", 1), Ok(true));
}

#[test]
fn old_metadata_is_renewed_and_all_topics_are_asked_for() {
    let mut world =
        World::with(Setup { client: &[("metadata.max.age.ms", "60000")], ..Setup::default() });
    world.cluster.add_topic("a", &[1]);
    world.cluster.add_topic("b", &[1]);
    world.topic("a");
    world.topic("b");
    let before = world.cluster.count(ApiKey::METADATA);
    world.advance(59_000 * MS);
    assert_eq!(world.cluster.count(ApiKey::METADATA), before);
    world.advance(1_000 * MS);
    assert_eq!(world.cluster.count(ApiKey::METADATA), before + 1);
    assert_eq!(asked(&world, before).0, ["a", "b"]);
}

#[test]
fn creation_is_asked_for_only_if_the_host_wants_it() {
    let client = [("allow.auto.create.topics", "false")];
    let mut world = World::with(Setup { client: &client, ..Setup::default() });
    world.cluster.auto_create = 1;
    world.topic("t");
    assert!(!world.cluster.topics.contains_key("t"));
    assert!(!asked(&world, 0).1);
    let mut world = World::new();
    world.cluster.auto_create = 3;
    let topic = world.topic("t");
    let producer = world.producer(&[]);
    assert_eq!(world.produce(producer, topic, 2, "a", 1), Ok(true));
}

#[test]
fn a_broker_that_knows_no_broker_changes_nothing() {
    let mut world = World::new();
    world.cluster.add_topic("t", &[1]);
    let topic = world.topic("t");
    let brokers = core::mem::take(&mut world.cluster.brokers);
    world.client.refresh.need();
    world.advance(150 * MS);
    world.cluster.brokers = brokers;
    let producer = world.producer(&[("linger.ms", "0")]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes().len(), 1);
}

#[test]
fn a_malformed_answer_ends_the_connection() {
    let mut world = World::new();
    world.cluster.plan(ApiKey::METADATA, [Act::Body(vec![0; 7])]);
    world.run();
    assert_eq!(world.net.closed.len(), 1);
    world.advance(400 * MS);
    assert_eq!(world.take(|e| matches!(e, ClientEvent::Ready { .. })).len(), 1);
}

#[test]
fn an_older_epoch_does_not_bring_an_old_leader_back() {
    let brokers = [(1, "10.0.0.1:9092"), (2, "10.0.0.2:9092")];
    let mut world = World::with(Setup { brokers: &brokers, ..Setup::default() });
    world.cluster.add_topic("t", &[2]);
    world.cluster.part("t", 0).epoch = 5;
    let topic = world.topic("t");
    let part = world.client.metadata.part(topic, 0).unwrap();
    let leader = world.client.metadata.leader(part);
    assert!(leader.is_some());
    world.cluster.part("t", 0).epoch = 4;
    world.cluster.part("t", 0).leader = 1;
    world.client.refresh.need();
    world.advance(200 * MS);
    assert_eq!(world.client.metadata.leader(part), leader);
    assert_eq!(world.client.metadata.epoch(part), 5);
    world.cluster.part("t", 0).epoch = 6;
    world.client.refresh.need();
    world.advance(400 * MS);
    assert_ne!(world.client.metadata.leader(part), leader);
}

#[test]
fn a_topic_that_grows_keeps_the_numbers_of_its_partitions() {
    let mut world = World::new();
    world.cluster.add_topic("a", &[1, 1]);
    world.cluster.add_topic("b", &[1]);
    let a = world.topic("a");
    let b = world.topic("b");
    let before = (world.client.metadata.part(a, 1), world.client.metadata.part(b, 0));
    assert_eq!(world.client.metadata.part(a, 2), None);
    world.cluster.add_topic("a", &[1, 1, 1, 1]);
    world.client.refresh.need();
    world.advance(300 * MS);
    assert_eq!((world.client.metadata.part(a, 1), world.client.metadata.part(b, 0)), before);
    let all: Vec<_> = (0..4).map(|p| world.client.metadata.part(a, p).unwrap()).collect();
    assert_eq!(all, [0, 1, 3, 4]);
    world.cluster.add_topic("a", &[1; 64]);
    world.client.refresh.need();
    world.advance(300 * MS);
    assert_eq!(world.client.metadata.count(a), 31, "as many as max_partitions leaves");
}

#[test]
fn a_topic_without_partitions_is_not_known_yet() {
    let mut world = World::new();
    world.cluster.add_topic("t", &[]);
    let topic = world.topic("t");
    let producer = world.producer(&[]);
    assert_eq!(world.produce(producer, topic, None, "a", 1), Ok(false));
    world.cluster.add_topic("t", &[1]);
    world.advance(1200 * MS);
    assert_eq!(world.writables(), 1);
    assert_eq!(world.produce(producer, topic, None, "a", 1), Ok(true));
}
