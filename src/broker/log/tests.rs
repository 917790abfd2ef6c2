//! The log of one partition and the memory of all, held against what was appended.
#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

use super::segments::Segments;
use super::*;
use crate::broker::batch_reader::BatchReader;
use crate::broker::config::{BrokerConfig, BrokerLimits};
use crate::broker::core::Core;
use crate::broker::partition::{Append, Partition};
use crate::logging::Logger;
use crate::net::SharedLease;
use crate::protocol::records::{Attributes, BatchBuilder, Batches, Compression, Seal, no_headers};
use crate::sync::Arc;

/// A batch of `count` records with values of `size` bytes and timestamps from `time` on.
fn batch(count: usize, size: usize, time: i64) -> Vec<u8> {
    batch_with(count, size, time, &Seal::default())
}

fn batch_with(count: usize, size: usize, time: i64, seal: &Seal) -> Vec<u8> {
    let mut buf = vec![0; count * (size + 64) + 200];
    let mut builder = BatchBuilder::new();
    for i in 0..count {
        let value = vec![i as u8; size];
        let time = time + i as i64;
        builder.append(&mut buf, time, None, Some(&value), no_headers()).unwrap();
    }
    let len = builder.seal(&mut buf, seal).unwrap();
    buf.truncate(len);
    buf
}

fn core(memory: usize) -> Core {
    let config = BrokerConfig { log_memory: memory, ..BrokerConfig::default() };
    Core::new(config, &BrokerLimits::default(), Logger::silent(), 7).unwrap()
}

fn partition(core: &Core, name: &str) -> Arc<Partition> {
    let settings = core.settings.topic;
    let topic = core.topics.create(name, 1, settings, &core.random, &core.memory).unwrap();
    Arc::clone(&topic.partitions[0])
}

#[track_caller]
fn append(core: &Core, partition: &Arc<Partition>, bytes: &[u8]) -> i64 {
    match partition.append(core, &BatchView::parse(bytes).unwrap(), None) {
        Append::Done { base_offset, .. } => base_offset,
        other => panic!("{other:?}"),
    }
}

/// What a read from `offset` gives: base offsets and bytes.
fn read(
    partition: &Partition,
    offset: i64,
    limit: usize,
) -> Result<(Vec<i64>, Vec<SharedLease>), OutOfRange> {
    let mut places: Vec<Option<SharedLease>> = vec![None; 32];
    let take = Take { places: &mut places, limit, one_anyway: true };
    let (bytes, views) = partition.read(|log| log.read(offset, take)).unwrap()?;
    let views: Vec<_> = places.into_iter().take(views).flatten().collect();
    assert_eq!(views.iter().map(|v| v.len()).sum::<usize>(), bytes);
    let mut offsets = vec![];
    for view in &views {
        let mut batches = Batches::new(view);
        for b in batches.by_ref() {
            let b = b.unwrap();
            assert!(b.verify_crc());
            assert_eq!(b.partition_leader_epoch(), LEADER_EPOCH);
            offsets.push(b.base_offset());
        }
        assert!(batches.rest().is_empty(), "a batch was cut");
    }
    Ok((offsets, views))
}

#[test]
fn offsets_count_records_and_any_offset_finds_its_batch() {
    let core = core(8 << 20);
    let p = partition(&core, "t");
    assert_eq!(read(&p, 0, 1000).unwrap().0, [0i64; 0]);
    assert_eq!(read(&p, 1, 1000).err(), Some(OutOfRange));
    let mut bases = vec![];
    for i in 0..2000 {
        let count = 1 + i % 7;
        bases.push((append(&core, &p, &batch(count, 100, 0)), count as i64));
    }
    let end = bases.last().map(|(base, count)| base + count).unwrap();
    assert_eq!(p.read(|log| (log.start_offset(), log.end_offset())), Ok((0, end)));
    // Backwards, so that no read finds the cursor where it needs it.
    for (base, count) in bases.iter().rev() {
        for offset in *base..base + count {
            let (offsets, _) = read(&p, offset, 1).unwrap();
            assert_eq!(offsets, [*base], "offset {offset}");
        }
    }
    assert_eq!(read(&p, end, 1000).unwrap().0, [0i64; 0]);
    assert_eq!(read(&p, end + 1, 1000).err(), Some(OutOfRange));
    assert_eq!(read(&p, -1, 1000).err(), Some(OutOfRange));
    // Forwards, each from where the last one ended.
    for limit in [1, 1000, 5000, 100_000, usize::MAX] {
        let (mut at, mut seen) = (0, vec![]);
        while at < end {
            let (offsets, _) = read(&p, at, limit).unwrap();
            assert!(!offsets.is_empty());
            let last = *offsets.last().unwrap();
            let (_, count) = bases.iter().find(|(base, _)| *base == last).unwrap();
            at = last + count;
            seen.extend(offsets);
        }
        assert!(seen.iter().eq(bases.iter().map(|(base, _)| base)), "limit {limit}");
    }
}

