//! Selector: one poll turn over all channels.

use super::{
    BufferPool, ChannelOptions, ConnId, Notice, Owner, Selectable, SendRefused, SharedLease,
    Timeout, TurnBudget,
};
use crate::error::Error;
use crate::logging::Logger;
use crate::time::Instant;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};

pub use super::waker::Waker;

/// The shape of a selector.
#[derive(Debug)]
pub struct SelectorConfig {
    /// Channels at most, listeners not counted.
    pub max_channels: usize,
    /// Listeners at most.
    pub max_listeners: usize,
    /// Pieces queued for sending at most, over all channels.
    pub max_pieces: usize,
    /// Bytes one channel may have queued before [`SendRefused::Full`].
    pub send_queue_max: usize,
    /// What one turn may do.
    pub budget: TurnBudget,
    /// Where lines go.
    pub logger: Logger,
}

/// All channels of one loop, behind one descriptor.
#[derive(Debug)]
pub struct Selector {}

/// Names a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(pub u32);

impl Selector {
    /// Makes the poller and takes the tables.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn new(_config: SelectorConfig, _pool: BufferPool) -> Result<Selector, Error> {
        todo!()
    }

    /// The descriptor that is readable while there is work. Watch it for reading only.
    pub fn fd(&self) -> RawFd {
        todo!()
    }

    /// Sleeps until readiness, a wake or `until`, whichever is first, and collects what is ready;
    /// does not sleep if work is left from the last turn. Starts a new budget.
    ///
    /// # Errors
    /// The poller failed.
    pub fn wait(&mut self, _until: Timeout, _now: Instant) -> Result<(), Error> {
        todo!()
    }

    /// Takes the next piece of news within the turn's budget.
    pub fn next_notice(&mut self, _now: Instant) -> Option<(ConnId, Owner, Notice)> {
        todo!()
    }

    /// Writes what is queued, one call per channel.
    pub fn flush(&mut self) {
        todo!()
    }

    /// Ends a turn: arms the timer for `deadline` if that is earlier than before, and leaves the
    /// descriptor readable if the selector or its caller (`work`) has something left to do.
    pub fn settle(&mut self, _work: bool, _deadline: Option<Instant>, _now: Instant) {
        todo!()
    }

    /// Makes the descriptor readable: work came up outside of a turn. Cheap when it already is.
    pub fn signal(&mut self) {
        todo!()
    }

    /// The earliest deadline of the selector itself (idle channels).
    pub fn next_deadline(&self) -> Option<Instant> {
        todo!()
    }

    /// A way to make the descriptor readable from any thread.
    pub fn waker(&self) -> Waker {
        todo!()
    }

    /// Listens; port 0 picks one. Channels taken there get `options`.
    ///
    /// # Errors
    /// The address cannot be had, or there is no room for another listener.
    pub fn listen(
        &mut self,
        _at: SocketAddr,
        _backlog: i32,
        _options: &ChannelOptions,
    ) -> Result<(ListenerId, SocketAddr), Error> {
        todo!()
    }

    /// Stops listening. Channels taken there live on.
    pub fn unlisten(&mut self, _listener: ListenerId) {
        todo!()
    }

    /// Takes a connected stream socket as a channel; [`Notice::Accepted`] follows.
    ///
    /// # Errors
    /// No room for another channel (the socket is closed), or the system refuses it.
    pub fn adopt(&mut self, _socket: OwnedFd, _options: &ChannelOptions) -> Result<ConnId, Error> {
        todo!()
    }
}

/// A frame in the making: bytes that the caller encodes, with shared pieces between them.
/// Owned: it can be filled on another thread than the selector's.
#[derive(Debug)]
pub struct SendBuilder {}

impl SendBuilder {
    /// The room that is left for encoding.
    pub fn scratch(&mut self) -> &mut [u8] {
        todo!()
    }

    /// The next `n` bytes of the room belong to the frame.
    pub fn advance(&mut self, _n: usize) {
        todo!()
    }

    /// Puts a shared piece behind what is there, without a copy. Gives it back if the frame holds
    /// as many pieces as it can ([`SendBuilder::MAX_PIECES`]).
    pub fn append(&mut self, _piece: SharedLease) -> Result<(), SharedLease> {
        todo!()
    }

    /// Shared pieces one frame can hold.
    pub const MAX_PIECES: usize = 32;

    /// Bytes of the frame so far, without its four size bytes.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// True if the frame is empty so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Selectable for Selector {
    fn connect(&mut self, _to: SocketAddr, _options: &ChannelOptions) -> Result<ConnId, Error> {
        todo!()
    }
    fn close(&mut self, _conn: ConnId) {
        todo!()
    }
    fn close_after_flush(&mut self, _conn: ConnId) {
        todo!()
    }
    fn next_frame(&mut self, _conn: ConnId) -> Option<SharedLease> {
        todo!()
    }
    fn mute(&mut self, _conn: ConnId) {
        todo!()
    }
    fn unmute(&mut self, _conn: ConnId) {
        todo!()
    }
    fn begin_send(&mut self, _conn: ConnId, _scratch: usize) -> Result<SendBuilder, SendRefused> {
        todo!()
    }
    fn send(
        &mut self,
        _conn: ConnId,
        _send: SendBuilder,
        _token: Option<u64>,
    ) -> Result<(), Error> {
        todo!()
    }
    fn can_send(&self, _conn: ConnId) -> bool {
        todo!()
    }
    fn queued(&self, _conn: ConnId) -> usize {
        todo!()
    }
    fn peer(&self, _conn: ConnId) -> Option<SocketAddr> {
        todo!()
    }
    fn local(&self, _conn: ConnId) -> Option<SocketAddr> {
        todo!()
    }
    fn pool(&self) -> &BufferPool {
        todo!()
    }
}
