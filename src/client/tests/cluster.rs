//! Cluster: brokers that answer by protocol structs, from a small model of topics and logs, and as
//! a test's script says.

use crate::client::random::Random;
use crate::protocol::declare::{Array, ArrayWriter, Message};
use crate::protocol::messages::*;
use crate::protocol::records::{BatchView, Batches, set_base_offset};
use crate::protocol::{ApiKey, ErrorCode, Reader, RequestHeader, ResponseHeader, Writer};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

/// One request as a broker got it.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) key: ApiKey,
    pub(super) version: i16,
    pub(super) correlation: i32,
    pub(super) node: i32,
    pub(super) body: Vec<u8>,
}

/// What a script says about the next request of an API.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Answered as the model does.
    Serve,
    /// Partitions (or the whole, where there are none) answer this code.
    Code(i16),
    /// As `Code`, and the batch is written all the same.
    WriteAndCode(i16),
    /// No answer.
    Silence,
    /// The connection ends.
    Hangup,
    /// As `Hangup`, after the batch was written.
    WriteAndHangup,
    /// These bytes are the body.
    Body(Vec<u8>),
    /// The answer with a few bytes changed or cut off, by this seed.
    Damaged(u64),
    /// An answer with this much added to the correlation id.
    Correlation(i32),
    /// The connection ends because the answer is larger than a frame may be.
    TooLarge,
}

#[derive(Clone, Debug)]
pub(super) struct Partition {
    pub(super) leader: i32,
    pub(super) epoch: i32,
    pub(super) log_start: i64,
    pub(super) end: i64,
    /// Whole batches.
    pub(super) log: Vec<Vec<u8>>,
    /// Per producer id: epoch and next sequence.
    pub(super) sequences: HashMap<i64, (i16, i32)>,
    /// Aborted transactions: producer id and first offset.
    pub(super) aborted: Vec<(i64, i64)>,
}

#[derive(Clone, Debug)]
pub(super) struct Topic {
    pub(super) code: i16,
    pub(super) partitions: Vec<Partition>,
}

/// The brokers and what they know.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) brokers: BTreeMap<i32, SocketAddr>,
    /// Where each broker says it is, if that is another place.
    pub(super) hosts: HashMap<i32, String>,
    pub(super) topics: BTreeMap<String, Topic>,
    pub(super) versions: Vec<(i16, i16, i16)>,
    pub(super) script: HashMap<i16, VecDeque<Act>>,
    /// Topics that are asked for and missing are created with so many partitions; 0 for never.
    pub(super) auto_create: usize,
    pub(super) throttle_ms: i32,
    /// As Kafka since 2.5: a producer that is not known may begin with any number.
    pub(super) lenient: bool,
    /// The leader hint of answers: leader and epoch.
    pub(super) hint: Option<(i32, i32)>,
    next_producer: i64,
    /// Everything that came in.
    pub(super) seen: Vec<Request>,
}

impl Partition {
    pub(super) fn new(leader: i32) -> Self {
        Partition {
            leader,
            epoch: 1,
            log_start: 0,
            end: 0,
            log: Vec::new(),
            sequences: HashMap::new(),
            aborted: Vec::new(),
        }
    }

    /// Appends a batch as a leader does; gives code and base offset.
    fn append(&mut self, bytes: &[u8], lenient: bool) -> (i16, i64) {
        let batch = BatchView::parse(bytes).expect("a whole batch");
        assert!(batch.verify_crc(), "the checksum of a produced batch");
        batch.check_produced().expect("a sound batch");
        if batch.producer_id() >= 0 {
            let next = self.sequences.get(&batch.producer_id()).copied();
            let (epoch, sequence) = (batch.producer_epoch(), batch.base_sequence());
            match next {
                Some((e, n)) if e == epoch && sequence < n => return (46, -1),
                Some((e, n)) if e == epoch && sequence > n => return (45, -1),
                Some((e, _)) if e > epoch => return (47, -1),
                Some((e, _)) if e < epoch && sequence != 0 => return (45, -1),
                None if sequence != 0 && !lenient => return (59, -1),
                _ => {}
            }
            self.sequences.insert(batch.producer_id(), (epoch, sequence + batch.count()));
        }
        let base = self.end;
        self.end += i64::from(batch.count());
        let mut bytes = bytes.to_vec();
        set_base_offset(&mut bytes, base).unwrap();
        self.log.push(bytes);
        (0, base)
    }

