//! The reactor over real loopback sockets: processors, handler threads, and what passes between them.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

use kloop::broker::{BrokerConfig, BrokerLimits, Reactor, ReactorConfig};
use kloop::error::Error;
use kloop::logging::Logger;
use kloop::protocol::messages::*;
use kloop::protocol::reader::Reader;
use kloop::protocol::records::{BatchBuilder, Batches, Seal, no_headers};
use kloop::protocol::{ApiKey, Array, ArrayWriter, Message, RequestHeader, Writer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// So many processors and handlers, and places in the channel.
fn start(processors: usize, handlers: usize, max_queued: usize) -> Reactor {
    start_with(processors, handlers, max_queued, BrokerConfig::default())
}

fn start_with(
    processors: usize,
    handlers: usize,
    max_queued: usize,
    config: BrokerConfig,
) -> Reactor {
    let sizes = ReactorConfig { processors, handlers, max_queued, ..ReactorConfig::default() };
    let limits = BrokerLimits { max_connections: 64, ..BrokerLimits::default() };
    let at = ([127, 0, 0, 1], 0).into();
    Reactor::start(config, limits, sizes, at, None, Logger::silent(), 5).unwrap()
}

/// A client that pipelines.
struct Peer {
    socket: TcpStream,
    next: i32,
    read: i32,
    broken: bool,
}

impl Peer {
    fn new(at: SocketAddr) -> Peer {
        let socket = TcpStream::connect(at).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        Peer { socket, next: 0, read: 0, broken: false }
    }

    fn ask(&mut self, api_key: ApiKey, api_version: i16, body: impl Fn(&mut Writer<'_>)) {
        self.write(api_key, api_version, body);
        assert!(!self.broken, "the connection takes no request");
    }

    fn write(&mut self, api_key: ApiKey, api_version: i16, body: impl Fn(&mut Writer<'_>)) {
        let mut bytes = vec![0; 2_000_000];
        let mut w = Writer::new(&mut bytes);
        w.i32(0);
        let (correlation_id, client_id) = (self.next, Some("test"));
        self.next += 1;
        RequestHeader { api_key, api_version, correlation_id, client_id }.write(&mut w);
        body(&mut w);
        let len = w.len();
        w.patch_i32(0, len as i32 - 4);
        w.finish().unwrap();
        self.broken |= self.socket.write_all(&bytes[..len]).is_err();
    }

    /// The body of the next answer, which must be the next one asked for; `None` at the end.
    fn answer(&mut self) -> Option<Vec<u8>> {
        let mut size = [0; 4];
        self.socket.read_exact(&mut size).ok()?;
        let mut body = vec![0; u32::from_be_bytes(size) as usize];
        self.socket.read_exact(&mut body).ok()?;
        let mut r = Reader::new(&body);
        assert_eq!(r.i32().unwrap(), self.read, "an answer out of order");
        self.read += 1;
        Some(body)
    }

    fn ask_metadata(&mut self, name: &str) {
        let topic = |out: &mut ArrayWriter<'_, '_, MetadataRequestTopic<'static>>| {
            out.push(&MetadataRequestTopic { name: Some(name), ..Default::default() });
        };
        let topics = Some(Array::emit(1, &topic));
        let request =
            MetadataRequest { topics, allow_auto_topic_creation: true, ..Default::default() };
        self.ask(ApiKey::METADATA, 8, |w| request.encode(w, 8));
    }

    fn create(&mut self, name: &str) {
        self.ask_metadata(name);
        self.answer().unwrap();
    }

    fn ask_produce(&mut self, topic: &str, records: &[u8]) {
        self.write_produce(topic, records);
        assert!(!self.broken, "the connection takes no request");
    }

    fn write_produce(&mut self, topic: &str, records: &[u8]) {
        let data = ProducePartitionData { index: 0, records: Some(records) };
        let partition =
            |out: &mut ArrayWriter<'_, '_, ProducePartitionData<'static>>| out.push(&data);
        let topics = |out: &mut ArrayWriter<'_, '_, ProduceTopicData<'static>>| {
            let partition_data = Array::emit(1, &partition);
            out.push(&ProduceTopicData { name: topic, partition_data, ..Default::default() });
        };
        let topic_data = Array::emit(1, &topics);
        let request =
            ProduceRequest { acks: -1, timeout_ms: 9000, topic_data, ..Default::default() };
        self.write(ApiKey::PRODUCE, 8, |w| request.encode(w, 8));
    }

    /// The base offset of the batch, or the error.
    fn produced(&mut self) -> Result<i64, i16> {
        let body = self.answer().unwrap();
        let answer = ProduceResponse::decode(&body[4..], 8).unwrap();
        let topic = answer.responses.iter().next().unwrap();
        let partition = topic.partition_responses.iter().next().unwrap();
        if partition.error_code == 0 {
            Ok(partition.base_offset)
        } else {
            Err(partition.error_code)
        }
    }

    fn ask_fetch(&mut self, topic: &str, fetch_offset: i64, max_wait_ms: i32) {
        let asked =
            FetchPartition { fetch_offset, partition_max_bytes: 1 << 20, ..Default::default() };
        let partition = |out: &mut ArrayWriter<'_, '_, FetchPartition>| out.push(&asked);
        let topics = |out: &mut ArrayWriter<'_, '_, FetchTopic<'static>>| {
            let partitions = Array::emit(1, &partition);
            out.push(&FetchTopic { topic, partitions, ..Default::default() });
        };
        let topics = Array::emit(1, &topics);
        let max_bytes = 1 << 20;
        let request =
            FetchRequest { max_wait_ms, min_bytes: 1, max_bytes, topics, ..Default::default() };
        self.ask(ApiKey::FETCH, 11, |w| request.encode(w, 11));
    }

    /// The base offsets of the batches.
    fn fetched(&mut self) -> Vec<i64> {
        let body = self.answer().unwrap();
        let answer = FetchResponse::decode(&body[4..], 11).unwrap();
        let topic = answer.responses.iter().next().unwrap();
        let partition = topic.partitions.iter().next().unwrap();
        assert_eq!(partition.error_code, 0);
        let records = partition.records.unwrap_or(&[]);
        Batches::new(records).map(|batch| batch.unwrap().base_offset()).collect()
    }
}

