//! Connections, requests that the host answers, events, and the end of the broker.

use super::*;
use crate::error::Error;
use crate::net::slots::SlotId;

fn hosted(keys: &[ApiKey]) -> BrokerConfig {
    let mut config = BrokerConfig::default();
    for key in keys {
        config.host_apis[key.0 as usize / 64] |= 1 << (key.0 as usize % 64);
    }
    config
}

fn events(rig: &mut Rig) -> Vec<String> {
    let mut told = vec![];
    while let Some(event) = rig.broker.next_event() {
        told.push(match event {
            BrokerEvent::Request { owner: OWNER, api_key, api_version, body, .. } => {
                format!("request {api_key} v{api_version} {body:?}", body = &*body)
            }
            BrokerEvent::Opened { owner: OWNER, conn } => format!("opened {}", conn.generation()),
            BrokerEvent::Gone { owner: OWNER, conn } => format!("gone {}", conn.generation()),
            BrokerEvent::Sent { owner: OWNER, user } => format!("sent {user}"),
            BrokerEvent::Closed { owner: OWNER } => "closed".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert!(!rig.broker.has_events());
    told
}

/// Puts a FindCoordinator before the host and gives its token.
fn hand_over(rig: &mut Rig, conn: ConnId, version: i16, correlation: i32) -> SlotId {
    let bytes = frame(ApiKey::FIND_COORDINATOR, version, correlation, |w| w.bytes(b"body"));
    rig.net.put(conn, bytes);
    rig.settle();
    match rig.broker.next_event() {
        Some(BrokerEvent::Request { owner, conn: from, request, body, api_key, api_version }) => {
            assert_eq!((owner, from, api_key, api_version), (OWNER, conn, 10, version));
            assert_eq!(&*body, b"body");
            request
        }
        other => panic!("{other:?}"),
    }
}

fn respond(rig: &mut Rig, request: SlotId, parts: &[&[u8]], user: u64) -> Result<(), Error> {
    rig.broker.respond(&mut rig.net, request, parts, false, user, rig.now)
}

#[test]
fn the_host_answers_its_apis() {
    let mut rig = Rig::with(hosted(&[ApiKey::FIND_COORDINATOR]), BrokerLimits::default());
    let conn = rig.connect();
    for version in 0..=6 {
        let request = hand_over(&mut rig, conn, version, 9);
        // What comes behind it waits.
        let behind = rig.ask(
            conn,
            4,
            &ApiVersionsRequest { client_software_name: "a", client_software_version: "1" },
        );
        rig.settle();
        assert_eq!((rig.net.got(conn), rig.broker.stats().host_requests), (None, 1));
        respond(&mut rig, request, &[b"the ", b"", b"answer"], 0).unwrap();
        rig.settle();
        let body = rig.answer(conn, ApiKey::FIND_COORDINATOR, version, 9);
        assert_eq!(body, b"the answer");
        rig.answer(conn, ApiKey::API_VERSIONS, 4, behind);
        // Exactly one answer.
        assert_eq!(respond(&mut rig, request, &[b"again"], 0), Err(Error::Stale));
    }
    assert_eq!(rig.broker.stats().host_requests, 0);
    // Versions that Kafka has not are nobody's.
    rig.net.put(conn, frame(ApiKey::FIND_COORDINATOR, 7, 1, |_| {}));
    rig.assert_closed(conn, "version");
}

/// The host may take over what kloop could serve, Produce without an answer included.
#[test]
fn the_host_may_take_over_produce() {
    let mut rig = Rig::with(hosted(&[ApiKey::PRODUCE]), BrokerLimits::default());
    let conn = rig.connect();
    for version in [0, 9, 13] {
        rig.net.put(conn, frame(ApiKey::PRODUCE, version, 5, |w| w.i8(1)));
        rig.settle();
        let Some(BrokerEvent::Request { request, api_version, .. }) = rig.broker.next_event()
        else {
            panic!("no request");
        };
        assert_eq!(api_version, version);
        respond(&mut rig, request, &[], 0).unwrap();
        rig.settle();
        assert_eq!(rig.net.got(conn), None);
        assert!(rig.net.is_open(conn) && !rig.net.is_muted(conn));
    }
}

/// The host hears when an answer is written, or dropped with its connection.
#[test]
fn answers_that_are_written_or_dropped() {
    let mut rig = Rig::with(hosted(&[ApiKey::FIND_COORDINATOR]), BrokerLimits::default());
    let conn = rig.connect();
    let request = hand_over(&mut rig, conn, 3, 1);
    respond(&mut rig, request, &[b"x"], 42).unwrap();
    assert_eq!(events(&mut rig), [""; 0]);
    rig.settle();
    assert_eq!(events(&mut rig), ["sent 42"]);
    let request = hand_over(&mut rig, conn, 3, 2);
    rig.net.stick(conn, true);
    respond(&mut rig, request, &[b"x"], 43).unwrap();
    rig.settle();
    assert_eq!(events(&mut rig), [""; 0]);
    rig.net.hang_up(conn);
    rig.settle();
    assert_eq!(events(&mut rig), ["sent 43"]);
    assert_eq!(rig.broker.stats().host_requests, 0);
    // Nothing to write is written at once; so is the end.
    let conn = rig.connect();
    let request = hand_over(&mut rig, conn, 3, 3);
    respond(&mut rig, request, &[], 44).unwrap();
    assert_eq!(events(&mut rig), ["sent 44"]);
    let request = hand_over(&mut rig, conn, 3, 4);
    rig.broker.respond(&mut rig.net, request, &[b"bye"], true, 45, rig.now).unwrap();
    rig.settle();
    assert_eq!(events(&mut rig), ["sent 45"]);
    assert_eq!(rig.answer(conn, ApiKey::FIND_COORDINATOR, 3, 4), b"bye");
    assert!(!rig.net.is_open(conn));
}

/// The connection of a request went: its token is stale, whether the host was told or not.
#[test]
fn a_request_goes_with_its_connection() {
    let mut rig = Rig::with(hosted(&[ApiKey::FIND_COORDINATOR]), BrokerLimits::default());
    let conn = rig.connect();
    let request = hand_over(&mut rig, conn, 3, 1);
    rig.net.hang_up(conn);
    rig.settle();
    assert_eq!(respond(&mut rig, request, &[b"x"], 0), Err(Error::Stale));
    let conn = rig.connect();
    rig.net.put(conn, frame(ApiKey::FIND_COORDINATOR, 3, 1, |_| {}));
    rig.settle();
    assert!(rig.broker.has_events());
    rig.net.hang_up(conn);
    rig.settle();
    assert_eq!(events(&mut rig), [""; 0]);
    assert_eq!(rig.broker.stats().host_requests, 0);
}

/// Without a place among the host's requests a connection waits for one.
#[test]
fn a_host_that_is_busy() {
    let limits = BrokerLimits { max_host_requests: 1, ..BrokerLimits::default() };
    let mut rig = Rig::with(hosted(&[ApiKey::FIND_COORDINATOR]), limits);
    let (a, b) = (rig.connect(), rig.connect());
    let first = hand_over(&mut rig, a, 3, 1);
    rig.net.put(b, frame(ApiKey::FIND_COORDINATOR, 3, 2, |_| {}));
    rig.settle();
    assert!(!rig.broker.has_events() && rig.net.is_muted(b));
    respond(&mut rig, first, &[b"x"], 0).unwrap();
    rig.settle();
    assert_eq!(events(&mut rig).len(), 1);
    assert_eq!(rig.broker.stats().host_requests, 1);
}

/// An answer larger than any block goes out in several.
#[test]
fn a_large_answer_of_the_host() {
    let mut rig = Rig::with(hosted(&[ApiKey::FIND_COORDINATOR]), BrokerLimits::default());
    let conn = rig.connect();
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7) as u8).collect();
    let request = hand_over(&mut rig, conn, 6, 1);
    rig.net.starve = 1;
    let halves = large.split_at(1_234_567);
    let busy = respond(&mut rig, request, &[halves.0, halves.1], 0);
    assert_eq!(busy, Err(Error::Exhausted("the buffer pool")));
    respond(&mut rig, request, &[halves.0, halves.1], 0).unwrap();
    rig.settle();
    assert_eq!(rig.answer(conn, ApiKey::FIND_COORDINATOR, 6, 1), large);
}

#[test]
fn connections_are_told_of_if_asked_for() {
    let config = BrokerConfig { events: true, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, BrokerLimits::default());
    let conn = rig.connect();
    assert_eq!(events(&mut rig), ["opened 1"]);
    rig.net.put(conn, vec![1]);
    rig.settle();
    assert_eq!(events(&mut rig), ["gone 1"]);
    let conn = rig.connect();
    rig.broker.disconnect(&mut rig.net, conn).unwrap();
    assert!(!rig.net.is_open(conn));
    assert_eq!(rig.broker.disconnect(&mut rig.net, conn), Err(Error::Stale));
    assert_eq!(events(&mut rig), [""; 0], "it came and went unheard");
    let mut silent = Rig::new();
    silent.connect();
    assert!(!silent.broker.has_events());
}

#[test]
fn one_connection_too_many() {
    let config = BrokerConfig { max_connections: 2, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, BrokerLimits::default());
    let first = rig.connect();
    rig.connect();
    let third = rig.connect();
    assert!(!rig.net.is_open(third) && rig.net.is_open(first));
    assert!(rig.logged("no place"));
    rig.net.hang_up(first);
    rig.settle();
    let fourth = rig.connect();
    assert!(rig.net.is_open(fourth));
    let stats = rig.broker.stats();
    assert_eq!((stats.connections, stats.accepted, stats.refused), (2, 3, 1));
    // An index that the tables do not have.
    let limits = BrokerLimits { max_connections: 1, ..BrokerLimits::default() };
    let mut rig = Rig::with(BrokerConfig::default(), limits);
    let first = rig.connect();
    let second = rig.connect();
    assert!(rig.net.is_open(first) && !rig.net.is_open(second));
}

/// L: what waits is answered, what is answered is written, then all is over.
#[test]
fn closing() {
    let mut rig = Rig::with(hosted(&[ApiKey::FIND_COORDINATOR]), BrokerLimits::default());
    let (idle, poller, asker, slow) = (rig.connect(), rig.connect(), rig.connect(), rig.connect());
    rig.create(idle, "t", 1);
    let poll = Want::of(&[("t", 0, 0)]).with(|m| rig.ask(poller, 12, m));
    let request = hand_over(&mut rig, asker, 3, 7);
    rig.net.stick(slow, true);
    let late = rig.ask(slow, 12, &MetadataRequest::default());
    rig.settle();
    rig.broker.close(&mut rig.net, Duration::from_secs(1), rig.now);
    rig.net.flush();
    let body = rig.answer(poller, ApiKey::FETCH, 12, poll);
    assert!(fetched(&body, 12)[0].records.is_empty());
    rig.turn();
    assert!(!rig.net.is_open(idle) && !rig.net.is_open(poller));
    let refused = rig.connect();
    assert!(!rig.net.is_open(refused));
    assert!(rig.broker.next_deadline().is_some());
    respond(&mut rig, request, &[b"still"], 0).unwrap();
    rig.settle();
    assert_eq!(rig.answer(asker, ApiKey::FIND_COORDINATOR, 3, 7), b"still");
    assert_eq!(events(&mut rig), [""; 0]);
    rig.net.stick(slow, false);
    rig.net.flush();
    rig.answer(slow, ApiKey::METADATA, 12, late);
    rig.turn();
    assert_eq!(events(&mut rig), ["closed"]);
    assert_eq!((rig.broker.stats().connections, rig.broker.next_deadline()), (0, None));
    rig.broker.close(&mut rig.net, Duration::ZERO, rig.now);
    assert_eq!(events(&mut rig), [""; 0]);
}

/// A peer that does not read, or a host that does not answer, keeps a broker for its grace only.
#[test]
fn closing_has_an_end() {
    let mut rig = Rig::with(hosted(&[ApiKey::FIND_COORDINATOR]), BrokerLimits::default());
    let (asker, slow) = (rig.connect(), rig.connect());
    let request = hand_over(&mut rig, asker, 3, 7);
    rig.net.stick(slow, true);
    rig.ask(slow, 12, &MetadataRequest::default());
    rig.settle();
    rig.broker.close(&mut rig.net, Duration::from_millis(20), rig.now);
    for _ in 0..3 {
        rig.pass(Duration::from_millis(6));
        rig.turn();
        assert_eq!(rig.broker.stats().connections, 2);
    }
    rig.pass(Duration::from_millis(2));
    rig.turn();
    assert_eq!(events(&mut rig), ["closed"]);
    assert!(!rig.net.is_open(asker) && !rig.net.is_open(slow));
    assert_eq!(respond(&mut rig, request, &[b"x"], 0), Err(Error::Stale));
    let mut idle = Rig::new();
    idle.broker.close(&mut idle.net, Duration::from_secs(9), idle.now);
    assert_eq!(events(&mut idle), ["closed"]);
}
