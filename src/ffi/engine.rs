//! kloop_engine_* and kloop_poll: the loop (unsafe).

use super::boundary::{describe, guard, on_engine, report};
use super::config::{
    ABI, KLOOP_ENGINE_ANY_THREAD, KLOOP_ENGINE_NO_AUTOWAKE, KLOOP_ENGINE_NO_TIMERFD,
    KLOOP_ENGINE_PREFAULT, kloop_engine_config, kloop_error, read,
};
use super::event::{convert, kloop_event, kloop_lease, release};
use super::handle::{self, Inner, Refused, kloop_engine};
use super::slice::{array, put};
use super::status::{kloop_status, kloop_status_code as code};
use crate::engine::{Engine, EngineConfig, TABLE_MAX};
use crate::error::Error;
use crate::guard::keep_quiet;
use crate::logging::{Level, Logger};
use crate::net::pool::{ARENA_ALIGN, CallerMemory, Memory};
use crate::net::slots::Slots;
use crate::sync::{Arc, Mutex};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::NonNull;
use core::time::Duration;

/// Counters of an engine. Grows at the end: pass `sizeof` of the struct you know.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct kloop_stats {
    /// Calls of `kloop_poll`.
    pub polls: u64,
    /// Events handed out.
    pub events: u64,
    /// Bytes read from sockets.
    pub bytes_in: u64,
    /// Bytes written to sockets.
    pub bytes_out: u64,
    /// Bytes of the pool that are out.
    pub mem_used: u64,
    /// Bytes of the pool.
    pub mem_total: u64,
    /// Leases that the host holds.
    pub leases: u64,
    /// Posts refused because too many were waiting.
    pub posts_refused: u64,
    /// System calls made by turns.
    pub syscalls: u64,
}

/// The C log sink. The lock keeps lines apart, and lets the engine's end wait for the last one.
pub(super) struct LogSink(Mutex<Option<LogFn>>);

#[derive(Clone, Copy)]
struct LogFn {
    write: unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize),
    ctx: *mut c_void,
}

// SAFETY: the contract of `kloop_log_fn`: the broker's threads call it too.
unsafe impl Send for LogFn {}

impl LogSink {
    pub(super) fn line(&self, level: Level, text: &str) {
        let open = self.0.lock();
        let Some(LogFn { write, ctx }) = *open else { return };
        // SAFETY: the host gave this function for such calls; the text lives through it.
        unsafe { write(ctx, level as u32, text.as_ptr().cast(), text.len()) };
    }

    /// No line comes after this, not even from a thread that could not be joined.
    pub(super) fn close(&self) {
        *self.0.lock() = None;
    }
}

fn logger(config: &kloop_engine_config) -> Result<(Logger, Option<Arc<LogSink>>), Error> {
    let level = match config.log_level {
        1 => Level::Error,
        0 | 2 => Level::Warn,
        3 => Level::Info,
        4 => Level::Debug,
        _ => return Err(Error::Invalid("log_level is 1 to 4")),
    };
    let Some(write) = config.log else { return Ok((Logger::silent(), None)) };
    let sink = Arc::new(LogSink(Mutex::new(Some(LogFn { write, ctx: config.log_ctx }))));
    let lines = Arc::clone(&sink);
    let logger = Logger::new(level, Arc::new(move |level, text: &str| lines.line(level, text)));
    Ok((logger, Some(sink)))
}

