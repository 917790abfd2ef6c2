//! Fetch: rows P23 to P31, and the long poll on a clock that is moved by hand.

use super::*;

fn rig(partitions: i32) -> (Rig, ConnId) {
    let mut rig = Rig::new();
    let conn = rig.connect();
    rig.create(conn, "t", partitions);
    (rig, conn)
}

fn get(rig: &mut Rig, conn: ConnId, version: i16, want: &Want<'_>) -> Vec<Fetched> {
    let body = want.with(|m| rig.call(conn, version, m)).expect("an answer");
    fetched(&body, version)
}

/// P23, P28: every partition asked for is told of, empty ones with empty records.
#[test]
fn every_partition_is_in_the_answer() {
    let (mut rig, conn) = rig(3);
    rig.produce(conn, "t", 1, &batch(2));
    let asked = [("t", 0, 0), ("t", 1, 0), ("none", 0, 0), ("t", 2, 0), ("t", 1, 2), ("t", 9, 0)];
    for version in 4..=12 {
        for wait in [0, 500] {
            let parts = get(&mut rig, conn, version, &Want { wait, ..Want::of(&asked) });
            let told: Vec<_> =
                parts.iter().map(|p| (p.partition, p.error.0, p.records.is_empty())).collect();
            let expected = [
                (0, 0, true),
                (1, 0, false),
                (0, 3, true),
                (2, 0, true),
                (1, 0, true),
                (9, 3, true),
            ];
            assert_eq!(told, expected, "v{version}");
            let log_start = if version >= 5 { 0 } else { -1 };
            assert_eq!((parts[1].high_watermark, parts[1].last_stable), (2, 2));
            assert_eq!(parts[1].log_start, log_start);
        }
    }
}

/// P24: whatever is asked for, the answer has no session; one that was never given is not known.
#[test]
fn there_are_no_sessions() {
    let (mut rig, conn) = rig(1);
    rig.produce(conn, "t", 0, &batch(1));
    let asked = [("t", 0, 0)];
    for session in [(0, -1), (0, 0), (5, 0), (5, -1)] {
        let parts = get(&mut rig, conn, 12, &Want { session, ..Want::of(&asked) });
        assert_eq!(parts[0].offsets(), [0]);
    }
    for session in [(5, 1), (0, 1), (0, i32::MAX), (5, -2), (0, -2), (-1, i32::MIN)] {
        let unknown = Want { session, ..Want::of(&asked) };
        let body = unknown.with(|m| rig.call(conn, 12, m)).unwrap();
        let response = FetchResponse::decode(&body, 12).unwrap();
        assert_eq!((response.error_code, response.session_id), (70, 0), "{session:?}");
        assert!(response.responses.is_empty());
    }
    // What ends a session names no partition, and is answered at once.
    assert_eq!(get(&mut rig, conn, 12, &Want { session: (5, -1), ..Want::of(&[]) }), []);
}

/// P26: the batch that holds the offset comes whole.
#[test]
fn an_offset_inside_of_a_batch() {
    let (mut rig, conn) = rig(1);
    for _ in 0..3 {
        rig.produce(conn, "t", 0, &batch(10));
    }
    for (offset, expected) in
        [(0, vec![0, 10, 20]), (9, vec![0, 10, 20]), (10, vec![10, 20]), (29, vec![20])]
    {
        assert_eq!(rig.fetch(conn, "t", 0, offset).offsets(), expected);
    }
    assert_eq!(rig.fetch(conn, "t", 0, 30).offsets(), [0i64; 0]);
}

/// P27: the first batch comes whatever the limits; then whole batches within them, in the order of
/// the request.
#[test]
fn limits() {
    let (mut rig, conn) = rig(3);
    let one = batch(5);
    for partition in 0..3 {
        for _ in 0..4 {
            rig.produce(conn, "t", partition, &one);
        }
    }
    let len = one.len() as i32;
    let asked = [("t", 2, 0), ("t", 0, 0), ("t", 1, 0)];
    for (max, partition_max, counts) in [
        (0, 0, [1, 0, 0]),
        (1, 1 << 20, [1, 0, 0]),
        (len * 2, 1 << 20, [2, 0, 0]),
        (len * 5 + 1, 1 << 20, [4, 1, 0]),
        (1 << 20, len, [1, 1, 1]),
        (1 << 20, len * 3 - 1, [2, 2, 2]),
        (len * 3, len * 2, [2, 1, 0]),
        // Where the first batch alone is over its partition's limit, the rest still counts.
        (1 << 20, len - 1, [1, 0, 0]),
        (i32::MAX, i32::MAX, [4, 4, 4]),
        (-1, -1, [1, 0, 0]),
    ] {
        let parts = get(&mut rig, conn, 12, &Want { max, partition_max, ..Want::of(&asked) });
        let got: Vec<_> = parts.iter().map(|p| p.offsets().len()).collect();
        assert_eq!(got, counts, "{max} {partition_max}");
        assert_eq!(parts.iter().map(|p| p.partition).collect::<Vec<_>>(), [2, 0, 1]);
    }
    // An empty partition in front does not use up the right to one batch.
    rig.create(conn, "empty", 1);
    let asked = [("empty", 0, 0), ("t", 0, 0)];
    let parts = get(&mut rig, conn, 12, &Want { max: 1, ..Want::of(&asked) });
    assert_eq!((parts[0].offsets().len(), parts[1].offsets().len()), (0, 1));
}

