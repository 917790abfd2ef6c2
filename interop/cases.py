"""What each peer must be able to do with the broker under test, and the records it does it with."""

import random
import time

from brokers import codecs_in
from peers import value_lines
from processes import Failure, Refused
from records import line_of

MANY = 100_000
TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC, INVALID_RECORD = 36, 3, 87
CODECS = ("gzip", "snappy", "lz4", "zstd")


def expect_same(got, sent, what="records"):
    """Fails with the first difference of two lists."""
    if got == sent:
        return
    for at, (one, other) in enumerate(zip(got, sent)):
        if one != other:
            raise Failure(f"{what}: number {at} differs: {str(one)[:120]} instead of {str(other)[:120]}")
    raise Failure(f"{what}: {len(got)} instead of {len(sent)}")


def numbered(first, count):
    """Plain records with a number in each."""
    return [line_of(f"key {i}".encode(), f"value {i}".encode()) for i in range(first, first + count)]


def many_values():
    """100,000 values of 20 to 180 bytes without a line's end, the same in every run."""
    source = random.Random(3)
    noise = source.randbytes(1 << 20).replace(b"\n", b"\x0b")
    values = []
    for number in range(MANY):
        at, size = source.randrange(len(noise) - 200), source.randrange(10, 170)
        values.append(b"%09d " % number + noise[at : at + size])
    return values


def odd_records():
    """Records with every mix of null, empty, short, long and binary in key, value and headers."""
    fields = [None, b"", b"x", b"a longer text with spaces", bytes(range(32, 256)) * 3]
    records = [(key, value, [], None) for key in fields for value in fields]
    records += [
        (b"k", b"v", [("one", b"1")], None),
        (b"k", b"v", [("one", b"1"), ("two", b"22"), ("one", b"again")], None),
        (None, b"v", [("name", b"3")], None),
        (b"k", None, [("name", b"4")], None),
        (b"", b"", [("name", b"5")], None),
        (b"k", b"v", [("null", None), ("empty", b""), ("binary", bytes(range(256)))], None),
        (b"k", b"v", [("\u00fcml\u00e4ut-\u4e2d", b"6")], None),
        (b"k", b"v", [(f"h{i}", b"%d" % i) for i in range(200)], None),
        (b"K" * 40_000, b"V" * 70_000, [("long", b"7" * 20_000)], None),
    ]
    return records


def produce_and_read_back(acks, idempotent):
    """A case that sends 1000 records and reads them back."""

    def case(cell, peer):
        topic, sent = cell.name, numbered(0, 1000)
        peer.produce(cell, topic, sent, acks, idempotent)
        expect_same(peer.consume(cell, topic, "earliest", len(sent)), sent)

    return case


def list_metadata(cell, peer):
    """The broker is listed by the address it was reached at, a topic with its partitions."""
    peer.produce(cell, cell.name, numbered(0, 1))
    brokers, topics = peer.metadata(cell)
    if brokers != {cell.address}:
        raise Failure(f"brokers {brokers} instead of {cell.address}")
    if topics.get(cell.name) != 1:
        raise Failure(f"topic {cell.name} is not there with 1 partition: {topics}")


def create_and_delete(cell, peer):
    """A topic is there after creation and gone after deletion; repeats are refused with Kafka's codes."""
    topic = cell.name
    peer.create(cell, topic, 3)
    if peer.metadata(cell)[1].get(topic) != 3:
        raise Failure("the created topic is not there with 3 partitions")
    for partition in (0, 2):
        sent = numbered(partition * 10, 5)
        peer.produce(cell, topic, sent, "all", False, partition)
        expect_same(peer.consume(cell, topic, "earliest", 5, partition), sent, f"partition {partition}")
    expect_refusal(TOPIC_ALREADY_EXISTS, lambda: peer.create(cell, topic, 1))
    peer.delete(cell, topic)
    until = time.monotonic() + 5
    while topic in peer.metadata(cell)[1]:
        if time.monotonic() > until:
            raise Failure("the deleted topic is still there")
        time.sleep(0.1)
    expect_refusal(UNKNOWN_TOPIC, lambda: peer.delete(cell, topic))


