//! Encoding and decoding: headers, hot messages and record batches, each beside the kafka-protocol crate on the
//! same bytes in the same run where it can do the same.

#![allow(missing_docs, reason = "criterion's macros")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "a benchmark's set-up grows"
)]

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kafka_protocol::messages as kp;
use kafka_protocol::protocol::{Decodable, Encodable};
use kafka_protocol::records as kr;
use kloop::protocol::messages::*;
use kloop::protocol::records::{
    BatchBuilder, BatchView, HeaderRef, Seal, crc32c, no_headers, set_base_offset,
};
use kloop::protocol::{
    ApiKey, Array, ArrayWriter, Cut, Message, Reader, RequestHeader, ResponseHeader, Writer,
};
use std::hint::black_box;

const VALUE: [u8; 100] = [b'v'; 100];
const RECORDS: usize = 100;

/// A batch of `count` records of 100 bytes.
fn batch(count: usize) -> Vec<u8> {
    let mut buf = vec![0; 200 + count * 120];
    let mut builder = BatchBuilder::new();
    for i in 0..count {
        let time = 1_700_000_000_000 + i as i64;
        builder.append(&mut buf, time, None, Some(&VALUE), no_headers()).unwrap();
    }
    let total = builder.seal(&mut buf, &Seal::default()).unwrap();
    buf.truncate(total);
    buf
}

/// A Produce v9 request's body: `n` topics of `n` partitions of one batch.
fn produce_body(n: usize, batch: &[u8]) -> Vec<u8> {
    let partitions = |w: &mut ArrayWriter<'_, '_, ProducePartitionData<'static>>| {
        for index in 0..n as i32 {
            w.push(&ProducePartitionData { index, records: Some(batch) });
        }
    };
    let topics = |w: &mut ArrayWriter<'_, '_, ProduceTopicData<'static>>| {
        for _ in 0..n {
            w.push(&ProduceTopicData {
                name: "a-topic-of-usual-length",
                partition_data: Array::emit(n, &partitions),
                ..Default::default()
            });
        }
    };
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: Array::emit(n, &topics),
        ..Default::default()
    };
    let mut out = vec![0; request.encoded_len(9)];
    let mut w = Writer::new(&mut out);
    request.encode(&mut w, 9);
    w.finish().unwrap();
    out
}

fn headers(c: &mut Criterion) {
    let mut group = c.benchmark_group("header");
    let header = RequestHeader {
        api_key: ApiKey::PRODUCE,
        api_version: 9,
        correlation_id: 77,
        client_id: Some("a-client"),
    };
    let mut bytes = [0; 64];
    let mut w = Writer::new(&mut bytes);
    header.write(&mut w);
    let n = w.finish().unwrap();
    let bytes = &bytes[..n];
    group.bench_function("request read", |b| {
        b.iter(|| RequestHeader::read(&mut Reader::new(black_box(bytes))).unwrap().correlation_id)
    });
    group.bench_function("request write", |b| {
        let mut out = [0; 64];
        b.iter(|| {
            let mut w = Writer::new(&mut out);
            black_box(&header).write(&mut w);
            w.finish().unwrap()
        })
    });
    group.bench_function("response read", |b| {
        let bytes = [0, 0, 0, 7, 0];
        b.iter(|| {
            ResponseHeader::read(&mut Reader::new(black_box(&bytes)), ApiKey::PRODUCE, 9).unwrap()
        })
    });
    let owned = Bytes::copy_from_slice(bytes);
    group.bench_function("request read, kafka-protocol", |b| {
        b.iter(|| kp::RequestHeader::decode(&mut black_box(&owned).clone(), 2).unwrap())
    });
    group.finish();
}

/// Decodes and visits every partition, as a broker does.
fn visit(body: &[u8]) -> usize {
    let request = ProduceRequest::decode(body, 9).unwrap();
    let topics = request.topic_data.iter();
    topics
        .flat_map(|topic| topic.partition_data.iter())
        .map(|partition| partition.records.map_or(0, <[u8]>::len))
        .sum()
}

fn produce(c: &mut Criterion) {
    let mut group = c.benchmark_group("produce request v9");
    let batch = batch(RECORDS);
    for n in [1, 10] {
        let body = produce_body(n, &batch);
        group.bench_function(format!("decode and visit {n}x{n}"), |b| {
            b.iter(|| visit(black_box(&body)))
        });
        let owned = Bytes::from(body);
        group.bench_function(format!("decode {n}x{n}, kafka-protocol"), |b| {
            b.iter(|| kp::ProduceRequest::decode(&mut black_box(&owned).clone(), 9).unwrap())
        });
    }
    group.finish();
}

/// Writes a Fetch v12 answer of `n` topics of `n` partitions.
fn write_fetch(w: &mut Writer<'_>, n: usize, batch: &[u8]) {
    let partitions = |w: &mut ArrayWriter<'_, '_, FetchPartitionResponse<'static>>| {
        for partition_index in 0..n as i32 {
            w.push(&FetchPartitionResponse {
                partition_index,
                high_watermark: 12_345,
                last_stable_offset: 12_345,
                log_start_offset: 0,
                records: Some(batch),
                ..Default::default()
            });
        }
    };
    let topics = |w: &mut ArrayWriter<'_, '_, FetchTopicResponse<'static>>| {
        for _ in 0..n {
            w.push(&FetchTopicResponse {
                topic: "a-topic-of-usual-length",
                partitions: Array::emit(n, &partitions),
                ..Default::default()
            });
        }
    };
    FetchResponse { responses: Array::emit(n, &topics), ..Default::default() }.encode(w, 12);
}

