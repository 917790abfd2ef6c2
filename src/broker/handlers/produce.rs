//! Produce: each batch is checked, and appended as it stands.
//!
//! The records are counted, so that no consumer meets fewer or more than the header says. Those of a
//! compressed batch only if the topic is compacted, for their keys: then the batch is inflated, to be
//! looked at and no more. The log keeps what the producer sent, and in other topics a compressed
//! batch whose records are damaged. Recompression and transactions are not served.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::broker::answer::Answer;
use crate::broker::batch_reader::{BatchReader, Unreadable};
use crate::broker::core::{Core, count};
use crate::broker::partition::{Append, Partition};
use crate::broker::request::{Done, Outcome, Request, Stop, WaitFor};
use crate::broker::scratch::{Appended, Part, Scratch};
use crate::broker::topics::{Topic, TopicConfig};
use crate::protocol::messages::{
    ProducePartitionResponse, ProduceRecordError, ProduceRequest, ProduceResponse,
    ProduceTopicData, ProduceTopicResponse,
};
use crate::protocol::reader::Malformed;
use crate::protocol::records::{BatchView, Compression, Records, batch};
use crate::protocol::{Array, ArrayWriter, ErrorCode, Message};
use crate::sync::Arc;
use crate::time::Moment;
use core::time::Duration;

/// The first version with error texts and record errors (KIP-467).
const ZSTD_FROM: i16 = 7;

/// Why records are refused that are none, or more than one batch.
const ONE_BATCH: &str = "a partition takes exactly one batch per request";

/// Why a batch is refused that came small.
const TOO_LARGE: &str = "the batch inflates to more than this broker takes: 16 MiB or \
    message.max.bytes, less with a small log.memory.bytes";

/// As long as the longest error text that is answered.
const LONGEST: &str = "................................................................\
    ................................................................";

/// Appends batches, or parks while the log's memory is used up.
pub(super) fn handle(
    core: &Core,
    scratch: &mut Scratch,
    request: &Request<'_>,
    answer: &mut Answer<'_>,
) -> Outcome {
    let body: ProduceRequest<'_> = request.decode()?;
    let asked: usize = body.topic_data.iter().map(|topic| topic.partition_data.len()).sum();
    let Some(parts) = scratch.parts.get_mut(..asked) else {
        return Err(Stop::Close("more partitions than the broker can have"));
    };
    let wait = Duration::from_millis(u64::try_from(body.timeout_ms).unwrap_or(0));
    let until = request.arrived.after(wait);
    let park = Err(Stop::Park { until, on: WaitFor::LogMemory });
    let may_wait = request.may_wait(until);
    // With one batch appending it shows whether there is memory; of several, none may be appended
    // before there is memory for all, because the request is handled anew after it parked.
    if asked > 1 && may_wait && !make_room(core, &body) {
        return park;
    }
    if body.acks != 0 {
        // After the append there must be nothing left that can fail.
        parts.fill(Part { message: Some(LONGEST), record: 0, ..Part::default() });
        answer.reserve(response(&body.topic_data, parts, |r| r.encoded_len(request.version())))?;
    }
    let valid = matches!(body.acks, -1..=1);
    scratch.batch_reader.begin_request();
    let mut place = parts.iter_mut();
    for topic in body.topic_data {
        let found = core.topics.by_name(topic.name);
        for data in topic.partition_data {
            let part = match &found {
                _ if !valid => refused(ErrorCode::INVALID_REQUIRED_ACKS),
                Some(found) => {
                    let data = Data { core, topic: found, index: data.index, bytes: data.records };
                    match data.append(request, &mut scratch.appended, &mut scratch.batch_reader) {
                        Some(part) => part,
                        None if asked == 1 && may_wait => return park,
                        None => refused(ErrorCode::REQUEST_TIMED_OUT),
                    }
                }
                None => refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            };
            if let Some(place) = place.next() {
                *place = part;
            }
        }
    }
    if body.acks == 0 {
        return match parts.iter().find(|part| !part.error.is_ok()) {
            // The end of the connection is the only way to tell a producer that asks for no answer.
            Some(part) => Err(Stop::Close(part.message.unwrap_or(part.error.message()))),
            None => Ok(Done::Silent),
        };
    }
    response(&body.topic_data, parts, |r| answer.message(r))?;
    Ok(Done::Answered)
}

/// One partition's part of the request.
struct Data<'a> {
    core: &'a Core,
    topic: &'a Topic,
    index: i32,
    bytes: Option<&'a [u8]>,
}

