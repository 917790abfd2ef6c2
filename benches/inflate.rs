//! Inflating a batch by each codec, beside copying one that is not compressed: what a consumer pays for
//! compressed batches, and a broker for looking into them.

#[path = "../src/protocol/records/compression/encoders.rs"]
mod encoders;
#[path = "../src/protocol/records/test_batches.rs"]
#[allow(dead_code, reason = "only some of it is used here")]
mod test_batches;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use encoders::CODECS;
use kloop::protocol;
use kloop::protocol::records::{BatchBuilder, BatchView, Inflater, Seal, no_headers};
use std::fmt::Write;
use std::hint::black_box;
use test_batches::compressed_batch;

/// A batch of `count` records of about 100 bytes that look like a log's lines.
fn batch(count: usize) -> Vec<u8> {
    let mut buf = vec![0; 200 * count + 100];
    let (mut builder, mut value, mut state) = (BatchBuilder::new(), String::new(), 1u32);
    for i in 0..count as i64 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        value.clear();
        write!(value, "level=info id={state:08x} path=/api/v1/orders/{} ", state >> 20).unwrap();
        write!(value, "status=200 duration_ms={} user={:05}", state % 97, state >> 15).unwrap();
        builder.append(&mut buf, i, None, Some(value.as_bytes()), no_headers()).unwrap();
    }
    let len = builder.seal(&mut buf, &Seal::default()).unwrap();
    buf.truncate(len);
    buf
}

fn inflate(c: &mut Criterion) {
    let mut inflater = Inflater::new().unwrap();
    for count in [10, 100, 1000, 10_000] {
        let plain = batch(count);
        let mut group = c.benchmark_group(format!("inflate {count} records, {} B", plain.len()));
        group.throughput(Throughput::Bytes(plain.len() as u64));
        let mut room = vec![0; plain.len()];
        let mut run = |name: String, bytes: &[u8]| {
            group.bench_function(name, |b| {
                b.iter(|| {
                    let batch = BatchView::parse(black_box(bytes)).unwrap();
                    inflater.inflate_batch(&batch, &mut room).unwrap()
                })
            });
        };
        run("copied".to_owned(), &plain);
        for codec in CODECS {
            let packed = compressed_batch(*codec, &plain);
            run(format!("{} of {} B", codec.name(), packed.len()), &packed);
        }
        group.finish();
    }
}

criterion_group!(benches, inflate);
criterion_main!(benches);
