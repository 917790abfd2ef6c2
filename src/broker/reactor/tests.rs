//! What only the inside can bring about: a handler or a processor that panics.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

fn start() -> Reactor {
    let sizes = ReactorConfig { processors: 1, handlers: 1, ..ReactorConfig::default() };
    let at = ([127, 0, 0, 1], 0).into();
    let (config, limits) = (BrokerConfig::default(), BrokerLimits::default());
    Reactor::start(config, limits, sizes, at, None, Logger::silent(), 5).unwrap()
}

/// An ApiVersions request of version 0; whether it was answered.
fn ask(socket: &mut TcpStream) -> bool {
    let request = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 255, 255];
    let mut size = [0; 4];
    if socket.write_all(&request).is_err() || socket.read_exact(&mut size).is_err() {
        return false;
    }
    let mut answer = [0; 4096];
    let answer = &mut answer[..u32::from_be_bytes(size) as usize];
    socket.read_exact(answer).unwrap();
    answer.starts_with(&[0, 0, 0, 7, 0, 0])
}

#[test]
fn a_panic_of_a_handler_ends_its_connection_only() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut reactor = start();
    let mut good = TcpStream::connect(reactor.address()).unwrap();
    let mut bad = TcpStream::connect(reactor.address()).unwrap();
    assert!(ask(&mut good) && ask(&mut bad));
    reactor.shared.panics[0].store(true, Ordering::SeqCst);
    assert!(!ask(&mut bad));
    std::panic::set_hook(hook);
    // The one handler thread goes on.
    assert!(ask(&mut good));
    while reactor.stats().panics == 0 {
        std::thread::yield_now();
    }
    assert!(!reactor.has_failed());
    reactor.stop(Duration::from_secs(60));
    assert_eq!(reactor.stats().connections, 0);
    assert_eq!(reactor.shared.open.load(Ordering::SeqCst), 0);
}

/// A processor that panics ends the broker; whoever polls for the end never waits.
#[test]
fn a_panic_of_a_processor_ends_the_broker() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut reactor = start();
    let mut peer = TcpStream::connect(reactor.address()).unwrap();
    assert!(ask(&mut peer));
    reactor.shared.panics[1].store(true, Ordering::SeqCst);
    assert!(!ask(&mut peer));
    while !reactor.has_failed() {
        std::thread::yield_now();
    }
    std::panic::set_hook(hook);
    let now = Instant::default();
    while !reactor.try_stop(now) {
        assert_eq!(reactor.ends_by(), Some(now.after(SLACK)));
        std::thread::yield_now();
    }
    assert_eq!((reactor.is_stopped(), reactor.ends_by()), (true, None));
    assert!(TcpStream::connect(reactor.address()).is_err());
    // Threads that do not end are left behind when their time is over.
    let mut stuck = start();
    stuck.shared.count_in(Kind::Handler);
    assert!(!stuck.try_stop(now));
    assert!(stuck.try_stop(now.after(SLACK)));
}

#[test]
fn a_connection_that_is_taken_over_is_served() {
    let limits = BrokerLimits::default();
    let logger = Logger::silent();
    let broker = Broker::new(BrokerConfig::default(), limits, 0, Owner(0), logger, 5).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    // It connects before there is anybody to take it.
    let mut early = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let sizes = ReactorConfig { processors: 2, handlers: 1, ..ReactorConfig::default() };
    let base = broker.base();
    let acceptor = Acceptor::adopt(listener, &base.options).unwrap();
    let mut reactor = Reactor::run(base, sizes, acceptor, None).unwrap();
    assert!(ask(&mut early));
    reactor.stop(Duration::ZERO);
    assert!(!ask(&mut early));
}
