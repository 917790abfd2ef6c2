//! A broker that listens on all addresses: each client is told the one that it connected to.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

mod broker_support;

use broker_support::{answer, metadata};
use kloop::broker::{BrokerConfig, BrokerLimits, Reactor, ReactorConfig};
use kloop::engine::{Engine, EngineConfig};
use kloop::logging::Logger;
use kloop::protocol::Message;
use kloop::protocol::messages::MetadataResponse;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const V4: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// What a client is told that connects to this address, asking twice.
fn told(host: &str, port: u16) -> (String, i32) {
    let mut peer = TcpStream::connect((host, port)).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut told = None;
    for _ in 0..2 {
        peer.write_all(&metadata(9)).unwrap();
        let body = answer(&mut peer);
        let response = MetadataResponse::decode(&body[5..], 9).unwrap();
        let broker = response.brokers.iter().next().unwrap();
        told = Some((broker.host.to_owned(), broker.port));
    }
    told.unwrap()
}

/// Each client is told its own address; several at once, so that places are used again.
fn assert_told(port: u16) {
    for host in ["127.0.0.1", "127.0.0.2", "127.0.0.1", "127.0.0.3"] {
        assert_eq!(told(host, port), (host.to_owned(), i32::from(port)));
    }
}

fn polled(listen: SocketAddr, advertised: Option<(&str, u16)>, peers: impl FnOnce(u16) + Send) {
    let mut engine = Engine::new(EngineConfig::default()).unwrap();
    let (config, limits) = (BrokerConfig::default(), BrokerLimits::default());
    let broker = engine.add_broker(config, limits, 1, listen.into(), advertised).unwrap();
    let port = engine.broker_address(broker).unwrap().port();
    std::thread::scope(|scope| {
        let peers = scope.spawn(move || peers(port));
        while !peers.is_finished() {
            engine.poll(64, Some(Duration::from_millis(10)), |_| {}).unwrap();
        }
        peers.join().unwrap();
    });
}

fn reactor(listen: SocketAddr, advertised: Option<(&str, u16)>) -> Reactor {
    let sizes = ReactorConfig { processors: 2, handlers: 2, ..ReactorConfig::default() };
    let limits = BrokerLimits { max_connections: 64, ..BrokerLimits::default() };
    let config = BrokerConfig::default();
    Reactor::start(config, limits, sizes, listen, advertised, Logger::silent(), 5).unwrap()
}

#[test]
fn a_polled_broker_tells_each_its_own() {
    polled(V4, None, assert_told);
}

#[test]
fn a_reactor_tells_each_its_own() {
    let reactor = reactor(V4, None);
    assert_told(reactor.address().port());
}

#[test]
fn what_is_advertised_goes_first() {
    let given = Some(("broker.test", 7));
    polled(V4, given, |port| assert_eq!(told("127.0.0.2", port), ("broker.test".to_owned(), 7)));
    let reactor = reactor(V4, given);
    assert_eq!(told("127.0.0.2", reactor.address().port()), ("broker.test".to_owned(), 7));
}

/// A client of IPv4 is told an address of IPv4, though the listener is one of IPv6.
#[test]
fn mapped_addresses_are_told_as_they_are() {
    let all = SocketAddr::from(([0u16; 8], 0));
    // Not every machine has IPv6.
    if std::net::TcpListener::bind(all).is_err() {
        return;
    }
    let reactor = reactor(all, None);
    let port = reactor.address().port();
    assert_eq!(told("::1", port), ("::1".to_owned(), i32::from(port)));
    // Nor does every one let such a listener take IPv4.
    if TcpStream::connect(("127.0.0.2", port)).is_ok() {
        assert_eq!(told("127.0.0.2", port), ("127.0.0.2".to_owned(), i32::from(port)));
    }
}
