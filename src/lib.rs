//! kloop
pub mod broker;
pub mod client;
pub mod error;
pub mod logging;
pub mod net;
pub mod properties;
pub mod protocol;
mod sync;
pub mod time;
