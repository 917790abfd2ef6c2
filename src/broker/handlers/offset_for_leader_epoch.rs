//! OffsetForLeaderEpoch: where an epoch ends. There is one epoch, 0, and it ends where the log
//! ends; for any other the answer is that it is not known (KIP-320).
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::broker::answer::Answer;
use crate::broker::core::Core;
use crate::broker::epoch;
use crate::broker::log::{LEADER_EPOCH, Log};
use crate::broker::request::{Done, Outcome, Request, Stop};
use crate::broker::scratch::{Part, Scratch};
use crate::protocol::messages::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition, OffsetForLeaderTopic, OffsetForLeaderTopicResult,
};
use crate::protocol::{Array, ArrayWriter, ErrorCode};

/// Tells where epochs end.
pub(super) fn handle(
    core: &Core,
    scratch: &mut Scratch,
    request: &Request<'_>,
    answer: &mut Answer<'_>,
) -> Outcome {
    let body: OffsetForLeaderEpochRequest<'_> = request.decode()?;
    let asked: usize = body.topics.iter().map(|topic| topic.partitions.len()).sum();
    let Some(parts) = scratch.parts.get_mut(..asked) else {
        return Err(Stop::Close("more partitions asked for than the broker can have"));
    };
    let mut place = parts.iter_mut();
    for topic in body.topics {
        let found = core.topics.by_name(topic.topic);
        for asked in topic.partitions {
            let partition = found.as_ref().and_then(|topic| topic.partition(asked.partition));
            let part = match partition.map(|partition| partition.read(|log| end_of(log, &asked))) {
                Some(Ok(part)) => part,
                Some(Err(_)) => error(ErrorCode::KAFKA_STORAGE_ERROR),
                None => error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            };
            if let Some(place) = place.next() {
                *place = part;
            }
        }
    }
    write(&body.topics, parts, answer)
}

fn error(error: ErrorCode) -> Part {
    Part { error, offset: -1, ..Part::default() }
}

fn end_of(log: &Log, asked: &OffsetForLeaderPartition) -> Part {
    let refused = epoch::check(asked.current_leader_epoch);
    if !refused.is_ok() {
        return error(refused);
    }
    let known = asked.leader_epoch == LEADER_EPOCH;
    Part { offset: if known { log.end_offset() } else { -1 }, ..Part::default() }
}

fn write(
    asked: &Array<'_, OffsetForLeaderTopic<'static>>,
    parts: &[Part],
    answer: &mut Answer<'_>,
) -> Outcome {
    let topics = |out: &mut ArrayWriter<'_, '_, OffsetForLeaderTopicResult<'static>>| {
        let mut rest = parts;
        for topic in *asked {
            let (own, others) = rest.split_at_checked(topic.partitions.len()).unwrap_or_default();
            rest = others;
            let partitions = |out: &mut ArrayWriter<'_, '_, EpochEndOffset>| {
                for (partition, part) in topic.partitions.iter().zip(own) {
                    out.push(&EpochEndOffset {
                        error_code: part.error.0,
                        partition: partition.partition,
                        leader_epoch: if part.offset < 0 { -1 } else { LEADER_EPOCH },
                        end_offset: part.offset,
                    });
                }
            };
            let partitions = Array::emit(topic.partitions.len(), &partitions);
            out.push(&OffsetForLeaderTopicResult { topic: topic.topic, partitions });
        }
    };
    let topics = Array::emit(asked.len(), &topics);
    answer.message(&OffsetForLeaderEpochResponse { topics, ..Default::default() })?;
    Ok(Done::Answered)
}
