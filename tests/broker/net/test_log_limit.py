"""Lines that clients cause: a burst, then so many a second, bounded in length, none forgotten."""

from __future__ import annotations

import logging
import re

import pytest

from fencepost.broker.net.disconnect_log import DisconnectLog
from fencepost.broker.net.log_limit import (
    BURST_LINES,
    CLIENTS_REMEMBERED,
    LINES_PER_S,
    NOTE_CHARACTERS,
    SHOWN_CHARACTERS,
    ClientWarnings,
    LimitedLog,
    shown,
)


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
    disconnects = DisconnectLog(clock)
    for number in range(1000):
        disconnects.note("a client", f"reason {number}")
    burst = lines_of(caplog)
    assert burst == [f"closing a client: reason {number}" for number in range(BURST_LINES)]
    clock.now_s += 1
    for _ in range(1000):
        disconnects.note("a client", "again")
    second = lines_of(caplog)
    assert len(second) == LINES_PER_S
    assert left_out(second) == 1000 - BURST_LINES, "those of before are told of"
    clock.now_s += 3600
    for _ in range(1000):
        disconnects.note("a client", "an hour later")
    later = lines_of(caplog)
    assert len(later) == BURST_LINES, "what is saved up is bounded"
    assert left_out(later) == 1000 - LINES_PER_S


def test_a_reason_that_repeats_what_a_client_said_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="fencepost")
    DisconnectLog(Clock()).note("a client", "x" * 32_000)
    (line,) = lines_of(caplog)
    assert len(line) < NOTE_CHARACTERS + 50


def test_a_client_is_warned_of_once_for_each_thing_it_wants(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warnings = ClientWarnings(Clock())
    for _ in range(3):
        warnings.warn("app", "10.0.0.1", "wants this")
        warnings.warn("app", "10.0.0.2", "wants this")
        warnings.warn("app", "10.0.0.2", "wants that")
        warnings.warn(None, "10.0.0.2", "wants that")
    assert lines_of(caplog) == [
        "client 'app' at 10.0.0.1 wants this",
        "client 'app' at 10.0.0.2 wants this",
        "client 'app' at 10.0.0.2 wants that",
        "client without a name at 10.0.0.2 wants that",
    ]


def test_clients_that_call_themselves_differently_all_the_time_fill_neither_log_nor_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    warnings = ClientWarnings(clock)
    for number in range(3000):
        clock.now_s += 0.2
        warnings.warn(f"{number}" + "\n" * 32_000, "10.0.0.1", "wants this")
    lines = lines_of(caplog)
    assert BURST_LINES < len(lines) <= BURST_LINES + LINES_PER_S * clock.now_s
    assert max(map(len, lines)) < 400
    assert not any("\n" in line for line in lines)
    assert len(warnings._told) == CLIENTS_REMEMBERED


def test_the_client_not_seen_for_longest_is_forgotten_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    warnings = ClientWarnings(clock)

    def warn(number: int) -> None:
        clock.now_s += 1
        warnings.warn(f"{number}", "10.0.0.1", "wants this")

    for number in range(CLIENTS_REMEMBERED):
        warn(number)
    for number in (0, CLIENTS_REMEMBERED):  # an old acquaintance, and one more than fit
        warn(number)
    caplog.clear()
    for number in (0, 2, CLIENTS_REMEMBERED, 1):
        warn(number)
    assert lines_of(caplog) == ["client '1' at 10.0.0.1 wants this"]


def test_names_are_cut_that_are_longer_than_what_is_shown() -> None:
    assert shown("x" * SHOWN_CHARACTERS) == repr("x" * SHOWN_CHARACTERS)
    assert shown("x" * (SHOWN_CHARACTERS + 1)).endswith(f"({SHOWN_CHARACTERS + 1} characters)")


def test_a_client_whose_line_was_left_out_is_told_of_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    warnings = ClientWarnings(clock)
    for number in range(BURST_LINES + 5):
        warnings.warn(f"{number}", "10.0.0.1", "wants this")
    assert len(lines_of(caplog)) == BURST_LINES
    clock.now_s += 1
    warnings.warn(f"{BURST_LINES}", "10.0.0.1", "wants this")
    (line,) = lines_of(caplog)
    assert line.startswith(f"client '{BURST_LINES}' at")
    assert "(5 more lines like this were left out)" in line


def test_lines_about_a_subject_are_cut_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    logger = logging.getLogger("fencepost.broker.groups.group_host")
    limited = LimitedLog(logger, "groups", clock)
    with caplog.at_level(logging.INFO, logger=logger.name):
        for number in range(BURST_LINES + 3):
            limited.info(f"{number} {'x' * NOTE_CHARACTERS}")
        assert len(caplog.messages) == BURST_LINES
        last = f"{BURST_LINES - 1} {'x' * NOTE_CHARACTERS}"
        assert caplog.messages[-1] == f"{last[:NOTE_CHARACTERS]}..."
        clock.now_s += 1
        limited.info("again")
    assert caplog.messages[BURST_LINES:] == ["again (3 more lines about groups were left out)"]