    /// Puts batches into the log as they are.
    pub(super) fn put(&mut self, batch: Vec<u8>) {
        self.end = self.end.max(BatchView::parse(&batch).expect("a whole batch").next_offset());
        self.log.push(batch);
    }

    fn read(&self, from: i64, max: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for batch in &self.log {
            if BatchView::parse(batch).is_ok_and(|view| view.next_offset() <= from) {
                continue;
            }
            if !out.is_empty() && out.len() + batch.len() > max {
                break;
            }
            out.extend_from_slice(batch);
        }
        out
    }

    /// The values of all records.
    pub(super) fn values(&self) -> Vec<String> {
        let bytes = self.log.concat();
        let mut out = Vec::new();
        for batch in Batches::new(&bytes).map(Result::unwrap) {
            for record in batch.records().unwrap().map(Result::unwrap) {
                out.push(String::from_utf8(record.value.unwrap_or(b"-").to_vec()).unwrap());
            }
        }
        out
    }
}

impl Cluster {
    pub(super) fn new(brokers: &[(i32, &str)]) -> Self {
        Cluster {
            brokers: brokers.iter().map(|(id, at)| (*id, at.parse().unwrap())).collect(),
            hosts: HashMap::new(),
            topics: BTreeMap::new(),
            versions: vec![
                (0, 3, 12),
                (1, 4, 12),
                (2, 1, 8),
                (3, 0, 12),
                (18, 0, 4),
                (19, 2, 7),
                (22, 0, 5),
                (10, 0, 4),
            ],
            script: HashMap::new(),
            auto_create: 0,
            throttle_ms: 0,
            lenient: false,
            hint: None,
            next_producer: 1000,
            seen: Vec::new(),
        }
    }

    pub(super) fn add_topic(&mut self, name: &str, leaders: &[i32]) {
        let partitions = leaders.iter().map(|leader| Partition::new(*leader)).collect();
        self.topics.insert(name.to_owned(), Topic { code: 0, partitions });
    }

    pub(super) fn part(&mut self, topic: &str, partition: usize) -> &mut Partition {
        &mut self.topics.get_mut(topic).expect("a topic").partitions[partition]
    }

    pub(super) fn plan(&mut self, key: ApiKey, acts: impl IntoIterator<Item = Act>) {
        self.script.entry(key.0).or_default().extend(acts);
    }

    pub(super) fn count(&self, key: ApiKey) -> usize {
        self.seen.iter().filter(|request| request.key == key).count()
    }

    /// Reads a frame that came to a broker.
    pub(super) fn parse(node: i32, frame: &[u8]) -> Request {
        let mut r = Reader::new(frame);
        let header = RequestHeader::read(&mut r).expect("a request header");
        assert_eq!(header.client_id, Some("test"));
        Request {
            key: header.api_key,
            version: header.api_version,
            correlation: header.correlation_id,
            node,
            body: r.rest().to_vec(),
        }
    }

    /// What a broker does with a request: a frame, nothing, or `None` to end the connection (the
    /// flag: because the answer is too large).
    pub(super) fn handle(&mut self, request: &Request) -> Result<Option<Vec<u8>>, bool> {
        self.seen.push(request.clone());
        let act = self.script.get_mut(&request.key.0).and_then(VecDeque::pop_front);
        let act = act.unwrap_or(Act::Serve);
        let mut correlation = request.correlation;
        let (mut version, mut wrong) = (request.version, 0);
        let body = match act {
            Act::Silence => return Ok(None),
            Act::Hangup => return Err(false),
            Act::TooLarge => return Err(true),
            Act::WriteAndHangup => {
                self.serve(request, 0, true);
                return Err(false);
            }
            Act::Body(body) => body,
            Act::Damaged(seed) => match self.serve(request, 0, true) {
                Some(body) => damage(body, seed),
                None => return Ok(None),
            },
            Act::Serve => match self.serve(request, 0, true) {
                Some(body) => body,
                None => return Ok(None),
            },
            Act::Code(code) => {
                if request.key == ApiKey::API_VERSIONS {
                    version = 0;
                }
                self.serve(request, code, false).unwrap_or_default()
            }
            Act::WriteAndCode(code) => self.serve(request, code, true).unwrap_or_default(),
            Act::Correlation(by) => {
                wrong = by;
                self.serve(request, 0, true).unwrap_or_default()
            }
        };
        correlation += wrong;
        let mut frame = vec![0; 16];
        let mut w = Writer::new(&mut frame);
        ResponseHeader { correlation_id: correlation }.write(&mut w, request.key, version);
        let n = w.finish().unwrap();
        frame.truncate(n);
        frame.extend(body);
        Ok(Some(frame))
    }