#[test]
fn the_broker_has_a_limit_of_its_own() {
    let config = BrokerConfig { fetch_max_bytes: 5000, ..BrokerConfig::default() };
    let mut rig = Rig::with(config, BrokerLimits::default());
    let conn = rig.connect();
    rig.create(conn, "t", 1);
    for _ in 0..20 {
        rig.produce(conn, "t", 0, &batch_of(1, 900, &Seal::default()));
    }
    assert_eq!(rig.fetch(conn, "t", 0, 0).offsets().len(), 5);
}

/// A frame holds so many views of the log and no more: what is left comes with the next request.
#[test]
fn more_partitions_than_a_frame_has_pieces() {
    let (mut rig, conn) = rig(50);
    for partition in 0..50 {
        rig.produce(conn, "t", partition, &batch(1));
    }
    let asked: Vec<_> = (0..50).map(|partition| ("t", partition, 0)).collect();
    let parts = get(&mut rig, conn, 12, &Want::of(&asked));
    assert_eq!(parts.len(), 50);
    let full = parts.iter().filter(|p| p.offsets() == [0]).count();
    assert_eq!(full, crate::net::SendBuilder::MAX_PIECES);
    assert!(parts.iter().all(|p| p.error.is_ok() && p.high_watermark == 1));
}

/// P30: without transactions everything is stable, and nothing was aborted.
#[test]
fn read_committed_reads_everything() {
    let (mut rig, conn) = rig(1);
    rig.produce(conn, "t", 0, &batch(4));
    for (isolation, aborted) in [(0, None), (1, Some(0))] {
        for version in 4..=12 {
            let parts =
                get(&mut rig, conn, version, &Want { isolation, ..Want::of(&[("t", 0, 0)]) });
            assert_eq!((parts[0].last_stable, parts[0].aborted), (4, aborted));
            assert_eq!(parts[0].offsets(), [0]);
        }
    }
}

/// P31: epochs, and offsets that are not there.
#[test]
fn epochs_and_ranges() {
    let (mut rig, conn) = rig(1);
    rig.produce(conn, "t", 0, &batch(4));
    let mut part = |want: Want<'_>, version| get(&mut rig, conn, version, &want).remove(0);
    let asked = [("t", 0, 0)];
    for (epoch, code) in [(-1, 0), (0, 0), (1, 75), (-2, 74), (i32::MAX, 75)] {
        let want = Want { epoch, ..Want::of(&asked) };
        for version in [9, 11, 12] {
            let part = part(want.clone(), version);
            assert_eq!(part.error.0, code, "epoch {epoch}");
            assert_eq!(part.offsets().is_empty(), code != 0);
        }
        // Before v9 nobody believes in an epoch.
        assert_eq!(part(want, 8).error.0, 0);
    }
    for offset in [-1, 5, i64::MAX, i64::MIN] {
        let part = part(Want::of(&[("t", 0, offset)]), 12);
        assert_eq!((part.error.0, part.offsets().len()), (1, 0));
    }
    // v12: a reader that has records of epoch 0 beyond the end was cut off behind the end.
    let beyond = [("t", 0, 9)];
    let diverged = part(Want { last_epoch: 0, ..Want::of(&beyond) }, 12);
    assert_eq!((diverged.error.0, diverged.diverging), (0, (0, 4)));
    assert!(diverged.records.is_empty());
    let same = part(Want { last_epoch: 0, ..Want::of(&asked) }, 12);
    assert_eq!((same.diverging, same.offsets()), ((-1, -1), vec![0]));
    assert_eq!(part(Want { last_epoch: 1, ..Want::of(&asked) }, 12).error.0, 1);
}

