//! What a peer can send that no broker takes, and where the log lines about it go.

use super::{frame, metadata};
use kloop::logging::{Level, Logger};
use kloop::protocol::ApiKey;
use std::sync::{Arc, Mutex};

/// Bytes that end their connection, and the reason that the log gives.
pub struct Bad {
    pub bytes: Vec<u8>,
    pub why: &'static str,
}

/// One of each kind.
pub fn bad_inputs() -> [Bad; 10] {
    let whole = metadata(12);
    // The size says that there is no more of it.
    let mut truncated = whole[..whole.len() / 2].to_vec();
    let size = truncated.len() as i32 - 4;
    truncated[..4].copy_from_slice(&size.to_be_bytes());
    let bad = |bytes: &[u8], why: &'static str| Bad { bytes: bytes.to_vec(), why };
    [
        bad(&[0xff, 0xff, 0xff, 0xfe], "the peer announced a frame of negative size"),
        bad(&[0x7f, 0xff, 0xff, 0xff], "the peer announced a frame over the size limit"),
        bad(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "the peer speaks HTTP to a Kafka port"),
        bad(
            &[0x16, 0x03, 0x01, 0x00, 0xc4, 0x01, 0x00, 0x00, 0xc0, 0x03, 0x03],
            "the peer speaks TLS to a plaintext port",
        ),
        bad(&truncated, "the message ends early"),
        bad(&[0, 0, 0, 0], "the message ends early"),
        bad(
            &frame(ApiKey::METADATA, 1, |w| w.i32(i32::MAX)),
            "an array count is larger than the message",
        ),
        bad(&frame(ApiKey::METADATA, 12, |w| w.bytes(&[0xff; 9])), "a varint is too long"),
        bad(&[0, 0, 0, 8, 0x7f, 0xff, 0, 0, 0, 0, 0, 1], "the API key is not known"),
        bad(&frame(ApiKey::METADATA, 99, |w| w.i32(0)), "the version is not served"),
    ]
}

/// Keeps log lines in a place that is large enough from the start.
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub fn new() -> Lines {
        Lines(Arc::new(Mutex::new(Vec::with_capacity(1 << 18))))
    }

    pub fn logger(&self) -> Logger {
        let lines = Arc::clone(&self.0);
        let sink = move |level: Level, line: &str| {
            let mut lines = lines.lock().unwrap();
            assert!(lines.len() + line.len() + 2 <= lines.capacity(), "too many lines");
            lines.push(b'0' + level as u8);
            lines.extend_from_slice(line.as_bytes());
            lines.push(b'\n');
        };
        Logger::new(Level::Debug, Arc::new(sink))
    }

    /// The lines since this was asked last; each begins with the number of its level.
    pub fn take(&self) -> Vec<String> {
        let mut lines = self.0.lock().unwrap();
        let text = std::str::from_utf8(&lines).unwrap().lines().map(str::to_owned).collect();
        lines.clear();
        text
    }
}

/// Checks that exactly one line of these warns, and that it names the peer and the reason.
#[track_caller]
pub fn assert_told(lines: &[String], peer: std::net::SocketAddr, why: &str) {
    let warnings: Vec<_> = lines.iter().filter(|line| line.as_bytes()[0] <= b'2').collect();
    let named = |line: &str| line.contains(why) && line.contains(&format!("{peer}"));
    assert!(matches!(warnings[..], [line] if named(line)), "{peer}, {why:?}: {lines:#?}");
}