    fn serve(&mut self, request: &Request, code: i16, write: bool) -> Option<Vec<u8>> {
        match request.key {
            ApiKey::API_VERSIONS => Some(self.api_versions(request, code)),
            ApiKey::METADATA => Some(self.metadata(request, code)),
            ApiKey::PRODUCE => self.produce(request, code, write),
            ApiKey::FETCH => Some(self.fetch(request, code)),
            ApiKey::LIST_OFFSETS => Some(self.list_offsets(request, code)),
            ApiKey::INIT_PRODUCER_ID => Some(self.init_producer_id(request, code)),
            _ => Some(request.body.clone()),
        }
    }

    fn api_versions(&mut self, request: &Request, code: i16) -> Vec<u8> {
        let supported = self.versions.iter().find(|api| api.0 == 18).map_or(0, |api| api.2);
        let code = if code == 0 && request.version > supported { 35 } else { code };
        let version = if code == 35 { 0 } else { request.version };
        let apis = self.versions.clone();
        let emit = |out: &mut ArrayWriter<'_, '_, ApiVersion>| {
            for &(api_key, min_version, max_version) in &apis {
                out.push(&ApiVersion { api_key, min_version, max_version });
            }
        };
        let answer = ApiVersionsResponse {
            error_code: code,
            api_keys: Array::emit(apis.len(), &emit),
            throttle_time_ms: 0,
            ..Default::default()
        };
        encode(&answer, version)
    }

