//! ClientStats: what a client counts.

/// Counters and gauges of one client. Counters never fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Connections established now.
    pub connections: u64,
    /// Connects started.
    pub connects: u64,
    /// Connections lost, closed or not established.
    pub disconnects: u64,
    /// Requests sent.
    pub requests: u64,
    /// Answers received.
    pub answers: u64,
    /// Connections given up because a request on them ran out of time.
    pub request_timeouts: u64,
    /// Metadata answers used.
    pub metadata_updates: u64,
    /// Records taken by `produce`.
    pub records_accepted: u64,
    /// Records refused by `produce` because there was no room or no metadata.
    pub records_refused: u64,
    /// Records acknowledged.
    pub records_delivered: u64,
    /// Records that ended otherwise.
    pub records_failed: u64,
    /// Batches put back to be sent again.
    pub batch_retries: u64,
    /// Batches that are not over: open, waiting, in flight, or their event not taken.
    pub batches: u64,
    /// Bytes of blocks that unfinished batches hold.
    pub batch_bytes: u64,
    /// Fetches sent.
    pub fetches: u64,
    /// Records handed over to consumers.
    pub records_fetched: u64,
    /// Bytes of batches handed over to consumers: of compressed ones, what they inflated to.
    pub bytes_fetched: u64,
}
