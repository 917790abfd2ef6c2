//! The race of a host's addresses, with the clock by hand.

use super::world::{MS, Setup, World};
use crate::client::ClientEvent;
use std::net::SocketAddr;

/// A client of a host with these addresses, of which those in `deaf` are silent and of the others
/// only the broker's takes connections.
fn world(addresses: &[&str], deaf: &[&str], client: &'static [(&str, &str)]) -> World {
    let mut world = World::with(Setup { bootstrap: "kafka.test:9092", client, ..Setup::default() });
    world.cluster.hosts.insert(1, "kafka.test".to_owned());
    world.name("kafka.test", addresses);
    for address in deaf {
        world.deaf.insert(SocketAddr::new(address.parse().unwrap(), 9092));
    }
    world
}

fn connects(world: &World) -> Vec<String> {
    world.net.connects.iter().map(|at| at.ip().to_string()).collect()
}

fn is_ready(world: &World) -> bool {
    world.events.iter().any(|event| matches!(event, ClientEvent::Ready { .. }))
}

/// G13, deliberately otherwise: both families, by turns, IPv6 first.
#[test]
fn a_silent_family_costs_a_quarter_of_a_second() {
    let mut world = world(&["10.0.0.1", "fd00::1"], &["fd00::1"], &[]);
    world.run();
    assert_eq!(connects(&world), ["fd00::1"]);
    world.advance(249 * MS);
    assert!(!is_ready(&world) && world.net.connects.len() == 1);
    world.advance(MS);
    assert_eq!(connects(&world), ["fd00::1", "10.0.0.1"]);
    assert!(is_ready(&world));
    // The loser is closed, the winner stays.
    assert_eq!(world.net.open().len(), 1);
    assert_eq!(world.net.closed.len(), 1);
    assert_eq!(world.client.stats().connections, 1);
}

#[test]
fn a_refusal_costs_nothing() {
    let dead = ["10.0.0.9", "10.0.0.8", "10.0.0.7", "10.0.0.6", "10.0.0.5", "10.0.0.1"];
    let mut world = world(&dead, &[], &[]);
    world.run();
    assert_eq!(connects(&world), dead);
    assert!(is_ready(&world));
    assert_eq!(world.asked("kafka.test"), 1, "a refused address asks nobody anew (G17)");
    assert!(world.logged(
        "bootstrap server at 10.0.0.9:9092: the connect failed: Connection refused (os error 111)"
    ));
}

/// A connection to the host that comes later begins with the address that works.
#[test]
fn the_winner_is_tried_first_by_others() {
    let mut world = world(&["10.0.0.9", "10.0.0.1"], &[], &[]);
    world.run();
    world.hold.insert(11);
    world.client.request(1, 11, 0, b"", 5, world.now).unwrap();
    world.run();
    assert_eq!(connects(&world), ["10.0.0.9", "10.0.0.1", "10.0.0.1"]);
}

#[test]
fn a_late_winner_is_as_good() {
    let mut world = world(&["10.0.0.1", "10.0.0.2"], &["10.0.0.1", "10.0.0.2"], &[]);
    world.advance(300 * MS);
    assert_eq!(world.net.connects.len(), 2);
    world.deaf.remove(&"10.0.0.1:9092".parse().unwrap());
    world.run();
    assert!(is_ready(&world));
    assert_eq!(world.net.closed, ["10.0.0.2:9092".parse().unwrap()]);
}

/// At most four attempts stand side by side, each has its time, and all are over by the time that
/// the connection has; 100 addresses are 16.
#[test]
fn a_hundred_silent_addresses_are_bounded() {
    let all: Vec<String> = (0..100).map(|i| format!("10.1.0.{i}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let timeouts: &[(&str, &str)] = &[
        ("socket.connection.setup.timeout.ms", "10000"),
        ("socket.connection.setup.timeout.max.ms", "10000"),
        ("reconnect.backoff.ms", "1000000"),
    ];
    let mut world = world(&all, &all, timeouts);
    world.run();
    let mut most = 0;
    for _ in 0..1000 {
        world.advance(10 * MS);
        most = most.max(world.net.open().len());
    }
    assert_eq!(most, 4);
    assert_eq!(world.net.connects.len(), 16);
    assert_eq!((world.net.open().len(), world.net.closed.len()), (0, 16));
    assert_eq!(world.client.stats().disconnects, 1);
    assert!(world.logged("10.1.0.0:9092: the connect took too long"));
}

/// G17: what a connection had no time to try is tried next, without asking anybody anew.
#[test]
fn the_next_attempt_goes_on_where_the_last_one_ended() {
    let all: Vec<String> = (1..=8).map(|i| format!("10.1.0.{i}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let timeouts: &[(&str, &str)] = &[
        ("socket.connection.setup.timeout.ms", "1000"),
        ("socket.connection.setup.timeout.max.ms", "1000"),
        ("reconnect.backoff.ms", "100"),
    ];
    let mut world = world(&all, &all, timeouts);
    world.advance(1000 * MS);
    assert_eq!(connects(&world), all[..4]);
    world.advance(1100 * MS);
    assert_eq!(connects(&world), all);
    assert_eq!(world.asked("kafka.test"), 1);
    world.advance(200 * MS);
    assert_eq!(world.asked("kafka.test"), 2, "after the last one (G14)");
}

#[test]
fn closing_ends_all_attempts() {
    let all = ["10.1.0.1", "10.1.0.2", "10.1.0.3"];
    let mut world = world(&all, &all, &[]);
    world.advance(600 * MS);
    assert_eq!(world.net.open().len(), 3);
    world.client.close(&mut world.net, core::time::Duration::ZERO, world.now);
    assert_eq!(world.net.open().len(), 0);
    world.run();
    assert_eq!(world.client.next_deadline(), None);
}

#[test]
fn the_system_refusing_sockets_is_a_failed_connect_each() {
    let mut world = world(&["10.1.0.1", "10.1.0.2"], &[], &[("reconnect.backoff.ms", "1000")]);
    world.net.refuse_connects = true;
    world.advance(1500 * MS);
    assert!((1..=2).contains(&world.client.stats().disconnects));
    world.net.refuse_connects = false;
    world.name("kafka.test", &["10.0.0.1"]);
    world.advance(3000 * MS);
    assert!(is_ready(&world));
}

/// IPv6 answers that are a little late are waited for once IPv4 addresses turned out to be of no use.
#[test]
fn the_family_that_answers_late_gets_its_turn() {
    let mut world = world(&["10.0.0.9", "fd00::1"], &[], &[]);
    world.cluster.brokers.insert(1, "[fd00::1]:9092".parse().unwrap());
    world.late_v6 = 200 * MS;
    world.advance(2000 * MS);
    assert_eq!(connects(&world), ["10.0.0.9", "fd00::1"]);
    assert!(is_ready(&world));
}
