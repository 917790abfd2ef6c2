"""Records as lines of text: `KEYHEX VALUEHEX HEADERS [@MILLIS]`, which every peer reads and writes.

A field is hexadecimal, `-` for null or `.` for empty. HEADERS is `name=FIELD;name=FIELD` or `.` for none.
The timestamp is only in what is to be produced.
"""

import sys


def field(data):
    """A nullable field as text."""
    return "-" if data is None else data.hex() or "."


def parse_field(text):
    """The opposite of `field`."""
    return None if text == "-" else b"" if text == "." else bytes.fromhex(text)


def line_of(key, value, headers=(), timestamp=None):
    """A record as a line, without the line's end."""
    pairs = ";".join(f"{name}={field(data)}" for name, data in headers) or "."
    line = f"{field(key)} {field(value)} {pairs}"
    return line if timestamp is None else f"{line} @{timestamp}"


def parse_line(line):
    """Key, value, headers and timestamp (or None) of a line."""
    key, value, headers, *timestamp = line.split()
    pairs = []
    for pair in headers.split(";") if headers != "." else []:
        name, _, data = pair.rpartition("=")
        pairs.append((name, parse_field(data)))
    return parse_field(key), parse_field(value), pairs, int(timestamp[0][1:]) if timestamp else None


def read_records(path):
    """The records of a file, one by one."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield parse_line(line)


def write_records(records):
    """Prints (key, value, headers) triples as lines."""
    sys.stdout.write("".join(line_of(*record) + "\n" for record in records))
    sys.stdout.flush()
