//! Bootstrap: seed servers, and host names to addresses without asking anybody: numeric ones,
//! `localhost`, and those in the hosts file as it was when the configuration was read.

use super::host::{Addresses, Endpoint, HostName, parse_address};
use super::resolver::{Unresolved, is_name};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What is known of a host without asking anybody.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time; a box would allocate")]
pub(super) enum Known {
    /// Its addresses.
    Here(Addresses),
    /// A name server is to be asked.
    Ask,
    /// It cannot have one.
    Never(Unresolved),
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

    /// The addresses of a host, in the order in which they are tried: none if it needs a name
    /// server, or is at an interface that this machine does not have.
    pub fn resolve(&self, host: &str, port: u16) -> Addresses {
        match parse_address(host, port) {
            Some(address) => return Addresses::interleaved(address.into_iter()),
            None if host.eq_ignore_ascii_case("localhost") => {}
            None => return Addresses::interleaved(self.listed(host, port)),
        }
        let ends = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let ends = ends.into_iter().map(|address| SocketAddr::new(address, port));
        Addresses::interleaved(self.listed(host, port).chain(ends))
    }

    fn listed(&self, host: &str, port: u16) -> impl Iterator<Item = SocketAddr> + Clone {
        let same = move |entry: &&(Box<str>, IpAddr)| entry.0.eq_ignore_ascii_case(host);
        self.entries.iter().filter(same).map(move |(_, address)| SocketAddr::new(*address, port))
    }

    /// What is known of a host without asking anybody.
    pub(super) fn find(&self, endpoint: &Endpoint) -> Known {
        let host = endpoint.host.as_str();
        if host.is_empty() || endpoint.port == 0 {
            return Known::Never(Unresolved::NotAName);
        }
        let found = self.resolve(host, endpoint.port);
        if !found.is_empty() {
            return Known::Here(found);
        }
        if is_name(host) { Known::Ask } else { Known::Never(Unresolved::NotAName) }
    }
}

/// The address of a line of a hosts file, and its names.
fn hosts_line(line: &str) -> Option<(IpAddr, impl Iterator<Item = &str>)> {
    let mut words = line.split('#').next()?.split_ascii_whitespace();
    Some((words.next()?.parse().ok()?, words))
}

/// Servers in the list at most: half of the nodes that a client has places for, so that the brokers
/// which they tell of find places beside them.
const MAX_SERVERS: usize = 64;

/// Reads `host:port,host:port,…`. IPv6 addresses stand in brackets, with their scope if they have
/// one. With `ask`, there is a name server for hosts that need one.
///
/// # Errors
/// What is wrong with the list.
pub(super) fn parse_servers(
    text: &str,
    hosts: &Hosts,
    ask: bool,
) -> Result<Box<[Endpoint]>, &'static str> {
    const NONE: &str = "a host that is none: IPv6 addresses stand in brackets";
    let servers = text.split(',').map(str::trim).filter(|server| !server.is_empty());
    let parsed = servers.map(|server| {
        // Kafka also takes a protocol in front; it says nothing here.
        let server = server.rsplit_once("://").map_or(server, |(_, rest)| rest);
        let (host, port) = server.rsplit_once(':').ok_or("a server without a port")?;
        let port = port.parse::<u16>().ok().filter(|port| *port != 0);
        let port = port.ok_or("a port that is none")?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !bracketed) {
            return Err(NONE);
        }
        let endpoint = Endpoint { host: HostName::new(host).ok_or(NONE)?, port };
        match hosts.find(&endpoint) {
            Known::Here(_) => Ok(endpoint),
            Known::Ask if ask => Ok(endpoint),
            Known::Ask => Err("a host that needs a name server, and none is known: \
                               resolver.nameservers names one"),
            Known::Never(_) if bracketed => Err("an address, or an interface, that is none"),
            Known::Never(_) => Err(NONE),
        }
    });
    let parsed = parsed.collect::<Result<Box<[Endpoint]>, _>>()?;
    match parsed.len() {
        0 => Err("no server"),
        1..=MAX_SERVERS => Ok(parsed),
        _ => Err("more than 64 servers"),
    }
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
        assert_eq!(one("[fe80::1%1]", 9092).as_deref(), Some("[fe80::1%1]:9092"));
        assert_eq!(one("[::1]", 9092).as_deref(), Some("[::1]:9092"));
        assert_eq!(one("localhost", 1).as_deref(), Some("127.0.0.1:1"));
        assert_eq!(one("KAFKA1.local", 2).as_deref(), Some("10.0.0.1:2"));
        assert_eq!(one("kafka2", 2), None);
    }

    #[test]
    fn server_lists() {
        let hosts = hosts();
        let parsed =
            parse_servers(" kafka1:9092, PLAINTEXT://[::1]:9093 ,", &hosts, false).unwrap();
        assert_eq!(parsed.len(), 2);
        for bad in ["", ",", "kafka1", "kafka1:0", "kafka1:x", "kafka1:70000", "::1:9092", ":9092"]
        {
            assert!(parse_servers(bad, &hosts, true).is_err(), "{bad}");
        }
        for bad in ["a..b:1", "[kafka1]:1", "[fe80::1%nowhere]:1", "a b:1", "1.2.3.4.:1"] {
            assert!(parse_servers(bad, &hosts, true).is_err(), "{bad}");
        }
        let asked = "kafka1:1,nowhere.example:1,[fe80::1%1]:1";
        assert_eq!(parse_servers(asked, &hosts, true).unwrap().len(), 3);
        assert!(parse_servers(asked, &hosts, false).unwrap_err().contains("name server"));
    }
}
