"""Counts how coordinators verify transactions for leaders, whether or not metrics are read.

Apart from what puts it into a scrape, since a node that has no metrics listener does not load
`prometheus_client`.
"""

from __future__ import annotations

from fencepost.broker.loop.distribution import Distribution


class Verifications:
    """What became of the questions that this node's leaders have asked coordinators."""

    def __init__(self) -> None:
        self.failures = 0
        """Partitions to which the answer was an error."""
        self.times_ms = Distribution()

    def told(self, waited_ms: int, failures: int) -> None:
        """A verification has ended, after so long, with errors for so many partitions."""
        self.failures += failures
        self.times_ms.add(waited_ms)
        self.times_ms.count_if_many()
