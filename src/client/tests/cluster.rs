//! Cluster: brokers with a small model of topics and logs, which do what a test's script says.

use crate::client::random::Random;
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
    /// What Produce answers say instead of the base offset.
    pub(super) base_lie: Option<i64>,
    pub(super) next_producer: i64,
    /// The epoch that new producer ids come with.
    pub(super) first_epoch: i16,
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
    pub(super) fn append(&mut self, bytes: &[u8], lenient: bool) -> (i16, i64) {
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

    pub(super) fn read(&self, from: i64, max: usize) -> Vec<u8> {
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
            base_lie: None,
            next_producer: 1000,
            first_epoch: 0,
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
