//! Frames in: cut out of bulk reads whatever the pieces they arrive in, and what ends a channel.

mod net_support;

use kloop::net::pool::block_for;
use kloop::net::{ChannelOptions, CloseReason, Notice, Selectable};
use net_support::*;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Runs the host until `count` frames of any channel are there.
fn collect(host: &mut Host, count: usize) -> VecDeque<Vec<u8>> {
    let frames = std::cell::RefCell::new(VecDeque::new());
    host.run(
        |selector, conn, notice| match notice {
            Notice::Frames => {
                while let Some(frame) = selector.next_frame(conn) {
                    frames.borrow_mut().push_back(frame.to_vec());
                }
            }
            Notice::Accepted => {}
            other => panic!("{other:?}"),
        },
        |_| (frames.borrow().len() >= count).then_some(()),
    );
    frames.into_inner()
}

#[test]
fn one_byte_at_a_time() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (_, mut peer) = host.accept(at);
    let mut frames = VecDeque::new();
    let sizes = [0usize, 1, 3, 0, 17, 300];
    for size in sizes {
        for byte in framed(&pattern(size, size)) {
            peer.write_all(&[byte]).unwrap();
            assert!(host.await_readable(PATIENCE));
            host.turn(|selector, id, notice| {
                assert_eq!(notice, Notice::Frames);
                take_frames(selector, id, &mut frames);
            });
        }
    }
    assert_eq!(frames.len(), sizes.len());
    for (frame, size) in frames.iter().zip(sizes) {
        assert_eq!(**frame, pattern(size, size));
    }
    frames.clear();
    assert_eq!(host.selector.pool().leases(), 0, "an idle connection holds a block");
}

#[test]
fn ten_thousand_small_frames_cost_few_reads() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (_, peer) = host.accept(at);
    let bytes: Vec<u8> = (0..10_000).flat_map(|n| framed(&pattern(64 + n % 7, n))).collect();
    let all = bytes.len() as u64;
    let writer = write_apart(&peer, bytes);
    writer.join().unwrap();
    let frames = collect(&mut host, 10_000);
    for (n, frame) in frames.iter().enumerate() {
        assert_eq!(*frame, pattern(64 + n % 7, n), "frame {n}");
    }
    let counters = host.selector.counters();
    assert_eq!(counters.bytes_in, all);
    assert!(counters.receives < 200, "{} reads for 10,000 frames", counters.receives);
    assert_eq!(host.selector.pool().leases(), 0);
}

#[test]
fn frames_of_every_size_up_to_the_largest_block() {
    let mut host = Host::usual();
    let largest = host.selector.pool().largest();
    let at = host.listen(&ChannelOptions { receive_max: largest, ..options() });
    let (_, peer) = host.accept(at);
    let sizes = [
        1 << 20,
        5,
        largest,
        0,
        (1 << 19) + 1,
        16 << 10,
        16_640,
        16_641,
        130_000,
        133_121,
        65_536,
        1 << 20,
        70_000,
        4,
        largest - 3,
    ];
    let bytes = sizes.iter().flat_map(|size| framed(&pattern(*size, *size))).collect();
    let writer = write_apart(&peer, bytes);
    let frames = collect(&mut host, sizes.len());
    writer.join().unwrap();
    for (frame, size) in frames.iter().zip(sizes) {
        assert!(*frame == pattern(size, size), "frame of {size} bytes");
    }
    assert_eq!(host.selector.pool().leases(), 0);
}

/// A peer that announces a megabyte pins memory only by sending it: at every point at most 8 times
/// what it sent and one first block.
#[test]
fn a_liar_pays_for_what_it_pins() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (_, mut peer) = host.accept(at);
    let size = 1 << 20;
    let bytes = framed(&pattern(size, 1));
    let first = block_for(16 << 10).unwrap();
    let mut sent = 0;
    let mut frames = VecDeque::new();
    for step in (0..).map(|n| 1 << (n / 2)).take_while(|step| *step < size) {
        let end = (sent + step).min(bytes.len());
        peer.write_all(&bytes[sent..end]).unwrap();
        sent = end;
        host.run(
            |selector, id, _| take_frames(selector, id, &mut frames),
            |selector| (selector.counters().bytes_in == sent as u64).then_some(()),
        );
        let held = host.selector.pool().in_use();
        assert!(held <= 8 * sent + first, "{held} bytes held after {sent}");
    }
    peer.write_all(&bytes[sent..]).unwrap();
    while frames.is_empty() {
        assert!(host.await_readable(PATIENCE));
        host.turn(|selector, id, _| take_frames(selector, id, &mut frames));
    }
    assert!(*frames[0] == bytes[4..]);
    assert_eq!(host.selector.pool().in_use(), block_for(size).unwrap());
}

