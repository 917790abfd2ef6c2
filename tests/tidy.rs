//! House rules that no compiler checks: who may name whom, file length, first lines, names, where
//! unsafe code may stand, and which files open with the ban on growable types.

mod rust_paths;

use rust_paths::{paths, tokens, without_tests};
use std::fs;
use std::path::{Path, PathBuf};

/// Layer, and which other layers it may name. Root files may be named by all.
const EDGES: [(&str, &[&str]); 6] = [
    ("ffi", &["engine", "broker", "client", "protocol", "net"]),
    ("engine", &["broker", "client", "protocol", "net"]),
    ("broker", &["net", "protocol"]),
    ("client", &["net", "protocol"]),
    ("protocol", &[]),
    ("net", &[]),
];
const LAYERS: [&str; 6] = ["ffi", "engine", "broker", "client", "protocol", "net"];
const ROOT: [&str; 7] = ["lib", "error", "guard", "logging", "properties", "sync", "time"];
const UNSAFE_ADDRESSES: [&str; 3] = ["src/net/pool/", "src/net/sys/", "src/ffi/"];
const VAGUE: [&str; 8] =
    ["utils", "util", "misc", "common", "helpers", "helper", "types", "manager"];
const HARD_LIMIT: usize = 800;

/// Files on the path of every record or frame: they own no growable collection.
const HOT: [&str; 72] = [
    "src/broker/answer.rs",
    "src/broker/batch_reader.rs",
    "src/broker/connections.rs",
    "src/broker/core.rs",
    "src/broker/delayed.rs",
    "src/broker/dispatch.rs",
    "src/broker/events.rs",
    "src/broker/handlers/fetch.rs",
    "src/broker/handlers/list_offsets.rs",
    "src/broker/handlers/metadata.rs",
    "src/broker/handlers/offset_for_leader_epoch.rs",
    "src/broker/handlers/produce.rs",
    "src/broker/host.rs",
    "src/broker/host_answer.rs",
    "src/broker/log/index.rs",
    "src/broker/log/memory.rs",
    "src/broker/log/mod.rs",
    "src/broker/log/producer_state.rs",
    "src/broker/log/segment.rs",
    "src/broker/log/segments.rs",
    "src/broker/log/times.rs",
    "src/broker/partition.rs",
    "src/broker/random.rs",
    "src/broker/reactor/handler_pool.rs",
    "src/broker/reactor/host_threads.rs",
    "src/broker/reactor/mailbox.rs",
    "src/broker/reactor/request_channel.rs",
    "src/broker/reactor/shared.rs",
    "src/broker/request.rs",
    "src/broker/scratch.rs",
    "src/broker/serve.rs",
    "src/broker/server.rs",
    "src/broker/topics.rs",
    "src/client/consumer/compressed_fetch.rs",
    "src/client/consumer/fetch_window.rs",
    "src/client/consumer/fetcher.rs",
    "src/client/consumer/scan.rs",
    "src/client/events.rs",
    "src/client/in_flight.rs",
    "src/client/lists.rs",
    "src/client/names.rs",
    "src/client/network_client.rs",
    "src/client/producer/accumulator.rs",
    "src/client/producer/outcome.rs",
    "src/client/producer/partitioner.rs",
    "src/client/producer/producer_batch.rs",
    "src/client/producer/sender.rs",
    "src/client/race.rs",
    "src/client/records.rs",
    "src/client/resolver/mod.rs",
    "src/net/channel.rs",
    "src/net/channel_state.rs",
    "src/net/exchange.rs",
    "src/net/list.rs",
    "src/net/listener.rs",
    "src/net/pool/append_block.rs",
    "src/net/pool/arena.rs",
    "src/net/pool/buddy.rs",
    "src/net/pool/budget.rs",
    "src/net/pool/lease.rs",
    "src/net/pool/mod.rs",
    "src/net/receive.rs",
    "src/net/ring.rs",
    "src/net/selector/channels.rs",
    "src/net/selector/events.rs",
    "src/net/selector/mod.rs",
    "src/net/send.rs",
    "src/net/send_queue.rs",
    "src/net/slots.rs",
    "src/net/timers.rs",
    "src/net/waker.rs",
    "src/protocol/mod.rs",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a folder, as path from the root and text.
fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(at: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(at).expect("a folder of the crate") {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                out.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root().join(folder), &mut paths);
    paths.sort();
    let short =
        |path: &Path| path.strip_prefix(root()).expect("below the root").display().to_string();
    paths.iter().map(|p| (short(p), fs::read_to_string(p).expect("a source file"))).collect()
}

fn layer(path: &str) -> Option<&'static str> {
    let first = path.strip_prefix("src/")?.split('/').next()?;
    LAYERS.iter().find(|layer| first == **layer).copied()
}

