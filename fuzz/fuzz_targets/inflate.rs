//! Compressed records, bare and in a batch.

#![no_main]

// The function exists only where the fuzzer builds; a plain `cargo check` passes without it.
#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kloop::protocol::fuzz::fuzz_inflate(bytes));
