//! Random faults, by seed: whatever happens, each record has one outcome and the outcome is true.

use super::cluster::Act;
use super::world::{BROKERS, MS, Setup, World};
use crate::client::random::Random;
use crate::client::{ClientEvent, ClientLimits, Outcome, TopicId};
use crate::error::Error;
use crate::net::slots::SlotId;
use crate::protocol::ApiKey;
use std::collections::{BTreeMap, HashMap, HashSet};

const PARTITIONS: i32 = 3;

struct Run {
    world: World,
    random: Random,
    topic: TopicId,
    producer: SlotId,
    next: u64,
    /// Records that were taken, and where to.
    taken: HashMap<u64, i32>,
    outcomes: HashMap<u64, Outcome>,
    /// What the consumer saw, by partition: offset and value.
    seen: BTreeMap<i32, Vec<(i64, String)>>,
    flushes: HashSet<u64>,
}

impl Run {
    fn new(seed: u64, producer: &[(&str, &str)]) -> Self {
        let client = [("request.timeout.ms", "2000"), ("reconnect.backoff.max.ms", "400")];
        let limits = ClientLimits { max_batches: 48, ..Setup::default().limits };
        let setup = Setup {
            brokers: &BROKERS,
            client: &client,
            limits,
            shared: 16 << 20,
            ..Setup::default()
        };
        let mut world = World::with(setup);
        world.cluster.lenient = seed.is_multiple_of(2);
        world.cluster.first_epoch = if seed.is_multiple_of(3) { i16::MAX - 3 } else { 0 };
        world.cluster.add_topic("t", &[1, 2, 3]);
        let topic = world.topic("t");
        let producer = world.producer(producer);
        let consumer = world.consumer(&[("fetch.max.wait.ms", "100")]);
        let parts: Vec<_> = (0..PARTITIONS).map(|p| (topic, p, 0)).collect();
        world.client.assign(consumer, &parts).unwrap();
        Run {
            world,
            random: Random::new(seed),
            topic,
            producer,
            next: 0,
            taken: HashMap::new(),
            outcomes: HashMap::new(),
            seen: BTreeMap::new(),
            flushes: HashSet::new(),
        }
    }

