#![doc = include_str!("../README.md")]
//!
//! # The code, in one page
//!
//! ```text
//!   ffi        C ABI: handles, argument checks, panic boundary
//!   engine     one loop: drives clients and brokers over one selector
//!   broker     requests in, answers out │ client   records out, records in
//!   protocol   bytes as messages        │ net      sockets, frames, buffers, timers
//!   root       error, guard, logging, properties, sync, time
//! ```
//!
//! **The life of a record.** `kloop_produce` → [`client::Client::produce`] encodes it once, into its
//! partition's batch block → the batch is full or its linger is over: a turn seals it (length,
//! CRC-32C) and queues a Produce request whose body is the block itself → [`net`] writes header and
//! block in one `sendmsg` → the answer settles the batch: one event with the host's tokens → the host
//! releases the lease, and the block is free.
//!
//! **The life of a request at the broker.** A bulk read fills a block → frames are cut in place →
//! [`broker`] decodes a view, runs the handler, encodes the answer into the connection's scratch
//! block; fetched batches are pieces of the log's own blocks → one `sendmsg` per connection and turn.
//!
//! **How to read it.** Start at [`engine`], whose turn is the only loop; then [`net`] for what a turn
//! reads and writes, [`client`] or [`broker`] for what it means.

pub mod broker;
pub mod client;
pub mod engine;
pub mod error;
pub mod ffi;
mod guard;
pub mod logging;
pub mod net;
pub mod properties;
pub mod protocol;
mod sync;
pub mod time;
