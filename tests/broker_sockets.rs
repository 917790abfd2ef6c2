//! The broker over real sockets: peers that do not read, and the end.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

mod broker_support;

use broker_support::*;
use kloop::broker::BrokerEvent;
use kloop::protocol::Message;
use kloop::protocol::messages::FetchResponse;
use kloop::protocol::records::BatchView;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs the host beside peers until they are done.
fn beside<R: Send>(host: &mut Host, peers: impl FnOnce() -> R + Send) -> R {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let peers = scope.spawn(|| {
            let result = peers();
            done.store(true, Ordering::Release);
            result
        });
        while !done.load(Ordering::Acquire) && !peers.is_finished() {
            host.turn();
        }
        peers.join().unwrap()
    })
}

/// A peer that asks and does not read: its requests are left in the socket, its turns cost nothing,
/// and when it reads, everything is there in order.
#[test]
fn a_peer_that_does_not_read() {
    const ASKED: usize = 200;
    let mut host = Host::new(8 << 20);
    let port = host.port;
    let mut peer = beside(&mut host, || {
        let mut peer = connect(port);
        peer.write_all(&metadata(9)).unwrap();
        answer(&mut peer);
        peer.write_all(&produce(9, &batch(90, 1000))).unwrap();
        answer(&mut peer);
        peer
    });
    let before = host.broker.stats().requests;
    peer.write_all(&fetch(12, 0, 500).repeat(ASKED)).unwrap();
    for _ in 0..20 {
        host.turn();
    }
    let taken = (host.broker.stats().requests - before) as usize;
    assert!((10..ASKED).contains(&taken), "{taken} requests were taken");
    let calls = host.selector.counters();
    for _ in 0..10 {
        host.turn();
    }
    let after = host.selector.counters();
    assert_eq!((after.receives, after.sends), (calls.receives, calls.sends));
    assert!(after.wakeups - calls.wakeups <= 10, "only the turns' own timer woke it");
    assert_eq!((host.broker.stats().requests - before) as usize, taken);
    beside(&mut host, move || {
        for _ in 0..ASKED {
            let body = answer(&mut peer);
            let response = FetchResponse::decode(&body[5..], 12).unwrap();
            let part = response.responses.iter().next().unwrap().partitions.iter().next().unwrap();
            assert!(BatchView::parse(part.records.unwrap()).unwrap().verify_crc());
        }
    });
    assert_eq!((host.broker.stats().requests - before) as usize, ASKED);
}

/// Closing answers what waits, and the last answer arrives whole before the end of the stream.
#[test]
fn closing_lets_answers_arrive() {
    let mut host = Host::new(8 << 20);
    let port = host.port;
    let (mut reader, mut poller) = beside(&mut host, || {
        let (mut reader, mut poller) = (connect(port), connect(port));
        reader.write_all(&metadata(9)).unwrap();
        answer(&mut reader);
        reader.write_all(&produce(9, &batch(90, 1000))).unwrap();
        answer(&mut reader);
        poller.write_all(&fetch(12, 90, 60_000)).unwrap();
        reader.write_all(&fetch(12, 0, 500).repeat(5)).unwrap();
        (reader, poller)
    });
    while host.broker.stats().parked == 0 || host.broker.stats().requests < 8 {
        host.turn();
    }
    host.close(Duration::from_secs(5));
    let (full, empty) = beside(&mut host, move || {
        let mut full = vec![];
        reader.read_to_end(&mut full).unwrap();
        let mut empty = vec![];
        poller.read_to_end(&mut empty).unwrap();
        (full.len(), empty)
    });
    assert!(full > 5 * 90_000, "{full} bytes");
    let response = FetchResponse::decode(&empty[9..], 12).unwrap();
    assert_eq!(response.responses.len(), 1);
    while !host.broker.has_events() {
        host.turn();
    }
    assert!(matches!(host.broker.next_event(), Some(BrokerEvent::Closed { .. })));
    assert_eq!(host.selector.channels(), 0);
}

/// What a connection that polls holds while it waits, and that it costs no turns.
#[test]
fn waiting_connections_are_cheap() {
    let mut host = Host::new(8 << 20);
    let port = host.port;
    let peers = beside(&mut host, || {
        let mut peers: Vec<_> = (0..15).map(|_| connect(port)).collect();
        peers[0].write_all(&metadata(9)).unwrap();
        answer(&mut peers[0]);
        for peer in &mut peers {
            peer.write_all(&fetch(12, 0, 60_000)).unwrap();
        }
        peers
    });
    while host.broker.stats().parked < 15 {
        host.turn();
    }
    let held = host.held();
    assert!(held <= 15 * 4160, "{held} bytes");
    let calls = host.selector.counters();
    for _ in 0..5 {
        host.turn();
    }
    let after = host.selector.counters();
    assert_eq!((after.receives, after.sends), (calls.receives, calls.sends));
    assert_eq!(host.broker.stats().wakes, 0);
    drop(peers);
}
