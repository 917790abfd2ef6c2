//! Zone: a scripted name server as a function: a question in, datagrams out, true or not.
//! Nothing but std, because the tests with real sockets use it too.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// How the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// What the zone says.
    Honest,
    /// Not at all.
    Silent,
    /// With this response code.
    Code(u8),
    /// With this response code and without the question.
    BareCode(u8),
    /// First with another id, then as the zone says.
    WrongIdFirst,
    /// With another id only.
    WrongId,
    /// About another name only.
    WrongQuestion,
    /// As a question.
    NoAnswer,
    /// Asked for IPv6, that there is no such name (RFC 4074, 4.2).
    DeniesV6,
    /// Over UDP without the answer, which did not fit.
    Truncated,
    /// Without an answer, neither asking for us nor knowing itself.
    Lame,
    /// Header and question are right, the rest is nonsense.
    Garbage,
    /// An alias of itself.
    AliasLoop,
    /// Over 8 aliases to the address.
    LongChain,
    /// Names that point at themselves.
    PointerLoop,
    /// Too few bytes for a header.
    Short,
    /// Everything twice.
    Twice,
    /// No IPv6 questions are answered.
    DropsV6,
    /// Questions for IPv6 fail.
    FailsV6,
}

/// What a name server knows and saw.
#[derive(Debug)]
pub struct Zone {
    pub manner: Manner,
    /// By lower-case name. A name that is missing does not exist.
    pub names: BTreeMap<String, Vec<IpAddr>>,
    /// Aliases: from, to.
    pub aliases: BTreeMap<String, String>,
    pub ttl: u32,
    /// Name and type of each question, and whether it came over UDP.
    pub seen: Vec<(String, u16, bool)>,
}

/// IPv4 addresses are asked for with this type.
pub const A: u16 = 1;
/// And IPv6 addresses with this one.
pub const AAAA: u16 = 28;

impl Zone {
    pub fn new(names: &[(&str, &[&str])]) -> Self {
        let mut zone = Zone {
            manner: Manner::Honest,
            names: BTreeMap::new(),
            aliases: BTreeMap::new(),
            ttl: 60,
            seen: Vec::new(),
        };
        names.iter().for_each(|(name, addresses)| zone.set(name, addresses));
        zone
    }

    pub fn set(&mut self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address"));
        self.names.insert(name.to_owned(), addresses.collect());
    }

    /// How often a name was asked for, in one type.
    pub fn count(&self, name: &str, rtype: u16) -> usize {
        self.seen.iter().filter(|(n, t, _)| n == name && *t == rtype).count()
    }

    /// What it sends for a question.
    pub fn answer(&mut self, question: &[u8], over_udp: bool) -> Vec<Vec<u8>> {
        let (name, rtype) = parse(question);
        self.seen.push((name.clone(), rtype, over_udp));
        let mut other = question.to_vec();
        let honest = self.honest(question, &name, rtype);
        match self.manner {
            Manner::Honest => vec![honest],
            Manner::Silent => vec![],
            Manner::DropsV6 if rtype == AAAA => vec![],
            Manner::FailsV6 if rtype == AAAA => vec![message(question, 0x8182, &[])],
            Manner::DeniesV6 if rtype == AAAA => vec![message(question, 0x8183, &[])],
            Manner::DropsV6 | Manner::FailsV6 | Manner::DeniesV6 => vec![honest],
            Manner::Code(code) => vec![message(question, 0x8180 | u16::from(code), &[])],
            Manner::BareCode(code) => {
                let mut bare = message(question, 0x8180 | u16::from(code), &[]);
                bare.truncate(12);
                bare[5] = 0;
                vec![bare]
            }
            Manner::WrongIdFirst => {
                let mut wrong = honest.clone();
                wrong[0] ^= 1;
                vec![wrong, honest]
            }
            Manner::WrongId => {
                other[1] ^= 1;
                vec![self.honest(&other, &name, rtype)]
            }
            Manner::WrongQuestion => {
                other[13] ^= 3;
                vec![self.honest(&other, &name, rtype)]
            }
            Manner::NoAnswer => vec![question.to_vec()],
            Manner::Truncated if over_udp => vec![message(question, 0x8380, &[])],
            Manner::Truncated => vec![honest],
            Manner::Lame => vec![message(question, 0x8100, &[])],
            Manner::Garbage => {
                let mut garbage = message(question, 0x8180, &[]);
                garbage[7] = 9;
                garbage.extend([0xff; 40]);
                vec![garbage]
            }
            Manner::AliasLoop => vec![message(question, 0x8180, &[alias(&name, &name)])],
            Manner::LongChain => {
                let names = |n| if n == 0 { name.clone() } else { format!("a{n}.chain") };
                let mut records: Vec<_> = (0..9).map(|n| alias(&names(n), &names(n + 1))).collect();
                records.push(address("a9.chain", "10.0.0.1".parse().unwrap(), 60));
                vec![message(question, 0x8180, &records)]
            }
            Manner::PointerLoop => {
                let at = question.len() as u16;
                let pointer = (0xc000 | at).to_be_bytes().to_vec();
                vec![message(question, 0x8180, &[[pointer, vec![0; 10]].concat()])]
            }
            Manner::Short => vec![honest[..7].to_vec()],
            Manner::Twice => vec![honest.clone(), honest],
        }
    }

    fn honest(&self, question: &[u8], name: &str, rtype: u16) -> Vec<u8> {
        let mut records = vec![];
        let mut at = name.to_owned();
        while let Some(to) = self.aliases.get(&at) {
            records.push(alias(&at, to));
            at.clone_from(to);
        }
        let Some(addresses) = self.names.get(&at) else {
            return message(question, 0x8183, &[]);
        };
        let wanted = addresses.iter().filter(|address| address.is_ipv4() == (rtype == A));
        records.extend(wanted.map(|ip| address(&at, *ip, self.ttl)));
        message(question, 0x8180, &records)
    }
}

/// The name and the type that are asked for.
fn parse(question: &[u8]) -> (String, u16) {
    let mut labels: Vec<String> = vec![];
    let mut at = 12;
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8(question[at + 1..end].to_vec()).unwrap());
        at = end;
    }
    (labels.join(".").to_lowercase(), u16::from_be_bytes([question[at + 1], question[at + 2]]))
}

fn wire(name: &str) -> Vec<u8> {
    let labels = name.split('.').map(|l| [&[l.len() as u8], l.as_bytes()].concat());
    labels.chain([vec![0]]).collect::<Vec<_>>().concat()
}

fn record(name: &str, rtype: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut out = wire(name);
    out.extend(rtype.to_be_bytes());
    out.extend(1u16.to_be_bytes());
    out.extend(ttl.to_be_bytes());
    out.extend((data.len() as u16).to_be_bytes());
    out.extend(data);
    out
}

fn alias(from: &str, to: &str) -> Vec<u8> {
    record(from, 5, 60, &wire(to))
}

fn address(name: &str, ip: IpAddr, ttl: u32) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => record(name, A, ttl, &ip.octets()),
        IpAddr::V6(ip) => record(name, AAAA, ttl, &ip.octets()),
    }
}

/// The question again with these flags, and records behind it.
fn message(question: &[u8], flags: u16, records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = question.to_vec();
    out[2..4].copy_from_slice(&flags.to_be_bytes());
    out[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    records.iter().for_each(|record| out.extend(record));
    out
}
