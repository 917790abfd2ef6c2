//! The shared part under several threads, as handler threads of a reactor will use it.

use super::*;
use crate::broker::core::Core;
use crate::broker::log::Take;
use crate::broker::partition::{Append, Partition};
use crate::net::SharedLease;
use crate::protocol::records::BatchView;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};

fn is_shared<T: Send + Sync>() {}
fn is_sent<T: Send>() {}

#[test]
fn what_is_shared_may_be() {
    is_shared::<Core>();
    is_sent::<Broker>();
}

fn read(partition: &Partition, offset: i64, views: &mut [Option<SharedLease>]) -> Option<usize> {
    let take = Take { places: views, limit: 50_000, one_anyway: true };
    partition.read(|log| log.read(offset, take)).unwrap().ok().map(|(_, views)| views)
}

/// Reads from each partition's start until it is told to stop, and checks that what it gets is whole
/// and without a gap; counts the batches.
fn read_along(partitions: &[Arc<Partition>], stop: &AtomicBool, batches: &AtomicUsize) {
    let mut views = vec![None; 8];
    while !stop.load(Ordering::Acquire) {
        for partition in partitions {
            let start = partition.read(|log| log.start_offset()).unwrap();
            let Some(count) = read(partition, start, &mut views) else { continue };
            let mut expected = start;
            for view in views.iter_mut().take(count).filter_map(Option::take) {
                for batch in Batches::new(&view).map(Result::unwrap) {
                    assert_eq!(batch.base_offset(), expected);
                    assert!(batch.verify_crc());
                    expected = batch.next_offset();
                    batches.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Appends race with the deletion of their partition: what they opened goes, whoever was first.
#[test]
fn a_deletion_between_an_appends_steps_leaks_nothing() {
    let config = BrokerConfig { log_memory: 4 << 20, ..BrokerConfig::default() };
    let core = Core::new(config, &BrokerLimits::default(), Logger::silent(), 1).unwrap();
    let bytes = batch_of(3, 900, &Seal::default());
    let view = BatchView::parse(&bytes).unwrap();
    for _ in 0..if cfg!(miri) { 5 } else { 400 } {
        let topic =
            core.topics.create("t", 1, core.settings.topic, &core.random, &core.memory).unwrap();
        let partition = &topic.partitions[0];
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                while !matches!(partition.append(&core, &view, None), Append::Refused(_)) {}
            });
            start.wait();
            assert!(core.topics.remove(&topic));
            partition.delete(&core);
        });
        core.topics.release(&topic);
        core.memory.forget_gone();
        assert_eq!(core.memory.pool().in_use(), 0);
        assert_eq!(core.memory.in_use(), 0);
    }
}

/// Writers, readers and somebody who deletes topics, with far less memory than is written: nobody
/// waits for ever, each batch has its own offsets, and what is read is what was written. Writers go on
/// until the others have had their turns, however the machine spreads them.
#[test]
fn writers_readers_and_evictions() {
    const PER_WRITER: usize = 1500;
    let config = BrokerConfig { log_memory: 4 << 20, ..BrokerConfig::default() };
    let core = Core::new(config, &BrokerLimits::default(), Logger::silent(), 1).unwrap();
    let create = |name: &str| {
        let topic = core.topics.create(name, 3, core.settings.topic, &core.random, &core.memory);
        topic.unwrap()
    };
    let topic = create("t");
    let done = AtomicBool::new(false);
    let (read, deleted) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let met = || read.load(Ordering::Relaxed) > 0 && deleted.load(Ordering::Relaxed) > 0;
    let bytes = batch_of(3, 900, &Seal::default());
    let write = |partition: &Arc<Partition>| loop {
        match partition.append(&core, &BatchView::parse(&bytes).unwrap(), None) {
            Append::Done { base_offset, .. } => return Some(base_offset),
            Append::NoMemory => std::thread::yield_now(),
            Append::Refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => return None,
            other => panic!("{other:?}"),
        }
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (topic, write, met) = (&topic, &write, &met);
                scope.spawn(move || {
                    let mut offsets = vec![];
                    while offsets.len() < PER_WRITER || !met() {
                        let partition = &topic.partitions[(writer + offsets.len()) % 3];
                        offsets.push((partition.number, write(partition).unwrap()));
                    }
                    offsets
                })
            })
            .collect();
        scope.spawn(|| read_along(&topic.partitions, &done, &read));
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let other = create("other");
                write(&other.partitions[deleted.load(Ordering::Relaxed) % 3]);
                assert!(core.topics.remove(&other));
                other.partitions.iter().for_each(|partition| partition.delete(&core));
                core.topics.release(&other);
                core.memory.forget_gone();
                assert_eq!(write(&other.partitions[0]), None);
                deleted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut offsets: Vec<_> = writers.into_iter().flat_map(|w| w.join().unwrap()).collect();
        done.store(true, Ordering::Release);
        offsets.sort_unstable();
        let mut next = [0; 3];
        for (number, offset) in offsets {
            assert_eq!(offset, next[number as usize], "in partition {number}");
            next[number as usize] += 3;
        }
    });
    assert!(core.memory.evicted() > 0);
    topic.partitions.iter().for_each(|partition| partition.delete(&core));
    assert_eq!(core.memory.pool().in_use(), 0);
}