fn batch(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; 1000 + size];
    let mut builder = BatchBuilder::new();
    let value = vec![b'v'; size];
    builder.append(&mut bytes, 1000, None, Some(&value), no_headers()).unwrap();
    let len = builder.seal(&mut bytes, &Seal::default()).unwrap();
    bytes.truncate(len);
    bytes
}

/// Turns until what another thread does has been done.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    while !done() {
        assert!(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() - begun < LONG, "{what}");
        std::thread::yield_now();
    }
}

/// Eight clients, each with many requests on the way: all are answered, in order, and each batch is
/// read where it was written.
fn pipelines(reactor: &mut Reactor) {
    const ROUNDS: i64 = 300;
    let at = reactor.address();
    let peers: Vec<_> = (0..8)
        .map(|number| {
            std::thread::spawn(move || {
                let mut peer = Peer::new(at);
                let name = format!("topic-{number}");
                peer.create(&name);
                let records = batch(100);
                for round in 0..ROUNDS / 10 {
                    for offset in round * 10..(round + 1) * 10 {
                        peer.ask_produce(&name, &records);
                        peer.ask_fetch(&name, offset, 0);
                    }
                    for offset in round * 10..(round + 1) * 10 {
                        assert_eq!(peer.produced(), Ok(offset));
                        // What was appended by then, from this one on.
                        assert_eq!(peer.fetched().first(), Some(&offset));
                    }
                }
            })
        })
        .collect();
    peers.into_iter().for_each(|peer| peer.join().unwrap());
    until("all connections are gone", || reactor.stats().connections == 0);
    let stats = reactor.stats();
    assert_eq!(stats.accepted, 8);
    assert_eq!(stats.batches_in, 8 * ROUNDS as u64);
    assert_eq!(stats.requests, 8 * (1 + 2 * ROUNDS as u64));
    assert_eq!(stats.answers, stats.requests);
    assert_eq!((stats.refused, stats.panics), (0, 0));
    reactor.stop(LONG);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    pipelines(&mut start(3, 2, 500));
}

#[test]
fn a_channel_with_one_place_delays_and_loses_nothing() {
    pipelines(&mut start(3, 2, 1));
    pipelines(&mut start(2, 1, 1));
}

