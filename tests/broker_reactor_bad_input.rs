//! Peers that send what is no request to a broker with threads of its own: each ends alone, with a
//! reason in the log, and no thread allocates for it. One test, because it counts for all threads.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

mod broker_support;
mod counting;

use broker_support::bad_input::{Lines, assert_told, bad_inputs};
use broker_support::*;
use kloop::broker::{BrokerConfig, BrokerLimits, Reactor, ReactorConfig};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Asks, and reads the answer into `room`.
fn ask(peer: &mut TcpStream, request: &[u8], room: &mut [u8]) {
    peer.write_all(request).unwrap();
    peer.read_exact(&mut room[..4]).unwrap();
    let size = u32::from_be_bytes(*room.first_chunk().unwrap()) as usize;
    peer.read_exact(&mut room[..size]).unwrap();
}

fn connect_patiently(to: SocketAddr) -> TcpStream {
    let peer = TcpStream::connect(to).unwrap();
    peer.set_nodelay(true).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    peer
}

/// Sends bytes in pieces and waits for the connection's end; the address it had.
fn offend(to: SocketAddr, bytes: &[u8], pieces: usize) -> SocketAddr {
    let mut offender = connect_patiently(to);
    for piece in bytes.chunks(pieces) {
        // With the end of the connection seen, no more is taken.
        if offender.write_all(piece).is_err() {
            break;
        }
    }
    let end = offender.read(&mut [0; 1]);
    let patience = std::io::ErrorKind::WouldBlock;
    assert!(!matches!(end, Ok(1..)), "an answer to what is no request");
    assert!(end.is_ok() || end.is_err_and(|error| error.kind() != patience), "it does not end");
    offender.local_addr().unwrap()
}

#[test]
fn an_offender_ends_alone_with_a_reason_in_the_log() {
    let lines = Lines::new();
    let sizes = ReactorConfig { processors: 2, handlers: 2, ..ReactorConfig::default() };
    let (config, limits) = (BrokerConfig::default(), BrokerLimits::default());
    let at = ([127, 0, 0, 1], 0).into();
    let mut reactor = Reactor::start(config, limits, sizes, at, None, lines.logger(), 5).unwrap();
    let (at, inputs, request) = (reactor.address(), bad_inputs(), metadata(9));
    let large = produce(9, &batch(10, 1000));
    let mut room = vec![0; 1000];
    // One at each processor.
    let mut neighbours = [connect_patiently(at), connect_patiently(at)];
    for warm in [false, true] {
        lines.take();
        let mut offenders = [at; 20];
        if warm {
            counting::begin_all();
        }
        let before = counting::count_all();
        for (i, address) in offenders.iter_mut().enumerate() {
            let bytes = &inputs[i / 2].bytes;
            *address = offend(at, bytes, if i % 2 == 0 { bytes.len() } else { 1 });
            for neighbour in &mut neighbours {
                ask(neighbour, &request, &mut room);
            }
        }
        // And two that end in the middle of a frame, which is no fault.
        (0..2).for_each(|_| connect_patiently(at).write_all(&large[..5000]).unwrap());
        while reactor.stats().accepted < if warm { 46 } else { 24 } {
            std::thread::yield_now();
        }
        while reactor.stats().connections > 2 {
            std::thread::yield_now();
        }
        let counted = counting::count_all() - before;
        counting::end_all();
        assert_eq!(counted, 0, "allocations for 20 offenders");
        let lines = lines.take();
        for (i, address) in offenders.into_iter().enumerate() {
            let of = lines.iter().filter(|line| line.contains(&address.to_string())).cloned();
            assert_told(&of.collect::<Vec<_>>(), address, inputs[i / 2].why);
        }
    }
    assert_eq!((reactor.stats().accepted, reactor.stats().panics), (46, 0));
    drop(neighbours);
    reactor.stop(Duration::from_secs(60));
    counting::begin_all();
    drop(std::hint::black_box(Box::new(1)));
    assert!(counting::count_all() >= 2, "the counter does not count");
    counting::end_all();
}
