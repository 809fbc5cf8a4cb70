"""Where a part of a node says that the node cannot go on."""

from __future__ import annotations

from typing import Protocol


class FaultHandler(Protocol):
    """Ends the node in order, as Kafka's class of that name does; the node itself is one."""

    @property
    def failure(self) -> str | None:
        """Why the node cannot go on; None as long as it can."""
        ...

    def fail(self, reason: str) -> None:
        """The node cannot go on."""
        ...
