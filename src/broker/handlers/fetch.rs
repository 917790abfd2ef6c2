//! Fetch: batches from the log, by reference, or a wait until there are enough.
//!
//! There are no sessions: every answer says session 0, and clients then name all partitions each
//! time (KIP-227 allows it). There are no transactions: the last stable offset is the end of the
//! log, and no transaction was aborted.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::broker::answer::Answer;
use crate::broker::core::{Core, count};
use crate::broker::epoch;
use crate::broker::log::{LEADER_EPOCH, Log, OutOfRange, Take};
use crate::broker::request::{Done, Outcome, Request, Stop, WaitFor};
use crate::broker::scratch::{Part, Scratch};
use crate::net::SharedLease;
use crate::protocol::messages::{
    FetchEpochEndOffset, FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse,
    FetchTopic, FetchTopicResponse,
};
use crate::protocol::{Array, ArrayWriter, ErrorCode};
use core::time::Duration;

/// Reads, or parks until there is enough to read.
pub(super) fn handle(
    core: &Core,
    scratch: &mut Scratch,
    request: &Request<'_>,
    answer: &mut Answer<'_>,
) -> Outcome {
    let body: FetchRequest<'_> = request.decode()?;
    // 0 asks for a session and -1 for none. All else goes on with one, and none was ever given out.
    if !matches!(body.session_epoch, 0 | -1) {
        let error_code = ErrorCode::FETCH_SESSION_ID_NOT_FOUND.0;
        answer.message(&FetchResponse { error_code, ..Default::default() })?;
        return Ok(Done::Answered);
    }
    let wait = Duration::from_millis(u64::try_from(body.max_wait_ms).unwrap_or(0));
    let until = request.arrived.after(wait);
    if request.may_wait(until) && !is_enough(core, scratch, &body) {
        return Err(Stop::Park { until, on: WaitFor::Appends });
    }
    let asked: usize = body.topics.iter().map(|topic| topic.partitions.len()).sum();
    if asked > scratch.parts.len() {
        return Err(Stop::Close("more partitions asked for than the broker can have"));
    }
    let bytes = read_all(core, scratch, &body, asked);
    write(scratch, &body, asked, answer)?;
    count(&core.counts.bytes_out, bytes);
    Ok(Done::Answered)
}

/// Whether the answer is due: there are `min_bytes`, or there is an error to tell. Lists the
/// partitions that an append would change it for.
fn is_enough(core: &Core, scratch: &mut Scratch, body: &FetchRequest<'_>) -> bool {
    // No more is waited for than an answer may hold.
    let most = usize::try_from(body.max_bytes).unwrap_or(0).min(core.settings.fetch_max_bytes);
    let enough = usize::try_from(body.min_bytes).unwrap_or(0).min(most);
    let mut bytes = 0;
    let mut any = false;
    scratch.watch.clear();
    for topic in body.topics {
        let found = core.topics.by_name(topic.topic);
        for asked in topic.partitions {
            any = true;
            let partition = found.as_ref().and_then(|topic| topic.partition(asked.partition));
            let Some(partition) = partition else { return true };
            scratch.watch.add(partition.index);
            let limit = usize::try_from(asked.partition_max_bytes).unwrap_or(0);
            let available = partition.read(|log| match check(log, &asked) {
                Ok(()) => log.available(asked.fetch_offset, limit.min(enough)),
                Err(_) => Err(OutOfRange),
            });
            let Ok(Ok(available)) = available else { return true };
            bytes += available.min(limit.max(1));
            if bytes >= enough {
                return true;
            }
        }
    }
    !any
}

/// What the client believes of the partition, checked (KIP-320).
fn check(log: &Log, asked: &FetchPartition) -> Result<(), Part> {
    let refused = epoch::check(asked.current_leader_epoch);
    if !refused.is_ok() {
        return Err(error(refused));
    }
    // v12: the epoch of the last record that the reader has; its end must not lie before what the
    // reader asks for (KIP-595). An epoch that never was cannot be answered for.
    if asked.last_fetched_epoch > LEADER_EPOCH {
        return Err(error(ErrorCode::OFFSET_OUT_OF_RANGE));
    }
    if asked.last_fetched_epoch == LEADER_EPOCH && log.end_offset() < asked.fetch_offset {
        return Err(Part { diverges: true, ..state(log) });
    }
    if asked.fetch_offset < log.start_offset() || asked.fetch_offset > log.end_offset() {
        return Err(Part { error: ErrorCode::OFFSET_OUT_OF_RANGE, ..state(log) });
    }
    Ok(())
}

