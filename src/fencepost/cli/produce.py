"""`fencepost produce TOPIC`: lines of text or JSON into a topic."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

from fencepost.cli.cluster_options import (
    UsageError,
    add_cluster_options,
    add_json_option,
    command,
    open_cluster,
    pair,
    print_json,
)

EPILOG = """\
Every line of the input is a record: its value; or key and value with --key-separator; or with
--lines-json an object with any of "key", "value", "headers" (an object), "partition" and
"timestamp" (ms), where keys and values are texts, or null.

examples:
  echo hello | fencepost produce greetings
  fencepost produce orders --key-separator : < orders.txt
  fencepost produce orders --lines-json orders.jsonl
"""


class LineRecord(NamedTuple):
    """What one line asks to be sent."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost produce`."""
    parser = subparsers.add_parser(
        "produce",
        help="write lines of text or JSON to a topic",
        description="Write records to a topic, idempotently and with acks=all.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topic")
    parser.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    parser.add_argument("--key-separator", metavar="TEXT", help="split lines into key and value")
    parser.add_argument("--lines-json", action="store_true", help="lines are JSON objects")
    parser.add_argument("--partition", type=int, metavar="N", help="for all records")
    parser.add_argument(
        "--header", action="append", default=[], metavar="KEY=VALUE", help="for all records"
    )
    parser.add_argument("--compression", metavar="CODEC", help="gzip, snappy, lz4 or zstd")
    add_json_option(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=run)


@command
def run(arguments: argparse.Namespace) -> int:
    """Send every line; fails if any record is not acknowledged."""
    from fencepost.client.producer import Producer

    if arguments.lines_json and arguments.key_separator is not None:
        raise UsageError("--lines-json and --key-separator exclude each other")
    defaults: dict[str, object] = {"allow_auto_create_topics": "true"}
    if arguments.compression is not None:
        defaults["compression_type"] = arguments.compression
    common = tuple((key, value.encode()) for key, value in _headers(arguments))
    count = 0
    with (
        _opened(arguments.file) as source,
        open_cluster(arguments, **defaults) as cluster,
        Producer(cluster) as producer,
    ):
        for record in records_of(source, arguments.key_separator, arguments.lines_json):
            producer.send(
                arguments.topic,
                record.value,
                record.key,
                partition=arguments.partition if record.partition is None else record.partition,
                headers=common + record.headers,
                timestamp_ms=record.timestamp_ms,
            )
            count += 1
    if arguments.json:
        print_json({"topic": arguments.topic, "records": count})
    else:
        print(f"{count} record(s) written to {arguments.topic}", file=sys.stderr)
    return 0


def _headers(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for text in arguments.header:
        yield pair(text, "--header")


def _opened(path: str | None) -> IO[bytes]:
    if path is None:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return open(path, "rb")
    except OSError as error:
        raise UsageError(str(error)) from error


def records_of(
    lines: Iterable[bytes], key_separator: str | None, as_json: bool
) -> Iterator[LineRecord]:
    """The records of the lines; UsageError names the line that is none."""
    separator = key_separator.encode() if key_separator else None
    for number, line in enumerate(lines, 1):
        text = line.rstrip(b"\n").removesuffix(b"\r")
        if as_json:
            if text.strip():
                yield _json_record(text, number)
        elif separator is None:
            yield LineRecord(text)
        else:
            key, found, value = text.partition(separator)
            if not found:
                raise UsageError(f"line {number} has no key separator {key_separator!r}")
            yield LineRecord(value, key)


_FIELDS = {"key", "value", "headers", "partition", "timestamp"}


def _json_record(text: bytes, number: int) -> LineRecord:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise UsageError(f"line {number} is not JSON: {error}") from error
    if not isinstance(parsed, dict) or not set(parsed) <= _FIELDS:
        raise UsageError(f"line {number} must be an object of {', '.join(sorted(_FIELDS))}")
    headers = parsed.get("headers") or {}
    if not isinstance(headers, dict):
        raise UsageError(f"line {number}: headers must be an object")
    for name in ("partition", "timestamp"):
        if parsed.get(name) is not None and type(parsed[name]) is not int:
            raise UsageError(f"line {number}: {name} must be a whole number")
    return LineRecord(
        _text(parsed.get("value"), "value", number),
        _text(parsed.get("key"), "key", number),
        tuple((key, _text(value, "header", number)) for key, value in headers.items()),
        parsed.get("partition"),
        parsed.get("timestamp"),
    )


def _text(value: object, name: str, number: int) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise UsageError(f"line {number}: {name} must be text or null")
    return value.encode()
