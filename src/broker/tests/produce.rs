//! Produce: rows P14 to P22, and what happens when the log's memory is used up.

use super::*;
use crate::properties::Properties;
use crate::protocol::records::test_batches::counting;
use crate::protocol::records::{Attributes, BatchView, Compression, batch as at};

fn rig() -> (Rig, ConnId) {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "t", 2);
    (rig, conn)
}

fn error(error: ErrorCode) -> Produced {
    Produced { error, offset: -1, time: -1, log_start: -1, ..Produced::default() }
}

#[track_caller]
fn refuses(rig: &mut Rig, conn: ConnId, version: i16, records: Option<&[u8]>, code: ErrorCode) {
    let part = rig.produce_as(conn, version, -1, "t", 0, records).unwrap();
    assert_eq!((part.error, part.offset, part.time), (code, -1, -1), "{:?}", part.message);
    assert_eq!(rig.fetch(conn, "t", 0, 0).high_watermark, 0, "it was appended");
}

/// P19: what each version tells.
#[test]
fn offsets_count_records_in_every_version() {
    let (mut rig, conn) = rig();
    let mut offset = 0;
    for version in 3..=11 {
        for acks in [-1, 1] {
            let part = rig.produce_as(conn, version, acks, "t", 1, Some(&batch(3))).unwrap();
            let log_start = if version >= 5 { 0 } else { -1 };
            let ok = Produced { offset, time: -1, log_start, ..Produced::default() };
            assert_eq!(part, ok, "v{version}");
            offset += 3;
        }
    }
    let fetched = rig.fetch(conn, "t", 1, 0);
    assert_eq!(fetched.high_watermark, offset);
    assert!(fetched.offsets().into_iter().eq((0..offset).step_by(3)));
    for b in Batches::new(&fetched.records) {
        let b = b.unwrap();
        assert!(b.verify_crc() && b.partition_leader_epoch() == 0);
    }
    assert_eq!(rig.broker.stats().batches_in, 18);
}

/// P14: exactly one batch of magic 2; zstd from v7 on; acks.
#[test]
fn one_batch_of_the_only_format() {
    let (mut rig, conn) = rig();
    let good = batch(2);
    for version in 3..=11 {
        refuses(&mut rig, conn, version, None, ErrorCode::INVALID_RECORD);
        refuses(&mut rig, conn, version, Some(&[]), ErrorCode::INVALID_RECORD);
    }
    let two = [good.clone(), good.clone()].concat();
    refuses(&mut rig, conn, 9, Some(&two), ErrorCode::INVALID_RECORD);
    for magic in [0, 1, 3] {
        let mut other = good.clone();
        other[at::MAGIC_AT] = magic;
        refuses(&mut rig, conn, 3, Some(&other), ErrorCode::INVALID_RECORD);
    }
    let attributes = Attributes(0).with_compression(Compression::Zstd);
    let zstd = batch_of(2, 20, &Seal { attributes, ..Seal::default() });
    for version in 3..7 {
        let code = ErrorCode::UNSUPPORTED_COMPRESSION_TYPE;
        refuses(&mut rig, conn, version, Some(&zstd), code);
    }
    for acks in [-2, 2, i16::MAX, i16::MIN] {
        let part = rig.produce_as(conn, 9, acks, "t", 0, Some(&good)).unwrap();
        assert_eq!(part.error, ErrorCode::INVALID_REQUIRED_ACKS);
    }
    assert_eq!(rig.fetch(conn, "t", 0, 0).high_watermark, 0);
    assert!(rig.produce_as(conn, 7, -1, "t", 0, Some(&zstd)).unwrap().error.is_ok());
}

/// P18: no topic has a codec of its own, so nothing is ever recompressed: any codec goes into the log
/// and comes out as it came.
#[test]
fn every_codec_stays_as_it_came() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    for codec in ["none", "uncompressed", "gzip", "snappy", "lz4", "zstd", "Producer"] {
        let code = rig.create_with(conn, "own", 1, &[("compression.type", codec)]);
        assert_eq!(code, ErrorCode::INVALID_CONFIG, "{codec}");
    }
    let code = rig.create_with(conn, "t", 1, &[("compression.type", "producer")]);
    assert!(code.is_ok());
    let mut offset = 0;
    for codec in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let attributes = Attributes(0).with_compression(codec);
        let sent = batch_of(2, 20, &Seal { attributes, ..Seal::default() });
        assert!(rig.produce(conn, "t", 0, &sent).error.is_ok());
        let fetched = rig.fetch(conn, "t", 0, offset);
        let got = BatchView::parse(&fetched.records).unwrap();
        assert_eq!((got.base_offset(), got.attributes().compression()), (offset, Some(codec)));
        // All but the offset and the leader's epoch in front, which no checksum covers.
        assert_eq!(got.bytes()[at::MAGIC_AT..], sent[at::MAGIC_AT..]);
        offset += 2;
    }
}