fn error(error: ErrorCode) -> Part {
    Part { error, offset: -1, log_start: -1, ..Part::default() }
}

fn state(log: &Log) -> Part {
    Part { offset: log.end_offset(), log_start: log.start_offset(), ..Part::default() }
}

/// Reads in the order of the request until bytes or views are used up (KIP-74); gives the bytes.
fn read_all(core: &Core, scratch: &mut Scratch, body: &FetchRequest<'_>, asked: usize) -> usize {
    let parts = scratch.parts.get_mut(..asked).unwrap_or_default();
    let mut place = parts.iter_mut();
    let mut views = &mut scratch.views[..];
    let max = usize::try_from(body.max_bytes).unwrap_or(0).min(core.settings.fetch_max_bytes);
    let mut bytes = 0;
    for topic in body.topics {
        let found = core.topics.by_name(topic.topic);
        for asked in topic.partitions {
            let partition = found.as_ref().and_then(|topic| topic.partition(asked.partition));
            let limit = usize::try_from(asked.partition_max_bytes).unwrap_or(0);
            let take = Take {
                places: &mut *views,
                limit: limit.min(max.saturating_sub(bytes)),
                one_anyway: bytes == 0,
            };
            let part = match partition.map(|p| p.read(|log| read_one(log, &asked, take))) {
                Some(Ok(part)) => part,
                Some(Err(_)) => error(ErrorCode::KAFKA_STORAGE_ERROR),
                None => error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            };
            bytes += part.bytes;
            views = views.get_mut(part.views..).unwrap_or_default();
            if let Some(place) = place.next() {
                *place = part;
            }
        }
    }
    bytes
}

fn read_one(log: &mut Log, asked: &FetchPartition, take: Take<'_>) -> Part {
    if let Err(part) = check(log, asked) {
        return part;
    }
    match log.read(asked.fetch_offset, take) {
        Ok((bytes, views)) => Part { bytes, views, ..state(log) },
        Err(OutOfRange) => Part { error: ErrorCode::OFFSET_OUT_OF_RANGE, ..state(log) },
    }
}

fn write(
    scratch: &mut Scratch,
    body: &FetchRequest<'_>,
    asked: usize,
    answer: &mut Answer<'_>,
) -> Result<(), Stop> {
    let Scratch { parts, views, cuts, .. } = scratch;
    let parts = parts.get(..asked).unwrap_or(&[]);
    let committed = body.isolation_level != 0;
    let topics = |out: &mut ArrayWriter<'_, '_, FetchTopicResponse<'static>>| {
        let mut rest = parts;
        for topic in body.topics {
            let (own, others) = rest.split_at_checked(topic.partitions.len()).unwrap_or_default();
            rest = others;
            push_topic(out, &topic, own, committed);
        }
    };
    let responses = Array::emit(body.topics.len(), &topics);
    let runs = parts.iter().filter(|part| part.bytes > 0).map(|part| part.views);
    let views: &mut [Option<SharedLease>] = views;
    let response = FetchResponse { responses, ..Default::default() };
    Ok(answer.gathered(&response, cuts, runs, views)?)
}

fn push_topic(
    out: &mut ArrayWriter<'_, '_, FetchTopicResponse<'static>>,
    topic: &FetchTopic<'_>,
    parts: &[Part],
    committed: bool,
) {
    let partitions = |out: &mut ArrayWriter<'_, '_, FetchPartitionResponse<'static>>| {
        for (partition, part) in topic.partitions.iter().zip(parts) {
            let end = FetchEpochEndOffset { epoch: LEADER_EPOCH, end_offset: part.offset };
            let response = FetchPartitionResponse {
                partition_index: partition.partition,
                error_code: part.error.0,
                high_watermark: part.offset,
                last_stable_offset: part.offset,
                log_start_offset: part.log_start,
                diverging_epoch: if part.diverges { end } else { Default::default() },
                aborted_transactions: committed.then(Array::empty),
                // No records is empty, not null, as Kafka answers.
                records: Some(&[]),
                ..Default::default()
            };
            if part.bytes > 0 {
                out.push_external(&response, part.bytes);
            } else {
                out.push(&response);
            }
        }
    };
    let partitions = Array::emit(topic.partitions.len(), &partitions);
    let topic = topic.topic;
    out.push(&FetchTopicResponse { topic, partitions, ..Default::default() });
}
