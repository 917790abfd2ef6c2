//! The network engine: sockets, frames, buffers, timers. A frame has a size here and no meaning:
//! this layer names no Kafka message, no client and no broker.
//!
//! **Words.** A *channel* is one socket with its receive and its queue of sends. A *connection id*
//! ([`ConnId`]) names a channel from outside and carries a generation, so that a stale one is
//! refused. An *owner* ([`Owner`]) is whom the channel's news is for: a client or a broker. An
//! *exchange* ([`ExchangeId`]) is one question to a server and its answer, as name servers speak.
//!
//! **One turn**: [`selector::Selector::wait`] sleeps and collects readiness → the driver takes one
//! [`Notice`] after the other with [`selector::Selector::next_notice`] and hands it to its owner,
//! which takes frames and queues sends → [`selector::Selector::flush`] writes, once per channel →
//! [`selector::Selector::settle`] leaves the descriptor readable if anything is left to do.
//!
//! **Who owns a buffer when.** Bytes are received in bulk into a block; frames are cut out of it in
//! place as [`SharedLease`]s and keep the block alive. A send is a scratch block of encoded headers
//! with shared pieces between; each piece is dropped when the kernel has its last byte.

pub mod acceptor;
mod channel;
mod channel_state;
pub mod exchange;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod list;
mod listener;
pub mod pool;
mod receive;
pub mod ring;
pub mod selector;
pub mod send;
mod send_queue;
pub mod slots;
pub mod sys;
pub mod timers;
pub mod waker;

use crate::error::Error;
use crate::net::sys::errno::ErrnoText;
use crate::time::Instant;
use core::time::Duration;
pub use pool::{AppendBlock, BufferPool, Lease, SharedLease};
use std::net::SocketAddr;
pub use sys::interface::interface_index;

/// Names a channel; the generation makes a stale id an error, never another channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId(u64);

impl ConnId {
    /// Names no channel: stands where a piece of news is about something else.
    pub const NONE: ConnId = ConnId(0);

    /// An id from a table index and a generation. The generation is never 0.
    pub const fn new(index: u32, generation: u32) -> Self {
        ConnId((generation as u64) << 32 | index as u64)
    }

    /// The id as one number, for hosts and log lines. Never 0 for a channel.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The id with this number; whether it names a live channel shows when it is used.
    pub const fn from_raw(raw: u64) -> Self {
        ConnId(raw)
    }

    /// The index in the channel table, below the configured number of channels: a place for the
    /// owner's own per-connection state.
    pub const fn index(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }

    /// The generation.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Names an exchange: a question to a server, until it is answered, failed or given up. The
/// generation in it makes a stale one an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExchangeId(pub u64);

/// What an exchange goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One datagram there, and those that come back.
    Udp,
    /// A connection for one question and its answer, each behind two bytes of length.
    Tcp,
}

/// Whom a channel's news is for. The network layer carries it and never looks into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub u32);

/// What happened on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A listener took a connection. The channel is ready; frames may follow.
    Accepted,
    /// A connect that was asked for is established.
    Connected,
    /// There are bytes: take frames with [`Selectable::next_frame`] until it gives none.
    Frames,
    /// A send was refused ([`SendRefused::Full`], [`SendRefused::NoMemory`]), and trying again
    /// makes sense now.
    Drained,
    /// A send that asked for it is wholly written; the number is its token.
    Sent(u64),
    /// The channel is gone, and its id with it. Always the last notice of a channel; the owner's
    /// own [`Selectable::close`] gives none.
    Closed(CloseReason),
    /// An exchange has an answer, has failed, or neither: take it with
    /// [`Selectable::next_answer`]. Comes with [`ConnId::NONE`].
    Answered(ExchangeId),
}

