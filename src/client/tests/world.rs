//! World: a client, a cluster, a wire and a clock, stepped together until nothing moves.

use super::cluster::{Cluster, Request};
use super::wire::{Wire, pool};
use super::zone::Zone;
use crate::client::{
    Client, ClientConfig, ClientEvent, ClientLimits, ConsumerConfig, OutRecord, Outcome,
    ProducerConfig, RecordCursor, TopicId,
};
use crate::error::Error;
use crate::logging::{Level, Logger};
use crate::net::pool::Memory;
use crate::net::slots::SlotId;
use crate::net::{BufferPool, CloseReason, ConnId, ExchangeId, Notice, Owner, Transport};
use crate::properties::Properties;
use crate::protocol::ApiKey;
use crate::sync::{Arc, Mutex};
use crate::time::{Instant, Moment};
use core::time::Duration;
use std::collections::HashSet;
use std::net::SocketAddr;

/// Three brokers, for worlds that need more than one.
pub(super) const BROKERS: [(i32, &str); 3] =
    [(1, "10.0.0.1:9092"), (2, "10.0.0.2:9092"), (3, "10.0.0.3:9092")];
pub(super) const MS: Duration = Duration::from_millis(1);

pub(super) struct World {
    pub(super) net: Wire,
    pub(super) client: Client,
    pub(super) cluster: Cluster,
    pub(super) now: Moment,
    pub(super) events: Vec<ClientEvent>,
    pub(super) log: Arc<Mutex<Vec<String>>>,
    /// Addresses that do not take connections.
    pub(super) down: HashSet<SocketAddr>,
    /// Addresses that neither take nor refuse them.
    pub(super) deaf: HashSet<SocketAddr>,
    /// The two name servers.
    pub(super) zones: [Zone; 2],
    /// How late answers about IPv6 are.
    pub(super) late_v6: Duration,
    late_answers: Vec<(ExchangeId, Vec<u8>, Instant)>,
    /// Nobody listens where the name servers should be.
    pub(super) no_name_servers: bool,
    /// Requests of these APIs are kept until they are let go.
    pub(super) hold: HashSet<i16>,
    pub(super) held: Vec<(ConnId, Request)>,
    /// Events stay in the client while this is set.
    pub(super) keep_events: bool,
    /// An empty Fetch is answered at once instead of after its wait.
    pub(super) eager: bool,
    /// How long a broker takes to read a request.
    pub(super) latency: Duration,
    /// Fetches that wait for records: connection, request, until.
    parked: Vec<(ConnId, Request, Instant)>,
    /// Turns of the client so far.
    pub(super) turns: usize,
    /// Requests that were not read yet.
    unread: Vec<(ConnId, Request, Instant)>,
}

/// What a world is made of.
pub(super) struct Setup<'a> {
    pub(super) brokers: &'a [(i32, &'a str)],
    pub(super) client: &'a [(&'a str, &'a str)],
    pub(super) limits: ClientLimits,
    pub(super) shared: usize,
    /// The memory of an engine, whose pool it is then; else a pool with `shared`.
    pub(super) memory_limit: Option<usize>,
    pub(super) bootstrap: &'a str,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Setup {
            brokers: &[(1, "10.0.0.1:9092")],
            client: &[],
            limits: ClientLimits {
                max_nodes: 8,
                max_topics: 8,
                max_partitions: 32,
                max_batches: 32,
                max_producers: 2,
                max_consumers: 2,
                max_assigned: 8,
                max_requests: 4,
                ..ClientLimits::default()
            },
            shared: 8 << 20,
            memory_limit: None,
            bootstrap: "10.0.0.1:9092",
        }
    }
}

/// Takes those whose time has come, in their order.
fn due(
    waiting: &mut Vec<(ConnId, Request, Instant)>,
    now: Instant,
) -> Vec<(ConnId, Request, Instant)> {
    let (due, rest) = waiting.drain(..).partition(|(_, _, until)| *until <= now);
    *waiting = rest;
    due
}

impl World {
    pub(super) fn new() -> Self {
        World::with(Setup::default())
    }

