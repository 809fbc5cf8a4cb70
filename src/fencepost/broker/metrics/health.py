"""Whether a node is well, and whether it is ready for work, with the reasons if not.

A node is healthy unless it has failed and is about to end. That it answers at all says that its
event loop runs: a probe needs a timeout.

It is ready when it can do what its roles are for: a broker is unfenced, its log directories work as
far as it needs them, and it accepts clients; a controller leads, or follows a leader.

What is no reason to send clients elsewhere is said as a warning: one of several log directories is
offline, or a broker hears from no controller, and serves what it leads all the same.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

from fencepost.broker.metrics.http import Answer


class Report(NamedTuple):
    """What is wrong, in sentences."""

    problems: tuple[str, ...] = ()
    """Reasons to answer no."""
    warnings: tuple[str, ...] = ()
    """What should be looked at all the same."""

    def answer(self, yes: str, no: str) -> Answer:
        """200 and `yes`, or 503 and `no`; then what is wrong, a line each."""
        lines = [
            no if self.problems else yes,
            *self.problems,
            *(f"warning: {warning}" for warning in self.warnings),
        ]
        status = HTTPStatus.SERVICE_UNAVAILABLE if self.problems else HTTPStatus.OK
        return Answer(status, tuple(f"{_one_line(line)}\n".encode() for line in lines))


def _one_line(text: str) -> str:
    return " ".join(text.split())
