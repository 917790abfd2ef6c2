//! kloop_engine (the shell) and HandleCell: what the pointers that C holds point at, and how they are told apart from
//! pointers that were freed (unsafe).

use super::boundary::guard;
use super::engine::LogSink;
use super::status::kloop_status;
use crate::broker::HostThreads;
use crate::engine::Engine;
use crate::error::Error;
use crate::guard::Caught;
use crate::logging::Level;
use crate::net::SharedLease;
use crate::net::ring::Ring;
use crate::net::slots::{SlotId, Slots};
use crate::net::sys::fork_mark::ForkMark;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};
use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;

/// One event loop: memory, sockets, timers, events. Made by `kloop_engine_new`.
pub struct kloop_engine {
    /// [`LIVE_ENGINE`] while the shell exists; read before anything else, from any thread.
    magic: AtomicU64,
    /// Address of a thread-local of the thread that owns the engine; 0 with `ANY_THREAD`.
    thread: AtomicUsize,
    /// Handles that are not freed, the engine's own included. The shell goes with the last.
    live: Cell<usize>,
    /// Tells a child process that forked.
    mark: ForkMark,
    /// A call is running.
    busy: Cell<bool>,
    /// A bug was caught.
    poisoned: Cell<bool>,
    /// `kloop_engine_free` was called: children answer `KLOOP_E_CLOSED`.
    freed: Cell<bool>,
    inner: UnsafeCell<Option<Inner>>,
    cells: Box<[HandleCell]>,
    /// Cells not in use, oldest first: a freed cell is reused as late as possible, so that a stale
    /// pointer stays recognisable for long.
    spare: UnsafeCell<Ring<u32>>,
    last: UnsafeCell<LastError>,
    /// Closed at the end, because threads of a broker may live on that could not be joined.
    log: Option<Arc<LogSink>>,
}

/// What a running engine consists of behind its handle.
pub(super) struct Inner {
    pub(super) engine: Engine,
    /// What events lent to the host.
    pub(super) leases: Slots<SharedLease>,
    /// An event that was pulled but not handed out, because its lease found no place.
    pub(super) held: Option<crate::engine::Event>,
}

/// The engine's last failure.
#[derive(Clone, Copy)]
pub(super) struct LastError {
    pub(super) status: kloop_status,
    pub(super) error: Error,
}

/// Which type of handle a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Free,
    Client,
    Producer,
    Consumer,
    Broker,
}

/// What a child handle points at.
pub(super) struct HandleCell {
    magic: AtomicU64,
    shell: Cell<*const kloop_engine>,
    kind: Cell<Kind>,
    /// The client or broker in the engine.
    owner: Cell<SlotId>,
    /// The producer or consumer in the client.
    part: Cell<SlotId>,
    /// Of a broker with threads of its own: what any thread may use of it.
    threads: Mutex<Option<HostThreads>>,
}

/// Which object of the engine a handle names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// The client or broker in the engine.
    pub(super) owner: SlotId,
    /// The producer or consumer in the client.
    pub(super) part: SlotId,
}

// Written out, because cbindgen passes over what a macro makes.

/// One cluster: metadata, connections. Made by `kloop_client_new`.
pub struct kloop_client {
    _cell: HandleCell,
}

/// Sends records. Made by `kloop_producer_new`.
pub struct kloop_producer {
    _cell: HandleCell,
}

/// Fetches records. Made by `kloop_consumer_new`.
pub struct kloop_consumer {
    _cell: HandleCell,
}

/// The listening side. Made by `kloop_broker_new`.
pub struct kloop_broker {
    _cell: HandleCell,
}

/// Why a pointer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Null,
    Stale,
    Thread,
    /// The process is a child of the engine's.
    Forked,
    Reentrant,
    Poisoned,
    Closed,
}

const LIVE_ENGINE: u64 = 0x6b6c_6f6f_7045_4e47;
const LIVE_CHILD: u64 = 0x6b6c_6f6f_7043_484c;
const NO_SLOT: SlotId = SlotId::from_raw(0);

thread_local! {
    static HERE: u8 = const { 0 };
}

/// A number that differs between threads that live at the same time.
pub(super) fn this_thread() -> usize {
    HERE.with(|here| core::ptr::from_ref(here) as usize)
}

