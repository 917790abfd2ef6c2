//! Host names and where they lead: a name of fixed size, a name with its port, and the addresses
//! that were found for it, in the order in which they are to be tried.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Addresses kept per host; what a name server says beyond them is not looked at.
pub const MAX_ADDRESSES: usize = 16;
/// The longest name: what a name server can be asked for, and a dot at its end.
const NAME_MAX: usize = 254;

/// A host as it was written: a name, or an address. At most 254 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HostName {
    bytes: [u8; NAME_MAX],
    len: u8,
}

impl HostName {
    /// The empty name.
    pub(super) const fn empty() -> Self {
        HostName { bytes: [0; NAME_MAX], len: 0 }
    }

    /// `None` if it is longer than any host's.
    pub fn new(text: &str) -> Option<Self> {
        let mut name = HostName::empty();
        name.bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        name.len = text.len() as u8;
        Some(name)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or(&[]);
        core::str::from_utf8(bytes).unwrap_or("")
    }
}

impl core::fmt::Debug for HostName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_str().fmt(f)
    }
}

impl core::fmt::Display for HostName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A host and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The host.
    pub host: HostName,
    /// The port; 0 is nowhere.
    pub port: u16,
}

impl Endpoint {
    /// Nowhere.
    pub(super) const fn none() -> Self {
        Endpoint { host: HostName::empty(), port: 0 }
    }

    /// Whether both are the same, as far as names say; case does not count.
    pub(super) fn same_as(&self, other: &Endpoint) -> bool {
        self.port == other.port && self.host.as_str().eq_ignore_ascii_case(other.host.as_str())
    }
}

/// The addresses of one host, in the order in which they are tried.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    list: [SocketAddr; MAX_ADDRESSES],
    len: u8,
    /// Where trying begins; it goes round.
    first: u8,
    /// How many were tried in vain since the list was made or one worked.
    tried: u8,
}

impl Addresses {
    /// No address.
    pub(super) const fn none() -> Self {
        let any = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        Addresses { list: [any; MAX_ADDRESSES], len: 0, first: 0, tried: 0 }
    }

    /// The addresses of both families, by turns, beginning with the family of the first (RFC 8305).
    /// Those beyond the limit are left out.
    pub(super) fn interleaved(all: impl Iterator<Item = SocketAddr> + Clone) -> Self {
        let mut found = Addresses::none();
        let first_is_v4 = all.clone().next().is_some_and(|at| at.is_ipv4());
        let mut one = all.clone().filter(|at| at.is_ipv4() == first_is_v4);
        let mut other = all.filter(|at| at.is_ipv4() != first_is_v4);
        loop {
            let (a, b) = (one.next(), other.next());
            a.into_iter().chain(b).for_each(|at| found.push(at));
            if a.is_none() && b.is_none() {
                return found;
            }
        }
    }

