//! Requests that threads of the host take and answer, on a broker with threads of its own.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

use kloop::broker::{BrokerConfig, BrokerLimits, HostThreads, Reactor, ReactorConfig, Taken};
use kloop::error::Error;
use kloop::logging::Logger;
use kloop::protocol::ApiKey;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn start() -> Reactor {
    start_with(BrokerConfig::default())
}

fn start_with(mut config: BrokerConfig) -> Reactor {
    config.host_apis[0] = 1 << ApiKey::FIND_COORDINATOR.0;
    let sizes = ReactorConfig { processors: 2, handlers: 2, ..ReactorConfig::default() };
    let limits = BrokerLimits { max_connections: 400, ..BrokerLimits::default() };
    let at = ([127, 0, 0, 1], 0).into();
    Reactor::start(config, limits, sizes, at, None, Logger::silent(), 5).unwrap()
}

fn connect(at: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(at).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// A FindCoordinator of version 1, which the broker does not look into: the body is `text`.
fn ask(socket: &mut TcpStream, correlation_id: i32, text: &[u8]) {
    let mut frame = Vec::new();
    frame.extend((10 + text.len() as i32).to_be_bytes());
    frame.extend([0, 10, 0, 1]);
    frame.extend(correlation_id.to_be_bytes());
    frame.extend([255, 255]);
    frame.extend(text);
    socket.write_all(&frame).unwrap();
}

/// The next answer's correlation id and body; `None` at the end.
fn answer(socket: &mut TcpStream) -> Option<(i32, Vec<u8>)> {
    let mut size = [0; 4];
    match socket.read_exact(&mut size) {
        Err(error)
            if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&error.kind()) =>
        {
            return None;
        }
        other => other.unwrap(),
    }
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    socket.read_exact(&mut frame).unwrap();
    let body = frame.split_off(4);
    Some((i32::from_be_bytes(frame.try_into().unwrap()), body))
}

#[expect(unsafe_code, reason = "the body is lent by address, as C gets it")]
fn body(taken: &Taken) -> &[u8] {
    // SAFETY: it is not answered yet.
    unsafe { &*taken.body }
}

fn take_one(threads: &HostThreads) -> Taken {
    let mut one = None;
    assert_eq!(threads.take(1, Some(LONG), |taken| one = Some(taken)), Ok(1));
    one.unwrap()
}

fn until(mut done: impl FnMut() -> bool) {
    let begun = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    while !done() {
        assert!(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() - begun < LONG);
        std::thread::yield_now();
    }
}

/// Three threads answer what eight pipelining peers ask, in whatever order they get it: each peer
/// has its answers in the order of its questions.
#[test]
fn answers_come_from_any_thread_and_in_order() {
    const EACH: i32 = 200;
    let mut reactor = start();
    let at = reactor.address();
    let threads = reactor.host_threads();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let threads = threads.clone();
            scope.spawn(move || {
                loop {
                    let mut some = Vec::new();
                    match threads.take(5, None, |taken| some.push(taken)) {
                        Err(Error::Closed) => return,
                        other => assert_eq!(other, Ok(some.len())),
                    }
                    for taken in some.iter().rev() {
                        assert_eq!((taken.api_key, taken.api_version), (10, 1));
                        let text = body(taken);
                        threads.respond(taken.id, &[b"to ", text], false).unwrap();
                        assert_eq!(threads.respond(taken.id, &[], false), Err(Error::Stale));
                    }
                }
            });
        }
        let peers: Vec<_> = (0..8)
            .map(|peer| {
                scope.spawn(move || {
                    let mut socket = connect(at);
                    let text = |i: i32| format!("{peer}:{i}").into_bytes();
                    (0..EACH).for_each(|i| ask(&mut socket, i, &text(i)));
                    for i in 0..EACH {
                        let (id, body) = answer(&mut socket).unwrap();
                        assert_eq!((id, &body[..3], &body[3..]), (i, &b"to "[..], &text(i)[..]));
                    }
                })
            })
            .collect();
        peers.into_iter().for_each(|peer| peer.join().unwrap());
        reactor.stop(LONG);
    });
    assert_eq!(reactor.stats().host_requests, 0);
}

