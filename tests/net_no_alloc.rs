//! No allocation and few system calls per frame, counted.

mod counting;
mod net_support;

use counting::counted;
use kloop::net::{ConnId, Notice, Selectable};
use net_support::*;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn the_counter_counts() {
    let (kept, count) = counted(|| vec![1u8; 100]);
    assert_eq!(count, 1);
    let (_, count) = counted(move || drop(kept));
    assert_eq!(count, 1);
    let (_, count) = counted(|| *std::hint::black_box(Box::new(5)) + 1);
    assert_eq!(count, 2);
    let (_, count) = counted(|| std::hint::black_box(5) + 1);
    assert_eq!(count, 0);
    // What other threads do is not ours.
    let (_, count) = counted(|| std::hint::black_box(0));
    std::thread::spawn(|| drop(vec![1u8; 100])).join().unwrap();
    assert_eq!(count, 0);
}

/// What a selector takes at its creation is the documented sum and a little of the poller's.
#[test]
fn the_tables_take_what_they_say() {
    for (channels, pieces) in [(1, 1), (64, 4096), (10_000, 20_000)] {
        let mut config = config();
        (config.max_channels, config.max_pieces) = (channels, pieces);
        let pool = pool(&[], 1 << 20);
        let sum = config.table_bytes();
        let before = counting::bytes_taken();
        let selector = kloop::net::selector::Selector::new(config, pool).unwrap();
        let taken = counting::bytes_taken() - before;
        println!("{channels} channels, {pieces} pieces: {taken} bytes, documented {sum}");
        assert!((sum..sum + 2048).contains(&taken), "{taken} bytes, documented {sum}");
        drop(selector);
    }
}

/// Keeps `depth` frames of `size` bytes in flight until `count` came back.
fn load(mut peer: TcpStream, depth: usize, size: usize, count: usize) {
    let frame = framed(&vec![b'k'; size]);
    let (mut sent, mut got) = (0, 0);
    let burst: Vec<u8> = frame.repeat(depth);
    let mut answers = vec![0; burst.len()];
    while got < count {
        let more = depth.min(count - sent);
        peer.write_all(&burst[..more * frame.len()]).unwrap();
        sent += more;
        peer.read_exact(&mut answers[..more * frame.len()]).unwrap();
        assert!(answers[..more * frame.len()] == burst[..more * frame.len()]);
        got += more;
    }
}

fn echo(host: &mut Host, until: u64, copy_max: usize) {
    host.run(
        |selector, conn, notice| {
            if notice == Notice::Frames {
                while let Some(frame) = selector.next_frame(conn) {
                    let copy = if frame.len() <= copy_max { frame.len() } else { 0 };
                    let mut send = selector.begin_send(conn, copy).unwrap();
                    send.scratch()[..copy].copy_from_slice(&frame[..copy]);
                    send.advance(copy);
                    if copy == 0 {
                        send.append(frame).unwrap();
                    }
                    selector.send(conn, send, Some(7)).unwrap();
                }
            }
        },
        |selector| (selector.counters().bytes_out >= until).then_some(()),
    );
}

/// Echoes `count` frames after a tenth of that to warm up; the allocations and the system calls of
/// the selector per frame.
fn measure(depth: usize, size: usize, count: usize, copy_max: usize) -> (u64, f64) {
    let mut host = Host::usual();
    let at = host.listen(&options());
    let (_, peer): (ConnId, TcpStream) = host.accept(at);
    let warm = count / 10;
    let thread = std::thread::spawn(move || load(peer, depth, size, warm + count));
    let bytes = |frames: usize| (frames * (size + 4)) as u64;
    echo(&mut host, bytes(warm), copy_max);
    let before = host.selector.counters();
    let ((), allocations) = counted(|| echo(&mut host, bytes(warm + count), copy_max));
    let after = host.selector.counters();
    thread.join().unwrap();
    let calls = |c: kloop::net::selector::Counters| {
        c.waits + c.receives + c.sends + c.signals + c.clears + c.alarms
    };
    (allocations, (calls(after) - calls(before)) as f64 / count as f64)
}

#[test]
fn echoing_allocates_nothing() {
    for (depth, size, count, copy_max, most) in [
        (64, 64, 100_000, 512, 0.2),
        (64, 64, 20_000, 0, 0.3),
        (1, 64, 5_000, 512, 5.5),
        (16, 1024, 20_000, 512, 0.8),
        (4, 100_000, 500, 512, 12.0),
    ] {
        let (allocations, calls) = measure(depth, size, count, copy_max);
        let how = if size <= copy_max { "copied" } else { "by reference" };
        println!(
            "{count} frames of {size} bytes, {depth} in flight, {how}: \
             {allocations} allocations, {calls:.3} system calls a frame"
        );
        assert_eq!(allocations, 0);
        assert!(calls < most, "{calls} system calls a frame at depth {depth}");
    }
}
