//! Answer: what a handler writes into. It begins a send when the handler knows how long the answer
//! is, and not before: a handler that is refused memory has changed nothing.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use crate::net::{ConnId, Selectable, SendBuilder, SendRefused, SharedLease};
use crate::protocol::writer::Cut;
use crate::protocol::{ApiKey, Message, ResponseHeader, Writer};
use std::net::SocketAddr;

/// Why an answer cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwritable {
    /// There is no memory for it now.
    NoMemory,
    /// Its connection is gone.
    Gone,
    /// It is larger than any block, or cannot be said in this version.
    Never(&'static str),
}

/// Where sends come from: a selector and a connection, or in reactor mode the processor's pool.
pub(crate) trait Begin {
    /// Begins a send with this much room.
    fn begin(&mut self, room: usize) -> Result<SendBuilder, SendRefused>;
    /// The most room there can be.
    fn largest(&self) -> usize;
    /// The address that the client connected to.
    fn local(&self) -> Option<SocketAddr>;
}

/// Sends to one connection of a selector.
#[derive(Debug)]
pub(crate) struct To<'a, N> {
    /// The network.
    pub net: &'a mut N,
    /// The connection.
    pub conn: ConnId,
}

impl<N: Selectable> Begin for To<'_, N> {
    fn begin(&mut self, room: usize) -> Result<SendBuilder, SendRefused> {
        self.net.begin_send(self.conn, room)
    }

    fn largest(&self) -> usize {
        // The four size bytes are the frame's own.
        self.net.pool().largest().saturating_sub(4)
    }

    fn local(&self) -> Option<SocketAddr> {
        self.net.local(self.conn)
    }
}

/// The answer to one request.
pub(crate) struct Answer<'a> {
    begin: &'a mut dyn Begin,
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    send: Option<SendBuilder>,
}

impl<'a> Answer<'a> {
    /// The answer to a request of `key` in `version`.
    pub(crate) fn new(
        begin: &'a mut dyn Begin,
        key: ApiKey,
        version: i16,
        correlation_id: i32,
    ) -> Self {
        Answer { begin, key, version, correlation_id, send: None }
    }

    /// Begins a send with room for a body of `body` bytes, for a handler that must not fail later.
    pub(crate) fn reserve(&mut self, body: usize) -> Result<(), Unwritable> {
        let room = body + self.header_len();
        if room > self.begin.largest() {
            return Err(Unwritable::Never("the answer is larger than any block"));
        }
        match self.begin.begin(room) {
            Ok(send) => self.send = Some(send),
            Err(SendRefused::Stale) => return Err(Unwritable::Gone),
            Err(SendRefused::Full | SendRefused::NoMemory) => return Err(Unwritable::NoMemory),
        }
        Ok(())
    }

    /// Writes the answer, in this version.
    pub(crate) fn message<'m, M: Message<'m>>(&mut self, message: &M) -> Result<(), Unwritable> {
        self.message_as(message, self.version)
    }

    /// Writes the answer in a version that is not the request's: only to an ApiVersions request
    /// that is not understood.
    pub(crate) fn message_as<'m, M: Message<'m>>(
        &mut self,
        message: &M,
        version: i16,
    ) -> Result<(), Unwritable> {
        if self.send.is_none() {
            self.reserve(message.encoded_len(version))?;
        }
        let header = ResponseHeader { correlation_id: self.correlation_id };
        let Some(send) = &mut self.send else { return Err(Unwritable::NoMemory) };
        let mut w = Writer::new(send.scratch());
        header.write(&mut w, self.key, self.version);
        message.encode(&mut w, version);
        let len = w.finish().map_err(Unwritable::Never)?;
        send.advance(len);
        Ok(())
    }

    /// Writes the answer with payloads that lie elsewhere. Of `pieces`, payload `i` has the next
    /// `runs[i]`; there is one run for each payload that is not empty.
    pub(crate) fn gathered<'m, M: Message<'m>>(
        &mut self,
        message: &M,
        cuts: &mut [Cut],
        runs: impl Iterator<Item = usize>,
        pieces: &mut [Option<SharedLease>],
    ) -> Result<(), Unwritable> {
        let payloads: usize = pieces.iter().flatten().map(|piece| piece.len()).sum();
        self.reserve(message.encoded_len(self.version).saturating_sub(payloads))?;
        let header = ResponseHeader { correlation_id: self.correlation_id };
        let Some(send) = &mut self.send else { return Err(Unwritable::NoMemory) };
        let mut w = Writer::gathering(send.scratch(), cuts);
        header.write(&mut w, self.key, self.version);
        message.encode(&mut w, self.version);
        let left_out = w.left_out();
        let len = w.finish().map_err(Unwritable::Never)?;
        if left_out.1 != payloads {
            return Err(Unwritable::Never("the payloads are not what the answer announces"));
        }
        let (mut at, mut pieces) = (0, pieces.iter_mut());
        for (cut, run) in cuts.iter().take(left_out.0).zip(runs) {
            send.advance(cut.at - at);
            at = cut.at;
            for piece in pieces.by_ref().take(run).filter_map(Option::take) {
                if send.append(piece).is_err() {
                    return Err(Unwritable::Never("more pieces than a frame can hold"));
                }
            }
        }
        send.advance(len - at);
        Ok(())
    }

    /// The address that the client connected to.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.begin.local()
    }

    /// The frame, if one was written.
    pub(crate) fn into_send(self) -> Option<SendBuilder> {
        self.send.filter(|send| !send.is_empty())
    }

    fn header_len(&self) -> usize {
        // The correlation id, and in the form with tagged fields their number, which is 0.
        match self.key.response_header_version(self.version) {
            Some(1) => 5,
            _ => 4,
        }
    }
}
