//! What the tests outside cannot see: the options of the sockets, and what may move to a thread.

use super::*;
use crate::net::pool::{Memory, PoolConfig};
use crate::net::{ConnId, Selectable};

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