    pub(super) fn with(setup: Setup<'_>) -> Self {
        let given = [
            ("bootstrap.servers", setup.bootstrap),
            ("client.id", "test"),
            ("resolver.nameservers", "10.0.0.53,10.0.0.54"),
        ];
        let pairs = given.iter().chain(setup.client).copied();
        let config = ClientConfig::from_properties(Properties::new(pairs)).unwrap();
        let memory = Memory::Map { prefault: false };
        let pool = match setup.memory_limit {
            Some(limit) => BufferPool::for_network(limit, memory).unwrap(),
            None => pool(setup.shared),
        };
        let log = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&log);
        let logger = Logger::new(
            Level::Debug,
            Arc::new(move |_, line: &str| keep.lock().push(line.to_owned())),
        );
        let client = Client::new(config, setup.limits, 7, Owner(3), &pool, logger, 42).unwrap();
        World {
            net: Wire::new(pool),
            client,
            cluster: Cluster::new(setup.brokers),
            now: Moment { at: Instant::from_nanos(1_000_000_000), wall_ms: 1_700_000_000_000 },
            events: Vec::new(),
            log,
            down: HashSet::new(),
            deaf: HashSet::new(),
            zones: [Zone::new(&[]), Zone::new(&[])],
            late_v6: Duration::ZERO,
            late_answers: Vec::new(),
            no_name_servers: false,
            hold: HashSet::new(),
            held: Vec::new(),
            keep_events: false,
            eager: false,
            latency: Duration::ZERO,
            parked: Vec::new(),
            turns: 0,
            unread: Vec::new(),
        }
    }

    fn broker_at(&self, address: SocketAddr) -> i32 {
        let found = self.cluster.brokers.iter().find(|(_, at)| **at == address);
        found.map_or(0, |(id, _)| *id)
    }

    /// Runs until nothing moves, at one point in time.
    pub(super) fn run(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "it never comes to rest: {:?}", self.log.lock());
            let moved = self.step();
            if !moved && !self.client.wants_turn() && self.net.notices.is_empty() {
                break;
            }
        }
        let next = self.client.next_deadline();
        assert!(
            next.is_none_or(|at| at > self.now.at),
            "at rest there is nothing left to do: {next:?} at {:?}",
            self.now.at
        );
    }

    /// One round: news to the client, a turn of it, requests to the brokers; says whether anything moved.
    pub(super) fn step(&mut self) -> bool {
        let mut moved = self.net.deliver_starved();
        while let Some((conn, notice)) = self.net.notices.pop_front() {
            self.client.on_notice(&mut self.net, conn, notice, self.now);
            moved = true;
        }
        moved |= self.client.wants_turn();
        self.client.turn(&mut self.net, self.now);
        self.turns += 1;
        moved |= self.serve();
        moved |= self.accept();
        moved |= self.serve_names();
        while !self.keep_events
            && let Some(event) = self.client.next_event()
        {
            self.events.push(event);
            moved = true;
        }
        moved
    }

    fn accept(&mut self) -> bool {
        let mut moved = false;
        for (conn, to) in self.net.open() {
            if self.client.is_connecting(conn) && !self.deaf.contains(&to) {
                let up = self.cluster.brokers.values().any(|at| *at == to);
                if !up || self.down.contains(&to) {
                    self.net.end(conn, CloseReason::ConnectFailed(111));
                } else {
                    let connected = (conn, Notice::Connected);
                    if self.net.notices.contains(&connected) {
                        continue;
                    }
                    self.net.notices.push_back(connected);
                }
                moved = true;
            }
        }
        moved
    }

    fn serve(&mut self) -> bool {
        let mut moved = false;
        for (conn, to) in self.net.open() {
            while let Some(frame) = self.net.take_sent(conn) {
                moved = true;
                let request = Cluster::parse(self.broker_at(to), &frame);
                // One after the other on each connection.
                let before = self.unread.iter().filter(|(id, ..)| *id == conn).map(|u| u.2).max();
                let until = self.now.at.after(self.latency).max(before.unwrap_or_default());
                self.unread.push((conn, request, until));
            }
        }
        for (conn, request, _) in due(&mut self.unread, self.now.at) {
            moved = true;
            if self.hold.contains(&request.key.0) {
                self.held.push((conn, request));
            } else {
                self.answer(conn, &request);
            }
        }
        for (conn, request, _) in due(&mut self.parked, self.now.at) {
            moved = true;
            self.reply(conn, &request);
        }
        moved
    }

    fn serve_names(&mut self) -> bool {
        let now = self.now.at;
        let late = self.late_answers.iter().position(|(_, _, at)| *at <= now);
        if let Some(at) = late {
            let (id, answer, _) = self.late_answers.remove(at);
            self.net.name_answer(id, Ok(answer));
            return true;
        }
        let unseen = self.net.exchanges.iter_mut().find(|exchange| !exchange.seen);
        let Some(exchange) = unseen else { return false };
        exchange.seen = true;
        let (id, over_udp) = (exchange.id, exchange.over == Transport::Udp);
        let (question, server) = (exchange.question.clone(), exchange.server);
        if self.no_name_servers {
            self.net.name_answer(id, Err(Error::Io(111)));
            return true;
        }
        let zone = usize::from(server.ip().to_string() == "10.0.0.54");
        for answer in self.zones[zone].answer(&question, over_udp) {
            let about_v6 = question.ends_with(&[0, 28, 0, 1]);
            let by = if about_v6 { self.late_v6 } else { Duration::ZERO };
            self.late_answers.push((id, answer, now.after(by)));
        }
        true
    }

    /// Both name servers say so from now on.
    pub(super) fn name(&mut self, name: &str, addresses: &[&str]) {
        self.zones.iter_mut().for_each(|zone| zone.set(name, addresses));
    }

    /// How often a name's IPv4 addresses were asked for.
    pub(super) fn asked(&self, name: &str) -> usize {
        self.zones.iter().map(|zone| zone.count(name, super::zone::A)).sum()
    }

    fn answer(&mut self, conn: ConnId, request: &Request) {
        let scripted = self.cluster.script.get(&request.key.0).is_some_and(|acts| !acts.is_empty());
        if request.key == ApiKey::FETCH
            && !scripted
            && !self.eager
            && !self.cluster.has_data(request)
        {
            let wait = self.cluster.wait_of(request);
            self.parked.push((conn, request.clone(), self.now.at.after(wait)));
            return;
        }
        self.reply(conn, request);
    }

    fn reply(&mut self, conn: ConnId, request: &Request) {
        match self.cluster.handle(request) {
            Ok(Some(frame)) => self.net.deliver(conn, &frame),
            Ok(None) => {}
            Err(too_large) => {
                let reason = if too_large {
                    CloseReason::TooLarge(99_999_999)
                } else {
                    CloseReason::PeerClosed
                };
                self.net.end(conn, reason);
            }
        }
    }

    /// Answers what was kept.
    pub(super) fn release(&mut self) {
        for (conn, request) in core::mem::take(&mut self.held) {
            self.reply(conn, &request);
        }
        self.run();
    }

    /// Fetches that wait are answered now.
    pub(super) fn wake_fetches(&mut self) {
        for (conn, request, _) in core::mem::take(&mut self.parked) {
            self.answer(conn, &request);
        }
        self.run();
    }

    /// Time passes; everything happens when it is due.
    pub(super) fn advance(&mut self, by: Duration) {
        let until = self.now.at.after(by);
        self.run();
        loop {
            let waiting = self.parked.iter().chain(&self.unread).map(|(_, _, at)| *at).min();
            let answers = self.late_answers.iter().map(|(_, _, at)| *at);
            let next = self.client.next_deadline().into_iter().chain(waiting).chain(answers).min();
            match next.filter(|at| *at <= until) {
                Some(at) => self.set_time(at),
                None => break,
            }
            self.run();
        }
        self.set_time(until);
        self.run();
    }

    fn set_time(&mut self, at: Instant) {
        let passed = at.since(self.now.at).as_millis() as i64;
        self.now = Moment { at, wall_ms: self.now.wall_ms + passed };
    }

    /// Ends all connections to a broker, and takes no new ones.
    pub(super) fn kill(&mut self, broker: i32) {
        let at = self.cluster.brokers[&broker];
        self.down.insert(at);
        self.hang_up(broker);
        // What it had not read it never will.
        self.unread.retain(|(_, request, _)| request.node != broker);
        self.held.retain(|(_, request)| request.node != broker);
    }

    pub(super) fn hang_up(&mut self, broker: i32) {
        let at = self.cluster.brokers[&broker];
        for (conn, to) in self.net.open() {
            if to == at {
                self.net.end(conn, CloseReason::PeerClosed);
            }
        }
    }

    pub(super) fn revive(&mut self, broker: i32) {
        let at = self.cluster.brokers[&broker];
        self.down.remove(&at);
    }

    /// A topic's id, once it is asked for; the first `Ready` event is taken with it.
    pub(super) fn topic(&mut self, name: &str) -> TopicId {
        let topic = self.client.topic(name).unwrap();
        self.run();
        self.events.retain(|event| !matches!(event, ClientEvent::Ready { .. }));
        topic
    }

    pub(super) fn producer(&mut self, pairs: &[(&str, &str)]) -> SlotId {
        let config = ProducerConfig::from_properties(Properties::new(pairs.iter().copied()));
        let id = self.client.add_producer(config.unwrap(), 100).unwrap();
        self.run();
        id
    }

    pub(super) fn consumer(&mut self, pairs: &[(&str, &str)]) -> SlotId {
        let config = ConsumerConfig::from_properties(Properties::new(pairs.iter().copied()));
        self.client.add_consumer(config.unwrap(), 200).unwrap()
    }

    /// Produces a value to a partition, with the value's number as token.
    pub(super) fn produce(
        &mut self,
        producer: SlotId,
        topic: TopicId,
        partition: impl Into<Option<i32>>,
        value: &str,
        user: u64,
    ) -> Result<bool, Error> {
        let record = OutRecord {
            topic,
            partition: partition.into(),
            key: None,
            value: Some(value.as_bytes()),
            timestamp_ms: None,
            user,
        };
        self.client.produce(producer, &record, core::iter::empty(), self.now)
    }

    /// The outcomes so far: tokens, outcome, error, base offset. Takes them.
    pub(super) fn outcomes(&mut self) -> Vec<(Vec<u64>, Outcome, Option<Error>, i64)> {
        let mut out = Vec::new();
        self.events.retain(|event| match event {
            ClientEvent::Delivered { users, count, base_offset, outcome, error, .. } => {
                let users: Vec<u64> =
                    users.as_chunks::<8>().0.iter().map(|c| u64::from_ne_bytes(*c)).collect();
                assert_eq!(users.len(), *count as usize);
                out.push((users, *outcome, *error, *base_offset));
                false
            }
            _ => true,
        });
        out
    }

    /// The records that came so far: offset and value. Takes them.
    pub(super) fn records(&mut self) -> Vec<(i64, String)> {
        let mut out = Vec::new();
        self.events.retain(|event| match event {
            ClientEvent::Records { batches, from, count, .. } => {
                let mut cursor = RecordCursor::new(*from);
                let before = out.len();
                while let Some(record) = cursor.next(batches) {
                    let record = record.unwrap();
                    let value = String::from_utf8_lossy(record.value.unwrap_or(b"-"));
                    out.push((record.offset, value.into_owned()));
                }
                assert_eq!(out.len() - before, *count as usize);
                false
            }
            _ => true,
        });
        out
    }

    /// The records that came so far: partition, offset and value. Takes them.
    pub(super) fn records_by_partition(&mut self) -> Vec<(i32, i64, String)> {
        let mut out = Vec::new();
        self.events.retain(|event| match event {
            ClientEvent::Records { batches, from, partition, .. } => {
                let mut cursor = RecordCursor::new(*from);
                while let Some(record) = cursor.next(batches) {
                    let record = record.unwrap();
                    let value = String::from_utf8_lossy(record.value.unwrap_or(b"-"));
                    out.push((*partition, record.offset, value.into_owned()));
                }
                false
            }
            _ => true,
        });
        out
    }

    /// Takes the events that `wanted` picks, as text.
    pub(super) fn take(&mut self, wanted: impl Fn(&ClientEvent) -> bool) -> Vec<String> {
        let mut out = Vec::new();
        self.events.retain(|event| {
            let take = wanted(event);
            if take {
                out.push(format!("{event:?}"));
            }
            !take
        });
        out
    }

    pub(super) fn writables(&mut self) -> usize {
        self.take(|event| matches!(event, ClientEvent::Writable { .. })).len()
    }

    /// What failed: error, partition, offset. Takes them.
    pub(super) fn failures(&mut self) -> Vec<(Error, i32, i64)> {
        let mut out = Vec::new();
        self.events.retain(|event| match event {
            ClientEvent::Failed { error, partition, offset, .. } => {
                out.push((*error, *partition, *offset));
                false
            }
            _ => true,
        });
        out
    }

    pub(super) fn logged(&self, text: &str) -> bool {
        self.log.lock().iter().any(|line| line.contains(text))
    }
}
