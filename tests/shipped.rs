//! What is shipped says the truth about itself: the symbols of kloop.map, the crates that
//! `kloop_build_info` and the SBOM name, and the kept copy of the header.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

fn info() -> String {
    let text = kloop::ffi::kloop_build_info();
    #[expect(unsafe_code, reason = "what C does with it")]
    // SAFETY: a static string that ends in a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().expect("UTF-8").to_owned()
}

fn line<'a>(info: &'a str, name: &str) -> &'a str {
    let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no line {name}"))
}

/// The features of this build, as an argument for cargo.
fn features(info: &str) -> String {
    line(info, "features").replace("none", "").replace(' ', ",")
}

/// Cargo's own list of the crates that are linked in such a build, as name@version.
fn linked(info: &str) -> BTreeSet<String> {
    let triple = line(info, "target");
    let done = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["tree", "--offline", "--locked", "-e", "normal,no-proc-macro", "--target", triple])
        .args(["--prefix", "none", "--no-dedupe", "-f", "{p}"])
        .args(["--no-default-features", "--features", &features(info)])
        .output()
        .expect("cargo");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout);
    let words = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        Some(format!("{name}@{}", rest.split(' ').next()?))
    });
    words.filter(|entry| !entry.starts_with("kloop@")).collect()
}

#[test]
fn the_build_info_names_what_cargo_links() {
    let info = info();
    assert_eq!(line(&info, "kloop"), env!("CARGO_PKG_VERSION"));
    assert!(["debug", "release"].contains(&line(&info, "profile")));
    assert!(line(&info, "rustc").starts_with("1."));
    let on = [
        (cfg!(feature = "gzip"), "gzip"),
        (cfg!(feature = "header"), "header"),
        (cfg!(feature = "lz4"), "lz4"),
        (cfg!(feature = "snappy"), "snappy"),
        (cfg!(feature = "zstd"), "zstd"),
    ];
    let on: Vec<&str> = on.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    assert_eq!(line(&info, "features"), if on.is_empty() { "none".into() } else { on.join(" ") });
    let named: BTreeSet<String> = line(&info, "crates").split(' ').map(str::to_owned).collect();
    assert_eq!(named, linked(&info), "build.rs and cargo");
}

#[test]
fn the_sbom_names_what_cargo_links() {
    let info = info();
    let mut sbom = Command::new("python3");
    sbom.arg(root().join("packaging/sbom")).arg(line(&info, "target"));
    let Ok(done) = sbom.args(["--no-default-features", "--features", &features(&info)]).output()
    else {
        eprintln!("skipped: no python3 here");
        return;
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    let crates = text
        .match_indices("pkg:cargo/")
        .map(|(at, tag)| text[at + tag.len()..].split('"').next().unwrap_or("").to_owned());
    let named: BTreeSet<String> = crates.filter(|entry| !entry.starts_with("kloop@")).collect();
    assert_eq!(named, linked(&info), "packaging/sbom and cargo");
    assert_eq!(text.matches("checksumValue").count(), named.len(), "each with its checksum");
    // The C library is no crate: who looks for its bugs finds it by its own name and version.
    assert_eq!(text.contains("pkg:github/facebook/zstd@v1."), cfg!(feature = "zstd"));
}

#[test]
fn the_map_names_what_the_header_declares() {
    let header = read("include/kloop.h");
    let declared: BTreeSet<&str> = header
        .match_indices("kloop_")
        .map(|(at, _)| &header[at..])
        .filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            rest[end..].starts_with('(').then_some(&rest[..end])
        })
        .collect();
    let map = read("kloop.map");
    let exported: BTreeSet<&str> = map
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|name| name.starts_with("kloop_"))
        .collect();
    assert_eq!(exported, declared, "kloop.map and include/kloop.h");
}

/// Programs that were built with it must run on every later library: embed/artefacts builds one.
#[test]
fn the_header_of_this_version_is_kept() {
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    let kept = format!("ffi-tests/abi/{major}.{minor}/kloop.h");
    assert!(read(&kept) == read("include/kloop.h"), "{kept} is another: run `make header`");
}
