//! Sets the SONAME of the shared library and, with the feature `header`, writes `include/kloop.h`
//! from `src/ffi` beside the build; a test compares it with the one that is checked in.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if os == "linux" || os.ends_with("bsd") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkloop.so.0");
    }
    #[cfg(feature = "header")]
    header();
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
        "handle", "status", "version", "slice", "config", "event", "engine", "waker", "client",
        "producer", "consumer", "records", "broker", "reactor",
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