impl kloop_engine {
    pub(super) fn make(
        inner: Inner,
        handles: usize,
        any_thread: bool,
        log: Option<Arc<LogSink>>,
    ) -> *mut kloop_engine {
        let mut spare = Ring::new(handles);
        for index in 0..handles as u32 {
            let pushed = spare.push_back(index);
            debug_assert!(pushed.is_ok(), "the ring holds all cells");
        }
        let cell = || HandleCell {
            magic: AtomicU64::new(0),
            shell: Cell::new(core::ptr::null()),
            kind: Cell::new(Kind::Free),
            owner: Cell::new(NO_SLOT),
            part: Cell::new(NO_SLOT),
            threads: Mutex::new(None),
        };
        let shell = Box::into_raw(Box::new(kloop_engine {
            magic: AtomicU64::new(LIVE_ENGINE),
            thread: AtomicUsize::new(if any_thread { 0 } else { this_thread() }),
            live: Cell::new(1),
            mark: ForkMark::new(),
            busy: Cell::new(false),
            poisoned: Cell::new(false),
            freed: Cell::new(false),
            inner: UnsafeCell::new(Some(inner)),
            cells: (0..handles).map(|_| cell()).collect(),
            spare: UnsafeCell::new(spare),
            last: UnsafeCell::new(LastError { status: 0, error: Error::Closed }),
            log,
        }));
        // SAFETY: just made, and not given to anybody yet.
        let cells = unsafe { &(*shell).cells };
        // Once and for all: `child` reads it before it knows which thread it is on.
        cells.iter().for_each(|cell| cell.shell.set(shell));
        shell
    }

    /// Checks that this thread may use the engine now.
    fn admit(&self) -> Result<(), Refused> {
        if self.mark.is_forked() {
            return Err(Refused::Forked);
        }
        let thread = self.thread.load(Ordering::Relaxed);
        if thread != 0 && thread != this_thread() {
            return Err(Refused::Thread);
        }
        if self.busy.get() {
            return Err(Refused::Reentrant);
        }
        Ok(())
    }

    /// Makes the calling thread the engine's.
    pub(super) fn take(&self) {
        if self.thread.load(Ordering::Relaxed) != 0 {
            self.thread.store(this_thread(), Ordering::Relaxed);
        }
    }

    pub(super) fn poison(&self) {
        self.poisoned.set(true);
    }

    /// Tells of a bug that was caught, behind the call that met it.
    pub(super) fn log_bug(&self, caught: Caught) {
        if let Some(log) = &self.log {
            log.line(
                Level::Error,
                &format!("a bug was caught, the engine is of no use any more: {caught}"),
            );
        }
    }

    pub(super) fn last_error(&self) -> LastError {
        // SAFETY: `admit` was asked by every caller: one thread, and no call that writes it runs.
        unsafe { *self.last.get() }
    }

    pub(super) fn set_last_error(&self, last: LastError) {
        // SAFETY: as in `last_error`; the old value needs no drop.
        unsafe { *self.last.get() = last };
    }

    /// Takes a cell for a new child handle.
    fn take_cell(&self, kind: Kind, target: Target) -> Option<*mut HandleCell> {
        // SAFETY: only reached inside a call, which `busy` makes the only one, on one thread.
        let spare = unsafe { &mut *self.spare.get() };
        let cell = self.cells.get(spare.pop_front()? as usize)?;
        cell.kind.set(kind);
        cell.owner.set(target.owner);
        cell.part.set(target.part);
        cell.magic.store(LIVE_CHILD, Ordering::Relaxed);
        self.live.set(self.live.get() + 1);
        Some(core::ptr::from_ref(cell).cast_mut())
    }
}

/// Marks a call as running; the mark goes when this is dropped, also while unwinding.
pub(super) struct Busy<'a>(&'a Cell<bool>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The shell behind an engine pointer, if it is one and this thread may use it now.
///
/// # Safety
/// `engine` is NULL or came from `kloop_engine_new`, and a handle of it is not freed yet.
pub(super) unsafe fn shell<'a>(engine: *const kloop_engine) -> Result<&'a kloop_engine, Refused> {
    let engine = NonNull::new(engine.cast_mut()).ok_or(Refused::Null)?;
    // SAFETY: the caller vouches that the shell still exists.
    let shell: &kloop_engine = unsafe { engine.as_ref() };
    if shell.magic.load(Ordering::Relaxed) != LIVE_ENGINE {
        return Err(Refused::Stale);
    }
    shell.admit()?;
    Ok(shell)
}

