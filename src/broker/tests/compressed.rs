//! Compressed batches: rows P16 and R3 to R12, as far as the broker looks into them. Batches of
//! codecs that this build lacks are refused where it has to.

use super::*;
use crate::protocol::records::encoders::{CODECS, compressed};
use crate::protocol::records::test_batches::{compressed_batch, counting, keyed, with_records};
use crate::protocol::records::{Compression, batch as at};

/// A topic that is compacted and one that is not.
fn rig_with(config: BrokerConfig) -> (Rig, ConnId) {
    let mut rig = Rig::with(config, BrokerLimits::default());
    let conn = rig.connect();
    rig.create(conn, "t", 1);
    assert!(rig.create_with(conn, "c", 8, &[("cleanup.policy", "compact")]).is_ok());
    (rig, conn)
}

fn rig() -> (Rig, ConnId) {
    rig_with(BrokerConfig::default())
}

/// Produces to the compacted topic, which refuses; the text that says why.
#[track_caller]
fn refuses(rig: &mut Rig, conn: ConnId, bytes: &[u8], code: ErrorCode) -> Option<String> {
    let part = rig.produce(conn, "c", 0, bytes);
    assert_eq!((part.error, part.offset, part.record_errors), (code, -1, vec![]));
    assert_eq!(rig.fetch(conn, "c", 0, 0).high_watermark, 0, "it was appended");
    part.message
}

/// P16: a keyless record is named, wherever it stands, and nothing of its batch is appended.
#[test]
fn a_compacted_topic_wants_keys() {
    for codec in CODECS {
        let (mut rig, conn) = rig();
        let good = compressed_batch(*codec, &keyed(1000, &[]));
        for at in [0, 4, 9] {
            let bad = compressed_batch(*codec, &keyed(1000, &[at]));
            let data = [("c", 0, Some(&bad[..])), ("c", 1, Some(&good[..]))];
            for version in [8, 11] {
                let body = with_produce(-1, 1000, &data, |m| rig.call(conn, version, m)).unwrap();
                let parts = produced(&body, version);
                assert_eq!(parts[0].error, ErrorCode::INVALID_RECORD, "{codec:?}");
                assert_eq!(parts[0].record_errors, [at as i32]);
                assert!(parts[0].message.as_ref().unwrap().contains("key"));
                assert_eq!(parts[0].record_message, parts[0].message);
                assert!(parts[1].error.is_ok());
            }
            // Two of them: the first.
            let two = compressed_batch(*codec, &keyed(1000, &[at, 9]));
            assert_eq!(rig.produce(conn, "c", 0, &two).record_errors, [at as i32]);
            assert_eq!(rig.fetch(conn, "c", 0, 0).high_watermark, 0);
            // Nobody asks for keys elsewhere.
            assert!(rig.produce(conn, "t", 0, &bad).error.is_ok());
        }
        assert_eq!(rig.fetch(conn, "c", 1, 0).high_watermark, 60);
    }
}

/// P17: where the records are looked at, their times count; elsewhere what the header says.
#[test]
fn times_in_compressed_batches() {
    for codec in CODECS {
        let (mut rig, conn) = rig();
        let now = rig.now.wall_ms;
        let late = now + 3_600_001;
        let mut batch = keyed(late, &[]);
        let honest = compressed_batch(*codec, &batch);
        assert_eq!(rig.produce(conn, "t", 0, &honest).error, ErrorCode::INVALID_TIMESTAMP);
        assert_eq!(rig.produce(conn, "c", 0, &honest).record_errors, [0]);
        // A header that lies about the newest of them.
        batch = keyed(now + 3_600_000, &[]);
        batch[at::MAX_TIMESTAMP_AT..][..8].copy_from_slice(&now.to_be_bytes());
        let lies = compressed_batch(*codec, &counting(10, batch));
        assert!(rig.produce(conn, "t", 0, &lies).error.is_ok());
        let part = rig.produce(conn, "c", 0, &lies);
        assert_eq!((part.error, part.record_errors), (ErrorCode::INVALID_TIMESTAMP, vec![1]));
    }
}