impl Data<'_> {
    /// What became of the batch; `None` if there is no memory for it now.
    fn append(
        &self,
        request: &Request<'_>,
        appended: &mut Appended,
        batch_reader: &mut BatchReader,
    ) -> Option<Part> {
        let Some(partition) = self.topic.partition(self.index) else {
            return Some(refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        };
        let batch = match check(self.bytes, self.topic, request.version()) {
            Ok(batch) => batch,
            Err(part) => return Some(part),
        };
        // A request that waits for memory is not to be inflated each time it is handled anew.
        if self.topic.config.compact
            && batch.attributes().is_compressed()
            && !partition.make_room(self.core, batch.total_len())
        {
            return None;
        }
        let times = Times::of(&self.topic.config, request.now);
        // The records first: their check knows which of them it is.
        let checked = check_records(&batch, self.topic, times, batch_reader);
        if let Err(part) = checked.and_then(|()| times.check_header(&batch)) {
            return Some(part);
        }
        let stamp = self.topic.config.log_append_time.then_some(request.now.wall_ms);
        self.outcome(partition, partition.append(self.core, &batch, stamp), &batch, appended)
    }

    fn outcome(
        &self,
        partition: &Arc<Partition>,
        append: Append,
        batch: &BatchView<'_>,
        appended: &mut Appended,
    ) -> Option<Part> {
        let counts = &self.core.counts;
        match append {
            Append::Done { base_offset, append_time, log_start, duplicate } => {
                if duplicate {
                    count(&counts.duplicates, 1);
                } else {
                    count(&counts.batches_in, 1);
                    count(&counts.bytes_in, batch.total_len());
                    appended.note(partition.index);
                }
                let (offset, timestamp) = (base_offset, append_time);
                Some(Part { offset, timestamp, log_start, record: -1, ..Part::default() })
            }
            Append::Refused(error) => Some(refused(error)),
            Append::NoMemory => None,
        }
    }
}

fn refused(error: ErrorCode) -> Part {
    Part { error, offset: -1, timestamp: -1, log_start: -1, record: -1, ..Part::default() }
}

fn invalid(why: &'static str) -> Part {
    Part { message: Some(why), ..refused(ErrorCode::INVALID_RECORD) }
}

/// Makes room for every batch of the request; says whether there was memory.
fn make_room(core: &Core, body: &ProduceRequest<'_>) -> bool {
    for topic in body.topic_data {
        let Some(found) = core.topics.by_name(topic.name) else { continue };
        for data in topic.partition_data {
            let Some(partition) = found.partition(data.index) else { continue };
            let len = data.records.map_or(0, <[u8]>::len);
            // One that is too large is refused later, without a block.
            if len <= found.config.max_message_bytes && !partition.make_room(core, len) {
                return false;
            }
        }
    }
    true
}

/// The one batch that these bytes must be, as far as its header tells.
fn check<'a>(bytes: Option<&'a [u8]>, topic: &Topic, version: i16) -> Result<BatchView<'a>, Part> {
    let bytes = bytes.unwrap_or(&[]);
    if bytes.is_empty() {
        return Err(invalid(ONE_BATCH));
    }
    if bytes.get(batch::MAGIC_AT).is_some_and(|magic| *magic as i8 != batch::MAGIC) {
        return Err(invalid("only record batches of magic 2 are taken"));
    }
    let batch = BatchView::parse(bytes).map_err(|Malformed(why)| Part {
        message: Some(why),
        ..refused(ErrorCode::CORRUPT_MESSAGE)
    })?;
    if batch.total_len() != bytes.len() {
        return Err(invalid(ONE_BATCH));
    }
    if batch.total_len() > topic.config.max_message_bytes {
        return Err(refused(ErrorCode::MESSAGE_TOO_LARGE));
    }
    if !batch.verify_crc() {
        return Err(refused(ErrorCode::CORRUPT_MESSAGE));
    }
    let attributes = batch.attributes();
    if attributes.compression().is_none() {
        let message = Some("a codec that does not exist");
        return Err(Part { message, ..refused(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE) });
    }
    batch.check_produced().map_err(|Malformed(why)| invalid(why))?;
    if batch.base_offset() != 0 {
        return Err(invalid("the base offset of a produced batch is not 0"));
    }
    if attributes.compression() == Some(Compression::Zstd) && version < ZSTD_FROM {
        return Err(refused(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE));
    }
    if attributes.is_transactional() {
        let message = Some("transactions are not served");
        return Err(Part { message, ..refused(ErrorCode::INVALID_TXN_STATE) });
    }
    Ok(batch)
}

/// Between which times a timestamp may lie (KIP-937): any, if the broker stamps.
#[derive(Clone, Copy)]
struct Times {
    oldest: i64,
    newest: i64,
}

impl Times {
    fn of(config: &TopicConfig, now: Moment) -> Times {
        if config.log_append_time {
            return Times { oldest: i64::MIN, newest: i64::MAX };
        }
        Times {
            oldest: now.wall_ms.saturating_sub(config.before_max_ms),
            newest: now.wall_ms.saturating_add(config.after_max_ms),
        }
    }

