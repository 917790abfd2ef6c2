//! Pressure: queues that are full, memory that is out, more connections than places.

mod net_support;

use kloop::error::Error;
use kloop::net::pool::{Priority, Term};
use kloop::net::{ChannelOptions, ConnId, Notice, Selectable, SendBuilder, SendRefused};
use net_support::*;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn a_full_queue_refuses_and_tells_when_it_drained() {
    let mut config = config();
    config.send_queue_max = 256 << 10;
    let mut host = Host::new(config, pool(&[], 16 << 20));
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    let mut sent = 0u64;
    // Fill the queue and the sockets, until a turn in between makes no room.
    while host.selector.can_send(conn) {
        while let Ok(mut builder) = host.selector.begin_send(conn, 1000) {
            builder.scratch().fill(sent as u8);
            builder.advance(1000);
            host.selector.send(conn, builder, Some(sent)).unwrap();
            sent += 1;
        }
        host.turn(|_, _, _| {});
    }
    assert_eq!(host.selector.begin_send(conn, 1000).unwrap_err(), SendRefused::Full);
    assert!(host.selector.queued(conn) >= 256 << 10);
    host.quieten(2000, |_, _, notice| assert!(matches!(notice, Notice::Sent(_))));
    let reader = std::thread::spawn(move || {
        for n in 0..sent {
            assert_eq!(read_frame(&mut peer), [n as u8; 1000]);
        }
        peer
    });
    let mut drained = 0;
    let mut last = None;
    host.run(
        |selector, _, notice| match notice {
            Notice::Drained => {
                drained += 1;
                assert!(selector.queued(conn) <= 128 << 10);
                assert!(selector.can_send(conn));
            }
            Notice::Sent(token) => last = Some(token),
            other => panic!("{other:?}"),
        },
        |selector| (selector.queued(conn) == 0).then_some(()),
    );
    host.quieten(5000, |_, _, notice| match notice {
        Notice::Drained => drained += 1,
        Notice::Sent(token) => last = Some(token),
        other => panic!("{other:?}"),
    });
    assert_eq!((drained, last), (1, Some(sent - 1)));
    reader.join().unwrap();
    assert_eq!(host.selector.pool().leases(), 0);
}

#[test]
fn tokens_come_in_order_and_only_for_those_who_asked() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    for n in 0..200u64 {
        send(&mut host.selector, conn, &n.to_be_bytes(), (n % 3 == 0).then_some(n));
    }
    let mut tokens = Vec::new();
    host.quieten(20, |_, _, notice| match notice {
        Notice::Sent(token) => tokens.push(token),
        other => panic!("{other:?}"),
    });
    assert_eq!(tokens, (0..200).filter(|n| n % 3 == 0).collect::<Vec<_>>());
    for n in 0..200u64 {
        assert_eq!(read_frame(&mut peer), n.to_be_bytes());
    }
    assert!(host.selector.counters().sends < 10, "{:?}", host.selector.counters());
}

#[test]
fn a_frame_of_scratch_and_shared_pieces_arrives_in_order() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    let mut lease = host.selector.pool().lease(100_000, Priority::Data).unwrap();
    lease[..100_000].copy_from_slice(&pattern(100_000, 5));
    let shared = lease.share(100_000);
    for round in 0..3 {
        let mut expected = Vec::new();
        let mut builder = host.selector.begin_send(conn, 500).unwrap();
        assert_eq!((builder.scratch().len(), builder.is_empty()), (500, true));
        for n in 0..SendBuilder::MAX_PIECES {
            if n % 2 == round % 2 {
                builder.scratch()[..3].copy_from_slice(b"abc");
                builder.advance(3);
                expected.extend_from_slice(b"abc");
            }
            let range = n * 1000..n * 3000 + 1;
            expected.extend_from_slice(&shared[range.clone()]);
            builder.append(shared.slice(range)).unwrap();
        }
        assert!(builder.append(shared.slice(0..0)).is_ok(), "nothing takes no place");
        assert!(builder.append(shared.clone()).is_err(), "one piece too many");
        builder.encoded()[..1].copy_from_slice(b"A");
        let first = expected.windows(3).position(|w| w == b"abc").unwrap();
        expected[first] = b'A';
        builder.scratch()[..2].copy_from_slice(b"xy");
        builder.advance(2);
        expected.extend_from_slice(b"xy");
        assert_eq!(builder.len(), expected.len());
        host.selector.send(conn, builder, None).unwrap();
        let reader = std::thread::spawn(move || (read_frame(&mut peer), peer));
        host.run(
            |_, _, notice| panic!("{notice:?}"),
            |selector| (selector.queued(conn) == 0).then_some(()),
        );
        let (frame, back) = reader.join().unwrap();
        peer = back;
        assert!(frame == expected);
    }
    drop(shared);
    host.quieten(2, |_, _, _| {});
    assert_eq!(host.selector.pool().leases(), 0);
}