fn engine_config(config: &kloop_engine_config, logger: Logger) -> Result<EngineConfig, Error> {
    const KNOWN: u32 = KLOOP_ENGINE_NO_TIMERFD
        | KLOOP_ENGINE_NO_AUTOWAKE
        | KLOOP_ENGINE_PREFAULT
        | KLOOP_ENGINE_ANY_THREAD;
    if config.flags & !KNOWN != 0 || config.backend != 0 || config.reserved0 != 0 {
        return Err(ABI);
    }
    if config.max_handles.max(config.max_leases) as usize > TABLE_MAX {
        return Err(Error::Invalid("max_handles and max_leases are 1048576 at most"));
    }
    let mut out = EngineConfig { logger, ..EngineConfig::default() };
    let or = |value: u32, default: usize| if value == 0 { default } else { value as usize };
    if config.memory_limit != 0 {
        out.memory_limit = config.memory_limit;
    }
    out.memory = Memory::Map { prefault: config.flags & KLOOP_ENGINE_PREFAULT != 0 };
    if let Some(arena) = NonNull::new(config.arena.cast::<u8>()) {
        // The blocks begin at a multiple of this, wherever the arena does.
        let skipped = arena.align_offset(ARENA_ALIGN);
        out.memory_limit = config.arena_size.saturating_sub(skipped);
        // SAFETY: the contract of `arena`: `arena_size` bytes that live as long as the engine.
        let memory = unsafe { CallerMemory::new(arena, config.arena_size, None) };
        out.memory = Memory::Caller(memory);
    }
    out.max_connections = or(config.max_conns, out.max_connections);
    out.max_pieces = or(config.max_inflight, out.max_pieces);
    out.max_posts = or(config.max_posts, out.max_posts);
    out.budget.bytes = or(config.io_budget, out.budget.bytes);
    out.autowake = config.flags & KLOOP_ENGINE_NO_AUTOWAKE == 0;
    out.timer_descriptor = config.flags & KLOOP_ENGINE_NO_TIMERFD == 0;
    Ok(out)
}

/// Makes an engine; it belongs to the calling thread. On failure nothing is written to `out`, and
/// `err`, if given, says why.
///
/// # Safety
/// `cfg` is NULL (all defaults) or prepared by `kloop_engine_config_init`; `out` is writable; `err`
/// is NULL or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_engine_new(
    cfg: *const kloop_engine_config,
    out: *mut *mut kloop_engine,
    err: *mut kloop_error,
) -> kloop_status {
    let made = guard(Err(Error::Bug("a panic was caught")), || {
        if out.is_null() {
            return Err(Error::Invalid("out is NULL"));
        }
        let mut config = default_config();
        if !cfg.is_null() {
            // SAFETY: passed on from the caller.
            config = unsafe { read(cfg) }?;
        }
        keep_quiet();
        let (logger, log) = logger(&config)?;
        let engine = Engine::new(engine_config(&config, logger)?)?;
        let or = |value: u32, default: u32| if value == 0 { default } else { value };
        let leases = Slots::new(or(config.max_leases, 4096) as usize);
        let inner = Inner { engine, leases, held: None };
        let any_thread = config.flags & KLOOP_ENGINE_ANY_THREAD != 0;
        Ok(kloop_engine::make(inner, or(config.max_handles, 64) as usize, any_thread, log))
    });
    match made {
        Ok(shell) => {
            // SAFETY: not null (checked above); the caller vouches that it is writable.
            unsafe { out.write(shell) };
            0
        }
        // SAFETY: passed on from the caller.
        Err(error) => unsafe { report(err, error, "", None) },
    }
}

fn default_config() -> kloop_engine_config {
    kloop_engine_config {
        struct_size: size_of::<kloop_engine_config>() as u32,
        abi: super::version::KLOOP_ABI,
        flags: 0,
        backend: 0,
        memory_limit: 0,
        arena: core::ptr::null_mut(),
        arena_size: 0,
        max_conns: 0,
        max_inflight: 0,
        max_posts: 0,
        io_budget: 0,
        log: None,
        log_ctx: core::ptr::null_mut(),
        log_level: 0,
        max_handles: 0,
        max_leases: 0,
        reserved0: 0,
    }
}

/// Ends an engine: sockets close, memory and leases are gone; waits for the threads of brokers that were
/// started. NULL is ignored. Its other handles
/// may be freed before or after, and answer `KLOOP_E_CLOSED` meanwhile.
///
/// After `fork` the engine is the parent's. In the child every call answers `KLOOP_E_THREAD`, but the
/// `_free` functions: they close the child's copies of descriptors and give back memory, and the
/// parent and its peers notice nothing. A child that calls exec or _exit need not call them.
///
/// # Safety
/// `e` is NULL or an engine handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_engine_free(e: *mut kloop_engine) {
    guard((), || {
        // SAFETY: passed on from the caller.
        match unsafe { handle::shell(e) } {
            // SAFETY: `shell` accepted it.
            Ok(_) => unsafe { handle::release_engine(e) },
            // SAFETY: `shell` says so.
            Err(Refused::Forked) => unsafe { handle::discard_engine(e) },
            Err(_) => {}
        }
    });
}