/// Why a channel ended, when its owner did not end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed in order.
    PeerClosed,
    /// The operating system reported an error on the socket; `errno`.
    Io(i32),
    /// The connect failed; `errno`.
    ConnectFailed(i32),
    /// The peer announced a frame of negative size.
    NegativeSize,
    /// The peer announced a frame over the limit; the first four bytes.
    TooLarge(u32),
    /// The first bytes are HTTP, not Kafka.
    Http,
    /// The first bytes are a TLS handshake on a plaintext port.
    Tls,
    /// Nothing happened for the channel's idle time.
    Idle,
    /// The peer stopped in the middle of a frame while others waited for the memory that this holds.
    Stalled,
}

impl CloseReason {
    /// A clear text for the log; displayed, the reason has the system's word as well.
    pub fn text(self) -> &'static str {
        match self {
            CloseReason::PeerClosed => "the peer closed the connection",
            CloseReason::Io(_) => "the socket failed",
            CloseReason::ConnectFailed(_) => "the connect failed",
            CloseReason::NegativeSize => "the peer announced a frame of negative size",
            CloseReason::TooLarge(_) => "the peer announced a frame over the size limit",
            CloseReason::Http => "the peer speaks HTTP to a Kafka port",
            CloseReason::Tls => "the peer speaks TLS to a plaintext port",
            CloseReason::Idle => "idle for too long",
            CloseReason::Stalled => "it stopped within a frame while memory was short",
        }
    }
}

impl core::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            CloseReason::Io(errno) | CloseReason::ConnectFailed(errno) => {
                write!(f, "{}: {}", self.text(), ErrnoText(errno))
            }
            _ => f.write_str(self.text()),
        }
    }
}

/// What a new channel is given.
#[derive(Clone, Copy, Debug)]
pub struct ChannelOptions {
    /// Whom its news is for.
    pub owner: Owner,
    /// Frames larger than this end the channel. At most the pool's largest block.
    pub receive_max: usize,
    /// The first receive block, at most 16 KiB.
    pub receive_first: usize,
    /// The channel ends when nothing happened for so long; zero for never.
    pub max_idle: Duration,
    /// `SO_SNDBUF`; `None` keeps the system's default.
    pub send_buffer: Option<usize>,
    /// `SO_RCVBUF`; `None` keeps the system's default.
    pub receive_buffer: Option<usize>,
}

/// Why a send cannot be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRefused {
    /// The channel has ended.
    Stale,
    /// The channel's queue is full: wait for [`Notice::Drained`].
    Full,
    /// The pool has no block now: [`Notice::Drained`] follows when one came home. A scratch over
    /// the pool's largest block is never had.
    NoMemory,
}

impl From<SendRefused> for Error {
    fn from(refused: SendRefused) -> Self {
        match refused {
            SendRefused::Stale => Error::Stale,
            SendRefused::Full => Error::Exhausted("the connection's send queue"),
            SendRefused::NoMemory => Error::Exhausted("the buffer pool"),
        }
    }
}

/// The network as clients and brokers see it: the real [`selector::Selector`], or a simulated one.
/// One thread at a time.
pub trait Selectable {
    /// Starts a connect; [`Notice::Connected`] or [`Notice::Closed`] follows.
    ///
    /// # Errors
    /// No room for another channel, or the system refuses a socket.
    fn connect(&mut self, to: SocketAddr, options: &ChannelOptions) -> Result<ConnId, Error>;

    /// Ends a channel now: queued sends and unread bytes are dropped, no notice follows. A stale id
    /// is ignored.
    fn close(&mut self, conn: ConnId);

    /// Ends a channel once its queued sends are written, or at its peer's close; nothing more is
    /// read from it. No notice follows.
    fn close_after_flush(&mut self, conn: ConnId);

    /// Takes the next complete frame, without its four size bytes; reads from the socket when the
    /// bytes at hand hold none. `None` when there is none now, the channel is muted, the turn's
    /// budget is used up or memory is out: a [`Notice::Frames`] will follow when that changes.
    fn next_frame(&mut self, conn: ConnId) -> Option<SharedLease>;

