//! Names over real sockets: a scripted name server on loopback, a broker behind the name, and a client
//! that finds it there.

#[allow(dead_code, missing_docs, reason = "made for more than one test")]
#[path = "../src/client/tests/zone.rs"]
mod zone;

use kloop::broker::{BrokerConfig, BrokerLimits};
use kloop::client::{ClientConfig, ClientEvent, ClientLimits, ClientStats};
use kloop::engine::{Engine, EngineConfig, Event};
use kloop::error::Error;
use kloop::logging::{Level, Logger};
use kloop::net::pool::{Memory, PoolConfig};
use kloop::net::selector::{Selector, SelectorConfig};
use kloop::net::slots::SlotId;
use kloop::net::{BufferPool, ChannelOptions, Owner, TurnBudget};
use kloop::properties::Properties;
use kloop::time::{Clock, SystemClock};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use zone::{A, AAAA, Manner, Zone};

/// A name server on loopback, UDP and TCP, that answers as its zone says.
struct NameServer {
    at: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl NameServer {
    fn start(names: &[(&str, &[&str])]) -> Self {
        NameServer::start_at("127.0.0.1:0", names)
    }

    fn start_at(at: &str, names: &[(&str, &[&str])]) -> Self {
        let (udp, tcp) = loop {
            let tcp = TcpListener::bind(at).unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let at = udp.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Zone::new(names)));
        let stop = Arc::new(AtomicBool::new(false));
        let (z, s) = (Arc::clone(&zone), Arc::clone(&stop));
        let datagrams = move || {
            let mut buf = [0; 1024];
            while let Ok((n, from)) = udp.recv_from(&mut buf) {
                if s.load(Ordering::Relaxed) {
                    return;
                }
                for answer in z.lock().unwrap().answer(&buf[..n], true) {
                    let _ = udp.send_to(&answer, from);
                }
            }
        };
        let (z, s) = (Arc::clone(&zone), Arc::clone(&stop));
        let streams = move || {
            for stream in tcp.incoming().flatten() {
                if s.load(Ordering::Relaxed) {
                    return;
                }
                let _ = serve(stream, &z);
            }
        };
        let threads = vec![std::thread::spawn(datagrams), std::thread::spawn(streams)];
        NameServer { at, zone, stop, threads }
    }

    fn zone(&self) -> std::sync::MutexGuard<'_, Zone> {
        self.zone.lock().unwrap()
    }
}

