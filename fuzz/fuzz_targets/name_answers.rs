//! Bytes of a name server as the answer to a question.

#![no_main]

// The function exists only where the fuzzer builds; a plain `cargo check` passes without it.
#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kloop::client::resolver::fuzz::fuzz_name_answer(bytes));
