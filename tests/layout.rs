//! C sees what Rust has: the size, alignment and offset of every field, and the value of every
//! constant, written from Rust as assertions in C and compiled against include/kloop.h.
//!
//! The lists below are compared with the header, so that nothing is left out.

use kloop::ffi::*;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Gives a C file its assertions, and notes what it has named.
struct Assertions {
    text: String,
    named: Vec<String>,
}

impl Assertions {
    fn assert(&mut self, left: &str, right: i128) {
        // A negative size is refused by every standard of C and C++.
        let n = self.text.lines().count();
        writeln!(self.text, "typedef char assertion_{n}[({left}) == ({right}) ? 1 : -1];").unwrap();
    }
}

/// Sizes of a field behind a function that borrows it: no value of the struct is needed.
fn field_size<T, F>(_: impl Fn(&T) -> &F) -> i128 {
    size_of::<F>() as i128
}

macro_rules! structs {
    ($to:expr; $($name:ident { $($field:ident)* })*) => {$(
        let name = stringify!($name);
        $to.assert(&format!("sizeof({name})"), size_of::<$name>() as i128);
        $to.assert(&format!("ALIGNOF({name})"), align_of::<$name>() as i128);
        $to.named.push(name.to_owned());
        $(
            let field = stringify!($field).trim_start_matches("r#");
            let offset = core::mem::offset_of!($name, $field) as i128;
            $to.assert(&format!("offsetof({name}, {field})"), offset);
            let size = field_size(|of: &$name| &of.$field);
            $to.assert(&format!("sizeof((({name} *)0)->{field})"), size);
            $to.named.push(format!("{name}.{field}"));
        )*
    )*};
}

macro_rules! values {
    ($to:expr; $($name:ident)*) => {$(
        $to.assert(stringify!($name), i128::from($name));
        $to.named.push(stringify!($name).to_owned());
    )*};
}

macro_rules! variants {
    ($to:expr; $type:ident as $as:ty: $($name:ident)*) => {$(
        $to.assert(stringify!($name), i128::from($type::$name as $as));
        $to.named.push(stringify!($name).to_owned());
    )*};
}

