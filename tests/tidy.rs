//! House rules that no compiler checks: who may name whom, file length, first lines, names, where
//! unsafe code may stand, and which files open with the ban on growable types.

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
const HOT: [&str; 32] = [
    "src/broker/answer.rs",
    "src/broker/connections.rs",
    "src/broker/delayed.rs",
    "src/broker/handlers/fetch.rs",
    "src/broker/handlers/produce.rs",
    "src/broker/log/mod.rs",
    "src/broker/log/segment.rs",
    "src/broker/partition.rs",
    "src/broker/serve.rs",
    "src/client/consumer/fetcher.rs",
    "src/client/in_flight.rs",
    "src/client/names.rs",
    "src/client/network_client.rs",
    "src/client/producer/accumulator.rs",
    "src/client/producer/producer_batch.rs",
    "src/client/producer/sender.rs",
    "src/client/race.rs",
    "src/client/records.rs",
    "src/client/resolver/mod.rs",
    "src/net/channel.rs",
    "src/net/exchange.rs",
    "src/net/pool/append_block.rs",
    "src/net/pool/buddy.rs",
    "src/net/pool/lease.rs",
    "src/net/pool/mod.rs",
    "src/net/receive.rs",
    "src/net/ring.rs",
    "src/net/selector/mod.rs",
    "src/net/send.rs",
    "src/net/slots.rs",
    "src/net/timers.rs",
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

/// The code of a file without comments and without its unit tests.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| match line.find("//") {
        Some(at) => &line[..at],
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn layer(path: &str) -> Option<&'static str> {
    let first = path.strip_prefix("src/")?.split('/').next()?;
    LAYERS.iter().find(|layer| first == **layer).copied()
}

#[test]
fn layers_name_only_what_they_may() {
    let mut wrong = Vec::new();
    for (path, text) in sources("src") {
        let code = code(&text);
        let own = layer(&path);
        let allowed: &[&str] = match own {
            Some(own) => EDGES.iter().find(|(layer, _)| *layer == own).expect("a layer").1,
            None if path == "src/lib.rs" => &LAYERS,
            None => &[],
        };
        for other in LAYERS {
            let named = [
                format!("crate::{other}::"),
                format!("crate::{other}\n"),
                format!("crate::{other};"),
            ];
            if Some(other) != own
                && !allowed.contains(&other)
                && named.iter().any(|name| code.contains(name))
            {
                wrong.push(format!("{path} names {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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
                && code(text).contains("unsafe ")
                && !UNSAFE_ADDRESSES.iter().any(|at| path.starts_with(at))
        })
        .map(|(path, _)| path)
        .collect();
    assert!(wrong.is_empty(), "unsafe outside of its addresses: {wrong:#?}");
}

#[test]
fn hot_files_ban_growable_types() {
    for path in HOT {
        let text = fs::read_to_string(root().join(path)).expect(path);
        assert!(text.contains("deny(clippy::disallowed_types"), "{path} lacks the ban");
    }
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
