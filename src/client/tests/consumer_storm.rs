//! Consumers: whatever the host, the brokers and the memory do, and in whatever order, each record comes
//! once and in order, and all memory comes home.

use super::cluster::Act;
use super::consumer::batch;
use super::world::{BROKERS, MS, Setup, World};
use crate::client::random::Random;
use crate::client::{ClientEvent, ClientLimits, RecordCursor, TopicId};
use crate::net::pool::{Lease, Priority, SharedLease};
use crate::net::slots::SlotId;
use crate::protocol::ApiKey;
use crate::protocol::records::BatchView;
use crate::protocol::records::encoders::CODECS;
use crate::protocol::records::test_batches::compressed_batch;
use core::time::Duration;

const PARTS: usize = 6;

struct Storm {
    world: World,
    random: Random,
    topic: TopicId,
    consumer: SlotId,
    /// Per partition the offset that must come next, and where its log ends.
    next: [i64; PARTS],
    ends: [i64; PARTS],
    assigned: [bool; PARTS],
    paused: [bool; PARTS],
    /// Events that the host keeps, and until which step.
    held: Vec<(u64, SharedLease)>,
    /// Blocks that others have.
    blocks: Vec<Lease>,
    step: u64,
    records: u64,
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let mut random = Random::new(seed * 7 + 1);
        let memory = [3, 3, 16, 32][random.below(4) as usize] << 20;
        let client = [("request.timeout.ms", "2000"), ("reconnect.backoff.max.ms", "400")];
        let limits = ClientLimits { max_batches: 48, ..Setup::default().limits };
        let setup = Setup {
            brokers: &BROKERS,
            client: &client,
            limits,
            memory_limit: Some(memory),
            ..Setup::default()
        };
        let mut world = World::with(setup);
        world.cluster.add_topic("t", &[1, 2, 3, 1, 2, 3]);
        let topic = world.topic("t");
        let eof = if random.below(2) == 0 { "true" } else { "false" };
        let consumer =
            world.consumer(&[("fetch.max.wait.ms", "100"), ("enable.partition.eof", eof)]);
        world.keep_events = true;
        let mut storm = Storm {
            world,
            random,
            topic,
            consumer,
            next: [0; PARTS],
            ends: [0; PARTS],
            assigned: [true; PARTS],
            paused: [false; PARTS],
            held: vec![],
            blocks: vec![],
            step: 0,
            records: 0,
        };
        (0..PARTS).chain(0..PARTS).for_each(|part| storm.write(part));
        storm.assign();
        storm
    }

    /// Some batches, most of them compressed, a gap now and then.
    fn write(&mut self, part: usize) {
        for _ in 0..=self.random.below(5) {
            let base = self.ends[part];
            let size = [3, 100, 5_000, 60_000, 130_000][self.random.below(5) as usize];
            let count = 1 + i64::from(self.random.below(4));
            let values: Vec<String> = (base..base + count)
                .map(|offset| format!("{part}:{offset}:{}", "x".repeat(size)))
                .collect();
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let mut batch = batch(base, &values);
            let pick = self.random.below(CODECS.len() as u32 + 1) as usize;
            if let Some(codec) = CODECS.get(pick) {
                batch = compressed_batch(*codec, &batch);
            }
            self.world.cluster.part("t", part).put(batch);
            self.ends[part] = base + count + if self.random.below(12) == 0 { 3 } else { 0 };
        }
    }

    /// The first record at or behind an offset.
    fn first_at(&self, part: usize, from: i64) -> i64 {
        let log = &self.world.cluster.topics["t"].partitions[part].log;
        let batches = log.iter().map(|batch| BatchView::parse(batch).unwrap());
        let holds = |batch: &BatchView<'_>| batch.next_offset() > from;
        let first = batches.into_iter().find(holds);
        first.map_or(self.ends[part], |batch| batch.base_offset().max(from))
    }

    fn assign(&mut self) {
        let parts: Vec<_> = (0..PARTS)
            .filter(|part| self.assigned[*part])
            .map(|part| (self.topic, part as i32, self.next[part]))
            .collect();
        self.world.client.assign(self.consumer, &parts).unwrap();
    }

    fn take(&mut self, most: usize) {
        for _ in 0..most {
            match self.world.client.next_event() {
                Some(ClientEvent::Records { batches, from, count, partition, .. }) => {
                    self.take_records(partition as usize, batches, from, count);
                }
                Some(ClientEvent::Eof { partition, offset, .. }) => {
                    let part = partition as usize;
                    let next = self.first_at(part, self.next[part]);
                    assert!(offset <= next, "an end before its records");
                }
                Some(ClientEvent::Ready { .. }) => {}
                Some(other) => panic!("{other:?}"),
                None => return,
            }
        }
    }

    fn take_records(&mut self, part: usize, batches: SharedLease, from: i64, count: u32) {
        assert!(self.assigned[part], "an event of what is not assigned");
        let (mut cursor, mut seen) = (RecordCursor::new(from), 0);
        while let Some(record) = cursor.next(&batches) {
            let record = record.unwrap();
            let expected = self.first_at(part, self.next[part]);
            assert_eq!(record.offset, expected, "partition {part}");
            let text = core::str::from_utf8(record.value.unwrap()).unwrap();
            assert!(text.starts_with(&format!("{part}:{expected}:")));
            self.next[part] = expected + 1;
            seen += 1;
        }
        assert_eq!(seen, count);
        self.records += u64::from(seen);
        let position = self.world.client.position(self.consumer, self.topic, part as i32);
        let position = position.unwrap().unwrap();
        assert!(position >= self.next[part]);
        self.next[part] = position;
        if self.random.below(3) == 0 {
            self.held.push((self.step + u64::from(self.random.below(20)), batches));
        }
    }

    fn use_up_memory(&mut self) {
        let size = [4096, 100 << 10, 1 << 20][self.random.below(3) as usize];
        for _ in 0..self.random.below(8) {
            if self.world.client.pool.leases() < 40 {
                self.blocks.extend(self.world.client.pool.lease(size, Priority::Data));
            }
        }
    }

    fn step(&mut self) {
        self.step += 1;
        let part = self.random.below(PARTS as u32) as usize;
        match self.random.below(24) {
            0..=3 if self.ends[part] - self.next[part] < 60 => self.write(part),
            4 => {
                self.assigned[part] = !self.assigned[part];
                self.paused[part] = false;
                self.assign();
            }
            5 | 6 if self.assigned[part] => {
                self.paused[part] = !self.paused[part];
                let parts = [(self.topic, part as i32)];
                self.world.client.pause(self.consumer, &parts, self.paused[part]).unwrap();
            }
            7 if self.assigned[part] => {
                self.next[part] = i64::from(self.random.below(self.ends[part] as u32 + 1));
                self.assign();
            }
            8 => self.use_up_memory(),
            9 | 10 => {
                self.blocks.clear();
                self.held.clear();
            }
            11 => {
                let leader = 1 + self.random.below(3) as i32;
                let part = self.world.cluster.part("t", part);
                part.leader = leader;
                part.epoch += 1;
            }
            12 => self.world.hang_up(1 + self.random.below(3) as i32),
            13 => {
                let acts = [Act::Hangup, Act::Code(6), Act::Code(3), Act::Silence];
                let act = acts.into_iter().nth(self.random.below(4) as usize);
                self.world.cluster.plan(ApiKey::FETCH, act);
            }
            14 => {
                self.world.hold.insert(ApiKey::FETCH.0);
            }
            15 | 16 => {
                self.world.hold.clear();
                self.blocks.clear();
                self.world.release();
            }
            17..=20 => {
                let most = 1 + self.random.below(3) as usize;
                self.take(most);
            }
            _ => self.take(100),
        }
        let step = self.step;
        self.held.retain(|(until, _)| *until > step);
        self.world.latency = [0, 15, 40][self.random.below(3) as usize] * MS;
        self.world.advance([0, 1, 3, 8, 30, 120, 700][self.random.below(7) as usize] * MS);
    }

    /// Everything is given back and runs again: what is left comes, and all memory goes home.
    fn settle(&mut self) {
        self.world.hold.clear();
        self.world.latency = Duration::ZERO;
        self.world.cluster.script.clear();
        self.blocks.clear();
        self.held.clear();
        self.world.release();
        self.assigned = [true; PARTS];
        self.assign();
        let all: Vec<_> = (0..PARTS as i32).map(|part| (self.topic, part)).collect();
        self.world.client.pause(self.consumer, &all, false).unwrap();
        for _ in 0..300 {
            self.world.advance(50 * MS);
            self.take(1000);
            self.held.clear();
        }
        for part in 0..PARTS {
            let next = self.first_at(part, self.next[part]);
            assert_eq!(next, self.ends[part], "partition {part} is stuck");
        }
        self.world.client.close_consumer(self.consumer).unwrap();
        self.world.advance(1500 * MS);
        while self.world.client.next_event().is_some() {}
        assert_eq!(self.world.client.pool.leases(), 0, "memory that did not come home");
    }
}

/// `STORM=3000` runs so many seeds, `STORM_FROM` says which is the first.
#[test]
fn every_record_comes_once_whatever_happens() {
    let var = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (first, count) = (var("STORM_FROM").unwrap_or(0), var("STORM").unwrap_or(30));
    let mut records = 0;
    for seed in first..first + count {
        println!("seed {seed}");
        let mut storm = Storm::new(seed);
        (0..200).for_each(|_| storm.step());
        storm.settle();
        records += storm.records;
    }
    assert!(records > 10 * count, "{records} records of {count} seeds");
}