    pub(super) fn push(&mut self, address: SocketAddr) {
        if !self.contains(address)
            && let Some(slot) = self.list.get_mut(usize::from(self.len))
        {
            *slot = address;
            self.len += 1;
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// True if the host cannot be reached.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The addresses.
    pub fn all(&self) -> &[SocketAddr] {
        self.list.get(..self.len()).unwrap_or(&[])
    }

    /// Whether `address` is one of them.
    pub(super) fn contains(&self, address: SocketAddr) -> bool {
        self.all().contains(&address)
    }

    /// Whether both are the same host, wherever their turns stand.
    pub(super) fn same_as(&self, other: &Addresses) -> bool {
        self.all() == other.all()
    }

    /// Where trying begins.
    pub(super) fn first(&self) -> u8 {
        self.first
    }

    /// The `n`-th to be tried when trying began at `from`.
    pub(super) fn nth_from(&self, from: u8, n: u8) -> Option<SocketAddr> {
        let at = (usize::from(from) + usize::from(n)) % self.len().max(1);
        self.all().get(at).copied().filter(|_| n < self.len)
    }

    /// The first to be tried.
    pub(super) fn current(&self) -> Option<SocketAddr> {
        self.nth_from(self.first, 0)
    }

    /// Trying began at `from` and `n` were tried in vain: the next time it begins behind them. Says
    /// whether that were all.
    pub(super) fn failed(&mut self, from: u8, n: u8) -> bool {
        self.first = ((usize::from(from) + usize::from(n)) % self.len().max(1)) as u8;
        self.tried = self.tried.saturating_add(n);
        self.all_failed()
    }

    /// Whether all were tried in vain since the list was made or one worked.
    pub(super) fn all_failed(&self) -> bool {
        self.tried >= self.len
    }

    /// This one worked: others that connect to the host begin with it.
    pub(super) fn prefer(&mut self, address: SocketAddr) {
        if let Some(at) = self.all().iter().position(|known| *known == address) {
            self.first = at as u8;
            self.tried = 0;
        }
    }

    /// The list is a new one: trying begins behind the address that was tried last, wherever that
    /// stands. Kafka passes it over only where it stands first; but one that takes connections and
    /// does nothing with them would be had again and again behind one that is dead.
    pub(super) fn begin_after(&mut self, last: Option<SocketAddr>) {
        let place = self.all().iter().position(|known| Some(*known) == last);
        self.first = place.map_or(0, |at| (at + 1) % self.len().max(1)) as u8;
        self.tried = 0;
    }
}

/// An address as it may stand in a list of hosts: in brackets or not, with a scope or not. The
/// outer `None`: it is no address; the inner one: there is no such interface.
pub(super) fn parse_address(host: &str, port: u16) -> Option<Option<SocketAddr>> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(Some(SocketAddr::new(address, port)));
    }
    let (address, scope) = bare.split_once('%')?;
    let address = address.parse().ok()?;
    let index = crate::net::interface_index(scope);
    Some(index.map(|index| SocketAddrV6::new(address, port, 0, index).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(texts: &[&str]) -> Addresses {
        Addresses::interleaved(texts.iter().map(|text| text.parse().unwrap()))
    }

    #[test]
    fn families_take_turns() {
        let mixed = all(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "[::1]:1", "10.0.0.1:1"]);
        let order: Vec<String> = mixed.all().iter().map(SocketAddr::to_string).collect();
        assert_eq!(order, ["10.0.0.1:1", "[::1]:1", "10.0.0.2:1", "10.0.0.3:1"]);
        let many = Addresses::interleaved((0..100).map(|i| SocketAddr::from(([10, 0, 0, i], 1))));
        assert_eq!(many.len(), MAX_ADDRESSES);
        assert!(all(&[]).is_empty() && all(&[]).current().is_none());
    }

    #[test]
    fn trying_goes_round() {
        let mut list = all(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]);
        let at = |n: u8| Some(SocketAddr::from(([10, 0, 0, n], 1)));
        assert!(!list.failed(0, 2));
        let order = [0, 1, 2, 3].map(|n| list.nth_from(list.first(), n));
        assert_eq!(order, [at(3), at(1), at(2), None]);
        assert!(list.failed(2, 1));
        list.prefer(at(2).unwrap());
        assert_eq!(list.current(), at(2));
        list.begin_after(at(1));
        assert_eq!(list.current(), at(2));
        list.begin_after(at(2));
        assert_eq!(list.current(), at(3));
        list.begin_after(at(3));
        assert_eq!(list.current(), at(1));
        list.begin_after(at(9));
        assert_eq!(list.current(), at(1));
        let mut none = Addresses::none();
        assert!(none.failed(0, 0));
        assert_eq!(none.current(), None);
    }

    #[test]
    fn scopes_are_bound() {
        let v6 = |text| match parse_address(text, 9) {
            Some(Some(SocketAddr::V6(at))) => Some((at.ip().to_string(), at.scope_id())),
            _ => None,
        };
        assert_eq!(v6("[fe80::1%1]"), Some(("fe80::1".into(), 1)));
        #[cfg(target_os = "linux")]
        assert_eq!(v6("[fe80::1%lo]"), Some(("fe80::1".into(), 1)));
        assert_eq!(v6("::1"), Some(("::1".into(), 0)));
        assert_eq!(parse_address("fe80::1%nowhere", 9), Some(None));
        assert_eq!(parse_address("kafka1", 9), None);
        assert_eq!(parse_address("10%1", 9), None);
    }
}
