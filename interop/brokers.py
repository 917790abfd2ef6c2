"""The brokers of the matrix: kloop's build/broker, and Apache Kafka on one node."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import time

from processes import Failure, tail_of

HERE = os.path.dirname(os.path.abspath(__file__))
INTEROP = os.path.join(os.path.dirname(HERE), ".interop")
FETCH, LIST_OFFSETS, METADATA = 1, 2, 3
MEMORY = 512 << 20  # of kloop's log: more than all cells of a row write
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
# Starts in half the time, in a third of the memory.
JVM = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
LOG4J = """Configuration:
  status: error
  Appenders:
    Console:
      name: err
      target: SYSTEM_ERR
      PatternLayout: {pattern: "%d{HH:mm:ss.SSS} %p %c{1}: %m%n%throwable{short}"}
  Loggers:
    Root: {level: warn, AppenderRef: {ref: err}}
"""
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=200
num.network.threads=1
num.io.threads=2
background.threads=2
log.cleaner.dedupe.buffer.size=1048577
"""


def java_class_path(wanted=("",)):
    """The jars of .interop/kafka/lib whose names start with one of the given texts."""
    lib = os.path.join(INTEROP, "kafka", "lib")
    return ":".join(os.path.join(lib, jar) for jar in sorted(os.listdir(lib)) if jar.startswith(tuple(wanted)))


def log4j_option():
    """Writes the log configuration and gives the JVM's option for it."""
    path = os.path.join(INTEROP, "log4j2.yaml")
    if not os.path.exists(path):
        with open(path + f".{os.getpid()}", "w") as file:
            file.write(LOG4J)
        os.replace(path + f".{os.getpid()}", path)
    return "-Dlog4j2.configurationFile=" + path


def ask(address, key, body, patience=1.0, version=1):
    """Sends a request on a connection of its own and gives the body of the answer."""
    host, port = address.rsplit(":", 1)
    request = struct.pack(">hhih", key, version, 7, -1) + body
    with socket.create_connection((host, int(port)), patience) as link:
        link.settimeout(patience)
        link.sendall(struct.pack(">i", len(request)) + request)
        answer, size = b"", 4
        while len(answer) < size:
            more = link.recv(65536)
            if not more:
                raise OSError("the connection was closed")
            answer += more
            if size == 4 and len(answer) >= 4:
                size += struct.unpack(">i", answer[:4])[0]
    return answer[8:]


def answers_metadata(address, patience=1.0):
    """Whether a broker answers a Metadata request with at least one broker."""
    try:
        return struct.unpack(">i", ask(address, METADATA, struct.pack(">i", 0), patience)[:4])[0] > 0
    except (OSError, struct.error):
        return False


def codecs_in(address, topic):
    """The codecs of the batches in partition 0, by name."""
    names, seen, offset, end = ["none", "gzip", "snappy", "lz4", "zstd"], set(), 0, 1
    name = struct.pack(">h", len(topic)) + topic.encode()
    while offset < end:
        fetch = struct.pack(">iiiibi", -1, 0, 1, 1 << 20, 0, 1) + name + struct.pack(">iiqi", 1, 0, offset, 1 << 20)
        answer = ask(address, FETCH, fetch, 5.0, 4)[8 + len(name) + 4 :]
        code, end, aborted = struct.unpack_from(">hq8xi", answer, 4)
        if code != 0:
            raise Failure(f"a Fetch of {topic} is refused with error {code}")
        batches, began = answer[26 + 16 * max(aborted, 0) + 4 :], offset
        while len(batches) >= 61:
            base, length = struct.unpack_from(">qi", batches)
            attributes, delta = struct.unpack_from(">hi", batches, 21)
            seen.add(names[attributes & 7])
            offset, batches = base + delta + 1, batches[12 + length :]
        # The same question would be answered the same for ever.
        if offset == began and offset < end:
            raise Failure(f"a Fetch of {topic} at {offset} of {end} has no whole batch")
    return seen