/// What was looked into goes into the log as it came.
#[test]
fn batches_with_keys_stay_as_they_came() {
    for codec in CODECS {
        let (mut rig, conn) = rig();
        let sent = compressed_batch(*codec, &keyed(1000, &[]));
        for offset in [0, 10] {
            assert_eq!(rig.produce(conn, "c", 0, &sent).offset, offset, "{codec:?}");
            let fetched = rig.fetch(conn, "c", 0, offset);
            // All but the offset and the leader's epoch in front, which no checksum covers.
            assert_eq!(fetched.records[at::MAGIC_AT..], sent[at::MAGIC_AT..]);
        }
    }
}

/// R12: streams that are cut off, that something follows, or that are none.
#[test]
fn damaged_streams_are_refused() {
    let corrupt = ErrorCode::CORRUPT_MESSAGE;
    for codec in CODECS {
        let (mut rig, conn) = rig();
        let batch = keyed(1000, &[]);
        let stream = compressed(*codec, &batch[at::HEADER_LEN..]);
        for bad in [
            stream[..stream.len() - 1].to_vec(),
            stream[..stream.len() / 2].to_vec(),
            [&stream[..], &[0x5a]].concat(),
            vec![0xa5; 200],
            vec![],
        ] {
            let bytes = with_records(*codec, &batch, &bad);
            let why = refuses(&mut rig, conn, &bytes, corrupt);
            assert!(why.is_some_and(|why| !why.is_empty()), "{codec:?}");
            // Elsewhere it is not looked into.
            assert!(rig.produce(conn, "t", 0, &bytes).error.is_ok());
        }
        let bytes = compressed_batch(*codec, &batch);
        assert!(rig.produce(conn, "c", 0, &bytes).error.is_ok());
    }
}

/// R3, R5: what comes out is not what the header says.
#[test]
fn batches_that_lie_are_refused() {
    let invalid = ErrorCode::INVALID_RECORD;
    for codec in CODECS {
        let (mut rig, conn) = rig();
        let batch = keyed(1000, &[]);
        let sent = compressed_batch(*codec, &batch);
        for count in [1, 9, 11, 1_000_000] {
            let bytes = counting(count, sent.clone());
            assert!(refuses(&mut rig, conn, &bytes, invalid).is_some(), "{codec:?} {count}");
        }
        let mut longer = batch.clone();
        longer.push(0);
        refuses(&mut rig, conn, &compressed_batch(*codec, &longer), invalid);
        // A record that is longer than what is in it.
        let mut record = batch;
        record[at::HEADER_LEN] += 2;
        refuses(&mut rig, conn, &compressed_batch(*codec, &record), invalid);
    }
}

/// R8: the room is the limit, and whoever sends more hears of it.
#[test]
fn what_inflates_to_too_much_is_refused() {
    for codec in CODECS {
        let (mut rig, conn) = rig();
        let bomb = compressed(*codec, &vec![0; (16 << 20) + 1]);
        let bytes = with_records(*codec, &keyed(1000, &[]), &bomb);
        let why = refuses(&mut rig, conn, &bytes, ErrorCode::MESSAGE_TOO_LARGE);
        assert!(why.unwrap().contains("16 MiB"), "{codec:?}");
        // As much as there is room for is looked at, and is no record.
        let full = compressed(*codec, &vec![0; 16 << 20]);
        let bytes = with_records(*codec, &keyed(1000, &[]), &full);
        refuses(&mut rig, conn, &bytes, ErrorCode::INVALID_RECORD);
        let good = compressed_batch(*codec, &keyed(1000, &[]));
        assert!(rig.produce(conn, "c", 0, &good).error.is_ok());
    }
}

/// The room is no larger than a block of a small log.
#[test]
fn a_small_log_has_a_small_room() {
    for codec in CODECS {
        let config = BrokerConfig { log_memory: 2 << 20, ..BrokerConfig::default() };
        let (mut rig, conn) = rig_with(BrokerConfig { message_max_bytes: 1 << 20, ..config });
        let large = |size: usize| {
            let mut buf = vec![0; size + 1000];
            let mut builder = BatchBuilder::new();
            let value = vec![7; size];
            builder.append(&mut buf, 5, Some(b"k"), Some(&value), no_headers()).unwrap();
            let len = builder.seal(&mut buf, &Seal::default()).unwrap();
            compressed_batch(*codec, &buf[..len])
        };
        let why = refuses(&mut rig, conn, &large(1_100_000), ErrorCode::MESSAGE_TOO_LARGE);
        assert!(why.is_some(), "{codec:?}: not because of what came");
        assert!(rig.produce(conn, "c", 0, &large(1_000_000)).error.is_ok(), "{codec:?}");
    }
}

