"""`fencepost offsets`: where partitions begin and end, and from which offset a time on."""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import (
    INT64_MAX,
    check_number,
    command,
    finish_cluster_command,
    open_admin,
)
from fencepost.cli.commands import add_repeatable
from fencepost.cli.failures import UsageError
from fencepost.cli.output import print_json, print_table
from fencepost.cli.times import parse_time_ms
from fencepost.client.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)

SPECIAL = {
    "earliest": EARLIEST,
    "latest": LATEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
}

EXAMPLES = """\
WHERE is earliest, latest, max-timestamp, earliest-local, latest-tiered, @MILLISECONDS since 1970
or a time like 2026-11-22T10:00:00 (UTC): the first record at or after it. Without --at: earliest
and latest.

examples:
  fencepost offsets orders
  fencepost offsets orders:0 orders:1 --at latest --isolation-level read_committed
  fencepost offsets orders --at 2026-11-22T10:00:00 --json
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost offsets`."""
    parser = subparsers.add_parser(
        "offsets",
        description="Where partitions begin and end, or which offset a time has.",
        epilog=EXAMPLES,
    )
    parser.add_argument("partitions", nargs="+", metavar="PARTITION", help="TOPIC or TOPIC:NUMBER")
    add_repeatable(parser, "--at", metavar="WHERE", help="may be repeated; see below")
    parser.add_argument(
        "--isolation-level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="with read_committed `latest` is the last stable offset",
    )
    finish_cluster_command(parser, run)


def timestamp_of(text: str) -> int:
    """A WHERE as ListOffsets has it: special timestamps are negative. UsageError."""
    if text in SPECIAL:
        return SPECIAL[text]
    is_number = text.startswith("@") and text[1:].isdecimal()
    try:
        found = int(text[1:]) if is_number else parse_time_ms(text, "--at")
    except UsageError:
        known = ", ".join(SPECIAL)
        raise UsageError(
            f"--at {text!r}: must be {known}, @MILLISECONDS or a time like 2026-11-22T10:00:00"
        ) from None
    check_number("--at", found, 0, INT64_MAX)
    return found


@command
def run(arguments: argparse.Namespace) -> int:
    """A row per partition, a column per WHERE; no offset where no record is as new."""
    from fencepost.cli.partition_words import existing_partitions
    from fencepost.client.offsets import list_offsets
    from fencepost.views.partitions import FoundOffset
    from fencepost.views.view import known

    wheres = list(dict.fromkeys(arguments.at)) or ["earliest", "latest"]
    timestamps = {where: timestamp_of(where) for where in wheres}
    with open_admin(arguments) as admin:
        partitions = existing_partitions(admin, arguments.partitions)
        found = {
            where: list_offsets(
                admin.cluster,
                dict.fromkeys(partitions, timestamp),
                isolation_level=arguments.isolation_level,
            )
            for where, timestamp in timestamps.items()
        }
    if arguments.json:
        print_json(
            [
                FoundOffset(*one, where, *map(known, found[where][one]))
                for one in sorted(partitions)
                for where in wheres
            ]
        )
        return 0
    print_table(
        ("topic", "partition", *wheres),
        [
            (*one, *(known(found[where][one].offset) for where in wheres))
            for one in sorted(partitions)
        ],
    )
    return 0
