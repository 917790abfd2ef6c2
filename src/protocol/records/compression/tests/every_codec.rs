//! What holds for every codec.

use super::*;

#[test]
fn what_others_write_comes_out_and_a_byte_less_is_full() {
    for Packer { name, codec, pack, .. } in packers() {
        for sample in samples() {
            println!("{name}: {} bytes", sample.len());
            assert_inflates(codec, &pack(&sample), &sample);
        }
    }
}

#[test]
fn sixteen_mebibytes_of_zeroes_come_out() {
    let zeroes = vec![0; 16 << 20];
    for Packer { name, codec, pack, announces, .. } in packers() {
        let packed = pack(&zeroes);
        let expected = expected_len(codec, &packed);
        println!("{name}: {} bytes, {expected} expected", packed.len());
        assert!(!announces || expected == zeroes.len(), "{expected}");
        assert_inflates(codec, &packed, &zeroes);
    }
}

/// Whatever the room: where it is too small, that is what is said, and not that the bytes are bad.
#[test]
fn every_room_that_is_too_small_is_full() {
    let mut inflater = Inflater::new().unwrap();
    for Packer { name, codec, pack, .. } in packers() {
        for sample in [text(400), noise(300), vec![1; 700], [text(99), noise(99)].concat()] {
            let packed = pack(&sample);
            for room in 0..sample.len() {
                let got = inflated(&mut inflater, codec, &packed, room);
                assert_eq!(got, Err(InflateError::Full), "{name}: {room} of {}", sample.len());
            }
            assert_eq!(inflated(&mut inflater, codec, &packed, sample.len()).unwrap(), sample);
        }
        let long = [text(150_000), noise(150_000), vec![0; 150_000]].concat();
        let packed = pack(&long);
        for room in [1, 65_535, 65_536, 131_072, 150_000, 250_000, 299_999, 300_001, 449_999] {
            let got = inflated(&mut inflater, codec, &packed, room).map(|got| got.len());
            assert_eq!(got, Err(InflateError::Full), "{name}: {room}");
        }
    }
}

#[test]
fn what_is_cut_off_is_never_whole() {
    let mut inflater = Inflater::new().unwrap();
    for Packer { name, codec, pack, .. } in packers() {
        for sample in [vec![], vec![1], text(300), noise(100), vec![0; 5000]] {
            let packed = pack(&sample);
            for len in 0..packed.len() {
                let got = inflated(&mut inflater, codec, &packed[..len], sample.len() + 100);
                // The header of a framed stream is what an empty one is.
                if name == "snappy, framed" && len == 16 {
                    assert_eq!(got, Ok(vec![]));
                    continue;
                }
                let malformed = matches!(got, Err(InflateError::Malformed(_)));
                assert!(malformed, "{name}: {len} of {}: {got:?}", packed.len());
            }
        }
    }
}

#[test]
fn what_follows_the_end_is_refused() {
    for Packer { name, codec, pack, .. } in packers() {
        for garbage in [&[0][..], &[0; 4], &[0; 8], &[0xff; 9], b"garbage garbage garbage"] {
            println!("{name} and {garbage:?}");
            assert_malformed(codec, &[&pack(&text(300))[..], garbage].concat());
        }
    }
}

/// Every bit of small streams turned over: no panic, nothing behind the room, and with checksums
/// the right bytes or none.
#[test]
fn a_damaged_bit_is_survived_and_noticed_where_there_are_checksums() {
    let mut inflater = Inflater::new().unwrap();
    for Packer { name, codec, pack, checked, .. } in packers() {
        let mut unnoticed = 0;
        for sample in [text(260), noise(60), vec![0; 3000], [text(100), noise(100)].concat()] {
            let mut packed = pack(&sample);
            for bit in 0..packed.len() * 8 {
                packed[bit / 8] ^= 1 << (bit % 8);
                for room in [0, 100, sample.len(), 70_000] {
                    let got = inflated(&mut inflater, codec, &packed, room);
                    let wrong = got.is_ok_and(|got| got != sample);
                    assert!(!(wrong && checked), "{name}: bit {bit}");
                    unnoticed += usize::from(wrong);
                }
                assert!(expected_len(codec, &packed) <= packed.len() << 15, "{name}: bit {bit}");
                packed[bit / 8] ^= 1 << (bit % 8);
            }
        }
        println!("{name}: {unnoticed} damaged bits were not noticed");
    }
}

#[test]
fn an_inflater_is_as_new_after_an_error() {
    let sample = text(50_000);
    for Packer { name, codec, pack, .. } in packers() {
        let packed = pack(&sample);
        let mut damaged = packed.clone();
        damaged[packed.len() / 2] ^= 0x55;
        let mut inflater = Inflater::new().unwrap();
        for _ in 0..3 {
            assert_eq!(inflated(&mut inflater, codec, &packed, 49_999), Err(InflateError::Full));
            assert_eq!(inflated(&mut inflater, codec, &packed, 50_000).unwrap(), sample, "{name}");
            let _ = inflated(&mut inflater, codec, &damaged, 50_000);
            assert_eq!(inflated(&mut inflater, codec, &packed, 50_000).unwrap(), sample, "{name}");
            assert!(inflated(&mut inflater, codec, &packed[..200], 50_000).is_err());
            assert!(inflated(&mut inflater, codec, b"none", 50_000).is_err());
            assert_eq!(inflated(&mut inflater, codec, &packed, 50_000).unwrap(), sample, "{name}");
        }
    }
}

#[test]
fn nothing_is_no_stream() {
    for Packer { codec, .. } in packers() {
        assert_malformed(codec, &[]);
    }
    assert_inflates(Compression::None, &[], &[]);
    assert_inflates(Compression::None, b"as it is", b"as it is");
}

#[test]
fn a_codec_that_is_not_built_is_told() {
    let mut inflater = Inflater::new().unwrap();
    let built = packers();
    use Compression::{Gzip, Lz4, Snappy, Zstd};
    for codec in [Gzip, Snappy, Lz4, Zstd] {
        let got = inflater.inflate(codec, b"whatever", &mut [0; 100]);
        let is_built = built.iter().any(|packer| packer.codec == codec);
        assert_eq!(got == Err(InflateError::Unsupported), !is_built, "{codec:?}: {got:?}");
        assert_eq!(expected_len(Compression::None, b"four"), 4);
    }
}

/// Exact where the stream tells, and a guess that has some relation to it where not.
#[test]
fn the_expected_length_is_what_a_stream_announces() {
    for Packer { name, codec, pack, announces, .. } in packers() {
        for sample in samples() {
            let packed = pack(&sample);
            let expected = expected_len(codec, &packed);
            match announces {
                true => assert_eq!(expected, sample.len(), "{name}"),
                false => assert_eq!(expected, 4 * packed.len(), "{name}"),
            }
        }
    }
}
