//! Config structs: initialised by their _init function, grown only at the end, zero always "the
//! default" (unsafe).

use super::boundary::guard;
use super::slice::kloop_prop;
use super::status::{kloop_status, kloop_status_code as code};
use super::version::KLOOP_ABI;
use crate::error::Error;
use core::ffi::{c_char, c_void};

/// What went wrong in a call that makes a handle, or last on an engine.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_error {
    /// The status.
    pub code: kloop_status,
    /// The system's errno behind it, or 0.
    pub os_errno: i32,
    /// A text for people; ends in a zero byte.
    pub msg: [c_char; 248],
}

/// Receives a log line: `level` 1 error, 2 warning, 3 information, 4 debug; `msg` is `len` bytes of
/// UTF-8 without a zero at the end. It runs inside kloop calls and must not call into the engine.
/// After `kloop_broker_start` it is also called on the broker's threads, never two lines at a time
/// though; not any more once `kloop_engine_free` has returned.
pub type kloop_log_fn =
    Option<unsafe extern "C" fn(ctx: *mut c_void, level: u32, msg: *const c_char, len: usize)>;

/// In `kloop_engine_config.flags`: no timerfd; the host obeys `kloop_engine_timeout`.
pub const KLOOP_ENGINE_NO_TIMERFD: u32 = 1;
/// In `kloop_engine_config.flags`: calls outside of `kloop_poll` do not make the descriptor
/// readable; the host calls `kloop_poll` before it waits.
pub const KLOOP_ENGINE_NO_AUTOWAKE: u32 = 2;
/// In `kloop_engine_config.flags`: touch all memory at creation, that of brokers' logs and threads too:
/// no page fault later, all of it in the resident size from the start.
pub const KLOOP_ENGINE_PREFAULT: u32 = 4;
/// In `kloop_engine_config.flags`: no thread check, for executors that move work freely and
/// synchronise themselves.
pub const KLOOP_ENGINE_ANY_THREAD: u32 = 8;

/// An engine's sizes and hooks. Zero in any field is the default; what is counted in entries is
/// 1048576 at most.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_engine_config {
    /// Written by `kloop_engine_config_init`.
    pub struct_size: u32,
    /// Written by `kloop_engine_config_init`.
    pub abi: u32,
    /// `KLOOP_ENGINE_*`.
    pub flags: u32,
    /// Reserved, 0.
    pub backend: u32,
    /// Bytes of every buffer, leased ones included; touched as they are used. Default 32 MiB, at
    /// least 3 MiB. A quarter of it, rounded down to a power of two, is the largest frame that can
    /// be received: from 16 MiB on; under that 1 MiB, and never more than 128 MiB. A peer that sends
    /// a larger one loses its connection.
    pub memory_limit: usize,
    /// Memory to use instead of a mapping of its own: initialised (from calloc or mmap), used by
    /// nobody else, alive until the engine and all its other handles are freed.
    pub arena: *mut c_void,
    /// Its size in bytes; then `memory_limit` is ignored.
    pub arena_size: usize,
    /// Connections at most. Default 1024.
    pub max_conns: u32,
    /// Pieces of unsent output at most. Default 4096.
    pub max_inflight: u32,
    /// Posts that wait at most. Default 1024.
    pub max_posts: u32,
    /// Bytes one turn may read. Default 256 KiB.
    pub io_budget: u32,
    /// Where log lines go; NULL for nowhere.
    pub log: kloop_log_fn,
    /// The first argument of `log`.
    pub log_ctx: *mut c_void,
    /// The least grave level that is wanted: 1 to 4. Default 2.
    pub log_level: u32,
    /// Handles (clients, producers, consumers, brokers) at most. Default 64.
    pub max_handles: u32,
    /// Leases that events may have lent to the host at a time. Default 4096.
    pub max_leases: u32,
    /// Reserved, 0.
    pub reserved0: u32,
}

/// What clients, producers and consumers are made of.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_conf {
    /// Written by `kloop_conf_init`.
    pub struct_size: u32,
    /// Written by `kloop_conf_init`.
    pub abi: u32,
    /// Reserved, 0.
    pub flags: u32,
    /// Reserved, 0.
    pub reserved0: u32,
    /// Comes back as `kloop_event.owner`.
    pub user: u64,
    /// Kafka's properties; borrowed for the call.
    pub props: *const kloop_prop,
    /// How many.
    pub prop_count: usize,
}

/// What a broker is made of.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_broker_conf {
    /// Written by `kloop_broker_conf_init`.
    pub struct_size: u32,
    /// Written by `kloop_broker_conf_init`.
    pub abi: u32,
    /// Reserved, 0.
    pub flags: u32,
    /// The broker's id, above 0; 0 is the default, which is 1 (an id of 0 is had with the property
    /// `node.id`).
    pub node_id: i32,
    /// Comes back as `kloop_event.owner`.
    pub user: u64,
    /// "HOST:PORT" to listen on, a numeric address or localhost; port 0 picks one. NULL: none.
    pub listen: *const c_char,
    /// "HOST:PORT" that clients are told to connect to; NULL: where it listens, or for a wildcard
    /// address the one that each connected to. Port 0: the port it listens on.
    pub advertised: *const c_char,
    /// The cluster's id: 22 characters of URL-safe base64; NULL: a random one.
    pub cluster_id: *const c_char,
    /// A bit set of API keys, 0 to 127, whose requests the host answers itself: key k is bit `k % 64`
    /// of word `k / 64`; copied. ApiVersions tells clients the versions that kloop knows of them;
    /// the host must answer each. A host that takes key 18 answers ApiVersions itself.
    pub host_apis: *const u64,
    /// Its length in 64-bit words, 2 at most.
    pub host_api_words: usize,
    /// Kafka's broker properties; borrowed for the call.
    pub props: *const kloop_prop,
    /// How many.
    pub prop_count: usize,
}

