//! Bootstrap: seed addresses, and host names to addresses without asking anybody: numeric ones,
//! `localhost`, and those in the hosts file as it was when the configuration was read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Addresses kept per host.
const MAX_ADDRESSES: usize = 4;

/// The addresses of one host, tried in order on successive attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    list: [SocketAddr; MAX_ADDRESSES],
    len: u8,
    next: u8,
}

impl Addresses {
    /// No address: the host cannot be reached.
    pub(super) const fn none() -> Self {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Addresses { list: [any; MAX_ADDRESSES], len: 0, next: 0 }
    }

    fn push(&mut self, address: SocketAddr) {
        if !self.contains(address)
            && let Some(slot) = self.list.get_mut(usize::from(self.len))
        {
            *slot = address;
            self.len += 1;
        }
    }

    /// True if the host cannot be reached.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The addresses.
    pub fn all(&self) -> &[SocketAddr] {
        self.list.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Whether `address` is one of them.
    pub(super) fn contains(&self, address: SocketAddr) -> bool {
        self.all().contains(&address)
    }

    /// Whether both are the same host, wherever their turns stand.
    pub(super) fn same_as(&self, other: &Addresses) -> bool {
        self.all() == other.all()
    }

    /// The address whose turn it is.
    pub(super) fn current(&self) -> Option<SocketAddr> {
        self.all().get(usize::from(self.next)).copied()
    }

    /// The one that was tried failed: the next one's turn.
    pub(super) fn turn(&mut self) {
        self.next = (self.next + 1) % self.len.max(1);
    }
}

/// Host names and their addresses, from the hosts file.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    entries: Box<[(Box<str>, IpAddr)]>,
}

/// Names kept from the hosts file at most; a file that is longer than anybody would write by hand
/// must not eat memory.
const MAX_HOSTS: usize = 4096;

impl Hosts {
    /// Reads the system's hosts file; a missing one is an empty one.
    pub fn read() -> Self {
        std::fs::read_to_string("/etc/hosts")
            .map_or_else(|_| Hosts::default(), |t| Hosts::parse(&t))
    }

    /// Reads the text of a hosts file: an address and its names on each line, `#` begins a comment.
    /// Lines that are not of that form are passed over.
    pub fn parse(text: &str) -> Self {
        let names = text.lines().filter_map(hosts_line);
        let entries = names.flat_map(|(address, names)| names.map(move |name| (name, address)));
        let own = |(name, address)| (Box::from(name), address);
        Hosts { entries: entries.take(MAX_HOSTS).map(own).collect() }
    }

    /// The addresses of a host: none if it needs a name server.
    pub fn resolve(&self, host: &str, port: u16) -> Addresses {
        let mut found = Addresses::none();
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            found.push(SocketAddr::new(address, port));
            return found;
        }
        for (name, address) in &self.entries {
            if name.eq_ignore_ascii_case(host) {
                found.push(SocketAddr::new(*address, port));
            }
        }
        if host.eq_ignore_ascii_case("localhost") {
            found.push(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
            found.push(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port));
        }
        found
    }
}

/// The address of a line of a hosts file, and its names.
fn hosts_line(line: &str) -> Option<(IpAddr, impl Iterator<Item = &str>)> {
    let mut words = line.split('#').next()?.split_ascii_whitespace();
    Some((words.next()?.parse().ok()?, words))
}

/// Reads `host:port,host:port,…`. IPv6 addresses stand in brackets.
///
/// # Errors
/// What is wrong with the list.
pub(super) fn parse_servers(text: &str, hosts: &Hosts) -> Result<Box<[Addresses]>, &'static str> {
    let servers = text.split(',').map(str::trim).filter(|server| !server.is_empty());
    let parsed = servers.map(|server| {
        // Kafka also takes a protocol in front; it says nothing here.
        let server = server.rsplit_once("://").map_or(server, |(_, rest)| rest);
        let (host, port) = server.rsplit_once(':').ok_or("a server without a port")?;
        let port = port.parse::<u16>().ok().filter(|port| *port != 0);
        let port = port.ok_or("a port that is none")?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !bracketed) {
            return Err("a host that is none: IPv6 addresses stand in brackets");
        }
        let addresses = hosts.resolve(host, port);
        if addresses.is_empty() {
            return Err("a host that is neither numeric nor localhost nor in the hosts file: \
                        this version asks no name server");
        }
        Ok(addresses)
    });
    let parsed = parsed.collect::<Result<Box<[Addresses]>, _>>()?;
    if parsed.is_empty() { Err("no server") } else { Ok(parsed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Hosts {
        Hosts::parse("# a comment\n10.0.0.1 kafka1 kafka1.local # tail\n::1 kafka1\nbroken line\n")
    }

    #[test]
    fn numeric_localhost_and_hosts_file() {
        let hosts = hosts();
        let one = |host, port| hosts.resolve(host, port).current().map(|a| a.to_string());
        assert_eq!(one("127.0.0.1", 9092).as_deref(), Some("127.0.0.1:9092"));
        assert_eq!(one("[::1]", 9092).as_deref(), Some("[::1]:9092"));
        assert_eq!(one("localhost", 1).as_deref(), Some("127.0.0.1:1"));
        assert_eq!(one("KAFKA1.local", 2).as_deref(), Some("10.0.0.1:2"));
        assert_eq!(one("kafka2", 2), None);
    }

    #[test]
    fn addresses_take_turns() {
        let mut addresses = hosts().resolve("kafka1", 5);
        let first = addresses.current().unwrap();
        addresses.turn();
        let second = addresses.current().unwrap();
        addresses.turn();
        assert_ne!(first, second);
        assert_eq!(addresses.current(), Some(first));
        let mut none = Addresses::none();
        none.turn();
        assert_eq!(none.current(), None);
    }

    #[test]
    fn server_lists() {
        let hosts = hosts();
        let parsed = parse_servers(" kafka1:9092, PLAINTEXT://[::1]:9093 ,", &hosts).unwrap();
        assert_eq!(parsed.len(), 2);
        for bad in ["", ",", "kafka1", "kafka1:0", "kafka1:x", "kafka1:70000", "::1:9092", ":9092"]
        {
            assert!(parse_servers(bad, &hosts).is_err(), "{bad}");
        }
        assert!(parse_servers("kafka1:1,nowhere.example:1", &hosts).unwrap_err().contains("host"));
    }
}
