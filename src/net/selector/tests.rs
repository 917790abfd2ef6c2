//! What the tests outside cannot see: the options of the sockets, and what may move to a thread.

use super::*;
use crate::net::pool::{Memory, PoolConfig};
use crate::net::{CloseReason, ConnId, Selectable};
use std::io::Write;

fn selector() -> Selector {
    let memory = Memory::Map { prefault: false };
    let shape = PoolConfig { guaranteed: &[], shared: 1 << 20, control_blocks: 0, memory };
    let config = SelectorConfig {
        max_channels: 4,
        max_listeners: 1,
        max_exchanges: 0,
        max_pieces: 64,
        send_queue_max: 1 << 20,
        budget: TurnBudget::default(),
        logger: Logger::silent(),
    };
    Selector::new(config, BufferPool::new(shape).unwrap()).unwrap()
}

#[test]
fn accepted_and_connecting_sockets_have_their_options() {
    let mut selector = selector();
    let options = ChannelOptions {
        owner: Owner(1),
        receive_max: 1 << 16,
        receive_first: 4096,
        max_idle: Duration::ZERO,
        send_buffer: Some(100_000),
        receive_buffer: Some(50_000),
    };
    let at = SocketAddr::from(([127, 0, 0, 1], 0));
    let (_, at) = selector.listen(at, 16, &options).unwrap();
    let out = selector.connect(at, &options).unwrap();
    let mut accepted: Option<ConnId> = None;
    let now = Instant::default();
    while accepted.is_none() {
        selector.wait(None, now).unwrap();
        while let Some((conn, _, notice)) = selector.next_notice(now) {
            if notice == Notice::Accepted {
                accepted = Some(conn);
            }
        }
        selector.settle(false, None, now);
    }
    for conn in [out, accepted.unwrap()] {
        let channel = selector.channels.get_mut(slot_id(conn)).unwrap();
        assert!(channel.socket().nodelay().unwrap());
        assert_eq!(option(channel.fd(), libc::SO_KEEPALIVE), 1);
        // Linux doubles what is asked for.
        assert!(option(channel.fd(), libc::SO_SNDBUF) >= 100_000);
        assert!((50_000..=200_000).contains(&option(channel.fd(), libc::SO_RCVBUF)));
    }
}

#[expect(unsafe_code, reason = "std does not tell these options")]
fn option(fd: RawFd, option: i32) -> i32 {
    let (mut value, mut size) = (0i32, size_of::<i32>() as libc::socklen_t);
    let to = (&raw mut value).cast();
    // SAFETY: the value has the size that is given.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, to, &mut size) };
    assert_eq!(result, 0);
    value
}

#[test]
fn what_reactors_move_between_threads_may_move() {
    fn may_move<T: Send>() {}
    may_move::<Selector>();
    may_move::<SendBuilder>();
    may_move::<Waker>();
    may_move::<BufferPool>();
}

#[test]
fn a_pool_serves_as_many_selectors_as_it_says() {
    let first = selector();
    let config = |_| SelectorConfig {
        max_channels: 1,
        max_listeners: 0,
        max_exchanges: 0,
        max_pieces: 1,
        send_queue_max: 1,
        budget: TurnBudget::default(),
        logger: Logger::silent(),
    };
    let more: Box<[Selector]> =
        (1..64).map(|i| Selector::new(config(i), first.pool.clone()).unwrap()).collect();
    assert!(matches!(Selector::new(config(64), first.pool.clone()), Err(Error::Exhausted(_))));
    drop(more);
    assert!(Selector::new(config(64), first.pool.clone()).is_ok());
}

/// Turns at a fixed time until a frame or an end; `None` if there is neither in many of them.
fn news(selector: &mut Selector, at: Instant) -> Option<(ConnId, Notice)> {
    for _ in 0..1000 {
        selector.wait(Some(at), at).unwrap();
        while let Some((conn, _, notice)) = selector.next_notice(at) {
            match notice {
                Notice::Frames if selector.next_frame(conn).is_none() => {}
                Notice::Frames | Notice::Closed(_) | Notice::Accepted => {
                    return Some((conn, notice));
                }
                _ => {}
            }
        }
        selector.settle(false, None, at);
    }
    None
}

