//! Headers, keys and versions: what is answered, and what ends the connection. The numbers are
//! those of the broker research (D rows, P rows).

use super::*;

fn versions(rig: &mut Rig, conn: ConnId, version: i16) -> Vec<(i16, i16, i16)> {
    let request =
        ApiVersionsRequest { client_software_name: "kloop-test", client_software_version: "1.0" };
    let body = rig.call(conn, version, &request).unwrap();
    let response = ApiVersionsResponse::decode(&body, version).unwrap();
    assert_eq!((response.error_code, response.throttle_time_ms), (0, 0));
    assert_eq!(response.finalized_features_epoch, -1);
    assert!(response.supported_features.is_empty() && response.finalized_features.is_empty());
    response.api_keys.iter().map(|a| (a.api_key, a.min_version, a.max_version)).collect()
}

/// P1, P3: Produce from 0 although 3 is served, and nothing besides that is not served.
#[test]
fn what_is_advertised() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    let served = [
        (0, 0, 11),
        (1, 4, 12),
        (2, 1, 7),
        (3, 0, 13),
        (18, 0, 4),
        (19, 2, 7),
        (20, 1, 6),
        (22, 0, 4),
        (23, 2, 4),
    ];
    for version in 0..=4 {
        assert_eq!(versions(&mut rig, conn, version), served);
    }
}

#[test]
fn apis_of_the_host_are_advertised_with_kafkas_versions() {
    let mut config = BrokerConfig::default();
    config.host_apis[0] |= 1 << 10 | 1 << 0;
    config.host_apis[1] |= 1 << (68 - 64) | 1 << (67 - 64);
    let mut rig = Rig::with(config, BrokerLimits::default());
    let conn = rig.connect();
    let served = versions(&mut rig, conn, 4);
    for expected in [(0, 0, 13), (10, 0, 6), (68, 0, 1), (1, 4, 12)] {
        assert!(served.contains(&expected), "{expected:?} in {served:?}");
    }
    // What brokers say to each other is not for clients.
    assert!(served.iter().all(|(key, ..)| *key != 67));
}

/// D7: version 0, error 35, one entry; the body is not looked at, and the connection stays.
#[test]
fn api_versions_of_the_future_are_answered_in_version_0() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    for version in [5, 6, 100, i16::MAX] {
        let bytes = frame(ApiKey::API_VERSIONS, version, 42, |w| w.bytes(&[0xff; 7]));
        rig.net.put(conn, bytes);
        rig.settle();
        let answer = rig.net.got(conn).unwrap();
        let body = body(&answer, ApiKey::API_VERSIONS, version, 42);
        assert_eq!(body.len(), 12);
        let response = ApiVersionsResponse::decode(&body, 0).unwrap();
        assert_eq!(response.error_code, 35);
        let own: Vec<_> = response.api_keys.iter().collect();
        assert_eq!((own.len(), own[0].api_key), (1, 18));
        assert_eq!((own[0].min_version, own[0].max_version), (0, 4));
        assert!(rig.net.is_open(conn));
    }
    assert_eq!(versions(&mut rig, conn, 4).len(), 9);
}

/// D8: a bad name of the client's software is error 42, and the connection stays.
#[test]
fn api_versions_look_at_the_clients_name() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    for (name, version, error) in [
        ("apache-kafka-java", "4.3.1", 0),
        ("", "1", 42),
        ("name", "", 42),
        ("with space", "1", 42),
        ("-a", "1", 42),
        ("a", "1-", 42),
    ] {
        let request =
            ApiVersionsRequest { client_software_name: name, client_software_version: version };
        for v in [3, 4] {
            let body = rig.call(conn, v, &request).unwrap();
            let response = ApiVersionsResponse::decode(&body, v).unwrap();
            assert_eq!(response.error_code, error, "{name:?} {version:?}");
            assert_eq!(response.api_keys.is_empty(), error != 0);
        }
        // Below v3 there are no names.
        assert!(!versions(&mut rig, conn, 2).is_empty());
    }
}

/// D5, D6, P5, P25 (Fetch with topic ids only): no answer to what cannot be served, and a reason in the log.
#[test]
fn what_is_not_served_ends_the_connection() {
    let empty = |_: &mut Writer<'_>| {};
    let metadata = |version| frame(ApiKey::METADATA, version, 1, |w| w.i32(0));
    for (bytes, why) in [
        (vec![], "the message ends early"),
        (vec![0, 18], "the message ends early"),
        (vec![0, 18, 0, 0, 0, 0, 0], "the message ends early"),
        (vec![0, 18, 0, 0, 0, 0, 0, 1, 0, 9, b'x'], "the message ends early"),
        (vec![0, 18, 0, 0, 0, 0, 0, 1, 0, 1, 0xff], "UTF-8"),
        (vec![0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff], "not known"),
        (vec![0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff], "not known"),
        // D12: the only header without a client id.
        (vec![0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1], "not known"),
        (metadata(14), "the version is not served"),
        (metadata(-1), "the version is not served"),
        (frame(ApiKey::PRODUCE, 2, 1, empty), "the version is not served"),
        (frame(ApiKey::PRODUCE, 12, 1, empty), "the version is not served"),
        (frame(ApiKey::FETCH, 3, 1, empty), "the version is not served"),
        (frame(ApiKey::FETCH, 13, 1, empty), "the version is not served"),
        (frame(ApiKey::LIST_OFFSETS, 8, 1, empty), "the version is not served"),
        (frame(ApiKey::API_VERSIONS, -1, 1, empty), "the version is not served"),
        (frame(ApiKey::FIND_COORDINATOR, 2, 1, empty), "API is not served"),
        (frame(ApiKey::SASL_HANDSHAKE, 1, 1, empty), "API is not served"),
        // A header and no body.
        (frame(ApiKey::METADATA, 12, 1, empty), "the message ends early"),
        (frame(ApiKey::METADATA, 12, 1, |w| w.bytes(&[0xff; 6])), "a varint is too long"),
    ] {
        let mut rig = Rig::new();
        let conn = rig.connect();
        rig.net.put(conn, bytes.clone());
        rig.assert_closed(conn, why);
        assert_eq!(rig.broker.stats().connections, 0);
        assert_eq!(rig.broker.stats().refused, 1, "{bytes:?}");
        assert!(!rig.logged("v-1") || bytes.len() >= 4, "{:?}", rig.lines.lock());
    }
}

