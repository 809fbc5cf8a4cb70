"""`fencepost consume --group`: as a member of a consumer group, at least once."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fencepost.cli.cluster_options import open_cluster
from fencepost.cli.consume_topics import topics_of
from fencepost.cli.failures import UsageError
from fencepost.cli.interrupts import terminated_like_interrupted
from fencepost.cli.record_printer import Printer
from fencepost.client.consumer import Consumer
from fencepost.client.errors import BrokerError
from fencepost.client.offsets import LATEST, list_offsets

if TYPE_CHECKING:
    from fencepost.client.fetch_core import Fetched
    from fencepost.client.metadata import TopicPartition


def consume_as_member(arguments: argparse.Namespace, printer: Printer) -> None:
    """Print what the group has not read, and commit what is printed, until the end (as it was when
    partitions were assigned), the wanted number, or SIGINT or SIGTERM; then leave the group."""
    for option in ("partition", "timestamp"):
        if getattr(arguments, option) is not None:
            raise UsageError(f"--{option}: the group decides what is read where")
    if arguments.offset not in ("earliest", "latest"):
        raise UsageError(
            f"--offset {arguments.offset!r}: with --group it is earliest or latest, for partitions"
            " without a committed offset; `fencepost groups offsets` sets those"
        )
    with (
        terminated_like_interrupted(),
        open_cluster(
            arguments, group_id=arguments.group, auto_offset_reset=arguments.offset
        ) as cluster,
    ):
        topics = topics_of(cluster, arguments)  # or the group would wait for them in silence
        with Consumer(cluster, topics) as consumer:
            _Member(consumer, printer, follows=arguments.follow).run()


class _Member:
    def __init__(self, consumer: Consumer, printer: Printer, *, follows: bool) -> None:
        self._consumer = consumer
        self._printer = printer
        self._follows = follows
        self._rebalances = 0
        self._ends: dict[TopicPartition, int] = {}

    def run(self) -> None:
        """Read, print, commit; what is not printed is not committed."""
        while not self._printer.is_full:
            found = self._consumer.poll()
            if self._consumer.rebalances != self._rebalances:
                self._on_assigned()
            for fetched in found:
                self._print(fetched)
            self._commit()
            if not self._follows and self._is_at_the_end():
                return

    def _print(self, fetched: Fetched) -> None:
        printed = self._printer.print(fetched.partition, fetched.read_records())
        if not self._printer.is_full:
            self._consumer.store(fetched.partition, fetched.next_offset, fetched.last_epoch)
        elif printed is not None:
            self._consumer.store(fetched.partition, printed)

    def _on_assigned(self) -> None:
        consumer = self._consumer
        self._rebalances = consumer.rebalances
        names = ", ".join(map(str, consumer.assignment)) or "nothing"
        print(f"fencepost consume: assigned {names}", file=sys.stderr)
        if not self._follows:
            listed = list_offsets(consumer.cluster, dict.fromkeys(consumer.assignment, LATEST))
            self._ends = {partition: found.offset for partition, found in listed.items()}

    def _commit(self) -> None:
        try:
            self._consumer.commit()
        except BrokerError as error:
            print(f"fencepost consume: {error}; records may be printed again", file=sys.stderr)

    def _is_at_the_end(self) -> bool:
        positions = self._consumer.positions
        return all(positions[partition].offset >= end for partition, end in self._ends.items())
