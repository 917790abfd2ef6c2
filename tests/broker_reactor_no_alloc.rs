//! The reactor's data path: no thread allocates anything after warm-up.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

mod broker_support;
mod counting;

use broker_support::*;
use kloop::broker::{BrokerConfig, BrokerLimits, Reactor, ReactorConfig};
use kloop::logging::Logger;
use kloop::protocol::messages::*;
use kloop::protocol::{ApiKey, Array, ArrayWriter, Message};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Asks, and reads the answer into `room`; bytes of the answer.
fn ask(peer: &mut TcpStream, request: &[u8], room: &mut [u8]) -> usize {
    peer.write_all(request).unwrap();
    answered(peer, room)
}

fn answered(peer: &mut TcpStream, room: &mut [u8]) -> usize {
    let mut size = [0; 4];
    peer.read_exact(&mut size).unwrap();
    let size = u32::from_be_bytes(size) as usize;
    peer.read_exact(&mut room[..size]).unwrap();
    size
}

/// The place of the fetch offset in a request, found by a value that stands nowhere else.
fn offset_at(request: &[u8], mark: i64) -> usize {
    request.windows(8).position(|bytes| bytes == mark.to_be_bytes()).unwrap()
}

#[test]
fn produce_fetch_and_long_polls_allocate_nothing() {
    const MARK: i64 = 0x1122_3344_5566_7788;
    let sizes = ReactorConfig { processors: 2, handlers: 2, ..ReactorConfig::default() };
    let (config, limits) = (BrokerConfig::default(), BrokerLimits::default());
    let at = ([127, 0, 0, 1], 0).into();
    let mut reactor = Reactor::start(config, limits, sizes, at, None, Logger::silent(), 5).unwrap();
    let mut writer = TcpStream::connect(reactor.address()).unwrap();
    let mut reader = TcpStream::connect(reactor.address()).unwrap();
    let mut room = vec![0; 200_000];
    let topic = |out: &mut ArrayWriter<'_, '_, MetadataRequestTopic<'static>>| {
        out.push(&MetadataRequestTopic { name: Some("t"), ..Default::default() });
    };
    let topics = Some(Array::emit(1, &topic));
    let request = MetadataRequest { topics, allow_auto_topic_creation: true, ..Default::default() };
    let create = frame(ApiKey::METADATA, 8, |w| request.encode(w, 8));
    ask(&mut writer, &create, &mut room);
    let (small, large) = (produce(8, &batch(5, 20)), produce(8, &batch(1, 50_000)));
    let mut poll = fetch(11, MARK, 60_000);
    let place = offset_at(&poll, MARK);
    let mut end = 0i64;
    let mut counted = 0;
    for round in 0..2000 {
        if round == 1000 {
            counting::begin_all();
        }
        let (records, request) = if round % 10 == 0 { (1, &large) } else { (5, &small) };
        // A long poll on one processor, the append on another.
        poll[place..place + 8].copy_from_slice(&end.to_be_bytes());
        reader.write_all(&poll).unwrap();
        ask(&mut writer, request, &mut room);
        assert!(answered(&mut reader, &mut room) > 100);
        end += records;
        counted = counting::count_all();
    }
    counting::end_all();
    assert_eq!(counted, 0, "allocations in 1000 rounds");
    // Those of the last turn are written down when it ends.
    while reactor.stats().answers < 4000 {
        std::thread::yield_now();
    }
    reactor.stop(Duration::from_secs(60));
    // The counter counts.
    counting::begin_all();
    drop(std::hint::black_box(Box::new(1)));
    counting::end_all();
    assert!(counting::count_all() >= 2);
}