/// P15: the checksum, and the form.
#[test]
fn damaged_batches_are_refused() {
    let (mut rig, conn) = rig();
    let good = batch(5);
    for i in at::CRC_AT..good.len() {
        let mut bad = good.clone();
        bad[i] ^= 0x10;
        refuses(&mut rig, conn, 9, Some(&bad), ErrorCode::CORRUPT_MESSAGE);
    }
    for cut in 1..good.len() {
        refuses(&mut rig, conn, 9, Some(&good[..cut]), ErrorCode::CORRUPT_MESSAGE);
    }
    let mut longer = good.clone();
    longer.push(0);
    refuses(&mut rig, conn, 9, Some(&longer), ErrorCode::INVALID_RECORD);
    let based = batch_of(1, 10, &Seal { base_offset: 7, ..Seal::default() });
    refuses(&mut rig, conn, 9, Some(&based), ErrorCode::INVALID_RECORD);
}

/// Changes a field of a batch and seals it again.
fn forged(change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = batch(3);
    change(&mut bytes);
    let crc = crate::protocol::records::crc32c(&bytes[at::ATTRIBUTES_AT..]);
    bytes[at::CRC_AT..at::CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// A batch of three records whose header says another number.
fn counted(count: i32) -> Vec<u8> {
    forged(|b| {
        put(b, at::COUNT_AT, &count.to_be_bytes());
        put(b, at::LAST_OFFSET_DELTA_AT, &(count - 1).to_be_bytes());
    })
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// P16: batches that contradict themselves, control batches, keyless records.
#[test]
fn batches_that_lie_are_refused() {
    let (mut rig, conn) = rig();
    for bytes in [
        forged(|b| put(b, at::COUNT_AT, &0i32.to_be_bytes())),
        forged(|b| put(b, at::COUNT_AT, &2i32.to_be_bytes())),
        forged(|b| put(b, at::COUNT_AT, &(-3i32).to_be_bytes())),
        forged(|b| put(b, at::LAST_OFFSET_DELTA_AT, &i32::MAX.to_be_bytes())),
        forged(|b| {
            put(b, at::COUNT_AT, &1_000_000i32.to_be_bytes());
            put(b, at::LAST_OFFSET_DELTA_AT, &999_999i32.to_be_bytes());
        }),
        forged(|b| put(b, at::ATTRIBUTES_AT, &0x20i16.to_be_bytes())),
        // Fewer records than there are, and more; records longer and shorter than what is in them.
        counted(2),
        counted(4),
        forged(|b| b[at::HEADER_LEN] += 2),
        forged(|b| b[at::HEADER_LEN] -= 2),
        forged(|b| b[at::HEADER_LEN] = 1),
        sequenced(5, 0, -1, 1),
        sequenced(5, -1, 0, 1),
    ] {
        refuses(&mut rig, conn, 9, Some(&bytes), ErrorCode::INVALID_RECORD);
    }
    let none = forged(|b| put(b, at::ATTRIBUTES_AT, &0x07i16.to_be_bytes()));
    refuses(&mut rig, conn, 9, Some(&none), ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
    let transactional = forged(|b| put(b, at::ATTRIBUTES_AT, &0x10i16.to_be_bytes()));
    refuses(&mut rig, conn, 9, Some(&transactional), ErrorCode::INVALID_TXN_STATE);
    // A compacted topic wants keys.
    assert!(rig.create_with(conn, "c", 1, &[("cleanup.policy", "compact")]).is_ok());
    let part = rig.produce_as(conn, 8, -1, "c", 0, Some(&batch(3))).unwrap();
    assert_eq!((part.error, part.record_errors), (ErrorCode::INVALID_RECORD, vec![0]));
    let mut buf = vec![0; 300];
    let mut builder = BatchBuilder::new();
    builder.append(&mut buf, 5, Some(b"k"), Some(b"v"), no_headers()).unwrap();
    let one = builder.len();
    builder.append(&mut buf, 5, None, Some(b"v"), no_headers()).unwrap();
    assert!(builder.len() > one);
    let len = builder.seal(&mut buf, &Seal::default()).unwrap();
    let part = rig.produce(conn, "c", 0, &buf[..len]);
    assert_eq!((part.error, part.record_errors), (ErrorCode::INVALID_RECORD, vec![1]));
    assert!(part.message.unwrap().contains("key"));
}

/// P17: whose clock counts, and how far it may be off.
#[test]
fn timestamps() {
    let (mut rig, conn) = rig();
    let stamped = [("message.timestamp.type", "LogAppendTime")];
    assert!(rig.create_with(conn, "stamped", 1, &stamped).is_ok());
    let now = rig.now.wall_ms;
    let part = rig.produce(conn, "stamped", 0, &batch_at(5, 3, 20, &Seal::default()));
    assert_eq!((part.error, part.time), (ErrorCode::NONE, now));
    let fetched = rig.fetch(conn, "stamped", 0, 0);
    let b = BatchView::parse(&fetched.records).unwrap();
    assert!(b.verify_crc());
    assert_eq!((b.base_timestamp(), b.max_timestamp(), b.attributes().0), (5, now, 8));
    let bounds =
        [("message.timestamp.before.max.ms", "1000"), ("message.timestamp.after.max.ms", "2000")];
    assert!(rig.create_with(conn, "bounded", 1, &bounds).is_ok());
    for (time, code) in [
        (now, ErrorCode::NONE),
        (now - 1000, ErrorCode::NONE),
        (now - 1001, ErrorCode::INVALID_TIMESTAMP),
        (now + 2000, ErrorCode::NONE),
        (now + 2001, ErrorCode::INVALID_TIMESTAMP),
    ] {
        let part = rig.produce(conn, "bounded", 0, &batch_at(time, 1, 20, &Seal::default()));
        assert_eq!(part.error, code, "{}", time - now);
    }
    // Not said: an hour ahead at most, and as old as you like.
    for (time, code) in [
        (0, ErrorCode::NONE),
        (now + 3_600_000, ErrorCode::NONE),
        (now + 3_600_001, ErrorCode::INVALID_TIMESTAMP),
    ] {
        let part = rig.produce(conn, "t", 1, &batch_at(time, 1, 20, &Seal::default()));
        assert_eq!(part.error, code, "{}", time - now);
    }
    // The record is named, whatever the header says of the newest.
    for newest in [now + 2001, now] {
        let mut bytes = timed(&[now, now + 2000, now + 2001, now + 2002]);
        bytes[at::MAX_TIMESTAMP_AT..][..8].copy_from_slice(&newest.to_be_bytes());
        let part = rig.produce(conn, "bounded", 0, &counting(4, bytes));
        assert_eq!((part.error, part.record_errors), (ErrorCode::INVALID_TIMESTAMP, vec![2]));
        assert!(part.record_message.unwrap().contains("timestamp"));
    }
    // A header alone is believed as well.
    let mut bytes = timed(&[now]);
    bytes[at::MAX_TIMESTAMP_AT..][..8].copy_from_slice(&(now + 2001).to_be_bytes());
    let part = rig.produce(conn, "bounded", 0, &counting(1, bytes));
    assert_eq!((part.error, part.record_errors), (ErrorCode::INVALID_TIMESTAMP, vec![]));
    // What the broker is told holds for topics that say nothing.
    let config = [
        ("log.message.timestamp.before.max.ms", "10"),
        ("log.message.timestamp.after.max.ms", "20"),
    ];
    let config = BrokerConfig::from_properties(Properties::new(config)).unwrap();
    let mut told = Rig::with(config, BrokerLimits::default());
    let peer = told.connect();
    told.create(peer, "t", 1);
    for (time, ok) in [(now - 10, true), (now - 11, false), (now + 20, true), (now + 21, false)] {
        let part = told.produce(peer, "t", 0, &batch_at(time, 1, 20, &Seal::default()));
        assert_eq!(part.error.is_ok(), ok, "{}", time - now);
    }
    // The whole broker may stamp.
    let config = BrokerConfig { log_append_time: true, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, BrokerLimits::default());
    let conn = rig.connect();
    rig.create(conn, "t", 1);
    assert_eq!(rig.produce(conn, "t", 0, &batch(1)).time, now);
    assert_eq!(rig.produce(conn, "t", 0, &timed(&[i64::MAX])).time, now);
}

/// A batch of records with these times.
fn timed(times: &[i64]) -> Vec<u8> {
    let mut buf = vec![0; 1000];
    let mut builder = BatchBuilder::new();
    for time in times {
        builder.append(&mut buf, *time, None, Some(b"v"), no_headers()).unwrap();
    }
    let len = builder.seal(&mut buf, &Seal::default()).unwrap();
    buf.truncate(len);
    buf
}

/// P20: with acks=0 success is silent, and the end of the connection is the only failure.
#[test]
fn without_acks_failure_is_the_end_of_the_connection() {
    let (mut rig, conn) = rig();
    for version in 3..=11 {
        assert_eq!(rig.produce_as(conn, version, 0, "t", 0, Some(&batch(1))), None);
        assert!(rig.net.is_open(conn));
    }
    assert_eq!(rig.fetch(conn, "t", 0, 0).high_watermark, 9);
    for (topic, index, why) in [("t", 5, "does not have"), ("none", 0, "does not have")] {
        let conn = rig.connect();
        rig.produce_as(conn, 9, 0, topic, index, Some(&batch(1)));
        rig.assert_closed(conn, why);
    }
    let mut bad = batch(1);
    bad[70] ^= 1;
    assert_eq!(rig.produce_as(conn, 9, 0, "t", 0, Some(&bad)), None);
    rig.assert_closed(conn, "damaged");
}

/// P21: the largest batch, of the broker and of the topic.
#[test]
fn sizes() {
    let (mut rig, conn) = rig();
    let most = super::super::config::MESSAGE_MAX_BYTES;
    let overhead = batch_of(1, most - 500, &Seal::default()).len() - (most - 500);
    let largest = batch_of(1, most - overhead, &Seal::default());
    assert_eq!(largest.len(), most);
    assert!(rig.produce(conn, "t", 0, &largest).error.is_ok());
    let fetched = rig.fetch(conn, "t", 0, 0);
    // Offset and epoch are the broker's.
    assert!(fetched.records[16..] == largest[16..]);
    let larger = batch_of(1, most - overhead + 1, &Seal::default());
    assert_eq!(rig.produce(conn, "t", 0, &larger), error(ErrorCode::MESSAGE_TOO_LARGE));
    let small = [("max.message.bytes", "200")];
    assert!(rig.create_with(conn, "small", 1, &small).is_ok());
    let (fits, not) = (batch_of(1, 100, &Seal::default()), batch_of(1, 200, &Seal::default()));
    assert!(rig.produce(conn, "small", 0, &fits).error.is_ok());
    assert_eq!(rig.produce(conn, "small", 0, &not).error, ErrorCode::MESSAGE_TOO_LARGE);
}

/// P22: duplicates, gaps, epochs.
#[test]
fn idempotent_producers() {
    let (mut rig, conn) = rig();
    let send = |rig: &mut Rig, epoch, first, count| {
        rig.produce(conn, "t", 0, &sequenced(7, epoch, first, count))
    };
    for i in 0..7 {
        assert_eq!(send(&mut rig, 0, i * 2, 2).offset, i64::from(i) * 2);
    }
    // The last five are known, with their offsets and without an error.
    for i in 2..7 {
        let again = send(&mut rig, 0, i * 2, 2);
        assert_eq!((again.error, again.offset), (ErrorCode::NONE, i64::from(i) * 2));
    }
    let gap = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
    assert_eq!(send(&mut rig, 0, 2, 2), error(gap));
    assert_eq!(send(&mut rig, 0, 15, 1), error(gap));
    assert_eq!(send(&mut rig, 0, 14, 1).offset, 14);
    // A new epoch begins at 0, and an old one is over.
    assert_eq!(send(&mut rig, 1, 3, 1), error(gap));
    assert_eq!(send(&mut rig, 1, 0, 1).offset, 15);
    assert_eq!(send(&mut rig, 0, 15, 1), error(ErrorCode::INVALID_PRODUCER_EPOCH));
    // Nobody knows this one: any sequence.
    assert_eq!(rig.produce(conn, "t", 0, &sequenced(8, 0, 500, 1)).offset, 16);
    // Another partition has its own sequences.
    assert_eq!(rig.produce(conn, "t", 1, &sequenced(7, 0, 0, 1)).offset, 0);
    assert_eq!(rig.broker.stats().duplicates, 5);
    // The numbers go round.
    let near = i32::MAX - 1;
    assert_eq!(rig.produce(conn, "t", 1, &sequenced(9, 0, near, 2)).offset, 1);
    assert_eq!(rig.produce(conn, "t", 1, &sequenced(9, 0, 0, 1)).offset, 3);
    assert_eq!(rig.produce(conn, "t", 1, &sequenced(9, 0, near, 2)).offset, 1);
}

#[test]
fn several_partitions_each_have_their_outcome() {
    let (mut rig, conn) = rig();
    let good = batch(1);
    let mut bad = batch(1);
    bad[70] ^= 1;
    let data = [
        ("t", 0, Some(&good[..])),
        ("none", 0, Some(&good[..])),
        ("t", 1, Some(&bad[..])),
        ("t", 2, Some(&good[..])),
        ("t", -1, Some(&good[..])),
        ("t", 1, Some(&good[..])),
    ];
    for version in [3, 8, 9, 11] {
        let body = with_produce(1, 1000, &data, |m| rig.call(conn, version, m)).unwrap();
        let errors: Vec<_> = produced(&body, version).iter().map(|p| p.error.0).collect();
        assert_eq!(errors, [0, 3, 2, 3, 3, 0]);
    }
}

/// While readers hold all memory a batch waits, and is appended when there is some, or refused with
/// error 7 when its time is over.
#[test]
fn a_batch_waits_for_memory_until_its_timeout() {
    let config = BrokerConfig { log_memory: 4 << 20, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, BrokerLimits::default());
    let (producer, reader) = (rig.connect(), rig.connect());
    rig.create(producer, "t", 2);
    rig.net.queue_max = usize::MAX;
    rig.net.stick(reader, true);
    // Small enough for two to fit one request.
    let large = batch_of(1, 520_000, &Seal::default());
    let ask = |rig: &mut Rig, acks, timeout: i32, data: &[(&str, i32, Option<&[u8]>)]| {
        with_produce(acks, timeout, data, |m| rig.ask(producer, 9, m))
    };
    let one = [("t", 0, Some(&large[..]))];
    let mut held = 0;
    let first = loop {
        let asked = ask(&mut rig, -1, 1000, &one);
        rig.turn();
        if rig.broker.stats().parked == 1 {
            break asked;
        }
        let body = rig.answer(producer, ApiKey::PRODUCE, 9, asked);
        assert_eq!(produced(&body, 9)[0].offset, held);
        Want::of(&[("t", 0, held)]).with(|m| rig.ask(reader, 12, m));
        rig.turn();
        held += 1;
    };
    assert!((3..=8).contains(&held), "{held}");
    assert!(rig.net.is_muted(producer), "back-pressure");
    rig.pass(Duration::from_millis(999));
    rig.turn();
    assert_eq!(rig.net.got(producer), None);
    rig.pass(Duration::from_millis(1));
    assert!(rig.broker.next_deadline().unwrap() <= rig.now.at);
    rig.turn();
    let body = rig.answer(producer, ApiKey::PRODUCE, 9, first);
    assert_eq!(produced(&body, 9)[0].error, ErrorCode::REQUEST_TIMED_OUT);
    // One that has no time does not wait.
    let none = ask(&mut rig, -1, 0, &one);
    rig.settle();
    let body = rig.answer(producer, ApiKey::PRODUCE, 9, none);
    assert_eq!(produced(&body, 9)[0].error, ErrorCode::REQUEST_TIMED_OUT);
    // Of two batches none is appended before there is memory for both.
    let both = [("t", 1, Some(&large[..])), ("t", 0, Some(&large[..]))];
    let second = ask(&mut rig, -1, 5000, &both);
    rig.turn();
    assert_eq!((rig.broker.stats().parked, rig.broker.stats().batches_in), (1, held as u64));
    rig.net.stick(reader, false);
    rig.net.flush();
    assert!(rig.broker.wants_turn());
    rig.settle();
    let body = rig.answer(producer, ApiKey::PRODUCE, 9, second);
    assert_eq!(produced(&body, 9).iter().map(|p| p.error.0).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(rig.broker.stats().batches_in, held as u64 + 2);
    // The reader got whole batches, whatever became of the log meanwhile.
    for offset in 0..held {
        let answer = rig.net.got(reader).unwrap();
        let records = &fetched(&answer[5..], 12)[0].records;
        let batch = BatchView::parse(records).unwrap();
        assert!(batch.verify_crc() && batch.base_offset() == offset);
    }
}
