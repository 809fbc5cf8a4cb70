"""`fencepost consume TOPIC ...`: records of topics as text or JSON, alone or as member of a
group."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from fencepost.cli.cluster_options import (
    INT64_MAX,
    add_cluster_options,
    check_number,
    command,
    open_cluster,
)
from fencepost.cli.consume_topics import matching_topics, topics_of
from fencepost.cli.failures import UsageError
from fencepost.cli.times import parse_time_ms
from fencepost.client.config import ISOLATION_LEVELS

if TYPE_CHECKING:
    from fencepost.batch.records import Record
    from fencepost.client.cluster import Cluster
    from fencepost.client.fetch_core import Fetched, FetchPosition
    from fencepost.client.metadata import TopicPartition

LOOK_EVERY_S: Final = 1.0
"""How often topics are looked for that match and were not there before."""

EPILOG = """\
Reads from the beginning to the end as it is now, unless told otherwise. Offsets below 0 count from
the end: --offset -10 is the last ten records of each partition. The order of records of different
partitions means nothing.

With --group it reads as a member of that consumer group: what the group has not committed yet, of
the partitions that it is given, and it commits what it has printed. --offset is then for partitions
without a committed offset.

--format has %t topic, %p partition, %o offset, %T timestamp (ms), %k key, %s value, %h headers, %K
and %S the lengths of key and value (-1: null), %R the value's length in 4 bytes; \\n, \\t, \\xNN.

With --include it reads the topics whose whole names match a regular expression, but for internal
ones; with --follow also those that are created meanwhile, from their beginning (not in a group).

