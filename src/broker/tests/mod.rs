//! The broker as a peer sees it, over a network of byte lists and with time moved by hand.
#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

mod admin;
mod compressed;
mod fake;
mod fetch;
mod life;
mod metadata;
mod negotiation;
mod offsets;
mod oracle;
mod produce;
mod road;
mod threads;

use super::{Broker, BrokerConfig, BrokerEvent, BrokerLimits};
use crate::logging::{Level, Logger};
use crate::net::{ConnId, Owner};
use crate::protocol::messages::*;
use crate::protocol::reader::Reader;
use crate::protocol::records::{BatchBuilder, Batches, Seal, no_headers};
use crate::protocol::{ApiKey, Array, ErrorCode, Message, RequestHeader, ResponseHeader, Writer};
use crate::sync::{Arc, Mutex};
use crate::time::{Instant, Moment};
use core::time::Duration;
use fake::FakeNet;

/// What the broker is called in events.
const OWNER: u64 = 77;

/// A broker, its network, its clock and its log lines.
struct Rig {
    broker: Broker,
    net: FakeNet,
    now: Moment,
    lines: Arc<Mutex<Vec<String>>>,
    correlation: i32,
}

impl Rig {
    fn new() -> Rig {
        Rig::with(BrokerConfig::default(), BrokerLimits::default())
    }

    fn with(config: BrokerConfig, limits: BrokerLimits) -> Rig {
        let lines = Arc::new(Mutex::new(vec![]));
        let keep = Arc::clone(&lines);
        let sink = move |_: Level, line: &str| keep.lock().push(line.to_owned());
        let logger = Logger::new(Level::Debug, Arc::new(sink));
        let broker = Broker::new(config, limits, OWNER, Owner(3), logger, 99).unwrap();
        let now = Moment { at: Instant::from_nanos(1_000_000), wall_ms: 1_700_000_000_000 };
        Rig { broker, net: FakeNet::new(), now, lines, correlation: 100 }
    }

    fn connect(&mut self) -> ConnId {
        let conn = self.net.connect();
        self.turn();
        conn
    }

    /// One turn: all notices, then what waits, then the sockets. Says how many frames left.
    fn turn(&mut self) -> usize {
        self.net.charged = 0;
        while let Some((conn, notice)) = self.net.notice() {
            self.broker.on_notice(&mut self.net, conn, notice, self.now);
        }
        self.broker.turn(&mut self.net, self.now);
        self.net.flush()
    }

    /// Turns until there is nothing to do.
    fn settle(&mut self) {
        for _ in 0..100 {
            let frames = self.turn();
            if frames == 0 && !self.broker.wants_turn() {
                return;
            }
        }
        panic!("the broker never comes to rest");
    }

    fn pass(&mut self, time: Duration) {
        self.now.at = self.now.at.after(time);
        self.now.wall_ms += time.as_millis() as i64;
    }

    /// Sends a request and leaves it to the next turn; gives its correlation id.
    fn ask<'m, M: Message<'m>>(&mut self, conn: ConnId, version: i16, message: &M) -> i32 {
        self.correlation += 1;
        let frame = frame(ApiKey(M::KEY), version, self.correlation, |w| {
            message.encode(w, version);
        });
        self.net.put(conn, frame);
        self.correlation
    }

    /// Sends a request, runs the broker, and gives the answer's body; `None` if there is none.
    fn call<'m, M: Message<'m>>(
        &mut self,
        conn: ConnId,
        version: i16,
        message: &M,
    ) -> Option<Vec<u8>> {
        let correlation = self.ask(conn, version, message);
        self.settle();
        let Some(answer) = self.net.got(conn) else {
            // Shown if the test fails for want of an answer.
            eprintln!("{:?}", self.lines.lock());
            return None;
        };
        Some(body(&answer, ApiKey(M::KEY), version, correlation))
    }

    /// The answer's body that arrived for this request.
    #[track_caller]
    fn answer(&mut self, conn: ConnId, key: ApiKey, version: i16, correlation: i32) -> Vec<u8> {
        let answer = self.net.got(conn).expect("an answer");
        body(&answer, key, version, correlation)
    }

    /// Whether a log line has this in it.
    fn logged(&self, what: &str) -> bool {
        self.lines.lock().iter().any(|line| line.contains(what))
    }

    #[track_caller]
    fn assert_closed(&mut self, conn: ConnId, why: &str) {
        self.settle();
        assert_eq!(self.net.got(conn), None, "an answer before the end");
        assert!(!self.net.is_open(conn), "still open");
        assert!(self.logged(why), "{:?}", self.lines.lock());
    }

    fn create(&mut self, conn: ConnId, name: &str, partitions: i32) {
        let error = self.create_with(conn, name, partitions, &[]);
        assert_eq!(error, ErrorCode::NONE);
    }

