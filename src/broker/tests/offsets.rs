//! ListOffsets and OffsetForLeaderEpoch: rows P32 and P33.

use super::*;
use crate::protocol::ArrayWriter;
use crate::protocol::records::encoders::CODECS;
use crate::protocol::records::test_batches::{compressed_batch, keyed, with_records};
use crate::protocol::records::{BatchView, Compression};

/// Asks for one offset in each of the partitions; error, timestamp, offset, epoch.
fn list(
    rig: &mut Rig,
    conn: ConnId,
    version: i16,
    epoch: i32,
    asked: &[(&str, i32, i64)],
) -> Vec<(i16, i64, i64, i32)> {
    let topics = |out: &mut ArrayWriter<'_, '_, ListOffsetsTopic<'static>>| {
        for (name, partition_index, timestamp) in asked {
            let partition = |out: &mut ArrayWriter<'_, '_, ListOffsetsPartition>| {
                out.push(&ListOffsetsPartition {
                    partition_index: *partition_index,
                    current_leader_epoch: epoch,
                    timestamp: *timestamp,
                });
            };
            let partitions = Array::emit(1, &partition);
            out.push(&ListOffsetsTopic { name, partitions });
        }
    };
    let topics = Array::emit(asked.len(), &topics);
    let request = ListOffsetsRequest { topics, ..Default::default() };
    let body = rig.call(conn, version, &request).unwrap();
    let response = ListOffsetsResponse::decode(&body, version).unwrap();
    let parts = response.topics.iter().flat_map(|topic| topic.partitions);
    parts.map(|p| (p.error_code, p.timestamp, p.offset, p.leader_epoch)).collect()
}

fn rig() -> (Rig, ConnId) {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "t", 2);
    // Ten batches of ten records, one each ten milliseconds.
    for i in 0..10 {
        let bytes = batch_at(1000 + i * 100, 10, 20, &Seal::default());
        assert!(rig.produce(conn, "t", 0, &bytes).error.is_ok());
    }
    (rig, conn)
}

/// P32: the ends, in all versions.
#[test]
fn ends() {
    let (mut rig, conn) = rig();
    for version in 1..=7 {
        let epoch = if version >= 4 { 0 } else { -1 };
        let asked = [("t", 0, -1), ("t", 1, -2), ("none", 0, -1), ("t", 7, -1)];
        let found = list(&mut rig, conn, version, -1, &asked);
        let unknown = (3, -1, -1, -1);
        assert_eq!(found, [(0, -1, 100, epoch), (0, -1, 0, epoch), unknown, unknown]);
        assert_eq!(list(&mut rig, conn, version, -1, &[("t", 0, -2)])[0].2, 0);
    }
}

/// P32: times, the largest timestamp, and what a version does not know.
#[test]
fn times() {
    let (mut rig, conn) = rig();
    for (time, timestamp, offset) in [
        (0, 1000, 0),
        (1000, 1000, 0),
        (1001, 1001, 1),
        (1009, 1009, 9),
        (1010, 1100, 10),
        (1905, 1905, 95),
        (1909, 1909, 99),
        (1910, -1, -1),
        (i64::MAX, -1, -1),
    ] {
        for version in [1, 4, 7] {
            let found = list(&mut rig, conn, version, -1, &[("t", 0, time)])[0];
            assert_eq!((found.0, found.1, found.2), (0, timestamp, offset), "time {time}");
        }
    }
    assert_eq!(list(&mut rig, conn, 7, -1, &[("t", 0, -3)])[0], (0, 1909, 99, 0));
    assert_eq!(list(&mut rig, conn, 7, -1, &[("t", 1, -3)])[0], (0, -1, -1, -1));
    assert_eq!(list(&mut rig, conn, 7, -1, &[("t", 1, 5)])[0], (0, -1, -1, -1));
    for (version, special) in [(6, -3), (7, -4), (7, -5), (7, -6), (7, i64::MIN)] {
        let found = list(&mut rig, conn, version, -1, &[("t", 0, special)])[0];
        assert_eq!(found, (35, -1, -1, -1), "v{version} {special}");
    }
}

/// P32: a time in a compressed batch leads to its record, as in one that is not.
#[test]
fn times_in_compressed_batches() {
    for codec in CODECS {
        let mut rig = Rig::new();
        let conn = rig.connect();
        rig.create(conn, "t", 1);
        for time in [1000, 1200, 1100] {
            let bytes = compressed_batch(*codec, &keyed(time, &[]));
            assert!(rig.produce(conn, "t", 0, &bytes).error.is_ok());
        }
        for (time, timestamp, offset) in [
            (0, 1000, 0),
            (1000, 1000, 0),
            (1001, 1001, 1),
            (1009, 1009, 9),
            (1010, 1200, 10),
            (1205, 1205, 15),
            (1210, -1, -1),
        ] {
            let found = list(&mut rig, conn, 7, -1, &[("t", 0, time)])[0];
            assert_eq!((found.0, found.1, found.2), (0, timestamp, offset), "{codec:?} {time}");
        }
        assert_eq!(list(&mut rig, conn, 7, -1, &[("t", 0, -3)])[0], (0, 1209, 19, 0), "{codec:?}");
    }
}

