//! The machine against a scripted name server and a clock by hand.
#![allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]

use super::*;
use crate::client::tests::zone::{A, AAAA, Manner, Zone};

const MS: Duration = Duration::from_millis(1);

/// A resolver, its servers and the sockets between them.
struct Bench {
    resolver: Resolver,
    config: ResolverConfig,
    zones: Vec<Zone>,
    now: Instant,
    next: u64,
    /// Open exchanges: id, server, over UDP.
    open: Vec<(ExchangeId, usize, bool)>,
    /// Questions and where they went.
    sent: Vec<(Vec<u8>, usize)>,
    /// Answers take so long.
    latency: Duration,
    late: Vec<(Instant, ExchangeId, Vec<u8>)>,
    outcomes: Vec<Outcome>,
}

impl Bench {
    fn new(servers: usize, more: &str) -> Self {
        let lines: Vec<String> = (0..servers).map(|n| format!("nameserver 10.0.0.{n}\n")).collect();
        let config = ResolverConfig::parse((lines.concat() + more).as_bytes());
        Bench {
            resolver: Resolver::new(5),
            config,
            zones: (0..servers).map(|_| Zone::new(&[])).collect(),
            now: Instant::from_nanos(1_000_000_000),
            next: 0,
            open: vec![],
            sent: vec![],
            latency: Duration::ZERO,
            late: vec![],
            outcomes: vec![],
        }
    }

    fn set(&mut self, name: &str, addresses: &[&str]) {
        self.zones.iter_mut().for_each(|zone| zone.set(name, addresses));
    }

    fn manner(&mut self, manner: Manner) {
        self.zones.iter_mut().for_each(|zone| zone.manner = manner);
    }

    fn begin(&mut self, user: u32, name: &str) {
        let name = HostName::new(name).unwrap();
        assert!(self.resolver.begin(user, name, ANSWER_GRACE, &self.config, self.now));
        self.run();
    }

    fn run(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "it never rests");
            let Some(step) = self.resolver.next_step(&self.config) else { break };
            match step {
                Step::End(id) => self.open.retain(|(open, ..)| *open != id),
                Step::Ask { asked, server, over, question } => {
                    self.next += 1;
                    let id = ExchangeId(self.next);
                    let SocketAddr::V4(at) = server else { panic!("{server}") };
                    let server = usize::from(at.ip().octets()[3]);
                    let over_udp = over == Transport::Udp;
                    self.open.push((id, server, over_udp));
                    self.sent.push((question.as_ref().to_vec(), server));
                    self.resolver.sent(asked, Some(id), &self.config, self.now);
                    for answer in self.zones[server].answer(question.as_ref(), over_udp) {
                        self.late.push((self.now.after(self.latency), id, answer));
                    }
                }
            }
            self.deliver();
        }
        while let Some(outcome) = self.resolver.take_outcome() {
            self.outcomes.push(outcome);
            self.run();
        }
    }

    fn deliver(&mut self) {
        let now = self.now;
        let (due, rest) = self.late.drain(..).partition(|(at, ..)| *at <= now);
        self.late = rest;
        for (_, id, bytes) in due {
            let due: Vec<_> = self.open.iter().filter(|(open, ..)| *open == id).collect();
            if !due.is_empty() {
                self.resolver.answered(id, &bytes, &self.config, now);
            }
        }
    }

    fn advance(&mut self, by: Duration) {
        let until = self.now.after(by);
        loop {
            let late = self.late.iter().map(|(at, ..)| *at).min().unwrap_or(Instant::FAR);
            let next = self.resolver.next_deadline().min(late);
            if next > until {
                break;
            }
            assert!(next >= self.now);
            self.now = next;
            self.deliver();
            self.resolver.run_timers(&self.config, self.now);
            self.run();
        }
        self.now = until;
    }

    /// Looks a name up; gives the addresses or the reason, and how long it took.
    fn look(&mut self, name: &str) -> (Result<Vec<String>, Unresolved>, u128) {
        let start = self.now;
        self.begin(9, name);
        for _ in 0..60_000 {
            if let Some(outcome) = self.outcomes.pop() {
                assert_eq!(outcome.user, 9);
                assert!(self.open.is_empty(), "no socket is left");
                assert_eq!(self.resolver.next_deadline(), Instant::FAR);
                let found = outcome.result.map(|a| a.all().map(|ip| ip.to_string()).collect());
                return (found, self.now.since(start).as_millis());
            }
            self.advance(MS);
        }
        panic!("it takes for ever");
    }

    fn found(&mut self, name: &str) -> Vec<String> {
        self.look(name).0.unwrap()
    }
}