    fn metadata(&mut self, request: &Request, code: i16) -> Vec<u8> {
        let asked = MetadataRequest::decode(&request.body, request.version).unwrap();
        let names: Vec<String> =
            asked.topics.iter().flatten().filter_map(|t| t.name).map(str::to_owned).collect();
        for name in &names {
            if self.auto_create > 0 && asked.allow_auto_topic_creation {
                let leader = *self.brokers.keys().next().unwrap();
                let leaders = vec![leader; self.auto_create];
                if !self.topics.contains_key(name) {
                    self.add_topic(name, &leaders);
                }
            }
        }
        let brokers: Vec<(i32, String, i32)> = self
            .brokers
            .iter()
            .map(|(id, at)| {
                let host = self.hosts.get(id).cloned().unwrap_or(at.ip().to_string());
                (*id, host, i32::from(at.port()))
            })
            .collect();
        let emit_brokers = |out: &mut ArrayWriter<'_, '_, MetadataBroker<'static>>| {
            for (node_id, host, port) in &brokers {
                out.push(&MetadataBroker { node_id: *node_id, host, port: *port, rack: None });
            }
        };
        let topics = &self.topics;
        let emit_topics = |out: &mut ArrayWriter<'_, '_, MetadataTopic<'static>>| {
            for name in &names {
                let topic = topics.get(name);
                let parts = topic.map_or(&[][..], |topic| &topic.partitions);
                let emit = |out: &mut ArrayWriter<'_, '_, MetadataPartition<'static>>| {
                    for (i, part) in parts.iter().enumerate() {
                        out.push(&MetadataPartition {
                            error_code: if part.leader < 0 { 5 } else { 0 },
                            partition_index: i as i32,
                            leader_id: part.leader,
                            leader_epoch: part.epoch,
                            ..Default::default()
                        });
                    }
                };
                let missing = topic.map_or(3, |topic| topic.code);
                out.push(&MetadataTopic {
                    error_code: if code == 0 { missing } else { code },
                    name: Some(name),
                    partitions: Array::emit(parts.len(), &emit),
                    ..Default::default()
                });
            }
        };
        let answer = MetadataResponse {
            throttle_time_ms: self.throttle_ms,
            brokers: Array::emit(brokers.len(), &emit_brokers),
            controller_id: 1,
            topics: Array::emit(names.len(), &emit_topics),
            ..Default::default()
        };
        encode(&answer, request.version)
    }

    fn produce(&mut self, request: &Request, code: i16, write: bool) -> Option<Vec<u8>> {
        let asked = ProduceRequest::decode(&request.body, request.version).unwrap();
        let mut out: Vec<(String, i32, i16, i64)> = Vec::new();
        for topic in asked.topic_data {
            for data in topic.partition_data {
                let lenient = self.lenient;
                let part = self.part(topic.name, data.index as usize);
                let bytes = data.records.expect("records");
                let (mut answer, mut base) = (code, -1);
                if part.leader != request.node {
                    answer = 6;
                } else if write {
                    let (append, offset) = part.append(bytes, lenient);
                    if code == 0 {
                        (answer, base) = (append, offset);
                    }
                }
                out.push((topic.name.to_owned(), data.index, answer, base));
            }
        }
        if asked.acks == 0 {
            return None;
        }
        let hint = self.hint;
        let emit = |w: &mut ArrayWriter<'_, '_, ProduceTopicResponse<'static>>| {
            for run in out.chunk_by(|a, b| a.0 == b.0) {
                let emit = |w: &mut ArrayWriter<'_, '_, ProducePartitionResponse<'static>>| {
                    for (_, index, error_code, base_offset) in run {
                        let (leader_id, leader_epoch) = hint.unwrap_or((-1, -1));
                        w.push(&ProducePartitionResponse {
                            index: *index,
                            error_code: *error_code,
                            base_offset: *base_offset,
                            log_start_offset: 0,
                            current_leader: LeaderIdAndEpoch { leader_id, leader_epoch },
                            ..Default::default()
                        });
                    }
                };
                w.push(&ProduceTopicResponse {
                    name: &run[0].0,
                    partition_responses: Array::emit(run.len(), &emit),
                    ..Default::default()
                });
            }
        };
        let runs = out.chunk_by(|a, b| a.0 == b.0).count();
        let answer = ProduceResponse {
            responses: Array::emit(runs, &emit),
            throttle_time_ms: self.throttle_ms,
            ..Default::default()
        };
        Some(encode(&answer, request.version))
    }

    fn fetch(&mut self, request: &Request, code: i16) -> Vec<u8> {
        let asked = FetchRequest::decode(&request.body, request.version).unwrap();
        type Row = (String, i32, i16, Partition, Vec<u8>);
        let mut rows: Vec<Row> = Vec::new();
        for topic in asked.topics {
            for p in topic.partitions {
                let part = self.part(topic.topic, p.partition as usize).clone();
                let mut answer = code;
                if answer == 0 && part.leader != request.node {
                    answer = 6;
                }
                if answer == 0 && (p.fetch_offset < part.log_start || p.fetch_offset > part.end) {
                    answer = 1;
                }
                let max = p.partition_max_bytes as usize;
                let bytes = if answer == 0 { part.read(p.fetch_offset, max) } else { Vec::new() };
                rows.push((topic.topic.to_owned(), p.partition, answer, part, bytes));
            }
        }
        fetch_answer(&rows, request.version)
    }

    fn list_offsets(&mut self, request: &Request, code: i16) -> Vec<u8> {
        let asked = ListOffsetsRequest::decode(&request.body, request.version).unwrap();
        let mut rows: Vec<(String, i32, i16, i64)> = Vec::new();
        for topic in asked.topics {
            for p in topic.partitions {
                let part = self.part(topic.name, p.partition_index as usize);
                let offset = match p.timestamp {
                    -1 => part.end,
                    -2 => part.log_start,
                    time => part.at_time(time),
                };
                let offset = if code == 0 { offset } else { -1 };
                rows.push((topic.name.to_owned(), p.partition_index, code, offset));
            }
        }
        let emit = |w: &mut ArrayWriter<'_, '_, ListOffsetsTopicResponse<'static>>| {
            for (name, partition_index, error_code, offset) in &rows {
                let row = ListOffsetsPartitionResponse {
                    partition_index: *partition_index,
                    error_code: *error_code,
                    offset: *offset,
                    ..Default::default()
                };
                let emit = |w: &mut ArrayWriter<'_, '_, ListOffsetsPartitionResponse>| w.push(&row);
                w.push(&ListOffsetsTopicResponse { name, partitions: Array::emit(1, &emit) });
            }
        };
        let answer =
            ListOffsetsResponse { topics: Array::emit(rows.len(), &emit), ..Default::default() };
        encode(&answer, request.version)
    }

    fn init_producer_id(&mut self, request: &Request, code: i16) -> Vec<u8> {
        self.next_producer += i64::from(code == 0);
        let answer = InitProducerIdResponse {
            error_code: code,
            producer_id: if code == 0 { self.next_producer } else { -1 },
            producer_epoch: 0,
            ..Default::default()
        };
        encode(&answer, request.version)
    }
}

