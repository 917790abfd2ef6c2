//! include/kloop.h is what cbindgen writes from src/ffi, compiles alone, and names the functions
//! that the library exports and the C tests call: no more and no fewer.
//!
//! `KLOOP_WRITE_HEADER=1` writes the file instead of comparing it.
#![cfg(feature = "header")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> String {
    fs::read_to_string(root().join("include/kloop.h")).expect("include/kloop.h")
}

#[test]
fn the_header_is_what_the_sources_say() {
    let made = fs::read_to_string(env!("KLOOP_GENERATED_HEADER")).expect("build.rs wrote it");
    let path = root().join("include/kloop.h");
    if std::env::var_os("KLOOP_WRITE_HEADER").is_some() {
        fs::write(&path, &made).expect("include/ can be written");
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    let differs = made.lines().zip(checked_in.lines()).find(|(a, b)| a != b);
    assert!(made == checked_in, "run `make header`; first difference: {differs:?}");
}

#[test]
fn the_header_compiles_alone() {
    for (compiler, language, standard) in
        [("cc", "c", "-std=c99"), ("cc", "c", "-std=c2x"), ("c++", "c++", "-std=c++17")]
    {
        let done = Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Werror"])
            .args(["-fsyntax-only", "-x", language])
            .arg(root().join("include/kloop.h"))
            .output()
            .expect(compiler);
        assert!(done.status.success(), "{standard}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

/// Names of the form kloop_x that are followed by an opening parenthesis.
fn called(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices('(') {
        let name: String = text[..at]
            .chars()
            .rev()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        if name.starts_with("kloop_") && !name.ends_with("_fn") {
            names.insert(name);
        }
    }
    names
}

fn read_all(folder: &Path) -> String {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("entry").path());
    files
        .filter(|p| p.extension().is_some_and(|e| e == "c" || e == "h" || e == "cpp"))
        .map(|p| fs::read_to_string(p).expect("a C file"))
        .collect()
}

#[test]
fn exported_declared_and_tested_functions_are_the_same() {
    let declared = called(&header());
    let here = std::env::current_exe().expect("this test's path");
    let folders = [here.parent(), here.parent().and_then(Path::parent)];
    let library = folders
        .iter()
        .flatten()
        .map(|folder| folder.join("libkloop.so"))
        .find(|path| path.exists())
        .expect("cargo builds the shared library beside the tests");
    let nm = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm");
    let exported: BTreeSet<String> = String::from_utf8_lossy(&nm.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(str::to_owned)
        .collect();
    assert_eq!(exported, declared, "exported and declared");
    let tested = called(&read_all(&root().join("ffi-tests")));
    let untested: Vec<_> = declared.difference(&tested).collect();
    assert!(untested.is_empty(), "not called by ffi-tests: {untested:?}");
}
