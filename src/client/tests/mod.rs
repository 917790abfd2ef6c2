//! The client against a scripted cluster: frames in, frames out, time by hand, no sockets.
#![allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "tests may grow")]

mod cluster;
mod connection;
mod consumer;
mod damage;
mod faults;
mod metadata;
mod producer;
mod raw;
mod wire;
mod world;