#[test]
fn a_read_keeps_to_its_limit_but_for_one_batch() {
    let core = core(8 << 20);
    let p = partition(&core, "t");
    let one = batch(3, 300, 0);
    for _ in 0..200 {
        append(&core, &p, &one);
    }
    for (limit, batches) in [
        (0, 1),
        (one.len() - 1, 1),
        (one.len(), 1),
        (2 * one.len() - 1, 1),
        (2 * one.len(), 2),
        (17 * one.len() + 5, 17),
        (usize::MAX, 200),
    ] {
        assert_eq!(read(&p, 0, limit).unwrap().0.len(), batches, "limit {limit}");
        assert_eq!(read(&p, 599, limit).unwrap().0, [597]);
    }
    let mut places = [const { None }; 4];
    let take = Take { places: &mut places, limit: one.len() - 1, one_anyway: false };
    assert_eq!(p.read(|log| log.read(0, take)).unwrap(), Ok((0, 0)));
    let available = |offset, enough| p.read(|log| log.available(offset, enough)).unwrap();
    assert_eq!(available(0, usize::MAX), Ok(200 * one.len()));
    assert_eq!(available(3 * 199, usize::MAX), Ok(one.len()));
    assert_eq!(available(600, usize::MAX), Ok(0));
    assert!(available(0, 1).unwrap() >= 1);
    assert_eq!(available(601, 1), Err(OutOfRange));
}

#[test]
fn blocks_grow_with_the_partition_and_share_fairly() {
    let core = core(64 << 20);
    let p = partition(&core, "t");
    let one = batch(1, 1000, 0);
    append(&core, &p, &one);
    assert!(core.memory.pool().in_use() < 20 * 1024, "a small partition is small");
    let mut written = one.len();
    while written < 4 << 20 {
        append(&core, &p, &one);
        written += one.len();
    }
    let in_use = core.memory.pool().in_use();
    assert!(in_use < written + (1 << 20) + (100 << 10), "{in_use}");
    // With many partitions in use, a new one stays small however much it takes.
    for i in 0..500 {
        append(&core, &partition(&core, &format!("t{i}")), &one);
    }
    let before = core.memory.pool().leases();
    append(&core, &partition(&core, "small"), &one);
    assert_eq!(core.memory.pool().leases(), before + 1);
    assert!(core.memory.fair_block() < 64 << 10);
}

#[test]
fn the_largest_batch_fits_and_every_smaller_one() {
    let core = core(8 << 20);
    let p = partition(&core, "t");
    let max = core.settings.topic.max_message_bytes;
    let overhead = batch(1, max - 1000, 0).len() - (max - 1000);
    let largest = batch(1, max - overhead, 0);
    assert_eq!(largest.len(), max);
    append(&core, &p, &largest);
    for size in [16_384, 16_500, 16_560, 65_536, 66_000, 300_000, 1_000_000] {
        append(&core, &p, &batch(1, size, 0));
    }
    assert_eq!(read(&p, 0, usize::MAX).unwrap().0, (0..8).collect::<Vec<_>>());
}

