//! Answer: what a name server's bytes say about a question. They are hostile until shown otherwise.

use super::question::{Family, QueryName};
use crate::client::host::MAX_ADDRESSES;
use domain::base::iana::{Class, Opcode, Rcode};
use domain::base::{Message, ParsedName, Rtype, ToName};
use domain::rdata::{A, Aaaa, Cname};
use std::net::{IpAddr, Ipv4Addr};

/// Aliases followed from a name to its addresses; nobody needs more, and a circle ends here.
const MAX_ALIASES: usize = 8;
/// Records looked at in one message, each time it is gone through.
const MAX_RECORDS: usize = 128;

/// The addresses that one answer gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    list: [IpAddr; MAX_ADDRESSES],
    len: usize,
    /// Seconds for which the least durable part of it holds.
    pub(super) ttl: u32,
}

impl Found {
    pub(super) fn none() -> Self {
        Found { list: [IpAddr::V4(Ipv4Addr::UNSPECIFIED); MAX_ADDRESSES], len: 0, ttl: u32::MAX }
    }

    pub(super) fn all(&self) -> &[IpAddr] {
        self.list.get(..self.len).unwrap_or(&[])
    }

    /// Takes an address that a host can have. What is beyond the room is left out.
    fn push(&mut self, address: IpAddr) {
        let nobody = address.is_unspecified()
            || address.is_multicast()
            || address == IpAddr::V4(Ipv4Addr::BROADCAST);
        if !nobody
            && !self.all().contains(&address)
            && let Some(slot) = self.list.get_mut(self.len)
        {
            *slot = address;
            self.len += 1;
        }
    }
}

/// What an answer says.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time; a box would allocate")]
pub(super) enum Verdict {
    /// Not an answer to this question: whoever sent it, go on waiting.
    NotOurs,
    /// The addresses; at least one.
    Found(Found),
    /// The name has none of this family.
    NoAddress,
    /// There is no such name.
    NoName,
    /// It did not fit: ask over TCP.
    Truncated,
    /// The server cannot or will not say, or says nonsense: ask another.
    Rejected,
}

/// Reads an answer. Its work is linear in the length of `bytes`.
pub(super) fn read_answer(
    bytes: &[u8],
    name: &QueryName,
    family: Family,
    id: u16,
    over_udp: bool,
) -> Verdict {
    let (Ok(message), Some(name)) = (Message::from_octets(bytes), name.name()) else {
        return Verdict::NotOurs;
    };
    let header = message.header();
    if header.id() != id || !header.qr() || header.opcode() != Opcode::QUERY {
        return Verdict::NotOurs;
    }
    let refused = !matches!(header.rcode(), Rcode::NOERROR | Rcode::NXDOMAIN);
    // A server that cannot even read the question sends none back.
    if refused && message.header_counts().qdcount() == 0 {
        return Verdict::Rejected;
    }
    let Ok(question) = message.sole_question() else { return Verdict::NotOurs };
    let asked = (question.qtype(), question.qclass()) == (family.rtype(), Class::IN);
    if !asked || !question.qname().name_eq(name) {
        return Verdict::NotOurs;
    }
    if refused {
        return Verdict::Rejected;
    }
    if header.tc() {
        return if over_udp { Verdict::Truncated } else { Verdict::Rejected };
    }
    if header.rcode() == Rcode::NXDOMAIN {
        return Verdict::NoName;
    }
    let empty = message.header_counts().ancount() == 0;
    if empty && !header.ra() && !header.aa() {
        // A lame server: it neither knows nor asks for us.
        return Verdict::Rejected;
    }
    match addresses(message, *question.qname(), family) {
        Err(Malformed) => Verdict::Rejected,
        Ok(found) if found.all().is_empty() => Verdict::NoAddress,
        Ok(found) => Verdict::Found(found),
    }
}

struct Malformed;

impl From<domain::base::wire::ParseError> for Malformed {
    fn from(_: domain::base::wire::ParseError) -> Self {
        Malformed
    }
}

/// The addresses of a name, found through its aliases, in whatever order the records stand.
fn addresses<'a>(
    message: Message<&'a [u8]>,
    name: ParsedName<&'a [u8]>,
    family: Family,
) -> Result<Found, Malformed> {
    let mut found = Found::none();
    let mut target = name;
    let mut aliases = 0;
    loop {
        let mut moved = false;
        for (n, record) in message.answer()?.enumerate() {
            let record = record?;
            if n == MAX_RECORDS {
                break;
            }
            if record.class() != Class::IN || !record.owner().name_eq(&target) {
                continue;
            }
            let ttl = record.ttl().as_secs();
            match record.rtype() {
                Rtype::A if family == Family::V4 => {
                    let record = record.into_record::<A>()?.ok_or(Malformed)?;
                    found.push(record.data().addr().into());
                }
                Rtype::AAAA if family == Family::V6 => {
                    let record = record.into_record::<Aaaa>()?.ok_or(Malformed)?;
                    found.push(record.data().addr().into());
                }
                Rtype::CNAME if found.all().is_empty() => {
                    let record = record.into_record::<Cname<_>>()?.ok_or(Malformed)?;
                    target = *record.data().cname();
                    aliases += 1;
                    moved = true;
                }
                _ => continue,
            }
            // The first bit set is nonsense, and counts as 0 (RFC 2181).
            found.ttl = found.ttl.min(if ttl >> 31 == 0 { ttl } else { 0 });
            if aliases > MAX_ALIASES {
                return Err(Malformed);
            }
        }
        if !moved || !found.all().is_empty() {
            return Ok(found);
        }
    }
}
