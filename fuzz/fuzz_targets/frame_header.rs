//! The header before each request and answer.

#![no_main]

// The function exists only where the fuzzer builds, so that other builds of this crate still pass.
#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kloop::protocol::fuzz::fuzz_header(bytes));
