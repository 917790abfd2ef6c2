"""Programs that a cell of the matrix runs: started, waited for by a deadline, ended for certain."""

import os
import signal
import subprocess
import time


class Failure(Exception):
    """A cell that does not hold: why, and what the program behind it wrote last."""

    def __init__(self, reason, tail=""):
        super().__init__(reason)
        self.reason, self.tail = reason, tail


class Refused(Exception):
    """The broker answered with an error code."""

    def __init__(self, code):
        super().__init__(f"refused with error {code}")
        self.code = code


REFUSED_STATUS = 3  # of a peer program; its standard error ends in `refused CODE`


def tail_of(path, lines=8, since=0):
    """The last lines of a file behind a position, or nothing."""
    try:
        with open(path, "rb") as file:
            file.seek(max(since, os.path.getsize(path) - 8192))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(line[:300] for line in text.splitlines()[-lines:])


class Process:
    """A running program whose output goes to files."""

    def __init__(self, args, base, stdin=None):
        self.name = os.path.basename(args[0])
        self.out_path, self.err_path = base + ".out", base + ".err"
        source = open(stdin, "rb") if stdin else subprocess.DEVNULL
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.child = subprocess.Popen(args, stdin=source, stdout=out, stderr=err)
        if stdin:
            source.close()

    def wait(self, deadline):
        """Waits for the end and gives the bytes of standard output."""
        try:
            status = self.child.wait(max(0.01, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            lines = self.output().count(b"\n")
            raise Failure(f"{self.name}: no end in time, {lines} lines so far", tail_of(self.err_path)) from None
        if status == REFUSED_STATUS:
            words = tail_of(self.err_path, 1).split()
            if len(words) == 2 and words[0] == "refused":
                raise Refused(int(words[1]))
        if status != 0:
            raise Failure(f"{self.name}: exit status {status}", tail_of(self.err_path))
        return self.output()

    def output(self):
        """What is on standard output until now."""
        with open(self.out_path, "rb") as file:
            return file.read()

    def wait_for_error_text(self, text, deadline):
        """Waits until standard error contains a text."""
        while True:
            with open(self.err_path, "rb") as file:
                if text.encode() in file.read():
                    return
            if self.child.poll() is not None:
                status = self.child.returncode
                raise Failure(f"{self.name}: ended with {status} before '{text}'", tail_of(self.err_path))
            if time.monotonic() > deadline:
                self.kill()
                raise Failure(f"{self.name}: never said '{text}'", tail_of(self.err_path))
            time.sleep(0.01)

    def kill(self):
        """Ends it at once, if it has not ended."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()


class Cell:
    """One (row, peer, case): its deadline, its folder, its processes."""

    def __init__(self, address, folder, name, seconds, settle=None):
        self.address, self.name = address, name
        self.settle, self.settled = settle, set()
        self.deadline = time.monotonic() + seconds
        self.folder = folder
        self.count = 0
        self.running = []

    def prepare(self, topic, partitions=1):
        """Is called before a topic is written."""
        if self.settle and topic not in self.settled:
            self.settle(self.address, topic, partitions, self.deadline)
            self.settled.add(topic)

    def base(self):
        """A fresh path without an ending."""
        self.count += 1
        return os.path.join(self.folder, f"{self.name}-{self.count}")

    def write(self, data):
        """Puts bytes in a fresh file and gives its path."""
        path = self.base() + ".in"
        with open(path, "wb") as file:
            file.write(data)
        return path

    def start(self, args, stdin=None):
        """Starts a program that the cell ends at the latest."""
        process = Process(args, self.base(), stdin)
        self.running.append(process)
        return process

    def run(self, args, stdin=None):
        """Runs a program to its end and gives its standard output."""
        return self.start(args, stdin).wait(self.deadline)

    def end(self):
        """Ends what still runs."""
        for process in self.running:
            process.kill()
