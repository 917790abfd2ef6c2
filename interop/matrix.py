#!/usr/bin/env python3
"""The interop matrix: real clients against kloop's broker, kloop's client against Apache Kafka.

A line per cell, `ok   ROW | PEER | CASE | TIME` or `FAIL …` with the reason, and a last line
`interop: N passed, M failed`; the exit status is not 0 if any failed. interop/README.md has the rest.
"""

import argparse
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from brokers import INTEROP, Kafka, Kloop, answers_metadata, settle
from cases import cases_for
from client_cases import CLIENT_CASES, KILL_CASE
from client_cases import Kloop as KloopClients
from peers import Examples, Program, all_peers
from processes import Cell, Failure, Refused

# Ways to run kloop's broker: in its program's loop, or on threads of its own (--threads).
MODES = ["polled", "reactor"]
REACTOR_PEERS, REACTOR_THREADS = ("kcat", "java"), 2
ROOT = os.path.dirname(INTEROP)
LIBRARY = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"), "release", "libkloop.a")


@functools.cache
def kloop_program(name):
    """Compiles interop/NAME.c against the library and gives the program."""
    source, program = os.path.join(ROOT, "interop", name + ".c"), os.path.join(INTEROP, "bin", name)
    include = os.path.join(ROOT, "include")
    for path in (os.path.join(include, "kloop.h"), LIBRARY):
        if not os.path.exists(path):
            raise Failure(f"{os.path.relpath(path, ROOT)} is missing: run 'make examples'")
    os.makedirs(os.path.dirname(program), exist_ok=True)
    strict = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    args = [os.environ.get("CC", "cc"), *strict, "-I" + include, source, LIBRARY, "-lpthread", "-lm", "-ldl"]
    done = subprocess.run([*args, "-o", program], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{name}.c does not compile", done.stderr[-2000:])
    return program


class Matrix:
    """Runs cells and counts."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.passed, self.failed = 0, 0
        self.peers = all_peers()
        self.examples = Examples(options.build)

    def wanted(self, peer, case):
        """Whether the options ask for this cell."""
        only_peer, only_case = self.options.peer, self.options.case
        return (not only_peer or peer == only_peer) and (not only_case or only_case in case)

    def report(self, row, peer, case, seconds, failure=None, note=None):
        """Prints a cell's line and counts it."""
        start = "FAIL" if failure else "ok  "
        line = f"{start} {row} | {peer} | {case} | {seconds:.1f}s"
        if note:
            line += f" | {note}"
        if failure:
            line += f" | {failure}"
        print(line, flush=True)
        for text in getattr(failure, "tail", "").splitlines():
            print("       " + text, flush=True)
        if failure:
            self.failed += 1
        else:
            self.passed += 1

    def cell(self, row, broker, peer, case, seconds, run):
        """Runs one cell."""
        if not self.wanted(peer, case):
            return
        began = time.monotonic()
        slug = re.sub(r"[^a-z0-9]+", "-", f"{case} {peer}".lower().replace(",", "")).strip("-")
        folder = os.path.join(self.folder, re.sub(r"\W+", "-", f"{row} {slug}"))
        os.makedirs(folder)
        failure, note, cell = None, None, None
        broker.mark()
        try:
            if not broker.alive():
                broker.start()
            cell = Cell(broker.address, folder, slug, seconds, settle if broker.settles else None)
            note = run(cell)
        except (Failure, Refused) as error:
            failure = Failure(str(error), getattr(error, "tail", ""))
        except Exception as error:  # of an adapter: the other cells go on
            failure = Failure(f"{type(error).__name__}: {error}")
        finally:
            if cell is not None:
                cell.end()
        failure = self.blame(broker, failure)
        self.report(row, peer, case, time.monotonic() - began, failure, note)
        if failure is None:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def blame(broker, failure):
        """Adds what became of the broker to a failure; one that is dead or deaf is replaced for the next cell."""
        state = None
        answers = failure is None or (broker.alive() and answers_metadata(broker.address, 3))
        if not broker.alive():
            state = f"the broker ended with {broker.child.returncode if broker.child else None}"
        elif not answers:
            state = "the broker does not answer any more"
            broker.kill()
        if state is not None:
            failure = Failure(state + (f"; {failure}" if failure else ""), failure.tail if failure else "")
        if failure is not None and broker.tail():
            failure.tail = "\n".join(filter(None, [failure.tail, "broker:", broker.tail()]))
        return failure

    def starts(self, row, broker):
        """Starts a row's broker; if that fails the row is one failed cell."""
        began = time.monotonic()
        try:
            broker.start()
            return True
        except (Failure, OSError) as error:
            self.report(row, "-", "start", time.monotonic() - began, error)
            return False

    def broker_row(self, row, broker, peers, with_kloop):
        """Foreign clients against a broker."""
        chosen = [peer for name, peer in self.peers.items() if name in peers]
        examples = self.examples if with_kloop else None
        cells = [(peer.name, *case) for peer in chosen for case in cases_for(peer, examples)]
        cells = [one for one in cells if self.wanted(one[0], one[1])]
        end_too = with_kloop and self.wanted("-", "ends at SIGTERM")
        if not (cells or end_too) or not self.starts(row, broker):
            return
        try:
            for peer, name, run, seconds in cells:
                self.cell(row, broker, peer, name, seconds, run)
            if end_too and broker.alive():
                self.cell_of_the_end(row, broker)
        finally:
            broker.kill()

    def cell_of_the_end(self, row, broker):
        """SIGTERM ends kloop's broker in order."""
        began, failure = time.monotonic(), None
        try:
            status = broker.stop()
            if status != 0:
                failure = Failure(f"exit status {status}", broker.tail())
        except Failure as error:
            failure = error
        self.report(row, "-", "ends at SIGTERM", time.monotonic() - began, failure)

    def kloop_rows(self):
        """kloop as broker, in each of its modes."""
        program = os.path.join(self.options.build, "broker")
        threads = self.options.threads
        modes = ["reactor"] if threads else MODES
        for mode in modes:
            reactor = ["--threads", str(threads or REACTOR_THREADS)] if mode == "reactor" else []
            peers = REACTOR_PEERS if mode == "reactor" else tuple(self.peers)
            row = f"broker {mode}"
            self.broker_row(row, Kloop(self.folder, row, program, reactor), peers, True)

    def kafka_row(self):
        """The foreign clients against Apache Kafka: whether the peer programs themselves are right."""
        self.broker_row("reference", Kafka(self.folder, "reference"), tuple(self.peers), False)

    def client_row(self):
        """kloop as client of Apache Kafka."""
        row = "client"
        try:
            peer = Program("kloop", [kloop_program("peer_kloop")])
            peer.can_compress = False
        except Failure as failure:
            self.report(row, "kloop", "compile", 0, failure)
            return
        clients = KloopClients(self.examples, peer, kloop_program, self.peers)
        kafka = Kafka(self.folder, "client")
        cells = cases_for(peer)
        cells += [(name, lambda cell, c=case: c(cell, clients), seconds) for name, case, seconds in CLIENT_CASES]
        name, case, seconds = KILL_CASE
        cells.append((name, lambda cell: case(cell, clients, kafka), seconds))
        cells = [one for one in cells if self.wanted("kloop", one[0])]
        if not cells or not self.starts(row, kafka):
            return
        try:
            for name, run, seconds in cells:
                self.cell(row, kafka, "kloop", name, seconds, run)
        finally:
            kafka.kill()

    def end(self):
        """Ends what lives longer than a cell."""
        for peer in self.peers.values():
            peer.close()


def run_folder():
    """A folder for this run; those of runs that are over go."""
    runs = os.path.join(INTEROP, "run")
    os.makedirs(runs, exist_ok=True)
    for old in os.listdir(runs):
        if not old.isdigit() or not os.path.exists(f"/proc/{old}"):
            shutil.rmtree(os.path.join(runs, old), ignore_errors=True)
    folder = os.path.join(runs, str(os.getpid()))
    os.makedirs(folder)
    return folder


def read_options():
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs the interop matrix.")
    parser.add_argument("--broker", choices=["kloop", "kafka"], help="only foreign clients against this broker")
    parser.add_argument("--client", action="store_true", help="only kloop as client of Apache Kafka")
    parser.add_argument("--peer", help="only the cells of this peer")
    parser.add_argument("--case", help="only the cases that contain this text")
    parser.add_argument("--threads", type=int, help="kloop's broker with so many reactor threads instead of polled")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where kloop's programs are")
    return parser.parse_args()


def main():
    """Runs the rows that the options ask for."""
    options = read_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = run_folder()
    matrix = Matrix(options, folder)
    everything = not options.broker and not options.client
    try:
        if everything or options.broker == "kloop":
            matrix.kloop_rows()
        if options.broker == "kafka":
            matrix.kafka_row()
        if everything or options.client:
            matrix.client_row()
    finally:
        matrix.end()
    if matrix.failed == 0:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"files of the failed cells: {os.path.relpath(folder, ROOT)}")
    print(f"interop: {matrix.passed} passed, {matrix.failed} failed")
    return 0 if matrix.failed == 0 and matrix.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
