"""Lines about clients that are hung up on: a burst, then so many a second, and none forgotten."""

from __future__ import annotations

import logging
import re

import pytest

from fencepost.broker.refusals import BURST_LINES, LINES_PER_S, Refusals


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def left_out(lines: list[str]) -> int:
    return sum(int(count) for line in lines for count in re.findall(r"\((\d+) more were", line))


def test_lines_are_bounded_by_time_and_every_refusal_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="fencepost")
    clock = Clock()
    refusals = Refusals(clock)
    for number in range(1000):
        refusals.note("a client", f"reason {number}")
    burst = lines_of(caplog)
    assert burst == [f"closing a client: reason {number}" for number in range(BURST_LINES)]
    clock.now_s += 1
    for _ in range(1000):
        refusals.note("a client", "again")
    second = lines_of(caplog)
    assert len(second) == LINES_PER_S
    assert left_out(second) == 1000 - BURST_LINES, "those of before are told of"
    clock.now_s += 3600
    for _ in range(1000):
        refusals.note("a client", "an hour later")
    later = lines_of(caplog)
    assert len(later) == BURST_LINES, "what is saved up is bounded"
    assert left_out(later) == 1000 - LINES_PER_S
