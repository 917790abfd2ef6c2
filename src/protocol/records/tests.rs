//! Tests over whole batches: built, read back, cut off, damaged, and held against the oracle.

use super::batch::{ATTRIBUTES_AT, COUNT_AT, CRC_AT, HEADER_LEN, LAST_OFFSET_DELTA_AT, MAGIC_AT};
use super::*;
use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records as oracle;
use proptest::prelude::*;

type OwnedHeaders = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
struct Owned {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: OwnedHeaders,
}

fn borrow(headers: &OwnedHeaders) -> impl Iterator<Item = HeaderRef<'_>> + Clone {
    headers.iter().map(|(key, value)| (key.as_slice(), value.as_deref()))
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 0..max),
    ]
}

fn record() -> impl Strategy<Value = Owned> {
    let header = (bytes(80), prop::option::of(bytes(200)));
    (
        prop_oneof![4 => 0..100_000i64, 1 => any::<i64>()],
        prop::option::of(bytes(300)),
        prop::option::of(bytes(20_000)),
        prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(header, 0..5)],
    )
        .prop_map(|(timestamp, key, value, headers)| Owned { timestamp, key, value, headers })
}

fn build(records: &[Owned], seal: &Seal) -> Vec<u8> {
    let mut buf = vec![0xee; 1 << 20];
    let mut builder = BatchBuilder::new();
    for (i, r) in records.iter().enumerate() {
        let (key, value) = (r.key.as_deref(), r.value.as_deref());
        let before = builder.len();
        let said = builder.record_len(r.timestamp, key, value, borrow(&r.headers)).unwrap();
        let delta = builder.append(&mut buf, r.timestamp, key, value, borrow(&r.headers));
        assert_eq!(delta, Some(i as i32));
        assert_eq!(builder.len() - before, said);
    }
    let total = builder.seal(&mut buf, seal).unwrap();
    assert_eq!(total, builder.len());
    buf.truncate(total);
    buf
}

fn owned(batch: &BatchView<'_>, r: &Record<'_>) -> Owned {
    Owned {
        timestamp: batch.timestamp_of(r),
        key: r.key.map(<[u8]>::to_vec),
        value: r.value.map(<[u8]>::to_vec),
        headers: r.headers.map(|(k, v)| (k.to_vec(), v.map(<[u8]>::to_vec))).collect(),
    }
}

fn few() -> Vec<Owned> {
    vec![
        Owned { timestamp: 1000, key: None, value: Some(b"one".to_vec()), headers: vec![] },
        Owned {
            timestamp: 900,
            key: Some(b"k".to_vec()),
            value: None,
            headers: vec![(b"h".to_vec(), None), (b"h".to_vec(), Some(b"twice".to_vec()))],
        },
        Owned { timestamp: 5000, key: Some(vec![]), value: Some(vec![7; 300]), headers: vec![] },
    ]
}

const SEAL: Seal = Seal {
    base_offset: 77,
    partition_leader_epoch: 3,
    attributes: Attributes(0x10),
    producer_id: 1234,
    producer_epoch: 5,
    base_sequence: 6,
};

#[test]
fn header_fields_stand_where_they_are_looked_for() {
    let bytes = build(&few(), &SEAL);
    let batch = BatchView::parse(&bytes).unwrap();
    assert_eq!(batch.base_offset(), 77);
    assert_eq!(batch.batch_length() as usize, bytes.len() - 12);
    assert_eq!(batch.partition_leader_epoch(), 3);
    assert_eq!(batch.magic(), 2);
    assert!(batch.verify_crc());
    assert!(batch.attributes().is_transactional() && !batch.attributes().is_control());
    assert_eq!(batch.last_offset_delta(), 2);
    assert_eq!((batch.base_timestamp(), batch.max_timestamp()), (1000, 5000));
    assert_eq!((batch.producer_id(), batch.producer_epoch()), (1234, 5));
    assert_eq!((batch.base_sequence(), batch.last_sequence()), (6, 8));
    assert_eq!((batch.count(), batch.last_offset(), batch.next_offset()), (3, 79, 80));
    assert_eq!(batch.check_produced(), Ok(()));
}