#[test]
fn the_block_that_was_filled_first_goes_first() {
    let core = core(4 << 20);
    let (a, b) = (partition(&core, "a"), partition(&core, "b"));
    let one = batch(1, 4000, 0);
    let starts = |p: &Partition| p.read(|log| log.start_offset()).unwrap();
    append(&core, &a, &one);
    // One partition that is written to once keeps its block: it is active.
    for _ in 0..10_000 {
        append(&core, &b, &one);
        let (start, end) = b.read(|log| (log.start_offset(), log.end_offset())).unwrap();
        assert!(core.memory.pool().in_use() <= core.memory.pool().total());
        assert_eq!(read(&b, start, 1).unwrap().0, [start]);
        assert_eq!(read(&b, end - 1, 1).unwrap().0, [end - 1]);
    }
    assert_eq!(starts(&a), 0);
    assert!(starts(&b) > 8000 && core.memory.evicted() > 10);
    assert_eq!(read(&b, 0, 1).err(), Some(OutOfRange));
    // As soon as its block is full and old, it goes too.
    for _ in 0..10 {
        append(&core, &a, &one);
    }
    for _ in 0..2000 {
        append(&core, &b, &one);
    }
    assert!(starts(&a) > 0);
}

#[test]
fn what_a_reader_holds_counts_and_outlives_its_eviction() {
    let core = core(4 << 20);
    let p = partition(&core, "t");
    let one = batch(1, 4000, 77);
    append(&core, &p, &one);
    let (_, held) = read(&p, 0, usize::MAX).unwrap();
    let copy = held[0].to_vec();
    for _ in 0..3000 {
        append(&core, &p, &one);
    }
    assert_eq!(read(&p, 0, 1).err(), Some(OutOfRange));
    assert_eq!(*held[0], *copy, "evicted under its reader");
    let in_use = core.memory.pool().in_use();
    drop(held);
    assert!(core.memory.pool().in_use() < in_use);
}

#[test]
fn when_readers_hold_everything_an_append_is_refused_and_loses_nothing_else() {
    let core = core(4 << 20);
    let p = partition(&core, "t");
    let one = batch(1, 4000, 0);
    let mut held = vec![];
    let mut appended = 0;
    let view = BatchView::parse(&one).unwrap();
    while let Append::Done { base_offset, .. } = p.append(&core, &view, None) {
        held.push(read(&p, base_offset, 1).unwrap().1);
        appended += 1;
        assert!(appended < 2000);
    }
    assert_eq!(p.append(&core, &view, None), Append::NoMemory);
    let end = p.read(|log| log.end_offset()).unwrap();
    assert_eq!(end, appended);
    // Whatever is read is what was written, although all but the last block are out of the log.
    for (i, views) in held.iter().enumerate() {
        assert_eq!(BatchView::parse(&views[0]).unwrap().base_offset(), i as i64);
    }
    held.drain(..300);
    assert_eq!(append(&core, &p, &one), appended);
}

#[test]
fn an_idle_partition_gives_way_when_no_full_block_is_left() {
    let core = core(4 << 20);
    let large = batch(1, 1_000_000, 0);
    let partitions: Vec<_> = (0..6).map(|i| partition(&core, &format!("t{i}"))).collect();
    for p in &partitions {
        append(&core, p, &large);
    }
    let kept = |p: &Partition| p.read(|log| log.end_offset() - log.start_offset()).unwrap();
    let kept: Vec<_> = partitions.iter().map(|p| kept(p)).collect();
    assert_eq!(kept, [0, 0, 0, 1, 1, 1]);
    // What was emptied goes on where it was.
    assert_eq!(append(&core, &partitions[0], &large), 1);
    assert_eq!(read(&partitions[0], 1, 1).unwrap().0, [1]);
    assert_eq!(read(&partitions[0], 0, 1).err(), Some(OutOfRange));
}

#[test]
fn a_partition_with_a_retention_size_keeps_to_it() {
    let config = BrokerConfig {
        log_memory: 16 << 20,
        retention_bytes: Some(100_000),
        ..BrokerConfig::default()
    };
    let core = Core::new(config, &BrokerLimits::default(), Logger::silent(), 7).unwrap();
    let p = partition(&core, "t");
    let one = batch(1, 1000, 0);
    for i in 0..10_000 {
        append(&core, &p, &one);
        let kept = p.read(|log| (log.end_offset() - log.start_offset()) as usize * one.len());
        assert!(i < 100 || kept.unwrap() >= 100_000);
    }
    assert!(core.memory.pool().in_use() < 6 << 20);
    assert_eq!(core.memory.evicted(), 0);
}

