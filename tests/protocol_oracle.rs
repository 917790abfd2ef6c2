//! The oracle: every declared message in every version against the kafka-protocol crate.
//!
//! For each version, from random values:
//! 1. the oracle encodes, kloop decodes to the same values, and each shorter input is refused;
//! 2. kloop writes what it read again, to the same bytes;
//! 3. kloop writes the values through [`kloop::protocol::Array::emit`], to the same bytes, which
//!    the oracle decodes to the same values;
//! 4. tagged fields that nobody knows are passed over.
//!
//! | declared in kloop | versions that kafka-protocol 0.18 does not know |
//! |---|---|
//! | all | none |

#![allow(clippy::disallowed_types, clippy::disallowed_macros)]

mod oracle;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as kp;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};
use kloop::protocol::messages::*;
use kloop::protocol::{ApiKey, Message, Reader, RequestHeader, ResponseHeader, Writer};
use oracle::{Pair, Rng};

/// Cases for each message and version.
const CASES: u64 = 50;

fn encode<K: Encodable>(value: &K, version: i16) -> Bytes {
    let mut out = BytesMut::new();
    value.encode(&mut out, version).unwrap();
    out.freeze()
}

fn write<'a, M: Message<'a>>(message: &M, version: i16) -> Vec<u8> {
    let mut out = vec![0xee; message.encoded_len(version)];
    let mut w = Writer::new(&mut out);
    message.encode(&mut w, version);
    let n = w.finish().unwrap_or_else(|wrong| panic!("v{version}: {wrong}"));
    assert_eq!(n, out.len());
    out
}

macro_rules! against_the_oracle {
    ($($test:ident: $Name:ident;)*) => {$(
        #[test]
        fn $test() {
            for version in <$Name as Message>::VERSIONS {
                for case in 0..CASES {
                    let mut rng = Rng::new(case * 64 + version as u64 + 1);
                    let value = <kp::$Name as Pair>::random(&mut rng, version);
                    let bytes = encode(&value, version);
                    let place = format!("v{version}, case {case}: {value:?}");

                    let read = $Name::decode(&bytes, version);
                    let read = read.unwrap_or_else(|bad| panic!("{bad:?} in {place}"));
                    assert_eq!(<kp::$Name as Pair>::lift(&read, version), value, "{place}");
                    for cut in (0..bytes.len()).rev().take(600) {
                        assert!($Name::decode(&bytes[..cut], version).is_err(), "{cut}: {place}");
                    }

                    assert_eq!(write(&read, version), bytes, "{place}");

                    value.lower(version, &mut |view| {
                        assert_eq!(write(view, version), bytes, "{place}");
                    });
                    let back = kp::$Name::decode(&mut bytes.clone(), version).unwrap();
                    assert_eq!(back, value, "{place}");

                    if version >= <$Name as Message>::FLEXIBLE {
                        let mut tagged = value.clone();
                        tagged.unknown_tagged_fields.insert(77, Bytes::from_static(b"later"));
                        tagged.unknown_tagged_fields.insert(1 << 20, Bytes::new());
                        let bytes = encode(&tagged, version);
                        let read = $Name::decode(&bytes, version).unwrap();
                        assert_eq!(<kp::$Name as Pair>::lift(&read, version), value, "{place}");
                    }
                }
            }
        }
    )*

        #[test]
        fn every_declared_version_is_one_that_the_oracle_knows() {
            $({
                let known = <kp::$Name as kafka_protocol::protocol::Message>::VERSIONS;
                let declared = <$Name as Message>::VERSIONS;
                assert!(known.min <= *declared.start() && *declared.end() <= known.max);
                for version in [declared.start() - 1, declared.end() + 1] {
                    assert!($Name::decode(&[0; 64], version).is_err());
                }
            })*
        }

        #[test]
        fn headers_have_the_form_that_the_oracle_gives_them() {
            $(
                let key = ApiKey(<$Name as Message>::KEY);
                for version in <$Name as Message>::VERSIONS {
                    let form = <kp::$Name as HeaderVersion>::header_version(version);
                    if stringify!($Name).ends_with("Request") {
                        assert_eq!(key.request_header_version(version), Some(form));
                    } else {
                        assert_eq!(key.response_header_version(version), Some(form));
                    }
                }
            )*
        }
    };
}

against_the_oracle! {
    produce_request: ProduceRequest;
    produce_response: ProduceResponse;
    fetch_request: FetchRequest;
    fetch_response: FetchResponse;
    list_offsets_request: ListOffsetsRequest;
    list_offsets_response: ListOffsetsResponse;
    metadata_request: MetadataRequest;
    metadata_response: MetadataResponse;
    api_versions_request: ApiVersionsRequest;
    api_versions_response: ApiVersionsResponse;
    create_topics_request: CreateTopicsRequest;
    create_topics_response: CreateTopicsResponse;
    delete_topics_request: DeleteTopicsRequest;
    delete_topics_response: DeleteTopicsResponse;
    init_producer_id_request: InitProducerIdRequest;
    init_producer_id_response: InitProducerIdResponse;
    offset_for_leader_epoch_request: OffsetForLeaderEpochRequest;
    offset_for_leader_epoch_response: OffsetForLeaderEpochResponse;
}

#[test]
fn request_headers_agree() {
    for key in 0..=ApiKey::LAST.0 {
        // The oracle does not know the requests that only old or newest brokers have.
        let Ok(known) = kp::ApiKey::try_from(key) else { continue };
        for version in known.valid_versions().min..=known.valid_versions().max {
            let form = known.request_header_version(version);
            assert_eq!(ApiKey(key).request_header_version(version), Some(form), "{known:?}");
            let answer = known.response_header_version(version);
            assert_eq!(ApiKey(key).response_header_version(version), Some(answer), "{known:?}");
            let theirs = kp::RequestHeader::default()
                .with_request_api_key(key)
                .with_request_api_version(version)
                .with_correlation_id(0x0102_0304)
                .with_client_id((version % 2 == 0).then(|| "client ä".into()));
            let bytes = encode(&theirs, form);
            let mut r = Reader::new(&bytes);
            let ours = RequestHeader::read(&mut r).unwrap();
            assert_eq!(r.left(), 0);
            assert_eq!(ours.client_id, theirs.client_id.as_ref().map(|id| id.as_str()));
            assert_eq!((ours.api_key.0, ours.api_version), (key, version));
            assert_eq!(ours.correlation_id, theirs.correlation_id);
            let mut out = [0; 64];
            let mut w = Writer::new(&mut out);
            ours.write(&mut w);
            let n = w.finish().unwrap();
            assert_eq!(out[..n], bytes[..]);

            let theirs = kp::ResponseHeader::default().with_correlation_id(-7);
            let bytes = encode(&theirs, answer);
            let ours = ResponseHeader::read(&mut Reader::new(&bytes), ApiKey(key), version);
            assert_eq!(ours.unwrap().correlation_id, -7);
        }
    }
}