    /// Counts work that was not reading against the bytes of this turn, such as inflating what a
    /// small frame brought. Once the bytes are gone by that, [`Selectable::next_frame`] gives nothing
    /// more in this turn, not even what is at hand.
    fn charge(&mut self, bytes: usize);

    /// Stops reading from a channel; its sends go on.
    fn mute(&mut self, conn: ConnId);

    /// Reads again. What is already at hand is announced with [`Notice::Frames`].
    fn unmute(&mut self, conn: ConnId);

    /// Begins a frame to `conn` with `scratch` bytes of room for what the caller encodes, besides
    /// the four size bytes, which are kept free in front. A send that is not given to
    /// [`Selectable::send`] must be dropped or given to it never; dropping it is a cancel.
    ///
    /// # Errors
    /// [`SendRefused`]: nothing was begun.
    fn begin_send(&mut self, conn: ConnId, scratch: usize) -> Result<SendBuilder, SendRefused>;

    /// Queues a finished frame; it leaves at the latest with the driver's next flush. With a
    /// `token`, [`Notice::Sent`] follows when its last byte is written.
    ///
    /// # Errors
    /// [`Error::Stale`] if the channel ended since the send was begun; the send is dropped.
    fn send(&mut self, conn: ConnId, send: SendBuilder, token: Option<u64>) -> Result<(), Error>;

    /// Whether the channel takes another send now.
    fn can_send(&self, conn: ConnId) -> bool;

    /// Bytes queued and not yet written; 0 for a stale id.
    fn queued(&self, conn: ConnId) -> usize;

    /// The peer's address, while the channel lives.
    fn peer(&self, conn: ConnId) -> Option<SocketAddr>;

    /// The local address, while the channel lives.
    fn local(&self, conn: ConnId) -> Option<SocketAddr>;

    /// Asks a server a question of at most 64 KiB. Over UDP the socket is a new one with a port of
    /// the system's choice, which only `server` can send to; it is not closed by an answer.
    /// [`Notice::Answered`] follows when something happened; the exchange lasts until
    /// [`Selectable::end_exchange`] or until [`Selectable::next_answer`] gives an error, and has no
    /// deadline of its own.
    ///
    /// # Errors
    /// No room for another exchange, no memory, or the system refuses the socket or the way there.
    fn ask(
        &mut self,
        server: SocketAddr,
        over: Transport,
        question: &[u8],
        owner: Owner,
    ) -> Result<ExchangeId, Error>;

    /// Takes the next answer of an exchange, without the length that TCP has in front. At most 4 KiB
    /// over UDP, where a longer one is cut, and [`exchange::ANSWER_MAX`] over TCP. `None` when there
    /// is none now. To be called once for each [`Notice::Answered`].
    ///
    /// # Errors
    /// The exchange failed and is over: [`Error::Io`] (nobody listens there), [`Error::Closed`] by
    /// the server, [`Error::TooLarge`], [`Error::Exhausted`] memory, or [`Error::Stale`] if it was
    /// over before.
    fn next_answer(&mut self, exchange: ExchangeId) -> Result<Option<SharedLease>, Error>;

    /// Ends an exchange; no notice of it follows. A stale id is ignored.
    fn end_exchange(&mut self, exchange: ExchangeId);

    /// The pool that receives and sends lease from.
    fn pool(&self) -> &BufferPool;
}

pub use send::SendBuilder;

/// What one turn may do before it lets the host have its loop back.
#[derive(Clone, Copy, Debug)]
pub struct TurnBudget {
    /// Bytes read per turn; what is charged counts too ([`Selectable::charge`]).
    pub bytes: usize,
    /// Notices handed out per turn.
    pub notices: u32,
}

impl Default for TurnBudget {
    fn default() -> Self {
        TurnBudget { bytes: 256 * 1024, notices: 256 }
    }
}

/// Sleep no longer than this; `None` is until something happens.
pub type Timeout = Option<Instant>;
