//! Client and broker in one engine, over real sockets: what is produced is what is fetched, and
//! once warm nothing of it allocates.

mod counting;

use counting::counted;
use kloop::broker::{BrokerConfig, BrokerLimits};
use kloop::client::{
    ClientConfig, ClientEvent, ClientLimits, ConsumerConfig, OutRecord, Outcome, ProducerConfig,
    RecordCursor, TopicId,
};
use kloop::engine::{Engine, EngineConfig, Event};
use kloop::net::slots::SlotId;
use kloop::properties::Properties;
use std::time::Duration;

#[test]
fn the_counter_counts() {
    assert_eq!(counted(|| drop(std::hint::black_box(Box::new(5)))).1, 2);
}

/// An engine with a broker, a client of it, a producer and a consumer of one topic.
struct Loop {
    engine: Engine,
    client: SlotId,
    producer: SlotId,
    consumer: SlotId,
    topic: TopicId,
    ready: bool,
    writable: bool,
    /// Tokens whose records are written, in order: the next one.
    delivered: u64,
    /// The next value that is to be read.
    read: u64,
    flushed: u64,
    closed: u32,
}

fn props<'a>(pairs: &'a [(&'a str, &'a str)]) -> Properties<'a> {
    Properties::new(pairs.iter().copied())
}

impl Loop {
    fn new(producer: &[(&str, &str)]) -> Self {
        Loop::with(producer, &[])
    }

    fn with(producer: &[(&str, &str)], broker: &[(&str, &str)]) -> Self {
        let mut engine = Engine::new(EngineConfig::default()).unwrap();
        let config = BrokerConfig::from_properties(props(broker)).unwrap();
        let any = Some("127.0.0.1:0".parse().unwrap());
        let broker = engine.add_broker(config, BrokerLimits::default(), 1, any, None).unwrap();
        let address = engine.broker_address(broker).unwrap().to_string();
        let config = ClientConfig::from_properties(props(&[("bootstrap.servers", &address)]));
        let client = engine.add_client(config.unwrap(), ClientLimits::default(), 2).unwrap();
        let config = ProducerConfig::from_properties(props(producer)).unwrap();
        let producer = engine.with_client(client, |c, _, _| c.add_producer(config, 3)).unwrap();
        let config = ConsumerConfig::from_properties(props(&[])).unwrap();
        let consumer = engine.with_client(client, |c, _, _| c.add_consumer(config, 4)).unwrap();
        let topic = engine.with_client(client, |c, _, _| c.topic("numbers")).unwrap();
        let parts = [(topic, 0, 0)];
        engine.with_client(client, |c, _, _| c.assign(consumer, &parts)).unwrap();
        Loop {
            engine,
            client,
            producer,
            consumer,
            topic,
            ready: false,
            writable: true,
            delivered: 0,
            read: 0,
            flushed: 0,
            closed: 0,
        }
    }

    fn poll(&mut self) {
        let Loop { engine, ready, writable, delivered, read, flushed, closed, .. } = self;
        let took = engine.poll(64, Some(Duration::from_millis(100)), |event| match event {
            Event::Client(ClientEvent::Ready { owner: 2 }) => *ready = true,
            Event::Client(ClientEvent::Writable { owner: 3 }) => *writable = true,
            Event::Client(ClientEvent::Flushed { owner: 3, user }) => *flushed = user,
            Event::Client(ClientEvent::Closed { .. }) => *closed += 1,
            Event::Client(ClientEvent::Delivered {
                users, count, outcome, base_offset, ..
            }) => {
                assert_eq!((outcome, base_offset as u64), (Outcome::Persisted, *delivered));
                for user in users.as_chunks::<8>().0 {
                    assert_eq!(u64::from_ne_bytes(*user), *delivered);
                    *delivered += 1;
                }
                assert_eq!(users.len(), count as usize * 8);
            }
            Event::Client(ClientEvent::Records { batches, from, .. }) => {
                let mut cursor = RecordCursor::new(from);
                while let Some(record) = cursor.next(&batches) {
                    let record = record.unwrap();
                    assert_eq!(record.offset as u64, *read);
                    assert_eq!(record.value.unwrap()[..8], read.to_le_bytes());
                    *read += 1;
                }
            }
            other => panic!("{other:?}"),
        });
        took.unwrap();
    }

    /// Produces up to record number `end`, as fast as it is taken.
    fn produce(&mut self, from: u64, end: u64) {
        self.produce_values(from, end, &mut [7u8; 100]);
    }

