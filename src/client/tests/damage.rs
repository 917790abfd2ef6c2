//! Damaged answers: whatever bytes come, nothing panics, nothing spins, each record has one outcome.

use super::cluster::{Act, damage};
use super::world::{MS, Setup, World};
use crate::client::random::Random;
use crate::client::{ClientEvent, RecordCursor};
use crate::error::Error;
use crate::protocol::ApiKey;
use crate::protocol::records::{BatchBuilder, Seal};
use std::collections::HashMap;

const KEYS: [ApiKey; 6] = [
    ApiKey::PRODUCE,
    ApiKey::FETCH,
    ApiKey::LIST_OFFSETS,
    ApiKey::METADATA,
    ApiKey::API_VERSIONS,
    ApiKey::INIT_PRODUCER_ID,
];

fn run(seed: u64) {
    let client = [("request.timeout.ms", "1000"), ("retry.backoff.max.ms", "200")];
    let mut world = World::with(Setup { client: &client, ..Setup::default() });
    let mut random = Random::new(seed);
    world.cluster.add_topic("t", &[1, 1]);
    let topic = world.topic("t");
    let producer = world.producer(&[("linger.ms", "0"), ("delivery.timeout.ms", "3000")]);
    let consumer = world.consumer(&[("auto.offset.reset", "earliest"), ("check.crcs", "false")]);
    let (mut taken, mut outcomes) = (0, HashMap::new());
    for step in 0..60u64 {
        let key = KEYS[random.below(6) as usize];
        world.cluster.plan(key, [Act::Damaged(random.next())]);
        if step % 8 == 0 {
            world.hang_up(1);
            let parts = [(topic, 0, -2), (topic, 1, 0)];
            world.client.assign(consumer, &parts).unwrap();
        }
        let partition = random.below(2) as i32;
        if world.produce(producer, topic, partition, "value", taken) == Ok(true) {
            taken += 1;
        }
        world.advance([0, 10, 300][random.below(3) as usize] * MS);
        collect(&mut world, &mut outcomes);
    }
    world.cluster.script.clear();
    world.advance(20_000 * MS);
    collect(&mut world, &mut outcomes);
    assert_eq!(outcomes.len() as u64, taken, "each record has an outcome");
    assert!(outcomes.values().all(|count| *count == 1));
    assert_eq!(world.client.stats().batches, 0);
}

fn collect(world: &mut World, outcomes: &mut HashMap<u64, u32>) {
    for (users, ..) in world.outcomes() {
        users.into_iter().for_each(|user| *outcomes.entry(user).or_default() += 1);
    }
    for event in world.events.drain(..) {
        if let ClientEvent::Records { batches, from, .. } = event {
            let mut cursor = RecordCursor::new(from);
            let walked = core::iter::from_fn(|| cursor.next(&batches)).count();
            assert!(walked <= batches.len());
        }
    }
}

#[test]
fn damaged_answers_do_no_harm() {
    let count = std::env::var("KLOOP_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    for seed in 0..count {
        let result = std::panic::catch_unwind(|| run(seed));
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_cursor_over_damaged_batches_ends() {
    let mut whole = Vec::new();
    for base in 0..3 {
        let mut buf = vec![0; 1000];
        let mut builder = BatchBuilder::new();
        for i in 0..5u8 {
            let headers = [(&b"name"[..], Some(&b"text"[..])), (b"empty", None)];
            let value = [i; 20];
            let headers = headers.into_iter();
            builder.append(&mut buf, i.into(), Some(b"key"), Some(&value), headers).unwrap();
        }
        let seal = Seal { base_offset: base * 5, ..Seal::default() };
        let len = builder.seal(&mut buf, &seal).unwrap();
        buf.truncate(len);
        whole.extend(buf);
    }
    let mut cursor = RecordCursor::new(7);
    let offsets = core::iter::from_fn(|| cursor.next(&whole)).map(|r| r.unwrap().offset);
    assert!(offsets.eq(7..15));
    // Those in front of a bad record, then the error, for as long as somebody asks.
    let mut bad = whole.clone();
    let at = bad.len() - 40;
    bad[at..].fill(0xff);
    let mut cursor = RecordCursor::new(7);
    let mut offsets = Vec::new();
    assert_eq!(cursor.read(&bad, 3, |record| offsets.push(record.offset)), Ok(3));
    assert_eq!(cursor.read(&bad, 64, |record| offsets.push(record.offset)), Ok(4));
    assert_eq!(offsets, [7, 8, 9, 10, 11, 12, 13]);
    for _ in 0..2 {
        let read = cursor.read(&bad, 64, |record| offsets.push(record.offset));
        assert!(matches!(read, Err(Error::Protocol(_))), "{read:?}");
    }
    assert_eq!(offsets.len(), 7);
    for seed in 0..5000 {
        let bytes = damage(whole.clone(), seed);
        let mut cursor = RecordCursor::new((seed % 20) as i64);
        let (mut walked, mut good) = (0, 0);
        while let Some(record) = cursor.next(&bytes) {
            walked += 1;
            match record {
                Ok(record) => {
                    good += 1;
                    assert!(record.headers.count() <= bytes.len());
                }
                Err(_) => assert!(cursor.next(&bytes).is_none(), "nothing follows an error"),
            }
            assert!(walked <= bytes.len(), "seed {seed}");
        }
        let mut cursor = RecordCursor::new((seed % 20) as i64);
        let mut read = 0;
        while let Ok(n @ 1..) = cursor.read(&bytes, 1 + seed as usize % 7, |_| ()) {
            read += n;
        }
        assert_eq!(read, good, "seed {seed}");
    }
}