/// Answers one question of a connection, in pieces.
fn serve(mut stream: TcpStream, zone: &Mutex<Zone>) -> std::io::Result<()> {
    let mut size = [0; 2];
    stream.read_exact(&mut size)?;
    let mut question = vec![0; usize::from(u16::from_be_bytes(size))];
    stream.read_exact(&mut question)?;
    for answer in zone.lock().unwrap().answer(&question, false) {
        let size = (answer.len() as u16).to_be_bytes();
        stream.write_all(&size[..1])?;
        stream.write_all(&size[1..])?;
        answer.chunks(100).try_for_each(|piece| stream.write_all(piece))?;
    }
    Ok(())
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let any = SocketAddr::new(self.at.ip(), 0);
        let _ = UdpSocket::bind(any).and_then(|udp| udp.send_to(&[0], self.at));
        let _ = TcpStream::connect(self.at);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// An engine with a broker that calls itself by a name, and a client that knows only that name.
struct Loop {
    engine: Engine,
    client: Option<SlotId>,
    broker: SlotId,
    port: u16,
    ready: bool,
    failed: Vec<Error>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Loop {
    fn new(broker_at: &str, name: &str) -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&log);
        let sink = move |_, line: &str| keep.lock().unwrap().push(line.to_owned());
        let logger = Logger::new(Level::Debug, Arc::new(sink));
        let mut engine = Engine::new(EngineConfig { logger, ..EngineConfig::default() }).unwrap();
        let config = BrokerConfig::from_properties(Properties::new([])).unwrap();
        let listen = Some(SocketAddr::new(broker_at.parse().unwrap(), 0));
        let limits = BrokerLimits::default();
        let broker = engine.add_broker(config, limits, 1, listen, Some((name, 0))).unwrap();
        let port = engine.broker_address(broker).unwrap().port();
        Loop { engine, client: None, broker, port, ready: false, failed: vec![], log }
    }

    fn connect(&mut self, host: &str, servers: &[SocketAddr], more: &[(&str, &str)]) {
        let bootstrap = format!("{host}:{}", self.port);
        let servers: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
        let servers = servers.join(",");
        let given = [("bootstrap.servers", bootstrap.as_str()), ("resolver.nameservers", &servers)];
        let pairs = given.iter().chain(more).copied();
        let config = ClientConfig::from_properties(Properties::new(pairs)).unwrap();
        let client = self.engine.add_client(config, ClientLimits::default(), 2);
        self.client = Some(client.unwrap());
    }

    fn poll(&mut self) {
        let Loop { engine, ready, failed, .. } = self;
        let took = engine.poll(64, Some(Duration::from_millis(20)), |event| match event {
            Event::Client(ClientEvent::Ready { owner: 2 }) => *ready = true,
            Event::Client(ClientEvent::Failed { owner: 2, error, .. }) => failed.push(error),
            other => panic!("{other:?}"),
        });
        took.unwrap();
    }

    /// Polls until it is so; a hang is ended from outside.
    fn until(&mut self, what: &str, mut so: impl FnMut(&mut Loop) -> bool) {
        for _ in 0..1500 {
            if so(self) {
                return;
            }
            self.poll();
        }
        panic!("{what}: {:#?}", self.log.lock().unwrap());
    }

    fn stats(&mut self) -> ClientStats {
        let client = self.client.unwrap();
        self.engine.with_client(client, |client, _, _| Ok(client.stats())).unwrap()
    }

    /// Connects that were begun.
    fn connects(&mut self) -> u64 {
        self.stats().connects
    }

    fn logged(&self, text: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }
}

/// A name server that does something, and a client that gets through to the broker nevertheless.
fn gets_through(manner: Manner, more: &[(&str, &str)]) -> (Loop, NameServer) {
    let server = NameServer::start(&[("broker.test", &["127.0.0.1"])]);
    server.zone().manner = manner;
    let mut all = Loop::new("127.0.0.1", "broker.test");
    all.connect("broker.test", &[server.at], more);
    all.until("ready", |all| all.ready);
    (all, server)
}

#[test]
fn a_name_is_found_and_used() {
    let (mut all, server) = gets_through(Manner::Honest, &[]);
    assert_eq!(server.zone().count("broker.test", A), 1);
    assert_eq!(server.zone().count("broker.test", AAAA), 1);
    assert!(all.failed.is_empty());
    // The broker calls itself by the same name: one connection serves.
    assert_eq!(all.connects(), 1);
}

#[test]
fn lies_delays_and_losses_are_survived() {
    for manner in [Manner::WrongIdFirst, Manner::Twice, Manner::DropsV6, Manner::FailsV6] {
        let (all, server) = gets_through(manner, &[]);
        assert_eq!(server.zone().count("broker.test", A), 1, "{manner:?}");
        assert!(all.failed.is_empty());
    }
}

#[test]
fn what_does_not_fit_a_datagram_comes_over_tcp() {
    let server = NameServer::start(&[]);
    // 100 addresses, of which the third is the broker's.
    let mut all: Vec<String> = (1..=100).map(|n| format!("127.9.0.{n}")).collect();
    all[2] = "127.0.0.1".into();
    let texts: Vec<&str> = all.iter().map(String::as_str).collect();
    server.zone().set("broker.test", &texts);
    server.zone().manner = Manner::Truncated;
    let mut all = Loop::new("127.0.0.1", "broker.test");
    all.connect("broker.test", &[server.at], &[]);
    all.until("ready", |all| all.ready);
    let seen = server.zone().seen.clone();
    assert_eq!(seen.iter().filter(|(.., udp)| !udp).count(), 2, "{seen:?}");
    assert_eq!(all.logged("broker.test has 16 addresses"), 1);
    assert_eq!(all.connects(), 3);
}

