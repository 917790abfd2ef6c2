//! Lookup: one name on its way to addresses: which names to try, which server to ask next, when to
//! stop. A [`super::Resolver`] holds a fixed number of them.

use super::answer::{Found, Verdict};
use super::config::{MAX_SERVERS, ResolverConfig};
use super::question::{Family, QueryName};
use super::{ANSWER_GRACE, LOOKUP_MAX, Unresolved};
use crate::client::host::HostName;
use crate::client::random::Random;
use crate::net::{ExchangeId, Transport};
use crate::time::Instant;
use core::time::Duration;

/// One of a lookup's two questions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) family: Family,
    pub(super) state: Asking,
    pub(super) id: u16,
    pub(super) server: u8,
    pub(super) over: Transport,
    /// How often it was asked; once more over TCP does not count.
    tries: u8,
    /// Servers that said they will not answer, by place.
    gave_up: u8,
    /// Until when the try may take.
    pub(super) until: Instant,
    /// The try's socket.
    pub(super) exchange: Option<ExchangeId>,
}

/// Where a question stands.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time; a box would allocate")]
pub(super) enum Asking {
    /// To be sent.
    Wanted,
    /// Sent; the answer is waited for.
    Sent,
    /// There are addresses.
    Found(Found),
    /// There are none, for this reason.
    Failed(Unresolved),
}

impl Question {
    fn new(family: Family) -> Self {
        Question {
            family,
            state: Asking::Failed(Unresolved::NoAddress),
            id: 0,
            server: 0,
            over: Transport::Udp,
            tries: 0,
            gave_up: 0,
            until: Instant::FAR,
            exchange: None,
        }
    }

    fn begin(&mut self, server: u8) {
        *self = Question {
            state: Asking::Wanted,
            server,
            exchange: self.exchange,
            ..Question::new(self.family)
        };
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, Asking::Found(_) | Asking::Failed(_))
    }

    /// The try failed: the next server's turn, as long as there are tries and servers left.
    pub(super) fn next_try(&mut self, why: Unresolved, config: &ResolverConfig) {
        let servers = config.servers.len().min(MAX_SERVERS) as u8;
        self.tries += 1;
        self.over = Transport::Udp;
        if why != Unresolved::TimedOut {
            self.gave_up |= 1 << self.server;
        }
        let turns = (1..=servers).map(|turn| (self.server + turn) % servers);
        let next = { turns }.find(|server| self.gave_up & (1 << server) == 0);
        self.state = match next {
            Some(server) if self.tries < servers * config.attempts => {
                self.server = server;
                Asking::Wanted
            }
            _ => Asking::Failed(why),
        };
    }

    /// Takes an answer's meaning; says whether the question is over or asked anew with it.
    pub(super) fn answered(&mut self, verdict: Verdict, config: &ResolverConfig) -> bool {
        match verdict {
            Verdict::NotOurs => return false,
            Verdict::Found(found) => self.state = Asking::Found(found),
            Verdict::NoAddress => self.state = Asking::Failed(Unresolved::NoAddress),
            Verdict::NoName => self.state = Asking::Failed(Unresolved::NoSuchName),
            Verdict::Truncated => {
                self.state = Asking::Wanted;
                self.over = Transport::Tcp;
            }
            Verdict::Rejected => self.next_try(Unresolved::Rejected, config),
        }
        true
    }
}

/// One name on its way to addresses.
#[derive(Debug)]
pub(super) struct Lookup {
    /// Whose it is; `None` for a free place.
    pub(super) user: Option<u32>,
    name: HostName,
    /// The name being asked for: the `n`-th of those that [`Lookup::candidate`] gives.
    n: usize,
    pub(super) questions: [Question; 2],
    /// When it is over, whatever happens.
    deadline: Instant,
    /// How long one family's answer is waited for when the other's is here.
    pub(super) grace: Duration,
    /// Addresses of one family are here, and those of the other are waited for until then.
    grace_until: Instant,
    /// The worst that was met under an earlier name.
    worst: Unresolved,
    /// Why there is no address; `None` while it is under way or when there are some.
    failed: Option<Unresolved>,
    pub(super) over: bool,
}

impl Lookup {
    pub(super) fn free() -> Self {
        Lookup {
            user: None,
            name: HostName::empty(),
            n: 0,
            questions: [Question::new(Family::V6), Question::new(Family::V4)],
            deadline: Instant::FAR,
            grace: ANSWER_GRACE,
            grace_until: Instant::FAR,
            worst: Unresolved::NoSuchName,
            failed: None,
            over: false,
        }
    }

    pub(super) fn begin(
        &mut self,
        user: u32,
        name: HostName,
        server: u8,
        config: &ResolverConfig,
        now: Instant,
    ) {
        let questions = self.questions;
        *self = Lookup { user: Some(user), name, questions, ..Lookup::free() };
        self.deadline = now.after(LOOKUP_MAX);
        if QueryName::new(name.as_str(), None).is_none() {
            self.end(Some(Unresolved::NotAName));
        } else if config.servers.is_empty() {
            self.end(Some(Unresolved::NoServer));
        } else {
            self.begin_candidate(server, config);
        }
    }

    /// The names to ask for, in order: as it is first if it has enough dots, else with the suffixes
    /// first; only as it is with a dot at its end.
    fn candidate(&self, n: usize, config: &ResolverConfig) -> Option<QueryName> {
        let name = self.name.as_str();
        let suffixes = if name.ends_with('.') { 0 } else { config.search.len() };
        let dots = name.bytes().filter(|byte| *byte == b'.').count();
        let bare = if dots >= usize::from(config.ndots) { 0 } else { suffixes };
        if n == bare {
            return QueryName::new(name, None);
        }
        let suffix = config.search.get(n - usize::from(n > bare)).filter(|_| n <= suffixes)?;
        QueryName::new(name, Some(suffix))
    }