def expect_refusal(code, call):
    """Fails unless the broker refuses a call with this code."""
    try:
        call()
    except Refused as refused:
        if refused.code != code:
            raise Failure(f"error {refused.code} instead of {code}") from None
        return
    raise Failure(f"accepted instead of refused with error {code}")


def odd_content(cell, peer):
    """Keys, values and headers of every kind come back as they were sent."""
    sent = [line_of(*record) for record in odd_records() if peer.can_send(record)]
    peer.produce(cell, cell.name, sent)
    expect_same(peer.consume(cell, cell.name, "earliest", len(sent)), sent)


def large_record(cell, peer):
    """A record of 900 KB among small ones."""
    large = line_of(b"large", random.Random(9).randbytes(900_000).replace(b"\n", b"\x0b"))
    sent = [*numbered(0, 2), large, *numbered(2, 2)]
    peer.produce(cell, cell.name, sent)
    expect_same(peer.consume(cell, cell.name, "earliest", len(sent)), sent)


def from_earliest(cell, peer):
    """Two batches, read from the first record."""
    sent = numbered(0, 30)
    peer.produce(cell, cell.name, sent[:20])
    peer.produce(cell, cell.name, sent[20:])
    expect_same(peer.consume(cell, cell.name, "earliest", 30), sent)


def from_latest(cell, peer):
    """Only what is sent after the reader is there."""
    peer.produce(cell, cell.name, numbered(0, 20))
    records = peer.follow(cell, cell.name, 7)
    sent = numbered(20, 7)
    peer.produce(cell, cell.name, sent)
    expect_same(records(), sent)


def from_offset(cell, peer):
    """From the middle of the first batch and from the start of the second."""
    sent = numbered(0, 30)
    peer.produce(cell, cell.name, sent[:20])
    peer.produce(cell, cell.name, sent[20:])
    expect_same(peer.consume(cell, cell.name, 13, 17), sent[13:])
    expect_same(peer.consume(cell, cell.name, 20, 10), sent[20:])


def from_timestamp(cell, peer):
    """From a time between two batches; with timestamps given, also inside of one and for equal ones."""
    sent = numbered(0, 30)
    peer.produce(cell, cell.name, sent[:20])
    time.sleep(0.02)
    between = int(time.time() * 1000)
    time.sleep(0.02)
    peer.produce(cell, cell.name, sent[20:])
    expect_same(peer.consume(cell, cell.name, f"@{between}", 10), sent[20:])
    if not peer.can_stamp:
        return
    topic, base = cell.name + "-stamped", between - 600_000
    stamped = [f"{line} @{base + i // 2 * 1000}" for i, line in enumerate(sent)]
    peer.produce(cell, topic, stamped)
    for at, millis in ((6, base + 3000), (8, base + 3001), (0, base - 5)):
        expect_same(peer.consume(cell, topic, f"@{millis}", 30 - at), sent[at:], f"from {millis - base} ms")


def many_by_peer(cell, peer, kloop=None):
    """100,000 records sent by the peer are read by the peer, and by kloop's consumer."""
    values = many_values()
    sent = value_lines(values)
    peer.produce(cell, cell.name, sent)
    expect_same(peer.consume(cell, cell.name, "earliest", MANY), sent, peer.name)
    if kloop:
        expect_same(kloop.consume(cell, cell.name, "earliest"), values, "kloop's consumer")


def many_from_kloop(cell, peer, kloop):
    """100,000 records sent by kloop's producer are read by the peer."""
    values = many_values()
    kloop.produce(cell, cell.name, values)
    got = peer.consume(cell, cell.name, "earliest", MANY)
    expect_same(got, value_lines(values))


