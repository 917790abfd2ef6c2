//! Inflating takes no memory: malloc is not asked, neither by Rust nor by the codec that is in C.

// Where the C library offers what its malloc is made of.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

#[path = "../src/protocol/records/compression/encoders.rs"]
mod encoders;

use encoders::{CODECS, compressed};
// For encoders.rs, which names what it uses from the root of its crate.
use kloop::protocol;
use kloop::protocol::records::batch::HEADER_LEN;
use kloop::protocol::records::{
    Attributes, BatchBuilder, BatchView, Compression, Inflater, Seal, no_headers,
};
use std::io::Write;

#[expect(unsafe_code, reason = "malloc and its kin, counted")]
mod heap {
    use core::ffi::{c_int, c_void};
    use std::cell::Cell;

    unsafe extern "C" {
        fn __libc_malloc(size: usize) -> *mut c_void;
        fn __libc_calloc(n: usize, size: usize) -> *mut c_void;
        fn __libc_realloc(old: *mut c_void, size: usize) -> *mut c_void;
        fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
    }

    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
        static BYTES: Cell<usize> = const { Cell::new(0) };
    }

    fn one_more(bytes: usize) {
        // A thread that is ending has no count any more, and is not asked for one.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        let _ = BYTES.try_with(|sum| sum.set(sum.get() + bytes));
    }

    /// Runs `f` and says how often this thread asked for memory meanwhile, and for how much.
    pub fn counted<R>(f: impl FnOnce() -> R) -> (R, u64, usize) {
        let (count, bytes) = (COUNT.get(), BYTES.get());
        let result = f();
        (result, COUNT.get() - count, BYTES.get() - bytes)
    }

    #[unsafe(no_mangle)]
    extern "C" fn malloc(size: usize) -> *mut c_void {
        one_more(size);
        // SAFETY: the caller's promise is handed on, here and below.
        unsafe { __libc_malloc(size) }
    }

    #[unsafe(no_mangle)]
    extern "C" fn calloc(n: usize, size: usize) -> *mut c_void {
        one_more(n.saturating_mul(size));
        // SAFETY: as above.
        unsafe { __libc_calloc(n, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn realloc(old: *mut c_void, size: usize) -> *mut c_void {
        one_more(size);
        // SAFETY: as above.
        unsafe { __libc_realloc(old, size) }
    }

    #[unsafe(no_mangle)]
    extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
        one_more(size);
        // SAFETY: as above.
        unsafe { __libc_memalign(align, size) }
    }

    #[unsafe(no_mangle)]
    extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
        aligned_alloc(align, size)
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
        let at = aligned_alloc(align, size);
        if at.is_null() {
            return libc::ENOMEM;
        }
        // SAFETY: the caller says where it is to go.
        unsafe { out.write(at) };
        0
    }
}

use heap::counted;

/// Text with numbers and noise in it, so that it can be compressed, but not to nothing.
fn sample(len: usize) -> Vec<u8> {
    let mut state = len as u64 + 1;
    let mut out = vec![];
    while out.len() < len {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        writeln!(out, "record {} of the topic {}", state >> 54, state >> 62).unwrap();
        out.extend_from_slice(&state.to_le_bytes()[..4]);
    }
    out.truncate(len);
    out
}

/// Linked blocks with checksums, which the inflater reads by another way than the plain ones.
#[cfg(feature = "lz4")]
fn linked_lz4(bytes: &[u8]) -> Vec<u8> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Linked);
    let mut encoder = FrameEncoder::with_frame_info(info.content_checksum(true), vec![]);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A batch with one value, compressed, and how long it is uncompressed.
fn batch(codec: Compression, pack: impl Fn(&[u8]) -> Vec<u8>, value: &[u8]) -> (Vec<u8>, usize) {
    let mut buf = vec![0; value.len() + 200];
    let mut builder = BatchBuilder::new();
    builder.append(&mut buf, 5, None, Some(value), no_headers()).unwrap();
    let packed = pack(&buf[HEADER_LEN..builder.len()]);
    let mut out = [&[0; HEADER_LEN][..], &packed].concat();
    let seal = Seal { attributes: Attributes(codec as i16), ..Seal::default() };
    builder.seal_records(&mut out, packed.len(), &seal).unwrap();
    (out, builder.len())
}

#[test]
fn the_counter_counts() {
    let (_, count, bytes) = counted(|| std::hint::black_box(Box::new([5u8; 100])));
    assert_eq!((count, bytes), (1, 100));
    let (_, count, _) = counted(|| std::hint::black_box(5) + 1);
    assert_eq!(count, 0);
    // What is taken in C is seen too: a compressor, of which nothing is in Rust.
    #[cfg(feature = "zstd")]
    {
        let (context, count, bytes) = counted(zstd_safe::CCtx::create);
        assert!(count > 0 && bytes > 1000, "{count} times, {bytes} bytes");
        drop(context);
    }
}

/// Sizes and codecs in mixed order, streams that are sound, damaged or too long, bare and in
/// batches.
#[test]
fn nothing_is_allocated_after_the_creation() {
    let mut batches = vec![];
    for len in [100_000, 1 << 10, 1 << 20, 65_536, 4_097, 300_001, 16 << 10, 777_777, 32 << 10] {
        let value = sample(len);
        for codec in CODECS {
            batches.push((*codec, batch(*codec, |records| compressed(*codec, records), &value)));
        }
        #[cfg(feature = "lz4")]
        batches.push((Compression::Lz4, batch(Compression::Lz4, linked_lz4, &value)));
    }
    let mut to = vec![0; (1 << 20) + 1000];
    let (inflater, count, bytes) = counted(Inflater::new);
    println!("creation: {count} times, {bytes} bytes");
    assert!(bytes < 150_000, "{bytes} bytes");
    let mut inflater = inflater.unwrap();
    let ((inflated, refused), count, _) = counted(|| {
        let (mut inflated, mut refused) = (0, 0);
        for (codec, (packed, total)) in &mut batches {
            let view = BatchView::parse(packed).unwrap();
            for room in [to.len(), *total, *total / 2, *total - 1, 70, *total] {
                match inflater.inflate_batch(&view, &mut to[..room]) {
                    Ok(len) => inflated += usize::from(len == *total),
                    Err(_) => refused += 1,
                }
            }
            let cut_off = &view.records_bytes()[..view.records_bytes().len() / 2];
            refused += usize::from(inflater.inflate(*codec, cut_off, &mut to).is_err());
            // Damaged in the middle; some codecs do not notice.
            let middle = packed.len() / 2;
            packed[middle..middle + 8].fill(0xff);
            let _ = inflater.inflate(*codec, &packed[HEADER_LEN..], &mut to);
        }
        (inflated, refused)
    });
    println!("{inflated} inflated, {refused} refused: {count} allocations");
    assert_eq!(count, 0);
    assert_eq!((inflated, refused), (3 * batches.len(), 4 * batches.len()));
}