/// P29: an append ends the wait, in the turn in which it comes.
#[test]
fn a_long_poll_ends_with_an_append() {
    let (mut rig, reader) = rig(2);
    let producer = rig.connect();
    let asked = [("t", 0, 0), ("t", 1, 0)];
    let poll = Want::of(&asked).with(|m| rig.ask(reader, 12, m));
    rig.turn();
    assert_eq!((rig.net.got(reader), rig.broker.stats().parked), (None, 1));
    assert!(rig.net.is_muted(reader));
    // What comes behind it waits for it.
    let next = rig.ask(reader, 12, &MetadataRequest::default());
    rig.settle();
    assert_eq!(rig.net.got(reader), None);
    assert_eq!(rig.broker.stats().wakes, 0, "nothing happened, nothing was looked at");
    with_produce(-1, 1000, &[("t", 1, Some(&batch(3)))], |m| rig.ask(producer, 9, m));
    assert_eq!(rig.turn(), 2, "both answers leave in one turn");
    let body = rig.answer(reader, ApiKey::FETCH, 12, poll);
    let parts = fetched(&body, 12);
    assert_eq!((parts[0].offsets().len(), parts[1].offsets()), (0, vec![0]));
    assert_eq!((rig.broker.stats().parked, rig.broker.stats().wakes), (0, 1));
    rig.settle();
    rig.answer(reader, ApiKey::METADATA, 12, next);
}

/// P29: without an append the wait ends when it was to end, not before and not after.
#[test]
fn a_long_poll_ends_at_its_time() {
    let (mut rig, conn) = rig(1);
    let asked = [("t", 0, 0)];
    let start = rig.now.at;
    let poll = Want::of(&asked).with(|m| rig.ask(conn, 12, m));
    rig.turn();
    assert_eq!(rig.broker.next_deadline(), Some(start.after(Duration::from_millis(500))));
    assert!(!rig.broker.wants_turn());
    rig.pass(Duration::from_nanos(499_999_999));
    rig.turn();
    assert_eq!(rig.net.got(conn), None);
    rig.pass(Duration::from_nanos(1));
    rig.turn();
    let body = rig.answer(conn, ApiKey::FETCH, 12, poll);
    assert!(fetched(&body, 12)[0].records.is_empty());
    assert_eq!(rig.broker.next_deadline(), None);
    assert_eq!(rig.broker.stats().wakes, 1);
    // Who does not want to wait does not.
    assert!(get(&mut rig, conn, 12, &Want { wait: 0, ..Want::of(&asked) })[0].records.is_empty());
    assert!(get(&mut rig, conn, 12, &Want { min: 0, ..Want::of(&asked) })[0].records.is_empty());
    assert!(get(&mut rig, conn, 12, &Want { wait: -5, ..Want::of(&asked) })[0].records.is_empty());
}

/// P29: an error anywhere is told at once.
#[test]
fn errors_do_not_wait() {
    let (mut rig, conn) = rig(1);
    for asked in
        [[("t", 0, 0), ("none", 0, 0)], [("t", 0, 0), ("t", 1, 0)], [("t", 0, 0), ("t", 0, 7)]]
    {
        let parts = get(&mut rig, conn, 12, &Want::of(&asked));
        assert!(!parts[1].error.is_ok());
    }
    let want = Want { epoch: 3, ..Want::of(&[("t", 0, 0)]) };
    assert_eq!(get(&mut rig, conn, 12, &want)[0].error.0, 75);
    assert_eq!(rig.broker.stats().parked, 0);
}

#[test]
fn a_long_poll_waits_for_enough_bytes() {
    let (mut rig, reader) = rig(2);
    let producer = rig.connect();
    let one = batch(1);
    let min = 3 * one.len() as i32;
    let asked = [("t", 0, 0), ("t", 1, 0)];
    let poll = Want { min, ..Want::of(&asked) }.with(|m| rig.ask(reader, 12, m));
    rig.turn();
    for (i, partition) in [0, 1].into_iter().enumerate() {
        rig.produce(producer, "t", partition, &one);
        assert_eq!(rig.net.got(reader), None);
        assert_eq!(rig.broker.stats().wakes, i as u64 + 1);
    }
    rig.produce(producer, "t", 1, &one);
    let body = rig.answer(reader, ApiKey::FETCH, 12, poll);
    let parts = fetched(&body, 12);
    assert_eq!((parts[0].offsets(), parts[1].offsets()), (vec![0], vec![0, 1]));
    // What a partition may give at most counts, not what it has.
    let want = Want { min, partition_max: 10, wait: 100, ..Want::of(&[("t", 1, 0)]) };
    let poll = want.with(|m| rig.ask(reader, 12, m));
    rig.settle();
    assert_eq!(rig.net.got(reader), None);
    rig.pass(Duration::from_millis(100));
    rig.settle();
    let body = rig.answer(reader, ApiKey::FETCH, 12, poll);
    assert_eq!(fetched(&body, 12)[0].offsets(), [0]);
    // More than the answer may hold is not waited for: what may be had is there.
    let want = Want { min: 1 << 20, max: one.len() as i32, ..Want::of(&[("t", 1, 0)]) };
    assert_eq!(get(&mut rig, reader, 12, &want)[0].offsets(), [0]);
}