    /// Whether a timestamp may be; none (-1) may.
    #[inline]
    fn allow(self, time: i64) -> bool {
        time <= self.newest && (time >= self.oldest || time < 0)
    }

    /// What the header says: all that is known where nobody looks at the records.
    fn check_header(self, batch: &BatchView<'_>) -> Result<(), Part> {
        if self.allow(batch.base_timestamp()) && self.allow(batch.max_timestamp()) {
            return Ok(());
        }
        Err(refused(ErrorCode::INVALID_TIMESTAMP))
    }
}

/// The records: that there are as many as the header says, that none is too old or too new, and in a
/// compacted topic that each is whole and has a key. Those of a compressed batch are looked at only
/// there.
fn check_records(
    batch: &BatchView<'_>,
    topic: &Topic,
    times: Times,
    batch_reader: &mut BatchReader,
) -> Result<(), Part> {
    let compact = topic.config.compact;
    if !compact && batch.attributes().is_compressed() {
        return Ok(());
    }
    let bytes = batch_reader.records(batch).map_err(unreadable)?;
    let malformed = |Malformed(why)| invalid(why);
    let mut records = Records::new(bytes, batch.count()).map_err(malformed)?;
    let base = batch.base_timestamp();
    let mut i = 0;
    while let Some(delta) = next_delta(&mut records, compact) {
        match delta.map_err(malformed)? {
            None => {
                let keyless = invalid("a record of a compacted topic must have a key");
                return Err(Part { record: i, ..keyless });
            }
            Some(delta) if times.allow(base.wrapping_add(delta)) => i += 1,
            Some(_) => {
                let message = Some("a record's timestamp is too far from the broker's time");
                return Err(Part { record: i, message, ..refused(ErrorCode::INVALID_TIMESTAMP) });
            }
        }
    }
    Ok(())
}

/// The timestamp's delta of the next record; where keys count, `None` in it for one without.
#[inline(always)]
fn next_delta(records: &mut Records<'_>, keys: bool) -> Option<Result<Option<i64>, Malformed>> {
    if !keys {
        return Some(records.next_timestamp_delta()?.map(Some));
    }
    let record = records.next()?;
    Some(record.map(|record| record.key.is_some().then_some(record.timestamp_delta)))
}

/// What is answered to a batch that cannot be inflated.
fn unreadable(why: Unreadable) -> Part {
    let (error, why) = match why {
        // A producer splits the batch then.
        Unreadable::TooLarge => (ErrorCode::MESSAGE_TOO_LARGE, TOO_LARGE),
        // It comes again, with less beside it.
        Unreadable::Later => {
            (ErrorCode::REQUEST_TIMED_OUT, "the request inflates to too much at once")
        }
        Unreadable::Malformed(Malformed(why)) => (ErrorCode::CORRUPT_MESSAGE, why),
        Unreadable::Unsupported => {
            (ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, "this broker was built without the codec")
        }
    };
    Part { message: Some(why), ..refused(error) }
}

/// Hands the response that tells `parts` to `use_it`.
fn response<R>(
    asked: &Array<'_, ProduceTopicData<'static>>,
    parts: &[Part],
    use_it: impl FnOnce(&ProduceResponse<'_>) -> R,
) -> R {
    let topics = |out: &mut ArrayWriter<'_, '_, ProduceTopicResponse<'static>>| {
        let mut rest = parts;
        for topic in *asked {
            let (own, others) =
                rest.split_at_checked(topic.partition_data.len()).unwrap_or_default();
            rest = others;
            push_topic(out, &topic, own);
        }
    };
    let responses = Array::emit(asked.len(), &topics);
    use_it(&ProduceResponse { responses, ..Default::default() })
}

fn push_topic(
    out: &mut ArrayWriter<'_, '_, ProduceTopicResponse<'static>>,
    topic: &ProduceTopicData<'_>,
    parts: &[Part],
) {
    let partitions = |out: &mut ArrayWriter<'_, '_, ProducePartitionResponse<'static>>| {
        for (data, part) in topic.partition_data.iter().zip(parts) {
            let message = part.message.filter(|text| text.len() <= LONGEST.len());
            let record = |out: &mut ArrayWriter<'_, '_, ProduceRecordError<'static>>| {
                out.push(&ProduceRecordError {
                    batch_index: part.record,
                    batch_index_error_message: message,
                });
            };
            out.push(&ProducePartitionResponse {
                index: data.index,
                error_code: part.error.0,
                base_offset: part.offset,
                log_append_time_ms: part.timestamp,
                log_start_offset: part.log_start,
                record_errors: if part.record < 0 {
                    Array::empty()
                } else {
                    Array::emit(1, &record)
                },
                error_message: message,
                ..Default::default()
            });
        }
    };
    let partition_responses = Array::emit(topic.partition_data.len(), &partitions);
    let name = topic.name;
    out.push(&ProduceTopicResponse { name, partition_responses, ..Default::default() });
}
