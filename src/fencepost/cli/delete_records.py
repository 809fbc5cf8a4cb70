"""`fencepost delete-records`: delete the oldest records of partitions (KIP-107)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fencepost.cli.cluster_options import (
    INT64_MAX,
    command,
    finish_cluster_command,
    open_admin,
    partition_of,
)
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.output import print_views
from fencepost.cli.partition_files import read_partition_file
from fencepost.client.metadata import TopicPartition

HIGH_WATERMARK = -1

EXAMPLES = """\
Records below OFFSET are gone for all consumers at once; `latest` deletes all that there are. The
file is as kafka-delete-records takes it:
  {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 120}]}

examples:
  fencepost delete-records orders:0=120 orders:1=latest
  fencepost delete-records --file offsets.json
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost delete-records`."""
    parser = subparsers.add_parser(
        "delete-records",
        description="Delete the oldest records of partitions, up to an offset.",
        epilog=EXAMPLES,
    )
    parser.add_argument("before", nargs="*", metavar="TOPIC:PARTITION=OFFSET")
    parser.add_argument("--file", type=Path, metavar="FILE", help="a JSON file instead")
    finish_cluster_command(parser, run)


@command
def run(arguments: argparse.Namespace) -> int:
    """Delete; says where each partition begins now."""
    from fencepost.views.partitions import LowWatermark

    if bool(arguments.before) == (arguments.file is not None):
        raise UsageError("name TOPIC:PARTITION=OFFSET, or a --file with them")
    if arguments.file is not None:
        before = offsets_in(arguments.file)
    else:
        before = dict(_before(text) for text in arguments.before)
    with open_admin(arguments) as admin:
        low_watermarks = admin.delete_records(before)
    rows = [LowWatermark(*where, offset) for where, offset in sorted(low_watermarks.items())]
    print_views(arguments, LowWatermark, rows)
    return 0


def _before(text: str) -> tuple[TopicPartition, int]:
    where, equals, offset = text.rpartition("=")
    if not equals:
        raise UsageError(f"{text!r}: must be TOPIC:PARTITION=OFFSET")
    if offset == "latest":
        return partition_of(where, "partition"), HIGH_WATERMARK
    if not offset.isdecimal() or int(offset) > INT64_MAX:
        raise UsageError(f"{text!r}: the offset must be a number, or latest")
    return partition_of(where, "partition"), int(offset)


def offsets_in(path: Path) -> dict[TopicPartition, int]:
    """What a file of kafka-delete-records says. InputError."""
    found = read_partition_file(path, "offset")
    for where, offset in found.items():
        if type(offset) is not int or not HIGH_WATERMARK <= offset <= INT64_MAX:
            raise InputError(f"{path}: {where}: there is no offset {offset!r}")
    return found