/// Long polls on every processor hear of an append that came through another one.
#[test]
fn an_append_wakes_long_polls_of_all_processors() {
    const ROUNDS: i64 = 400;
    let mut reactor = start(3, 2, 500);
    let at = reactor.address();
    let mut writer = Peer::new(at);
    writer.create("t");
    let mut readers: Vec<Peer> = (0..5).map(|_| Peer::new(at)).collect();
    let records = batch(10);
    for offset in 0..ROUNDS {
        for reader in &mut readers {
            reader.ask_fetch("t", offset, 50_000);
        }
        // Half of the time they wait surely; otherwise the append races with them.
        if offset % 2 == 0 {
            until("they are parked", || reactor.stats().parked == 5);
        }
        writer.ask_produce("t", &records);
        assert_eq!(writer.produced(), Ok(offset));
        for reader in &mut readers {
            assert_eq!(reader.fetched(), [offset]);
        }
    }
    reactor.stop(LONG);
}

/// A long poll ends at its time without an append.
#[test]
fn a_long_poll_ends_at_its_time() {
    let mut reactor = start(1, 1, 10);
    let mut peer = Peer::new(reactor.address());
    peer.create("t");
    peer.ask_fetch("t", 0, 30);
    assert!(peer.fetched().is_empty());
    assert!(reactor.stats().wakes >= 1);
    reactor.stop(LONG);
}

/// The log is smaller than what is written: blocks go, writers on all processors go on.
#[test]
fn writers_of_all_processors_share_a_small_log() {
    let config = BrokerConfig { log_memory: 8 << 20, ..BrokerConfig::default() };
    let mut reactor = start_with(3, 3, 16, config);
    let at = reactor.address();
    let peers: Vec<_> = (0..6)
        .map(|number| {
            std::thread::spawn(move || {
                let mut peer = Peer::new(at);
                let name = format!("topic-{number}");
                peer.create(&name);
                let records = batch(100_000);
                for offset in 0..100 {
                    peer.ask_produce(&name, &records);
                    assert_eq!(peer.produced(), Ok(offset));
                    peer.ask_fetch(&name, offset + 1, 1);
                    assert!(peer.fetched().is_empty());
                }
            })
        })
        .collect();
    peers.into_iter().for_each(|peer| peer.join().unwrap());
    assert!(reactor.stats().evicted > 0);
    reactor.stop(LONG);
}

#[test]
fn stopping_answers_what_waits() {
    let mut reactor = start(3, 2, 500);
    let at = reactor.address();
    let mut peers: Vec<Peer> = (0..6).map(|_| Peer::new(at)).collect();
    peers[0].create("t");
    for peer in &mut peers {
        peer.ask_fetch("t", 0, 1_000_000);
    }
    until("they are parked", || reactor.stats().parked == 6);
    reactor.stop(LONG);
    for peer in &mut peers {
        assert!(peer.fetched().is_empty());
        assert!(peer.answer().is_none(), "the connection is closed");
    }
    assert!(reactor.is_stopped() && !reactor.has_failed());
    reactor.stop(LONG);
    assert!(TcpStream::connect(at).is_err(), "nobody listens");
}

#[test]
fn stopping_in_full_flight_ends() {
    for grace in [Duration::ZERO, LONG] {
        let mut reactor = start(3, 2, 4);
        let at = reactor.address();
        Peer::new(at).create("t");
        let peers: Vec<_> = (0..8)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut peer = Peer::new(at);
                    let records = batch(1000);
                    // What comes back comes back in order, until the end.
                    while !peer.broken {
                        peer.write_produce("t", &records);
                        if peer.answer().is_none() {
                            return;
                        }
                    }
                })
            })
            .collect();
        until("they are at it", || reactor.stats().batches_in > 200);
        reactor.stop(grace);
        peers.into_iter().for_each(|peer| peer.join().unwrap());
        assert!(!reactor.has_failed());
    }
}

#[test]
fn a_thousand_connections_come_and_go() {
    let mut reactor = start(3, 2, 500);
    let at = reactor.address();
    for i in 0..1000 {
        let mut peer = Peer::new(at);
        peer.ask_metadata("t");
        // Every third one leaves without its answer.
        if i % 3 != 0 {
            peer.answer().unwrap();
        }
        // No more than there are places for.
        if i % 32 == 0 {
            drop(peer);
            until("they are gone", || {
                let stats = reactor.stats();
                stats.accepted == i + 1 && stats.connections == 0
            });
        }
    }
    until("all are gone", || {
        let stats = reactor.stats();
        stats.accepted == 1000 && stats.connections == 0
    });
    assert_eq!(reactor.stats().refused, 0);
    let mut peer = Peer::new(at);
    peer.create("u");
    reactor.stop(LONG);
}