impl Partition {
    fn at_time(&self, time: i64) -> i64 {
        let bytes = self.log.concat();
        for batch in Batches::new(&bytes).map(Result::unwrap) {
            for record in batch.records().unwrap().map(Result::unwrap) {
                if batch.timestamp_of(&record) >= time {
                    return batch.offset_of(&record);
                }
            }
        }
        -1
    }
}

/// An answer to a Fetch from rows of topic, partition, code, model and records.
pub(super) fn fetch_answer(
    rows: &[(String, i32, i16, Partition, Vec<u8>)],
    version: i16,
) -> Vec<u8> {
    let emit = |w: &mut ArrayWriter<'_, '_, FetchTopicResponse<'static>>| {
        for (topic, partition_index, error_code, part, records) in rows {
            let aborted = |w: &mut ArrayWriter<'_, '_, AbortedTransaction>| {
                for &(producer_id, first_offset) in &part.aborted {
                    w.push(&AbortedTransaction { producer_id, first_offset });
                }
            };
            let row = FetchPartitionResponse {
                partition_index: *partition_index,
                error_code: *error_code,
                high_watermark: part.end,
                last_stable_offset: part.end,
                log_start_offset: part.log_start,
                aborted_transactions: Some(Array::emit(part.aborted.len(), &aborted)),
                records: Some(records),
                ..Default::default()
            };
            let emit = |w: &mut ArrayWriter<'_, '_, FetchPartitionResponse<'static>>| w.push(&row);
            w.push(&FetchTopicResponse {
                topic,
                partitions: Array::emit(1, &emit),
                ..Default::default()
            });
        }
    };
    let answer = FetchResponse { responses: Array::emit(rows.len(), &emit), ..Default::default() };
    encode(&answer, version)
}

pub(super) fn encode<'a, M: Message<'a>>(message: &M, version: i16) -> Vec<u8> {
    let mut buf = vec![0; message.encoded_len(version)];
    let mut w = Writer::new(&mut buf);
    message.encode(&mut w, version);
    let n = w.finish().expect("an answer that can be written");
    assert_eq!(n, buf.len());
    buf
}

/// Changes some bytes, or cuts some off.
pub(super) fn damage(mut bytes: Vec<u8>, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    if random.below(4) == 0 {
        bytes.truncate(random.below(bytes.len() as u32 + 1) as usize);
    }
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() as u32) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = [0, 1, 0x7f, 0x80, 0xff, random.below(256) as u8][random.below(6) as usize];
        }
    }
    bytes
}

/// What a code is called, for messages of failed assertions.
pub(super) fn name(code: i16) -> &'static str {
    ErrorCode(code).name()
}

impl Cluster {
    /// Whether a Fetch would bring something: records, or an error.
    pub(super) fn has_data(&mut self, request: &Request) -> bool {
        let asked = FetchRequest::decode(&request.body, request.version).unwrap();
        asked.topics.iter().any(|topic| {
            topic.partitions.iter().any(|p| {
                let part = self.part(topic.topic, p.partition as usize);
                let out = p.fetch_offset < part.log_start || p.fetch_offset > part.end;
                out || part.leader != request.node || p.fetch_offset < part.end
            })
        })
    }

    /// How long a Fetch may wait.
    pub(super) fn wait_of(&self, request: &Request) -> core::time::Duration {
        let asked = FetchRequest::decode(&request.body, request.version).unwrap();
        core::time::Duration::from_millis(asked.max_wait_ms as u64)
    }
}
