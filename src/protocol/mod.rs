//! Bytes in, bytes out: headers, messages, record batches. No clock, no I/O, no allocation.
pub mod declare;
pub mod reader;
pub mod varint;
pub mod writer;
pub mod messages;
