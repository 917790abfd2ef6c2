//! The C ABI: handles, argument checks, the panic boundary. Nothing else.
//!
//! Every exported function goes through `boundary`: NULL, stale handle, wrong thread, a call from
//! inside a kloop call, and a poisoned engine are answers, and no panic crosses into C. Outputs are
//! written on success only. Where a function says nothing else, it belongs to the engine's thread.
//!
//! **Handles.** `kloop_engine *` points at a shell, which outlives its engine while any handle of
//! it lives; every other handle points at a cell inside that shell. So handles may be freed in any
//! order, and a handle that was freed is told apart from a live one.
//!
//! The names are C's, so that `include/kloop.h` (generated from here by cbindgen with the feature
//! `header`) needs no table of renames; comments in this folder are written for its readers.

#![expect(unsafe_code, reason = "the C ABI is raw pointers; each block says what the caller owes")]
#![allow(non_camel_case_types, reason = "the names are C's")]

mod boundary;
mod broker;
mod client;
mod config;
mod consumer;
mod engine;
mod event;
mod handle;
mod producer;
mod reactor;
mod records;
mod self_check;
mod slice;
mod status;
#[cfg(all(test, not(miri)))]
mod tests;
mod version;
mod waker;

pub use broker::*;
pub use client::*;
pub use config::*;
pub use consumer::*;
pub use engine::*;
pub use event::*;
pub use handle::{kloop_broker, kloop_client, kloop_consumer, kloop_engine, kloop_producer};
pub use producer::*;
pub use reactor::*;
pub use records::*;
pub use self_check::*;
pub use slice::*;
pub use status::*;
pub use version::*;
pub use waker::*;
