//! Whole batches: inflated, they are what they would have been without compression.

use super::*;
use crate::protocol::records::batch::HEADER_LEN;
use crate::protocol::records::{
    Attributes, BatchBuilder, BatchView, RecordsError, Seal, TimestampType, no_headers,
    set_log_append_time,
};

/// A batch of values with the key "k", as nobody compressed it, and its builder.
pub(super) fn built<'a>(values: impl Iterator<Item = (i64, &'a [u8])>) -> (BatchBuilder, Vec<u8>) {
    let mut buf = vec![0; 1 << 20];
    let mut builder = BatchBuilder::new();
    for (timestamp, value) in values {
        builder.append(&mut buf, timestamp, Some(b"k"), Some(value), no_headers()).unwrap();
    }
    let total = builder.seal(&mut buf, &seal(0)).unwrap();
    buf.truncate(total);
    (builder, buf)
}

/// As of a producer with transactions, so that no field has its default.
fn seal(attributes: i16) -> Seal {
    Seal {
        base_offset: 1234,
        partition_leader_epoch: 5,
        attributes: Attributes(attributes),
        producer_id: 77,
        producer_epoch: 3,
        base_sequence: 42,
    }
}

/// Two hundred records, uncompressed and compressed, with these attributes.
fn both(packer: &Packer, attributes: Attributes) -> (Vec<u8>, Vec<u8>) {
    let values: Vec<Vec<u8>> = (0..200).map(|i| text(i * 7)).collect();
    let (builder, mut plain) = built((0i64..).zip(values.iter().map(Vec::as_slice)));
    let mut packed = vec![0; HEADER_LEN];
    packed.extend_from_slice(&(packer.pack)(&plain[HEADER_LEN..]));
    let records_len = packed.len() - HEADER_LEN;
    builder.seal(&mut plain, &seal(attributes.0)).unwrap();
    let compressed = seal(attributes.with_compression(packer.codec).0);
    builder.seal_records(&mut packed, records_len, &compressed).unwrap();
    (plain, packed)
}

/// That an inflated batch has the header of the one it was made of, but for length, codec and CRC,
/// and that its CRC is right.
#[track_caller]
pub(super) fn assert_same(compressed: &BatchView<'_>, inflated: &BatchView<'_>) {
    assert!(inflated.verify_crc(), "the CRC is wrong");
    let codec = compressed.attributes().with_compression(Compression::None);
    assert_eq!(inflated.attributes(), codec);
    // Up to the length, from there to the CRC, and behind the attributes.
    for part in [0..8, 12..17, 23..HEADER_LEN] {
        let (was, is) = (&compressed.bytes()[part.clone()], &inflated.bytes()[part.clone()]);
        assert_eq!(was, is, "{part:?}");
    }
}

#[test]
fn an_inflated_batch_is_the_one_that_was_never_compressed() {
    let transactional = Attributes(0).with_transactional();
    let mut inflater = Inflater::new().unwrap();
    for packer in packers() {
        for attributes in [Attributes(0), transactional, transactional.with_log_append_time()] {
            let (plain, packed) = both(&packer, attributes);
            let batch = BatchView::parse(&packed).unwrap();
            assert!(matches!(batch.records(), Err(RecordsError::Compressed(_))));
            let mut to = vec![GUARD; plain.len() + 100];
            let total = inflater.inflate_batch(&batch, &mut to).unwrap();
            assert_eq!(&to[..total], plain, "{}", packer.name);
            let inflated = BatchView::parse(&to).unwrap();
            assert_same(&batch, &inflated);
            let expected = BatchView::parse(&plain).unwrap();
            let values = |batch: &BatchView<'_>| -> Vec<(i64, i64, Vec<u8>)> {
                let records = batch.records().unwrap().map(Result::unwrap);
                let value = records.map(|record| {
                    let value = record.value.unwrap().to_vec();
                    (batch.offset_of(&record), batch.timestamp_of(&record), value)
                });
                value.collect()
            };
            assert_eq!(values(&inflated), values(&expected));
            assert_eq!(values(&inflated).len(), 200);
        }
    }
}

/// The broker's stamp is in the header, and stays.
#[test]
fn a_stamp_of_the_broker_survives() {
    for packer in packers() {
        let (plain, mut packed) = both(&packer, Attributes(0).with_transactional());
        set_log_append_time(&mut packed, 999_999).unwrap();
        let batch = BatchView::parse(&packed).unwrap();
        let mut to = vec![0; plain.len()];
        Inflater::new().unwrap().inflate_batch(&batch, &mut to).unwrap();
        let inflated = BatchView::parse(&to).unwrap();
        assert_same(&batch, &inflated);
        assert_eq!(inflated.attributes().timestamp_type(), TimestampType::LogAppend);
        assert!(inflated.attributes().is_transactional());
        let record = inflated.records().unwrap().last().unwrap().unwrap();
        assert_eq!(inflated.timestamp_of(&record), 999_999);
    }
}

#[test]
fn a_batch_that_has_no_room_is_full() {
    let mut inflater = Inflater::new().unwrap();
    for packer in packers() {
        let (plain, packed) = both(&packer, Attributes(0));
        let batch = BatchView::parse(&packed).unwrap();
        let rooms = (0..200).chain([plain.len() / 2, plain.len() - 2, plain.len() - 1]);
        for room in rooms {
            let mut to = vec![GUARD; room + 64];
            let got = inflater.inflate_batch(&batch, &mut to[..room]);
            assert_eq!(got, Err(InflateError::Full), "{}: {room}", packer.name);
            assert!(to[room..].iter().all(|byte| *byte == GUARD), "{}", packer.name);
        }
        // What a caller offers first is enough.
        let room = HEADER_LEN + expected_len(packer.codec, batch.records_bytes());
        if packer.announces {
            assert_eq!(inflater.inflate_batch(&batch, &mut vec![0; room]), Ok(plain.len()));
        }
    }
}

#[test]
fn an_uncompressed_batch_is_copied() {
    let (_, plain) = built([(5, &b"one"[..]), (6, b"two")].into_iter());
    let batch = BatchView::parse(&plain).unwrap();
    let mut inflater = Inflater::new().unwrap();
    let mut to = vec![0; plain.len()];
    assert_eq!(inflater.inflate_batch(&batch, &mut to), Ok(plain.len()));
    assert_eq!(to, plain);
    to.pop();
    assert_eq!(inflater.inflate_batch(&batch, &mut to), Err(InflateError::Full));
}

#[test]
fn a_batch_of_a_codec_that_does_not_exist_is_unsupported() {
    let (builder, mut plain) = built([(5, &b"one"[..])].into_iter());
    for codec in [5, 6, 7] {
        let total = builder.seal(&mut plain, &seal(codec)).unwrap();
        let batch = BatchView::parse(&plain[..total]).unwrap();
        let got = Inflater::new().unwrap().inflate_batch(&batch, &mut [0; 500]);
        assert_eq!(got, Err(InflateError::Unsupported));
    }
}

#[test]
fn records_that_are_not_what_the_codec_writes_are_malformed() {
    let (builder, mut plain) = built([(5, &b"\x8bnot compressed"[..])].into_iter());
    for packer in packers() {
        let attributes = Attributes(0).with_compression(packer.codec);
        let total = builder.seal(&mut plain, &seal(attributes.0)).unwrap();
        let batch = BatchView::parse(&plain[..total]).unwrap();
        let got = Inflater::new().unwrap().inflate_batch(&batch, &mut [0; 500]);
        assert!(matches!(got, Err(InflateError::Malformed(_))), "{}: {got:?}", packer.name);
    }
}
