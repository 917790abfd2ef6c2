//! Request: one request as handlers see it, and what they say when they are done with it.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

use super::answer::Unwritable;
use crate::protocol::reader::Malformed;
use crate::protocol::{Message, RequestHeader};
use crate::time::{Instant, Moment};

/// One request. It may be handled more than once: a request that parked is handled anew when what
/// it waits for may have come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Its header.
    pub header: RequestHeader<'a>,
    /// What follows the header.
    pub body: &'a [u8],
    /// When it was first handled.
    pub arrived: Instant,
    /// Now.
    pub now: Moment,
    /// It must be answered now: the broker closes.
    pub hurry: bool,
}

impl<'a> Request<'a> {
    /// The version.
    pub(crate) fn version(&self) -> i16 {
        self.header.api_version
    }

    /// The body as a message of the header's version.
    pub(crate) fn decode<M: Message<'a>>(&self) -> Result<M, Stop> {
        M::decode(self.body, self.version()).map_err(|Malformed(why)| Stop::Close(why))
    }

    /// Whether it may still wait for something until `until`.
    pub(crate) fn may_wait(&self, until: Instant) -> bool {
        !self.hurry && self.now.at < until
    }
}

/// What a handler did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The answer is written.
    Answered,
    /// There is no answer, as acks=0 asks for.
    Silent,
}

/// Why a handler has no answer now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The connection must end; the text says why.
    Close(&'static str),
    /// The request is to be handled anew: when what it waits for may have come, and at `until` at
    /// the latest. Nothing was changed.
    Park {
        /// When the handler will not wait any longer.
        until: Instant,
        /// What it waits for.
        on: WaitFor,
    },
}

/// What a parked request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// An append to one of the partitions that the handler listed in `Scratch::watch`.
    Appends,
    /// A block of the log's memory that comes home.
    LogMemory,
    /// Memory for the answer, which the network announces, or a place among the host's requests.
    Room,
}

/// What a handler gives back.
pub(crate) type Outcome = Result<Done, Stop>;

impl From<Unwritable> for Stop {
    fn from(why: Unwritable) -> Stop {
        match why {
            Unwritable::NoMemory => Stop::Park { until: Instant::FAR, on: WaitFor::Room },
            Unwritable::Gone => Stop::Close("the connection is gone"),
            Unwritable::Never(why) => Stop::Close(why),
        }
    }
}
