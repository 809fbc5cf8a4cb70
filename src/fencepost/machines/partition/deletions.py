"""DeleteRecords requests that wait until every live replica has deleted, too (KIP-107).

A leader's own log starts at the new offset at once. Followers hear of it with their next fetch, and
tell with the one after it where their logs start; the least of all those is the low watermark. A
replica whose broker is fenced is not waited for.

There are few of these requests, so they are looked through one by one; beyond `MAX_WAITING`, which
clients with deadlines of days may reach, nobody waits.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.effects import Effect, Reply, SetTimer
from fencepost.machines.partition.inputs import DeleteRecordsResult
from fencepost.wire.errors import ErrorCode

DELETIONS_TIMER: Final = "delete-records"
MAX_WAITING: Final = 1_000


class WaitingDeletions:
    """Who waits for which low watermark; every method extends effects."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Any]] = []  # (offset, deadline, token)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether nobody more may wait."""
        return len(self._waiting) >= MAX_WAITING

    def add(self, offset: int, deadline_ms: int, token: Any, effects: list[Effect]) -> None:
        """Answer `token` once the low watermark has reached `offset`."""
        self._waiting.append((offset, deadline_ms, token))
        effects.append(SetTimer(DELETIONS_TIMER, min(entry[1] for entry in self._waiting)))

    def release(self, low_watermark: int, effects: list[Effect]) -> None:
        """Answer whoever waited for no more than `low_watermark`."""
        done = [entry for entry in self._waiting if entry[0] <= low_watermark]
        if done:
            self._waiting = [entry for entry in self._waiting if entry[0] > low_watermark]
            result = DeleteRecordsResult(ErrorCode.NONE, low_watermark)
            effects.extend(Reply(token, result) for _, _, token in done)

    def expire(self, low_watermark: int, now_ms: int, effects: list[Effect]) -> None:
        """The timer fired: whoever has waited too long is told so, and how far it went."""
        result = DeleteRecordsResult(ErrorCode.REQUEST_TIMED_OUT, low_watermark)
        effects.extend(Reply(token, result) for _, at_ms, token in self._waiting if at_ms <= now_ms)
        self._waiting = [entry for entry in self._waiting if entry[1] > now_ms]
        if self._waiting:
            deadline_ms = min(entry[1] for entry in self._waiting)
            effects.append(SetTimer(DELETIONS_TIMER, deadline_ms))

    def refuse_all(self, error: ErrorCode, effects: list[Effect]) -> None:
        """Nobody here can say any more how far it went."""
        waiting, self._waiting = self._waiting, []
        result = DeleteRecordsResult(error)
        effects.extend(Reply(token, result) for _, _, token in waiting)
