//! A broker over real sockets in the test's thread, and the frames that peers send it.

#![allow(dead_code, reason = "not every test uses all of it")]

pub mod bad_input;

use kloop::broker::{Broker, BrokerConfig, BrokerLimits};
use kloop::logging::Logger;
use kloop::net::pool::{Memory, PoolConfig, Term};
use kloop::net::selector::{Selector, SelectorConfig};
use kloop::net::{BufferPool, Owner, Selectable, TurnBudget};
use kloop::protocol::messages::*;
use kloop::protocol::records::{BatchBuilder, Seal, no_headers};
use kloop::protocol::{ApiKey, Array, ArrayWriter, Message, RequestHeader, Writer};
use kloop::time::{Clock, Moment, SystemClock};
use std::io::Read;
use std::net::TcpStream;

/// A broker and its selector, in the test's thread.
pub struct Host {
    pub broker: Broker,
    pub selector: Selector,
    clock: SystemClock,
    pub port: u16,
}

impl Host {
    /// A broker on a free port of loopback.
    pub fn new(log_memory: usize) -> Host {
        Host::with_logger(log_memory, Logger::silent())
    }

    /// The same, with the broker's and its network's log lines.
    pub fn with_logger(log_memory: usize, logger: Logger) -> Host {
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
            max_exchanges: 0,
            max_pieces: 1024,
            send_queue_max: 4 << 20,
            budget: TurnBudget::default(),
            logger: logger.clone(),
        };
        let mut selector = Selector::new(config, pool.unwrap()).unwrap();
        let config = BrokerConfig { log_memory, ..BrokerConfig::default() };
        let limits = BrokerLimits { max_connections: 16, ..BrokerLimits::default() };
        let broker = Broker::new(config, limits, 0, Owner(0), logger, 5).unwrap();
        let options = broker.channel_options();
        let at = ([127, 0, 0, 1], 0).into();
        let (_, address) = selector.listen(at, 16, &options).unwrap();
        Host { broker, selector, clock: SystemClock::new(), port: address.port() }
    }

    /// Closes the broker.
    pub fn close(&mut self, grace: std::time::Duration) {
        let now = Moment { at: self.clock.now(), wall_ms: self.clock.wall_ms() };
        self.broker.close(&mut self.selector, grace, now);
    }

    /// Bytes that connections hold.
    pub fn held(&self) -> usize {
        self.selector.pool().in_use()
    }

    /// One turn; sleeps for at most 20 ms.
    pub fn turn(&mut self) {
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
pub fn frame(key: ApiKey, api_version: i16, body: impl Fn(&mut Writer<'_>)) -> Vec<u8> {
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

pub fn batch(records: usize, size: usize) -> Vec<u8> {
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

pub fn produce(version: i16, records: &[u8]) -> Vec<u8> {
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

pub fn fetch(version: i16, fetch_offset: i64, max_wait_ms: i32) -> Vec<u8> {
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

pub fn list_offsets(version: i16, timestamp: i64) -> Vec<u8> {
    let asked = ListOffsetsPartition { timestamp, ..Default::default() };
    let partition = |out: &mut ArrayWriter<'_, '_, ListOffsetsPartition>| out.push(&asked);
    let topic = |out: &mut ArrayWriter<'_, '_, ListOffsetsTopic<'static>>| {
        out.push(&ListOffsetsTopic { name: "t", partitions: Array::emit(1, &partition) });
    };
    let request = ListOffsetsRequest { topics: Array::emit(1, &topic), ..Default::default() };
    frame(ApiKey::LIST_OFFSETS, version, |w| request.encode(w, version))
}

pub fn metadata(version: i16) -> Vec<u8> {
    let topic = |out: &mut ArrayWriter<'_, '_, MetadataRequestTopic<'static>>| {
        out.push(&MetadataRequestTopic { name: Some("t"), ..Default::default() });
    };
    let topics = Some(Array::emit(1, &topic));
    let request = MetadataRequest { topics, ..Default::default() };
    frame(ApiKey::METADATA, version, |w| request.encode(w, version))
}

pub fn answer(peer: &mut TcpStream) -> Vec<u8> {
    let mut size = [0; 4];
    peer.read_exact(&mut size).unwrap();
    let mut body = vec![0; u32::from_be_bytes(size) as usize];
    peer.read_exact(&mut body).unwrap();
    body
}

pub fn connect(port: u16) -> TcpStream {
    let peer = TcpStream::connect(("127.0.0.1", port)).unwrap();
    peer.set_nodelay(true).unwrap();
    peer
}