/// What a connection has grown used to is not what a later liar may pin.
#[test]
fn a_block_that_is_large_for_what_it_holds_is_left() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (_, peer) = host.accept(at);
    let many: Vec<u8> = (0..20_000).flat_map(|n| framed(&pattern(100, n))).collect();
    let mut writer = peer.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&many).unwrap());
    collect(&mut host, 20_000);
    thread.join().unwrap();
    (&peer).write_all(&framed(&[1; 50])[..20]).unwrap();
    assert!(host.await_readable(PATIENCE));
    host.turn(|selector, id, _| assert!(selector.next_frame(id).is_none()));
    let held = host.selector.pool().in_use();
    assert!(held <= 8 * 16 + block_for(16 << 10).unwrap(), "{held}");
}

#[test]
fn what_is_not_a_frame_ends_the_channel_with_its_name() {
    let cases: [(&[u8], CloseReason); 10] = [
        (b"GET / HTTP/1.1\r\n\r\n", CloseReason::Http),
        (b"POST /x HTTP/1.1\r\n", CloseReason::Http),
        (b"HEAD / HTTP/1.0\r\n", CloseReason::Http),
        (b"OPTIONS * HTTP/1.1\r\n", CloseReason::Http),
        (b"CONNECT a:1 HTTP/1.1\r\n", CloseReason::Http),
        (&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01], CloseReason::Tls),
        (&[0xff, 0xff, 0xff, 0xff], CloseReason::NegativeSize),
        (&[0x80, 0, 0, 0, 1], CloseReason::NegativeSize),
        (&[0, 0x10, 0, 1], CloseReason::TooLarge((1 << 20) + 1)),
        (&[0x7f, 0xff, 0xff, 0xff], CloseReason::TooLarge(0x7fff_ffff)),
    ];
    let mut host = Host::usual();
    let at = host.listen(&options());
    for (bytes, reason) in cases {
        let (conn, mut peer) = host.accept(at);
        // A good frame in front is handed out all the same.
        peer.write_all(&framed(b"good")).unwrap();
        peer.write_all(bytes).unwrap();
        let mut frames = VecDeque::new();
        let mut closed = None;
        host.run(
            |selector, id, notice| match notice {
                Notice::Frames => take_frames(selector, id, &mut frames),
                Notice::Closed(reason) => closed = Some((id, reason)),
                other => panic!("{other:?}"),
            },
            |selector| (selector.channels() == 0).then_some(()),
        );
        assert_eq!(closed, Some((conn, reason)));
        assert_eq!((frames.len(), &*frames[0]), (1, &b"good"[..]));
        // The peer sees the end.
        assert!(matches!(peer.read(&mut [0; 8]), Ok(0) | Err(_)));
    }
    assert_eq!(host.selector.pool().leases(), 0);
}

#[test]
fn exactly_the_limit_is_legal_and_one_more_is_not() {
    let mut host = Host::usual();
    let at = host.listen(&ChannelOptions { receive_max: 1000, ..options() });
    let (_, mut peer) = host.accept(at);
    peer.write_all(&framed(&[7; 1000])).unwrap();
    assert_eq!(collect(&mut host, 1)[0], [7; 1000]);
    peer.write_all(&framed(&[7; 1001])).unwrap();
    let mut closed = None;
    host.run(
        |selector, id, notice| match notice {
            Notice::Closed(reason) => closed = Some(reason),
            _ => assert!(selector.next_frame(id).is_none()),
        },
        |selector| (selector.channels() == 0).then_some(()),
    );
    assert_eq!(closed, Some(CloseReason::TooLarge(1001)));
}

