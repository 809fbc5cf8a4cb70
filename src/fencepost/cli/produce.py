"""`fencepost produce TOPIC`: lines of text or JSON into a topic."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from fencepost.cli.cluster_options import (
    INT32_MAX,
    INT64_MAX,
    command,
    finish_cluster_command,
    open_cluster,
)
from fencepost.cli.commands import add_repeatable
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.interrupts import Interrupts
from fencepost.cli.key_values import pair
from fencepost.cli.lines import read_lines
from fencepost.cli.output import print_json
from fencepost.cli.rates import Rates
from fencepost.client.errors import ClientError
from fencepost.views.rates import WrittenRecords

if TYPE_CHECKING:
    from fencepost.client.producer import Producer

LINE_BYTES_PER_REQUEST_BYTE: Final = 8
"""JSON writes a byte in up to six; a line of more than this times max.request.size is refused."""

EPILOG = """\
Every line of the input is a record: its value; or key and value with --key-separator; or with
--lines-json an object with any of "key", "value", "headers" (an object), "partition" and
"timestamp" (ms), where keys and values are texts, or null. Lines are sent as they come. Ctrl-C,
SIGTERM, and a line that is no record end the command after what was read before has been sent; it
says how many records were acknowledged. A second Ctrl-C does not wait for that.

examples:
  echo hello | fencepost produce greetings
  fencepost produce orders --key-separator : < orders.txt
  fencepost produce orders --lines-json orders.jsonl
  fencepost produce orders --header from=here --header kind=test --compression zstd orders.txt
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
        description="Write records to a topic, idempotently and with acks=all.",
        epilog=EPILOG,
    )
    parser.add_argument("topic")
    parser.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    parser.add_argument("--key-separator", metavar="TEXT", help="split lines into key and value")
    parser.add_argument("--lines-json", action="store_true", help="lines are JSON objects")
    parser.add_argument("--partition", type=int, metavar="N", help="for all records")
    add_repeatable(parser, "--header", metavar="KEY=VALUE", help="for all records (repeatable)")
    parser.add_argument("--compression", metavar="CODEC", help="gzip, snappy, lz4 or zstd")
    parser.add_argument(
        "--linger-ms",
        metavar="MS",
        help="how long a record waits for others before they are sent together (default: 5)",
    )
    finish_cluster_command(parser, run)


@command
def run(arguments: argparse.Namespace) -> int:
    """Send lines as they come; fails if any record is not acknowledged, and says how many were."""
    from fencepost.client.producer import Producer
    from fencepost.log.names import invalid_topic_reason

    if arguments.lines_json and arguments.key_separator is not None:
        raise UsageError("--lines-json and --key-separator exclude each other")
    defaults: dict[str, object] = {"allow_auto_create_topics": "true"}
    if arguments.compression is not None:
        defaults["compression_type"] = arguments.compression
    if arguments.linger_ms is not None:
        defaults["linger_ms"] = arguments.linger_ms
    with (
        _opened(arguments.file) as source,
        open_cluster(arguments, **defaults) as cluster,
        Interrupts() as interrupts,
    ):
        if (reason := invalid_topic_reason(arguments.topic)) is not None:
            raise ClientError(reason, topic=arguments.topic)  # without any record, too
        if cluster.config.transactional_id is not None:
            raise UsageError("transactional.id: this command writes without transactions")
        producer = Producer(cluster)
        _Sender(arguments, producer, _progress(source)).run(source.fileno(), interrupts)
        if producer.acknowledged_count == 0:
            cluster.topic(arguments.topic)  # as a record would look for it: the name may be wrong
    if arguments.json:
        print_json(WrittenRecords(arguments.topic, producer.acknowledged_count))
    else:
        print(_written(producer, arguments.topic), file=sys.stderr)
    return 0


def _progress(source: IO[bytes]) -> Rates:
    """How far it is, on standard error if that is a terminal and the records are not typed."""
    status = os.fstat(source.fileno())
    total = status.st_size if stat.S_ISREG(status.st_mode) else None
    return Rates(total, quiet=not sys.stderr.isatty() or source.isatty())


def _written(producer: Producer, topic: str) -> str:
    return f"{producer.acknowledged_count} record(s) written to {topic}"


