//! The fuzz functions over inputs that need no fuzzer: random ones, damaged ones, hostile counts.

use super::*;
use crate::protocol::declare::{Array, ArrayWriter};
use crate::protocol::records::encoders::{CODECS, compressed};
use crate::protocol::records::{Compression, no_headers};
use crate::protocol::rng::Rng;

impl Rng {
    /// Bytes of which many are small, as lengths are.
    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most))
            .map(|_| match self.below(4) {
                0 => 0,
                1 => self.below(4) as u8,
                2 => 0xff,
                _ => self.next() as u8,
            })
            .collect()
    }

    /// One change: a byte, a hostile number, a cut, a repetition.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len().max(1));
        let hostile: [&[u8]; 6] = [
            &[0x7f, 0xff, 0xff, 0xff],
            &[0x80, 0, 0, 0],
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0x80, 0x80, 0x80, 0x80, 0x00],
            &[0, 1, 0, 0],
        ];
        match self.below(5) {
            0 => bytes.truncate(at),
            1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            2 => {
                let part = bytes[at..].to_vec();
                bytes.extend_from_slice(&part);
            }
            3 => {
                let number = hostile[self.below(hostile.len())];
                for (to, from) in bytes[at..].iter_mut().zip(number) {
                    *to = *from;
                }
            }
            _ => {
                let number = hostile[self.below(hostile.len())];
                bytes.splice(at..at, number.iter().copied());
            }
        }
    }
}

fn encoded<'a, M: Message<'a>>(which: u8, message: &M, version: i16) -> Vec<u8> {
    let mut out = vec![0; message.encoded_len(version) + 2];
    out[0] = which;
    out[1] = (version - M::VERSIONS.start()) as u8;
    message.encode(&mut Writer::new(&mut out[2..]), version);
    out
}

fn batch() -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut builder = BatchBuilder::new();
    let headers = [(&b"name"[..], Some(&b"value"[..])), (b"none", None)];
    builder.append(&mut buf, 1000, Some(b"key"), Some(&[5; 90]), no_headers()).unwrap();
    builder.append(&mut buf, 1001, None, None, headers.iter().copied()).unwrap();
    let total = builder.seal(&mut buf, &Seal::default()).unwrap();
    buf.truncate(total);
    buf
}

/// Well-formed requests of some depth, with the bytes that pick them.
fn requests() -> Vec<Vec<u8>> {
    let batch = batch();
    let mut out = vec![];
    for version in 3..=13 {
        let partition = |index| ProducePartitionData { index, records: Some(&batch) };
        let partitions = |w: &mut ArrayWriter<'_, '_, ProducePartitionData<'static>>| {
            (0..3).for_each(|i| w.push(&partition(i)));
        };
        let topic = ProduceTopicData {
            name: "topic",
            topic_id: [7; 16],
            partition_data: Array::emit(3, &partitions),
        };
        let topics = |w: &mut ArrayWriter<'_, '_, ProduceTopicData<'static>>| {
            (0..2).for_each(|_| w.push(&topic));
        };
        let request = ProduceRequest { topic_data: Array::emit(2, &topics), ..Default::default() };
        out.push(encoded(0, &request, version));
    }
    for version in 0..=4 {
        let client_software_name = "name";
        let request = ApiVersionsRequest { client_software_name, client_software_version: "1" };
        out.push(encoded(4, &request, version));
    }
    out
}

/// Well-formed answers of some depth.
fn responses() -> Vec<Vec<u8>> {
    let batch = batch();
    let mut out = vec![];
    for version in 4..=18 {
        let aborted = |w: &mut ArrayWriter<'_, '_, AbortedTransaction>| {
            w.push(&AbortedTransaction { producer_id: 1, first_offset: 2 });
        };
        let partition = FetchPartitionResponse {
            records: Some(&batch),
            aborted_transactions: Some(Array::emit(1, &aborted)),
            current_leader: LeaderIdAndEpoch { leader_id: 1, leader_epoch: 2 },
            ..Default::default()
        };
        let partitions = |w: &mut ArrayWriter<'_, '_, FetchPartitionResponse<'static>>| {
            (0..3).for_each(|_| w.push(&partition));
        };
        let topic = FetchTopicResponse {
            topic: "topic",
            partitions: Array::emit(3, &partitions),
            ..Default::default()
        };
        let topics = |w: &mut ArrayWriter<'_, '_, FetchTopicResponse<'static>>| {
            (0..2).for_each(|_| w.push(&topic));
        };
        let response = FetchResponse { responses: Array::emit(2, &topics), ..Default::default() };
        out.push(encoded(1, &response, version));
    }
    out
}