/// Complete frames before a close are handed out, a partial one is not, then comes the end.
#[test]
fn frames_before_the_peers_close_are_handed_out_first() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    let mut bytes: Vec<u8> = (0..2_000).flat_map(|n| framed(&pattern(n % 90, n))).collect();
    bytes.extend_from_slice(&framed(&[1; 100])[..60]);
    peer.write_all(&bytes).unwrap();
    drop(peer);
    let mut frames = VecDeque::new();
    let mut closed = Vec::new();
    let mut after = 0;
    host.run(
        |selector, id, notice| {
            assert_eq!(id, conn);
            after += closed.len();
            match notice {
                Notice::Frames => take_frames(selector, id, &mut frames),
                Notice::Closed(reason) => closed.push(reason),
                other => panic!("{other:?}"),
            }
        },
        |selector| (selector.channels() == 0).then_some(()),
    );
    assert_eq!((closed, after), (vec![CloseReason::PeerClosed], 0));
    assert_eq!(frames.len(), 2_000);
    assert!(frames.iter().enumerate().all(|(n, frame)| **frame == pattern(n % 90, n)));
}

/// A peer that ends its requests and waits for the answers gets them.
#[test]
fn a_half_closed_peer_gets_its_answers() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (_, mut peer) = host.accept(at);
    for n in 0..20u8 {
        peer.write_all(&framed(&[n; 30])).unwrap();
    }
    peer.shutdown(Shutdown::Write).unwrap();
    let mut closed = None;
    host.run(
        |selector, id, notice| match notice {
            Notice::Frames => {
                while let Some(frame) = selector.next_frame(id) {
                    let frame = frame.to_vec();
                    send(selector, id, &frame, None);
                }
            }
            Notice::Closed(reason) => closed = Some(reason),
            other => panic!("{other:?}"),
        },
        |selector| (selector.channels() == 0).then_some(()),
    );
    assert_eq!(closed, Some(CloseReason::PeerClosed));
    for n in 0..20u8 {
        assert_eq!(read_frame(&mut peer), [n; 30]);
    }
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
}

/// A muted channel is not read, whatever its peer does; what it sent and its close come later.
#[test]
fn a_muted_channel_keeps_everything_for_later() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    host.selector.mute(conn);
    for n in 0..10u8 {
        peer.write_all(&framed(&[n])).unwrap();
    }
    drop(peer);
    host.await_readable(Duration::from_millis(100));
    host.quieten(20, |_, _, notice| panic!("{notice:?}"));
    assert_eq!(host.selector.counters().receives, 0);
    host.selector.unmute(conn);
    let mut seen = Vec::new();
    let mut frames = VecDeque::new();
    host.run(
        |selector, id, notice| {
            seen.push(notice);
            take_frames(selector, id, &mut frames);
            // Muting in between keeps the rest as well.
            selector.mute(id);
            selector.unmute(id);
        },
        |selector| (selector.channels() == 0).then_some(()),
    );
    assert_eq!(seen, [Notice::Frames, Notice::Closed(CloseReason::PeerClosed)]);
    assert_eq!(frames.len(), 10);
}

/// Frames at hand when a channel is muted are announced when it is unmuted, without a new edge.
#[test]
fn frames_at_hand_survive_a_mute() {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (conn, mut peer) = host.accept(at);
    peer.write_all(&[framed(b"one"), framed(b"two"), framed(b"three")].concat()).unwrap();
    let mut frames = VecDeque::new();
    while frames.is_empty() {
        assert!(host.await_readable(PATIENCE));
        host.turn(|selector, id, _| {
            frames.extend(selector.next_frame(id));
            selector.mute(id);
            assert!(selector.next_frame(id).is_none(), "a frame of a muted channel");
        });
    }
    host.quieten(3, |_, _, notice| panic!("{notice:?}"));
    host.selector.unmute(conn);
    assert!(host.readable());
    host.turn(|selector, id, _| take_frames(selector, id, &mut frames));
    let texts: Vec<&[u8]> = frames.iter().map(|frame| &**frame).collect();
    assert_eq!(texts, [&b"one"[..], b"two", b"three"]);
    host.quieten(2, |_, _, _| {});
}

#[test]
fn an_adopted_pair_speaks_frames_too() {
    let mut host = Host::usual();
    let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    let conn = host.selector.adopt(a.into(), &options()).unwrap();
    assert_eq!(host.selector.peer(conn), None);
    // Only for its reads and writes, which any stream has.
    let mut peer = TcpStream::from(std::os::fd::OwnedFd::from(b));
    peer.write_all(&framed(b"over a pair")).unwrap();
    assert_eq!(collect(&mut host, 1)[0], b"over a pair");
    send(&mut host.selector, conn, b"back", None);
    host.turn(|_, _, _| {});
    assert_eq!(read_frame(&mut peer), b"back");
}
