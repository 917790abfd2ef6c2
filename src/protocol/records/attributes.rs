//! The attribute bits of a batch: codec, clock, transaction, control.

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// Not at all.
    #[default]
    None = 0,
    /// gzip.
    Gzip = 1,
    /// Snappy, in the framing of the Java library.
    Snappy = 2,
    /// LZ4 frames.
    Lz4 = 3,
    /// Zstandard; Produce from v7 and Fetch from v10 on.
    Zstd = 4,
}

impl Compression {
    /// The codec of a number; `None` for those that Kafka has not given out.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Compression> {
        Some(match code {
            0 => Compression::None,
            1 => Compression::Gzip,
            2 => Compression::Snappy,
            3 => Compression::Lz4,
            4 => Compression::Zstd,
            _ => return None,
        })
    }

    /// The name in `compression.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

/// Whose clock stamped the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's: each record has its own.
    Create,
    /// The broker's: all records have the batch's max timestamp.
    LogAppend,
}

/// The attribute bits of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    const COMPRESSION: i16 = 0x07;
    const LOG_APPEND: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// The codec's number as it stands there, given out or not.
    #[inline]
    pub const fn compression_code(self) -> u8 {
        (self.0 & Self::COMPRESSION) as u8
    }

    /// The codec; `None` for a number that Kafka has not given out.
    #[inline]
    pub const fn compression(self) -> Option<Compression> {
        Compression::from_code(self.compression_code())
    }

    /// Whether the records are compressed, be it by a codec that Kafka has not given out.
    #[inline]
    pub const fn is_compressed(self) -> bool {
        self.compression_code() != Compression::None as u8
    }

    /// Whose clock stamped the records.
    #[inline]
    pub const fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND == 0 {
            TimestampType::Create
        } else {
            TimestampType::LogAppend
        }
    }

    /// Whether the batch belongs to a transaction.
    #[inline]
    pub const fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the records are markers of Kafka itself, such as the end of a transaction.
    #[inline]
    pub const fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether the base timestamp tells when tombstones may go (compacted topics).
    #[inline]
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// With this codec.
    #[must_use]
    pub const fn with_compression(self, codec: Compression) -> Self {
        Attributes(self.0 & !Self::COMPRESSION | codec as i16)
    }

    /// With the broker's clock.
    #[must_use]
    pub const fn with_log_append_time(self) -> Self {
        Attributes(self.0 | Self::LOG_APPEND)
    }

    /// As part of a transaction.
    #[must_use]
    pub const fn with_transactional(self) -> Self {
        Attributes(self.0 | Self::TRANSACTIONAL)
    }

    /// As markers of Kafka itself.
    #[must_use]
    pub const fn with_control(self) -> Self {
        Attributes(self.0 | Self::CONTROL)
    }
}
