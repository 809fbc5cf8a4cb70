"""What commands have in common that run a streaming query from topics."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final

from fencepost.cli.cluster_options import bootstrap_servers, given_properties
from fencepost.cli.commands import add_repeatable
from fencepost.cli.interrupts import Interrupts
from fencepost.cli.key_values import pairs

POLL_S: Final = 0.5


def add_query_options(parser: argparse.ArgumentParser) -> None:
    """Add how often the query takes a batch, how large, and options of its source."""
    parser.add_argument(
        "--every", metavar="INTERVAL", help='go on, a batch every so often: "10 seconds"'
    )
    add_repeatable(
        parser,
        "--option",
        metavar="KEY=VALUE",
        help="an option of the source, such as startingOffsets or failOnDataLoss",
    )
    parser.add_argument(
        "--batch-records", type=int, metavar="N", help="at most so many offsets in a batch"
    )


def wait_for_query(query: Any, interrupts: Interrupts, look: Callable[[], None]) -> None:
    """Until the query ends by itself, with a `look` at how far it is twice a second; it is stopped
    whatever ends the wait. KeyboardInterrupt, and what the query failed with."""
    try:
        while not query.awaitTermination(POLL_S):
            look()
            with interrupts.waiting():
                pass
    finally:
        query.stop()


def kafka_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The cluster and the client properties as options of Spark's sources and sinks. UsageError."""
    options = {f"kafka.{key}": str(value) for key, value in given_properties(arguments).items()}
    options["kafka.bootstrap.servers"] = bootstrap_servers(arguments)
    return options


def source_options_of(arguments: argparse.Namespace, **subscription: str) -> dict[str, str]:
    """Options of the query's source: the cluster, `subscription`, and over these what --option
    gives. UsageError."""
    source = kafka_options(arguments) | subscription
    if arguments.batch_records is not None:
        source["maxOffsetsPerTrigger"] = str(arguments.batch_records)
    source.update(pairs(arguments.option, "--option"))
    return source
