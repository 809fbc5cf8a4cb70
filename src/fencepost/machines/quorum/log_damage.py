"""What a start does with a metadata log whose files have lost what had been durable (S53, S92).

A log that is damaged below the offset up to which it had been durable is not opened by itself:
acknowledged records would be gone in silence. Of the metadata log other nodes have them, so what is
to be done depends on who owns the copy:

| what the start finds                    | observer | voter                 | only voter        |
|-----------------------------------------|----------|-----------------------|-------------------|
| the log is gone, or another topic's     | open     | refuse: forgotten     | the same          |
| `quorum-state` is gone, not the records | open     | refuse: forgotten     | the same          |
| damage, and `quorum-state` is gone      | truncate | refuse: forgotten     | the same          |
| durable records damaged from an offset  | truncate | acknowledge, truncate | refuse: only copy |
| damage whose offset is not known        | refuse   | refuse                | refuse            |
| damage where it was truncated already   | refuse   | refuse                | refuse            |

An observer has no vote, so no majority counts on its copy; a node told to accept the loss is one.
A voter that has forgotten its commits and votes must not vote under its directory id. One with
others to ask first writes down the log end that they may count on; until its log reaches as far
again, the node does not stand for election, and its vote goes only to logs that do
(`QuorumState.acknowledged_end`).

What a running node does about damage is in `damage.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class Found(Enum):
    """What a start finds of the files of a metadata log."""

    LOG_GONE = auto()
    """There was a log, and it is gone, or it belongs to another topic id."""
    STATE_GONE = auto()
    """The log has records, `quorum-state` is gone."""
    DAMAGED_AND_STATE_GONE = auto()
    DAMAGED = auto()
    """Durable records are gone or corrupt from a known offset on."""
    DAMAGED_SOMEWHERE = auto()
    """The same, and the offset is not known."""
    DAMAGED_AGAIN = auto()
    """The same, and the log was truncated there already in this start."""


class Owner(Enum):
    """Who owns the copy, as far as others count on it."""

    OBSERVER = auto()
    """It has no vote, or accepts the loss of what it held."""
    VOTER = auto()
    """Other voters have the records, or it does not matter whether they do."""
    ONLY_VOTER = auto()


class Action(Enum):
    """What is to be done."""

    OPEN = auto()
    """Open what is there, or make a new log."""
    TRUNCATE = auto()
    """Truncate the log where the damage begins; it is fetched again."""
    ACKNOWLEDGE_AND_TRUNCATE = auto()
    """Make the acknowledged log end durable in `quorum-state`, then the same."""
    REFUSE = auto()
    """Do not start: the damage is told as it was found."""
    REFUSE_FORGOTTEN = auto()
    """Do not start: the node has forgotten what others count on."""
    REFUSE_ONLY_COPY = auto()
    """Do not start: no other node has the records."""


_FORGOTTEN: Final = {
    Owner.VOTER: Action.REFUSE_FORGOTTEN,
    Owner.ONLY_VOTER: Action.REFUSE_FORGOTTEN,
}
_REFUSED: Final = dict.fromkeys(Owner, Action.REFUSE)
TABLE: Final[Mapping[Found, Mapping[Owner, Action]]] = {
    Found.LOG_GONE: {Owner.OBSERVER: Action.OPEN, **_FORGOTTEN},
    Found.STATE_GONE: {Owner.OBSERVER: Action.OPEN, **_FORGOTTEN},
    Found.DAMAGED_AND_STATE_GONE: {Owner.OBSERVER: Action.TRUNCATE, **_FORGOTTEN},
    Found.DAMAGED: {
        Owner.OBSERVER: Action.TRUNCATE,
        Owner.VOTER: Action.ACKNOWLEDGE_AND_TRUNCATE,
        Owner.ONLY_VOTER: Action.REFUSE_ONLY_COPY,
    },
    Found.DAMAGED_SOMEWHERE: _REFUSED,
    Found.DAMAGED_AGAIN: _REFUSED,
}
"""The module's table."""


def find_damage(sound_end: int | None, truncated_at: int | None, *, state_is_gone: bool) -> Found:
    """What damage that begins at `sound_end` is (None: it is not known where).

    `truncated_at` is where this start has truncated the log before, if it has.
    """
    if sound_end is None:
        return Found.DAMAGED_SOMEWHERE
    if truncated_at is not None and sound_end >= truncated_at:
        return Found.DAMAGED_AGAIN
    return Found.DAMAGED_AND_STATE_GONE if state_is_gone else Found.DAMAGED


def decide(found: Found, owner: Owner) -> Action:
    """What is to be done about `found`."""
    return TABLE[found][owner]
