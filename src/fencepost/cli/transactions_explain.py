"""`fencepost transactions explain TOPIC`: why a last stable offset stands still."""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_admin
from fencepost.cli.output import print_json

DESCRIPTION = """\
Readers with isolation.level=read_committed read up to the last stable offset: the first offset of
the oldest transaction that is open, at most the high watermark. This says for every partition that
is held which producer has that transaction open, since when, what its coordinator says, and what
would release the readers.
"""


def register(actions: Any) -> None:
    """Add the parser."""
    parser = actions.add_parser(
        "explain",
        help="why do readers of a topic wait: which producer holds the last stable offset",
        description=DESCRIPTION,
    )
    parser.add_argument(
        "partitions",
        nargs="*",
        metavar="TOPIC",
        help="TOPIC, or TOPIC:PARTITION for one of it; default: all partitions that are held",
    )
    finish_cluster_command(parser, explain)


@command
def explain(arguments: argparse.Namespace) -> int:
    """One paragraph for every partition that is held, one line for those that are not."""
    from fencepost.cli.partition_words import existing_or_all_partitions
    from fencepost.cli.times import now_ms
    from fencepost.client import stable_offset
    from fencepost.views.tables import escaped
    from fencepost.views.transactions import StableOffsetView, explanation

    with open_admin(arguments) as admin:
        partitions = existing_or_all_partitions(admin, arguments.partitions)
        now = now_ms()
        found = stable_offset.explain(admin, partitions, now)
    if not arguments.partitions:
        found = [one for one in found if one.verdict is not stable_offset.Verdict.NOTHING]
    if arguments.json:
        print_json([StableOffsetView.of(one) for one in found])
        return 0
    if not found:
        print(f"nothing is held in any of {len(partitions)} partitions")
    for one in found:
        for line in explanation(one, now):
            print(escaped(line))
    return 0