/// However many appends a turn has, a poll is looked at once; and polls of other partitions not at
/// all.
#[test]
fn appends_of_a_turn_wake_once() {
    let (mut rig, producer) = rig(100);
    let readers: Vec<_> = (0..10).map(|_| rig.connect()).collect();
    let all: Vec<_> = (0..90).map(|partition| ("t", partition, 0)).collect();
    let other = [("t", 95, 0)];
    for reader in &readers[..9] {
        Want { min: 1 << 20, ..Want::of(&all) }.with(|m| rig.ask(*reader, 12, m));
    }
    Want::of(&other).with(|m| rig.ask(readers[9], 12, m));
    rig.turn();
    assert_eq!(rig.broker.stats().parked, 10);
    for partition in 0..90 {
        with_produce(0, 0, &[("t", partition, Some(&batch(1)))], |m| rig.ask(producer, 9, m));
    }
    rig.turn();
    assert_eq!(rig.broker.stats().batches_in, 90);
    assert_eq!(rig.broker.stats().wakes, 9);
    assert!(!rig.broker.wants_turn());
}

/// A poll of more partitions than there are places to note is woken by any append, and still right.
#[test]
fn polls_of_very_many_partitions() {
    let limits = BrokerLimits { max_parked: 4, max_partitions: 400, ..BrokerLimits::default() };
    let mut rig = Rig::with(BrokerConfig::default(), limits);
    let producer = rig.connect();
    rig.create(producer, "t", 400);
    let readers: Vec<_> = (0..4).map(|_| rig.connect()).collect();
    let all: Vec<_> = (0..399).map(|partition| ("t", partition, 0)).collect();
    let polls: Vec<_> =
        readers.iter().map(|r| Want::of(&all).with(|m| rig.ask(*r, 12, m))).collect();
    rig.turn();
    assert_eq!(rig.broker.stats().parked, 4);
    rig.produce(producer, "t", 399, &batch(1));
    assert_eq!(rig.broker.stats().parked, 4);
    rig.produce(producer, "t", 398, &batch(1));
    for (reader, poll) in readers.iter().zip(polls) {
        let body = rig.answer(*reader, ApiKey::FETCH, 12, poll);
        assert_eq!(fetched(&body, 12)[398].offsets(), [0]);
    }
    assert_eq!(rig.broker.stats().parked, 0);
}

/// Where there is no place to wait, the answer is what there is.
#[test]
fn a_full_purgatory_answers_at_once() {
    let limits = BrokerLimits { max_parked: 1, ..BrokerLimits::default() };
    let mut rig = Rig::with(BrokerConfig::default(), limits);
    let conn = rig.connect();
    rig.create(conn, "t", 1);
    let (first, second) = (rig.connect(), rig.connect());
    let asked = [("t", 0, 0)];
    Want::of(&asked).with(|m| rig.ask(first, 12, m));
    rig.turn();
    assert!(get(&mut rig, second, 12, &Want::of(&asked))[0].records.is_empty());
    assert_eq!(rig.net.got(first), None);
    // A peer that goes leaves its place.
    rig.net.hang_up(first);
    rig.turn();
    Want::of(&asked).with(|m| rig.ask(second, 12, m));
    rig.turn();
    assert_eq!((rig.net.got(second), rig.broker.stats().parked), (None, 1));
}

#[test]
fn a_deleted_topic_ends_the_wait() {
    let (mut rig, reader) = rig(2);
    let admin = rig.connect();
    let asked = [("t", 0, 0), ("t", 1, 0)];
    let poll = Want::of(&asked).with(|m| rig.ask(reader, 12, m));
    rig.turn();
    let names = |out: &mut crate::protocol::ArrayWriter<'_, '_, &'static str>| out.push(&"t");
    let topic_names = Array::emit(1, &names);
    rig.call(admin, 5, &DeleteTopicsRequest { topic_names, ..Default::default() }).unwrap();
    let body = rig.answer(reader, ApiKey::FETCH, 12, poll);
    assert!(fetched(&body, 12).iter().all(|p| p.error.0 == 3));
}