fn fetch(c: &mut Criterion) {
    let mut group = c.benchmark_group("fetch response v12");
    let batch = batch(RECORDS);
    for n in [1, 10] {
        let mut out = vec![0; 2 << 20];
        group.bench_function(format!("encode {n}x{n}"), |b| {
            b.iter(|| {
                let mut w = Writer::new(&mut out);
                write_fetch(&mut w, n, black_box(&batch));
                w.finish().unwrap()
            })
        });
        let mut cuts = [Cut::default(); 100];
        group.bench_function(format!("encode {n}x{n}, batches left where they are"), |b| {
            b.iter(|| {
                let mut w = Writer::gathering(&mut out, &mut cuts);
                write_fetch(&mut w, n, black_box(&batch));
                w.finish().unwrap()
            })
        });
        let mut w = Writer::new(&mut out);
        write_fetch(&mut w, n, &batch);
        let len = w.finish().unwrap();
        let mut owned = Bytes::copy_from_slice(&out[..len]);
        group.bench_function(format!("decode {n}x{n}"), |b| {
            b.iter(|| FetchResponse::decode(black_box(&out[..len]), 12).unwrap().responses.len())
        });
        let theirs = kp::FetchResponse::decode(&mut owned, 12).unwrap();
        let mut into = BytesMut::with_capacity(2 << 20);
        group.bench_function(format!("encode {n}x{n}, kafka-protocol"), |b| {
            b.iter(|| {
                into.clear();
                black_box(&theirs).encode(&mut into, 12).unwrap();
                into.len()
            })
        });
    }
    group.finish();
}

fn append(c: &mut Criterion) {
    let mut group = c.benchmark_group("append 100 records of 100 B");
    group.throughput(Throughput::Elements(RECORDS as u64));
    let mut buf = vec![0; 32 << 10];
    let headers: [HeaderRef<'static>; 2] = [(b"trace", Some(b"0123456789abcdef")), (b"kind", None)];
    let key = Some(&b"key-12345"[..]);
    macro_rules! fill {
        ($name:literal, $key:expr, $headers:expr) => {
            group.bench_function($name, |b| {
                b.iter(|| {
                    let mut builder = BatchBuilder::new();
                    for i in 0..RECORDS as i64 {
                        let time = 1_700_000_000_000 + (i >> 3);
                        let (key, value) = (black_box($key), Some(black_box(&VALUE[..])));
                        builder.append(&mut buf, time, key, value, $headers).unwrap();
                    }
                    builder.len()
                })
            });
        };
    }
    fill!("without key", None, no_headers());
    fill!("with key", key, no_headers());
    fill!("with key and two headers", key, headers.iter().copied());
    group.bench_function("without key, and sealed", |b| {
        b.iter(|| {
            let mut builder = BatchBuilder::new();
            for i in 0..RECORDS as i64 {
                let value = Some(black_box(&VALUE[..]));
                builder.append(&mut buf, i, None, value, no_headers()).unwrap();
            }
            builder.seal(&mut buf, &Seal::default()).unwrap()
        })
    });
    let theirs: Vec<kr::Record> = {
        let mut bytes = Bytes::from(batch(RECORDS));
        kr::RecordBatchDecoder::decode(&mut bytes).unwrap().records
    };
    let options = kr::RecordEncodeOptions { version: 2, compression: kr::Compression::None };
    let mut into = BytesMut::with_capacity(32 << 10);
    group.bench_function("sealed, kafka-protocol", |b| {
        b.iter(|| {
            into.clear();
            kr::RecordBatchEncoder::encode(&mut into, black_box(&theirs), &options).unwrap();
            into.len()
        })
    });
    group.finish();
}

fn walk(c: &mut Criterion) {
    let mut group = c.benchmark_group("walk 100 records of 100 B");
    group.throughput(Throughput::Elements(RECORDS as u64));
    let bytes = batch(RECORDS);
    let records = |bytes: &[u8]| -> usize {
        let batch = BatchView::parse(bytes).unwrap();
        batch.records().unwrap().map(|r| r.unwrap().value.map_or(0, <[u8]>::len)).sum()
    };
    group.bench_function("records", |b| b.iter(|| records(black_box(&bytes))));
    group.bench_function("records and CRC", |b| {
        b.iter(|| {
            assert!(BatchView::parse(black_box(&bytes)).unwrap().verify_crc());
            records(&bytes)
        })
    });
    let owned = Bytes::from(bytes);
    group.bench_function("records and CRC, kafka-protocol", |b| {
        b.iter(|| kr::RecordBatchDecoder::decode(&mut black_box(&owned).clone()).unwrap())
    });
    group.finish();
}

fn batches(c: &mut Criterion) {
    let mut group = c.benchmark_group("batch of 11.6 kB");
    let mut bytes = batch(RECORDS);
    group.bench_function("check what a broker checks, but the CRC", |b| {
        b.iter(|| BatchView::parse(black_box(&bytes)).unwrap().check_produced().unwrap())
    });
    group.bench_function("write the base offset", |b| {
        b.iter(|| set_base_offset(black_box(&mut bytes), 77).unwrap())
    });
    group.finish();

    let mut group = c.benchmark_group("crc32c");
    for size in [100, 1000, 16 << 10, 1 << 20] {
        let bytes = vec![0x5a; size];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("{size} B"), |b| b.iter(|| crc32c(black_box(&bytes))));
    }
    group.finish();
}

criterion_group!(benches, headers, produce, fetch, append, walk, batches);
criterion_main!(benches);