/// Makes the calling thread the engine's, after the host has synchronised the two threads.
///
/// # Safety
/// `e` is NULL or an engine handle, and no call on it runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_engine_take(e: *mut kloop_engine) -> kloop_status {
    guard(code::KLOOP_E_PANIC as i32, || {
        // SAFETY: passed on from the caller.
        match unsafe { handle::shell(e) } {
            Ok(_) => 0,
            Err(handle::Refused::Thread) => {
                // SAFETY: `shell` found a live engine and refused only the thread.
                unsafe { &*e }.take();
                0
            }
            Err(refused) => refused.status(),
        }
    })
}

/// The descriptor to watch for reading, level-triggered; readable means call `kloop_poll`. The same
/// for the engine's life; never read, write or close it. A host that watches edge-triggered polls
/// until `kloop_engine_timeout` is not 0. Negative: a status.
///
/// # Safety
/// `e` is NULL or an engine handle.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_engine_fd(e: *const kloop_engine) -> c_int {
    // SAFETY: passed on from the caller.
    unsafe { on_engine(e, |inner| Ok(inner.engine.fd())) }
}

/// Nanoseconds until there is work: 0 for now, -1 for not before something arrives; below that a
/// status. Needed with `KLOOP_ENGINE_NO_TIMERFD`, and by hosts that watch edge-triggered.
///
/// # Safety
/// `e` is NULL or an engine handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_engine_timeout(e: *const kloop_engine) -> i64 {
    let mut timeout = -1;
    let status = {
        let timeout = &mut timeout;
        // SAFETY: passed on from the caller.
        unsafe {
            on_engine(e, |inner| {
                let work = inner.held.is_some() && !inner.leases.is_full();
                let next = if work { Some(Duration::ZERO) } else { inner.engine.timeout() };
                *timeout = next.map_or(-1, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX));
                Ok(0)
            })
        }
    };
    if status < 0 { i64::from(status) } else { timeout }
}

/// Runs the engine and fills `events` with up to `cap` events; says how many, or a negative
/// status. `timeout_ns`: 0 does not sleep, -1 sleeps until there are events. With `cap` 0 it does
/// one turn of I/O. Events that do not fit stay, and the descriptor stays readable. While every
/// lease (`max_leases`) is with the host, an event that needs one waits; with `timeout_ns` -1 it then
/// returns 0 at once, because nobody could end its sleep.
///
/// # Safety
/// `e` is NULL or an engine handle; `events` points at `cap` writable events.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_poll(
    e: *mut kloop_engine,
    events: *mut kloop_event,
    cap: u32,
    timeout_ns: i64,
) -> i32 {
    let call = |inner: &mut Inner| {
        if cap > 0 && (events.is_null() || !events.is_aligned()) {
            return Err(Error::Invalid("events is NULL"));
        }
        if timeout_ns < -1 {
            return Err(Error::Invalid("timeout_ns is below -1"));
        }
        let timeout = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
        let cap = cap.min(i32::MAX as u32) as usize;
        poll(inner, cap, timeout, |i, event| {
            // SAFETY: `i` is below `cap`; the caller vouches for that many events.
            let at = unsafe { events.add(i) };
            // SAFETY: as above.
            unsafe { at.write(event) };
        })
    };
    // SAFETY: passed on from the caller.
    unsafe { on_engine(e, call) }
}

