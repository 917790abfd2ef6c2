//! The bare network engine: echoes frames of four size bytes and a payload.
//!
//! `echo PORT [--stats] [--copy BYTES]` listens on 127.0.0.1 (port 0 picks one) and says where.
//! With `--stats` it prints what the selector did once its standard input ends. Frames of at most
//! so many bytes are copied, larger ones are answered by reference.

use kloop::error::Error;
use kloop::logging::Logger;
use kloop::net::pool::{Memory, PoolConfig, Term};
use kloop::net::selector::{Selector, SelectorConfig, Waker};
use kloop::net::{
    BufferPool, ChannelOptions, ConnId, Notice, Owner, Selectable, SendRefused, SharedLease,
    TurnBudget,
};
use kloop::time::{Clock, SystemClock};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Up to here a frame is cheaper copied behind its neighbours than sent as a piece of its own.
const COPY_MAX: usize = 1024;
const CHANNELS: usize = 2048;

fn main() -> Result<(), Error> {
    const USAGE: Error = Error::Invalid("usage: echo PORT [--stats] [--copy BYTES]");
    let (mut port, mut stats, mut copy_max) = (0, false, COPY_MAX);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--stats" => stats = true,
            "--copy" => {
                copy_max = arguments.next().and_then(|n| n.parse().ok()).ok_or(USAGE)?;
            }
            number => port = number.parse().map_err(|_| USAGE)?,
        }
    }
    let mut server = Server::new(port, copy_max)?;
    let stop = Arc::new(AtomicBool::new(false));
    if stats {
        watch_input(server.selector.waker(), Arc::clone(&stop));
    }
    server.run(&stop)?;
    println!("{:#?}", server.selector.counters());
    Ok(())
}

/// Stops the server when the standard input ends.
fn watch_input(waker: Waker, stop: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        stop.store(true, Ordering::Release);
        waker.wake();
    });
}

struct Server {
    selector: Selector,
    clock: SystemClock,
    copy_max: usize,
    /// Connections whose queue is full, each with the frame that did not fit: muted until drained.
    full: Vec<(ConnId, SharedLease)>,
    muted: HashSet<ConnId>,
}

impl Server {
    fn new(port: u16, copy_max: usize) -> Result<Server, Error> {
        let terms = [
            Term { why: "a first block for many connections", size: 16 << 10, blocks: 64 },
            Term { why: "frames of the largest size", size: 1 << 20, blocks: 32 },
        ];
        let pool = BufferPool::new(PoolConfig {
            guaranteed: &terms,
            shared: 64 << 20,
            control_blocks: 0,
            memory: Memory::Map { prefault: false },
        })?;
        let receive_max = pool.largest();
        let config = SelectorConfig {
            max_channels: CHANNELS,
            max_listeners: 1,
            max_exchanges: 0,
            max_pieces: 16 << 10,
            send_queue_max: 8 << 20,
            budget: TurnBudget::default(),
            logger: Logger::silent(),
        };
        let mut selector = Selector::new(config, pool)?;
        let options = ChannelOptions {
            owner: Owner(0),
            receive_max,
            receive_first: 16 << 10,
            max_idle: Duration::ZERO,
            send_buffer: None,
            receive_buffer: None,
        };
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let (_, bound) = selector.listen(at, 1024, &options)?;
        println!("listening on {bound}");
        let clock = SystemClock::new();
        Ok(Server { selector, clock, copy_max, full: Vec::new(), muted: HashSet::new() })
    }

    fn run(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        while !stop.load(Ordering::Acquire) {
            self.selector.wait(None, self.clock.now())?;
            self.selector.take_posted();
            let now = self.clock.now();
            while let Some((conn, _, notice)) = self.selector.next_notice(now) {
                match notice {
                    Notice::Frames => self.echo(conn),
                    Notice::Drained => self.resume(conn),
                    Notice::Closed(_) => self.forget(conn),
                    Notice::Accepted
                    | Notice::Connected
                    | Notice::Sent(_)
                    | Notice::Answered(_) => {}
                }
            }
            self.selector.flush();
            self.selector.settle(false, None, now);
        }
        Ok(())
    }

    fn echo(&mut self, conn: ConnId) {
        while let Some(frame) = self.selector.next_frame(conn) {
            if let Err(frame) = answer(&mut self.selector, conn, frame, self.copy_max) {
                self.selector.mute(conn);
                self.muted.insert(conn);
                self.full.push((conn, frame));
                return;
            }
        }
    }

    fn resume(&mut self, conn: ConnId) {
        if !self.muted.remove(&conn) {
            return;
        }
        if let Some(at) = self.full.iter().position(|(id, _)| *id == conn) {
            let (_, frame) = self.full.swap_remove(at);
            if let Err(frame) = answer(&mut self.selector, conn, frame, self.copy_max) {
                self.muted.insert(conn);
                self.full.push((conn, frame));
                return;
            }
        }
        self.selector.unmute(conn);
    }

    fn forget(&mut self, conn: ConnId) {
        if self.muted.remove(&conn) {
            self.full.retain(|(id, _)| *id != conn);
        }
    }
}

/// Queues `frame` as its own answer; gives it back if there is no room now.
fn answer(
    selector: &mut Selector,
    conn: ConnId,
    frame: SharedLease,
    copy_max: usize,
) -> Result<(), SharedLease> {
    let copy = if frame.len() <= copy_max { frame.len() } else { 0 };
    let mut send = match selector.begin_send(conn, copy) {
        Ok(send) => send,
        Err(SendRefused::Stale) => return Ok(()),
        Err(SendRefused::Full | SendRefused::NoMemory) => return Err(frame),
    };
    if copy > 0 {
        send.scratch()[..copy].copy_from_slice(&frame);
        send.advance(copy);
    } else {
        send.append(frame)?;
    }
    // A connection that ended in between takes its answer with it.
    let _ = selector.send(conn, send, None);
    Ok(())
}
