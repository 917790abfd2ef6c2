//! Names of brokers: when a name server is asked, and what becomes of what it says.

use super::cluster::Act;
use super::world::{MS, Setup, World};
use super::zone::Manner;
use crate::client::random::Random;
use crate::client::{ClientEvent, ClientLimits};
use crate::error::Error;
use crate::protocol::ApiKey;

const NAMED: Setup<'static> = Setup {
    brokers: &[(1, "10.0.0.1:9092")],
    client: &[],
    limits: ClientLimits {
        max_nodes: 8,
        max_topics: 8,
        max_partitions: 32,
        max_in_flight: 16,
        max_batches: 32,
        max_producers: 2,
        max_consumers: 2,
        max_assigned: 8,
        max_requests: 4,
    },
    shared: 8 << 20,
    memory_limit: None,
    bootstrap: "kafka.test:9092",
};

/// A client that knows `kafka.test`, whose broker calls itself so too.
fn named() -> World {
    let mut world = World::with(NAMED);
    world.cluster.hosts.insert(1, "kafka.test".to_owned());
    world.name("kafka.test", &["10.0.0.1"]);
    world
}

fn ready(world: &mut World) -> usize {
    world.take(|event| matches!(event, ClientEvent::Ready { .. })).len()
}

fn connects(world: &World) -> Vec<String> {
    world.net.connects.iter().map(|at| at.ip().to_string()).collect()
}

#[test]
fn a_bootstrap_name_is_resolved_and_serves_as_the_node_it_is() {
    let mut world = named();
    world.run();
    assert_eq!(ready(&mut world), 1);
    assert_eq!((world.asked("kafka.test"), world.net.asked), (1, 2), "one question a family");
    assert_eq!(world.net.open().len(), 1);
    assert!(world.net.exchanges.is_empty(), "no socket is kept");
    assert!(world.failures().is_empty());
}

#[test]
fn an_advertised_name_is_resolved_when_it_is_needed() {
    let mut world = World::new();
    world.cluster.brokers.insert(2, "10.0.0.2:9092".parse().unwrap());
    world.cluster.hosts.insert(2, "b2.test".to_owned());
    world.name("b2.test", &["10.0.0.2"]);
    world.cluster.add_topic("t", &[2]);
    let topic = world.topic("t");
    assert_eq!(world.asked("b2.test"), 0);
    let producer = world.producer(&[("linger.ms", "0"), ("enable.idempotence", "false")]);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.run();
    assert_eq!(world.outcomes().len(), 1);
    assert_eq!(world.asked("b2.test"), 1);
}

/// G14 and C5: after the last address the list is dropped, so each round asks again.
#[test]
fn an_address_that_fails_is_asked_for_anew_and_a_new_one_is_used() {
    let mut world = named();
    world.kill(1);
    world.advance(3000 * MS);
    let rounds = world.net.connects.len();
    assert!(rounds >= 3);
    assert_eq!(world.asked("kafka.test"), rounds, "one lookup a round");
    world.cluster.brokers.insert(1, "10.0.0.7:9092".parse().unwrap());
    world.name("kafka.test", &["10.0.0.7"]);
    world.advance(1300 * MS);
    assert_eq!(ready(&mut world), 1);
    assert_eq!(connects(&world).last().map(String::as_str), Some("10.0.0.7"));
}

/// G15: a lost connection drops the list; two lookups over one change of address.
#[test]
fn a_lost_connection_asks_anew() {
    let mut world = named();
    world.run();
    assert_eq!(world.asked("kafka.test"), 1);
    world.kill(1);
    world.cluster.brokers.insert(1, "10.0.0.7:9092".parse().unwrap());
    world.name("kafka.test", &["10.0.0.7"]);
    world.advance(1000 * MS);
    assert_eq!(world.asked("kafka.test"), 2);
    assert_eq!(connects(&world), ["10.0.0.1", "10.0.0.7"]);
    assert_eq!(world.cluster.count(ApiKey::METADATA), 2);
}