#[test]
fn a_batch_cut_anywhere_is_an_error_and_ends_a_walk() {
    let bytes = build(&few(), &SEAL);
    for cut in 0..bytes.len() {
        assert!(BatchView::parse(&bytes[..cut]).is_err(), "cut at {cut}");
        let mut batches = Batches::new(&bytes[..cut]);
        assert!(batches.next().is_none(), "cut at {cut}");
        assert_eq!(batches.rest().len(), cut);
    }
    // The records of a batch whose length was cut with it.
    let records = &bytes[HEADER_LEN..];
    for cut in 0..records.len() {
        let walked = Records::new(&records[..cut], 3).map(|mut r| r.all(|r| r.is_ok()));
        assert_ne!(walked, Ok(true), "cut at {cut}");
    }
    let mut longer = records.to_vec();
    longer.push(0);
    assert!(Records::new(&longer, 3).unwrap().any(|r| r.is_err()));
    assert_eq!(Records::new(records, 2).unwrap().filter(|r| r.is_err()).count(), 1);
}

#[test]
fn batches_follow_one_another() {
    let one = build(&few(), &SEAL);
    let mut bytes = [&one[..], &one[..], &one[..30]].concat();
    let mut batches = Batches::new(&bytes);
    assert_eq!(batches.by_ref().filter(|b| b.is_ok()).count(), 2);
    assert_eq!(batches.rest().len(), 30);
    // Another format in the middle is an error, once.
    bytes[one.len() + MAGIC_AT] = 1;
    let mut batches = Batches::new(&bytes);
    assert!(batches.next().unwrap().is_ok());
    assert!(batches.next().unwrap().is_err());
    assert!(batches.next().is_none());
    // And so is a length that no batch has.
    bytes[one.len() + MAGIC_AT] = 2;
    bytes[one.len() + 8..one.len() + 12].copy_from_slice(&48i32.to_be_bytes());
    assert!(Batches::new(&bytes).nth(1).unwrap().is_err());
    assert!(announced_len(&bytes[one.len()..]).is_err());
    assert_eq!(announced_len(&one[..12]), Ok(Some(one.len())));
    assert_eq!(announced_len(&one[..11]), Ok(None));
}

#[test]
fn what_a_broker_refuses() {
    let good = build(&few(), &SEAL);
    let refused = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        let batch = BatchView::parse(&bytes).unwrap();
        assert!(!batch.verify_crc());
        batch.check_produced().is_err()
    };
    assert!(refused(COUNT_AT, &0i32.to_be_bytes()));
    assert!(refused(COUNT_AT, &4i32.to_be_bytes()));
    assert!(refused(COUNT_AT, &i32::MIN.to_be_bytes()));
    assert!(refused(LAST_OFFSET_DELTA_AT, &(-1i32).to_be_bytes()));
    assert!(refused(ATTRIBUTES_AT, &0x20i16.to_be_bytes()));
    assert!(refused(ATTRIBUTES_AT, &0x05i16.to_be_bytes()));
    assert!(refused(53, &(-1i32).to_be_bytes()));
    let mut bytes = good.clone();
    bytes[CRC_AT] ^= 1;
    assert!(!BatchView::parse(&bytes).unwrap().verify_crc());
    // A count that cannot be is refused before anything is walked.
    bytes[COUNT_AT..COUNT_AT + 4].copy_from_slice(&i32::MAX.to_be_bytes());
    let records = BatchView::parse(&bytes).unwrap().records();
    assert!(matches!(records, Err(RecordsError::Malformed(_))));
}

#[test]
fn compressed_records_are_not_walked() {
    let attributes = Attributes(0).with_compression(Compression::Zstd);
    let mut bytes = build(&few(), &Seal { attributes, ..Seal::default() });
    let batch = BatchView::parse(&bytes).unwrap();
    assert_eq!(batch.records().err(), Some(RecordsError::Compressed(Compression::Zstd)));
    bytes[ATTRIBUTES_AT + 1] = 6;
    let batch = BatchView::parse(&bytes).unwrap();
    assert_eq!(batch.records().err(), Some(RecordsError::UnknownCompression(6)));
}

