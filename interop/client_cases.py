"""kloop as a client of Apache Kafka: what other clients read of it, what it reads of them, and what it says
when the broker is killed."""

import os
import random
import re
import select
import subprocess
import time

from brokers import codecs_in
from cases import CODECS, MANY, expect_same, large_record, many_values, numbered, odd_records
from peers import value_lines
from processes import Failure, tail_of
from records import line_of

RECORDS, KILL_AT, PARTITIONS = 200_000, 60_000, 3


class Kloop:
    """All of kloop's programs that are clients, and the foreign clients at the other end."""

    def __init__(self, examples, peer, programs, foreign):
        self.examples, self.peer, self.programs = examples, peer, programs
        self.java, self.kcat = foreign["java"], foreign["kcat"]


def written_by_kloop(acks, idempotent):
    """A case: kloop produces, Java reads."""

    def case(cell, kloop):
        sent = numbered(0, 1000)
        kloop.peer.produce(cell, cell.name, sent, acks, idempotent)
        expect_same(kloop.java.consume(cell, cell.name, "earliest", len(sent)), sent)

    return case


class Between:
    """A peer made of two: one sends, another reads."""

    def __init__(self, writer, reader):
        self.writer, self.reader = writer, reader
        self.produce, self.consume = writer.produce, reader.consume

    def can_send(self, record):
        """Whether both know such a record."""
        return self.writer.can_send(record) and self.reader.can_send(record)


def odd_content_both_ways(cell, kloop):
    """Keys, values and headers of every kind, from kloop to Java and back."""
    sent = [line_of(*record) for record in odd_records()]
    for writer, reader, topic in ((kloop.peer, kloop.java, "-out"), (kloop.java, kloop.peer, "-in")):
        writer.produce(cell, cell.name + topic, sent)
        expect_same(reader.consume(cell, cell.name + topic, "earliest", len(sent)), sent, topic[1:])


def large_record_both_ways(cell, kloop):
    """900 KB from kloop to Java and back."""
    name = cell.name
    for pair, suffix in ((Between(kloop.peer, kloop.java), "-out"), (Between(kloop.java, kloop.peer), "-in")):
        cell.name = name + suffix
        large_record(cell, pair)


def many_out(cell, kloop):
    """100,000 lines through build/producer, read by Java and by kcat."""
    values = many_values()
    kloop.examples.produce(cell, cell.name, values)
    for reader in (kloop.java, kloop.kcat):
        expect_same(reader.consume(cell, cell.name, "earliest", MANY), value_lines(values), reader.name)


def many_in(cell, kloop):
    """100,000 records of Java, read by build/consumer from the start and from an offset."""
    values = many_values()
    kloop.java.produce(cell, cell.name, value_lines(values))
    expect_same(kloop.examples.consume(cell, cell.name, "earliest"), values)
    expect_same(kloop.examples.consume(cell, cell.name, 98_765), values[98_765:], "from an offset")


def compressed_by_others(cell, kloop):
    """What Java and kcat compress, read by kloop from the start, from an offset and record by record."""
    values = [b"%06d " % number + b"much the same text " * 8 for number in range(20_000)]
    for codec in CODECS:
        for writer in (kloop.java, kloop.kcat):
            topic = f"{cell.name}-{codec}-{writer.name}"
            writer.produce(cell, topic, value_lines(values), codec=codec)
            seen = codecs_in(cell.address, topic)
            if seen != {codec}:
                raise Failure(f"the batches of {writer.name} are {seen}, not {codec}")
            expect_same(kloop.examples.consume(cell, topic, "earliest"), values, topic)
            expect_same(kloop.examples.consume(cell, topic, 12_345), values[12_345:], topic + " from an offset")
        sent = [line_of(*record) for record in odd_records()]
        kloop.java.produce(cell, f"{cell.name}-{codec}-odd", sent, codec=codec)
        expect_same(kloop.peer.consume(cell, f"{cell.name}-{codec}-odd", "earliest", len(sent)), sent, codec)