/// A request has only so much inflated; what is left may come again, and then goes first.
#[cfg(feature = "gzip")]
#[test]
fn a_request_is_not_inflated_without_end() {
    let (mut rig, conn) = rig();
    let bomb = compressed(Compression::Gzip, &vec![0; (16 << 20) + 1]);
    let bomb = with_records(Compression::Gzip, &keyed(1000, &[]), &bomb);
    let good = compressed_batch(Compression::Gzip, &keyed(1000, &[]));
    let plain = keyed(1000, &[]);
    let mut data: Vec<_> = (0..6).map(|i| ("c", i, Some(&bomb[..]))).collect();
    data[0].2 = Some(&good);
    data.extend([("c", 6, Some(&good[..])), ("c", 7, Some(&plain[..]))]);
    let body = with_produce(-1, 1000, &data, |m| rig.call(conn, 9, m)).unwrap();
    let errors: Vec<_> = produced(&body, 9).iter().map(|p| p.error.0).collect();
    // A bomb does not fit what the good batch left, and nobody knows how much of it came out.
    assert_eq!(errors, [0, 7, 7, 7, 7, 7, 7, 0]);
    let body = with_produce(-1, 1000, &data[4..7], |m| rig.call(conn, 9, m)).unwrap();
    let errors: Vec<_> = produced(&body, 9).iter().map(|p| p.error.0).collect();
    assert_eq!(errors, [10, 7, 7]);
    let body = with_produce(-1, 1000, &data[6..7], |m| rig.call(conn, 9, m)).unwrap();
    assert!(produced(&body, 9)[0].error.is_ok());
}

/// A small log has small rooms, and a request has many of them: several good batches come at once.
#[cfg(feature = "gzip")]
#[test]
fn a_request_may_fill_a_small_room_more_than_once() {
    let config = BrokerConfig { log_memory: 4 << 20, ..BrokerConfig::default() };
    let (mut rig, conn) = rig_with(BrokerConfig { message_max_bytes: 1 << 20, ..config });
    let large = compressed_batch(Compression::Gzip, &large_of(700_000));
    let data: Vec<_> = (0..2).map(|i| ("c", i, Some(&large[..]))).collect();
    let body = with_produce(-1, 1000, &data, |m| rig.call(conn, 9, m)).unwrap();
    assert!(produced(&body, 9).iter().all(|p| p.error.is_ok()));
}

/// What small requests inflate to counts against the turn: a row of them does not keep the loop.
#[cfg(feature = "gzip")]
#[test]
fn a_row_of_bombs_is_served_over_many_turns() {
    let (mut rig, conn) = rig();
    rig.net.budget = 256 << 10;
    let bomb = compressed(Compression::Gzip, &vec![0; 16 << 20]);
    let bomb = with_records(Compression::Gzip, &keyed(1000, &[]), &bomb);
    let data = [("c", 0, Some(&bomb[..]))];
    for _ in 0..3 {
        with_produce(-1, 1000, &data, |m| rig.ask(conn, 9, m));
    }
    for _ in 0..3 {
        assert_eq!(rig.turn(), 1);
        assert_eq!(rig.net.charged, 16 << 20);
        assert!(rig.net.got(conn).is_some());
    }
    // What is not inflated is not charged, and good batches count as they are.
    let plain = keyed(1000, &[]);
    let data = [("c", 0, Some(&plain[..]))];
    let good = compressed_batch(Compression::Gzip, &plain);
    let small = [("c", 1, Some(&good[..]))];
    for _ in 0..3 {
        with_produce(-1, 1000, &data, |m| rig.ask(conn, 9, m));
    }
    with_produce(-1, 1000, &small, |m| rig.ask(conn, 9, m));
    assert_eq!(rig.turn(), 4);
    assert_eq!(rig.net.charged, plain.len() - at::HEADER_LEN);
}

