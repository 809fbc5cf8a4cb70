"""What the controller's `decide_` methods give back, and what they raise among themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

M = TypeVar("M", bound=Message)
Charge = Callable[[int], bool]
"""Charges the client of a request for so many partitions that change (KIP-599); whether they may
change now."""


def _is_free(partitions: int) -> bool:
    return True


FREE: Final[Charge] = _is_free
"""Charges nothing."""


MAX_RECORDS: Final = 10_000
"""Records that a user's request may come to. One that comes to more is refused as a whole, also if
it is only to be validated; of one whose items are decided alone (`append_or_refuse`) the items that
are too many."""
TOO_MANY_RECORDS: Final = "Unable to perform excessively large batch operation."


class Decision(Struct, frozen=True):
    """Records to write, and the reply to give once they are committed.

    The records stand for one decision: they go into the log together, as one batch. A reply that
    only says no comes without records.
    """

    records: list[Message] = field(default_factory=list)
    reply: Any = None


class Refused(Exception):
    """One item of a request cannot be done; becomes that item's error code and message.

    Programs compare messages, so they have Kafka's facts in Kafka's shape. None: clients say what
    they know of the code.
    """

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message


def charge_or_refuse(charge: Charge, partitions: int) -> None:
    """Charge the client; Refused if too much has changed for it lately."""
    if not charge(partitions):
        raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


def append_or_refuse(records: list[M], record: M) -> None:
    """Append the record of one item of a request; Refused if there are `MAX_RECORDS` already.

    DeleteTopics and AlterPartitionReassignments do what comes before in the request, and answer the
    rest with Kafka's error for it, which has no text in Kafka.
    """
    if len(records) >= MAX_RECORDS:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, TOO_MANY_RECORDS)
    records.append(record)
