//! The broker's data path over real sockets: nothing is allocated, and few system calls are made.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

use kloop::broker::{Broker, BrokerConfig, BrokerLimits};
use kloop::logging::Logger;
use kloop::net::pool::{Memory, PoolConfig, Term};
use kloop::net::selector::{Selector, SelectorConfig};
use kloop::net::{BufferPool, Owner, TurnBudget};
use kloop::protocol::messages::*;
use kloop::protocol::records::{BatchBuilder, Batches, Seal, no_headers};
use kloop::protocol::{ApiKey, Array, ArrayWriter, Message, RequestHeader, Writer};
use kloop::time::{Clock, Moment, SystemClock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts what the thread that asks for it allocates and frees.
struct Counting;

thread_local! {
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

fn count_one() {
    // A thread that is ending has no count any more, and is not asked for one.
    let _ = COUNT.try_with(|count| count.set(count.get().map(|n| n + 1)));
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: hands everything to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count_one();
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A broker and its selector, in the test's thread.
struct Host {
    broker: Broker,
    selector: Selector,
    clock: SystemClock,
    port: u16,
}

impl Host {
    fn new(log_memory: usize) -> Host {
        let guaranteed = [Term { why: "frames", size: 1 << 20, blocks: 4 }];
        let memory = Memory::Map { prefault: false };
        let pool = BufferPool::new(PoolConfig {
            guaranteed: &guaranteed,
            shared: 16 << 20,
            control_blocks: 0,
            memory,
        });
        let config = SelectorConfig {
            max_channels: 16,
            max_listeners: 1,
            max_pieces: 1024,
            send_queue_max: 4 << 20,
            budget: TurnBudget::default(),
            logger: Logger::silent(),
        };
        let mut selector = Selector::new(config, pool.unwrap()).unwrap();
        let config = BrokerConfig { log_memory, ..BrokerConfig::default() };
        let limits = BrokerLimits { max_connections: 16, ..BrokerLimits::default() };
        let broker = Broker::new(config, limits, 0, Owner(0), Logger::silent(), 5).unwrap();
        let options = broker.channel_options();
        let at = ([127, 0, 0, 1], 0).into();
        let (_, address) = selector.listen(at, 16, &options).unwrap();
        Host { broker, selector, clock: SystemClock::new(), port: address.port() }
    }

    fn turn(&mut self) {
        let now = Moment { at: self.clock.now(), wall_ms: self.clock.wall_ms() };
        let wake = now.at.after(std::time::Duration::from_millis(20));
        let until = self.broker.next_deadline().map_or(wake, |at| at.min(wake));
        self.selector.wait(Some(until), now.at).unwrap();
        let now = Moment { at: self.clock.now(), wall_ms: self.clock.wall_ms() };
        while let Some((conn, _, notice)) = self.selector.next_notice(now.at) {
            self.broker.on_notice(&mut self.selector, conn, notice, now);
        }
        self.broker.turn(&mut self.selector, now);
        self.selector.flush();
        self.selector.settle(self.broker.wants_turn(), self.broker.next_deadline(), now.at);
    }
}

/// A frame with its size.
fn frame(key: ApiKey, api_version: i16, body: impl Fn(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; 200_000];
    let mut w = Writer::new(&mut bytes);
    w.i32(0);
    let (correlation_id, client_id) = (7, Some("test"));
    RequestHeader { api_key: key, api_version, correlation_id, client_id }.write(&mut w);
    body(&mut w);
    let len = w.len();
    w.patch_i32(0, len as i32 - 4);
    w.finish().unwrap();
    bytes.truncate(len);
    bytes
}

fn batch(records: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; 1000 + records * (size + 50)];
    let mut builder = BatchBuilder::new();
    for _ in 0..records {
        let value = vec![b'v'; size];
        builder.append(&mut bytes, 1000, None, Some(&value), no_headers()).unwrap();
    }
    let len = builder.seal(&mut bytes, &Seal::default()).unwrap();
    bytes.truncate(len);
    bytes
}

fn produce(version: i16, records: &[u8]) -> Vec<u8> {
    let data = ProducePartitionData { index: 0, records: Some(records) };
    let partition = |out: &mut ArrayWriter<'_, '_, ProducePartitionData<'static>>| out.push(&data);
    let topic = |out: &mut ArrayWriter<'_, '_, ProduceTopicData<'static>>| {
        let partition_data = Array::emit(1, &partition);
        out.push(&ProduceTopicData { name: "t", partition_data, ..Default::default() });
    };
    let topic_data = Array::emit(1, &topic);
    let request = ProduceRequest { acks: -1, timeout_ms: 9000, topic_data, ..Default::default() };
    frame(ApiKey::PRODUCE, version, |w| request.encode(w, version))
}

fn fetch(version: i16, fetch_offset: i64, max_wait_ms: i32) -> Vec<u8> {
    let asked = FetchPartition { fetch_offset, partition_max_bytes: 100_000, ..Default::default() };
    let partition = |out: &mut ArrayWriter<'_, '_, FetchPartition>| out.push(&asked);
    let topic = |out: &mut ArrayWriter<'_, '_, FetchTopic<'static>>| {
        let partitions = Array::emit(1, &partition);
        out.push(&FetchTopic { topic: "t", partitions, ..Default::default() });
    };
    let topics = Array::emit(1, &topic);
    let request = FetchRequest { max_wait_ms, min_bytes: 1, topics, ..Default::default() };
    frame(ApiKey::FETCH, version, |w| request.encode(w, version))
}

fn list_offsets(version: i16, timestamp: i64) -> Vec<u8> {
    let asked = ListOffsetsPartition { timestamp, ..Default::default() };
    let partition = |out: &mut ArrayWriter<'_, '_, ListOffsetsPartition>| out.push(&asked);
    let topic = |out: &mut ArrayWriter<'_, '_, ListOffsetsTopic<'static>>| {
        out.push(&ListOffsetsTopic { name: "t", partitions: Array::emit(1, &partition) });
    };
    let request = ListOffsetsRequest { topics: Array::emit(1, &topic), ..Default::default() };
    frame(ApiKey::LIST_OFFSETS, version, |w| request.encode(w, version))
}

fn metadata(version: i16) -> Vec<u8> {
    let topic = |out: &mut ArrayWriter<'_, '_, MetadataRequestTopic<'static>>| {
        out.push(&MetadataRequestTopic { name: Some("t"), ..Default::default() });
    };
    let topics = Some(Array::emit(1, &topic));
    let request = MetadataRequest { topics, ..Default::default() };
    frame(ApiKey::METADATA, version, |w| request.encode(w, version))
}

fn answer(peer: &mut TcpStream) -> Vec<u8> {
    let mut size = [0; 4];
    peer.read_exact(&mut size).unwrap();
    let mut body = vec![0; u32::from_be_bytes(size) as usize];
    peer.read_exact(&mut body).unwrap();
    body
}

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
    COUNT.set(Some(0));
    phase.store(2, Ordering::Release);
    while phase.load(Ordering::Acquire) < 9 {
        host.turn();
    }
    let allocations = COUNT.take().unwrap();
    let requests = host.broker.stats().requests - requests;
    let calls = calls(&host) - before;
    peer.join().unwrap();
    assert_eq!(host.broker.stats().panics, 0);
    (allocations, calls, requests)
}

fn connect(port: u16) -> TcpStream {
    let peer = TcpStream::connect(("127.0.0.1", port)).unwrap();
    peer.set_nodelay(true).unwrap();
    peer
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
    COUNT.set(Some(0));
    drop(std::hint::black_box(Box::new(5)));
    assert_eq!(COUNT.take(), Some(2));
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