/// The engine in a shell, for one call.
#[expect(clippy::mut_from_ref, reason = "`busy` makes the reference the only one")]
pub(super) fn open(shell: &kloop_engine) -> Result<(&mut Inner, Busy<'_>), Refused> {
    if shell.poisoned.get() {
        return Err(Refused::Poisoned);
    }
    if shell.freed.get() {
        return Err(Refused::Closed);
    }
    shell.busy.set(true);
    let busy = Busy(&shell.busy);
    // SAFETY: `busy` was false (`admit`), so no other reference to the inside exists, and it is
    // true until `Busy` is dropped.
    let inner = unsafe { &mut *shell.inner.get() };
    let inner = inner.as_mut().ok_or(Refused::Closed)?;
    Ok((inner, busy))
}

/// The shell and target behind a child handle of the given kind.
///
/// # Safety
/// `handle` is NULL or came from this library as a child handle, and a handle of its engine is not
/// freed yet.
pub(super) unsafe fn child<'a>(
    handle: *const HandleCell,
    kind: Kind,
) -> Result<(&'a kloop_engine, Target), Refused> {
    let handle = NonNull::new(handle.cast_mut()).ok_or(Refused::Null)?;
    // SAFETY: the caller vouches that the shell, which holds the cell, still exists.
    let cell: &HandleCell = unsafe { handle.as_ref() };
    if cell.magic.load(Ordering::Relaxed) != LIVE_CHILD {
        return Err(Refused::Stale);
    }
    // SAFETY: a live cell names the shell it lies in.
    let shell = unsafe { shell(cell.shell.get()) }?;
    if cell.kind.get() != kind {
        return Err(Refused::Stale);
    }
    Ok((shell, Target { owner: cell.owner.get(), part: cell.part.get() }))
}

/// Keeps what other threads use of a broker.
///
/// # Safety
/// As for [`child`], which must have accepted the handle.
pub(super) unsafe fn set_threads(handle: *const HandleCell, threads: HostThreads) {
    // SAFETY: the caller vouches for it.
    *unsafe { &*handle }.threads.lock() = Some(threads);
}

/// What any thread may use of a broker; `None` if it has no threads of its own.
///
/// # Safety
/// As for [`child`]; the handle is not freed while this runs.
pub(super) unsafe fn threads(handle: *const HandleCell) -> Result<Option<HostThreads>, Refused> {
    let handle = NonNull::new(handle.cast_mut()).ok_or(Refused::Null)?;
    // SAFETY: the caller vouches that the shell, which holds the cell, still exists.
    let cell: &HandleCell = unsafe { handle.as_ref() };
    if cell.magic.load(Ordering::Relaxed) != LIVE_CHILD {
        return Err(Refused::Stale);
    }
    // SAFETY: each cell names the shell it lies in, which exists as the cell does.
    let shell: &kloop_engine = unsafe { &*cell.shell.get() };
    if shell.mark.is_forked() {
        return Err(Refused::Forked);
    }
    Ok(cell.threads.lock().clone())
}

/// Whether a child handle is one, in a child process of its engine's.
///
/// # Safety
/// As for [`child`], which must have answered [`Refused::Forked`].
pub(super) unsafe fn is_idle_in_fork(handle: *const HandleCell) -> bool {
    // SAFETY: `child` has read it.
    let cell = unsafe { &*handle };
    // SAFETY: each cell names the shell it lies in.
    let shell = unsafe { &*cell.shell.get() };
    !shell.busy.get()
}

/// The shell that a stale child handle was of, if this thread may use it.
///
/// # Safety
/// As for [`child`].
pub(super) unsafe fn shell_of_stale<'a>(handle: *const HandleCell) -> Option<&'a kloop_engine> {
    let handle = NonNull::new(handle.cast_mut())?;
    // SAFETY: the caller vouches that the shell, which holds the cell, still exists.
    let cell: &HandleCell = unsafe { handle.as_ref() };
    // SAFETY: each cell names the shell it lies in.
    unsafe { shell(cell.shell.get()) }.ok()
}

/// Makes a child handle; `None` when the engine's handles are used up.
pub(super) fn make_child(
    shell: &kloop_engine,
    kind: Kind,
    owner: SlotId,
    part: Option<SlotId>,
) -> Option<*mut HandleCell> {
    shell.take_cell(kind, Target { owner, part: part.unwrap_or(NO_SLOT) })
}

