//! The buffer pool: what leasing, sharing and appending cost.

use criterion::{Criterion, criterion_group, criterion_main};
use kloop::net::BufferPool;
use kloop::net::pool::{Memory, PoolConfig, Priority, Term};
use std::hint::black_box;

fn pool(guaranteed: &[Term], shared: usize) -> BufferPool {
    let memory = Memory::Map { prefault: true };
    let config = PoolConfig { guaranteed, shared, control_blocks: 0, memory };
    BufferPool::new(config).expect("a pool of 32 MiB")
}

/// Lease and return of one block at a time, for each class: of the shared part and, where nothing
/// is shared, of the guaranteed blocks.
fn lease(c: &mut Criterion) {
    let shared = pool(&[], 32 << 20);
    let terms: Vec<Term> =
        (12..=20).map(|k| Term { why: "benchmark", size: 1 << k, blocks: 4 }).collect();
    let guaranteed = pool(&terms, 0);
    for (name, pool) in [("shared", &shared), ("guaranteed", &guaranteed)] {
        let mut group = c.benchmark_group(format!("pool/lease and return/{name}"));
        for k in 12..=20 {
            group.bench_function(format!("{} KiB", (1 << k) >> 10), |b| {
                b.iter(|| black_box(pool.lease(1 << k, Priority::Data)));
            });
        }
        group.finish();
    }
}

/// Lease and return while sixty-four blocks are out, first in first out.
fn lease_among_others(c: &mut Criterion) {
    let pool = pool(&[], 32 << 20);
    let mut out: Vec<_> = (0..64).map(|_| pool.lease(16 << 10, Priority::Data)).collect();
    let mut at = 0;
    c.bench_function("pool/lease and return/64 out", |b| {
        b.iter(|| {
            out[at] = pool.lease(16 << 10, Priority::Data);
            at = (at + 1) % out.len();
        });
    });
}

fn share(c: &mut Criterion) {
    let pool = pool(&[], 32 << 20);
    let view = pool.lease(4096, Priority::Data).expect("a free pool").share(4096);
    c.bench_function("pool/shared lease/clone and drop", |b| b.iter(|| black_box(view.clone())));
    c.bench_function("pool/shared lease/slice and drop", |b| {
        b.iter(|| black_box(view.slice(black_box(16)..80)));
    });
    let mut block = pool.lease(4096, Priority::Data).expect("a free pool").into_append();
    block.publish(4096);
    c.bench_function("pool/append block/share and drop", |b| {
        b.iter(|| black_box(block.share(black_box(16)..80)));
    });
    c.bench_function("pool/lease, share and return", |b| {
        b.iter(|| black_box(pool.lease(4096, Priority::Data).map(|lease| lease.share(64))));
    });
}

criterion_group!(benches, lease, lease_among_others, share);
criterion_main!(benches);