#[test]
fn both_families_are_asked_at_once_and_ids_are_random() {
    let mut bench = Bench::new(1, "");
    bench.set("a.test", &["10.0.0.1", "fd00::1", "10.0.0.2"]);
    assert_eq!(bench.found("a.test"), ["fd00::1", "10.0.0.1", "10.0.0.2"]);
    assert_eq!(bench.found("A.TEST."), ["fd00::1", "10.0.0.1", "10.0.0.2"]);
    let ids: Vec<&[u8]> = bench.sent.iter().map(|(question, _)| &question[..2]).collect();
    assert_eq!(ids.len(), 4);
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 4, "{ids:?}");
}

#[test]
fn lies_are_survived() {
    use Unresolved::*;
    let two_rounds = 2 * 2 * 5000;
    for (manner, wanted, ms) in [
        (Manner::Honest, Ok(()), 0),
        (Manner::WrongIdFirst, Ok(()), 0),
        (Manner::Twice, Ok(()), 0),
        (Manner::Truncated, Ok(()), 0),
        (Manner::LongChain, Err(Rejected), 0),
        (Manner::DropsV6, Ok(()), 50),
        (Manner::FailsV6, Ok(()), 0),
        (Manner::Silent, Err(TimedOut), two_rounds),
        (Manner::WrongId, Err(TimedOut), two_rounds),
        (Manner::WrongQuestion, Err(TimedOut), two_rounds),
        (Manner::NoAnswer, Err(TimedOut), two_rounds),
        (Manner::Short, Err(TimedOut), two_rounds),
        (Manner::Code(1), Err(Rejected), 0),
        (Manner::Code(2), Err(Rejected), 0),
        (Manner::Code(3), Err(NoSuchName), 0),
        (Manner::Code(5), Err(Rejected), 0),
        (Manner::BareCode(1), Err(Rejected), 0),
        (Manner::BareCode(0), Err(TimedOut), two_rounds),
        (Manner::Lame, Err(Rejected), 0),
        (Manner::Garbage, Err(Rejected), 0),
        (Manner::AliasLoop, Err(Rejected), 0),
        (Manner::PointerLoop, Err(Rejected), 0),
    ] {
        let mut bench = Bench::new(2, "");
        bench.set("a.test", &["10.0.0.1"]);
        bench.manner(manner);
        let (result, took) = bench.look("a.test");
        assert_eq!(result, wanted.map(|()| vec!["10.0.0.1".to_owned()]), "{manner:?}");
        assert_eq!(took, ms, "{manner:?}");
    }
}

#[test]
fn a_bad_server_makes_the_next_ones_turn_and_is_not_asked_first_again() {
    for (manner, ms) in [(Manner::Code(5), 0), (Manner::Lame, 0), (Manner::Silent, 5000)] {
        let mut bench = Bench::new(3, "");
        bench.set("a.test", &["10.0.0.1"]);
        bench.zones[0].manner = manner;
        let (found, took) = bench.look("a.test");
        assert_eq!((found.unwrap().len(), took), (1, ms));
        bench.sent.clear();
        assert_eq!(bench.look("a.test").1, 0);
        assert!(bench.sent.iter().all(|(_, server)| *server == 1));
    }
}

#[test]
fn truncated_answers_come_over_tcp() {
    let mut bench = Bench::new(1, "");
    bench.set("a.test", &["10.0.0.1"]);
    bench.manner(Manner::Truncated);
    bench.found("a.test");
    let over: Vec<bool> = bench.zones[0].seen.iter().map(|(.., udp)| *udp).collect();
    assert_eq!(over.iter().filter(|udp| **udp).count(), 2);
    assert_eq!(over.len(), 4);
}

#[test]
fn a_hundred_addresses_are_sixteen_and_none_is_no_address() {
    let mut bench = Bench::new(1, "");
    let all: Vec<String> = (1..=100).map(|n| format!("10.0.1.{n}")).collect();
    bench.set("many.test", &all.iter().map(String::as_str).collect::<Vec<_>>());
    bench.set("none.test", &[]);
    bench.set("nobody.test", &["0.0.0.0", "255.255.255.255", "224.0.0.1", "::", "ff02::1"]);
    assert_eq!(bench.found("many.test"), all[..16]);
    assert_eq!(bench.look("none.test").0, Err(Unresolved::NoAddress));
    assert_eq!(bench.look("nobody.test").0, Err(Unresolved::NoAddress));
}

