//! The broker's data path over real sockets: nothing is allocated, and few system calls are made.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

mod broker_support;
mod counting;

use broker_support::*;
use kloop::protocol::Message;
use kloop::protocol::messages::FetchResponse;
use kloop::protocol::records::Batches;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the peers of a run do: `rounds` rounds in each of two phases.
type Script = fn(port: u16, phase: &AtomicU32, rounds: usize);

/// Runs a script beside a broker: phase 1 warms up, phase 2 is counted. The allocations, the system
/// calls of the selector, and the broker's requests of phase 2.
fn counted(log_memory: usize, rounds: usize, script: Script) -> (u64, u64, u64) {
    static PHASE: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let phase = &PHASE[NEXT.fetch_add(1, Ordering::Relaxed) as usize];
    let mut host = Host::new(log_memory);
    let port = host.port;
    let peer = std::thread::spawn(move || {
        script(port, phase, rounds);
        phase.store(9, Ordering::Release);
    });
    while phase.load(Ordering::Acquire) < 1 {
        host.turn();
    }
    let calls = |host: &Host| {
        let c = host.selector.counters();
        c.waits + c.receives + c.sends + c.signals + c.clears + c.alarms
    };
    let (before, requests) = (calls(&host), host.broker.stats().requests);
    counting::begin();
    phase.store(2, Ordering::Release);
    while phase.load(Ordering::Acquire) < 9 {
        host.turn();
    }
    let allocations = counting::end();
    let requests = host.broker.stats().requests - requests;
    let calls = calls(&host) - before;
    peer.join().unwrap();
    assert_eq!(host.broker.stats().panics, 0);
    (allocations, calls, requests)
}

/// Both phases of a script on one connection.
fn both(port: u16, phase: &AtomicU32, rounds: usize, mut round: impl FnMut(&mut TcpStream)) {
    let mut peer = connect(port);
    peer.write_all(&metadata(9)).unwrap();
    answer(&mut peer);
    for warm in [true, false] {
        for _ in 0..rounds {
            round(&mut peer);
        }
        if warm {
            phase.store(1, Ordering::Release);
            while phase.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn the_counter_counts() {
    let ((), count) = counting::counted(|| drop(std::hint::black_box(Box::new(5))));
    assert_eq!(count, 2);
}

/// Every request of the data path in several versions, with a log so small that it goes round.
#[test]
fn nothing_is_allocated() {
    let script: Script = |port, phase, rounds| {
        let records = batch(10, 1000);
        let mut frames = vec![];
        for version in [3, 7, 9, 11] {
            frames.push(produce(version, &records));
        }
        for version in [4, 11, 12] {
            // Out of range, as a rule: that is answered too.
            frames.push(fetch(version, 0, 500));
        }
        for version in [1, 7] {
            frames.extend([-1, -2, 1000].map(|time| list_offsets(version, time)));
        }
        for version in [1, 9, 12] {
            frames.push(metadata(version));
        }
        let all = frames.concat();
        both(port, phase, rounds, |peer| {
            peer.write_all(&all).unwrap();
            for _ in &frames {
                answer(peer);
            }
        });
    };
    let (allocations, calls, requests) = counted(2 << 20, 300, script);
    println!("{requests} requests: {allocations} allocations, {calls} system calls");
    assert_eq!(allocations, 0);
    assert_eq!(requests, 4800);
}

/// A reader that waits for each batch of a writer: parked, woken, answered from the log.
#[test]
fn a_long_poll_allocates_nothing() {
    let script: Script = |port, phase, rounds| {
        let records = batch(1, 200);
        let write = produce(9, &records);
        let mut writer = connect(port);
        let mut offset = 0;
        both(port, phase, rounds, |reader| {
            reader.write_all(&fetch(12, offset, 5000)).unwrap();
            writer.write_all(&write).unwrap();
            answer(&mut writer);
            let body = answer(reader);
            let got = FetchResponse::decode(&body[5..], 12).unwrap();
            let part = got.responses.iter().next().unwrap().partitions.iter().next().unwrap();
            let batches = Batches::new(part.records.unwrap());
            offset = batches.map(|b| b.unwrap().next_offset()).last().unwrap();
        });
        assert_eq!(offset, 2 * rounds as i64);
    };
    let (allocations, calls, requests) = counted(4 << 20, 500, script);
    println!("{requests} requests: {allocations} allocations, {calls} system calls");
    assert_eq!(allocations, 0);
}

/// Pipelined small produces: what they cost in system calls.
#[test]
fn pipelined_requests_share_system_calls() {
    let script: Script = |port, phase, rounds| {
        let burst = produce(9, &batch(1, 100)).repeat(20);
        both(port, phase, rounds, |peer| {
            peer.write_all(&burst).unwrap();
            (0..20).for_each(|_| drop(answer(peer)));
        });
    };
    let (allocations, calls, requests) = counted(4 << 20, 200, script);
    println!("{requests} requests: {allocations} allocations, {calls} system calls");
    assert_eq!((allocations, requests), (0, 4000));
    assert!(calls <= requests, "{calls} system calls for {requests} requests");
}
