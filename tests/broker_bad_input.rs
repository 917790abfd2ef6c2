//! Peers that send what is no request, over real sockets: each ends alone, with a reason in the log,
//! and costs nothing that stays.

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

mod broker_support;
mod counting;

use broker_support::bad_input::{Bad, Lines, assert_told, bad_inputs};
use broker_support::*;
use kloop::net::Selectable;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// A broker, a peer of it that behaves, and what the broker has allocated while it was watched.
struct Scene {
    host: Host,
    lines: Lines,
    neighbour: TcpStream,
    allocations: u64,
}

impl Scene {
    fn new() -> Scene {
        let lines = Lines::new();
        let host = Host::with_logger(8 << 20, lines.logger());
        let neighbour = connect_without_blocking(host.port);
        let mut scene = Scene { host, lines, neighbour, allocations: 0 };
        scene.serve_neighbour();
        scene
    }

    fn turn(&mut self) {
        self.allocations += counting::counted(|| self.host.turn()).1;
    }

    /// The neighbour asks, byte after byte, and is answered.
    fn serve_neighbour(&mut self) {
        for byte in metadata(9) {
            self.neighbour.write_all(&[byte]).unwrap();
            self.turn();
        }
        let mut answer = [0; 1000];
        let mut got = 0;
        while got < 4 || got < 4 + u32::from_be_bytes(*answer.first_chunk().unwrap()) as usize {
            match self.neighbour.read(&mut answer[got..]) {
                Ok(0) => panic!("the neighbour's connection has ended"),
                Ok(n) => got += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.turn(),
                Err(error) => panic!("the neighbour's connection: {error}"),
            }
        }
    }

    /// Turns until the peer's connection has ended, on both sides.
    fn see_end(&mut self, peer: &mut TcpStream) {
        loop {
            match peer.read(&mut [0; 1]) {
                Ok(0) => break,
                Ok(_) => panic!("an answer to what is no request"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.turn(),
                Err(_) => break,
            }
        }
        self.see_neighbour_alone();
    }

    fn see_neighbour_alone(&mut self) {
        while self.host.broker.stats().connections > 1 || self.host.selector.channels() > 1 {
            self.turn();
        }
        self.serve_neighbour();
        assert_eq!((self.host.held(), self.host.selector.pool().leases()), (0, 0));
    }
}

fn connect_without_blocking(port: u16) -> TcpStream {
    let peer = connect(port);
    peer.set_nonblocking(true).unwrap();
    peer
}

#[test]
fn the_counter_counts() {
    assert_eq!(counting::counted(|| drop(std::hint::black_box(Box::new(5)))).1, 2);
}

#[test]
fn an_offender_ends_alone_with_a_reason_in_the_log() {
    let mut scene = Scene::new();
    scene.lines.take();
    scene.allocations = 0;
    for Bad { bytes, why, .. } in bad_inputs() {
        for pieces in [bytes.len(), 1] {
            let mut offender = connect_without_blocking(scene.host.port);
            for piece in bytes.chunks(pieces) {
                // With the end of the connection seen, no more is taken.
                if offender.write_all(piece).is_err() {
                    break;
                }
                scene.turn();
            }
            scene.see_end(&mut offender);
            assert_told(&scene.lines.take(), offender.local_addr().unwrap(), why);
        }
    }
    let stats = scene.host.broker.stats();
    assert_eq!((stats.accepted, stats.panics), (21, 0));
    assert_eq!(scene.allocations, 0);
}

/// The connection's end in the middle of a frame is no fault; what was received of it goes too.
#[test]
fn a_frame_that_never_comes_to_its_end() {
    let mut scene = Scene::new();
    scene.allocations = 0;
    let large = produce(9, &batch(10, 1000));
    for sent in [1, 3, 4, 5, 100, 5000, large.len() - 1] {
        let mut offender = connect_without_blocking(scene.host.port);
        offender.write_all(&large[..sent]).unwrap();
        (0..5).for_each(|_| scene.turn());
        assert_eq!(scene.host.broker.stats().connections, 2);
        scene.lines.take();
        drop(offender);
        scene.see_neighbour_alone();
        let lines = scene.lines.take();
        let ended = |line: &String| line.ends_with("has ended: the peer closed the connection");
        assert!(lines.iter().any(ended), "{lines:#?}");
    }
    assert_eq!(scene.allocations, 0);
}

/// What is bad between good requests on one connection: what came first is answered.
#[test]
fn what_was_asked_before_is_answered() {
    for Bad { bytes, why, .. } in bad_inputs() {
        let mut scene = Scene::new();
        scene.lines.take();
        let mut offender = connect_without_blocking(scene.host.port);
        offender.write_all(&[metadata(9), bytes, metadata(9)].concat()).unwrap();
        let mut got = vec![];
        let mut room = [0; 1000];
        loop {
            match offender.read(&mut room) {
                Ok(0) => break,
                Ok(n) => got.extend_from_slice(&room[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => scene.turn(),
                Err(error) => panic!("{why}: {error}"),
            }
        }
        let size = u32::from_be_bytes(*got.first_chunk().unwrap()) as usize;
        assert_eq!(got.len(), 4 + size, "one answer: {why}");
        scene.see_neighbour_alone();
        assert_told(&scene.lines.take(), offender.local_addr().unwrap(), why);
    }
}