#[test]
fn aliases_are_followed() {
    let mut bench = Bench::new(1, "");
    bench.set("c.test", &["10.0.0.1"]);
    for (from, to) in [("a.test", "b.test"), ("b.test", "c.test"), ("x.test", "gone.test")] {
        bench.zones[0].aliases.insert(from.into(), to.into());
    }
    assert_eq!(bench.found("a.test"), ["10.0.0.1"]);
    assert_eq!(bench.look("x.test").0, Err(Unresolved::NoSuchName));
}

#[test]
fn the_search_list_and_the_dots() {
    let mut bench = Bench::new(1, "search one.test two.test\noptions ndots:2\n");
    bench.set("kafka.two.test", &["10.0.0.1"]);
    bench.set("kafka", &["10.0.0.2"]);
    bench.set("a.b", &["10.0.0.3"]);
    bench.set("a.b.c", &["10.0.0.4"]);
    bench.set("x.y.z.one.test", &["10.0.0.5"]);
    let asked = |bench: &mut Bench| -> Vec<String> {
        let seen = core::mem::take(&mut bench.zones[0].seen);
        seen.into_iter().filter(|(_, t, _)| *t == AAAA).map(|(name, ..)| name).collect()
    };
    assert_eq!(bench.found("kafka"), ["10.0.0.1"]);
    assert_eq!(asked(&mut bench), ["kafka.one.test", "kafka.two.test"]);
    assert_eq!(bench.found("kafka."), ["10.0.0.2"]);
    assert_eq!(asked(&mut bench), ["kafka"]);
    assert_eq!(bench.found("a.b"), ["10.0.0.3"], "few dots: as it is at last");
    assert_eq!(asked(&mut bench), ["a.b.one.test", "a.b.two.test", "a.b"]);
    assert_eq!(bench.found("a.b.c"), ["10.0.0.4"]);
    assert_eq!(asked(&mut bench), ["a.b.c"]);
    assert_eq!(bench.found("x.y.z"), ["10.0.0.5"]);
    assert_eq!(asked(&mut bench), ["x.y.z", "x.y.z.one.test"]);
    assert_eq!(bench.look("gone").0, Err(Unresolved::NoSuchName));
    let long = [["a".repeat(60).as_str(); 4].join("."), "b".repeat(6)].join(".");
    assert_eq!(bench.look(&long).0, Err(Unresolved::NoSuchName), "no suffix fits behind it");
}

#[test]
fn servers_take_turns_if_told_to() {
    let mut bench = Bench::new(3, "options rotate\n");
    bench.set("a.test", &["10.0.0.1"]);
    (0..6).for_each(|_| drop(bench.found("a.test")));
    assert!(bench.zones.iter().all(|zone| zone.count("a.test", A) == 2));
}

#[test]
fn everything_is_over_in_time_and_before() {
    let mut bench = Bench::new(8, "search a.test b.test c.test\noptions timeout:30 attempts:5\n");
    bench.manner(Manner::Silent);
    let (result, took) = bench.look("kafka");
    assert_eq!((result, took), (Err(Unresolved::TimedOut), 30_000));
    let mut bench = Bench::new(1, "options timeout:1 attempts:3\n");
    bench.manner(Manner::Silent);
    assert_eq!(bench.look("kafka").1, 3000);
    assert_eq!(bench.sent.len(), 6);
    let sockets: std::collections::HashSet<_> = bench.sent.iter().map(|(q, _)| q).collect();
    assert_eq!(sockets.len(), 6, "each try has an id of its own");
}

#[test]
fn an_answer_that_comes_after_its_try_is_not_looked_at() {
    let mut bench = Bench::new(1, "options timeout:1\n");
    bench.set("a.test", &["10.0.0.1"]);
    bench.latency = 1100 * MS;
    let (result, took) = bench.look("a.test");
    assert_eq!((result, took), (Err(Unresolved::TimedOut), 2000));
}

#[test]
fn what_has_no_server_or_is_no_name_fails_at_once() {
    let mut bench = Bench::new(0, "");
    assert_eq!(bench.look("a.test"), (Err(Unresolved::NoServer), 0));
    let mut bench = Bench::new(1, "");
    assert_eq!(bench.look("a..test"), (Err(Unresolved::NotAName), 0));
    assert!(bench.sent.is_empty());
}