    /// The same with other values, whose first 8 bytes are the record's number.
    fn produce_values(&mut self, from: u64, end: u64, value: &mut [u8]) {
        let mut next = from;
        while next < end || self.delivered < end || self.read < end {
            while self.writable && next < end {
                value[..8].copy_from_slice(&next.to_le_bytes());
                let record = OutRecord {
                    topic: self.topic,
                    partition: Some(0),
                    key: None,
                    value: Some(&*value),
                    timestamp_ms: None,
                    user: next,
                };
                let (client, producer) = (self.client, self.producer);
                let taken = self.engine.with_client(client, |c, _, now| {
                    c.produce(producer, &record, core::iter::empty(), now)
                });
                self.writable = taken.unwrap();
                next += u64::from(self.writable);
            }
            self.poll();
        }
    }
}

#[test]
fn once_warm_no_record_allocates() {
    let mut all = Loop::new(&[("linger.ms", "1")]);
    all.produce(0, 20_000);
    let (_, allocations) = counted(|| all.produce(20_000, 60_000));
    assert_eq!(allocations, 0);
    assert!(all.ready);
    let stats = all.engine.with_client(all.client, |c, _, _| Ok(c.stats())).unwrap();
    assert_eq!((stats.records_delivered, stats.records_fetched), (60_000, 60_000));
    assert_eq!((stats.records_failed, stats.batch_retries), (0, 0));
}

#[test]
fn one_record_at_a_time_does_not_allocate_either() {
    let mut all = Loop::new(&[("linger.ms", "0")]);
    (0..50).for_each(|i| all.produce(i, i + 1));
    let (_, allocations) = counted(|| (50..250).for_each(|i| all.produce(i, i + 1)));
    assert_eq!(allocations, 0);
}

/// Records of 5 MB go both ways through an engine of the default size, if both ends allow them; one
/// over what a frame can be is refused when it is produced.
#[test]
fn records_larger_than_a_block_of_the_default_batch() {
    let mut all = Loop::with(
        &[("max.request.size", "20000000"), ("linger.ms", "0")],
        &[("message.max.bytes", "6000000")],
    );
    all.produce_values(0, 8, &mut vec![7; 5_000_000]);
    all.produce(8, 1000);
    let value = vec![7; 9_000_000];
    let record = OutRecord {
        topic: all.topic,
        partition: Some(0),
        key: None,
        value: Some(&value),
        timestamp_ms: None,
        user: 0,
    };
    let (client, producer) = (all.client, all.producer);
    let taken = all
        .engine
        .with_client(client, |c, _, now| c.produce(producer, &record, core::iter::empty(), now));
    assert!(matches!(taken, Err(kloop::error::Error::Invalid(_))), "{taken:?}");
}

/// A client with more events than each poll takes keeps posts from nobody.
#[test]
fn a_busy_client_starves_no_other_source() {
    let mut all = Loop::new(&[("linger.ms", "0")]);
    all.produce(0, 10);
    let (client, producer) = (all.client, all.producer);
    let inbox = all.engine.inbox();
    let mut since_post = 0;
    for round in 0..200u64 {
        // Each is an event, and a poll takes one.
        for _ in 0..2 {
            let flush = all.engine.with_client(client, |c, _, _| c.flush(producer, round));
            assert!(matches!(flush, Ok(()) | Err(kloop::error::Error::Exhausted(_))), "{flush:?}");
        }
        if since_post == 0 {
            inbox.post(round).unwrap();
        }
        since_post += 1;
        let post = |event| {
            if matches!(event, Event::Posted { .. }) {
                since_post = 0;
            }
        };
        all.engine.poll(1, Some(Duration::from_millis(10)), post).unwrap();
        // As many sources as there may be clients and brokers, and the posts.
        assert!(since_post <= 13, "a post waits for {since_post} polls");
    }
}

#[test]
fn flush_and_close_over_real_sockets() {
    let mut all = Loop::new(&[("linger.ms", "10000")]);
    while !all.ready {
        all.poll();
    }
    let (client, producer, consumer) = (all.client, all.producer, all.consumer);
    for user in 0..10u64 {
        let value = user.to_le_bytes();
        let record = OutRecord {
            topic: all.topic,
            partition: Some(0),
            key: Some(b"k"),
            value: Some(&value),
            timestamp_ms: Some(5),
            user,
        };
        loop {
            let none = core::iter::empty();
            let taken =
                all.engine.with_client(client, |c, _, now| c.produce(producer, &record, none, now));
            if taken.unwrap() {
                break;
            }
            all.poll();
        }
    }
    all.engine.with_client(client, |c, _, _| c.flush(producer, 77)).unwrap();
    while all.flushed != 77 || all.read < 10 {
        all.poll();
    }
    let position = all.engine.with_client(client, |c, _, _| c.position(consumer, all.topic, 0));
    assert_eq!(position, Ok(Some(10)));
    let close = |c: &mut kloop::client::Client, net: &mut _, now| {
        c.close(net, Duration::from_secs(5), now);
        Ok(())
    };
    all.engine.with_client(client, close).unwrap();
    while all.closed < 3 {
        all.poll();
    }
}
