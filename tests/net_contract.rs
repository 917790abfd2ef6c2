//! The one descriptor: readable exactly while there is work.

mod net_support;

use kloop::net::{ChannelOptions, CloseReason, Notice, Selectable, TurnBudget};
use kloop::time::Clock;
use net_support::*;
use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn a_new_selector_is_quiet_and_a_listener_keeps_it_so() {
    let mut host = Host::usual();
    assert!(!host.readable());
    let at = host.listen(&options());
    assert!(!host.readable());
    let (_, _peer) = host.accept(at);
    host.quieten(3, |_, _, _| {});
    let counters = host.selector.counters();
    assert_eq!(counters.accepts, 1);
    assert!(!host.await_readable(Duration::from_millis(30)), "spurious");
}

/// With a budget of one notice a turn everything takes many turns, and after each of them the
/// descriptor must say that there is more. The host here runs turns only when it does.
#[test]
fn a_budget_of_one_notice_loses_nothing() {
    let mut config = config();
    config.budget = TurnBudget { bytes: 4096, notices: 1 };
    let mut host = Host::new(config, pool(&[], 16 << 20));
    let at = host.listen(&options());
    let mut peers: Vec<_> = (0..8).map(|_| host.accept(at).1).collect();
    for (i, peer) in peers.iter_mut().enumerate() {
        let frames: Vec<u8> = (0..100).flat_map(|n| framed(&pattern(100 + n, i))).collect();
        peer.write_all(&frames).unwrap();
    }
    let mut answered = 0;
    host.run(
        |selector, conn, notice| match notice {
            Notice::Frames => {
                while let Some(frame) = selector.next_frame(conn) {
                    let frame = frame.to_vec();
                    send(selector, conn, &frame, Some(1));
                }
            }
            Notice::Sent(1) => answered += 1,
            other => panic!("{other:?}"),
        },
        |selector| {
            (selector.counters().bytes_out == 8 * (0..100).map(|n| 104 + n).sum::<u64>())
                .then_some(())
        },
    );
    for (i, peer) in peers.iter_mut().enumerate() {
        for n in 0..100 {
            assert_eq!(read_frame(peer), pattern(100 + n, i));
        }
    }
    while answered < 800 {
        assert!(host.readable(), "{answered} tokens of 800");
        host.turn(|_, _, notice| {
            assert_eq!(notice, Notice::Sent(1));
            answered += 1;
        });
    }
    host.quieten(2, |_, _, notice| panic!("{notice:?}"));
}

/// The same for an owner that takes one frame a notice and never asks again by itself.
#[test]
fn frames_left_behind_are_announced_again() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    let frames: Vec<u8> = (0..50u8).flat_map(|n| framed(&[n])).collect();
    peer.write_all(&frames).unwrap();
    let mut next = 0;
    let mut taken = Vec::new();
    host.run(
        |selector, id, notice| {
            assert_eq!((id, notice), (conn, Notice::Frames));
            if let Some(frame) = selector.next_frame(id) {
                assert_eq!(*frame, [next]);
                next += 1;
                taken.push(frame);
            }
        },
        |selector| {
            (selector.pool().leases() == 1 && selector.counters().bytes_in == 250).then_some(())
        },
    );
    while next < 50 {
        assert!(host.readable());
        host.turn(|selector, id, _| next += u8::from(selector.next_frame(id).is_some()));
    }
    host.quieten(3, |selector, id, _| assert!(selector.next_frame(id).is_none()));
}

#[test]
fn work_that_comes_up_between_turns_shows_at_once() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    host.quieten(3, |_, _, _| {});

    send(&mut host.selector, conn, b"between turns", None);
    assert!(host.readable(), "a queued send");
    host.turn(|_, _, notice| panic!("{notice:?}"));
    assert_eq!(read_frame(&mut peer), b"between turns");
    assert!(!host.readable());

    host.selector.mute(conn);
    peer.write_all(&framed(b"while muted")).unwrap();
    host.quieten(3, |_, _, notice| panic!("muted: {notice:?}"));
    host.selector.unmute(conn);
    assert!(host.readable(), "unmuted with bytes in the socket");
    let mut frames = VecDeque::new();
    host.turn(|selector, id, _| take_frames(selector, id, &mut frames));
    assert_eq!(&*frames[0], b"while muted");
    assert!(!host.readable());

    let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
    let adopted = host.selector.adopt(a.into(), &options()).unwrap();
    assert!(host.readable(), "an adopted socket's notice");
    let mut seen = None;
    host.turn(|_, id, notice| {
        seen.get_or_insert((id, notice));
    });
    assert_eq!(seen, Some((adopted, Notice::Accepted)));

    host.selector.signal();
    assert!(host.readable(), "signalled");
    host.quieten(2, |_, _, _| {});
}

#[test]
fn settle_leaves_the_callers_work_readable_and_writes_once() {
    let mut host = Host::usual();
    for _ in 0..100 {
        let now = host.now();
        host.selector.wait(Some(now), now).unwrap();
        assert!(host.selector.next_notice(now).is_none());
        host.selector.settle(true, None, now);
        assert!(host.readable());
    }
    let counters = host.selector.counters();
    assert_eq!((counters.signals, counters.clears), (1, 0));
    host.turn(|_, _, _| {});
    assert!(!host.readable());
    host.turn(|_, _, _| {});
    let counters = host.selector.counters();
    assert_eq!((counters.signals, counters.clears), (1, 1));
}

