//! Resolver: names to addresses by asking name servers, as a stub does: it asks servers that do the
//! work, and believes those that it was told of.
//!
//! **A state machine.** It takes names, bytes and the time, and yields questions, outcomes and a next
//! deadline; it reads no clock and owns no socket. `Resolver::next_step` says what is to be done to
//! the network, `Resolver::answered` takes what came, `Resolver::take_outcome` gives results.
//!
//! **A lookup** asks for IPv6 and IPv4 addresses at once. Each question goes over UDP, from a socket
//! of its own for each try, with a random id; over TCP if the answer did not fit. A server that is
//! silent, refuses, fails, is lame or talks nonsense makes the next one's turn. An answer with another
//! id, question, source or opcode is not looked at. The server that answered last is asked first the
//! next time. A name with few dots is tried with the suffixes of the search list. When one family has
//! addresses, the other gets [`ANSWER_GRACE`] more, or [`PATIENT_GRACE`] if all addresses that the user
//! had before were of no use; a lookup ends after [`LOOKUP_MAX`] at the latest.
//!
//! **Bounds.** [`LOOKUPS`] names at once, [`MAX_ADDRESSES`](super::MAX_ADDRESSES) addresses a family,
//! eight aliases, answers of 16 KiB; all tables are taken at creation. Addresses hold for as long as
//! the answer says, within [`TTL_RANGE`].
//!
//! Deliberately absent: a cache (each node keeps its own addresses), EDNS, DNSSEC, reading
//! `/etc/resolv.conf` again while running, NSS.
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]

mod answer;
mod config;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod lookup;
mod question;
#[cfg(test)]
mod tests;

pub use config::ResolverConfig;

use super::host::HostName;
use super::random::Random;
use crate::net::{ExchangeId, Transport};
use crate::time::Instant;
use answer::{Found, Verdict, read_answer};
use core::ops::RangeInclusive;
use core::time::Duration;
use lookup::{Asking, Lookup};
use question::{QueryName, QuestionBytes, write_question};
use std::net::{IpAddr, SocketAddr};

/// Names looked up at once; more wait.
pub const LOOKUPS: usize = 4;
/// How long the addresses of the second family are waited for once the first family's are here
/// (RFC 8305 calls it the resolution delay).
pub const ANSWER_GRACE: Duration = Duration::from_millis(50);
/// The same when all addresses known before failed: perhaps only the other family works.
pub const PATIENT_GRACE: Duration = Duration::from_secs(1);
/// How long a lookup may take, over all servers and suffixes.
pub const LOOKUP_MAX: Duration = Duration::from_secs(30);
/// For how many seconds addresses are used, whatever the answer says.
pub const TTL_RANGE: RangeInclusive<u32> = 1..=300;

/// Why a name has no address. Later ones outweigh earlier ones when several were met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unresolved {
    /// The name servers know no such name.
    NoSuchName,
    /// The name is there, but has no address.
    NoAddress,
    /// It is neither an address nor a name that can be asked for.
    NotAName,
    /// No name server is known.
    NoServer,
    /// Every name server refused, failed or sent nonsense.
    Rejected,
    /// No name server answered in time.
    TimedOut,
}

impl Unresolved {
    /// A clear text for the log.
    pub fn text(self) -> &'static str {
        match self {
            Unresolved::NoSuchName => "there is no such name",
            Unresolved::NoAddress => "the name has no address",
            Unresolved::NotAName => "it is neither an address nor a name",
            Unresolved::NoServer => "no name server is known",
            Unresolved::Rejected => "every name server refused or failed",
            Unresolved::TimedOut => "no name server answered in time",
        }
    }
}

/// Whether name servers can be asked for this.
pub(super) fn is_name(host: &str) -> bool {
    // An address with a digit too few or too many is a slip, not a name: no top-level domain is
    // a number.
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or("");
    let number = last.bytes().all(|byte| byte.is_ascii_digit());
    !number && QueryName::new(host, None).is_some()
}

/// What is to be done to the network.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time; a box would allocate")]
pub(super) enum Step {
    /// Send this question; tell how it went with [`Resolver::sent`].
    Ask { asked: Asked, server: SocketAddr, over: Transport, question: QuestionBytes },
    /// End this exchange.
    End(ExchangeId),
}

/// Names a question of a lookup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    lookup: usize,
    question: usize,
}

/// What came of a lookup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Whose it was.
    pub(super) user: u32,
    pub(super) result: Result<Answers, Unresolved>,
}

/// The addresses of a name, IPv6 first, and for how long they hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answers {
    found: [Found; 2],
    pub(super) ttl: Duration,
}

impl Answers {
    pub(super) fn all(&self) -> impl Iterator<Item = IpAddr> + Clone {
        self.found.iter().flat_map(|found| found.all().iter().copied())
    }
}

#[derive(Debug)]
pub(super) struct Resolver {
    lookups: [Lookup; LOOKUPS],
    /// The server that is asked first.
    first: u8,
    /// A lookup is under way, or something of one is left to do; almost always not.
    busy: bool,
    random: Random,
}

impl Resolver {
    pub(super) fn new(seed: u64) -> Self {
        Resolver {
            lookups: core::array::from_fn(|_| Lookup::free()),
            first: 0,
            busy: false,
            random: Random::new(seed),
        }
    }

