//! A request's road: order, pipelining, back-pressure, memory that is out, panics.

use super::*;
use crate::net::Selectable;

/// E1: pipelined requests are answered in order, all of a turn in one flush.
#[test]
fn pipelined_requests_are_answered_in_order_and_in_one_flush() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "t", 1);
    let records = batch(1);
    let mut asked = vec![];
    for i in 0..30 {
        asked.push(match i % 3 {
            0 => (
                ApiKey::PRODUCE,
                9,
                with_produce(-1, 1000, &[("t", 0, Some(&records))], |m| rig.ask(conn, 9, m)),
            ),
            1 => (ApiKey::METADATA, 12, rig.ask(conn, 12, &MetadataRequest::default())),
            _ => {
                let want = Want::of(&[("t", 0, 0)]);
                (ApiKey::FETCH, 11, want.with(|m| rig.ask(conn, 11, m)))
            }
        });
    }
    assert_eq!(rig.turn(), 30);
    for (key, version, correlation) in asked {
        rig.answer(conn, key, version, correlation);
    }
    assert_eq!((rig.broker.stats().requests, rig.broker.stats().answers), (31, 31));
}

/// A request that waits holds back what comes behind it on its connection, and nothing else.
#[test]
fn a_waiting_request_holds_back_its_own_connection_only() {
    let mut rig = Rig::new();
    let (slow, quick) = (rig.connect(), rig.connect());
    rig.create(quick, "t", 1);
    let before = rig.ask(slow, 12, &MetadataRequest::default());
    let poll = Want::of(&[("t", 0, 0)]).with(|m| rig.ask(slow, 12, m));
    let behind = rig.ask(slow, 12, &MetadataRequest::default());
    rig.settle();
    rig.answer(slow, ApiKey::METADATA, 12, before);
    assert_eq!(rig.net.got(slow), None);
    assert!(rig.call(quick, 12, &MetadataRequest::default()).is_some());
    rig.produce(quick, "t", 0, &batch(1));
    rig.answer(slow, ApiKey::FETCH, 12, poll);
    rig.answer(slow, ApiKey::METADATA, 12, behind);
}

/// A peer that takes no answers is not read until it does.
#[test]
fn a_peer_that_does_not_read_is_not_read() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.net.queue_max = 300;
    rig.net.stick(conn, true);
    let asked: Vec<_> = (0..50).map(|_| rig.ask(conn, 12, &MetadataRequest::default())).collect();
    for _ in 0..5 {
        rig.turn();
    }
    let requests = rig.broker.stats().requests;
    assert!(requests < 10, "{requests} requests were taken");
    assert!(rig.net.is_muted(conn));
    rig.net.stick(conn, false);
    rig.settle();
    for correlation in asked {
        rig.answer(conn, ApiKey::METADATA, 12, correlation);
    }
}

/// Without memory for the answer nothing is done, and the request is handled when there is some.
#[test]
fn an_answer_waits_for_memory() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "t", 1);
    let records = batch(1);
    rig.net.starve = 3;
    let produce = with_produce(-1, 1000, &[("t", 0, Some(&records))], |m| rig.ask(conn, 9, m));
    let behind = rig.ask(conn, 12, &MetadataRequest::default());
    for _ in 0..3 {
        rig.turn();
        assert_eq!((rig.net.got(conn), rig.broker.stats().batches_in), (None, 0));
        assert_eq!((rig.broker.stats().parked, rig.broker.wants_turn()), (1, false));
    }
    // Nothing is tried before the network says that it makes sense.
    assert_eq!((rig.net.starve, rig.broker.next_deadline()), (0, None));
    rig.settle();
    let body = rig.answer(conn, ApiKey::PRODUCE, 9, produce);
    assert_eq!(produced(&body, 9)[0].offset, 0);
    rig.answer(conn, ApiKey::METADATA, 12, behind);
    assert_eq!(rig.broker.stats().batches_in, 1);
    assert_eq!((rig.broker.stats().parked, rig.broker.next_deadline()), (0, None));
}

/// What cannot be answered in one block ends the connection, and says so.
#[test]
fn an_answer_that_no_block_holds() {
    let limits = BrokerLimits { max_partitions: 60_000, ..BrokerLimits::default() };
    let config = BrokerConfig { log_memory: 4 << 30, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, limits);
    let conn = rig.connect();
    rig.create(conn, "t", 50_000);
    rig.ask(conn, 12, &MetadataRequest::default());
    rig.assert_closed(conn, "larger than any block");
}

/// Answers that were given before a request that ends the connection still arrive.
#[test]
fn answers_before_the_end_arrive() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    let first = rig.ask(conn, 12, &MetadataRequest::default());
    rig.net.put(conn, vec![0xff; 20]);
    rig.ask(conn, 12, &MetadataRequest::default());
    rig.settle();
    rig.answer(conn, ApiKey::METADATA, 12, first);
    rig.assert_closed(conn, "not known");
    assert_eq!(rig.broker.stats().requests, 2);
}

/// A panic in a handler ends its connection; what it was changing is stopped, the rest works.
#[test]
fn a_panic_ends_where_its_damage_ends() {
    let mut rig = Rig::new();
    let (bad, good) = (rig.connect(), rig.connect());
    rig.create(good, "t", 2);
    let topic = rig.broker.core.topics.by_name("t").unwrap();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let half_way = || topic.partitions[0].change(|_| panic!("half way"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(half_way)).is_err());
    // A selector that panics while a handler runs stands for a handler that does.
    rig.net.explode = true;
    rig.ask(bad, 12, &MetadataRequest::default());
    rig.turn();
    std::panic::set_hook(hook);
    rig.net.explode = false;
    rig.assert_closed(bad, "panicked");
    assert_eq!(rig.broker.stats().panics, 1);
    assert_eq!(rig.produce(good, "t", 0, &batch(1)).error, ErrorCode::KAFKA_STORAGE_ERROR);
    assert_eq!(rig.fetch(good, "t", 0, 0).error, ErrorCode::KAFKA_STORAGE_ERROR);
    assert!(rig.produce(good, "t", 1, &batch(1)).error.is_ok());
    assert_eq!(rig.fetch(good, "t", 1, 0).offsets(), [0]);
}

/// What is sent from the log is the log: no copy is made of it.
#[test]
fn records_are_sent_by_reference() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "t", 1);
    rig.produce(conn, "t", 0, &batch_of(1, 900_000, &Seal::default()));
    rig.net.stick(conn, true);
    let before = rig.net.pool().in_use();
    Want::of(&[("t", 0, 0)]).with(|m| rig.ask(conn, 12, m));
    rig.turn();
    assert!(rig.net.queued(conn) > 900_000);
    assert!(rig.net.pool().in_use() - before < 20_000);
}

/// Leases are all home when everything is over.
#[test]
fn nothing_is_held_in_the_end() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "t", 1);
    for _ in 0..10 {
        rig.produce(conn, "t", 0, &batch(1));
        rig.fetch(conn, "t", 0, 0);
    }
    Want::of(&[("t", 0, 10)]).with(|m| rig.ask(conn, 12, m));
    rig.settle();
    assert_eq!(rig.net.pool().leases(), 1, "the request that waits");
    rig.net.hang_up(conn);
    rig.settle();
    assert_eq!(rig.net.pool().leases(), 0);
}
