//! What the fuzz targets call: each takes any bytes and must come back. A view that was had from
//! them must agree with itself, or it panics.

use super::records::{Batches, Record, Records};

/// Walks a record deeply and says how many bytes it shows.
fn record_bytes(record: &Record<'_>) -> usize {
    let headers = record.headers.map(|(key, value)| key.len() + value.map_or(0, <[u8]>::len));
    record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len) + headers.sum::<usize>()
}

/// Walks `bytes` as a fetched range, and as bare records.
pub fn fuzz_record_batch(bytes: &[u8]) {
    let mut batches = Batches::new(bytes);
    let mut walked = 0;
    for batch in batches.by_ref().flatten() {
        walked += batch.total_len();
        let _ = (batch.verify_crc(), batch.check_produced(), batch.next_offset());
        let mut shown = 0;
        for record in batch.records().into_iter().flatten().flatten() {
            let _ = (batch.offset_of(&record), batch.timestamp_of(&record));
            let _ = record.control_type();
            shown += record_bytes(&record);
        }
        assert!(shown <= batch.records_bytes().len());
    }
    assert_eq!(walked + batches.rest().len(), bytes.len());
    let count = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    for count in [0, 1, 2, count / 7, count, -1, i32::MAX, i32::MIN] {
        if let Ok(records) = Records::new(bytes, count) {
            let shown: usize = records.flatten().map(|r| record_bytes(&r)).sum();
            assert!(shown <= bytes.len());
        }
    }
}
