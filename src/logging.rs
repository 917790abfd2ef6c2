//! Diagnostics: levels, and lines formatted into a fixed buffer (the data log is `broker/log`).
//!
//! The core never writes to stdout, stderr or a process-wide logger. Each engine has one sink,
//! given at creation; without one, lines are not even formatted.

use crate::sync::Arc;
use core::fmt::Write;

/// The longest line, in bytes; what is longer is cut at a character boundary.
pub const MAX_LINE: usize = 480;

/// How grave a line is. The numbers are the C API's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something is broken and somebody must look.
    Error = 1,
    /// Something went wrong that kloop handled: a peer's garbage, a lost connection.
    Warn = 2,
    /// A change of state that an operator wants to see: listening, connected, closed.
    Info = 3,
    /// What helps to find a fault.
    Debug = 4,
}

/// What receives log lines. It runs inside kloop calls, on the engine's or a reactor's thread, and
/// must not call back into kloop.
pub type Sink = dyn Fn(Level, &str) + Send + Sync;

/// A handle on an engine's log sink; cheap to clone.
#[derive(Clone)]
pub struct Logger {
    level: Level,
    sink: Option<Arc<Sink>>,
}

impl Logger {
    /// A logger that drops every line.
    pub fn silent() -> Self {
        Logger { level: Level::Error, sink: None }
    }

    /// Lines of `level` and graver go to `sink`.
    pub fn new(level: Level, sink: Arc<Sink>) -> Self {
        Logger { level, sink: Some(sink) }
    }

    /// Formats and hands over one line, if anybody wants it. Does not allocate.
    pub fn line(&self, level: Level, args: core::fmt::Arguments<'_>) {
        let Some(sink) = &self.sink else { return };
        if level > self.level {
            return;
        }
        let mut line = Line { buf: [0; MAX_LINE], len: 0 };
        // A line that does not fit is cut, which is not an error.
        let _ = line.write_fmt(args);
        sink(level, line.text());
    }
}

impl core::fmt::Debug for Logger {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Logger({:?})", self.level)
    }
}

struct Line {
    buf: [u8; MAX_LINE],
    len: usize,
}

impl Line {
    fn text(&self) -> &str {
        let bytes = &self.buf[..self.len];
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(cut) => core::str::from_utf8(&bytes[..cut.valid_up_to()]).unwrap_or(""),
        }
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = &mut self.buf[self.len..];
        let n = room.len().min(text.len());
        room[..n].copy_from_slice(&text.as_bytes()[..n]);
        self.len += n;
        if n < text.len() { Err(core::fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mutex;

    #[test]
    fn a_long_line_is_cut_at_a_character() {
        let seen = Arc::new(Mutex::new(String::new()));
        let keep = Arc::clone(&seen);
        let logger =
            Logger::new(Level::Warn, Arc::new(move |_, line: &str| keep.lock().push_str(line)));
        logger.line(Level::Info, format_args!("not wanted"));
        logger.line(Level::Warn, format_args!("{}", "é".repeat(MAX_LINE)));
        assert_eq!(*seen.lock(), "é".repeat(MAX_LINE / 2));
    }
}
