//! CRC-32C (Castagnoli, "iSCSI"), the checksum of record batches.

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC-32C of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The CRC-32C of bytes that come in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// Of no bytes yet.
    pub fn new() -> Self {
        Crc32c(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The CRC of all pieces so far; more may follow.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Crc32c::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors() {
        // The check value of the CRC catalogue, and the four vectors of RFC 3720, appendix B.4.
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xff; 32]), 0x62A8_AB43);
        let up: [u8; 32] = core::array::from_fn(|i| i as u8);
        assert_eq!(crc32c(&up), 0x46DD_794E);
        let down: [u8; 32] = core::array::from_fn(|i| 31 - i as u8);
        assert_eq!(crc32c(&down), 0x113F_DB5C);
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let bytes: [u8; 1500] = core::array::from_fn(|i| (i * 31 + i / 7) as u8);
        for cut in [0, 1, 15, 16, 63, 64, 255, 1024, 1499, 1500] {
            let mut crc = Crc32c::new();
            crc.update(&bytes[..cut]);
            crc.update(&bytes[cut..]);
            assert_eq!(crc.value(), crc32c(&bytes), "cut at {cut}");
        }
    }
}
