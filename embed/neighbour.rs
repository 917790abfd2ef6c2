//! Somebody else's Rust library in the same program: it has a runtime of its own, and catches its
//! own panics, as kloop does.
use std::panic::{catch_unwind, resume_unwind};

/// 0 when a panic of this library is caught by this library.
#[unsafe(no_mangle)]
pub extern "C" fn neighbour() -> i32 {
    let words: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let caught = catch_unwind(|| -> usize { resume_unwind(Box::new(7_u32)) });
    i32::from(words.concat().len() != 190 || caught.is_ok())
}