def latest_by_example(cell, kloop):
    """build/consumer from latest sees what is sent once it is there, and nothing older."""
    kloop.java.produce(cell, cell.name, value_lines([b"old"] * 10))
    reader = cell.start([kloop.examples.consumer, "-b", cell.address, "-t", cell.name, "-o", "latest"])
    number = 0
    while reader.output().count(b"\n") < 3:
        if time.monotonic() > cell.deadline:
            reader.kill()
            raise Failure("consumer: saw nothing in time", tail_of(reader.err_path))
        if reader.child.poll() is not None:
            raise Failure(f"consumer: ended with {reader.child.returncode}", tail_of(reader.err_path))
        kloop.java.produce(cell, cell.name, value_lines([b"new %d" % number]))
        number += 1
        time.sleep(0.1)
    time.sleep(0.3)
    reader.kill()
    got = reader.output().splitlines()
    first = int(got[0].split()[1]) if got[0].startswith(b"new ") else 0
    expect_same(got, [b"new %d" % i for i in range(first, number)])


def through_proxy(cell, kloop):
    """kcat and build/consumer through build/proxy, which stands before Apache Kafka."""
    program = os.path.join(os.path.dirname(kloop.examples.consumer), "proxy")
    proxy = cell.start([program, "-b", cell.address, "--listen", "127.0.0.1:0"])
    while not proxy.output().endswith(b"\n"):
        if time.monotonic() > cell.deadline or proxy.child.poll() is not None:
            raise Failure("the proxy does not listen", tail_of(proxy.err_path))
        time.sleep(0.01)
    sent = value_lines(many_values()[:10_000])
    kloop.java.produce(cell, cell.name + "-warm", sent[:1])
    cell.address = proxy.output().decode().split()[2]
    kloop.kcat.produce(cell, cell.name, sent)
    expect_same(kloop.kcat.consume(cell, cell.name, "earliest", len(sent)), sent)
    values = kloop.examples.consume(cell, cell.name, "earliest")
    expect_same(value_lines(values), sent, "build/consumer")


def random_keys(count):
    """Distinct random keys of 0 to 40 bytes."""
    source, keys = random.Random(11), {b"": None, b"\x00": None, b"\xff\xfe": None}
    while len(keys) < count:
        keys[source.randbytes(source.randrange(1, 41))] = None
    return list(keys)


def partitions_of_keys(cell, kloop):
    """kloop chooses the partition that the Java client chooses, for 1000 keys."""
    lines = [line_of(key, b"v") for key in random_keys(1000)]
    for partitions in (7, 12):
        topic = f"{cell.name}-{partitions}"
        kloop.java.create(cell, topic, partitions)
        expected = kloop.java.partitions_of(cell, topic, lines)
        if len(set(expected)) != partitions:
            raise Failure(f"the keys reach only {len(set(expected))} of {partitions} partitions")
        path = cell.write("".join(line + "\n" for line in lines).encode())
        got = cell.run([kloop.programs("keys"), cell.address, topic, path]).split()
        expect_same([int(one) for one in got], expected, f"partitions of keys, {partitions} in all")


def broker_killed(cell, kloop, kafka):
    """The broker is killed and restarted in the middle of 200,000 records; every one has one outcome, what is
    reported as persisted is there, each partition is in order and without duplicates."""
    kloop.java.create(cell, cell.name, PARTITIONS)
    outcomes, killed_at = run_outcomes(cell, kloop.programs("outcomes"), kafka)
    persisted, absent = check_outcomes(outcomes)
    log = {}
    for partition in range(PARTITIONS):
        args = ["kcat", "-b", cell.address, "-C", "-t", cell.name, "-p", str(partition), "-o", "beginning"]
        text = cell.run([*args, "-e", "-q", "-f", "%o %s\\n"]).decode()
        last = -1
        for offset, value in (line.split()[:2] for line in text.splitlines()):
            user = int(value)
            if user <= last:
                raise Failure(f"partition {partition}: {user} stands behind {last} at offset {offset}")
            last = user
            log[user] = (partition, int(offset))
    for user, place in persisted.items():
        if log.get(user) != place:
            raise Failure(f"{user} was reported at {place} and is at {log.get(user)}")
    if absent & log.keys():
        raise Failure(f"{len(absent & log.keys())} records were reported as certainly not persisted and are there")
    return f"killed at {killed_at} outcomes: {len(persisted)} persisted, {len(log)} in the log"


