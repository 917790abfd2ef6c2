//! The client against a scripted cluster: frames in, frames out, time by hand, no sockets.
#![allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]

mod answers;
mod cluster;
mod connection;
mod consumer;
mod consumer_compressed;
mod consumer_errors;
mod consumer_hostile;
mod consumer_storm;
mod damage;
mod faults;
mod idempotence;
mod metadata;
mod names;
mod producer;
mod producer_outcomes;
mod producer_room;
mod race;
mod raw;
mod wire;
mod world;
pub(super) mod zone;