fn structs(to: &mut Assertions) {
    structs! { to;
        kloop_engine_config { struct_size abi flags backend memory_limit arena arena_size max_conns
            max_inflight max_posts io_budget log log_ctx log_level max_handles max_leases reserved0 }
        kloop_prop { key value }
        kloop_conf { struct_size abi flags reserved0 user props prop_count }
        kloop_broker_conf { struct_size abi flags node_id user listen advertised cluster_id host_apis
            host_api_words props prop_count }
        kloop_reactor_conf { struct_size abi flags processors handlers max_queued cpus cpu_count }
        kloop_error { code os_errno msg }
        kloop_ev_delivered { users base_offset count partition topic outcome }
        kloop_ev_records { base_offset high_watermark topic partition count bytes }
        kloop_ev_request { body conn id body_len api_key api_version }
        kloop_ev_error { offset topic partition }
        kloop_event { r#type status owner user lease u }
        kloop_stats { polls events bytes_in bytes_out mem_used mem_total leases posts_refused syscalls }
        kloop_slice { data len }
        kloop_header { key value }
        kloop_msg { key value headers header_count topic partition flags timestamp_ms user reserved0 }
        kloop_tp { topic partition offset }
        kloop_cursor { opaque }
        kloop_record { key value headers offset timestamp_ms header_count flags }
    }
    // A field of a union cannot be borrowed safely; all of them stand at its beginning.
    to.assert("sizeof(kloop_ev_data)", size_of::<kloop_ev_data>() as i128);
    to.assert("ALIGNOF(kloop_ev_data)", align_of::<kloop_ev_data>() as i128);
    to.named.push("kloop_ev_data".to_owned());
    for field in ["delivered", "records", "request", "error", "raw"] {
        to.assert(&format!("offsetof(kloop_ev_data, {field})"), 0);
        to.named.push(format!("kloop_ev_data.{field}"));
    }
    to.assert("sizeof(kloop_log_fn)", size_of::<kloop_log_fn>() as i128);
    to.assert("sizeof(kloop_status)", size_of::<kloop_status>() as i128);
    to.assert("sizeof(kloop_lease)", size_of::<kloop_lease>() as i128);
    to.assert("sizeof(kloop_topic)", size_of::<kloop_topic>() as i128);
    to.assert("sizeof(kloop_id)", size_of::<kloop_id>() as i128);
    // What the header promises for every platform.
    to.assert("sizeof(kloop_event)", 64);
    to.assert("sizeof(kloop_error)", 256);
}

fn numbers(to: &mut Assertions) {
    values! { to;
        KLOOP_IS_RETRIABLE KLOOP_IS_FATAL KLOOP_IS_BROKER KLOOP_IS_MISUSE KLOOP_ABI
        KLOOP_OFFSET_LATEST KLOOP_OFFSET_EARLIEST KLOOP_ENGINE_NO_TIMERFD KLOOP_ENGINE_NO_AUTOWAKE
        KLOOP_ENGINE_PREFAULT KLOOP_ENGINE_ANY_THREAD KLOOP_NOT_PERSISTED KLOOP_MAYBE_PERSISTED
        KLOOP_PERSISTED KLOOP_NO_TOPIC KLOOP_PARTITION_ANY KLOOP_RESPOND_CLOSE
    }
    variants! { to; kloop_event_type as u32:
        KLOOP_EV_POSTED KLOOP_EV_CLOSED KLOOP_EV_ERROR KLOOP_EV_READY KLOOP_EV_REPLY
        KLOOP_EV_DELIVERED KLOOP_EV_WRITABLE KLOOP_EV_FLUSHED KLOOP_EV_RECORDS KLOOP_EV_EOF
        KLOOP_EV_CONN_OPEN KLOOP_EV_REQUEST KLOOP_EV_SENT KLOOP_EV_CONN_CLOSED
    }
    variants! { to; kloop_status_code as i32:
        KLOOP_OK KLOOP_E_INVALID KLOOP_E_AGAIN KLOOP_E_NOMEM KLOOP_E_CLOSED KLOOP_E_TIMEOUT KLOOP_E_IO
        KLOOP_E_TLS KLOOP_E_AUTH KLOOP_E_PROTOCOL KLOOP_E_STALE KLOOP_E_CANCELED KLOOP_E_REENTRANT
        KLOOP_E_THREAD KLOOP_E_UNSUPPORTED KLOOP_E_ABI KLOOP_E_TOO_LARGE KLOOP_E_REFUSED KLOOP_E_RESOLVE
        KLOOP_E_PANIC KLOOP_E_POISONED
    }
}

fn assertions() -> Assertions {
    let text = "\
        #include \"kloop.h\"\n\
        #ifdef __cplusplus\n\
        # define ALIGNOF(type) alignof(type)\n\
        #else\n\
        # define ALIGNOF(type) __alignof__(type)\n\
        #endif\n"
        .to_owned();
    let mut to = Assertions { text, named: Vec::new() };
    structs(&mut to);
    numbers(&mut to);
    to
}

/// What the header declares: structs, unions, their fields, constants and enum values.
fn declared() -> Vec<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("include/kloop.h");
    let header = fs::read_to_string(path).expect("include/kloop.h");
    let mut names = Vec::new();
    let (mut of, mut comment) = (None, false);
    for line in header.lines().map(str::trim) {
        comment |= line.starts_with("/*");
        let code = !comment && !line.starts_with("//");
        comment &= !line.ends_with("*/");
        if !code {
            continue;
        }
        let word = |text: &str| text.split([' ', '(', ',', '=']).next().unwrap_or("").to_owned();
        if let Some(rest) = line.strip_prefix("#define ") {
            let skipped = ["KLOOP_H", "KLOOP_VERSION_NUM", "KLOOP_NOEXCEPT", "KLOOP_MUST_USE"];
            names.extend(Some(word(rest)).filter(|name| !skipped.contains(&name.as_str())));
        } else if line.starts_with("KLOOP_") && line.contains(" = ") {
            names.push(word(line));
        } else if let Some(rest) = line.strip_prefix("typedef ").filter(|l| l.ends_with('{')) {
            let name = rest.split(' ').nth(1).expect("typedef struct NAME {").to_owned();
            names.push(name.clone());
            of = Some(name);
        } else if line.starts_with('}') {
            of = None;
        } else if let Some(of) = of.as_ref().filter(|_| line.ends_with(';')) {
            let field = line.trim_end_matches(';').split('[').next().unwrap_or("");
            let field = field.rsplit([' ', '*']).next().unwrap_or("");
            names.push(format!("{of}.{field}"));
        }
    }
    names
}

#[test]
fn nothing_of_the_header_is_left_out() {
    let (mut named, mut declared) = (assertions().named, declared());
    named.sort();
    declared.sort();
    let only = |here: &[String], there: &[String]| -> Vec<String> {
        here.iter().filter(|name| !there.contains(name)).cloned().collect()
    };
    let (undeclared, unnamed) = (only(&named, &declared), only(&declared, &named));
    assert!(undeclared.is_empty() && unnamed.is_empty(), "{undeclared:?} {unnamed:?}");
}

#[test]
fn c_and_rust_agree_on_every_size_offset_and_value() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("layout.c");
    fs::write(&file, assertions().text).expect("the folder for tests can be written");
    let include = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("include");
    let c = ["c99", "c11", "c17", "c2x"];
    let cxx = ["c++11", "c++14", "c++17", "c++20"];
    let mut compiled = 0;
    for (compiler, language, standards) in
        [("gcc", "c", c), ("g++", "c++", cxx), ("clang", "c", c), ("clang++", "c++", cxx)]
    {
        for standard in standards {
            let call = Command::new(compiler)
                .args([&format!("-std={standard}"), "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
                .args(["-Wno-unused-local-typedefs", "-fsyntax-only", "-x", language, "-I"])
                .arg(&include)
                .arg(&file)
                .output();
            let Ok(done) = call else {
                eprintln!("skipped: no {compiler} here");
                break;
            };
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{compiler} -std={standard}: {said}");
            compiled += 1;
        }
    }
    assert!(compiled >= 4, "no C compiler here: 'apt-get install gcc g++'");
}
