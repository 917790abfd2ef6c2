"""The peers as the matrix drives them: the same calls for each, whatever program is behind."""

import os
import queue
import subprocess
import threading
import time

from brokers import INTEROP, JVM, java_class_path, log4j_option
from processes import REFUSED_STATUS, Failure, Refused
from records import field, line_of, parse_line

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT_JARS = ("kafka-clients-", "slf4j-", "log4j-", "lz4-", "snappy-", "zstd-", "jackson-", "snakeyaml-")


class Program:
    """A peer behind a program with the commands of interop/README.md."""

    can_administer = True
    can_stamp = True  # gives records a timestamp of its caller's
    can_spread = False  # has the command `spread`
    can_compress = True
    # librdkafka compresses with lz4 only where it finds the group coordinator's API.
    skips_lz4_without_coordinator = False

    def __init__(self, name, args):
        self.name, self.args = name, args

    def can_send(self, record):
        """Whether the client can send such a record at all."""
        key, value, headers, _ = record
        if self.name != "kafka-python":
            return True
        return (key, value) != (None, None) and all(data is not None for _, data in headers)

    def close(self):
        """Ends what lives longer than a cell."""

    def start(self, cell, *command):
        """Starts a command."""
        return cell.start([*self.args, command[0], cell.address, *map(str, command[1:])])

    def run(self, cell, *command):
        """Runs a command and gives the lines it printed."""
        return self.start(cell, *command).wait(cell.deadline).decode().splitlines()

    def metadata(self, cell):
        """The brokers' addresses, and the topics with their numbers of partitions."""
        brokers, topics = set(), {}
        for words in map(str.split, self.run(cell, "metadata")):
            if words[0] == "broker":
                brokers.add(words[2])
            else:
                topics[words[1]] = int(words[2])
        return brokers, topics

    def create(self, cell, topic, partitions, *settings):
        """Creates a topic with settings `KEY=VALUE`, or raises Refused."""
        self.run(cell, "create", topic, partitions, *settings)
        cell.prepare(topic, partitions)

    def delete(self, cell, topic):
        """Deletes a topic, or raises Refused."""
        self.run(cell, "delete", topic)

    def produce(self, cell, topic, lines, acks="all", idempotent=False, partition=None, codec="none"):
        """Sends records in order and waits for their outcome; raises Refused if there is a code."""
        cell.prepare(topic)
        path = cell.write("".join(line + "\n" for line in lines).encode())
        where = "-" if partition is None else partition
        self.run(cell, "produce", topic, path, acks, int(idempotent), where, codec)

    def consume(self, cell, topic, start, count, partition=0):
        """Reads `count` records."""
        return self.run(cell, "consume", topic, partition, start, count)

    def follow(self, cell, topic, count, partition=0):
        """Starts to read behind the end; gives a function that waits for `count` records."""
        process = self.start(cell, "consume", topic, partition, "latest", count)
        process.wait_for_error_text("ready", cell.deadline)
        return lambda: process.wait(cell.deadline).decode().splitlines()


class Job:
    """A command that runs in the JVM of `Java`."""

    def __init__(self):
        self.lines, self.errors, self.status = [], [], None
        self.news = queue.SimpleQueue()

    def listen(self, deadline, done):
        """Waits until `done()`."""
        while not done():
            try:
                self.news.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                return False
        return True


