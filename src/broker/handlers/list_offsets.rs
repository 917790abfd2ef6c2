//! ListOffsets: the ends of partitions, and the offset that belongs to a time.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::broker::answer::Answer;
use crate::broker::batch_reader::BatchReader;
use crate::broker::core::Core;
use crate::broker::epoch;
use crate::broker::log::{LEADER_EPOCH, first_since, newest_in};
use crate::broker::partition::{Partition, Stopped};
use crate::broker::request::{Done, Outcome, Request, Stop};
use crate::broker::scratch::{Met, Part, Scratch};
use crate::protocol::messages::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopic, ListOffsetsTopicResponse,
};
use crate::protocol::{Array, ArrayWriter, ErrorCode};

/// The log's end.
const LATEST: i64 = -1;
/// The log's start.
const EARLIEST: i64 = -2;
/// The record with the largest timestamp (KIP-734), from v7 on.
const MAX_TIMESTAMP: i64 = -3;

/// Tells offsets.
pub(super) fn handle(
    core: &Core,
    scratch: &mut Scratch,
    request: &Request<'_>,
    answer: &mut Answer<'_>,
) -> Outcome {
    let body: ListOffsetsRequest<'_> = request.decode()?;
    let asked: usize = body.topics.iter().map(|topic| topic.partitions.len()).sum();
    let Some(parts) = scratch.parts.get_mut(..asked) else {
        return Err(Stop::Close("more partitions asked for than the broker can have"));
    };
    scratch.met.begin();
    scratch.batch_reader.begin_request();
    let mut twice = false;
    let mut place = parts.iter_mut();
    for topic in body.topics {
        let found = core.topics.by_name(topic.name);
        for asked in topic.partitions {
            let partition = found.as_ref().and_then(|t| t.partition(asked.partition_index));
            let part = match partition {
                None => error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                Some(partition) if scratch.met.again(partition.index) => {
                    twice = true;
                    error(ErrorCode::INVALID_REQUEST)
                }
                Some(partition) => {
                    find(partition, &asked, request.version(), &mut scratch.batch_reader)
                        .unwrap_or(error(ErrorCode::KAFKA_STORAGE_ERROR))
                }
            };
            if let Some(place) = place.next() {
                *place = part;
            }
        }
    }
    if twice {
        refuse_repeated(core, &mut scratch.met, &body, parts);
    }
    write(&body.topics, parts, answer)
}

/// A partition that is asked about more than once gets an error each time: also where it stands
/// first, which was answered when that was not known.
fn refuse_repeated(core: &Core, met: &mut Met, body: &ListOffsetsRequest<'_>, parts: &mut [Part]) {
    let mut walk = |met: &mut Met, each: Each<'_>| {
        let mut place = parts.iter_mut();
        for topic in body.topics {
            let found = core.topics.by_name(topic.name);
            for asked in topic.partitions {
                let partition = found.as_ref().and_then(|t| t.partition(asked.partition_index));
                let (Some(part), Some(partition)) = (place.next(), partition) else { continue };
                each(met, partition.index, part);
            }
        }
    };
    met.begin();
    walk(met, &mut |met, index, part| {
        if part.error == ErrorCode::INVALID_REQUEST {
            met.again(index);
        }
    });
    walk(met, &mut |met, index, part| {
        if part.error != ErrorCode::INVALID_REQUEST && met.again(index) {
            *part = error(ErrorCode::INVALID_REQUEST);
        }
    });
}

/// What is done with each partition that was asked about and is there.
type Each<'a> = &'a mut dyn FnMut(&mut Met, u32, &mut Part);

fn error(error: ErrorCode) -> Part {
    Part { error, offset: -1, timestamp: -1, ..Part::default() }
}

fn find(
    partition: &Partition,
    asked: &ListOffsetsPartition,
    version: i16,
    batch_reader: &mut BatchReader,
) -> Result<Part, Stopped> {
    let refused = epoch::check(asked.current_leader_epoch);
    if !refused.is_ok() {
        return Ok(error(refused));
    }
    let at = |offset| Part { offset, timestamp: -1, ..Part::default() };
    // A time is looked up in two steps: the batch under the lock, the record in it without.
    let found = match asked.timestamp {
        // Without transactions the last stable offset is the end too.
        LATEST => return partition.read(|log| at(log.end_offset())),
        EARLIEST => return partition.read(|log| at(log.start_offset())),
        MAX_TIMESTAMP if version >= 7 => {
            let batch = partition.read(|log| log.newest_batch())?;
            batch.and_then(|batch| newest_in(&batch, batch_reader))
        }
        time if time >= 0 => {
            let batch = partition.read(|log| log.batch_since(time))?;
            batch.and_then(|batch| first_since(&batch, time, batch_reader))
        }
        _ => return Ok(error(ErrorCode::UNSUPPORTED_VERSION)),
    };
    // No record so late is no error, but offset and timestamp -1.
    let none = error(ErrorCode::NONE);
    Ok(found.map_or(none, |f| Part { offset: f.offset, timestamp: f.timestamp, ..none }))
}

fn write(
    asked: &Array<'_, ListOffsetsTopic<'static>>,
    parts: &[Part],
    answer: &mut Answer<'_>,
) -> Outcome {
    let topics = |out: &mut ArrayWriter<'_, '_, ListOffsetsTopicResponse<'static>>| {
        let mut rest = parts;
        for topic in *asked {
            let (own, others) = rest.split_at_checked(topic.partitions.len()).unwrap_or_default();
            rest = others;
            let partitions = |out: &mut ArrayWriter<'_, '_, ListOffsetsPartitionResponse>| {
                for (partition, part) in topic.partitions.iter().zip(own) {
                    out.push(&ListOffsetsPartitionResponse {
                        partition_index: partition.partition_index,
                        error_code: part.error.0,
                        timestamp: part.timestamp,
                        offset: part.offset,
                        leader_epoch: if part.offset < 0 { -1 } else { LEADER_EPOCH },
                    });
                }
            };
            let partitions = Array::emit(topic.partitions.len(), &partitions);
            out.push(&ListOffsetsTopicResponse { name: topic.name, partitions });
        }
    };
    let topics = Array::emit(asked.len(), &topics);
    answer.message(&ListOffsetsResponse { topics, ..Default::default() })?;
    Ok(Done::Answered)
}
