//! Raw requests.

use super::cluster::Act;
use super::world::{MS, World};
use crate::client::ClientEvent;
use crate::error::Error;
use crate::net::slots::SlotId;
use crate::protocol::ApiKey;

const DESCRIBE_CLUSTER: i16 = 60;

/// The replies so far: token, body or error, version.
fn replies(world: &mut World) -> Vec<(u64, Result<Vec<u8>, Error>, i16)> {
    let mut out = Vec::new();
    world.events.retain(|event| match event {
        ClientEvent::Reply { user, body, api_version, owner: 7, .. } => {
            let body = body.as_ref().map(|body| body.to_vec()).map_err(|error| *error);
            out.push((*user, body, *api_version));
            false
        }
        _ => true,
    });
    out
}

fn ask(world: &mut World, node: i32, version: i16, user: u64) -> SlotId {
    world.client.request(node, DESCRIBE_CLUSTER, version, b"\0hello", user, world.now).unwrap()
}

fn world() -> World {
    let mut world = World::new();
    world.cluster.versions.push((DESCRIBE_CLUSTER, 0, 1));
    world.run();
    world
}

#[test]
fn the_body_goes_out_and_the_answers_body_comes_back() {
    let mut world = world();
    ask(&mut world, -1, 0, 1);
    ask(&mut world, 1, -1, 2);
    world.run();
    // DescribeCluster is flexible from version 0 on; the header's tags are not the body's.
    let hello = Ok(b"\0hello".to_vec());
    assert_eq!(replies(&mut world), [(1, hello.clone(), 0), (2, hello, 1)]);
    assert!(!world.client.has_events());
}

#[test]
fn a_version_that_the_broker_does_not_serve_is_refused_here() {
    let mut world = world();
    ask(&mut world, -1, 7, 1);
    world.run();
    assert_eq!(replies(&mut world), [(1, Err(Error::Kafka(35)), 7)]);
    assert_eq!(world.cluster.count(ApiKey(DESCRIBE_CLUSTER)), 0);
}

#[test]
fn a_node_that_never_appears_is_waited_for_so_long() {
    let mut world = world();
    ask(&mut world, 55, 0, 1);
    world.advance(29_999 * MS);
    assert_eq!(replies(&mut world), []);
    world.advance(MS);
    assert_eq!(replies(&mut world), [(1, Err(Error::Timeout), 0)]);
}

#[test]
fn a_cancelled_request_ends_once() {
    let mut world = world();
    let waiting = ask(&mut world, 55, 0, 1);
    world.client.cancel(waiting).unwrap();
    assert_eq!(world.client.cancel(waiting), Err(Error::Stale));
    world.hold.insert(DESCRIBE_CLUSTER);
    let sent = ask(&mut world, 1, 0, 2);
    world.run();
    world.client.cancel(sent).unwrap();
    world.run();
    assert_eq!(replies(&mut world), [(1, Err(Error::Canceled), 0), (2, Err(Error::Canceled), 0)]);
    // The place is free, and the late answer is for nobody.
    let next = ask(&mut world, 1, 0, 3);
    assert_ne!(next, sent);
    world.hold.clear();
    world.release();
    assert_eq!(replies(&mut world), [(3, Ok(b"\0hello".to_vec()), 0)]);
}

#[test]
fn a_lost_connection_and_a_late_answer_are_told_apart() {
    let mut world = world();
    world.cluster.plan(ApiKey(DESCRIBE_CLUSTER), [Act::Hangup, Act::Silence, Act::TooLarge]);
    ask(&mut world, 1, 0, 1);
    world.run();
    assert_eq!(replies(&mut world), [(1, Err(Error::Kafka(13)), 0)]);
    // Whatever the loss made due is over: an answer behind one that is missing would be taken for
    // the wrong one.
    world.advance(1000 * MS);
    ask(&mut world, 1, 0, 2);
    world.advance(31_000 * MS);
    assert_eq!(replies(&mut world), [(2, Err(Error::Timeout), 0)]);
    ask(&mut world, 1, 0, 3);
    world.advance(1000 * MS);
    assert_eq!(replies(&mut world), [(3, Err(Error::TooLarge), 0)]);
}

#[test]
fn the_table_of_requests_has_an_end() {
    let mut world = world();
    (0..4).for_each(|user| {
        ask(&mut world, 55, 0, user);
    });
    let refused = world.client.request(55, DESCRIBE_CLUSTER, 0, b"", 9, world.now);
    assert!(matches!(refused, Err(Error::Exhausted(_))));
    let unknown = world.client.request(1, 2000, 0, b"", 9, world.now);
    assert!(matches!(unknown, Err(Error::Invalid(_))));
    let large = vec![0; 2 << 20];
    let large = world.client.request(1, DESCRIBE_CLUSTER, 0, &large, 9, world.now);
    assert!(matches!(large, Err(Error::Invalid(_))));
}

#[test]
fn requests_leave_the_reserve_of_the_pool_alone() {
    let mut world = world();
    let pool = crate::net::Selectable::pool(&world.net).clone();
    let data = crate::net::pool::Priority::Data;
    let hoard: Vec<_> = core::iter::from_fn(|| pool.lease(1, data)).collect();
    let refused = world.client.request(1, DESCRIBE_CLUSTER, 0, b"\0hello", 1, world.now);
    assert_eq!(refused, Err(Error::Exhausted("the buffer pool")));
    drop(hoard);
    ask(&mut world, 1, 0, 2);
    world.run();
    assert_eq!(replies(&mut world).len(), 1);
}