#[test]
fn a_cancelled_send_leaves_nothing_behind() {
    let mut config = config();
    config.max_pieces = 1;
    let mut host = Host::new(config, pool(&[], 1 << 20));
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    // More builders than there are piece lists, dropped here and on another thread.
    for n in 0..200 {
        let mut builder = host.selector.begin_send(conn, 100).unwrap();
        builder.advance(50);
        if n % 2 == 0 {
            std::thread::scope(|scope| scope.spawn(|| drop(builder)).join().unwrap());
        }
    }
    assert_eq!(host.selector.queued(conn), 0);
    // Two at a time need more nodes than there are.
    let first = host.selector.begin_send(conn, 8).unwrap();
    assert_eq!(host.selector.begin_send(conn, 8).unwrap_err(), SendRefused::Full);
    assert!(!host.selector.can_send(conn));
    host.selector.send(conn, first, None).unwrap();
    let mut seen = Vec::new();
    host.quieten(3, |_, _, notice| seen.push(notice));
    assert_eq!(seen, [Notice::Drained]);
    assert_eq!(read_frame(&mut peer), b"");
    send(&mut host.selector, conn, b"after", None);
    host.turn(|_, _, _| {});
    assert_eq!(read_frame(&mut peer), b"after");
    assert_eq!(host.selector.pool().leases(), 0);
}

#[test]
fn a_builder_is_filled_on_another_thread() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    let mut builder = host.selector.begin_send(conn, 10).unwrap();
    let builder = std::thread::spawn(move || {
        builder.scratch()[..5].copy_from_slice(b"there");
        builder.advance(5);
        builder
    });
    // Another one of the same channel goes its own way meanwhile.
    send(&mut host.selector, conn, b"here", None);
    host.selector.send(conn, builder.join().unwrap(), None).unwrap();
    host.turn(|_, _, _| {});
    assert_eq!(read_frame(&mut peer), b"here");
    assert_eq!(read_frame(&mut peer), b"there");
}

#[test]
fn stale_ids_are_refused_everywhere() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (old, peer) = host.accept(at);
    let builder = host.selector.begin_send(old, 10).unwrap();
    host.selector.close(old);
    drop(peer);
    let (new, mut peer) = host.accept(at);
    assert_eq!(new.index(), old.index());
    for id in [old, ConnId::from_raw(0), ConnId::new(63, 1), ConnId::new(u32::MAX, 7)] {
        let selector = &mut host.selector;
        assert!(selector.next_frame(id).is_none());
        assert_eq!(selector.begin_send(id, 1).unwrap_err(), SendRefused::Stale);
        assert!(!selector.can_send(id));
        assert_eq!(selector.queued(id), 0);
        assert_eq!((selector.peer(id), selector.local(id)), (None, None));
        selector.mute(id);
        selector.unmute(id);
        selector.close(id);
        selector.close_after_flush(id);
    }
    assert_eq!(host.selector.send(old, builder, Some(1)), Err(Error::Stale));
    assert_eq!(host.selector.local(new), Some(at));
    send(&mut host.selector, new, b"lives", None);
    host.turn(|_, _, _| {});
    assert_eq!(read_frame(&mut peer), b"lives");
}

