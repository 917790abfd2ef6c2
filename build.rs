//! Sets the SONAME of the shared library, collects what `kloop_build_info` says and, with the feature
//! `header`, writes `include/kloop.h` from `src/ffi` beside the build; a test compares it with the one
//! that is checked in.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    build_info();
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if os == "linux" || os.ends_with("bsd") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkloop.so.0");
    }
    #[cfg(feature = "header")]
    header();
}

/// What Cargo.lock has too: crates of other systems, of build scripts and
/// macros, and of dependencies' features that are off. tests/shipped.rs
/// compares the rest with cargo's own list.
const NOT_LINKED: [&str; 12] = [
    "cc",
    "domain-macros",
    "jiff-static",
    "log",
    "pkg-config",
    "portable-atomic",
    "portable-atomic-util",
    "twox-hash",
    "version_check",
    "wasi",
    "windows-link",
    "windows-sys",
];

fn build_info() {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let mut features: Vec<String> = std::env::vars()
        .filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_").map(str::to_lowercase))
        .filter(|name| name != "default")
        .collect();
    features.sort();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(" ") };
    let said = std::process::Command::new(var("RUSTC")).arg("--version").output();
    let rustc = said.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    let rustc = rustc.unwrap_or_default();
    let lines = [
        format!("kloop {}", var("CARGO_PKG_VERSION")),
        format!("target {}", var("TARGET")),
        format!("profile {}", var("PROFILE")),
        format!("features {features}"),
        format!("rustc {}", rustc.trim_start_matches("rustc ")),
        format!("crates {}", crates().join(" ")),
    ];
    let out = std::path::PathBuf::from(var("OUT_DIR")).join("build_info");
    std::fs::write(&out, lines.join("\n") + "\0").expect("OUT_DIR can be written");
    println!("cargo:rustc-env=KLOOP_BUILD_INFO={}", out.display());
}

/// The crates in the library, each as name@version: what is reached in Cargo.lock from the
/// dependencies of Cargo.toml, without the optional ones that no feature of this build brings.
fn crates() -> Vec<String> {
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let read = |name: &str| {
        if root.join(name).exists() {
            println!("cargo:rerun-if-changed={name}");
        }
        std::fs::read_to_string(root.join(name)).unwrap_or_default()
    };
    let (manifest, lock) = (read("Cargo.toml"), read("Cargo.lock"));
    // A build script is told the features by their names in capitals.
    let brought: String = section(&manifest, "[features]")
        .filter(|(name, _)| std::env::var(format!("CARGO_FEATURE_{}", name.to_uppercase())).is_ok())
        .map(|(_, brings)| brings)
        .collect();
    let mut todo: Vec<String> = section(&manifest, "[dependencies]")
        .filter(|(name, how)| {
            !how.contains("optional = true") || brought.contains(&format!("\"dep:{name}\""))
        })
        .map(|(name, _)| name.to_owned())
        .collect();
    let mut found = Vec::new();
    while let Some(wanted) = todo.pop() {
        // "name", or "name version" where the lock has several.
        let (name, version) = wanted.split_once(' ').unwrap_or((&wanted, ""));
        for package in lock.split("[[package]]\n") {
            let field = |key: &str| {
                let line = package.lines().find_map(|line| line.strip_prefix(key));
                line.map(|rest| rest.trim_matches('"')).unwrap_or_default()
            };
            let (is, has) = (field("name = "), field("version = "));
            let entry = format!("{is}@{has}");
            let this = is == name && (version.is_empty() || version == has);
            if !this || NOT_LINKED.contains(&is) || found.contains(&entry) {
                continue;
            }
            found.push(entry);
            let needs = package.lines().skip_while(|line| *line != "dependencies = [").skip(1);
            let needs = needs.take_while(|line| *line != "]");
            todo.extend(needs.map(|line| line.trim_matches([' ', '"', ',']).to_owned()));
        }
    }
    found.sort();
    found
}

/// The `name = value` lines of Cargo.toml behind this heading. Of lists it reads one-line
/// `name = [...]` entries only.
fn section<'a>(manifest: &'a str, heading: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let lines = manifest.lines().skip_while(move |line| *line != heading).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "))
}

#[cfg(feature = "header")]
fn header() {
    println!("cargo:rerun-if-changed=src/ffi");
    println!("cargo:rerun-if-changed=cbindgen.toml");
    let root =
        std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    let mut config =
        cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let part = |name: &str| std::env::var(name).expect("cargo sets it").parse::<u32>().expect(name);
    let version = part("CARGO_PKG_VERSION_MAJOR") << 16
        | part("CARGO_PKG_VERSION_MINOR") << 8
        | part("CARGO_PKG_VERSION_PATCH");
    let after = config.after_includes.take().unwrap_or_default();
    config.after_includes = Some(after.replace("@VERSION@", &format!("0x{version:06x}u")));
    // The order of the files is the order of the header.
    let files = [
        "handle",
        "status",
        "version",
        "self_check",
        "slice",
        "config",
        "event",
        "engine",
        "waker",
        "client",
        "producer",
        "consumer",
        "records",
        "broker",
        "reactor",
    ];
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in files {
        builder = builder.with_src(root.join("src/ffi").join(file).with_extension("rs"));
    }
    let bindings = builder.generate().expect("cbindgen reads src/ffi");
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = for_c(&String::from_utf8(text).expect("cbindgen writes UTF-8"));
    std::fs::write(out.join("kloop.h"), text).expect("OUT_DIR can be written");
    println!("cargo:rustc-env=KLOOP_GENERATED_HEADER={}", out.join("kloop.h").display());
}

/// What cbindgen leaves as Rust wrote it: the headings of safety sections, and negative numbers
/// without parentheses.
#[cfg(feature = "header")]
fn for_c(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        match line.split_once(" -") {
            Some((name, digits)) if line.starts_with("#define ") => {
                out.push_str(&format!("{name} (-{digits})"));
            }
            _ if line.trim() == "* # Safety" => out.push_str(" * The caller owes:"),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}