/// P20: with acks=0 the end of the connection is all that a producer hears.
#[test]
fn without_acks_failure_is_the_end_of_the_connection() {
    for codec in CODECS {
        let (mut rig, conn) = rig();
        let good = compressed_batch(*codec, &keyed(1000, &[]));
        assert_eq!(rig.produce_as(conn, 9, 0, "c", 0, Some(&good)), None);
        assert!(rig.net.is_open(conn));
        let bad = compressed_batch(*codec, &keyed(1000, &[5]));
        assert_eq!(rig.produce_as(conn, 9, 0, "c", 0, Some(&bad)), None);
        rig.assert_closed(conn, "must have a key");
        let conn = rig.connect();
        let bad = with_records(*codec, &good, &[0xa5; 30]);
        assert_eq!(rig.produce_as(conn, 9, 0, "c", 0, Some(&bad)), None);
        rig.assert_closed(conn, "is closed");
        let conn = rig.connect();
        assert_eq!(rig.fetch(conn, "c", 0, 0).high_watermark, 10);
    }
}

/// R7, and what this build lacks: a compacted topic cannot take what nobody can look into.
#[test]
fn codecs_that_are_not_there() {
    let (mut rig, conn) = rig();
    let lacking = ErrorCode::UNSUPPORTED_COMPRESSION_TYPE;
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        if !CODECS.contains(&codec) {
            let bytes = compressed_batch(codec, &keyed(1000, &[]));
            assert!(refuses(&mut rig, conn, &bytes, lacking).unwrap().contains("without"));
            assert!(rig.produce(conn, "t", 0, &bytes).error.is_ok());
        }
    }
    for code in 5..=7 {
        let mut bytes = keyed(1000, &[]);
        bytes[at::ATTRIBUTES_AT + 1] = code;
        let bytes = counting(10, bytes);
        refuses(&mut rig, conn, &bytes, lacking);
        assert_eq!(rig.produce(conn, "t", 0, &bytes).error, lacking);
    }
}

/// A batch of one record that no codec makes smaller.
fn large_of(size: usize) -> Vec<u8> {
    let mut buf = vec![0; size + 1000];
    let mut x = 1u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    let value: Vec<u8> = (0..size).map(|_| next()).collect();
    let mut builder = BatchBuilder::new();
    builder.append(&mut buf, 5, Some(b"k"), Some(&value), no_headers()).unwrap();
    let len = builder.seal(&mut buf, &Seal::default()).unwrap();
    buf.truncate(len);
    buf
}

/// A batch that waits for memory is taken as any other when there is some.
#[test]
fn a_batch_waits_for_memory() {
    for codec in CODECS {
        let config = BrokerConfig { log_memory: 4 << 20, ..BrokerConfig::default() };
        let (mut rig, conn) = rig_with(config);
        let reader = rig.connect();
        rig.net.queue_max = usize::MAX;
        rig.net.stick(reader, true);
        let large = batch_of(1, 520_000, &Seal::default());
        let fill = [("t", 0, Some(&large[..]))];
        let mut held = 0;
        loop {
            with_produce(-1, 0, &fill, |m| rig.ask(conn, 9, m));
            rig.settle();
            let answer = rig.net.got(conn).unwrap();
            if !produced(&answer[5..], 9)[0].error.is_ok() {
                break;
            }
            Want::of(&[("t", 0, held)]).with(|m| rig.ask(reader, 12, m));
            rig.turn();
            held += 1;
        }
        let sent = compressed_batch(*codec, &large_of(500_000));
        let bad = compressed_batch(*codec, &keyed(1000, &[3]));
        let data = [("c", 0, Some(&sent[..]))];
        let asked = with_produce(-1, 5000, &data, |m| rig.ask(conn, 9, m));
        rig.turn();
        assert_eq!(rig.broker.stats().parked, 1, "{codec:?}");
        rig.net.stick(reader, false);
        rig.net.flush();
        rig.settle();
        let body = rig.answer(conn, ApiKey::PRODUCE, 9, asked);
        assert_eq!(
            (produced(&body, 9)[0].error, produced(&body, 9)[0].offset),
            (ErrorCode::NONE, 0)
        );
        assert_eq!(rig.produce(conn, "c", 0, &bad).record_errors, [3]);
    }
}
