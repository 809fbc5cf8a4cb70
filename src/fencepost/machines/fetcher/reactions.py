"""What a follower does about each error of its leader, per partition: a table (KIP-101 and later).

| error of the partition, in an answer        | what follows                                       |
|---------------------------------------------|----------------------------------------------------|
| NONE, with an epoch at which logs diverge   | TRUNCATE: the log is cut; nothing else counts      |
| NONE                                        | APPEND: batches, then the high watermark, then the |
|                                             | start of the log                                   |
| OFFSET_OUT_OF_RANGE                         | LOOK_UP: ask where the leader's log ends, then     |
|                                             | where it starts (`lookups`)                        |
| FENCED_LEADER_EPOCH                         | STOP: the leader knows a newer epoch; the metadata |
|                                             | will tell us of it                                 |
| OFFSET_MOVED_TO_TIERED_STORAGE              | STOP: there is no tiered storage here to read      |
| UNKNOWN_LEADER_EPOCH                        | DELAY: the leader has not heard of its epoch yet   |
| NOT_LEADER_OR_FOLLOWER                      | DELAY: nor that it leads, or not any more          |
| UNKNOWN_TOPIC_OR_PARTITION,                 | DELAY: nor of the topic                            |
| UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID     |                                                    |
| OFFSET_NOT_AVAILABLE                        | DELAY                                              |
| KAFKA_STORAGE_ERROR, and all others         | DELAY, and the operator is told                    |

A delay is of `replica.fetch.backoff.ms`. What was stopped goes on under another leader epoch. A
batch that is not sound (its CRC, its header) is never appended: DELAY, and fetched again.

Errors of a whole answer: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH and
FETCH_SESSION_TOPIC_ID_ERROR begin another session at once (after a delay, if that was answered so,
too), every other error delays the fetcher.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from fencepost.wire.errors import ErrorCode


class Reaction(Enum):
    """What follows a partition's part of an answer."""

    APPEND = "append"
    TRUNCATE = "truncate"
    LOOK_UP = "look up"
    DELAY = "delay"
    STOP = "stop"


_REACTIONS: Final = {
    ErrorCode.NONE: Reaction.APPEND,
    ErrorCode.OFFSET_OUT_OF_RANGE: Reaction.LOOK_UP,
    ErrorCode.FENCED_LEADER_EPOCH: Reaction.STOP,
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: Reaction.STOP,
}
_IN_ORDER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Errors of a whole answer after which the session is begun again."""


def reaction_to(error_code: int, *, diverges: bool = False) -> Reaction:
    """The table above; a code of later days is an error like others."""
    if diverges and error_code == ErrorCode.NONE:
        return Reaction.TRUNCATE
    return _REACTIONS.get(error_code, Reaction.DELAY)  # type: ignore[call-overload, no-any-return]


def is_worth_telling(error_code: int) -> bool:
    """Whether an error is none of those that come with every change of a leader."""
    return error_code not in _IN_ORDER


def error_name(error_code: int) -> str:
    """The error's name, or its number if it is one of later days."""
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"