#[test]
fn in_place_edits() {
    let mut bytes = build(&few(), &SEAL);
    set_base_offset(&mut bytes, 1 << 40).unwrap();
    set_partition_leader_epoch(&mut bytes, 9).unwrap();
    let batch = BatchView::parse(&bytes).unwrap();
    assert_eq!((batch.base_offset(), batch.partition_leader_epoch()), (1 << 40, 9));
    assert!(batch.verify_crc());
    set_log_append_time(&mut bytes, 123_456).unwrap();
    let batch = BatchView::parse(&bytes).unwrap();
    assert!(batch.verify_crc());
    assert_eq!(batch.attributes().timestamp_type(), TimestampType::LogAppend);
    assert_eq!((batch.base_timestamp(), batch.max_timestamp()), (1000, 123_456));
    let record = batch.records().unwrap().next().unwrap().unwrap();
    assert_eq!((batch.timestamp_of(&record), batch.offset_of(&record)), (123_456, 1 << 40));
    assert!(set_base_offset(&mut [0; 7], 0).is_err());
    assert!(set_partition_leader_epoch(&mut [0; 15], 0).is_err());
    let end = bytes.len() - 1;
    let before = bytes.clone();
    assert!(set_log_append_time(&mut bytes[..end], 0).is_err());
    assert_eq!(before, bytes);
}