    /// The name being asked for.
    pub(super) fn asked_name(&self, config: &ResolverConfig) -> Option<QueryName> {
        self.candidate(self.n, config)
    }

    fn begin_candidate(&mut self, server: u8, config: &ResolverConfig) {
        self.grace_until = Instant::FAR;
        // A suffix may make a name too long: it is passed over.
        while self.candidate(self.n, config).is_none() {
            self.n += 1;
            if self.n > config.search.len() {
                return self.end(Some(self.worst));
            }
        }
        for question in &mut self.questions {
            if question.family == Family::V4 || config.ipv6 {
                question.begin(server);
            } else {
                question.state = Asking::Failed(Unresolved::NoAddress);
            }
        }
    }

    fn end(&mut self, failed: Option<Unresolved>) {
        self.failed = failed;
        self.over = true;
    }

    /// Looks whether its questions are answered: then it is over, or goes on with the next name.
    pub(super) fn advance(&mut self, server: u8, config: &ResolverConfig, now: Instant) {
        if self.over || self.user.is_none() {
            return;
        }
        let found = self.questions.iter().any(|q| matches!(q.state, Asking::Found(_)));
        if found && self.questions.iter().all(Question::is_over) {
            return self.end(None);
        }
        if found {
            // The other family's answer may be lost, or never sent: it gets a short while more.
            if self.grace_until == Instant::FAR {
                self.grace_until = now.after(self.grace);
            }
            if self.grace_until <= now {
                self.end(None);
            }
            return;
        }
        let reasons = self.questions.iter().filter_map(|question| match question.state {
            Asking::Failed(why) => Some(why),
            _ => None,
        });
        // No such name holds for all its addresses, in a world without servers that say so of a name
        // which only lacks this family's (RFC 4074, 4.2): the other answer gets a short while.
        let gone = reasons.clone().any(|why| why == Unresolved::NoSuchName);
        let worst = reasons.max();
        if !self.questions.iter().all(Question::is_over) {
            if gone && self.grace_until == Instant::FAR {
                self.grace_until = now.after(self.grace);
            }
            if self.deadline <= now && !gone {
                self.end(Some(Unresolved::TimedOut));
            }
            if self.over || !gone || now < self.grace_until.min(self.deadline) {
                return;
            }
        }
        let why = if gone { Unresolved::NoSuchName } else { worst.unwrap_or(self.worst) };
        self.worst = self.worst.max(why);
        if why == Unresolved::TimedOut || self.deadline <= now {
            return self.end(Some(why));
        }
        self.n += 1;
        if self.n > config.search.len() {
            self.end(Some(self.worst));
        } else {
            self.begin_candidate(server, config);
        }
    }

    /// Gives up tries whose time is over.
    pub(super) fn due(&mut self, config: &ResolverConfig, now: Instant) {
        for question in &mut self.questions {
            if matches!(question.state, Asking::Sent) && question.until <= now {
                question.next_try(Unresolved::TimedOut, config);
            }
        }
        if self.deadline <= now {
            for question in self.questions.iter_mut().filter(|question| !question.is_over()) {
                question.state = Asking::Failed(Unresolved::TimedOut);
            }
        }
    }

    /// A question was sent, with this id: it is waited for.
    pub(super) fn sent(
        &mut self,
        place: usize,
        exchange: ExchangeId,
        config: &ResolverConfig,
        now: Instant,
    ) {
        let until = now.after(config.timeout).min(self.deadline);
        let question = &mut self.questions[place];
        question.state = Asking::Sent;
        question.exchange = Some(exchange);
        question.until = until;
    }

    /// When something is due without any answer.
    pub(super) fn next_deadline(&self) -> Instant {
        if self.user.is_none() || self.over {
            return Instant::FAR;
        }
        let tries = self.questions.iter().filter(|q| matches!(q.state, Asking::Sent));
        let tries = tries.map(|question| question.until).min().unwrap_or(Instant::FAR);
        tries.min(self.deadline).min(self.grace_until)
    }

    /// A socket that nobody needs any more.
    pub(super) fn take_idle_exchange(&mut self) -> Option<ExchangeId> {
        let over = self.over || self.user.is_none();
        let idle = |question: &&mut Question| over || !matches!(question.state, Asking::Sent);
        self.questions.iter_mut().filter(idle).find_map(|question| question.exchange.take())
    }

    /// The question that is to be sent, if one is; its id is a new one.
    pub(super) fn take_wanted(&mut self, random: &mut Random) -> Option<usize> {
        if self.over || self.user.is_none() {
            return None;
        }
        let wanted = |question: &Question| matches!(question.state, Asking::Wanted);
        let place = self.questions.iter().position(wanted)?;
        self.questions[place].id = random.next() as u16;
        Some(place)
    }

    /// What came of it.
    pub(super) fn outcome(&self) -> Result<[Found; 2], Unresolved> {
        if let Some(why) = self.failed {
            return Err(why);
        }
        Ok(self.questions.map(|question| match question.state {
            Asking::Found(found) => found,
            _ => Found::none(),
        }))
    }

    pub(super) fn free_place(&mut self) {
        self.user = None;
        self.over = false;
    }
}
