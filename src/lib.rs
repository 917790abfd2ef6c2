//! kloop
pub mod error;
pub mod logging;
pub mod net;
pub mod protocol;
mod sync;
pub mod time;