/// Gives a child handle back; the shell goes if it was the last handle.
///
/// # Safety
/// As for [`child`], which must have accepted the handle.
pub(super) unsafe fn release_child(handle: *const HandleCell) {
    // SAFETY: `child` accepted it, so it points at a cell of a living shell.
    let cell = unsafe { &*handle };
    let shell = cell.shell.get();
    cell.magic.store(0, Ordering::Relaxed);
    cell.kind.set(Kind::Free);
    *cell.threads.lock() = None;
    // SAFETY: as above.
    let this = unsafe { &*shell };
    // SAFETY: `admit` was asked by `child`: no call runs, so nobody else holds the ring.
    let spare = unsafe { &mut *this.spare.get() };
    let index = this.cells.iter().position(|c| core::ptr::eq(c, handle));
    if let Some(index) = index {
        // The ring has a place for every cell.
        let _ = spare.push_back(index as u32);
    }
    // SAFETY: the shell is alive; nothing uses it after this.
    unsafe { release(shell) };
}

/// Ends an engine in a child process: the child's copies of its descriptors are closed and its memory
/// goes, without a word to the kernel or to peers about what is still the parent's.
///
/// # Safety
/// As for [`shell`], which must have answered [`Refused::Forked`].
pub(super) unsafe fn discard_engine(engine: *const kloop_engine) {
    // SAFETY: the caller vouches that the shell exists.
    let this = unsafe { &*engine };
    if this.freed.replace(true) {
        return;
    }
    // Forked in the middle of a call of another thread: what is half done is left alone.
    if !this.busy.get() && !this.poisoned.get() {
        // SAFETY: no call runs, so no other reference to the inside exists.
        let inner = unsafe { (*this.inner.get()).take() };
        guard((), || {
            if let Some(mut inner) = inner {
                inner.engine.forget_threads();
            }
        });
    }
    // SAFETY: the shell is alive; nothing uses it after this.
    unsafe { release(engine) };
}

/// Ends the engine: sockets close, memory goes. The shell stays while child handles live.
///
/// # Safety
/// [`shell`] accepted the pointer.
pub(super) unsafe fn release_engine(engine: *const kloop_engine) {
    // SAFETY: `shell` accepted it.
    let this = unsafe { &*engine };
    if this.freed.replace(true) {
        return;
    }
    this.busy.set(true);
    // SAFETY: `admit` was asked: no other reference to the inside exists.
    let inner = unsafe { (*this.inner.get()).take() };
    if this.poisoned.get() {
        // What a caught bug left behind is not run again, and its memory is given up; but threads
        // must not run on behind the host's back.
        let stopped = inner.map(|mut inner| {
            guard((), || inner.engine.stop_threads());
            inner
        });
        core::mem::forget(stopped);
    } else if let Some(inner) = inner {
        let pool = inner.engine.pool().clone();
        drop(inner);
        tell_leak(this, pool.leases());
    }
    if let Some(log) = &this.log {
        log.close();
    }
    this.busy.set(false);
    // SAFETY: the shell is alive; nothing uses it after this.
    unsafe { release(engine) };
}

/// All blocks must be home when everything that may hold one is gone. A panic would end at the guard of the
/// call that ends the engine, unseen: so a build with assertions ends the program.
fn tell_leak(shell: &kloop_engine, leaked: usize) {
    if leaked == 0 {
        return;
    }
    if let Some(log) = &shell.log {
        log.line(Level::Error, &format!("a bug: {leaked} blocks of the pool did not come home"));
    }
    #[cfg(all(debug_assertions, not(test)))]
    std::process::abort();
}

/// One handle less; frees the shell with the last.
///
/// # Safety
/// The shell is alive, and the caller does not use it afterwards.
unsafe fn release(shell: *const kloop_engine) {
    // SAFETY: the caller vouches for it.
    let this = unsafe { &*shell };
    this.live.set(this.live.get() - 1);
    if this.live.get() > 0 {
        return;
    }
    this.magic.store(0, Ordering::Relaxed);
    // SAFETY: made by `Box::into_raw` in `kloop_engine_new`; no handle is left to reach it.
    drop(unsafe { Box::from_raw(shell.cast_mut()) });
}