/// The records of a batch as each codec has them, with the bytes that pick codec, room and count.
fn streams() -> Vec<Vec<u8>> {
    let records = &batch()[batch::HEADER_LEN..];
    // One that is no stream, as a build may have no codec.
    let mut packed = vec![(0, b"no stream".to_vec())];
    for codec in CODECS {
        packed.push((*codec as u8 - Compression::Gzip as u8, compressed(*codec, records)));
    }
    let room = [129, records.len() as u8].into_iter();
    let with =
        |room: u8| packed.iter().map(move |(codec, p)| [&[*codec, room, 2], &p[..]].concat());
    room.flat_map(with).collect()
}

fn storm(function: fn(&[u8]), samples: &[Vec<u8>], seed: u64) {
    let mut rng = Rng(seed);
    for sample in samples {
        function(sample);
        (0..sample.len()).for_each(|cut| function(&sample[..cut]));
    }
    for _ in 0..4000 {
        function(&rng.bytes(200));
        let mut bytes = samples[rng.below(samples.len())].clone();
        for _ in 0..=rng.below(3) {
            rng.damage(&mut bytes);
        }
        function(&bytes);
    }
}

#[test]
fn headers_survive() {
    let mut samples = vec![];
    for (key, version) in [(0, 8), (0, 9), (18, 0), (18, 4), (17, 1), (92, 0), (7, 0), (7, 1)] {
        let mut bytes = vec![0, key, 0, version, 1, 2, 3, 4, 0, 3, b'a', b'b', b'c'];
        bytes.extend_from_slice(&[2, 0, 1, 9, 5, 0]);
        samples.push(bytes);
    }
    storm(fuzz_header, &samples, 11);
}

#[test]
fn requests_survive() {
    storm(fuzz_request, &requests(), 12);
}

#[test]
fn responses_survive() {
    storm(fuzz_response, &responses(), 13);
}

#[test]
fn record_batches_survive() {
    let one = batch();
    storm(fuzz_record_batch, &[one.clone(), [&one[..], &one[..]].concat()], 14);
}

#[test]
fn compressed_records_survive() {
    storm(fuzz_inflate, &streams(), 15);
}

/// `cargo test --lib -- --ignored the_fuzzer`
#[test]
#[ignore = "writes into fuzz/corpus, which is not in the repository"]
fn the_fuzzer_gets_its_first_compressed_records() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/inflate");
    std::fs::create_dir_all(&corpus).unwrap();
    for (number, stream) in streams().iter().enumerate() {
        std::fs::write(corpus.join(format!("first-{number}")), stream).unwrap();
    }
}

#[test]
fn a_hostile_count_is_refused_at_once() {
    // The largest count that each form can say, with nothing behind it or a megabyte of zeros.
    let zeros = vec![0; 1 << 20];
    for tail in [&[][..], &zeros] {
        let wide = [&[0x7f, 0xff, 0xff, 0xff], tail].concat();
        let compact = [&[0xff, 0xff, 0xff, 0xff, 0x0f], tail].concat();
        assert!(MetadataRequest::decode(&wide, 0).is_err());
        assert!(MetadataRequest::decode(&compact, 12).is_err());
        assert!(MetadataResponse::decode(&wide, 0).is_err());
        assert!(FetchResponse::decode(&[&[0; 4], &wide[..]].concat(), 4).is_err());
        assert!(Records::new(tail, i32::MAX).is_err());
    }
}