examples:
  fencepost consume orders --max-messages 10
  fencepost consume orders payments --format '%t %s\\n'
  fencepost consume --include 'orders-.*' --follow
  fencepost consume orders --partition 2 --offset 4711 --json
  fencepost consume orders --timestamp 2026-01-31T12:00:00 --key-separator :
  fencepost consume orders --offset latest --follow
  fencepost consume orders --format '%T %p:%o %k=%s [%h]\\n' --null NULL
  fencepost consume orders --group billing --follow
  fencepost consume orders --isolation read_committed
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost consume`."""
    parser = subparsers.add_parser("consume", description="Print records of topics.", epilog=EPILOG)
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    parser.add_argument("--include", metavar="REGEX", help="topics of such names, in their place")
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
    parser.add_argument("--group", metavar="NAME", help="read as a member of this consumer group")
    parser.add_argument(
        "--isolation",
        choices=ISOLATION_LEVELS,
        help="read_committed leaves out records of transactions that are open or aborted, and"
        " ends before the first open one (default: isolation.level, else read_uncommitted)",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--key-separator", metavar="TEXT", help="print the key before the value")
    shape.add_argument("--json", action="store_true", help="print an object per record and line")
    shape.add_argument("-f", "--format", metavar="FORMAT", help="print this for every record")
    parser.add_argument(
        "--null", metavar="TEXT", default="", help="print this for keys and values that are null"
    )
    add_cluster_options(parser)
    parser.set_defaults(run=run)


@command
def run(arguments: argparse.Namespace) -> int:
    """Print until the end, the wanted number, or an interrupt."""
    from fencepost.cli.record_printer import Printer

    if arguments.max_messages is not None and arguments.max_messages < 1:
        raise UsageError("--max-messages must be at least 1")
    if bool(arguments.topics) == (arguments.include is not None):
        raise UsageError("name topics, or --include some by a regular expression")
    _take_isolation(arguments)
    printer = Printer(arguments)
    if arguments.group is not None:
        from fencepost.cli.consume_group import consume_as_member

        consume_as_member(arguments, printer)
        return 0
    with open_cluster(arguments) as cluster:
        reader = _Reader(cluster, arguments)
        while not printer.is_full and not reader.is_done:
            for partition, records in reader.read():
                printer.print(partition, records)
                if printer.is_full:
                    break
    return 0


def _take_isolation(arguments: argparse.Namespace) -> None:
    """--isolation is a client property, which wins over a file of them. UsageError for two."""
    if arguments.isolation is None:
        return
    if any(text.partition("=")[0].strip() == "isolation.level" for text in arguments.properties):
        raise UsageError("--isolation and -X isolation.level are the same: give one of them")
    chosen = f"isolation.level={arguments.isolation}"
    arguments.properties = [*arguments.properties, chosen]


class _Reader:
    """Partitions with their positions and, unless following, ends."""

    def __init__(self, cluster: Cluster, arguments: argparse.Namespace) -> None:
        from fencepost.client.fetch_core import FetchPosition
        from fencepost.client.fetcher import Fetcher
        from fencepost.client.offsets import LATEST, list_offsets

        self._fetcher = Fetcher(cluster)
        self._topics = topics_of(cluster, arguments)
        partitions = _partitions(cluster, self._topics, arguments)
        latest = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        ends = {partition: latest[partition].offset for partition in partitions}
        starts = _starts(cluster, partitions, arguments, ends)
        _check_within(starts, ends)
        self.positions: dict[TopicPartition, FetchPosition] = {
            partition: FetchPosition(offset) for partition, offset in starts.items()
        }
        self._ends = None if arguments.follow else ends
        self._include = arguments.include if arguments.follow else None
        self._looks_at = time.monotonic() + LOOK_EVERY_S
        self._drop_finished()

    @property
    def is_done(self) -> bool:
        return not self.positions and self._include is None

    def read(self) -> Iterable[tuple[TopicPartition, Iterable[Record]]]:
        """The next records, partition by partition. Raises LogTruncated when the log was cut."""
        from fencepost.client.fetch_core import FetchPosition

        if self._include is not None and time.monotonic() >= self._looks_at:
            self._add_new_topics(self._include)
        if not self.positions:
            time.sleep(LOOK_EVERY_S)
            return
        for fetched in self._fetcher.poll(self.positions):
            _check_divergence(fetched, self.positions[fetched.partition])
            end = self._ends[fetched.partition] if self._ends is not None else None
            yield fetched.partition, fetched.read_records(end)
            self.positions[fetched.partition] = FetchPosition(
                fetched.next_offset, fetched.last_epoch
            )
        self._drop_finished()

    def _add_new_topics(self, include: str) -> None:
        """Read topics from their beginning that match and were not there before."""
        from fencepost.client.fetch_core import FetchPosition
        from fencepost.client.metadata import TopicPartition
        from fencepost.client.offsets import EARLIEST, list_offsets

        cluster = self._fetcher.cluster
        for name in matching_topics(cluster, include):
            if name in self._topics:
                continue
            self._topics.append(name)
            new = [TopicPartition(name, number) for number in cluster.topic(name).partition_ids]
            for partition, at in list_offsets(cluster, dict.fromkeys(new, EARLIEST)).items():
                self.positions[partition] = FetchPosition(at.offset)
        self._looks_at = time.monotonic() + LOOK_EVERY_S

    def _drop_finished(self) -> None:
        if self._ends is not None:
            for partition, position in list(self.positions.items()):
                if position.offset >= self._ends[partition]:
                    del self.positions[partition]


def _partitions(
    cluster: Cluster, topics: list[str], arguments: argparse.Namespace
) -> list[TopicPartition]:
    from fencepost.client.metadata import TopicPartition

    found = []
    for topic in topics:
        existing = cluster.topic(topic).partition_ids
        chosen = sorted(set(arguments.partition or existing))
        for number in chosen:
            if number not in existing:
                raise UsageError(f"topic {topic} has no partition {number}")
        found += [TopicPartition(topic, number) for number in chosen]
    return found


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
        since = parse_time_ms(arguments.timestamp, "--timestamp")
        check_number("--timestamp", since, 0, INT64_MAX)
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