def run_outcomes(cell, program, kafka):
    """Runs the program, kills the broker on the way, restarts it; gives all outcome lines."""
    err_path = cell.base() + ".err"
    with open(err_path, "wb") as err:
        child = subprocess.Popen(
            [program, cell.address, cell.name, str(RECORDS)], stdout=subprocess.PIPE, stderr=err, bufsize=0
        )
    data, killed_at = bytearray(), 0
    try:
        while True:
            ready, _, _ = select.select([child.stdout], [], [], max(0.01, cell.deadline - time.monotonic()))
            if not ready:
                raise Failure(f"outcomes: no end in time, {data.count(10)} outcomes so far", tail_of(err_path))
            more = os.read(child.stdout.fileno(), 4096)
            if not more:
                break
            data += more
            # As long as nobody reads, the program waits: most records are still to be sent.
            if not killed_at and len(data) > KILL_AT * 8 and data.count(10) >= KILL_AT:
                killed_at = data.count(10)
                kafka.kill()
                time.sleep(0.5)
                kafka.start()
        if child.wait(5) != 0:
            raise Failure(f"outcomes: exit status {child.returncode}", tail_of(err_path))
    finally:
        child.kill()
        child.wait()
        if not kafka.alive():
            kafka.start()
    if not killed_at:
        raise Failure("the end came before the broker could be killed")
    return bytes(data).decode().splitlines(), killed_at


def check_outcomes(lines):
    """Every record has one outcome; gives the places of what is persisted, and what certainly is not."""
    seen, persisted, absent = set(), {}, set()
    for line in lines:
        if not re.fullmatch(r"\d+ (PERSISTED|MAYBE_PERSISTED|NOT_PERSISTED) -?\d+ -?\d+", line):
            raise Failure(f"outcomes: not a line of the kind expected: {line[:80]}")
        user, outcome, partition, offset = line.split()
        if int(user) in seen:
            raise Failure(f"record {user} has two outcomes")
        seen.add(int(user))
        if outcome == "PERSISTED":
            persisted[int(user)] = (int(partition), int(offset))
        if outcome == "NOT_PERSISTED":
            absent.add(int(user))
    if seen != set(range(RECORDS)):
        raise Failure(f"{len(seen)} of {RECORDS} records have an outcome")
    if len(persisted) < RECORDS // 2:
        raise Failure(f"only {len(persisted)} of {RECORDS} records are persisted")
    return persisted, absent


# Name, case, seconds.
CLIENT_CASES = [
    ("produce acks=0, read by Java", written_by_kloop("0", False), 30),
    ("produce acks=1, read by Java", written_by_kloop("1", False), 30),
    ("produce acks=all, read by Java", written_by_kloop("all", False), 30),
    ("produce idempotent, read by Java", written_by_kloop("all", True), 30),
    ("keys, headers, null and empty values with Java", odd_content_both_ways, 30),
    ("a record of 900 KB with Java", large_record_both_ways, 30),
    ("compressed by Java and kcat", compressed_by_others, 90),
    ("consumer example from latest", latest_by_example, 30),
    ("100,000 lines of the producer example", many_out, 90),
    ("100,000 records for the consumer example", many_in, 90),
    ("kcat through the proxy example", through_proxy, 60),
    ("partitions of 1,000 keys", partitions_of_keys, 40),
]
KILL_CASE = ("broker killed in 200,000 records", broker_killed, 120)
