"""`fencepost epochs TOPIC`: the leader epochs of every replica's log, and where logs diverge.

Each broker is asked for its own replica, with Fetch as a consumer may send it to any replica
(`fencepost.client.lineage`), so this works against every Kafka cluster whose brokers have Fetch
version 12 (Kafka 2.7) or later. Of older ones the leader is asked with OffsetForLeaderEpoch.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_cluster
from fencepost.cli.failures import InputError, UsageError
from fencepost.cli.output import print_json

if TYPE_CHECKING:
    from fencepost.views.epochs_drawing import Picture

WIDTH_MIN = 60

EPILOG = """\
A leader notes the offset at which its epoch begins before it takes a write; followers copy that
with the records. `|2----` is a log that has records of leader epoch 2 from that offset on. `!!!!`
are records that the leader does not have at those offsets: they will be cut off.

examples:
  fencepost epochs orders
  fencepost epochs orders --partition 3 --json
  fencepost epochs orders --svg epochs.svg
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost epochs`."""
    parser = subparsers.add_parser(
        "epochs",
        description="The leader epochs of every replica's log, and where logs diverge.",
        epilog=EPILOG,
    )
    parser.add_argument("topic")
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="only this (repeatable)"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the picture as SVG")
    finish_cluster_command(parser, run)


@command
def run(arguments: argparse.Namespace) -> int:
    """Ask every replica, and print a picture or JSON."""
    from fencepost.views.epochs import viewing_epochs

    with open_cluster(arguments) as cluster:
        topic = cluster.topic(arguments.topic)
        unknown = sorted(set(arguments.partition or ()) - set(topic.partition_ids))
        if unknown:
            raise UsageError(f"topic {arguments.topic} has no partition {unknown[0]}")
        numbers = sorted(set(arguments.partition or topic.partition_ids))
        view, pictures = cluster.run(viewing_epochs(cluster, arguments.topic, numbers))
    if arguments.svg is not None:
        write_svg(arguments.svg, pictures)
    if arguments.json:
        print_json(view)
    elif arguments.svg is None:
        _print(pictures)
    return 0


def _print(pictures: list[Picture]) -> None:
    from fencepost.views.epochs_drawing import draw_text

    width = max(WIDTH_MIN, shutil.get_terminal_size().columns)
    for number, picture in enumerate(pictures):
        if number:
            print()
        print(*draw_text(picture, width), sep="\n")


def write_svg(path: Path, pictures: list[Picture]) -> None:
    """Write a drawing, and say so on standard error. InputError."""
    from fencepost.views.epochs_drawing import draw_svg

    try:
        path.write_text(draw_svg(pictures), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--svg {path}: {error.strerror}") from error
    print(f"wrote {path}", file=sys.stderr)