/// The threads that `kloop_broker_start` makes. Zero in any field is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kloop_reactor_conf {
    /// Written by `kloop_reactor_conf_init`.
    pub struct_size: u32,
    /// Written by `kloop_reactor_conf_init`.
    pub abi: u32,
    /// Reserved, 0.
    pub flags: u32,
    /// Threads that read and write sockets, at most 63; each takes as much memory as the engine's
    /// `memory_limit` for what it receives and sends, touched as it is used. Default 3.
    pub processors: u32,
    /// Threads that handle requests. Default 8.
    pub handlers: u32,
    /// Requests that wait for a handler at most. Default 500.
    pub max_queued: u32,
    /// Processors of the machine that the threads stay on, in turn: first those that read and write,
    /// then those that handle. NULL: anywhere.
    pub cpus: *const i32,
    /// How many.
    pub cpu_count: usize,
}

/// Zeroes `size` bytes of a config and writes its size and ABI number.
///
/// # Safety
/// `cfg` is NULL or points at `size` writable bytes, aligned for a u32.
unsafe fn init(cfg: *mut c_void, size: usize, abi: u32) -> kloop_status {
    guard(code::KLOOP_E_PANIC as i32, || {
        if cfg.is_null() || !(8..=4096).contains(&size) || !cfg.cast::<u32>().is_aligned() {
            return code::KLOOP_E_INVALID as i32;
        }
        if abi == 0 || abi > KLOOP_ABI {
            return code::KLOOP_E_ABI as i32;
        }
        // SAFETY: the caller vouches for `size` writable bytes.
        unsafe { cfg.write_bytes(0, size) };
        let words = [size as u32, abi];
        // SAFETY: at least eight bytes, aligned (checked above).
        unsafe { cfg.cast::<[u32; 2]>().write(words) };
        0
    })
}

/// Prepares an engine config. `size` is `sizeof` of the struct, `abi` is `KLOOP_ABI`. Any thread.
///
/// # Safety
/// `cfg` is NULL or points at `size` writable bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_engine_config_init(
    cfg: *mut kloop_engine_config,
    size: usize,
    abi: u32,
) -> kloop_status {
    // SAFETY: passed on from the caller.
    unsafe { init(cfg.cast(), size, abi) }
}

/// Prepares a config for a client, producer or consumer. Any thread.
///
/// # Safety
/// `cfg` is NULL or points at `size` writable bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_conf_init(
    cfg: *mut kloop_conf,
    size: usize,
    abi: u32,
) -> kloop_status {
    // SAFETY: passed on from the caller.
    unsafe { init(cfg.cast(), size, abi) }
}

/// Prepares a broker config. Any thread.
///
/// # Safety
/// `cfg` is NULL or points at `size` writable bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_broker_conf_init(
    cfg: *mut kloop_broker_conf,
    size: usize,
    abi: u32,
) -> kloop_status {
    // SAFETY: passed on from the caller.
    unsafe { init(cfg.cast(), size, abi) }
}

/// Prepares a config of a broker's threads. Any thread.
///
/// # Safety
/// `cfg` is NULL or points at `size` writable bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_reactor_conf_init(
    cfg: *mut kloop_reactor_conf,
    size: usize,
    abi: u32,
) -> kloop_status {
    // SAFETY: passed on from the caller.
    unsafe { init(cfg.cast(), size, abi) }
}

/// A struct that C fills and that starts with its size and ABI number.
///
/// # Safety
/// All zero bytes are a value of the type.
pub(super) unsafe trait Sized32: Copy {}

// SAFETY: integers, raw pointers and an optional function.
unsafe impl Sized32 for kloop_engine_config {}
// SAFETY: integers and raw pointers.
unsafe impl Sized32 for kloop_conf {}
// SAFETY: integers and raw pointers.
unsafe impl Sized32 for kloop_broker_conf {}
// SAFETY: integers and a raw pointer.
unsafe impl Sized32 for kloop_reactor_conf {}

/// Copies a config of whatever size its program knows: missing fields are zero, fields that this
/// library does not know must be.
///
/// # Safety
/// `cfg` is NULL, or was prepared by its _init function and is as large as it says.
pub(super) unsafe fn read<T: Sized32>(cfg: *const T) -> Result<T, Error> {
    if cfg.is_null() {
        return Err(Error::Invalid("the config is NULL"));
    }
    if !cfg.is_aligned() {
        return Err(Error::Invalid("the config is not aligned"));
    }
    // SAFETY: every config starts with two u32.
    let [size, abi] = unsafe { cfg.cast::<[u32; 2]>().read() };
    if !(8..=4096).contains(&size) || abi == 0 || abi > KLOOP_ABI {
        return Err(ABI);
    }
    let known = size_of::<T>().min(size as usize);
    let mut out = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `known` bytes are readable there (its size says so) and writable here.
    unsafe { core::ptr::copy_nonoverlapping(cfg.cast::<u8>(), out.as_mut_ptr().cast(), known) };
    // SAFETY: readable, as its size says.
    let tail = unsafe { core::slice::from_raw_parts(cfg.cast::<u8>(), size as usize) };
    if tail.get(known..).is_some_and(|unknown| unknown.iter().any(|byte| *byte != 0)) {
        return Err(ABI);
    }
    // SAFETY: zero bytes or what the caller wrote in its own fields; `Sized32` makes both a value.
    Ok(unsafe { out.assume_init() })
}

/// The error of a config that this library cannot read.
pub(super) const ABI: Error = Error::Abi;
