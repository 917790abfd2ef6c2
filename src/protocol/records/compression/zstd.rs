//! Zstandard: frames by the reference implementation, each straight into the output, which is its
//! window: however large a window a frame asks for, no memory is taken for it.

use super::inflater::{InflateError, bad};
use zstd_safe::{DCtx, get_frame_content_size};

/// The library's number for an output that is too small. A code is the number, negated.
const TOO_SMALL: usize = 70_usize.wrapping_neg();

/// A decoder; 96 KB, which the library takes when it is made.
pub(super) struct Zstd(DCtx<'static>);

impl Zstd {
    pub(super) fn new() -> Option<Self> {
        DCtx::try_create().map(Zstd)
    }

    pub(super) fn inflate(&mut self, from: &[u8], to: &mut [u8]) -> Result<usize, InflateError> {
        if from.is_empty() {
            return bad("an empty zstd stream");
        }
        match self.0.decompress(to, from) {
            Ok(len) => Ok(len),
            Err(TOO_SMALL) => Err(InflateError::Full),
            Err(_) => bad("a zstd frame that cannot be"),
        }
    }
}

/// The length in the first frame's header, if it says one.
pub(super) fn announced(from: &[u8]) -> Option<usize> {
    usize::try_from(get_frame_content_size(from).ok()??).ok()
}
