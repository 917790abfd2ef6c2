//! Error: every way a call can fail, one small `Copy` enum with static context.
//!
//! Three kinds are told apart, because they ask for three reactions: the caller's fault (fix the
//! program), the peer's or the world's (retry, back off, give up), and ours (report a bug).

/// Whose fault an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The program that calls kloop passed something it must not pass.
    Caller,
    /// The other end of a connection sent what it must not send, or refused what was asked.
    Peer,
    /// The machine or the network: memory is out, a socket failed, time ran out.
    Environment,
    /// A bug in kloop.
    Ours,
}

/// Every way a call can fail. The text is static and names the thing that was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// An argument is out of its documented range, or a call came in the wrong state.
    Invalid(&'static str),
    /// A config struct that was not prepared for this library, or a reserved field in use.
    Abi,
    /// The id names something that has ended.
    Stale,
    /// The handle, engine or connection is closed.
    Closed,
    /// The peer, platform or build cannot do this.
    Unsupported(&'static str),
    /// A table or the pool has no room now; the text names it. Try again after the next event.
    Exhausted(&'static str),
    /// Creation could not get the memory that it needs.
    NoMemory,
    /// An operation's deadline passed.
    Timeout,
    /// The operation was cancelled by its owner.
    Canceled,
    /// The operating system refused; the number is `errno`.
    Io(i32),
    /// The peer's bytes are not what the protocol allows.
    Protocol(&'static str),
    /// A batch is larger than the memory its reader was given.
    TooLarge,
    /// A Kafka error code as it stood on the wire: -1, or above 0.
    Kafka(i16),
    /// A host's name cannot be turned into an address; the text says why.
    Resolve(&'static str),
    /// A state that must not exist.
    Bug(&'static str),
}

impl Error {
    /// Whose fault this is.
    pub fn fault(self) -> Fault {
        match self {
            Error::Invalid(_)
            | Error::Abi
            | Error::Stale
            | Error::Closed
            | Error::Canceled
            | Error::TooLarge => Fault::Caller,
            Error::Protocol(_) | Error::Kafka(_) | Error::Unsupported(_) => Fault::Peer,
            Error::Exhausted(_)
            | Error::NoMemory
            | Error::Timeout
            | Error::Io(_)
            | Error::Resolve(_) => Fault::Environment,
            Error::Bug(_) => Fault::Ours,
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Io(error.raw_os_error().unwrap_or(0))
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Error::Invalid(what) => write!(f, "invalid: {what}"),
            Error::Abi => write!(f, "a config struct was not prepared for this library"),
            Error::TooLarge => write!(f, "a batch is larger than the memory given to its reader"),
            Error::Stale => write!(f, "the id names something that has ended"),
            Error::Closed => write!(f, "closed"),
            Error::Unsupported(what) => write!(f, "not supported: {what}"),
            Error::Exhausted(what) => write!(f, "no room now: {what}"),
            Error::NoMemory => write!(f, "not enough memory"),
            Error::Timeout => write!(f, "timed out"),
            Error::Canceled => write!(f, "cancelled"),
            Error::Io(errno) => write!(f, "{}", std::io::Error::from_raw_os_error(errno)),
            Error::Protocol(what) => write!(f, "protocol violation: {what}"),
            Error::Kafka(code) => write!(f, "Kafka error {code}"),
            Error::Resolve(why) => write!(f, "a host cannot be resolved: {why}"),
            Error::Bug(what) => write!(f, "bug in kloop: {what}"),
        }
    }
}

impl std::error::Error for Error {}
