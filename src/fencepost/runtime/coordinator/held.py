"""`HeldAnswers`: what may leave only when the records it rests on are committed.

Answers are held in the order of the decisions they come from, each with the offset behind the last
record that was appended until then. A request that waits longer than `timeout_ms` is answered with
an error, and not again; the records are in the log and may still be committed, so the state stays
as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from fencepost.runtime.ports import ArmedTimer, TimerQueue

NO_TOKEN: Final = object()
"""Stands for the token of a message that goes to others (`Decision.sends`)."""


class Answer(NamedTuple):
    """A reply, or a message for others if its token is `NO_TOKEN`."""

    offset: int
    deadline_ms: int
    token: Any
    value: Any


class HeldAnswers:
    """See the module docstring. `on_late` gets the tokens of requests that waited too long."""

    def __init__(
        self,
        timers: TimerQueue,
        now_ms: Callable[[], int],
        timeout_ms: int,
        on_late: Callable[[list[Any]], None],
    ) -> None:
        self._timers = timers
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms
        self._on_late = on_late
        self._answers: deque[Answer] = deque()
        self._timer: ArmedTimer | None = None
        self._committed_offset = -1

    def __len__(self) -> int:
        return len(self._answers)

    def hold(self, offset: int, token: Any, value: Any) -> None:
        """Keep an answer until everything below `offset` is committed."""
        deadline_ms = self._now_ms() + self._timeout_ms
        self._answers.append(Answer(offset, deadline_ms, token, value))
        if self._timer is None:
            self._timer = self._timers.at(deadline_ms, self._look_for_late)

    def release(self, committed_offset: int) -> Iterator[Answer]:
        """The answers that may leave, in their order; the caller may `clear` while it iterates."""
        answers, self._committed_offset = self._answers, committed_offset
        while answers and answers[0].offset <= committed_offset:
            yield answers.popleft()

    def clear(self) -> None:
        """Nothing that is held leaves any more."""
        self._answers.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_for_late(self) -> None:
        """The timer is armed once at a time, however much is held and released meanwhile.

        What may leave and waits for its turn is not late.
        """
        self._timer = None
        now_ms = self._now_ms()
        late = []
        kept: list[Answer] = []
        for answer in self._answers:
            is_committed = answer.offset <= self._committed_offset
            if answer.deadline_ms > now_ms or answer.token is NO_TOKEN or is_committed:
                kept.append(answer)
            else:
                late.append(answer.token)
        self._answers.clear()
        self._answers.extend(kept)
        waiting = (
            answer.deadline_ms
            for answer in kept
            if answer.token is not NO_TOKEN and answer.offset > self._committed_offset
        )
        earliest_ms = next(waiting, None)
        if earliest_ms is not None:
            self._timer = self._timers.at(earliest_ms, self._look_for_late)
        if late:
            self._on_late(late)