#[test]
fn a_record_that_does_not_fit_changes_nothing() {
    let headers: [HeaderRef<'_>; 1] = [(b"key", Some(b"value"))];
    let mut builder = BatchBuilder::new();
    let mut buf = [0u8; 256];
    let add = |b: &mut BatchBuilder, buf: &mut [u8]| {
        b.append(buf, 5, Some(b"k"), Some(b"0123456789"), headers.iter().copied())
    };
    assert_eq!(add(&mut builder, &mut buf), Some(0));
    let (end, len) = (builder.len(), builder.len() - HEADER_LEN);
    for room in 0..len {
        assert_eq!(add(&mut builder, &mut buf[..end + room]), None);
        assert_eq!((builder.len(), builder.count()), (end, 1));
        assert!(buf[end..].iter().all(|&b| b == 0), "{room}");
    }
    assert_eq!(add(&mut builder, &mut buf[..end + len]), Some(1));
    assert_eq!(builder.seal(&mut buf[..end + len - 1], &SEAL), None);
    assert_eq!(builder.seal(&mut buf, &SEAL), Some(end + len));
    assert_eq!(BatchBuilder::new().seal(&mut buf, &SEAL), None);
    assert_eq!(BatchBuilder::new().append(&mut [], 0, None, None, no_headers()), None);
}

#[test]
fn a_reserved_value_is_filled_by_the_caller() {
    let mut builder = BatchBuilder::new();
    let mut buf = vec![0u8; 4096];
    let range = builder.reserve(&mut buf, 5, Some(b"key"), 1000, no_headers()).unwrap();
    assert_eq!(range.len(), 1000);
    buf[range].fill(0x5a);
    let range = builder.reserve(&mut buf, 6, None, 0, no_headers()).unwrap();
    assert!(range.is_empty());
    let total = builder.seal(&mut buf, &Seal::default()).unwrap();
    let batch = BatchView::parse(&buf[..total]).unwrap();
    let records: Vec<_> = batch.records().unwrap().map(|r| r.unwrap()).collect();
    assert_eq!(records[0].value, Some(&[0x5a; 1000][..]));
    assert_eq!((records[1].key, records[1].value), (None, Some(&[][..])));
    assert_eq!(batch.check_produced(), Ok(()));
}

#[test]
fn control_records() {
    let mut buf = [0; 200];
    for (kind, says) in [(0, ControlType::Abort), (1, ControlType::Commit)] {
        let mut builder = BatchBuilder::new();
        let value = [0, 0, 0, 0, 0, 7];
        builder.append(&mut buf, 5, Some(&[0, 0, 0, kind]), Some(&value), no_headers()).unwrap();
        let attributes = Attributes(0).with_control().with_transactional();
        let total = builder.seal(&mut buf, &Seal { attributes, ..SEAL }).unwrap();
        let batch = BatchView::parse(&buf[..total]).unwrap();
        assert!(batch.attributes().is_control());
        let record = batch.records().unwrap().next().unwrap().unwrap();
        assert_eq!(record.control_type(), Ok(says));
    }
}

fn to_oracle(records: &[Owned]) -> Vec<oracle::Record> {
    let mut out = vec![];
    for (i, r) in records.iter().enumerate() {
        let mut record = oracle::Record {
            transactional: true,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: 3,
            producer_id: 1234,
            producer_epoch: 5,
            timestamp_type: oracle::TimestampType::Creation,
            offset: 77 + i as i64,
            sequence: 6 + i as i32,
            timestamp: r.timestamp,
            key: r.key.clone().map(Bytes::from),
            value: r.value.clone().map(Bytes::from),
            headers: Default::default(),
        };
        for (key, value) in &r.headers {
            let key = String::from_utf8(key.clone()).unwrap();
            record.headers.insert(StrBytes::from_string(key), value.clone().map(Bytes::from));
        }
        out.push(record);
    }
    out
}

/// What the oracle can hold: headers with distinct UTF-8 keys, timestamps that do not overflow, the
/// first of them the smallest, as it takes the smallest as base.
fn tame(mut records: Vec<Owned>) -> Vec<Owned> {
    for r in &mut records {
        r.timestamp &= 0xff_ffff_ffff;
        for (i, (key, _)) in r.headers.iter_mut().enumerate() {
            *key = format!("{i}-{}", String::from_utf8_lossy(key)).into_bytes();
        }
    }
    records.sort_by_key(|r| r.timestamp);
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of random cases")]
    fn what_was_appended_is_read(records in prop::collection::vec(record(), 1..30)) {
        let bytes = build(&records, &SEAL);
        let batch = BatchView::parse(&bytes).unwrap();
        prop_assert!(batch.verify_crc());
        let walked: Vec<_> = batch.records().unwrap().map(|r| r.unwrap()).collect();
        for (i, r) in walked.iter().enumerate() {
            prop_assert_eq!(r.offset_delta, i as i32);
            prop_assert_eq!(&owned(&batch, r), &records[i]);
        }
        prop_assert_eq!(walked.len(), records.len());
        // What was read can be appended again, to the same bytes.
        let mut buf = vec![0; bytes.len()];
        let mut builder = BatchBuilder::new();
        for r in &walked {
            let appended =
                builder.append(&mut buf, batch.timestamp_of(r), r.key, r.value, r.headers);
            prop_assert!(appended.is_some());
        }
        builder.seal(&mut buf, &SEAL).unwrap();
        prop_assert_eq!(buf, bytes);
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of random cases")]
    fn the_oracle_agrees(records in prop::collection::vec(record(), 1..20)) {
        let records = tame(records);
        let expected = to_oracle(&records);
        let ours = build(&records, &SEAL);
        let mut theirs = BytesMut::new();
        let options = oracle::RecordEncodeOptions {
            version: 2,
            compression: oracle::Compression::None,
        };
        oracle::RecordBatchEncoder::encode(&mut theirs, &expected, &options).unwrap();
        prop_assert_eq!(&ours[..], &theirs[..]);
        let read = oracle::RecordBatchDecoder::decode(&mut Bytes::from(ours)).unwrap();
        prop_assert_eq!(read.records, expected);
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of random cases")]
    fn damage_never_panics(
        records in prop::collection::vec(record(), 1..4),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = build(&records, &SEAL);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        crate::protocol::fuzz::fuzz_record_batch(&bytes);
    }
}