/// Closing inside of a turn, itself or others that have news waiting, gives no news of the closed.
#[test]
fn closing_inside_of_a_turn_silences_the_closed() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let mut channels: Vec<(ConnId, TcpStream)> = (0..6).map(|_| host.accept(at)).collect();
    for (_, peer) in &mut channels {
        peer.write_all(&framed(b"news")).unwrap();
    }
    let ids: Vec<ConnId> = channels.iter().map(|(id, _)| *id).collect();
    for id in &ids {
        send(&mut host.selector, *id, b"dropped", Some(3));
    }
    let mut survivor = None;
    let mut served = Vec::new();
    host.run(
        |selector, id, notice| {
            served.push(id);
            assert!(survivor.is_none_or(|only| only == id), "{notice:?} of a closed channel");
            if survivor.is_none() {
                survivor = Some(id);
                for other in ids.iter().filter(|other| **other != id) {
                    selector.close(*other);
                }
            }
            while selector.next_frame(id).is_some() {}
        },
        |selector| (selector.channels() == 1 && !selector.can_send(ids[0])).then_some(()),
    );
    host.quieten(5, |_, id, _| assert_eq!(Some(id), survivor));
    let only = survivor.unwrap();
    host.selector.close(only);
    host.quieten(3, |_, _, notice| panic!("{notice:?}"));
    for (_, peer) in &mut channels {
        let mut rest = Vec::new();
        let _ = peer.read_to_end(&mut rest);
    }
    assert_eq!(host.selector.pool().leases(), 0);
}

#[test]
fn close_after_flush_writes_everything_and_then_ends() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    // Unread bytes must not turn the end into a reset that overtakes the answer.
    peer.write_all(&framed(&[1; 5000])).unwrap();
    for n in 0..3000u32 {
        send(&mut host.selector, conn, &[n as u8; 1000], Some(1));
    }
    host.selector.close_after_flush(conn);
    assert_eq!(host.selector.begin_send(conn, 1).unwrap_err(), SendRefused::Stale);
    assert!(host.selector.next_frame(conn).is_none());
    let reader = std::thread::spawn(move || {
        for n in 0..3000u32 {
            assert_eq!(read_frame(&mut peer), [n as u8; 1000]);
        }
        assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
    });
    host.run(
        |_, _, notice| panic!("{notice:?}"),
        |selector| (selector.channels() == 0).then_some(()),
    );
    reader.join().unwrap();
    assert_eq!(host.selector.pool().leases(), 0);
}

#[test]
fn a_thousand_connections_each_get_their_own() {
    const COUNT: usize = 1000;
    let mut config = config();
    config.max_channels = COUNT;
    let mut host = Host::new(config, pool(&[], 64 << 20));
    let at = host.listen(&options());
    let mut peers: Vec<TcpStream> = Vec::new();
    let mut accepted = 0;
    // In bursts over the accepts of one turn.
    while peers.len() < COUNT {
        peers.extend((0..200).map(|_| TcpStream::connect(at).unwrap()));
        while accepted < peers.len() {
            assert!(host.await_readable(PATIENCE));
            host.turn(|_, _, notice| accepted += usize::from(notice == Notice::Accepted));
        }
    }
    assert_eq!(host.selector.channels(), COUNT);
    // One more waits at the door until a place is free, and nobody spins.
    let mut late = TcpStream::connect(at).unwrap();
    late.set_read_timeout(Some(PATIENCE)).unwrap();
    host.await_readable(Duration::from_millis(20));
    host.quieten(3, |_, _, notice| panic!("{notice:?}"));
    for (n, peer) in peers.iter_mut().enumerate() {
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.write_all(&framed(&pattern(100, n))).unwrap();
    }
    let mut answered = 0;
    host.run(
        |selector, id, _| {
            while let Some(frame) = selector.next_frame(id) {
                let frame = frame.to_vec();
                send(selector, id, &frame, None);
                answered += 1;
            }
        },
        |selector| (selector.counters().bytes_out == 104 * COUNT as u64).then_some(()),
    );
    for (n, peer) in peers.iter_mut().enumerate() {
        assert_eq!(read_frame(peer), pattern(100, n));
    }
    assert_eq!((answered, host.selector.pool().leases()), (COUNT, 0));
    drop(peers.pop());
    late.write_all(&framed(b"late")).unwrap();
    let mut frames = VecDeque::new();
    while frames.is_empty() {
        assert!(host.await_readable(PATIENCE), "a place is free and a connection waits");
        host.turn(|selector, id, _| take_frames(selector, id, &mut frames));
    }
    assert_eq!(&*frames[0], b"late");
}