#[test]
fn a_partition_drops_its_own_oldest_when_it_has_no_place_for_another_segment() {
    let core = core(64 << 20);
    let p = Arc::new(Partition::new(0, 0, 0, 3));
    let one = batch(1, 10_000, 0);
    for _ in 0..500 {
        append(&core, &p, &one);
    }
    let (start, end) = p.read(|log| (log.start_offset(), log.end_offset())).unwrap();
    assert!(start > 0 && end == 500);
    assert_eq!(read(&p, start, 1).unwrap().0, [start]);
}

/// Room that was made for batches which did not come leaves empty segments behind.
#[test]
fn empty_segments_are_passed_over() {
    let core = core(64 << 20);
    let p = partition(&core, "t");
    let one = batch(1, 100, 5);
    for len in [100, 60_000, 200_000, 1_000_000] {
        assert!(p.make_room(&core, len));
    }
    assert_eq!(append(&core, &p, &one), 0);
    // The block that is active now has room for no more than this.
    for len in [1_040_000, 1_048_000] {
        append(&core, &p, &batch(1, 500_000, 6));
        assert!(p.make_room(&core, len));
    }
    assert_eq!(append(&core, &p, &one), 3);
    let offsets = |offset| read(&p, offset, usize::MAX).unwrap().0;
    assert_eq!(offsets(0), [0, 1, 2, 3]);
    for offset in 0..4 {
        assert_eq!(offsets(offset), (offset..4).collect::<Vec<_>>());
        assert_eq!(read(&p, offset, 1).unwrap().0, [offset]);
        let found = p.read(|log| log.batch_since(5)).unwrap().unwrap();
        assert_eq!(BatchView::parse(&found).unwrap().base_offset(), 0);
    }
    let newest = p.read(|log| log.newest_batch()).unwrap().unwrap();
    assert_eq!(BatchView::parse(&newest).unwrap().base_offset(), 1);
    for n in 0..6 {
        assert_eq!(p.read(|log| log.start_offset()), Ok([0, 0, 0, 0, 2, 3][n as usize]));
        core.memory.recycle(p.evict(n).unwrap());
    }
}

#[test]
fn ten_thousand_batches_are_found_by_time() {
    let core = core(64 << 20);
    let p = partition(&core, "t");
    // Ten records a batch, one a millisecond, and each hundredth batch out of order.
    let mut times = vec![];
    for i in 0..10_000i64 {
        let time = if i % 100 == 50 { i * 10 + 5000 } else { i * 10 };
        let base = append(&core, &p, &batch(10, 20, time));
        times.extend((0..10).map(|r| (base + r, time + r)));
    }
    assert_eq!(times.len(), 100_000);
    let mut longest = times.clone();
    for i in 1..longest.len() {
        longest[i].1 = longest[i].1.max(longest[i - 1].1);
    }
    for time in (0..105_000).step_by(37) {
        let first = longest.partition_point(|(_, t)| *t < time);
        let expected = times.get(first).copied();
        let batch = p.read(|log| log.batch_since(time)).unwrap();
        let found = batch
            .and_then(|b| first_since(&b, time, &mut BatchReader::none()))
            .map(|f| (f.offset, f.timestamp));
        assert_eq!(found, expected, "time {time}");
    }
    let newest = p.read(|log| log.newest_batch()).unwrap().unwrap();
    let newest = newest_in(&newest, &mut BatchReader::none()).unwrap();
    let expected = *times.iter().rev().max_by_key(|(_, t)| *t).unwrap();
    assert_eq!((newest.offset, newest.timestamp), expected);
}

