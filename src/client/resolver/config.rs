//! ResolverConfig: whom to ask, for how long and under which suffixes: `/etc/resolv.conf`, and the
//! properties that stand above it.

#![allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "read once, at creation")]

use super::question::QueryName;
use crate::client::host::parse_address;
use crate::properties::{BadProperty, Properties, bad};
use core::time::Duration;
use resolv_conf::ScopedIp;
use std::net::{IpAddr, SocketAddr};

/// Name servers kept at most; a bit set of them is one byte.
pub(super) const MAX_SERVERS: usize = 8;
/// Suffixes kept at most.
const MAX_SEARCH: usize = 16;
/// The port of name servers.
const PORT: u16 = 53;
/// A file longer than this is not of that kind, and must not eat memory.
const MAX_FILE: u64 = 64 * 1024;

/// How names are asked for. kloop's own properties; without them, `/etc/resolv.conf` as it was when
/// the configuration was read.
#[derive(Clone, Debug)]
pub struct ResolverConfig {
    /// `resolver.nameservers`: `ADDRESS[:PORT],…`, IPv6 with a port in brackets; at most 8, port 53.
    /// With it, the file is not read at all.
    pub servers: Box<[SocketAddr]>,
    /// `resolver.search`: suffixes tried with names that have few dots, by commas; at most 16.
    pub search: Box<[Box<str>]>,
    /// `resolver.ndots` (1, at most 15): a name with so many dots is asked as it is first.
    pub ndots: u8,
    /// `resolver.timeout.ms` (5000, 1 to 30000): how long one server is waited for.
    pub timeout: Duration,
    /// `resolver.attempts` (2, 1 to 5): how often each server is asked.
    pub attempts: u8,
    /// `resolver.rotate` (false): whether lookups begin with one server after the other.
    pub rotate: bool,
    /// Whether IPv6 addresses are asked for; `options no-aaaa` of the file says no.
    pub ipv6: bool,
}

impl Default for ResolverConfig {
    fn default() -> Self {
        ResolverConfig {
            servers: Box::new([]),
            search: Box::new([]),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
            rotate: false,
            ipv6: true,
        }
    }
}

impl ResolverConfig {
    /// Reads the text of a `resolv.conf`; lines that are not of its form are passed over. Numbers
    /// out of range are brought into it.
    pub fn parse(text: &[u8]) -> Self {
        let (file, _) = resolv_conf::Config::parse_with_errors(text);
        let servers = file.nameservers.iter().filter_map(|server| match server {
            ScopedIp::V4(at) => Some(SocketAddr::new(IpAddr::V4(*at), PORT)),
            ScopedIp::V6(at, None) => Some(SocketAddr::new(IpAddr::V6(*at), PORT)),
            ScopedIp::V6(at, Some(scope)) => parse_address(&format!("{at}%{scope}"), PORT)?,
        });
        let search = file.get_last_search_or_domain().filter(|suffix| is_suffix(suffix));
        let ms = u64::from(file.timeout.clamp(1, 30)) * 1000;
        ResolverConfig {
            servers: servers.take(MAX_SERVERS).collect(),
            search: search.take(MAX_SEARCH).map(|suffix| Box::from(suffix.as_str())).collect(),
            ndots: file.ndots.min(15) as u8,
            timeout: Duration::from_millis(ms),
            attempts: file.attempts.clamp(1, 5) as u8,
            rotate: file.rotate,
            ipv6: !file.no_aaaa,
        }
    }

    /// The system's file; one that is missing is an empty one, and names no server.
    fn read() -> Self {
        use std::io::Read;
        let mut text = Vec::new();
        let file = std::fs::File::open("/etc/resolv.conf");
        match file.and_then(|file| file.take(MAX_FILE).read_to_end(&mut text)) {
            Ok(_) => ResolverConfig::parse(&text),
            Err(_) => ResolverConfig::default(),
        }
    }

