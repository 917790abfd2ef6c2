//! What a program asks of its own link: whether unwinding survived it, and what was built.

use super::boundary::guard;
use super::status::{kloop_status, kloop_status_code as code};
use core::ffi::{CStr, c_char};

/// Throws a panic inside and catches it, to see whether the program's link kept unwinding: answers
/// `KLOOP_E_PANIC`, which is good news. A program that lost it (a static one without
/// `-Wl,--eh-frame-hdr`, or a library built with `panic = "abort"`) ends here with SIGABRT, as it
/// would at a bug in kloop. Call it once in a test of your program. Prints nothing. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn kloop_check_unwind() -> kloop_status {
    // Not `panic!`: this calls no hook, and the default hook writes to the host's stderr.
    guard(code::KLOOP_E_PANIC as i32, || std::panic::resume_unwind(Box::new(())))
}

/// What this library was built of, as a static string of lines, each a name, a space and the rest:
/// `kloop` its version, `target`, `profile`, `features` (the codecs among them, or none), `rustc`,
/// and `crates`, the exact versions in it by kloop's own Cargo.lock (a Rust program that builds
/// kloop may have others). Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn kloop_build_info() -> *const c_char {
    const INFO: &CStr = match CStr::from_bytes_with_nul(include_bytes!(env!("KLOOP_BUILD_INFO"))) {
        Ok(info) => info,
        Err(_) => panic!("build.rs writes one zero byte, at the end"),
    };
    guard(c"".as_ptr(), || INFO.as_ptr())
}
