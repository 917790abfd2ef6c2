//! kloop_slice and its kin: borrowed views that cross the boundary (unsafe).

use crate::error::Error;
use core::ffi::{CStr, c_char, c_void};

/// Borrowed bytes. `data` NULL is Kafka's null; a `len` of 0 with `data` set is an empty value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_slice {
    /// The first byte, or NULL.
    pub data: *const c_void,
    /// How many bytes.
    pub len: usize,
}

/// A record header: a key that is never null, and a value that may be.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_header {
    /// The key.
    pub key: kloop_slice,
    /// The value.
    pub value: kloop_slice,
}

/// A configuration property by Kafka's own name, such as "linger.ms", "5".
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_prop {
    /// The name, zero-terminated.
    pub key: *const c_char,
    /// The value, zero-terminated.
    pub value: *const c_char,
}

/// A topic name, interned by `kloop_client_topic`; valid for that client.
pub type kloop_topic = u32;

/// A partition and an offset in it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_tp {
    /// The topic.
    pub topic: kloop_topic,
    /// The partition.
    pub partition: i32,
    /// An offset: 0 and above, `KLOOP_OFFSET_LATEST` or `KLOOP_OFFSET_EARLIEST`.
    pub offset: i64,
}

/// As an offset: behind the last record.
pub const KLOOP_OFFSET_LATEST: i64 = -1;
/// As an offset: at the first record.
pub const KLOOP_OFFSET_EARLIEST: i64 = -2;

impl kloop_slice {
    /// Kafka's null.
    pub(super) const NULL: kloop_slice = kloop_slice { data: core::ptr::null(), len: 0 };

    pub(super) fn of(bytes: &[u8]) -> Self {
        kloop_slice { data: bytes.as_ptr().cast(), len: bytes.len() }
    }

    pub(super) fn of_nullable(bytes: Option<&[u8]>) -> Self {
        bytes.map_or(kloop_slice::NULL, kloop_slice::of)
    }

    /// The bytes, or `None` for null.
    ///
    /// # Safety
    /// `data` is NULL or points at `len` readable bytes that stay as they are for `'a`.
    pub(super) unsafe fn nullable<'a>(self) -> Result<Option<&'a [u8]>, Error> {
        if self.data.is_null() {
            return if self.len == 0 {
                Ok(None)
            } else {
                Err(Error::Invalid("NULL with a length"))
            };
        }
        if self.len > isize::MAX as usize {
            return Err(Error::Invalid("a length over the address space"));
        }
        // SAFETY: not null, and the caller vouches for the rest.
        Ok(Some(unsafe { core::slice::from_raw_parts(self.data.cast(), self.len) }))
    }
}

/// An array that C passes as pointer and count.
///
/// # Safety
/// `data` points at `n` readable values that stay as they are for `'a`, or `n` is 0.
pub(super) unsafe fn array<'a, T>(data: *const T, n: usize) -> Result<&'a [T], Error> {
    if n == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Error::Invalid("NULL with a count"));
    }
    if !data.is_aligned() || n > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Error::Invalid("an array that cannot be"));
    }
    // SAFETY: not null, aligned, of a size that can be; the caller vouches for the rest.
    Ok(unsafe { core::slice::from_raw_parts(data, n) })
}

/// A zero-terminated text.
///
/// # Safety
/// `text` is NULL or zero-terminated, and stays as it is for `'a`.
pub(super) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Error> {
    if text.is_null() {
        return Err(Error::Invalid("a text is NULL"));
    }
    // SAFETY: not null; the caller vouches for the zero.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Error::Invalid("a text is not UTF-8"))
}

/// Properties as pairs.
///
/// # Safety
/// As for [`array`] and, per property, [`text`].
pub(super) unsafe fn properties<'a>(
    props: *const kloop_prop,
    n: usize,
) -> Result<Vec<(&'a str, &'a str)>, Error> {
    // SAFETY: passed on from the caller.
    let props = unsafe { array(props, n) }?;
    let mut pairs = Vec::with_capacity(props.len());
    for prop in props {
        // SAFETY: passed on from the caller.
        let key = unsafe { text(prop.key) }?;
        // SAFETY: passed on from the caller.
        let value = unsafe { text(prop.value) }?;
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// Writes an output.
///
/// # Safety
/// `out` is NULL or writable.
pub(super) unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Error> {
    if out.is_null() {
        return Err(Error::Invalid("an output is NULL"));
    }
    // SAFETY: not null; the caller vouches that it is writable.
    unsafe { out.write(value) };
    Ok(())
}