/// Pulls events until the array is full, none is left, or one's lease finds no place.
fn poll(
    inner: &mut Inner,
    cap: usize,
    timeout: Option<Duration>,
    mut put: impl FnMut(usize, kloop_event),
) -> Result<i32, Error> {
    let mut count = 0;
    if cap > 0
        && let Some(held) = inner.held.take()
    {
        match convert(inner, held) {
            Ok(event) => {
                put(count, event);
                count += 1;
            }
            Err(held) => inner.held = Some(held),
        }
    }
    // With every lease out nothing can be handed over until the host gives one back, which it
    // cannot while it sleeps here: not for ever.
    let stuck = inner.held.is_some() && timeout.is_none();
    inner.engine.begin_poll(if count > 0 || stuck { Some(Duration::ZERO) } else { timeout });
    loop {
        inner.engine.turn()?;
        while count < cap {
            // With every lease out only posts go on: one may bring a lease back.
            let event = match inner.held {
                Some(_) => inner.engine.next_posted(),
                None => inner.engine.next_event(),
            };
            let Some(event) = event else { break };
            match convert(inner, event) {
                Ok(event) => {
                    put(count, event);
                    count += 1;
                }
                Err(event) => inner.held = Some(event),
            }
        }
        let blocked = inner.held.is_some();
        let stuck = blocked && timeout.is_none();
        if inner.engine.end_turn(blocked) || count > 0 || cap == 0 || stuck {
            return Ok(count as i32);
        }
    }
}

/// Gives leases back. Zero is ignored; one that was given back before, or is none, is too, and shows
/// in `kloop_engine_error`.
///
/// # Safety
/// `e` is NULL or an engine handle; `leases` points at `n` leases.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_release(e: *mut kloop_engine, leases: *const kloop_lease, n: usize) {
    let call = |inner: &mut Inner| {
        // SAFETY: passed on from the caller.
        let leases = unsafe { array(leases, n) }?;
        let mut stale = false;
        leases.iter().for_each(|lease| stale |= !release(inner, *lease));
        inner.engine.touch();
        if inner.held.is_some() {
            inner.engine.signal();
        }
        if stale { Err(Error::Stale) } else { Ok(0) }
    };
    // The function gives nothing back; what is wrong shows in `kloop_engine_error`.
    // SAFETY: passed on from the caller.
    let _ = unsafe { on_engine(e, call) };
}

/// What went wrong last in a call on this engine or one of its handles, since it was made; a call
/// that goes well does not clear it. `code` is also one of Kafka's, where the call gave
/// `KLOOP_E_REFUSED`.
///
/// # Safety
/// `e` is NULL or an engine handle; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_engine_error(e: *const kloop_engine, out: *mut kloop_error) {
    guard((), || {
        // SAFETY: passed on from the caller.
        let filled = match unsafe { handle::shell(e) } {
            Ok(shell) => {
                let last = shell.last_error();
                describe(last.status, last.error, "", None)
            }
            Err(refused) => describe(refused.status(), refused.error(), "", None),
        };
        // Nothing to do about an output that is NULL.
        // SAFETY: passed on from the caller.
        let _ = unsafe { put(out, filled) };
    });
}

/// Copies as many counters as fit into `size` bytes.
///
/// # Safety
/// `e` is NULL or an engine handle; `out` points at `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kloop_engine_stats(
    e: *const kloop_engine,
    out: *mut kloop_stats,
    size: usize,
) -> kloop_status {
    let call = |inner: &mut Inner| {
        if out.is_null() {
            return Err(Error::Invalid("out is NULL"));
        }
        let stats = inner.engine.stats();
        let filled = kloop_stats {
            polls: stats.polls,
            events: stats.events,
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
            mem_used: stats.mem_used,
            mem_total: stats.mem_total,
            leases: inner.leases.len() as u64,
            posts_refused: stats.posts_refused,
            syscalls: stats.syscalls,
        };
        let n = size.min(size_of::<kloop_stats>());
        let from = core::ptr::from_ref(&filled).cast::<u8>();
        // SAFETY: at most the struct's size is read, at most `size` bytes are written.
        unsafe { core::ptr::copy_nonoverlapping(from, out.cast::<u8>(), n) };
        Ok(0)
    };
    // SAFETY: passed on from the caller.
    unsafe { on_engine(e, call) }
}