#[test]
fn only_so_many_at_once_and_giving_up_frees_a_place() {
    let mut bench = Bench::new(1, "");
    bench.manner(Manner::Silent);
    (0..LOOKUPS as u32).for_each(|user| bench.begin(user, "a.test"));
    assert_eq!(bench.open.len(), 2 * LOOKUPS);
    let name = HostName::new("b.test").unwrap();
    assert!(!bench.resolver.begin(77, name, ANSWER_GRACE, &bench.config, bench.now));
    bench.resolver.cancel(2);
    bench.run();
    assert_eq!(bench.open.len(), 2 * (LOOKUPS - 1));
    bench.begin(77, "b.test");
    bench.advance(60_000 * MS);
    let users: Vec<u32> = bench.outcomes.iter().map(|outcome| outcome.user).collect();
    assert_eq!(users.len(), LOOKUPS);
    assert!(!users.contains(&2));
    assert!(bench.open.is_empty());
}

#[test]
fn addresses_hold_within_the_range() {
    for (ttl, wanted) in [(0, 1), (60, 60), (301, 300), (0x7fff_ffff, 300), (0x8000_0000, 1)] {
        let mut bench = Bench::new(1, "");
        bench.set("a.test", &["10.0.0.1"]);
        bench.zones[0].ttl = ttl;
        bench.begin(1, "a.test");
        let answers = bench.outcomes.pop().unwrap().result.unwrap();
        assert_eq!(answers.ttl, Duration::from_secs(wanted));
    }
}

#[test]
fn without_ipv6_nobody_asks_for_it() {
    let mut bench = Bench::new(1, "options no-aaaa\n");
    bench.set("a.test", &["10.0.0.1", "fd00::1"]);
    assert_eq!(bench.found("a.test"), ["10.0.0.1"]);
    assert_eq!(bench.zones[0].count("a.test", AAAA), 0);
}

#[test]
fn any_bytes_as_an_answer() {
    let mut random = Random::new(11);
    let mut zone = Zone::new(&[("kafka.example", &["10.0.0.1", "10.0.0.2"])]);
    let name = QueryName::new("kafka.example", None).unwrap();
    let question = write_question(&name, question::Family::V4, 7).unwrap();
    let honest = zone.answer(question.as_ref(), true).remove(0);
    for _ in 0..40_000 {
        let mut bytes: Vec<u8> = match random.below(3) {
            0 => (0..random.below(200)).map(|_| random.next() as u8).collect(),
            1 => honest.clone(),
            _ => {
                let body: Vec<u8> = (0..random.below(120))
                    .map(|_| [0, 1, 0xc0, 12, 0xff, random.next() as u8][random.below(6) as usize])
                    .collect();
                [&[random.below(20) as u8][..], &body].concat()
            }
        };
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len().max(1) as u32) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = [0, 1, 0xc0, 0x80, 0xff, random.next() as u8][random.below(6) as usize];
            }
        }
        fuzz::fuzz_name_answer(&bytes);
    }
}

/// Aliases in the wrong order, pointers everywhere, as many records as fit: still a bounded time.
#[test]
fn the_largest_answer_is_read_in_bounded_work() {
    let name = QueryName::new("kafka.example", None).unwrap();
    let question = write_question(&name, question::Family::V4, 7).unwrap();
    let mut bytes = question.as_ref().to_vec();
    bytes[2..4].copy_from_slice(&[0x81, 0x80]);
    // An alias to itself by a pointer: the chain goes round until it is too long.
    while bytes.len() + 14 <= 16 * 1024 {
        bytes.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 2, 0xc0, 12]);
    }
    bytes[6..8].copy_from_slice(&1000u16.to_be_bytes());
    let verdict = read_answer(&bytes, &name, question::Family::V4, 7, false);
    assert!(matches!(verdict, Verdict::Rejected));
}

#[test]
fn the_tables_are_small() {
    assert!(size_of::<Resolver>() <= 6 * 1024, "{}", size_of::<Resolver>());
}

/// A server that knows no such name when it is asked for one family, and answers for the other.
#[test]
fn a_name_that_is_denied_for_one_family_only() {
    let mut bench = Bench::new(1, "");
    bench.set("x.test", &["10.0.0.1"]);
    bench.manner(Manner::DeniesV6);
    assert_eq!(bench.look("x.test"), (Ok(vec!["10.0.0.1".to_owned()]), 0));
    bench.latency = 20 * MS;
    assert_eq!(bench.look("x.test").0, Ok(vec!["10.0.0.1".to_owned()]));
    bench.manner(Manner::Code(3));
    assert_eq!(bench.look("gone.test").0, Err(Unresolved::NoSuchName));
}
