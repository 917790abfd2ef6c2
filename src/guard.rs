//! Guard: where a panic ends. What it said is kept for whoever logs it, and a C program's standard error
//! stays the program's own.

use core::cell::{Cell, RefCell};
use core::fmt::{self, Write};
use std::panic::PanicHookInfo;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// What std runs for each panic.
type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// Bytes kept of what a panic said.
const KEPT: usize = 256;

/// A panic was caught. Displays what it said and where, until the thread's next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caught(());

/// What a panic said.
struct Said {
    text: [u8; KEPT],
    len: usize,
}

thread_local! {
    /// How many guards this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static LAST: RefCell<Said> = const { RefCell::new(Said { text: [0; KEPT], len: 0 }) };
}

impl Write for Said {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let cut = text.floor_char_boundary(KEPT - self.len);
        self.text[self.len..self.len + cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.len += cut;
        Ok(())
    }
}

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LAST.with_borrow(|said| {
            let text = core::str::from_utf8(&said.text[..said.len]).unwrap_or("");
            f.write_str(if text.is_empty() { "it said nothing" } else { text })
        })
    }
}

/// Runs what may have a bug. What it leaves half done is the caller's to see to.
///
/// # Errors
/// It panicked. What it said is known if [`keep_quiet`] was called before; else it was printed.
#[inline]
pub(crate) fn guarded<R>(f: impl FnOnce() -> R) -> Result<R, Caught> {
    DEPTH.set(DEPTH.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(f));
    DEPTH.set(DEPTH.get() - 1);
    result.map_err(|payload| {
        // Dropping what was thrown could panic again.
        core::mem::forget(payload);
        Caught(())
    })
}

/// From now on panics under a guard are not printed. Those of others go where they went before.
pub(crate) fn keep_quiet() {
    static OTHERS: OnceLock<Hook> = OnceLock::new();
    OTHERS.get_or_init(|| {
        let others = std::panic::take_hook();
        // It captures nothing, so the box takes no memory that a library which is unloaded would leave.
        std::panic::set_hook(Box::new(|info| {
            // A thread that ends has no place to keep it.
            let guarded = DEPTH.try_with(Cell::get).is_ok_and(|depth| depth > 0);
            if !guarded {
                return OTHERS.get().map_or((), |others| others(info));
            }
            let message = info.payload_as_str().unwrap_or("a payload that is no text");
            let _ = LAST.try_with(|last| {
                let Ok(mut said) = last.try_borrow_mut() else { return };
                said.len = 0;
                // What does not fit is cut.
                let _ = match info.location() {
                    Some(at) => write!(said, "{}:{}: {message}", at.file(), at.line()),
                    None => write!(said, "{message}"),
                };
            });
        }));
        others
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panic_said_is_kept_and_cut() {
        keep_quiet();
        let caught = guarded(|| panic!("seven is {}", 7)).unwrap_err();
        let text = format!("{caught}");
        assert!(text.ends_with("seven is 7") && text.contains("guard.rs:"), "{text}");
        let caught = guarded(|| panic!("{}", "ä".repeat(KEPT))).unwrap_err();
        assert!(caught.to_string().len() >= KEPT - 1);
        let inner = guarded(|| guarded(|| panic!("inside")).unwrap_err());
        assert!(inner.unwrap().to_string().ends_with("inside"));
        assert_eq!(guarded(|| 5).unwrap(), 5);
    }
}