#[test]
fn a_server_that_only_lies_or_loops_is_left_for_the_next() {
    let manners = [
        Manner::WrongId,
        Manner::WrongQuestion,
        Manner::Silent,
        Manner::Short,
        Manner::Code(2),
        Manner::Lame,
        Manner::Garbage,
        Manner::AliasLoop,
        Manner::PointerLoop,
    ];
    for manner in manners {
        let liar = NameServer::start(&[("broker.test", &["127.0.0.9"])]);
        liar.zone().manner = manner;
        let server = NameServer::start(&[("broker.test", &["127.0.0.1"])]);
        let mut all = Loop::new("127.0.0.1", "broker.test");
        all.connect("broker.test", &[liar.at, server.at], &[("resolver.timeout.ms", "50")]);
        all.until("ready", |all| all.ready);
        assert_eq!(server.zone().count("broker.test", A), 1, "{manner:?}");
    }
}

#[test]
fn a_name_server_that_is_not_there_costs_nothing() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = NameServer::start(&[("broker.test", &["127.0.0.1"])]);
    let mut all = Loop::new("127.0.0.1", "broker.test");
    // Without a refusal from the system this would take half a minute.
    all.connect("broker.test", &[gone, server.at], &[("resolver.timeout.ms", "30000")]);
    all.until("ready", |all| all.ready);
}

#[test]
fn the_first_address_is_dead() {
    let server = NameServer::start(&[("broker.test", &["127.0.0.9", "127.0.0.1"])]);
    let mut all = Loop::new("127.0.0.1", "broker.test");
    all.connect("broker.test", &[server.at], &[]);
    all.until("ready", |all| all.ready);
    assert_eq!((all.connects(), server.zone().count("broker.test", A)), (2, 1));
}

/// A listener whose queue is full neither takes nor refuses connections: as silent as a dead host.
fn silent(at: SocketAddr) -> (Selector, Vec<TcpStream>) {
    let memory = Memory::Map { prefault: false };
    let shape = PoolConfig { guaranteed: &[], shared: 1 << 20, control_blocks: 0, memory };
    let config = SelectorConfig {
        max_channels: 1,
        max_listeners: 1,
        max_exchanges: 0,
        max_pieces: 1,
        send_queue_max: 1,
        budget: TurnBudget::default(),
        logger: Logger::silent(),
    };
    let mut selector = Selector::new(config, BufferPool::new(shape).unwrap()).unwrap();
    let options = ChannelOptions {
        owner: Owner(0),
        receive_max: 4096,
        receive_first: 4096,
        max_idle: Duration::ZERO,
        send_buffer: None,
        receive_buffer: None,
    };
    selector.listen(at, 0, &options).unwrap();
    let mut queue = vec![];
    while let Ok(stream) = TcpStream::connect_timeout(&at, Duration::from_millis(100)) {
        queue.push(stream);
        assert!(queue.len() < 16, "the queue never fills");
    }
    (selector, queue)
}

#[test]
fn the_first_address_is_silent() {
    let server = NameServer::start(&[("broker.test", &["127.0.0.3", "127.0.0.1"])]);
    let mut all = Loop::new("127.0.0.1", "broker.test");
    let _silent = silent(SocketAddr::new("127.0.0.3".parse().unwrap(), all.port));
    let clock = SystemClock::new();
    let start = clock.now();
    all.connect("broker.test", &[server.at], &[]);
    all.until("ready", |all| all.ready);
    let took = clock.now().since(start);
    assert_eq!(all.connects(), 2);
    assert!(took >= Duration::from_millis(250), "{took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_scope_is_part_of_the_address() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    for host in ["[::1%1]", if cfg!(target_os = "linux") { "[::1%lo]" } else { "[::1]" }] {
        let mut all = Loop::new("::1", "::1");
        all.connect(host, &["127.0.0.1:9".parse().unwrap()], &[]);
        all.until("ready", |all| all.ready);
    }
}

