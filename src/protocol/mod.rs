//! Protocol: bytes in, bytes out. No clock, no I/O, no allocation.
pub mod declare;
pub mod messages;
pub mod reader;
pub mod varint;
pub mod writer;