/// The layers that a file names and may not; "everything" if it takes the root itself.
fn wrongly_named<'a>(path: &'a str, text: &'a str) -> Vec<&'a str> {
    let own = layer(path);
    let allowed: &[&str] = match own {
        Some(own) => EDGES.iter().find(|(layer, _)| *layer == own).expect("a layer").1,
        None if path == "src/lib.rs" => return Vec::new(),
        None => &[],
    };
    let code = without_tests(&tokens(text));
    let first = |path: Vec<&'a str>| match *path.first()? {
        "*" | "as" => Some("everything"),
        layer if LAYERS.contains(&layer) => Some(layer),
        _ => None,
    };
    let named = paths(path, &code).into_iter().filter_map(first);
    named.filter(|layer| Some(*layer) != own && !allowed.contains(layer)).collect()
}

#[test]
fn layers_name_only_what_they_may() {
    let mut wrong = Vec::new();
    for (path, text) in sources("src") {
        let named = wrongly_named(&path, &text);
        wrong.extend(named.iter().map(|other| format!("{path} names {other}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The check of layers itself: whatever way another layer is named in, it is seen.
#[test]
fn the_check_of_layers_sees_every_way_of_naming() {
    for bad in [
        "use crate::broker::Broker;",
        "use crate::broker;",
        "use crate::{broker as _b};",
        "use crate::{error::Error as _E, broker::Broker as _B};",
        "use crate::{\n    net::{self, pool::Lease},\n    broker,\n};",
        "use {crate::error, crate::broker::Broker};",
        "use super::super::broker::Broker;",
        "use super::super::{error, broker::Broker};",
        "use self::super::super::broker::Broker;",
        "fn f() { super::super::broker::f() }",
        "fn f(b: &crate::broker\n::Broker) {}",
        "pub(in crate::broker) fn f() {}",
        "macro_rules! m { () => { $crate::broker::f() } }",
        "mod inner { use super::super::super::broker::Broker; }",
        "mod inner {}\nuse super::super::broker::Broker;",
        "#[cfg(test)]\nmod tests;\nuse crate::broker::Broker;",
        "#[cfg(test)]\nmod tests { fn f() {} }\nuse crate::broker::Broker;",
        "const A: (char, char, &str) = ('{', '\\'', r#\"mod tests {\"#);\nuse crate::broker::Broker;",
        "/* a /* comment */ */ use crate::broker::Broker;",
    ] {
        assert_eq!(wrongly_named("src/net/selector/mod.rs", bad), ["broker"], "{bad}");
    }
    for bad in
        ["use crate as k;", "use crate::{self as k};", "use crate::*;", "use super::super::*;"]
    {
        assert_eq!(wrongly_named("src/net/selector/mod.rs", bad), ["everything"], "{bad}");
    }
    assert_eq!(wrongly_named("src/error.rs", "use super::net::ConnId;"), ["net"]);
    for good in [
        "// crate::broker::Broker",
        "/* crate::broker /* crate::broker */ crate::broker */",
        "const A: &str = \"\\\"crate::broker::Broker\"; const B: &str = r#\"\"crate::broker::B\"#;",
        "#[cfg(test)]\nmod tests { use crate::broker::Broker; }",
        "use crate::net::broker; use crate::{error::Error, net::{pool, broker::B}};",
        "use super::broker::Broker; use super::*; use crate::error::*;",
        "fn f<'a>(&'a self) { self.broker; broker::f(); crate::brokers::f(); pub(crate) fn g() {} }",
        "mod inner { use super::super::broker::Broker; }",
    ] {
        assert!(wrongly_named("src/net/selector/mod.rs", good).is_empty(), "{good}");
    }
    assert!(wrongly_named("src/broker/mod.rs", "use crate::{net::ConnId, protocol};").is_empty());
}

#[test]
fn every_file_is_in_a_layer_short_and_says_what_it_is() {
    let mut wrong = Vec::new();
    for (path, text) in sources("src") {
        let stem = Path::new(&path).file_stem().and_then(|s| s.to_str()).expect("a name");
        if layer(&path).is_none() && !ROOT.contains(&stem) {
            wrong.push(format!("{path} is in no layer"));
        }
        if VAGUE.contains(&stem) {
            wrong.push(format!("{path} has a name that says nothing"));
        }
        if !text.starts_with("//!") && !text.starts_with("#![doc = include_str!") {
            wrong.push(format!("{path} does not open with what it is"));
        }
        let lines = text.lines().count();
        if lines > HARD_LIMIT {
            wrong.push(format!("{path} has {lines} lines"));
        }
        for mark in ["todo!(", "unimplemented!(", "FIXME", "XXX"] {
            if text.contains(mark) {
                wrong.push(format!("{path} has a {mark}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsafe_code_stands_at_its_addresses() {
    let wrong: Vec<String> = sources("src")
        .into_iter()
        .filter(|(path, text)| {
            !path.contains("/tests")
                && without_tests(&tokens(text)).contains(&"unsafe")
                && !UNSAFE_ADDRESSES.iter().any(|at| path.starts_with(at))
        })
        .map(|(path, _)| path)
        .collect();
    assert!(wrong.is_empty(), "unsafe outside of its addresses: {wrong:#?}");
}

/// Files that ban growable types and are not listed, and the other way round.
fn unlisted(files: &[(String, String)], listed: &[&str]) -> Vec<String> {
    let bans = |text: &str| text.contains("deny(clippy::disallowed_types");
    let of = |path: &str| files.iter().find(|(p, _)| p == path).is_some_and(|(_, t)| bans(t));
    let lacks = listed.iter().filter(|path| !of(path)).map(|path| format!("{path} lacks the ban"));
    let banning = files.iter().filter(|(_, text)| bans(text));
    let more = banning.filter(|(path, _)| !listed.contains(&path.as_str()));
    lacks.chain(more.map(|(path, _)| format!("{path} is not in HOT"))).collect()
}

#[test]
fn hot_files_ban_growable_types() {
    let wrong = unlisted(&sources("src"), &HOT);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_check_of_hot_files_sees_both_ways() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let ban = "//! A file.\n#![deny(clippy::disallowed_types, clippy::disallowed_macros)]\n";
    let files = [file("src/a.rs", ban), file("src/b.rs", "//! A file."), file("src/c.rs", ban)];
    assert_eq!(unlisted(&files, &["src/a.rs", "src/c.rs"]), [""; 0]);
    let wrong = unlisted(&files, &["src/a.rs", "src/b.rs", "src/gone.rs"]);
    let lacks = ["src/b.rs lacks the ban", "src/gone.rs lacks the ban"];
    assert_eq!(wrong, [lacks[0], lacks[1], "src/c.rs is not in HOT"]);
}

#[test]
fn every_exported_function_goes_through_the_boundary() {
    let mut wrong = Vec::new();
    for (path, text) in sources("src/ffi") {
        for part in text.split("#[unsafe(no_mangle)]").skip(1) {
            let body = part.split("\n}\n").next().unwrap_or(part);
            let name = body.split("fn ").nth(1).and_then(|f| f.split('(').next()).unwrap_or("?");
            let doors = ["guard(", "on_engine(", "on_shell(", "on_child(", "reported(", "init("];
            if !doors.iter().any(|door| body.contains(door)) {
                wrong.push(format!("{path}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