#[test]
fn a_broker_and_a_name_server_at_ipv6_addresses() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    for manner in [Manner::Honest, Manner::Truncated] {
        let names: [(&str, &[&str]); 1] = [("broker.test", &["::1", "127.0.0.9"])];
        let server = NameServer::start_at("[::1]:0", &names);
        server.zone().manner = manner;
        let mut all = Loop::new("::1", "broker.test");
        all.connect("broker.test", &[server.at], &[]);
        all.until("ready", |all| all.ready);
        assert_eq!(all.connects(), 1);
    }
}

#[test]
fn a_suffix_of_the_search_list() {
    let server = NameServer::start(&[("broker.test", &["127.0.0.1"])]);
    let mut all = Loop::new("127.0.0.1", "broker");
    all.connect("broker", &[server.at], &[("resolver.search", "gone.test, test")]);
    all.until("ready", |all| all.ready);
    assert_eq!(server.zone().count("broker.gone.test", AAAA), 1);
    assert_eq!(server.zone().count("broker", A), 0);
}

/// The broker moves to another address while the client is connected; the old one is gone.
#[test]
fn answers_that_change_while_running() {
    let server = NameServer::start(&[("broker.test", &["127.0.0.1"])]);
    let mut all = Loop::new("127.0.0.1", "broker.test");
    all.connect("broker.test", &[server.at], &[]);
    all.until("ready", |all| all.ready);
    server.zone().set("broker.test", &["127.0.0.2"]);
    all.engine.remove_broker(all.broker);
    let config = BrokerConfig::from_properties(Properties::new([])).unwrap();
    let listen = Some(SocketAddr::new("127.0.0.2".parse().unwrap(), all.port));
    let limits = BrokerLimits::default();
    let advertised = Some(("broker.test", all.port));
    all.broker = all.engine.add_broker(config, limits, 1, listen, advertised).unwrap();
    let before = all.stats().requests;
    all.until("reconnected", |all| all.stats().requests >= before + 2);
    assert_eq!(all.logged("127.0.0.2:"), 1, "the broker listens there, and nothing failed there");
    assert!(server.zone().count("broker.test", A) >= 2);
}

#[test]
fn a_name_that_nobody_knows_is_said_and_costs_one_wake_up_an_attempt() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut all = Loop::new("127.0.0.1", "broker.test");
    all.connect("broker.test", &[gone], &[("reconnect.backoff.ms", "200")]);
    all.until("failed", |all| !all.failed.is_empty());
    assert_eq!(all.failed, [Error::Resolve("every name server refused or failed")]);
    let before = all.engine.stats().syscalls;
    (0..50).for_each(|_| all.poll());
    // About five attempts in a second: a timer, two questions and two refusals each.
    let calls = all.engine.stats().syscalls - before;
    assert!(calls < 200, "{calls} system calls");
    let server = NameServer::start(&[]);
    let mut all = Loop::new("127.0.0.1", "broker.test");
    all.connect("broker.test", &[server.at], &[]);
    all.until("failed", |all| !all.failed.is_empty());
    assert_eq!(all.failed, [Error::Resolve("there is no such name")]);
    // And when it comes into being, it is found.
    server.zone().set("broker.test", &["127.0.0.1"]);
    all.until("ready", |all| all.ready);
}

#[test]
fn a_client_that_goes_while_asking_leaves_no_socket() {
    let server = NameServer::start(&[]);
    server.zone().manner = Manner::Silent;
    let mut all = Loop::new("127.0.0.1", "broker.test");
    // The engine has room for 64 exchanges: what leaked would be missed.
    for round in 1..=40 {
        all.connect("broker.test", &[server.at], &[]);
        all.until("asked", |_| server.zone().count("broker.test", AAAA) == round);
        all.engine.remove_client(all.client.take().unwrap());
    }
    assert_eq!(all.logged("exchanges"), 0);
}