/// The largest timestamp is not always the last record's.
#[test]
fn the_newest_record_of_a_compressed_batch() {
    for codec in CODECS.iter().copied().chain([Compression::None]) {
        let mut rig = Rig::new();
        let conn = rig.connect();
        rig.create(conn, "t", 1);
        let mut buf = vec![0; 1000];
        let mut builder = BatchBuilder::new();
        for time in [50, 70, 60, 70, 40] {
            builder.append(&mut buf, time, None, Some(b"v"), no_headers()).unwrap();
        }
        let len = builder.seal(&mut buf, &Seal::default()).unwrap();
        let bytes = compressed_batch(codec, &buf[..len]);
        assert!(rig.produce(conn, "t", 0, &bytes).error.is_ok());
        assert_eq!(list(&mut rig, conn, 7, -1, &[("t", 0, -3)])[0], (0, 70, 1, 0), "{codec:?}");
        assert_eq!(list(&mut rig, conn, 7, -1, &[("t", 0, 51)])[0], (0, 70, 1, 0), "{codec:?}");
    }
}

/// What cannot be inflated stands for itself: its first record by time, its last for the largest
/// timestamp. Where the broker stamps, every record has the batch's time, and the first is it.
#[test]
fn times_in_batches_that_cannot_be_inflated() {
    let all = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for codec in all {
        let mut rig = Rig::new();
        let conn = rig.connect();
        rig.create(conn, "t", 1);
        let stamped = [("message.timestamp.type", "LogAppendTime")];
        assert!(rig.create_with(conn, "s", 1, &stamped).is_ok());
        let bytes = with_records(codec, &keyed(1000, &[]), &[0xa5; 100]);
        assert!(BatchView::parse(&bytes).unwrap().verify_crc());
        assert!(rig.produce(conn, "t", 0, &bytes).error.is_ok());
        assert_eq!(list(&mut rig, conn, 7, -1, &[("t", 0, 1005)])[0], (0, 1000, 0, 0));
        assert_eq!(list(&mut rig, conn, 7, -1, &[("t", 0, -3)])[0], (0, 1009, 9, 0));
        assert!(rig.produce(conn, "s", 0, &bytes).error.is_ok());
        let now = rig.now.wall_ms;
        assert_eq!(list(&mut rig, conn, 7, -1, &[("s", 0, now - 5)])[0], (0, now, 0, 0));
        assert_eq!(list(&mut rig, conn, 7, -1, &[("s", 0, -3)])[0], (0, now, 0, 0));
    }
}

#[test]
fn a_partition_twice_and_epochs() {
    let (mut rig, conn) = rig();
    let twice = [("t", 0, -1), ("t", 1, -1), ("t", 0, -2)];
    let errors: Vec<_> = list(&mut rig, conn, 7, -1, &twice).iter().map(|p| p.0).collect();
    assert_eq!(errors, [42, 0, 42]);
    // The next request starts anew.
    assert_eq!(list(&mut rig, conn, 7, -1, &twice[..2]).iter().map(|p| p.0).sum::<i16>(), 0);
    for (epoch, error) in [(-1, 0), (0, 0), (1, 75), (-2, 74)] {
        assert_eq!(list(&mut rig, conn, 7, epoch, &[("t", 0, -1)])[0].0, error);
        assert_eq!(list(&mut rig, conn, 3, epoch, &[("t", 0, -1)])[0].0, 0);
    }
}

/// P33: epoch 0 ends at the end of the log, and there is no other.
#[test]
fn ends_of_epochs() {
    let (mut rig, conn) = rig();
    let mut ask = |version, partition, current_leader_epoch, leader_epoch| {
        let topics = |out: &mut ArrayWriter<'_, '_, OffsetForLeaderTopic<'static>>| {
            let partition = |out: &mut ArrayWriter<'_, '_, OffsetForLeaderPartition>| {
                out.push(&OffsetForLeaderPartition {
                    partition,
                    current_leader_epoch,
                    leader_epoch,
                });
            };
            let partitions = Array::emit(1, &partition);
            out.push(&OffsetForLeaderTopic { topic: "t", partitions });
        };
        let topics = Array::emit(1, &topics);
        let request = OffsetForLeaderEpochRequest { topics, ..Default::default() };
        let body = rig.call(conn, version, &request).unwrap();
        let response = OffsetForLeaderEpochResponse::decode(&body, version).unwrap();
        let part = response.topics.iter().next().unwrap().partitions.iter().next().unwrap();
        (part.error_code, part.leader_epoch, part.end_offset)
    };
    for version in 2..=4 {
        assert_eq!(ask(version, 0, -1, 0), (0, 0, 100));
        assert_eq!(ask(version, 1, 0, 0), (0, 0, 0));
        assert_eq!(ask(version, 0, -1, 1), (0, -1, -1));
        assert_eq!(ask(version, 0, -1, -1), (0, -1, -1));
        assert_eq!(ask(version, 0, 1, 0), (75, -1, -1));
        assert_eq!(ask(version, 0, -2, 0), (74, -1, -1));
        assert_eq!(ask(version, 5, -1, 0), (3, -1, -1));
    }
}
