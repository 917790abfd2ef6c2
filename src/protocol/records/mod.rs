//! Record batches, format v2 (magic 2): the only format that is read or written.
//!
//! ```text
//!  at  0  base offset            i64 ┐
//!      8  batch length           i32 │ what follows these twelve bytes
//!     12  partition leader epoch i32 │ not under the CRC: a broker writes them in place
//!     16  magic                  i8  │
//!     17  CRC-32C                u32 ┘ of everything from 21 to the end
//!     21  attributes             i16 ┐ bits 0-2 compression, 3 timestamp type,
//!     23  last offset delta      i32 │ 4 transactional, 5 control, 6 delete horizon
//!     27  base timestamp         i64 │
//!     35  max timestamp          i64 │
//!     43  producer id            i64 │ under the CRC
//!     51  producer epoch         i16 │
//!     53  base sequence          i32 │
//!     57  record count           i32 │
//!     61  records, compressed as one ┘
//!
//!  record:  length  attributes  timestamp Δ  offset Δ  key  value  headers
//!           varint  i8          varlong      varint    each a varint length (-1 null) and bytes
//! ```
//!
//! Reading hands out slices of the batch; building writes into a buffer that the caller owns and
//! keeps. [`BatchView::records`] on a compressed batch is an error that names the codec:
//! [`Inflater`] makes an uncompressed batch of it, in memory of the caller's.
//!
//! Hot: everything here.

pub mod attributes;
pub mod batch;
pub mod builder;
mod compression;
pub mod crc32c;
pub mod record;
#[cfg(test)]
pub(crate) mod test_batches;
#[cfg(test)]
mod tests;

pub use attributes::{Attributes, Compression, TimestampType};
pub use batch::{
    BatchView, Batches, RecordsError, announced_len, set_base_offset, set_log_append_time,
    set_partition_leader_epoch,
};
pub use builder::{BatchBuilder, Seal};
#[cfg(test)]
pub(crate) use compression::encoders;
pub use compression::{InflateError, Inflater, expected_len};
pub use crc32c::{Crc32c, crc32c};
pub use record::{ControlType, HeaderRef, Headers, Record, Records, no_headers};