class _Sender:
    """Sends the lines of one input. Whatever ends it, the records before are sent first."""

    def __init__(self, arguments: argparse.Namespace, producer: Producer, progress: Rates) -> None:
        self._arguments = arguments
        self._producer = producer
        self._progress = progress
        self._read_bytes = 0
        self._headers = tuple(_headers(arguments))
        self._count = 0

    def run(self, descriptor: int, interrupts: Interrupts) -> None:
        """Send all lines and flush. InputError names a line; ClientError; KeyboardInterrupt."""
        arguments, producer = self._arguments, self._producer
        limit = LINE_BYTES_PER_REQUEST_BYTE * producer.config.max_request_size
        lines = self._counted(read_lines(descriptor, limit, self._idle, interrupts.waiting))
        try:
            for number, record in records_of(lines, arguments.key_separator, arguments.lines_json):
                self._send(number, record)
            producer.flush()
        except (InputError, ClientError) as error:
            self._flush_rest()
            kind = InputError if isinstance(error, InputError) else ClientError
            raise kind(f"{error}; {self._told()}") from error
        except KeyboardInterrupt:
            self._progress.close()
            try:
                if not interrupts.is_final:  # or it may have come in the middle of a request
                    self._flush_rest()
            finally:
                print(f"fencepost produce: interrupted; {self._told()}", file=sys.stderr)
            raise
        finally:
            self._progress.close()

    def _counted(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            self._read_bytes += len(line) + 1
            yield line

    def _send(self, number: int, record: LineRecord) -> None:
        partition = self._arguments.partition if record.partition is None else record.partition
        try:
            self._producer.send(
                self._arguments.topic,
                record.value,
                record.key,
                partition=partition,
                headers=self._headers + record.headers,
                timestamp_ms=record.timestamp_ms,
            )
        except ClientError as error:
            error.message = f"line {number}: {error.message}"
            raise
        self._count += 1

    def _idle(self) -> float | None:
        """Look after what is not delivered; seconds until that is needed again."""
        self._producer.poll()
        self._producer.raise_failure()
        acknowledged = self._producer.acknowledged_count - self._progress.rows
        read_bytes, self._read_bytes = self._read_bytes, 0
        self._progress.add(acknowledged, read_bytes, read_bytes)
        wait_ms = self._producer.next_poll_ms()
        return None if wait_ms is None else wait_ms / 1000

    def _flush_rest(self) -> None:
        """What is not delivered now is counted, not raised: something else went wrong before."""
        with contextlib.suppress(ClientError):
            self._producer.flush()

    def _told(self) -> str:
        missing = self._count - self._producer.acknowledged_count
        unknown = f", {missing} not acknowledged" if missing else ""
        return f"{_written(self._producer, self._arguments.topic)}{unknown}"


def _headers(arguments: argparse.Namespace) -> Iterator[tuple[str, bytes]]:
    for text in arguments.header:
        key, value = pair(text, "--header")
        yield os.fsencode(key).decode(errors="replace"), os.fsencode(value)


def _opened(path: str | None) -> IO[bytes]:
    try:
        if path in (None, "-"):
            return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise UsageError(str(error)) from error


def records_of(
    lines: Iterable[bytes], key_separator: str | None, as_json: bool
) -> Iterator[tuple[int, LineRecord]]:
    """The records of the lines and the lines' numbers; InputError names the line that is none."""
    separator = os.fsencode(key_separator) if key_separator else None
    for number, line in enumerate(lines, 1):
        if as_json:
            if line.strip():
                yield number, _json_record(line, number)
        elif separator is None:
            yield number, LineRecord(line)
        else:
            key, found, value = line.partition(separator)
            if not found:
                raise InputError(f"line {number} has no key separator {key_separator!r}")
            yield number, LineRecord(value, key)


_FIELDS = {"key", "value", "headers", "partition", "timestamp"}


def _json_record(text: bytes, number: int) -> LineRecord:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"line {number} is not JSON: {error}") from None
    if not isinstance(parsed, dict) or not set(parsed) <= _FIELDS:
        raise InputError(f"line {number} must be an object of {', '.join(sorted(_FIELDS))}")
    headers = parsed.get("headers") or {}
    if not isinstance(headers, dict):
        raise InputError(f"line {number}: headers must be an object")
    return LineRecord(
        _bytes(parsed.get("value"), "value", number),
        _bytes(parsed.get("key"), "key", number),
        tuple(_header(key, value, number) for key, value in headers.items()),
        _number(parsed.get("partition"), "partition", number, INT32_MAX),
        _number(parsed.get("timestamp"), "timestamp", number, INT64_MAX),
    )


def _header(key: str, value: object, number: int) -> tuple[str, bytes | None]:
    _bytes(key, "header", number)
    return key, _bytes(value, "header", number)


def _bytes(value: object, name: str, number: int) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"line {number}: {name} must be text or null")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InputError(f"line {number}: {name} has half a surrogate pair") from None


def _number(value: object, name: str, number: int, highest: int) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= highest:
        raise InputError(f"line {number}: {name} must be a whole number from 0 to {highest}")
    return value