/// D9: a null client id; D11: bytes behind the body.
#[test]
fn a_null_client_id_and_bytes_left_over_are_fine() {
    let mut rig = Rig::new();
    let conn = rig.connect();
    let mut bytes = vec![0, 18, 0, 0, 0, 0, 0, 9, 0xff, 0xff];
    bytes.extend([1, 2, 3, 4]);
    rig.net.put(conn, bytes);
    rig.settle();
    assert!(!rig.answer(conn, ApiKey::API_VERSIONS, 0, 9).is_empty());
}

/// D10, and everything else a peer can get wrong: each request cut at each place, and each of its
/// bytes changed, does no harm beyond its own connection.
#[test]
fn cut_and_damaged_requests() {
    let mut rig = Rig::new();
    let admin = rig.connect();
    rig.create(admin, "t", 2);
    let records = batch(3);
    let mut frames = vec![];
    with_produce(-1, 1000, &[("t", 0, Some(&records)), ("t", 1, Some(&records))], |m| {
        for v in [3, 9] {
            frames.push(frame(ApiKey::PRODUCE, v, 1, |w| m.encode(w, v)));
        }
    });
    let want = Want { wait: 0, ..Want::of(&[("t", 0, 0), ("t", 1, 0)]) };
    want.with(|m| {
        for v in [4, 12] {
            frames.push(frame(ApiKey::FETCH, v, 1, |w| m.encode(w, v)));
        }
    });
    frames.push(frame(ApiKey::METADATA, 12, 1, |w| {
        MetadataRequest::default().encode(w, 12);
    }));
    frames.push(frame(ApiKey::INIT_PRODUCER_ID, 4, 1, |w| {
        InitProducerIdRequest::default().encode(w, 4);
    }));
    let mut runs = 0;
    let mut conn = rig.connect();
    for bytes in &frames {
        let cut = (0..bytes.len()).map(|at| bytes[..at].to_vec());
        let changed = (0..bytes.len()).flat_map(|at| {
            [0x00, 0x7f, 0x80, 0xff].map(|byte| {
                let mut bytes = bytes.clone();
                bytes[at] = byte;
                bytes
            })
        });
        for garbage in cut.chain(changed) {
            if !rig.net.is_open(conn) {
                conn = rig.connect();
            }
            rig.net.put(conn, garbage);
            // A damaged Fetch may ask to wait for days.
            rig.turn();
            rig.turn();
            while rig.net.got(conn).is_some() {}
            if rig.broker.stats().parked > 0 {
                rig.net.hang_up(conn);
                rig.turn();
            }
            runs += 1;
        }
    }
    assert!(runs > 3000);
    assert_eq!(rig.broker.stats().panics, 0);
    assert_eq!(rig.fetch(admin, "t", 0, 0).error, ErrorCode::NONE);
    // The log holds whole batches only.
    let fetched = rig.fetch(admin, "t", 0, 0);
    assert!(!fetched.offsets().is_empty());
}

/// A request that announces more elements than it has bytes reserves nothing.
#[test]
fn counts_are_held_against_the_bytes() {
    let mut rig = Rig::new();
    for count in [5, 1 << 20, i32::MAX] {
        let conn = rig.connect();
        let bytes = frame(ApiKey::METADATA, 1, 1, |w| w.i32(count));
        rig.net.put(conn, bytes);
        rig.assert_closed(conn, "array count");
    }
}

/// Random bodies behind good headers, for every version of every API.
#[test]
fn random_bodies() {
    let mut rig = Rig::new();
    let admin = rig.connect();
    rig.create(admin, "t", 1);
    let mut x = 3u64;
    let mut random = move || {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) as usize
    };
    let mut conn = rig.connect();
    for api in crate::broker::handlers::APIS {
        for version in api.served_from..=api.max {
            for _ in 0..150 {
                let len = random() % 60;
                // Small numbers are more often lengths, counts and versions that can be.
                let body: Vec<u8> =
                    (0..len).map(|_| (random() % [256, 3, 10][random() % 3]) as u8).collect();
                if !rig.net.is_open(conn) {
                    conn = rig.connect();
                }
                rig.net.put(conn, frame(api.key, version, 1, |w| w.bytes(&body)));
                rig.turn();
                rig.turn();
                while rig.net.got(conn).is_some() {}
                if rig.broker.stats().parked > 0 {
                    rig.net.hang_up(conn);
                    rig.turn();
                }
            }
        }
    }
    assert_eq!(rig.broker.stats().panics, 0);
    assert_eq!(rig.produce(admin, "t", 0, &batch(1)).error, ErrorCode::NONE);
}
