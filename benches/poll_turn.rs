//! One selector turn: what it costs when nothing is ready, when one of many channels is, and when
//! a pipeline is.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kloop::logging::Logger;
use kloop::net::pool::{Memory, PoolConfig};
use kloop::net::selector::{Selector, SelectorConfig};
use kloop::net::{BufferPool, ChannelOptions, ConnId, Notice, Owner, Selectable, TurnBudget};
use kloop::time::{Clock, SystemClock};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

struct Loop {
    selector: Selector,
    clock: SystemClock,
    peers: Vec<TcpStream>,
}

impl Loop {
    fn new(channels: usize) -> Loop {
        let memory = Memory::Map { prefault: true };
        let shape = PoolConfig { guaranteed: &[], shared: 32 << 20, control_blocks: 0, memory };
        let config = SelectorConfig {
            max_channels: channels,
            max_listeners: 1,
            max_exchanges: 0,
            max_pieces: 4096,
            send_queue_max: 4 << 20,
            budget: TurnBudget::default(),
            logger: Logger::silent(),
        };
        let pool = BufferPool::new(shape).expect("a pool of 32 MiB");
        let mut selector = Selector::new(config, pool).expect("a selector");
        let options = ChannelOptions {
            owner: Owner(0),
            receive_max: 1 << 20,
            receive_first: 16 << 10,
            max_idle: Duration::from_secs(600),
            send_buffer: None,
            receive_buffer: None,
        };
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        let (_, at) = selector.listen(at, 1024, &options).expect("a listener");
        let mut this = Loop { selector, clock: SystemClock::new(), peers: Vec::new() };
        let mut accepted = 0;
        for _ in 0..channels {
            let peer = TcpStream::connect(at).expect("a connection");
            peer.set_nodelay(true).expect("an option");
            this.peers.push(peer);
            while accepted < this.peers.len() {
                this.turn(|_, _, notice| accepted += usize::from(notice == Notice::Accepted));
            }
        }
        // The first edges, of sockets that can be written.
        this.turn(|_, _, _| {});
        this
    }

    fn turn(&mut self, mut on: impl FnMut(&mut Selector, ConnId, Notice)) {
        let now = self.clock.now();
        self.selector.wait(Some(now), now).expect("a poller");
        while let Some((conn, _, notice)) = self.selector.next_notice(now) {
            on(&mut self.selector, conn, notice);
        }
        self.selector.flush();
        self.selector.settle(false, None, now);
    }

    fn echo(&mut self) {
        self.turn(|selector, conn, _| {
            while let Some(frame) = selector.next_frame(conn) {
                let mut send = selector.begin_send(conn, frame.len()).expect("room");
                send.scratch().copy_from_slice(&frame);
                send.advance(frame.len());
                selector.send(conn, send, None).expect("a live channel");
            }
        });
    }
}

/// A turn that finds nothing: one system call.
fn quiet(c: &mut Criterion) {
    for channels in [1, 1000] {
        let mut quiet = Loop::new(channels);
        c.bench_function(&format!("poll turn/quiet/{channels} channels"), |b| {
            b.iter(|| quiet.turn(|_, _, _| {}));
        });
    }
}

/// Turns that echo `depth` frames of 64 bytes of one channel among many. The peer's own calls are
/// not timed.
fn echo(c: &mut Criterion) {
    let mut group = c.benchmark_group("poll turn/echo 64 bytes");
    for (channels, depth) in [(1, 1), (1000, 1), (1, 64)] {
        let mut busy = Loop::new(channels);
        let mut frame = 64u32.to_be_bytes().to_vec();
        frame.resize(68, b'k');
        let burst = frame.repeat(depth);
        let mut answer = vec![0; burst.len()];
        let mut peer = busy.peers[channels / 2].try_clone().expect("a descriptor");
        group.throughput(Throughput::Elements(depth as u64));
        group.bench_function(format!("{channels} channels, {depth} in flight"), |b| {
            b.iter_custom(|rounds| {
                let mut spent = Duration::ZERO;
                for _ in 0..rounds {
                    peer.write_all(&burst).expect("a request");
                    let (begin, before) = (busy.clock.now(), busy.selector.counters().bytes_out);
                    while busy.selector.counters().bytes_out < before + burst.len() as u64 {
                        busy.echo();
                    }
                    spent += busy.clock.now().since(begin);
                    peer.read_exact(&mut answer).expect("an answer");
                }
                spent
            });
        });
    }
    group.finish();
}

criterion_group!(benches, quiet, echo);
criterion_main!(benches);