    /// Takes the properties of a resolver.
    ///
    /// # Errors
    /// [`BadProperty`] names the first property that cannot be.
    pub(in crate::client) fn take(p: &mut Properties<'_>) -> Result<Self, BadProperty> {
        let mut config = match p.text("resolver.nameservers") {
            None => ResolverConfig::read(),
            Some(text) => {
                let servers =
                    parse_servers(text).map_err(|why| bad("resolver.nameservers", why))?;
                ResolverConfig { servers, ..ResolverConfig::default() }
            }
        };
        if let Some(text) = p.text("resolver.search") {
            let words: Box<[&str]> = words(text).collect();
            if words.len() > MAX_SEARCH || !words.iter().all(|suffix| is_suffix(suffix)) {
                return Err(bad("resolver.search", "up to 16 domains, by commas"));
            }
            config.search = words.iter().map(|suffix| Box::from(*suffix)).collect();
        }
        let ms = config.timeout.as_millis() as i64;
        let ms = p.number("resolver.timeout.ms", ms, 1..=30_000)?;
        config.timeout = Duration::from_millis(ms.unsigned_abs());
        config.ndots = p.number("resolver.ndots", i64::from(config.ndots), 0..=15)? as u8;
        config.attempts = p.number("resolver.attempts", i64::from(config.attempts), 1..=5)? as u8;
        config.rotate = p.flag("resolver.rotate", config.rotate)?;
        Ok(config)
    }
}

fn is_suffix(text: &str) -> bool {
    QueryName::new(text, None).is_some()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn parse_servers(text: &str) -> Result<Box<[SocketAddr]>, &'static str> {
    const NONE: &str = "an address that is none";
    let one = |word: &str| {
        if let Some(address) = parse_address(word, PORT) {
            return address.ok_or("an interface that is none");
        }
        let (host, port) = word.rsplit_once(':').ok_or(NONE)?;
        let port = port.parse::<u16>().ok().filter(|port| *port != 0);
        let port = port.ok_or("a port that is none")?;
        parse_address(host, port).ok_or(NONE)?.ok_or("an interface that is none")
    };
    let servers = words(text).map(one).collect::<Result<Box<[_]>, _>>()?;
    match servers.len() {
        0 => Err("no server"),
        1..=MAX_SERVERS => Ok(servers),
        _ => Err("more than 8 servers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_with_all_its_options() {
        let text = b"# comment\nnameserver 10.0.0.53\nnameserver fe80::1%1\nnameserver nonsense\n\
            domain ignored.example\nsearch a.example b.example bad..name\n\
            options ndots:2 timeout:3 attempts:9 rotate edns0 unknown\nnonsense\n";
        let config = ResolverConfig::parse(text);
        let servers: Vec<String> = config.servers.iter().map(SocketAddr::to_string).collect();
        assert_eq!(servers, ["10.0.0.53:53", "[fe80::1%1]:53"]);
        assert_eq!(*config.search, [Box::from("a.example"), Box::from("b.example")]);
        assert_eq!((config.ndots, config.attempts, config.rotate), (2, 5, true));
        assert_eq!(config.timeout, Duration::from_secs(3));
        assert!(config.ipv6 && !ResolverConfig::parse(b"options no-aaaa").ipv6);
        assert!(ResolverConfig::parse(&[0xff; 4096]).servers.is_empty());
    }

    #[test]
    fn properties_stand_above_the_file() {
        let take = |pairs: &[(&'static str, &'static str)]| {
            ResolverConfig::take(&mut Properties::new(pairs.iter().copied()))
        };
        let servers = "127.0.0.1, 10.0.0.1:5353,[::1]:54,::1,[fe80::1%1]:55";
        let config =
            take(&[("resolver.nameservers", servers), ("resolver.search", "x.y")]).unwrap();
        let servers: Vec<String> = config.servers.iter().map(SocketAddr::to_string).collect();
        let wanted = ["127.0.0.1:53", "10.0.0.1:5353", "[::1]:54", "[::1]:53", "[fe80::1%1]:55"];
        assert_eq!(servers, wanted);
        assert_eq!(*config.search, [Box::from("x.y")]);
        for bad in ["", "kafka:53", "1.2.3.4:0", "1.2.3.4:x", "1.2.3", "fe80::1%nowhere"] {
            let error = take(&[("resolver.nameservers", bad)]).unwrap_err();
            assert_eq!(error.key, "resolver.nameservers", "{bad}");
        }
        let one = ("resolver.nameservers", "::1");
        assert!(take(&[one, ("resolver.timeout.ms", "0")]).is_err());
        assert!(take(&[one, ("resolver.attempts", "6")]).is_err());
        assert!(take(&[one, ("resolver.search", "a..b")]).is_err());
    }
}