/// Small enough for an interpreter, on which machines with other byte orders and word sizes are tried
/// (.ci/miri).
#[test]
fn a_small_log_on_any_machine() {
    let core = core(2 << 20);
    let p = partition(&core, "t");
    let bases: Vec<i64> =
        (0..6).map(|i| append(&core, &p, &batch(1 + i % 3, 5, 100 * i as i64))).collect();
    assert_eq!(bases, [0, 1, 3, 6, 7, 9]);
    assert_eq!(p.read(|log| (log.start_offset(), log.end_offset())), Ok((0, 12)));
    for (offset, base) in [(0, 0), (2, 1), (8, 7), (11, 9)] {
        assert_eq!(read(&p, offset, 1).unwrap().0, [base]);
    }
    assert_eq!(read(&p, 0, usize::MAX).unwrap().0, bases);
    assert_eq!(read(&p, 13, 1).err(), Some(OutOfRange));
    let batch = p.read(|log| log.batch_since(202)).unwrap();
    let found = batch
        .and_then(|b| first_since(&b, 202, &mut BatchReader::none()))
        .map(|f| (f.offset, f.timestamp));
    assert_eq!(found, Some((5, 202)));
}

#[test]
fn times_of_compressed_and_stamped_batches() {
    let core = core(8 << 20);
    let p = partition(&core, "t");
    assert!(p.read(|log| log.batch_since(0).is_none()).unwrap());
    assert!(p.read(|log| log.newest_batch().is_none()).unwrap());
    // Not really compressed: what cannot be inflated is not looked into.
    let attributes = Attributes(0).with_compression(Compression::Lz4);
    let seal = Seal { attributes, ..Seal::default() };
    append(&core, &p, &batch_with(10, 10, 1000, &seal));
    let since = |time| {
        let batch = p.read(|log| log.batch_since(time)).unwrap()?;
        first_since(&batch, time, &mut BatchReader::none()).map(|f| (f.offset, f.timestamp))
    };
    assert_eq!(since(1005), Some((0, 1000)));
    assert_eq!(since(1010), None);
    let view = p.read(|log| log.newest_batch()).unwrap().unwrap();
    assert_eq!(
        newest_in(&view, &mut BatchReader::none()).map(|f| (f.offset, f.timestamp)),
        Some((9, 1009))
    );
    let bytes = batch(10, 10, 1);
    let stamped = p.append(&core, &BatchView::parse(&bytes).unwrap(), Some(5000));
    assert!(matches!(stamped, Append::Done { append_time: 5000, base_offset: 10, .. }));
    assert_eq!(since(4000), Some((10, 5000)));
    assert_eq!(since(5001), None);
    let (_, views) = read(&p, 10, 1).unwrap();
    let view = BatchView::parse(&views[0]).unwrap();
    assert_eq!((view.base_timestamp(), view.max_timestamp()), (1, 5000));
}

#[test]
fn a_panic_while_the_log_changes_stops_the_partition() {
    let core = core(8 << 20);
    let (p, other) = (partition(&core, "t"), partition(&core, "other"));
    append(&core, &p, &batch(1, 10, 0));
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let change = || p.change(|_| panic!("half way"));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(change));
    std::panic::set_hook(hook);
    assert!(caught.is_err());
    let bytes = batch(1, 10, 0);
    let view = BatchView::parse(&bytes).unwrap();
    let refused = Append::Refused(crate::protocol::ErrorCode::KAFKA_STORAGE_ERROR);
    assert_eq!(p.append(&core, &view, None), refused);
    assert!(p.read(|log| log.end_offset()).is_err());
    assert_eq!(append(&core, &other, &bytes), 0);
}

#[test]
fn segments_wrap_and_keep_their_numbers() {
    let mut segments = Segments::new(3);
    let pool = core(2 << 20);
    let cell = |base| {
        let Fresh { mut cell, block } = pool.memory.take(MIN_LOG_BLOCK, MIN_LOG_BLOCK).unwrap();
        *cell = Some(Segment::new(block, base));
        cell
    };
    for n in 0..20u64 {
        assert_eq!(segments.push(cell(n as i64)).unwrap(), n);
        if segments.len() == 3 {
            let full = segments.push(cell(99));
            pool.memory.recycle(full.unwrap_err());
            let bases = (segments.first()..=n).map(|i| segments.get(i).unwrap().base_offset());
            assert!(bases.eq(n as i64 - 2..=n as i64));
            assert_eq!(segments.first_not(|s| s.base_offset() < n as i64), Some(n));
            assert_eq!(segments.first_not(|_| true), None);
            pool.memory.recycle(segments.pop().unwrap());
        }
        assert_eq!(segments.last(), Some(n));
        assert!(segments.get(n + 1).is_none());
    }
}