#[test]
fn the_alarm_is_set_only_for_earlier_deadlines_and_fires_once() {
    let mut host = Host::usual();
    let begin = host.now();
    host.deadline = Some(begin.after(Duration::from_millis(40)));
    host.turn(|_, _, _| {});
    assert!(!host.readable());
    assert_eq!(host.selector.counters().alarms, 1);
    // Later deadlines cost nothing.
    for ms in [50, 90, 60] {
        host.deadline = Some(begin.after(Duration::from_millis(ms)));
        host.turn(|_, _, _| {});
    }
    assert_eq!(host.selector.counters().alarms, 1);
    assert!(host.await_readable(PATIENCE));
    assert!(host.now() >= begin.after(Duration::from_millis(40)), "too early");
    // It fired at the old time, once; now it is set for the deadline that counts.
    host.turn(|_, _, _| {});
    assert_eq!(host.selector.counters().alarms, 2);
    assert!(host.await_readable(PATIENCE));
    assert!(host.now() >= begin.after(Duration::from_millis(60)), "too early");
    host.deadline = None;
    host.turn(|_, _, _| {});
    assert!(!host.await_readable(Duration::from_millis(50)));
    assert_eq!(host.selector.counters().alarms, 2);
}

#[test]
fn a_wait_ends_at_its_time_and_not_before() {
    let mut host = Host::usual();
    // Shorter than what the poller itself can time.
    for us in [0u64, 50, 300, 2_000] {
        let begin = host.now();
        let until = begin.after(Duration::from_micros(us));
        while host.now() < until || us == 0 {
            let now = host.now();
            host.selector.wait(Some(until), now).unwrap();
            let now = host.now();
            host.selector.settle(false, None, now);
            if us == 0 {
                break;
            }
        }
        let took = host.now().since(begin);
        assert!(took >= Duration::from_micros(us), "{us} µs took {took:?}");
        assert!(took < Duration::from_micros(us) + Duration::from_millis(500), "{took:?}");
    }
}

#[test]
fn idle_channels_end_by_the_alarm_alone() {
    let mut host = Host::usual();
    let idle = ChannelOptions { max_idle: Duration::from_millis(60), ..options() };
    let at = host.listen(&idle);
    let begin = host.now();
    let (conn, mut peer) = host.accept(at);
    // Activity moves the end.
    let mut frames = VecDeque::new();
    host.await_readable(Duration::from_millis(30));
    peer.write_all(&framed(b"alive")).unwrap();
    let mut closed = None;
    host.run(
        |selector, id, notice| match notice {
            Notice::Frames => take_frames(selector, id, &mut frames),
            Notice::Closed(reason) => {
                closed = Some((id, reason));
            }
            other => panic!("{other:?}"),
        },
        |selector| (selector.channels() == 0).then_some(()),
    );
    assert_eq!(closed, Some((conn, CloseReason::Idle)));
    assert!(host.now() >= begin.after(Duration::from_millis(60)));
    assert_eq!(frames.len(), 1);
    assert!(host.turns < 12, "{} turns", host.turns);
}

#[test]
fn connects_tell_how_they_ended() {
    let mut host = Host::usual();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let conn = host.selector.connect(at, &options()).unwrap();
    assert_eq!(host.selector.peer(conn), Some(at));
    // A send may be queued before the connect is decided.
    send(&mut host.selector, conn, b"early", Some(9));
    let mut seen = Vec::new();
    let (mut peer, _) = listener.accept().unwrap();
    host.run(
        |_, id, notice| {
            assert_eq!(id, conn);
            seen.push(notice);
        },
        |selector| (selector.queued(conn) == 0).then_some(()),
    );
    assert_eq!(read_frame(&mut peer), b"early");
    host.quieten(3, |_, _, notice| seen.push(notice));
    assert_eq!(seen, [Notice::Connected, Notice::Sent(9)]);

    drop(listener);
    let refused = host.selector.connect(at, &options()).unwrap();
    let mut seen = Vec::new();
    host.run(
        |_, id, notice| seen.push((id, notice)),
        |selector| (selector.peer(refused).is_none()).then_some(()),
    );
    let reason = CloseReason::ConnectFailed(libc::ECONNREFUSED);
    assert_eq!(seen, [(refused, Notice::Closed(reason))]);
    let ipv6 = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 1));
    if let Ok(conn) = host.selector.connect(ipv6, &options()) {
        host.run(|_, _, _| {}, |selector| selector.peer(conn).is_none().then_some(()));
    }
}

/// Another thread posts and wakes; each post must be seen by a turn that the descriptor asked for.
#[test]
fn no_wake_is_lost() {
    const POSTS: u64 = 100_000;
    let mut host = Host::usual();
    let posted = Arc::new(AtomicU64::new(0));
    let taken = Arc::new(AtomicU64::new(0));
    let waker = host.selector.waker();
    let thread = std::thread::spawn({
        let (posted, taken) = (Arc::clone(&posted), Arc::clone(&taken));
        move || {
            for i in 1..=POSTS {
                posted.store(i, Ordering::SeqCst);
                waker.wake();
                // Every other post waits until it was taken, so that both the quiet and the busy
                // selector are woken.
                while i % 2 == 0 && taken.load(Ordering::SeqCst) < i {
                    std::thread::yield_now();
                }
            }
        }
    });
    let mut turns = 0u64;
    while taken.load(Ordering::SeqCst) < POSTS {
        assert!(host.await_readable(PATIENCE), "a wake was lost after {turns} turns");
        let now = host.now();
        host.selector.wait(Some(now), now).unwrap();
        if host.selector.take_posted() {
            taken.store(posted.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        host.selector.settle(false, None, now);
        turns += 1;
    }
    thread.join().unwrap();
    host.quieten(3, |_, _, _| {});
    assert!(turns <= 2 * POSTS + 10, "{turns} turns");
}

#[test]
fn a_waker_outlives_its_selector() {
    let host = Host::usual();
    let waker = host.selector.waker();
    drop(host);
    waker.wake();
    assert!(kloop::time::SystemClock::new().now().nanos() > 0);
}