/// The connection ends while its request is with the host: what the host reads stays until it answers,
/// which is stale; a request that nobody took goes with its peer.
#[test]
fn a_connection_that_ends() {
    let max_idle = Duration::from_millis(200);
    let mut reactor = start_with(BrokerConfig { max_idle, ..BrokerConfig::default() });
    let threads = reactor.host_threads();
    let mut leaves = connect(reactor.address());
    ask(&mut leaves, 1, b"the body");
    let taken = take_one(&threads);
    let mut untaken = connect(reactor.address());
    ask(&mut untaken, 1, b"never taken");
    until(|| reactor.stats().host_requests == 2);
    // Nothing is read from a connection whose request is out: it ends for want of life.
    until(|| reactor.stats().connections == 0);
    assert_eq!(body(&taken), b"the body");
    assert_eq!(threads.respond(taken.id, &[b"too late"], false), Err(Error::Stale));
    assert_eq!(threads.take(9, Some(Duration::ZERO), |_| panic!("it is gone")), Ok(0));
    assert_eq!(reactor.stats().host_requests, 0);
    reactor.stop(LONG);
}

/// Answers larger than the room that came with the request, and than any block; none at all; and
/// one that ends the connection.
#[test]
fn answers_of_all_sizes() {
    let mut reactor = start();
    let threads = reactor.host_threads();
    let mut socket = connect(reactor.address());
    let large = vec![7; 20 << 20];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for size in [0, 507, 508, 9000, 2 << 20, large.len()] {
                let taken = take_one(&threads);
                let parts = [&large[..size / 2], &large[size / 2..size]];
                threads.respond(taken.id, &parts, false).unwrap();
            }
            threads.respond(take_one(&threads).id, &[], false).unwrap();
            threads.respond(take_one(&threads).id, &[b"the end"], true).unwrap();
        });
        for (i, size) in (0..).zip([0, 507, 508, 9000, 2 << 20, large.len()]) {
            ask(&mut socket, i, b"how much?");
            assert!(answer(&mut socket).unwrap() == (i, large[..size].to_vec()));
        }
        ask(&mut socket, 98, b"no answer wanted");
        ask(&mut socket, 99, b"goodbye");
        assert_eq!(answer(&mut socket), Some((99, b"the end".to_vec())));
        assert_eq!(answer(&mut socket), None);
    });
    reactor.stop(LONG);
}

/// What the host keeps unanswered holds up nobody else, however much it is.
#[test]
fn many_requests_that_the_host_keeps() {
    let mut reactor = start();
    let threads = reactor.host_threads();
    let mut kept: Vec<_> = (0..300).map(|_| connect(reactor.address())).collect();
    for (i, socket) in (0..).zip(&mut kept) {
        ask(socket, i, b"when you can");
    }
    until(|| reactor.stats().host_requests == 300);
    let mut other = connect(reactor.address());
    for correlation_id in 0..50i32 {
        let mut versions = vec![0, 0, 0, 10, 0, 18, 0, 0];
        versions.extend(correlation_id.to_be_bytes());
        versions.extend([255, 255]);
        other.write_all(&versions).unwrap();
        assert_eq!(answer(&mut other).unwrap().0, correlation_id);
    }
    let mut taken = Vec::new();
    while taken.len() < 300 {
        threads.take(300, Some(LONG), |one| taken.push(one)).unwrap();
    }
    taken.iter().for_each(|one| threads.respond(one.id, &[b"now"], false).unwrap());
    for (i, socket) in (0..).zip(&mut kept) {
        assert_eq!(answer(socket), Some((i, b"now".to_vec())));
    }
    reactor.stop(LONG);
}

/// What the host has not answered when the grace is over is answered no more; its body stays.
#[test]
fn stopping_does_not_wait_for_a_host_that_does_not_answer() {
    let mut reactor = start();
    let threads = reactor.host_threads();
    let mut socket = connect(reactor.address());
    ask(&mut socket, 1, b"hello?");
    let taken = take_one(&threads);
    let waiter = threads.clone();
    let waiter = std::thread::spawn(move || waiter.take(1, None, |_| {}));
    reactor.stop(Duration::from_millis(50));
    assert_eq!(waiter.join().unwrap(), Err(Error::Closed));
    assert_eq!(answer(&mut socket), None);
    drop(reactor);
    assert_eq!(body(&taken), b"hello?");
    let late = threads.respond(taken.id, &[b"late"], false);
    assert!(matches!(late, Err(Error::Stale | Error::Closed)), "{late:?}");
    assert_eq!(threads.take(1, None, |_| {}), Err(Error::Closed));
}