#[test]
fn one_connection_too_many_is_closed() {
    let config = BrokerConfig { max_connections: 4, ..BrokerConfig::default() };
    let mut reactor = start_with(3, 2, 10, config);
    let at = reactor.address();
    let mut peers: Vec<Peer> = (0..4).map(|_| Peer::new(at)).collect();
    peers.iter_mut().for_each(|peer| peer.create("t"));
    let mut fifth = Peer::new(at);
    assert!(fifth.answer().is_none());
    peers.pop();
    until("it is gone", || reactor.stats().connections == 3);
    Peer::new(at).create("t");
    assert_eq!(reactor.stats().refused, 1);
    reactor.stop(LONG);
}

#[test]
fn what_cannot_be_understood_ends_its_connection_only() {
    let mut reactor = start(2, 2, 10);
    let at = reactor.address();
    let (mut good, mut bad) = (Peer::new(at), Peer::new(at));
    good.create("t");
    bad.ask(ApiKey::HEARTBEAT, 0, |_| {});
    assert!(bad.answer().is_none());
    good.create("t");
    until("it is counted", || reactor.stats().refused == 1);
    reactor.stop(LONG);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let at: SocketAddr = ([127, 0, 0, 1], 0).into();
    let start = |config, sizes| {
        Reactor::start(config, BrokerLimits::default(), sizes, at, None, Logger::silent(), 5).err()
    };
    let none = || BrokerConfig::default();
    let sizes = || ReactorConfig::default();
    let refused = [
        start(none(), ReactorConfig { processors: 0, ..sizes() }),
        start(none(), ReactorConfig { processors: 64, ..sizes() }),
        start(none(), ReactorConfig { handlers: 0, ..sizes() }),
        start(none(), ReactorConfig { max_queued: 0, ..sizes() }),
        start(none(), ReactorConfig { memory: 1000, ..sizes() }),
    ];
    for error in refused {
        assert!(matches!(error, Some(Error::Invalid(_))), "{error:?}");
    }
}

/// Dropping is stopping; the processors of the machine that are asked for may be had.
#[test]
fn dropping_stops() {
    let sizes = ReactorConfig { cpus: Box::new([0]), ..ReactorConfig::default() };
    let at = ([127, 0, 0, 1], 0).into();
    let (config, limits) = (BrokerConfig::default(), BrokerLimits::default());
    let reactor = Reactor::start(config, limits, sizes, at, None, Logger::silent(), 5).unwrap();
    let mut peer = Peer::new(reactor.address());
    peer.create("t");
    drop(reactor);
    assert!(peer.answer().is_none());
}

/// Far less memory than the requests on the way want: some wait, none is lost.
#[test]
fn little_memory_delays_and_loses_nothing() {
    const ROUNDS: i64 = 20;
    let sizes =
        ReactorConfig { processors: 1, handlers: 3, memory: 3_200_000, ..ReactorConfig::default() };
    let at = ([127, 0, 0, 1], 0).into();
    let (config, limits) = (BrokerConfig::default(), BrokerLimits::default());
    let mut reactor = Reactor::start(config, limits, sizes, at, None, Logger::silent(), 5).unwrap();
    let at = reactor.address();
    let peers: Vec<_> = (0..12)
        .map(|number| {
            std::thread::spawn(move || {
                let mut peer = Peer::new(at);
                let name = format!("topic-{number}");
                peer.create(&name);
                let records = batch(300_000);
                for offset in 0..ROUNDS {
                    peer.ask_produce(&name, &records);
                    peer.ask_fetch(&name, offset, 10);
                    // Its answer is larger than the room that comes with a request.
                    let names: String = "x".repeat(200);
                    peer.ask_metadata(&names);
                    assert_eq!(peer.produced(), Ok(offset));
                    assert_eq!(peer.fetched(), [offset]);
                    peer.answer().unwrap();
                }
            })
        })
        .collect();
    peers.into_iter().for_each(|peer| peer.join().unwrap());
    reactor.stop(LONG);
    let stats = reactor.stats();
    assert_eq!((stats.refused, stats.panics), (0, 0));
}
