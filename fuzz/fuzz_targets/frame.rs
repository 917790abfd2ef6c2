//! The framing: sizes, growth and cutting, whatever pieces the bytes arrive in.

#![no_main]

// The function exists only where the fuzzer builds; a plain `cargo check` passes without it.
#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kloop::net::fuzz::fuzz_frame(bytes));
