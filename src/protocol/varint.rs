//! Unsigned and zig-zag varints, and their encoded length.

/// Reads an unsigned varint: the value and how many bytes it took, or `None` if it is cut short or
/// longer than a u32 can be.
#[inline]
pub fn read_u32(bytes: &[u8]) -> Option<(u32, usize)> {
    let (value, n) = read(bytes, 5)?;
    // The fifth byte holds four bits.
    Some((u32::try_from(value).ok()?, n))
}

/// Reads an unsigned varlong: the value and how many bytes it took.
#[inline]
pub fn read_u64(bytes: &[u8]) -> Option<(u64, usize)> {
    let read = read(bytes, 10)?;
    // The tenth byte holds one bit.
    let lost = bytes.get(9).is_some_and(|&last| last > 1);
    (read.1 < 10 || !lost).then_some(read)
}

#[inline]
fn read(bytes: &[u8], most: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for (i, &byte) in bytes.get(..most).unwrap_or(bytes).iter().enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// How many bytes an unsigned varint takes.
#[inline]
pub const fn len_u32(value: u32) -> usize {
    len_u64(value as u64)
}

/// How many bytes an unsigned varlong takes.
#[inline]
pub const fn len_u64(value: u64) -> usize {
    // Counting bits is slow on older targets, and nearly every length is below this.
    if value < 1 << 14 {
        return 1 + (value >= 1 << 7) as usize;
    }
    // One byte per seven bits: bits / 7 rounded up, without a division.
    let bits = 64 - (value | 1).leading_zeros() as usize;
    (bits * 9 + 64) >> 6
}

/// Zig-zag: small magnitudes become small unsigned numbers.
#[inline]
pub const fn zigzag_i32(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)) as u32
}

/// Zig-zag of a 64-bit value.
#[inline]
pub const fn zigzag_i64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Writes `value` to the front of `out` and says how many bytes it took; `None` if they do not fit.
#[inline]
pub fn write_u64(mut value: u64, out: &mut [u8]) -> Option<usize> {
    let mut i = 0;
    loop {
        let slot = out.get_mut(i)?;
        i += 1;
        if value < 0x80 {
            *slot = value as u8;
            return Some(i);
        }
        *slot = value as u8 | 0x80;
        value >>= 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_is_read_and_as_long_as_said() {
        let edges = (0..64).flat_map(|s| [(1u64 << s) - 1, 1u64 << s]).chain([u64::MAX]);
        for value in edges {
            let mut buf = [0; 10];
            let n = write_u64(value, &mut buf).unwrap();
            assert_eq!(n, len_u64(value), "{value}");
            assert_eq!(read_u64(&buf[..n]), Some((value, n)));
            assert_eq!(read_u64(&buf[..n - 1]), None);
            if let Ok(small) = u32::try_from(value) {
                assert_eq!(read_u32(&buf[..n]), Some((small, n)));
            } else {
                assert_eq!(read_u32(&buf[..n]), None);
            }
        }
    }

    #[test]
    fn overlong_is_refused() {
        assert_eq!(read_u32(&[0x80; 5]), None);
        assert_eq!(read_u32(&[0xff, 0xff, 0xff, 0xff, 0x10]), None);
        assert_eq!(read_u64(&[0x80; 10]), None);
        assert_eq!(read_u64(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
    }
}
