"""What the controller's `decide_` methods give back, and what they raise among themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message


@dataclass(frozen=True, slots=True)
class Decision:
    """Records to write, and the reply to give once they are committed.

    The records stand for one decision: they go into the log together, as one batch. A reply that
    only says no comes without records.
    """

    records: list[Message] = field(default_factory=list)
    reply: Any = None


class Refused(Exception):
    """One item of a request cannot be done; becomes that item's error code and message."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message