    fn create_with(
        &mut self,
        conn: ConnId,
        name: &str,
        num_partitions: i32,
        settings: &[(&str, &str)],
    ) -> ErrorCode {
        let configs =
            |out: &mut crate::protocol::ArrayWriter<'_, '_, CreatableTopicConfig<'static>>| {
                for (name, value) in settings {
                    out.push(&CreatableTopicConfig { name, value: Some(value) });
                }
            };
        let configs = Array::emit(settings.len(), &configs);
        let topic = CreatableTopic { name, num_partitions, configs, ..Default::default() };
        let topics = |out: &mut crate::protocol::ArrayWriter<'_, '_, CreatableTopic<'static>>| {
            out.push(&topic);
        };
        let topics = Array::emit(1, &topics);
        let request = CreateTopicsRequest { topics, ..Default::default() };
        let answer = self.call(conn, 7, &request).unwrap();
        let response = CreateTopicsResponse::decode(&answer, 7).unwrap();
        ErrorCode(response.topics.iter().next().unwrap().error_code)
    }

    /// Produces one batch; the partition's part of the answer.
    fn produce(&mut self, conn: ConnId, topic: &str, index: i32, records: &[u8]) -> Produced {
        self.produce_as(conn, 9, -1, topic, index, Some(records)).expect("an answer")
    }

    fn produce_as(
        &mut self,
        conn: ConnId,
        version: i16,
        acks: i16,
        topic: &str,
        index: i32,
        records: Option<&[u8]>,
    ) -> Option<Produced> {
        let body = with_produce(acks, 1000, &[(topic, index, records)], |request| {
            self.call(conn, version, request)
        })?;
        Some(produced(&body, version).remove(0))
    }

    /// Fetches one partition; the partition's part of the answer.
    fn fetch(&mut self, conn: ConnId, topic: &str, partition: i32, offset: i64) -> Fetched {
        let asked = [(topic, partition, offset)];
        let want = Want { wait: 0, ..Want::of(&asked) };
        let body = want.with(|request| self.call(conn, 12, request)).expect("an answer");
        fetched(&body, 12).remove(0)
    }
}

/// A frame with a request.
fn frame(key: ApiKey, version: i16, correlation: i32, body: impl Fn(&mut Writer<'_>)) -> Vec<u8> {
    let write = |w: &mut Writer<'_>| {
        let client_id = Some("test");
        let correlation_id = correlation;
        RequestHeader { api_key: key, api_version: version, correlation_id, client_id }.write(w);
        body(w);
    };
    let mut measure = Writer::measuring();
    write(&mut measure);
    let mut bytes = vec![0; measure.len()];
    let mut w = Writer::new(&mut bytes);
    write(&mut w);
    w.finish().unwrap();
    bytes
}

/// The body of an answer whose header must be the one expected.
#[track_caller]
fn body(answer: &[u8], key: ApiKey, version: i16, correlation: i32) -> Vec<u8> {
    let mut r = Reader::new(answer);
    let header = ResponseHeader::read(&mut r, key, version).unwrap();
    assert_eq!(header.correlation_id, correlation, "answers out of order");
    r.rest().to_vec()
}

/// A batch of `count` records.
fn batch(count: usize) -> Vec<u8> {
    batch_of(count, 20, &Seal::default())
}

fn batch_of(count: usize, size: usize, seal: &Seal) -> Vec<u8> {
    batch_at(1_700_000_000_000, count, size, seal)
}

fn batch_at(time: i64, count: usize, size: usize, seal: &Seal) -> Vec<u8> {
    let mut buf = vec![0; 200 + count * (size + 50)];
    let mut builder = BatchBuilder::new();
    for i in 0..count {
        let value = vec![b'a' + (i % 26) as u8; size];
        builder.append(&mut buf, time + i as i64, None, Some(&value), no_headers()).unwrap();
    }
    let len = builder.seal(&mut buf, seal).unwrap();
    buf.truncate(len);
    buf
}

/// A batch of an idempotent producer.
fn sequenced(producer_id: i64, producer_epoch: i16, base_sequence: i32, count: usize) -> Vec<u8> {
    let seal = Seal { producer_id, producer_epoch, base_sequence, ..Seal::default() };
    batch_of(count, 20, &seal)
}

fn with_produce<R>(
    acks: i16,
    timeout_ms: i32,
    data: &[(&str, i32, Option<&[u8]>)],
    use_it: impl FnOnce(&ProduceRequest<'_>) -> R,
) -> R {
    let topics = |out: &mut crate::protocol::ArrayWriter<'_, '_, ProduceTopicData<'static>>| {
        for (name, index, records) in data {
            let partition =
                |out: &mut crate::protocol::ArrayWriter<'_, '_, ProducePartitionData<'static>>| {
                    out.push(&ProducePartitionData { index: *index, records: *records });
                };
            let partition_data = Array::emit(1, &partition);
            out.push(&ProduceTopicData { name, partition_data, ..Default::default() });
        }
    };
    let topic_data = Array::emit(data.len(), &topics);
    use_it(&ProduceRequest { acks, timeout_ms, topic_data, ..Default::default() })
}

