//! What the brokers of the model answer, by protocol structs.

use super::cluster::{Cluster, Partition, Request};
use crate::protocol::declare::{Array, ArrayWriter, Message};
use crate::protocol::messages::*;
use crate::protocol::records::Batches;
use crate::protocol::{ApiKey, Writer};

impl Cluster {
    pub(super) fn serve(&mut self, request: &Request, code: i16, write: bool) -> Option<Vec<u8>> {
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
                        (answer, base) = (append, self.base_lie.unwrap_or(offset));
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
            producer_epoch: self.first_epoch,
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