    /// Begins to look up a name for `user`, who has no other lookup; once one family has addresses,
    /// the other gets `grace` more. `false`: no room now, try again
    /// after an outcome.
    pub(super) fn begin(
        &mut self,
        user: u32,
        name: HostName,
        grace: Duration,
        config: &ResolverConfig,
        now: Instant,
    ) -> bool {
        let Some(lookup) = self.lookups.iter_mut().find(|lookup| lookup.user.is_none()) else {
            return false;
        };
        if config.rotate && !config.servers.is_empty() {
            self.first = (self.first + 1) % config.servers.len() as u8;
        }
        lookup.begin(user, name, self.first, config, now);
        lookup.grace = grace;
        self.busy = true;
        true
    }

    /// Gives up a user's lookup: it has no outcome.
    pub(super) fn cancel(&mut self, user: u32) {
        for lookup in self.lookups.iter_mut().filter(|lookup| lookup.user == Some(user)) {
            lookup.free_place();
        }
    }

    /// What is to be done to the network next.
    pub(super) fn next_step(&mut self, config: &ResolverConfig) -> Option<Step> {
        if !self.busy {
            return None;
        }
        for (place, lookup) in self.lookups.iter_mut().enumerate() {
            if let Some(exchange) = lookup.take_idle_exchange() {
                return Some(Step::End(exchange));
            }
            if let Some(question) = lookup.take_wanted(&mut self.random) {
                let asked = Asked { lookup: place, question };
                let name = lookup.asked_name(config)?;
                let what = &lookup.questions[question];
                let bytes = write_question(&name, what.family, what.id)?;
                let server = *config.servers.get(usize::from(what.server))?;
                return Some(Step::Ask { asked, server, over: what.over, question: bytes });
            }
        }
        self.busy = self.lookups.iter().any(|lookup| lookup.user.is_some());
        None
    }

    /// How the sending of a question went; `None` if it did not leave.
    pub(super) fn sent(
        &mut self,
        asked: Asked,
        exchange: Option<ExchangeId>,
        config: &ResolverConfig,
        now: Instant,
    ) {
        let Some(lookup) = self.lookups.get_mut(asked.lookup) else { return };
        match exchange {
            Some(exchange) => lookup.sent(asked.question, exchange, config, now),
            None => {
                lookup.questions[asked.question].next_try(Unresolved::Rejected, config);
                lookup.advance(self.first, config, now);
            }
        }
    }

    fn asked(&self, exchange: ExchangeId) -> Option<Asked> {
        self.lookups.iter().enumerate().find_map(|(lookup, what)| {
            let question = what.questions.iter().position(|q| q.exchange == Some(exchange))?;
            Some(Asked { lookup, question })
        })
    }

    /// Takes what came on an exchange.
    pub(super) fn answered(
        &mut self,
        exchange: ExchangeId,
        bytes: &[u8],
        config: &ResolverConfig,
        now: Instant,
    ) {
        let Some(asked) = self.asked(exchange) else { return };
        let Some(lookup) = self.lookups.get_mut(asked.lookup) else { return };
        let Some(name) = lookup.asked_name(config) else { return };
        let question = &mut lookup.questions[asked.question];
        if !matches!(question.state, Asking::Sent) {
            return;
        }
        let over_udp = question.over == Transport::Udp;
        let verdict = read_answer(bytes, &name, question.family, question.id, over_udp);
        let server = question.server;
        if matches!(verdict, Verdict::NotOurs) && !over_udp {
            // Whoever answers a connection's only question with something else has nothing better.
            question.next_try(Unresolved::Rejected, config);
        } else if !question.answered(verdict, config) {
            return;
        } else if question.is_over() && !matches!(verdict, Verdict::Rejected) && !config.rotate {
            self.first = server;
        }
        lookup.advance(self.first, config, now);
    }

    /// An exchange failed: nobody listens there, or the connection broke.
    pub(super) fn exchange_failed(
        &mut self,
        exchange: ExchangeId,
        config: &ResolverConfig,
        now: Instant,
    ) {
        let Some(asked) = self.asked(exchange) else { return };
        let Some(lookup) = self.lookups.get_mut(asked.lookup) else { return };
        let question = &mut lookup.questions[asked.question];
        question.exchange = None;
        if matches!(question.state, Asking::Sent) {
            question.next_try(Unresolved::Rejected, config);
            lookup.advance(self.first, config, now);
        }
    }

    /// Gives up what is out of time.
    pub(super) fn run_timers(&mut self, config: &ResolverConfig, now: Instant) {
        for lookup in self.lookups.iter_mut().filter(|lookup| lookup.next_deadline() <= now) {
            lookup.due(config, now);
            lookup.advance(self.first, config, now);
        }
    }

    /// When [`Resolver::run_timers`] has something to do.
    pub(super) fn next_deadline(&self) -> Instant {
        let busy = self.lookups.iter().filter(|_| self.busy);
        busy.map(Lookup::next_deadline).min().unwrap_or(Instant::FAR)
    }

    /// Takes what came of a lookup.
    pub(super) fn take_outcome(&mut self) -> Option<Outcome> {
        let busy = self.busy;
        let lookup = self.lookups.iter_mut().find(|lookup| busy && lookup.over)?;
        let user = lookup.user?;
        let result = lookup.outcome().map(|found| {
            let ttl = found.iter().map(|found| found.ttl).min().unwrap_or(0);
            let ttl = ttl.clamp(*TTL_RANGE.start(), *TTL_RANGE.end());
            Answers { found, ttl: Duration::from_secs(u64::from(ttl)) }
        });
        lookup.free_place();
        Some(Outcome { user, result })
    }
}
