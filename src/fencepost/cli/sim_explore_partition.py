"""`fencepost sim explore-partition`: all histories of one small partition, within bounds.

Exit codes as of `fencepost sim explore`.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

from fencepost.cli.sim_explore import add_numbers, add_search_options, field_of, search_and_tell

NUMBERS: Final = {
    "replicas": "brokers that hold the partition",
    "in-sync": "how many of them are in sync at first, 0 for all",
    "epochs": "the highest leader epoch: how many elections there are",
    "fences": "sessions that the controller takes for lost",
    "crashes": "power cuts of brokers",
    "changes": "in-sync sets that the controller takes over from a leader",
    "lags": "how often a leader finds that followers lag",
    "appends": "batches that clients produce",
    "losses": "requests or answers that are lost, and their sender told",
    "late": "requests that arrive after their sender has given up on them",
    "stragglers": "brokers that may be behind with the metadata at once",
    "min-isr": "min.insync.replicas",
}
SWITCHES: Final = {
    "slow-answers": "answers to fetches are overtaken by whatever happens",
    "flushes": "disks take their time: a power cut may take what was not flushed",
    "skips": "brokers may take over several changes of the metadata as one",
}


def add_explore_partition(actions: Any) -> None:
    """Add the action to `fencepost sim`."""
    from fencepost.sim.explore.partition.bounds import Bounds

    explore = actions.add_parser(
        "explore-partition",
        help="all orders of events within bounds, on the real machines of one partition",
    )
    add_numbers(explore, Bounds, NUMBERS)
    for name, says in SWITCHES.items():
        explore.add_argument(f"--{name}", action="store_true", help=says)
    explore.add_argument(
        "--no-elr", action="store_true", help="the controller keeps no eligible leader replicas"
    )
    add_search_options(explore)
    explore.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fencepost.sim.explore.partition import Bounds, Space, tell

    names = [field_of(name) for name in (*NUMBERS, *SWITCHES)]
    return search_and_tell(
        arguments,
        lambda: Bounds(
            **{name: getattr(arguments, name) for name in names}, elr=not arguments.no_elr
        ),
        lambda bounds, rules: Space(bounds, rules, doubts=arguments.doubts),
        tell,
    )
