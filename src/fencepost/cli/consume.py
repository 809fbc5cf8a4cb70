"""`fencepost consume TOPIC`: records of a topic as text or JSON, without a consumer group."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import (
    UsageError,
    add_cluster_options,
    command,
    open_cluster,
)
from fencepost.cli.json_values import json_bytes

if TYPE_CHECKING:
    from fencepost.batch.records import Record
    from fencepost.client.cluster import Cluster
    from fencepost.client.fetcher import Fetched, FetchPosition
    from fencepost.client.metadata import TopicPartition

EPILOG = """\
Reads from the beginning to the end as it is now, unless told otherwise. Offsets below 0 count from
the end: --offset -10 is the last ten records of each partition. The order of records of different
partitions means nothing.

examples:
  fencepost consume orders --max-messages 10
  fencepost consume orders --partition 2 --offset 4711 --json
  fencepost consume orders --timestamp 2026-01-31T12:00:00 --key-separator :
  fencepost consume orders --offset latest --follow
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost consume`."""
    parser = subparsers.add_parser(
        "consume",
        help="print records of a topic",
        description="Print records of a topic.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topic")
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="only this (repeatable)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--offset",
        default="earliest",
        metavar="WHERE",
        help="earliest (default), latest, an offset, or -N for the last N",
    )
    where.add_argument(
        "--timestamp", metavar="TIME", help="from this time on: ms since 1970, or ISO 8601 (UTC)"
    )
    parser.add_argument("--max-messages", type=int, metavar="N", help="stop after N records")
    parser.add_argument("--follow", action="store_true", help="wait for more at the end")
    parser.add_argument("--key-separator", metavar="TEXT", help="print the key before the value")
    parser.add_argument("--json", action="store_true", help="print an object per record and line")
    add_cluster_options(parser)
    parser.set_defaults(run=run)


@command
def run(arguments: argparse.Namespace) -> int:
    """Print until the end, the wanted number, or an interrupt."""
    if arguments.max_messages is not None and arguments.max_messages < 1:
        raise UsageError("--max-messages must be at least 1")
    with open_cluster(arguments) as cluster:
        printer = _Printer(arguments)
        reader = _Reader(cluster, arguments)
        while not printer.is_full and not reader.is_done:
            for partition, records in reader.read():
                printer.print(partition, records)
                if printer.is_full:
                    break
    return 0


class _Reader:
    """Partitions with their positions and, unless following, ends."""

    def __init__(self, cluster: Cluster, arguments: argparse.Namespace) -> None:
        from fencepost.client.fetcher import Fetcher, FetchPosition
        from fencepost.client.offsets import LATEST, list_offsets

        self._fetcher = Fetcher(cluster)
        partitions = _partitions(cluster, arguments)
        latest = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        starts = _starts(cluster, partitions, arguments, {p: latest[p].offset for p in partitions})
        _check_within(starts, {p: latest[p].offset for p in partitions})
        self.positions: dict[TopicPartition, FetchPosition] = {
            partition: FetchPosition(offset) for partition, offset in starts.items()
        }
        self._ends = None if arguments.follow else {p: latest[p].offset for p in partitions}
        self._drop_finished()

    @property
    def is_done(self) -> bool:
        return not self.positions

    def read(self) -> Iterable[tuple[TopicPartition, Iterable[Record]]]:
        """The next records, partition by partition. Raises LogTruncated when the log was cut."""
        from fencepost.batch.records import read_records
        from fencepost.client.fetcher import FetchPosition
        from fencepost.client.transactions import committed_slices

        for fetched in self._fetcher.fetch(self.positions):
            _check_divergence(fetched, self.positions[fetched.partition])
            start = self.positions[fetched.partition].offset
            end = self._ends[fetched.partition] if self._ends is not None else None
            for piece in committed_slices(fetched.records, fetched.aborted):
                records = read_records(piece, start_offset=start)
                yield (
                    fetched.partition,
                    (record for record in records if end is None or record.offset < end),
                )
            self.positions[fetched.partition] = FetchPosition(
                fetched.next_offset, fetched.last_epoch
            )
        self._drop_finished()

    def _drop_finished(self) -> None:
        if self._ends is not None:
            for partition, position in list(self.positions.items()):
                if position.offset >= self._ends[partition]:
                    del self.positions[partition]


def _partitions(cluster: Cluster, arguments: argparse.Namespace) -> list[TopicPartition]:
    from fencepost.client.metadata import TopicPartition

    existing = cluster.topic(arguments.topic).partition_ids
    chosen = sorted(set(arguments.partition or existing))
    for number in chosen:
        if number not in existing:
            raise UsageError(f"topic {arguments.topic} has no partition {number}")
    return [TopicPartition(arguments.topic, number) for number in chosen]


def _check_within(starts: dict[TopicPartition, int], latest: dict[TopicPartition, int]) -> None:
    """Say where logs end that do not reach an offset asked for; ClientError if none does."""
    from fencepost.client.errors import ClientError

    short = {partition: end for partition, end in latest.items() if starts[partition] > end}
    texts = [f"{partition} ends at offset {end}" for partition, end in short.items()]
    if texts and len(short) == len(latest):
        raise ClientError(f"nothing to read: {', '.join(texts)}")
    for partition, text in zip(list(short), texts, strict=True):
        print(f"fencepost consume: {text}", file=sys.stderr)
        del starts[partition]


def _starts(
    cluster: Cluster,
    partitions: list[TopicPartition],
    arguments: argparse.Namespace,
    latest: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    from fencepost.client.offsets import EARLIEST, list_offsets

    if arguments.timestamp is not None:
        since = parse_time_ms(arguments.timestamp)
        found = list_offsets(cluster, dict.fromkeys(partitions, since))
        return {p: at.offset if at.offset >= 0 else latest[p] for p, at in found.items()}
    text = arguments.offset
    if text == "latest":
        return latest
    if text.isdecimal():
        return dict.fromkeys(partitions, int(text))
    earliest = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    if text == "earliest":
        return {partition: at.offset for partition, at in earliest.items()}
    if text.startswith("-") and text[1:].isdecimal():
        return {p: max(at.offset, latest[p] + int(text)) for p, at in earliest.items()}
    raise UsageError(f"--offset {text!r}: must be earliest, latest, an offset or -N")


def parse_time_ms(text: str) -> int:
    """Milliseconds since 1970 from a number of them or an ISO 8601 time, UTC if it does not say."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--timestamp {text!r}: must be milliseconds or ISO 8601") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _check_divergence(fetched: Fetched, position: FetchPosition) -> None:
    from fencepost.client.errors import LogTruncated

    if fetched.diverging is None:
        return
    raise LogTruncated(
        f"the log was cut below offset {position.offset}: epoch {fetched.diverging.leader_epoch} "
        f"ends at offset {fetched.diverging.end_offset} now",
        topic=fetched.partition.topic,
        partition=fetched.partition.partition,
        offset=position.offset,
        leader_epoch=position.last_epoch,
        diverging_epoch=fetched.diverging.leader_epoch,
        diverging_offset=fetched.diverging.end_offset,
    )


class _Printer:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._left: int | None = arguments.max_messages
        self._json: bool = arguments.json
        separator: str | None = arguments.key_separator
        self._separator = None if separator is None else separator.encode()
        self._out = sys.stdout.buffer

    @property
    def is_full(self) -> bool:
        return self._left == 0

    def print(self, partition: TopicPartition, records: Iterable[Record]) -> None:
        for record in records:
            if self._left == 0:
                break
            self._out.write(self._line(partition, record) + b"\n")
            if self._left is not None:
                self._left -= 1
        self._out.flush()

    def _line(self, partition: TopicPartition, record: Record) -> bytes:
        if self._json:
            return json.dumps(json_record(partition, record)).encode()
        value = record.value or b""
        if self._separator is None:
            return value
        return (record.key or b"") + self._separator + value


def json_record(partition: TopicPartition, record: Record) -> dict[str, Any]:
    """A record as JSON; bytes that are no text appear as an object with their hex digits."""
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": "append" if record.timestamp_type == 1 else "create",
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[name, json_bytes(value)] for name, value in record.headers],
    }