def settle(address, topic, partitions, deadline):
    """Waits until a topic's partitions can be written; a topic that is not there is created by asking for it.

    Apache Kafka shows a topic before its partitions are online. Idempotent producers that write then can lose
    the first batch to an error and have the second taken as the first, and are stuck.
    """
    name = struct.pack(">h", len(topic)) + topic.encode()
    parts = b"".join(struct.pack(">iq", number, -1) for number in range(partitions))
    offsets = struct.pack(">ii", -1, 1) + name + struct.pack(">i", partitions) + parts
    while True:
        try:
            ask(address, METADATA, struct.pack(">i", 1) + name)
            answer = ask(address, LIST_OFFSETS, offsets)[4 + len(name) + 4 :]
            if all(struct.unpack_from(">h", answer, 22 * i + 4)[0] == 0 for i in range(partitions)):
                return
        except (OSError, struct.error):
            pass
        if time.monotonic() > deadline:
            raise Failure(f"topic {topic} was not there in time")
        time.sleep(0.02)


class Broker:
    """A broker in a process of its own."""

    settles = False  # whether a topic needs `settle` before it is written

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.err_path = os.path.join(folder, name.replace(" ", "-") + ".err")
        self.child, self.address, self.seen = None, None, 0

    def mark(self):
        """What it wrote until now is no longer in `tail`."""
        self.seen = os.path.getsize(self.err_path) if os.path.exists(self.err_path) else 0

    def alive(self):
        """Whether it runs."""
        return self.child is not None and self.child.poll() is None

    def tail(self):
        """What it wrote last."""
        return tail_of(self.err_path, since=self.seen)

    def kill(self):
        """SIGKILL."""
        if self.alive():
            self.child.kill()
            self.child.wait()

    def stop(self, seconds=10):
        """SIGTERM; gives the exit status, or fails when it takes too long."""
        self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"no end within {seconds} s of SIGTERM", self.tail()) from None


class Kloop(Broker):
    """build/broker, polled or with reactor threads."""

    def __init__(self, folder, name, program, options):
        super().__init__(folder, name)
        self.args = [program, "--listen", "127.0.0.1:0", "--memory", str(MEMORY), *options]

    def start(self):
        """Starts it on a free port."""
        with open(self.err_path, "ab") as err:
            self.child = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err)
        os.set_blocking(self.child.stdout.fileno(), False)
        line, until = b"", time.monotonic() + 10
        while not line.endswith(b"\n"):
            line += self.child.stdout.read() or b""
            if self.child.poll() is not None and not line:
                raise Failure(f"the broker ended with {self.child.returncode} at its start", self.tail())
            if time.monotonic() > until:
                self.kill()
                raise Failure(f"the broker did not say where it listens but {line!r}", self.tail())
            time.sleep(0.005)
        words = line.decode().split()
        if words[:2] != ["listening", "on"] or len(words) != 3:
            self.kill()
            raise Failure(f"the broker said {line!r}")
        self.address = words[2]


class Kafka(Broker):
    """Apache Kafka in KRaft mode: one node that is broker and controller."""

    settles = True

    def __init__(self, folder, name="kafka"):
        super().__init__(folder, name)
        self.data = os.path.join(folder, name.replace(" ", "-") + "-data")
        self.properties = self.data + ".properties"
        port, controller = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        with open(self.properties, "w") as file:
            file.write(PROPERTIES.format(port=port, controller=controller, data=self.data))
        shutil.copytree(formatted(folder), self.data)

    def start(self, seconds=60):
        """Starts it, also again on the data it left, and waits until it answers."""
        args = ["java", *JVM, log4j_option(), "-cp", java_class_path(), "kafka.Kafka", self.properties]
        with open(self.err_path, "ab") as err:
            self.child = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        until = time.monotonic() + seconds
        while not answers_metadata(self.address):
            if not self.alive():
                raise Failure(f"Kafka ended with {self.child.returncode} at its start", self.tail())
            if time.monotonic() > until:
                self.kill()
                raise Failure(f"Kafka was not there within {seconds} s", self.tail())
            time.sleep(0.1)


def free_ports(count):
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def formatted(folder):
    """A formatted data folder to copy; made once."""
    template = os.path.join(INTEROP, "kafka", "template")
    if os.path.exists(os.path.join(template, "bootstrap.checkpoint")):
        return template
    draft = os.path.join(folder, "template")
    properties = draft + ".properties"
    with open(properties, "w") as file:
        file.write(PROPERTIES.format(port=9092, controller=9093, data=draft))
    args = ["java", *JVM, log4j_option(), "-cp", java_class_path(), "kafka.tools.StorageTool", "format"]
    done = subprocess.run([*args, "-t", CLUSTER_ID, "-c", properties], capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        raise Failure("Kafka's storage cannot be formatted", text[-800:])
    shutil.rmtree(template, ignore_errors=True)
    shutil.move(draft, template)
    return template
