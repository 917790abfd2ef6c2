//! Protocol: bytes in, bytes out. No clock, no I/O, and no allocation but what an
//! [`Inflater`](records::Inflater) takes when it is made.
//!
//! A frame's body is a [`header`] and then one of the [`messages`], of which Produce and Fetch
//! carry [`records`]. Both directions go through two cursors, [`reader`] and [`writer`];
//! what a message consists of is declared once, in the notation of [`declare`], and gives its
//! zero-copy view and its writer.
//!
//! What holds here:
//! - Decoding is total. Any bytes give a value or [`reader::Malformed`], in work linear in their
//!   length; nothing is reserved because a peer announced it.
//! - Nothing is copied out of a message: strings and bytes are slices of it, arrays are iterators
//!   over it, and a message is checked in full before the first element is handed out.
//! - Writing never grows a buffer. What does not fit is counted, and refused at the end.
//! - Bytes after a message, and tagged fields that are not known, are passed over, as Kafka does.
//!
//! Hot: [`header`], [`varint`], [`reader`], [`writer`], [`records`], Produce and Fetch in
//! [`messages`].
//!
//! Absent: the size before a frame (a matter of the net layer), message formats older than record
//! batches v2, compressing, and what a message means (a matter of client and broker).

// Nothing here grows; tests may.
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_macros))]
#![cfg_attr(test, allow(clippy::disallowed_types, clippy::disallowed_macros))]

pub mod api_key;
mod array;
pub mod declare;
pub mod error_code;
mod fields;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod header;
pub mod messages;
pub mod reader;
pub mod records;
#[cfg(test)]
mod rng;
pub mod varint;
pub mod writer;

pub use api_key::ApiKey;
pub use declare::{Array, ArrayWriter, Message, Uuid};
pub use error_code::ErrorCode;
pub use header::{RequestHeader, ResponseHeader};
pub use reader::{Malformed, Reader};
pub use writer::{Cut, Writer};