/// G16: the address just lost is not the first one tried again, if there are others.
#[test]
fn the_address_just_lost_is_not_tried_first() {
    let mut world = named();
    world.name("kafka.test", &["10.0.0.1", "10.0.0.2"]);
    world.run();
    assert_eq!(connects(&world), ["10.0.0.1"]);
    world.hang_up(1);
    world.cluster.brokers.insert(1, "10.0.0.2:9092".parse().unwrap());
    world.advance(1000 * MS);
    assert_eq!(connects(&world), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(world.asked("kafka.test"), 2);
}

/// A broker that takes connections and never answers does not keep the client from the others.
#[test]
fn a_mute_broker_behind_a_dead_one_is_left_for_the_third() {
    let mut world = named();
    world.cluster.brokers.insert(2, "10.0.0.2:9092".parse().unwrap());
    world.name("kafka.test", &["10.0.0.9", "10.0.0.2", "10.0.0.1"]);
    world.cluster.plan(ApiKey::API_VERSIONS, [Act::Silence]);
    world.advance(31_000 * MS);
    assert_eq!(connects(&world), ["10.0.0.9", "10.0.0.2", "10.0.0.1"]);
    assert_eq!(ready(&mut world), 1);
}

/// G18: another host under the same id starts clean, and a lookup for the old one is forgotten.
#[test]
fn a_node_that_moves_to_another_name_starts_clean() {
    let mut world = named();
    world.cluster.brokers.insert(2, "10.0.0.2:9092".parse().unwrap());
    world.cluster.hosts.insert(2, "old.test".to_owned());
    world.cluster.add_topic("t", &[2]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0"), ("enable.idempotence", "false")]);
    world.zones.iter_mut().for_each(|zone| zone.manner = Manner::Silent);
    assert_eq!(world.produce(producer, topic, 0, "a", 1), Ok(true));
    world.advance(1000 * MS);
    assert_eq!(world.net.exchanges.len(), 2, "old.test is being asked for");
    world.zones.iter_mut().for_each(|zone| zone.manner = Manner::Honest);
    world.name("new.test", &["10.0.0.2"]);
    world.cluster.hosts.insert(2, "new.test".to_owned());
    world.client.refresh.need();
    world.advance(200 * MS);
    assert_eq!(world.outcomes().len(), 1);
    assert!(world.net.exchanges.is_empty());
    assert_eq!((world.asked("old.test"), world.asked("new.test")), (1, 1));
}

/// G19: a name that cannot be resolved is a failed connect: backoff, growth, and it is said.
#[test]
fn a_name_that_cannot_be_resolved_is_a_failed_connect() {
    let mut world = World::with(NAMED);
    world.run();
    let gone = Error::Resolve("there is no such name");
    assert_eq!(world.failures(), [(gone, -1, -1)]);
    assert!(world.logged("its host kafka.test cannot be resolved: there is no such name"));
    assert!(world.net.connects.is_empty());
    let mut tries = vec![];
    for _ in 0..4000 {
        let before = world.asked("kafka.test");
        world.advance(MS);
        if world.asked("kafka.test") > before {
            tries.push(world.now.at);
        }
    }
    let gaps: Vec<u128> = tries.windows(2).map(|w| w[1].since(w[0]).as_millis()).collect();
    for (gap, middle) in gaps.iter().zip([100u128, 200, 400, 800, 1000]) {
        assert!((middle * 8 / 10..=middle * 12 / 10 + 1).contains(gap), "{gaps:?}");
    }
    assert!(world.failures().is_empty(), "it is told once");
    world.name("kafka.test", &["10.0.0.1"]);
    world.cluster.hosts.insert(1, "kafka.test".to_owned());
    world.advance(1300 * MS);
    assert_eq!(ready(&mut world), 1);
}

#[test]
fn the_reason_is_the_right_one() {
    for (manner, names, why) in [
        (Manner::Honest, vec![], "there is no such name"),
        (Manner::Honest, vec!["10.9.9.9"], "the name has no address"),
        (Manner::Silent, vec![], "no name server answered in time"),
        (Manner::Code(5), vec![], "every name server refused or failed"),
        (Manner::WrongId, vec!["10.0.0.1"], "no name server answered in time"),
    ] {
        let mut world = World::with(NAMED);
        let shown = if why.contains("has no") { &names[..0] } else { &names[..] };
        if !names.is_empty() {
            world.name("kafka.test", shown);
        }
        world.zones.iter_mut().for_each(|zone| zone.manner = manner);
        world.advance(31_000 * MS);
        assert_eq!(world.failures(), [(Error::Resolve(why), -1, -1)], "{manner:?}");
        assert!(world.logged(why));
    }
}

/// Nobody listens where the name servers are, or nobody answers: one wake-up an attempt, no spinning.
#[test]
fn dead_name_servers_cost_one_wake_up_an_attempt() {
    let mut world = World::with(NAMED);
    world.no_name_servers = true;
    world.advance(10_000 * MS);
    let (asked, mut wakes) = (world.net.asked, 0);
    let end = world.now.at.after(10_000 * MS);
    while let Some(at) = world.client.next_deadline().filter(|at| *at <= end) {
        let passed = at.since(world.now.at);
        world.advance(passed);
        wakes += 1;
    }
    // Each attempt asks both servers for both families, and comes again after about a second.
    let attempts = (world.net.asked - asked) / 4;
    assert!((8..=13).contains(&attempts), "{attempts} attempts");
    assert_eq!(wakes, attempts);
    assert!(world.failures().iter().all(|(error, ..)| matches!(error, Error::Resolve(_))));
}

#[test]
fn a_system_without_sockets_for_questions_is_said() {
    let mut world = World::with(NAMED);
    world.net.refuse_asking = true;
    world.advance(1000 * MS);
    let refused = Error::Resolve("every name server refused or failed");
    assert_eq!(world.failures(), [(refused, -1, -1)]);
    assert!(world.logged("name server 10.0.0.53:53: "));
}

#[test]
fn a_server_that_fails_makes_the_next_ones_turn_and_is_not_first_the_next_time() {
    let mut world = named();
    world.zones[0].manner = Manner::Silent;
    world.run();
    assert_eq!(ready(&mut world), 0);
    world.advance(5000 * MS);
    assert_eq!(ready(&mut world), 1);
    assert_eq!(world.zones.each_ref().map(|zone| zone.seen.len()), [2, 2]);
    world.hang_up(1);
    world.advance(1000 * MS);
    assert_eq!(world.zones.each_ref().map(|zone| zone.seen.len()), [2, 4]);
    assert_eq!(world.net.connects.len(), 2);
}

/// A second connection to a node uses its addresses, until their time is over.
#[test]
fn addresses_hold_for_their_time() {
    for (after, lookups) in [(9000, 1), (11_000, 2)] {
        let mut world = named();
        world.zones.iter_mut().for_each(|zone| zone.ttl = 10);
        world.advance(after * MS);
        world.hold.insert(11);
        world.client.request(1, 11, 0, b"", 5, world.now).unwrap();
        world.run();
        assert_eq!((world.net.connects.len(), world.asked("kafka.test")), (2, lookups));
    }
}

#[test]
fn more_names_than_places_wait_in_line() {
    let hosts = "a.test:1,b.test:1,c.test:1,d.test:1,e.test:1,f.test:1,kafka.test:9092";
    let mut world = World::with(Setup { bootstrap: hosts, ..NAMED });
    world.name("kafka.test", &["10.0.0.1"]);
    world.cluster.hosts.insert(1, "kafka.test".to_owned());
    for name in ["a.test", "b.test", "c.test", "d.test", "e.test", "f.test"] {
        world.name(name, &["10.0.9.9"]);
    }
    world.advance(60_000 * MS);
    assert_eq!(ready(&mut world), 1);
    assert!(world.net.exchanges.is_empty());
}

#[test]
fn closing_while_names_are_asked_for_leaves_no_socket() {
    let mut world = World::with(NAMED);
    world.zones.iter_mut().for_each(|zone| zone.manner = Manner::Silent);
    world.run();
    assert_eq!(world.net.exchanges.len(), 2);
    world.client.close(&mut world.net, core::time::Duration::ZERO, world.now);
    assert!(world.net.exchanges.is_empty());
    world.run();
    assert_eq!(world.client.next_deadline(), None);
}

/// Name servers that lie in all ways, brokers that come, go and move: the client never spins, holds
/// no more sockets than it may, and is through once the truth is told.
#[test]
fn whatever_name_servers_say_the_truth_is_found_in_the_end() {
    const MANNERS: [Manner; 19] = [
        Manner::Honest,
        Manner::Silent,
        Manner::Code(2),
        Manner::Code(3),
        Manner::BareCode(5),
        Manner::WrongIdFirst,
        Manner::WrongId,
        Manner::WrongQuestion,
        Manner::NoAnswer,
        Manner::Truncated,
        Manner::Lame,
        Manner::Garbage,
        Manner::AliasLoop,
        Manner::LongChain,
        Manner::PointerLoop,
        Manner::Short,
        Manner::Twice,
        Manner::DropsV6,
        Manner::FailsV6,
    ];
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut world = named();
        let places = ["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2", "10.0.0.3"];
        for _ in 0..40 {
            let place = places[random.below(5) as usize].parse().unwrap();
            let at = std::net::SocketAddr::new(place, 9092);
            match random.below(8) {
                0 | 1 => {
                    let zone = random.below(2) as usize;
                    world.zones[zone].manner = MANNERS[random.below(19) as usize];
                }
                2 => {
                    let many = 1 + random.below(5) as usize;
                    world.name("kafka.test", &places[..many]);
                }
                3 => drop(world.deaf.insert(at)),
                4 => drop(world.deaf.remove(&at)),
                5 => drop(world.cluster.brokers.insert(1, at)),
                6 => world.hang_up(1),
                _ => world.no_name_servers = random.below(2) == 0,
            }
            world.late_v6 = MS * random.below(100);
            let by = MS * random.below(3000);
            let (wakes, start) = (world.net.asked + world.net.connects.len(), world.now.at);
            world.advance(by);
            let done = world.net.asked + world.net.connects.len() - wakes;
            let ms = world.now.at.since(start).as_millis() as usize;
            // Backoff has 40 ms at least; an attempt is 5 addresses and 2 servers at most.
            assert!(done <= (ms / 40 + 2) * 20, "seed {seed}: {done} in {ms} ms");
            assert!(world.net.exchanges.len() <= 8 && world.net.open().len() <= 16);
        }
        let at = "10.0.0.2:9092".parse().unwrap();
        world.cluster.brokers.insert(1, at);
        world.deaf.clear();
        world.no_name_servers = false;
        world.zones.iter_mut().for_each(|zone| zone.manner = Manner::Honest);
        world.name("kafka.test", &["fd00::9", "10.0.0.9", "10.0.0.2"]);
        for (conn, to) in world.net.open() {
            if to != at {
                world.net.end(conn, crate::net::CloseReason::PeerClosed);
            }
        }
        let before = world.cluster.count(ApiKey::METADATA);
        world.client.refresh.need();
        world.advance(45_000 * MS);
        assert!(world.cluster.count(ApiKey::METADATA) > before, "seed {seed}");
        assert!(world.net.open().iter().all(|(_, to)| *to == at), "seed {seed}");
        assert!(world.net.exchanges.is_empty());
    }
}