#[test]
fn who_stops_within_a_frame_does_not_keep_the_memory() {
    static BYTES: [u8; 500_000] = [7; 500_000];
    let mut selector = selector();
    let options = ChannelOptions {
        owner: Owner(1),
        receive_max: 500_000,
        receive_first: 4096,
        max_idle: Duration::ZERO,
        send_buffer: None,
        receive_buffer: None,
    };
    let at = SocketAddr::from(([127, 0, 0, 1], 0));
    let (_, at) = selector.listen(at, 16, &options).unwrap();
    let second = |n| Instant::default().after(Duration::from_secs(n));
    let open = |selector: &mut Selector, when, sent: usize| {
        let mut peer = std::net::TcpStream::connect(at).unwrap();
        let Some((conn, Notice::Accepted)) = news(selector, when) else { panic!() };
        let writes = std::thread::spawn(move || {
            peer.write_all(&500_000u32.to_be_bytes()).unwrap();
            // If the other end closes it, that is what is tested.
            let _ = peer.write_all(&BYTES[..sent]);
            peer
        });
        (conn, writes)
    };
    // There is one block of that size. The stranger has it, and sends no more.
    let (stranger, kept) = open(&mut selector, second(1), 499_999);
    let kept_peer = loop {
        assert_eq!(news(&mut selector, second(1)), None);
        if kept.is_finished() {
            break kept.join().unwrap();
        }
    };
    assert_eq!(news(&mut selector, second(1)), None);
    let (honest, sends) = open(&mut selector, second(20), 500_000);
    while selector.starved.is_empty() {
        assert_eq!(news(&mut selector, second(20)), None);
    }
    assert_eq!(selector.next_deadline(), Some(second(30)));
    assert_eq!(news(&mut selector, second(29)), None);
    let ended = news(&mut selector, second(30));
    assert_eq!(ended, Some((stranger, Notice::Closed(CloseReason::Stalled))));
    let served = loop {
        if let Some(served) = news(&mut selector, second(30)) {
            break served;
        }
    };
    assert_eq!(served, (honest, Notice::Frames));
    drop((kept_peer, sends.join().unwrap()));
}

/// Frames of three bytes from one peer, all at hand, of which the first was taken in this turn.
fn three_frames(selector: &mut Selector) -> (ConnId, std::net::TcpStream) {
    let options = ChannelOptions {
        owner: Owner(1),
        receive_max: 1 << 16,
        receive_first: 4096,
        max_idle: Duration::ZERO,
        send_buffer: None,
        receive_buffer: None,
    };
    let at = SocketAddr::from(([127, 0, 0, 1], 0));
    let (_, at) = selector.listen(at, 16, &options).unwrap();
    let mut peer = std::net::TcpStream::connect(at).unwrap();
    let now = Instant::default();
    peer.write_all(&[0, 0, 0, 3, 1, 1, 1, 0, 0, 0, 3, 2, 2, 2, 0, 0, 0, 3, 3, 3, 3]).unwrap();
    loop {
        selector.wait(None, now).unwrap();
        while let Some((conn, _, notice)) = selector.next_notice(now) {
            if notice == Notice::Frames
                && let Some(frame) = selector.next_frame(conn)
            {
                assert_eq!(&frame[..], [1; 3]);
                return (conn, peer);
            }
        }
        selector.settle(false, None, now);
    }
}

#[test]
fn what_is_charged_ends_a_turn_and_the_next_one_goes_on() {
    let now = Instant::default();
    let mut selector = selector();
    let (conn, _peer) = three_frames(&mut selector);
    selector.charge(1000);
    assert_eq!(selector.next_frame(conn).as_deref(), Some(&[2; 3][..]));
    selector.charge(TurnBudget::default().bytes);
    assert!(selector.next_frame(conn).is_none());
    assert_eq!(selector.next_notice(now), None);
    selector.settle(false, None, now);
    assert!(selector.is_signalled(), "nobody would come back for what is left");
    selector.wait(Some(now), now).unwrap();
    assert_eq!(selector.next_notice(now), Some((conn, Owner(1), Notice::Frames)));
    assert_eq!(selector.next_frame(conn).as_deref(), Some(&[3; 3][..]));
    assert!(selector.next_frame(conn).is_none());
    selector.settle(false, None, now);
    assert!(!selector.is_signalled(), "there is nothing left");
}

#[test]
fn reading_alone_holds_back_no_frame_at_hand() {
    let mut selector = selector();
    let (conn, _peer) = three_frames(&mut selector);
    selector.reading.budget = 0;
    selector.charge(0);
    assert_eq!(selector.next_frame(conn).as_deref(), Some(&[2; 3][..]));
    assert_eq!(selector.next_frame(conn).as_deref(), Some(&[3; 3][..]));
}
