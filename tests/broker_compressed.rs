//! Compressed batches over real sockets, looked into by handler threads: what is answered, that
//! nothing is allocated for it, and how much memory it takes.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

mod broker_support;
mod counting;
#[path = "../src/protocol/records/compression/encoders.rs"]
mod encoders;
#[path = "../src/protocol/records/test_batches.rs"]
#[allow(dead_code, reason = "not every test uses all of it")]
mod test_batches;

use broker_support::*;
use encoders::{CODECS, compressed};
use kloop::broker::{BrokerConfig, BrokerLimits, Reactor, ReactorConfig};
use kloop::logging::Logger;
use kloop::protocol::messages::*;
// `protocol` by itself for the two files above, which name what they use from the root of their crate.
use kloop::protocol::{self, ApiKey, Array, ArrayWriter, Message};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};
use test_batches::{compressed_batch, keyed, with_records};

/// Asks, and reads the answer's body into `room`, which is larger than any.
fn ask<'r>(peer: &mut TcpStream, request: &[u8], room: &'r mut [u8]) -> &'r [u8] {
    peer.write_all(request).unwrap();
    let mut size = [0; 4];
    peer.read_exact(&mut size).unwrap();
    let answer = &mut room[..u32::from_be_bytes(size) as usize];
    peer.read_exact(answer).unwrap();
    &answer[4..]
}

/// Error and first record to blame.
fn produced(body: &[u8]) -> (i16, Option<i32>) {
    let response = ProduceResponse::decode(body, 8).unwrap();
    let topic = response.responses.iter().next().unwrap();
    let part = topic.partition_responses.iter().next().unwrap();
    (part.error_code, part.record_errors.iter().next().map(|record| record.batch_index))
}

/// Timestamp and offset.
fn listed(body: &[u8]) -> (i64, i64) {
    // Behind the header's tagged fields, of which there are none.
    let response = ListOffsetsResponse::decode(&body[1..], 7).unwrap();
    let topic = response.topics.iter().next().unwrap();
    let part = topic.partitions.iter().next().unwrap();
    assert_eq!(part.error_code, 0);
    (part.timestamp, part.offset)
}

/// Creates the topic that [`produce`] writes to, compacted.
fn create() -> Vec<u8> {
    let configs = |out: &mut ArrayWriter<'_, '_, CreatableTopicConfig<'static>>| {
        out.push(&CreatableTopicConfig { name: "cleanup.policy", value: Some("compact") });
    };
    let topic = |out: &mut ArrayWriter<'_, '_, CreatableTopic<'static>>| {
        out.push(&CreatableTopic {
            name: "t",
            num_partitions: 1,
            replication_factor: 1,
            configs: Array::emit(1, &configs),
            ..Default::default()
        });
    };
    let topics = Array::emit(1, &topic);
    let request = CreateTopicsRequest { topics, timeout_ms: 1000, ..Default::default() };
    frame(ApiKey::CREATE_TOPICS, 4, |w| request.encode(w, 4))
}

/// Bytes of this process that are resident; `None` where the system does not say.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find(|line| line.starts_with("Rss:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib << 10)
}

/// One test, since it looks at the whole process.
#[test]
fn handler_threads_look_into_compressed_batches() {
    let before = resident();
    let sizes = ReactorConfig { processors: 2, handlers: 3, ..ReactorConfig::default() };
    let (config, limits) = (BrokerConfig::default(), BrokerLimits::default());
    let to = ([127, 0, 0, 1], 0).into();
    let mut reactor = Reactor::start(config, limits, sizes, to, None, Logger::silent(), 5).unwrap();
    let mut room = vec![0; 200_000];
    let mut peers: Vec<_> = (0..4).map(|_| connect(reactor.address().port())).collect();
    ask(&mut peers[0], &create(), &mut room);
    let good: Vec<_> = CODECS
        .iter()
        .map(|codec| produce(8, &compressed_batch(*codec, &keyed(1000, &[]))))
        .collect();
    let bad: Vec<_> = CODECS
        .iter()
        .map(|codec| produce(8, &compressed_batch(*codec, &keyed(1000, &[7]))))
        .collect();
    let (since, newest) = (list_offsets(7, 1004), list_offsets(7, -3));
    for round in 0..300 {
        if round == 100 {
            counting::begin_all();
        }
        for (good, bad) in good.iter().zip(&bad) {
            for peer in &mut peers {
                assert_eq!(produced(ask(peer, bad, &mut room)), (87, Some(7)));
                assert_eq!(produced(ask(peer, good, &mut room)), (0, None));
                assert_eq!(listed(ask(peer, &since, &mut room)), (1004, 4));
                assert_eq!(listed(ask(peer, &newest, &mut room)), (1009, 9));
            }
        }
    }
    let allocations = counting::count_all();
    counting::end_all();
    assert_eq!(allocations, 0);
    assert_eq!(reactor.stats().batches_in, 300 * 4 * CODECS.len() as u64);
    // Each of the three threads has room for 16 MiB, of which nothing was used but the front.
    let small = before.and_then(|before| Some(resident()?.saturating_sub(before)));
    println!("resident, more than before the broker: {small:?}");
    assert!(small.is_none_or(|bytes| bytes < 24 << 20), "{small:?}");
    for codec in CODECS {
        let bomb = compressed(*codec, &vec![0; (16 << 20) + 1]);
        let batch = with_records(*codec, &keyed(1000, &[]), &bomb);
        let request = produce_large(&batch);
        // All at once: each thread its own.
        peers.iter_mut().for_each(|peer| peer.write_all(&request).unwrap());
        for peer in &mut peers {
            let body = answer(peer);
            assert_eq!(produced(&body[4..]), (10, None), "{codec:?}");
        }
    }
    println!("resident after what is too large: {:?}", resident());
    for (good, peer) in good.iter().zip(&mut peers) {
        assert_eq!(produced(ask(peer, good, &mut room)), (0, None));
    }
    // As of a processor's last turn.
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let begun = now();
    while reactor.stats().connections < 4 {
        assert!(now() - begun < Duration::from_secs(60), "{:?}", reactor.stats());
        std::thread::yield_now();
    }
    assert_eq!(reactor.stats().panics, 0);
    reactor.stop(Duration::from_secs(60));
}

/// As [`produce`] makes it, for batches that are larger than its frames.
fn produce_large(records: &[u8]) -> Vec<u8> {
    let mut bytes = produce(8, &[]);
    // The records' length is the last field.
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&(records.len() as i32).to_be_bytes());
    bytes.extend(records);
    let size = bytes.len() as i32 - 4;
    bytes[..4].copy_from_slice(&size.to_be_bytes());
    bytes
}