/// What a Produce answer says of a partition.
#[derive(Clone, Debug, Default, PartialEq)]
struct Produced {
    error: ErrorCode,
    offset: i64,
    time: i64,
    log_start: i64,
    record_errors: Vec<i32>,
    /// What is said of the first of them.
    record_message: Option<String>,
    message: Option<String>,
}

fn produced(body: &[u8], version: i16) -> Vec<Produced> {
    let response = ProduceResponse::decode(body, version).unwrap();
    assert_eq!(response.throttle_time_ms, 0);
    let parts = response.responses.iter().flat_map(|topic| topic.partition_responses);
    let part = |p: ProducePartitionResponse<'_>| Produced {
        error: ErrorCode(p.error_code),
        offset: p.base_offset,
        time: p.log_append_time_ms,
        log_start: p.log_start_offset,
        record_errors: p.record_errors.iter().map(|e| e.batch_index).collect(),
        record_message: (p.record_errors.iter().next())
            .and_then(|e| e.batch_index_error_message.map(str::to_owned)),
        message: p.error_message.map(str::to_owned),
    };
    parts.map(part).collect()
}

/// A Fetch to be made.
#[derive(Clone, Debug)]
struct Want<'a> {
    partitions: &'a [(&'a str, i32, i64)],
    wait: i32,
    min: i32,
    max: i32,
    partition_max: i32,
    epoch: i32,
    last_epoch: i32,
    isolation: i8,
    session: (i32, i32),
}

impl<'a> Want<'a> {
    fn of(partitions: &'a [(&'a str, i32, i64)]) -> Self {
        Want {
            partitions,
            wait: 500,
            min: 1,
            max: 50 << 20,
            partition_max: 1 << 20,
            epoch: -1,
            last_epoch: -1,
            isolation: 0,
            session: (0, -1),
        }
    }

    fn with<R>(&self, use_it: impl FnOnce(&FetchRequest<'_>) -> R) -> R {
        let topics = |out: &mut crate::protocol::ArrayWriter<'_, '_, FetchTopic<'static>>| {
            for (topic, partition, fetch_offset) in self.partitions {
                let partition = FetchPartition {
                    partition: *partition,
                    fetch_offset: *fetch_offset,
                    partition_max_bytes: self.partition_max,
                    current_leader_epoch: self.epoch,
                    last_fetched_epoch: self.last_epoch,
                    ..Default::default()
                };
                let partitions =
                    |out: &mut crate::protocol::ArrayWriter<'_, '_, FetchPartition>| {
                        out.push(&partition);
                    };
                let partitions = Array::emit(1, &partitions);
                out.push(&FetchTopic { topic, partitions, ..Default::default() });
            }
        };
        use_it(&FetchRequest {
            max_wait_ms: self.wait,
            min_bytes: self.min,
            max_bytes: self.max,
            isolation_level: self.isolation,
            session_id: self.session.0,
            session_epoch: self.session.1,
            topics: Array::emit(self.partitions.len(), &topics),
            ..Default::default()
        })
    }
}

/// What a Fetch answer says of a partition.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fetched {
    partition: i32,
    error: ErrorCode,
    high_watermark: i64,
    last_stable: i64,
    log_start: i64,
    diverging: (i32, i64),
    aborted: Option<usize>,
    records: Vec<u8>,
}

impl Fetched {
    /// The base offsets of the batches.
    fn offsets(&self) -> Vec<i64> {
        let mut batches = Batches::new(&self.records);
        let offsets = batches.by_ref().map(|b| b.unwrap().base_offset()).collect();
        assert!(batches.rest().is_empty(), "a batch is cut");
        offsets
    }
}

fn fetched(body: &[u8], version: i16) -> Vec<Fetched> {
    let response = FetchResponse::decode(body, version).unwrap();
    assert_eq!((response.throttle_time_ms, response.session_id, response.error_code), (0, 0, 0));
    let parts = response.responses.iter().flat_map(|topic| topic.partitions);
    let part = |p: FetchPartitionResponse<'_>| Fetched {
        partition: p.partition_index,
        error: ErrorCode(p.error_code),
        high_watermark: p.high_watermark,
        last_stable: p.last_stable_offset,
        log_start: p.log_start_offset,
        diverging: (p.diverging_epoch.epoch, p.diverging_epoch.end_offset),
        aborted: p.aborted_transactions.map(|a| a.len()),
        records: p.records.expect("empty, not null").to_vec(),
    };
    parts.map(part).collect()
}