/// A pool of a few blocks and more connections than that, each with large frames: everything comes
/// through, and while memory is out no turn is asked for.
#[test]
fn memory_that_is_out_mutes_and_comes_back() {
    const PEERS: usize = 6;
    let guaranteed = [Term { why: "test", size: 64 << 10, blocks: 2 }];
    let mut host = Host::new(config(), pool(&guaranteed, 80 << 10));
    let at = host.listen(&ChannelOptions { receive_first: 4096, ..options() });
    let mut channels: Vec<(ConnId, TcpStream)> = (0..PEERS).map(|_| host.accept(at)).collect();
    // Take everything: nothing can be read.
    let mut taken = Vec::new();
    for size in [64 << 10, 4096] {
        while let Some(lease) = host.selector.pool().lease(size, Priority::Data) {
            taken.push(lease);
        }
    }
    let frame = |n: usize| framed(&pattern(60_000, n));
    let writers: Vec<_> = channels
        .iter_mut()
        .enumerate()
        .map(|(n, (_, peer))| write_apart(peer, (0..5).flat_map(|k| frame(n * 8 + k)).collect()))
        .collect();
    let mut turns = 0;
    while host.await_readable(Duration::from_millis(50)) {
        host.turn(|selector, id, _| assert!(selector.next_frame(id).is_none()));
        turns += 1;
        assert!(turns < 100, "spins while memory is out");
    }
    let quiet = host.selector.counters();
    assert_eq!(quiet.receives, 0);
    // One comes home: the descriptor says so, wherever that happened.
    std::thread::spawn({
        let taken = taken;
        move || drop(taken)
    })
    .join()
    .unwrap();
    assert!(host.readable(), "memory is back, and channels wait for it");
    let mut next = vec![0; PEERS];
    let mut done = 0;
    let ids: Vec<ConnId> = channels.iter().map(|(id, _)| *id).collect();
    let begin = host.turns;
    while done < PEERS * 5 {
        assert!(host.await_readable(PATIENCE), "{next:?}");
        host.turn(|selector, id, notice| {
            assert_eq!(notice, Notice::Frames);
            let n = ids.iter().position(|known| *known == id).unwrap();
            while let Some(frame) = selector.next_frame(id) {
                assert!(*frame == pattern(60_000, n * 8 + next[n]), "frame {} of {n}", next[n]);
                next[n] += 1;
                done += 1;
            }
        });
        assert!(host.turns - begin < 10_000, "spins");
    }
    for writer in writers {
        writer.join().unwrap();
    }
    host.quieten(5, |_, _, _| {});
    assert_eq!(host.selector.pool().leases(), 0);
}

#[test]
fn no_memory_for_a_send_is_an_answer() {
    let mut host = Host::new(config(), pool(&[], 1 << 20));
    let at = host.listen(&options());
    let (conn, _peer) = host.accept(at);
    let mut taken = Vec::new();
    while let Some(lease) = host.selector.pool().lease(1, Priority::Control) {
        taken.push(lease);
    }
    assert_eq!(host.selector.begin_send(conn, 10).unwrap_err(), SendRefused::NoMemory);
    host.quieten(2, |_, _, notice| panic!("{notice:?}"));
    // One comes home on another thread: the descriptor says so, and the channel is told.
    let one = taken.pop();
    std::thread::spawn(move || drop(one)).join().unwrap();
    assert!(host.readable());
    let mut seen = Vec::new();
    host.quieten(3, |_, id, notice| seen.push((id, notice)));
    assert_eq!(seen, [(conn, Notice::Drained)]);
    taken.clear();
    assert!(host.selector.begin_send(conn, 10).is_ok());
    assert_eq!(host.selector.begin_send(conn, 2 << 20).unwrap_err(), SendRefused::NoMemory);
}
