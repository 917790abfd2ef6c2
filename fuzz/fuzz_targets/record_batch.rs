//! Record batches, as a fetched range and as bare records.

#![no_main]

// The function exists only where the fuzzer builds; a plain `cargo check` passes without it.
#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kloop::protocol::fuzz::fuzz_record_batch(bytes));