def compressed(codec):
    """A case: records compressed by the peer come back from every start, to the peer and to kloop's consumer."""

    def case(cell, peer, kloop=None):
        base = int(time.time() * 1000) - 600_000
        values = [b"%06d " % number + b"much the same text " * 8 for number in range(5000)]
        sent = value_lines(values)
        stamped = [f"{line} @{base + i * 10}" for i, line in enumerate(sent)] if peer.can_stamp else sent
        peer.produce(cell, cell.name, stamped, codec=codec)
        seen = codecs_in(cell.address, cell.name)
        spared = codec == "lz4" and peer.skips_lz4_without_coordinator and seen == {"none"}
        if seen != {codec} and not spared:
            raise Failure(f"the batches are {seen}, not {codec}")
        expect_same(peer.consume(cell, cell.name, "earliest", 5000), sent)
        expect_same(peer.consume(cell, cell.name, 1234, 5000 - 1234), sent[1234:], "from an offset")
        if peer.can_stamp:
            at = f"@{base + 33_331}"
            expect_same(peer.consume(cell, cell.name, at, 5000 - 3334), sent[3334:], "from a timestamp")
        if kloop:
            expect_same(kloop.consume(cell, cell.name, "earliest"), values, "kloop's consumer")
            expect_same(kloop.consume(cell, cell.name, 4321), values[4321:], "kloop's consumer from an offset")

    return case


def keyless_in_compacted(cell, peer):
    """Records without a key are refused by a compacted topic, compressed or not; those with one are taken."""
    peer.create(cell, cell.name, 1, "cleanup.policy=compact")
    sent = []
    for codec in ("none", *CODECS):
        keyless = numbered(0, 20) + [line_of(None, b"value")] + numbered(21, 20)
        expect_refusal(INVALID_RECORD, lambda lines=keyless, codec=codec: peer.produce(cell, cell.name, lines, codec=codec))
        more = numbered(len(sent), 40)
        peer.produce(cell, cell.name, more, codec=codec)
        sent += more
        expect_same(peer.consume(cell, cell.name, "earliest", len(sent)), sent, codec)


def large_requests(cell, peer):
    """Uncompressed batches of 900 KB for 40 partitions at once: the peer sends them in requests of many megabytes."""
    peer.run(cell, "spread", cell.name, 40, 80, 900_000)


# A case for each codec.
COMPRESSED = {codec: compressed(codec) for codec in CODECS}

# Name, case, seconds.
CASES = [
    ("list metadata", list_metadata, 30),
    ("topic create and delete", create_and_delete, 40),
    ("produce acks=0", produce_and_read_back("0", False), 30),
    ("produce acks=1", produce_and_read_back("1", False), 30),
    ("produce acks=all", produce_and_read_back("all", False), 30),
    ("produce idempotent", produce_and_read_back("all", True), 30),
    ("keys, headers, null and empty values", odd_content, 30),
    ("a record of 900 KB", large_record, 30),
    ("requests of many megabytes", large_requests, 60),
    *((f"compressed with {codec}", case, 40) for codec, case in COMPRESSED.items()),
    ("records without a key in a compacted topic", keyless_in_compacted, 40),
    ("consume from earliest", from_earliest, 30),
    ("consume from latest", from_latest, 30),
    ("consume from an offset", from_offset, 30),
    ("consume from a timestamp", from_timestamp, 30),
    ("100,000 records by the peer", many_by_peer, 90),
]


def cases_for(peer, kloop=None):
    """The cases that a peer has the means for, as (name, run, seconds); `kloop` are its own programs."""
    cases = []
    for name, case, seconds in CASES:
        if case in (create_and_delete, keyless_in_compacted) and not peer.can_administer:
            continue
        is_compressed = case in COMPRESSED.values()
        if (is_compressed or case is keyless_in_compacted) and not peer.can_compress:
            continue
        if case is large_requests and not peer.can_spread:
            continue
        if case is many_by_peer and kloop:
            cases.append((name + " to kloop too", lambda cell: many_by_peer(cell, peer, kloop), seconds))
            cases.append(("100,000 records by kloop", lambda cell: many_from_kloop(cell, peer, kloop), seconds))
        elif is_compressed:
            cases.append((name, lambda cell, case=case: case(cell, peer, kloop), seconds))
        else:
            cases.append((name, lambda cell, case=case: case(cell, peer), seconds))
    return cases