class Java(Program):
    """The Java client: all commands run in one JVM, which is started by the first one."""

    def __init__(self):
        classes = os.path.join(INTEROP, "java") + ":" + java_class_path(CLIENT_JARS)
        super().__init__("java", ["java", *JVM, log4j_option(), "-cp", classes, "Peer"])
        self.child, self.jobs, self.count = None, {}, 0

    def ensure_jvm(self, cell):
        """Starts the JVM if it does not run."""
        if self.child is not None and self.child.poll() is None:
            return
        with open(os.path.join(cell.folder, "java-peer.err"), "ab") as err:
            self.child = subprocess.Popen([*self.args, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)
        threading.Thread(target=self.read, args=[self.child], daemon=True).start()

    def read(self, child):
        """Deals the JVM's lines to the jobs."""
        for line in child.stdout:
            number, kind, text = line.decode().rstrip("\n").split(" ", 2)
            job = self.jobs.get(int(number))
            if job is None:
                continue
            if kind == "out":
                job.lines.append(text)
                continue
            if kind == "err":
                job.errors.append(text)
            else:
                job.status = int(text)
            job.news.put(kind)
        for job in list(self.jobs.values()):
            job.errors.append("the JVM has ended")
            job.status = -1
            job.news.put("end")

    def start(self, cell, *command):
        self.ensure_jvm(cell)
        self.count += 1
        job = self.jobs[self.count] = Job()
        words = [self.count, command[0], cell.address, *command[1:]]
        self.child.stdin.write(("\t".join(map(str, words)) + "\n").encode())
        self.child.stdin.flush()
        return job

    def finish(self, cell, job):
        """Waits for a job and gives the lines it printed."""
        ended = job.listen(cell.deadline, lambda: job.status is not None)
        tail = "\n".join(job.errors[-8:])
        if not ended:
            self.close()
            raise Failure("java: no end in time", tail)
        if job.status == REFUSED_STATUS:
            raise Refused(int(job.errors[-1].split()[1]))
        if job.status != 0:
            raise Failure(f"java: status {job.status}", tail)
        return job.lines

    def run(self, cell, *command):
        return self.finish(cell, self.start(cell, *command))

    def follow(self, cell, topic, count, partition=0):
        job = self.start(cell, "consume", topic, partition, "latest", count)
        if not job.listen(cell.deadline, lambda: "ready" in job.errors or job.status is not None):
            self.close()
            raise Failure("java: never said 'ready'", "\n".join(job.errors[-8:]))
        return lambda: self.finish(cell, job)

    def partitions_of(self, cell, topic, lines):
        """Sends records by the default partitioner and gives the partition of each."""
        path = cell.write("".join(line + "\n" for line in lines).encode())
        return [int(line) for line in self.run(cell, "partition-of", topic, path)]

    def close(self):
        if self.child is not None:
            self.child.kill()
            self.child.wait()


class Kcat(Program):
    """kcat, which has a command line of its own and no admin calls."""

    can_administer = False
    can_stamp = False
    skips_lz4_without_coordinator = True
    KEY_END, RECORD_END = b"\x1e\x1f\x1d", b"\x1d\x1c\x1e\x1f"  # in no record of the matrix

    def __init__(self):
        super().__init__("kcat", ["kcat"])

    def can_send(self, record):
        # An empty line is no record, -Z makes a null of every empty field, and headers are text.
        key, value, headers, _ = record
        empty, null = b"" in (key, value), None in (key, value)
        text = all(data is not None and data.isalnum() for _, data in headers)
        return text and not (empty and null)

    def metadata(self, cell):
        brokers, topics = set(), {}
        for line in cell.run(["kcat", "-b", cell.address, "-L"]).decode().splitlines():
            words = line.split()
            if words[:1] == ["broker"]:
                brokers.add(words[3])
            elif words[:1] == ["topic"]:
                topics[words[1].strip('"')] = int(words[3])
        return brokers, topics

    def produce(self, cell, topic, lines, acks="all", idempotent=False, partition=None, codec="none"):
        cell.prepare(topic)
        args = ["kcat", "-b", cell.address, "-P", "-t", topic, "-X", f"acks={acks}", "-z", codec]
        if idempotent:
            args += ["-X", "enable.idempotence=true"]
        if partition is not None:
            args += ["-p", str(partition)]
        for options, data in self.runs(map(parse_line, lines)):
            cell.run([*args, *options], cell.write(data))

    def runs(self, records):
        """Groups records that one run of kcat can send: options and standard input of each."""
        groups = []
        for key, value, headers, _ in records:
            options = ["-D", self.RECORD_END.decode()]
            if None in (key, value):
                options.append("-Z")
            if key is not None or value is None:
                options += ["-K", self.KEY_END.decode()]
                value = (key or b"") + self.KEY_END + (value or b"")
            for name, data in headers:
                options += ["-H", f"{name}={data.decode()}"]
            if not groups or groups[-1][0] != options:
                groups.append((options, []))
            groups[-1][1].append(value)
        return [(options, self.RECORD_END.join(values)) for options, values in groups]

    def reader(self, cell, topic, partition, offset, count):
        """The command that prints records with the lengths of key and value before them."""
        args = ["kcat", "-b", cell.address, "-C", "-t", topic, "-p", str(partition), "-o", str(offset)]
        return [*args, "-c", str(count), "-f", "%K %S %h\\n%k%s"]

    def consume(self, cell, topic, start, count, partition=0):
        offset = {"earliest": "beginning", "latest": "end"}.get(start, str(start))
        offset = "s" + offset if offset[0] == "@" else offset
        return self.parse(cell.run([*self.reader(cell, topic, partition, offset, count), "-q"]))

    def follow(self, cell, topic, count, partition=0):
        process = cell.start([*self.reader(cell, topic, partition, "end", count), "-u"])
        process.wait_for_error_text("Reached end of topic", cell.deadline)
        return lambda: self.parse(process.wait(cell.deadline))

    @staticmethod
    def parse(data):
        """The records in kcat's output as lines."""
        lines, at = [], 0
        while at < len(data):
            end = data.index(b"\n", at)
            key_size, value_size, headers = data[at:end].split(b" ", 2)
            at, fields = end + 1, []
            for size in (int(key_size), int(value_size)):
                fields.append(None if size < 0 else data[at : at + size])
                at += max(size, 0)
            pairs = [pair.split(b"=", 1) for pair in headers.split(b",")] if headers else []
            lines.append(line_of(*fields, [(name.decode(), text) for name, text in pairs]))
        return lines


class Examples:
    """kloop's own build/producer and build/consumer: a line is a record's value."""

    name = "kloop"

    def __init__(self, build):
        self.producer, self.consumer = os.path.join(build, "producer"), os.path.join(build, "consumer")

    def produce(self, cell, topic, values, *options):
        """Sends values, which hold no line's end."""
        cell.prepare(topic)
        path = cell.write(b"".join(value + b"\n" for value in values))
        cell.run([self.producer, "-b", cell.address, "-t", topic, *options], path)

    def consume(self, cell, topic, start):
        """Reads values from `start` to the end of partition 0."""
        args = [self.consumer, "-b", cell.address, "-t", topic, "-o", str(start), "-e"]
        return cell.run(args).split(b"\n")[:-1]


class Confluent(Program):
    """confluent-kafka, which is librdkafka for Python."""

    skips_lz4_without_coordinator = True


class Franz(Program):
    """franz-go: the one that fills a request with the batches of many partitions, up to 100 MB."""

    can_spread = True


def value_lines(values):
    """Records with nothing but a value, as lines."""
    return [f"- {field(value)} ." for value in values]


def all_peers():
    """The foreign clients, by name."""
    python = os.path.join(INTEROP, "venv", "bin", "python")
    peers = [
        Kcat(),
        Confluent("confluent-kafka", [python, os.path.join(HERE, "peer_confluent.py")]),
        Program("kafka-python", [python, os.path.join(HERE, "peer_kafka_python.py")]),
        Java(),
        Franz("franz-go", [os.path.join(INTEROP, "franz")]),
    ]
    return {peer.name: peer for peer in peers}