    fn produce(&mut self) {
        for _ in 0..=self.random.below(12) {
            let partition = self.random.below(PARTITIONS as u32) as i32;
            let user = self.next;
            let value = user.to_string();
            match self.world.produce(self.producer, self.topic, partition, &value, user) {
                Ok(true) => {
                    self.taken.insert(user, partition);
                    self.next += 1;
                }
                Ok(false) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn trouble(&mut self) {
        let broker = 1 + self.random.below(3) as i32;
        let partition = self.random.below(PARTITIONS as u32) as usize;
        let key = [ApiKey::PRODUCE, ApiKey::PRODUCE, ApiKey::FETCH, ApiKey::METADATA]
            [self.random.below(4) as usize];
        let act = match self.random.below(10) {
            0 => Act::Silence,
            1 => Act::Hangup,
            2 if key == ApiKey::PRODUCE => Act::WriteAndHangup,
            3 if key == ApiKey::PRODUCE => Act::WriteAndCode(7),
            4 if key == ApiKey::PRODUCE => Act::Code(19),
            5 => Act::Correlation(7),
            6 => Act::Body(vec![0xee; 11]),
            7 if key == ApiKey::METADATA => Act::Code(5),
            // Refused for good.
            8 if key == ApiKey::PRODUCE => Act::Code(10),
            _ => Act::Code(6),
        };
        match self.random.below(8) {
            0..=3 => self.world.cluster.plan(key, [act]),
            // One broker is down at most, and not for long.
            4 if self.world.down.is_empty() => self.world.kill(broker),
            4 => self.world.down.clear(),
            5 => self.world.hang_up(broker),
            6 => {
                let part = self.world.cluster.part("t", partition);
                part.leader = broker;
                part.epoch += 1;
            }
            _ => {
                self.world.hold.insert(key.0);
            }
        }
    }

    fn collect(&mut self) {
        for (users, outcome, error, base) in self.world.outcomes() {
            assert_eq!(outcome == Outcome::Persisted, error.is_none());
            for (i, user) in users.iter().enumerate() {
                let before = self.outcomes.insert(*user, outcome);
                assert_eq!(before, None, "{user} has two outcomes");
                if outcome == Outcome::Persisted && base >= 0 {
                    let partition = self.taken[user] as usize;
                    let at = base as usize + i;
                    let values = self.world.cluster.part("t", partition).values();
                    assert_eq!(values[at], user.to_string(), "where it was said to be");
                }
            }
        }
        let parts = self.world.records_by_partition();
        for (partition, offset, value) in parts {
            self.seen.entry(partition).or_default().push((offset, value));
        }
        for event in self.world.events.drain(..) {
            match event {
                ClientEvent::Flushed { user, .. } => assert!(self.flushes.remove(&user)),
                ClientEvent::Writable { .. } | ClientEvent::Ready { .. } => {}
                ClientEvent::Failed { error: Error::Kafka(_), .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..=4 => self.produce(),
            5 | 6 => self.trouble(),
            7 => {
                self.world.down.clear();
                self.world.hold.clear();
                self.world.release();
            }
            8 if self.flushes.len() < 8 => {
                let user = self.next << 8 | self.flushes.len() as u64;
                if self.flushes.insert(user) {
                    self.world.client.flush(self.producer, user).unwrap();
                }
            }
            _ => {}
        }
        // Often shorter than an answer takes, so that several requests are under way.
        let ms = [1, 3, 5, 8, 30, 600][self.random.below(6) as usize];
        self.world.latency = [0, 15, 40][self.random.below(3) as usize] * MS;
        self.world.advance(ms * MS);
        self.collect();
    }

    /// All troubles end; time passes until everything is over.
    fn settle(&mut self) {
        self.world.hold.clear();
        self.world.latency = core::time::Duration::ZERO;
        self.world.cluster.script.clear();
        (1..=3).for_each(|broker| self.world.revive(broker));
        self.world.release();
        for _ in 0..40 {
            self.world.advance(1000 * MS);
            self.collect();
        }
    }

    fn check(&mut self, idempotent: bool) {
        assert_eq!(self.outcomes.len(), self.taken.len(), "each record has an outcome");
        assert!(self.flushes.is_empty());
        assert_eq!(self.world.client.stats().batches, 0);
        assert_eq!(self.world.client.stats().batch_bytes, 0);
        for partition in 0..PARTITIONS {
            let values = self.world.cluster.part("t", partition as usize).values();
            let mut times: HashMap<u64, u32> = HashMap::new();
            let log: Vec<u64> = values.iter().map(|value| value.parse().unwrap()).collect();
            log.iter().for_each(|user| *times.entry(*user).or_default() += 1);
            for (user, _) in self.taken.iter().filter(|(_, p)| **p == partition) {
                let count = times.get(user).copied().unwrap_or(0);
                match self.outcomes[user] {
                    Outcome::Persisted => assert!(count > 0, "{user} is lost"),
                    Outcome::NotPersisted => assert_eq!(count, 0, "{user} is there"),
                    Outcome::MaybePersisted => {}
                }
                assert!(!idempotent || count <= 1, "{user} is there {count} times");
            }
            if idempotent {
                assert!(log.is_sorted(), "{log:?}");
            }
            let seen = self.seen.remove(&partition).unwrap_or_default();
            let expected = (0i64..).zip(values).collect::<Vec<_>>();
            assert_eq!(seen, expected, "what was read is what was written");
        }
    }
}

fn run(seed: u64, producer: &[(&str, &str)], idempotent: bool) {
    let mut run = Run::new(seed, producer);
    for _ in 0..250 {
        run.step();
    }
    run.settle();
    run.check(idempotent);
    assert!(run.outcomes.values().any(|outcome| *outcome == Outcome::Persisted));
}

fn seeds() -> core::ops::Range<u64> {
    let count = std::env::var("KLOOP_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    0..count
}

#[test]
fn with_idempotence_nothing_is_lost_repeated_or_reordered() {
    let pairs = [("linger.ms", "3"), ("delivery.timeout.ms", "3000"), ("batch.size", "200")];
    for seed in seeds() {
        let result = std::panic::catch_unwind(|| run(seed, &pairs, true));
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn without_idempotence_nothing_is_lost() {
    let idempotence = ("enable.idempotence", "false");
    let delivery = ("delivery.timeout.ms", "3000");
    let pairs = [("linger.ms", "3"), delivery, ("batch.size", "200"), idempotence];
    for seed in seeds() {
        let result = std::panic::catch_unwind(|| run(seed, &pairs, false));
        assert!(result.is_ok(), "seed {seed}");
    }
}
