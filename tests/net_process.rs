//! What needs a process of its own: signals at their default, and no descriptors left.

mod net_support;

use kloop::net::acceptor::{Acceptor, Incoming};
use kloop::net::{CloseReason, Notice, Selectable};
use kloop::time::{Clock, Instant, SystemClock};
use net_support::*;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn a_reset_with_sends_queued_is_news_and_no_signal() {
    in_a_child("child_reset_with_sends_queued");
}

/// In a process of its own, with SIGPIPE as a C program has it: a write to a broken peer would
/// kill.
#[test]
#[ignore = "run by a_reset_with_sends_queued_is_news_and_no_signal"]
fn child_reset_with_sends_queued() {
    #[expect(unsafe_code, reason = "Rust programs begin with SIGPIPE ignored")]
    // SAFETY: sets a signal to its default.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL)
    };
    let mut host = Host::usual();
    let at = host.listen(&options());
    for muted in [false, true] {
        let (conn, peer) = host.accept(at);
        if muted {
            host.selector.mute(conn);
        }
        for _ in 0..4 {
            while host.selector.can_send(conn) {
                send(&mut host.selector, conn, &[1; 1000], None);
            }
            host.turn(|_, _, notice| panic!("{notice:?}"));
        }
        assert!(host.selector.queued(conn) > 0, "the socket must be full");
        reset(peer);
        let mut closed = None;
        host.run(
            |selector, id, notice| match notice {
                Notice::Closed(reason) => closed = Some((id, reason)),
                Notice::Frames => assert!(selector.next_frame(id).is_none()),
                other => panic!("{other:?}"),
            },
            |selector| (selector.channels() == 0).then_some(()),
        );
        let Some((id, CloseReason::Io(errno))) = closed else { panic!("{closed:?}") };
        assert_eq!(id, conn);
        assert!([libc::ECONNRESET, libc::EPIPE].contains(&errno), "{errno}");
        // Sends to a peer that has closed: the first wakes its reset, the next would be a SIGPIPE.
        let (conn, peer) = host.accept(at);
        host.selector.mute(conn);
        drop(peer);
        for _ in 0..100 {
            if host.selector.begin_send(conn, 8).is_err() {
                break;
            }
            send(&mut host.selector, conn, b"anybody?", None);
            host.turn(|_, _, _| {});
        }
        host.selector.close(conn);
    }
    assert_eq!(host.selector.pool().leases(), 0);
}

#[test]
fn without_descriptors_the_door_rests() {
    in_a_child("child_without_descriptors");
}

/// In a process of its own: with no descriptor left, accepting must rest instead of spinning, and
/// go on when there are some.
#[test]
#[ignore = "run by without_descriptors_the_door_rests"]
fn child_without_descriptors() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (_, _first) = host.accept(at);
    let peer = TcpStream::connect(at).unwrap();
    let mut hoard = Vec::new();
    limit_descriptors(256);
    while let Ok(file) = std::fs::File::open("/dev/null") {
        hoard.push(file);
    }
    let begin = host.now();
    let turns = host.turns;
    while host.now().since(begin) < Duration::from_millis(450) {
        if host.await_readable(Duration::from_millis(50)) {
            host.turn(|_, _, notice| panic!("{notice:?}"));
        }
    }
    let spent = host.turns - turns;
    assert!((3..=20).contains(&spent), "{spent} turns in 450 ms");
    hoard.clear();
    let mut accepted = false;
    host.run(
        |_, _, notice| accepted |= notice == Notice::Accepted,
        |selector| (selector.channels() == 2).then_some(()),
    );
    drop(peer);
    host.quieten(5, |selector, id, _| assert!(selector.next_frame(id).is_none()));
}

#[test]
fn an_acceptors_rest_ends_although_connections_come() {
    in_a_child("child_acceptor_without_descriptors");
}

/// A clock that a test moves by hand.
struct ByHand(std::cell::Cell<Instant>);

impl Clock for ByHand {
    fn now(&self) -> Instant {
        self.0.get()
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}

/// In a process of its own: each new connection is an edge that ends the acceptor's wait; its rest
/// ends by the clock nevertheless.
#[test]
#[ignore = "run by an_acceptors_rest_ends_although_connections_come"]
fn child_acceptor_without_descriptors() {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut acceptor = Acceptor::listen(any, 64, &options()).unwrap();
    let at = acceptor.address();
    let _waiting: Vec<_> = (0..20).map(|_| TcpStream::connect(at).unwrap()).collect();
    acceptor.wait(&SystemClock::new()).unwrap();
    limit_descriptors(256);
    let mut hoard = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        hoard.push(file);
    }
    let clock = ByHand(Instant::from_nanos(1).into());
    let wake = acceptor.waker();
    assert!(matches!(acceptor.accept(), Incoming::Exhausted(libc::EMFILE)));
    for _ in 0..9 {
        // What a new connection does, without the descriptor that it would take here.
        wake.wake();
        acceptor.wait(&clock).unwrap();
        assert!(matches!(acceptor.accept(), Incoming::Empty), "it rests");
        clock.0.set(clock.now().after(Duration::from_millis(10)));
    }
    hoard.clear();
    clock.0.set(clock.now().after(Duration::from_millis(10)));
    wake.wake();
    acceptor.wait(&clock).unwrap();
    assert!(matches!(acceptor.accept(), Incoming::Socket(..)), "the rest is over");
}

fn limit_descriptors(count: u64) {
    let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
    #[expect(unsafe_code, reason = "std has no limits")]
    // SAFETY: the limit lives through the call.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    assert_eq!(result, 0);
}
