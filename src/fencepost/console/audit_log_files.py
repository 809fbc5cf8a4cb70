"""Brokers' audit logs, read from their ends: what a look costs does not grow with the files.

A log is a file with those that it replaced beside it: `audit.log`, `audit.log.1`, `audit.log.2`, …
(`fencepost.broker.security.audit_file`). Its lines are JSON objects in the order of time. What was
before a time is found by halving each file, so that no page of it costs more than the newest one. A
line that is no event is counted and left out; what follows the last line break is still being
written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fencepost.console.asked import iso_ms

LOOK_BYTES: Final = 4 << 20
"""Read in one look, of all logs together."""
BLOCK_BYTES: Final = 128 << 10
LINE_BYTES_MAX: Final = 64 << 10
"""A longer line is none of a broker's, which cuts names."""
LOGS_MAX: Final = 50
FILES_MAX: Final = 100
"""Of one log."""
PARENTS: Final = "*.log"
"""Logs of a directory."""


class Line(msgspec.Struct, frozen=True):
    """A line as brokers write it; what one kind of event has not is None."""

    time: str
    event: str
    principal: str | None = None
    host: str | None = None
    listener: str | None = None
    api: str | None = None
    operation: str | None = None
    resource_type: str | None = None
    resource_name: str | None = None
    allowed: bool | None = None
    rule: str | None = None
    mechanism: str | None = None
    succeeded: bool | None = None
    reason: str | None = None
    count: int | None = None


class Event(NamedTuple):
    """A line with its time, in ms since 1970, and the log that has it."""

    time_ms: int
    line: Line
    log: str


class LogLook(NamedTuple):
    """What came of one log: why it could not be read, how many lines were no events, whether it was
    read from its beginning, and if not, from which time on."""

    log: str
    error: str | None
    unreadable: int
    is_whole: bool
    read_from_ms: int | None


class Look(NamedTuple):
    """Events, newest first, and what came of each log. What is before `read_from_ms` was not looked
    at in at least one log, and is left out; None where all was looked at."""

    events: list[Event]
    logs: list[LogLook]
    read_from_ms: int | None


def logs_of(given: Iterable[Path]) -> list[Path]:
    """The logs that are given: files, and those of directories."""
    found: dict[Path, None] = {}
    for path in given:
        found |= dict.fromkeys(sorted(path.glob(PARENTS)) if path.is_dir() else [path])
    return list(found)


def look_at_logs(logs: list[Path], before_ms: int | None = None) -> Look:
    """The newest events before a time, of LOOK_BYTES of lines and LOGS_MAX logs at most."""
    chosen = logs[:LOGS_MAX]
    each = max(BLOCK_BYTES, LOOK_BYTES // max(1, len(chosen)))
    names = [path.name for path in chosen]
    events: list[Event] = []
    looks = []
    for path in chosen:
        name = path.name if names.count(path.name) == 1 else str(path)
        looks.append(_look_at(path, name, before_ms, each, events))
    read_from = max(
        (one.read_from_ms for one in looks if one.read_from_ms is not None), default=None
    )
    if read_from is not None:
        events = [one for one in events if one.time_ms >= read_from]
    events.sort(key=lambda one: -one.time_ms)
    return Look(events, looks, read_from)


def _look_at(
    path: Path, name: str, before_ms: int | None, most: int, events: list[Event]
) -> LogLook:
    unreadable, is_whole = 0, True
    times: set[int] = set()
    try:
        with closing(_open_files(path)) as handles:
            for raw in _lines_back(handles, before_ms, most):
                event = None if raw is None else _event_of(raw, name)
                if raw is None:
                    is_whole = False
                elif event is None:
                    unreadable += 1
                elif before_ms is None or event.time_ms < before_ms:
                    events.append(event)
                    times.add(event.time_ms)
    except OSError as error:
        return LogLook(name, error.strerror or str(error), unreadable, False, None)
    if is_whole or not times:
        return LogLook(name, None, unreadable, is_whole, None)
    # Of the oldest millisecond there may be more: it is left to the next look, unless it is all.
    oldest = min(times)
    return LogLook(name, None, unreadable, False, oldest + 1 if len(times) > 1 else oldest)


def _open_files(path: Path) -> Generator[int]:
    """The log's files, newest first, each open until the next is asked for. One that is given
    another name meanwhile comes once. OSError if there is none."""
    seen = set()
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    for number in range(FILES_MAX):
        one = path.with_name(f"{path.name}.{number}") if number else path
        try:
            handle = os.open(one, flags)
        except FileNotFoundError:
            if number == 0 and path.with_name(f"{path.name}.1").exists():
                continue  # it is being replaced
            if number == 0:
                raise
            return
        try:
            facts = os.fstat(handle)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(errno.EINVAL, "it is no regular file")
            if (facts.st_dev, facts.st_ino) not in seen:
                seen.add((facts.st_dev, facts.st_ino))
                yield handle
        finally:
            os.close(handle)


def _lines_back(handles: Iterable[int], before_ms: int | None, most: int) -> Iterator[bytes | None]:
    """The lines of these files from the last to the first; None where `most` bytes ended it."""
    left = most
    for handle in handles:
        end = os.fstat(handle).st_size
        if before_ms is not None:
            end = _halved(handle, end, before_ms)
        rest, is_cut = b"", True  # what follows the last line break is not whole
        while end > 0:
            if left <= 0:
                yield None
                return
            size = min(BLOCK_BYTES, end, left)
            end -= size
            left -= size
            first, *lines = (os.pread(handle, size, end) + rest).split(b"\n")
            if is_cut and lines:
                lines.pop()
                is_cut = False
            yield from reversed(lines)
            # Of a line that is too long no more is kept than shows it.
            rest = first[: LINE_BYTES_MAX + 1]
        if rest and not is_cut:
            yield rest


def _halved(handle: int, size: int, before_ms: int) -> int:
    """A place after which all lines are of `before_ms` or later, close behind those before it."""
    first = _event_of(os.pread(handle, LINE_BYTES_MAX, 0).partition(b"\n")[0], "")
    if first is not None and first.time_ms >= before_ms:
        return 0
    low, high = 0, size
    while high - low > BLOCK_BYTES:
        middle = (low + high) // 2
        event, place = _first_event(handle, middle)
        if event is None or place >= high:
            return high
        if event.time_ms < before_ms:
            low = middle
        else:
            high = place
    return high


def _first_event(handle: int, start: int) -> tuple[Event | None, int]:
    """The first event of which the whole line is behind `start`, and where that line begins."""
    part, *lines = os.pread(handle, BLOCK_BYTES, start).split(b"\n")
    place = start + len(part) + 1
    for raw in lines[:-1]:
        event = _event_of(raw, "")
        if event is not None:
            return event, place
        place += len(raw) + 1
    return None, place


_decoder: Final = msgspec.json.Decoder(Line)


def _event_of(raw: bytes, log: str) -> Event | None:
    if len(raw) > LINE_BYTES_MAX:
        return None
    try:
        line = _decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    time_ms = iso_ms(line.time)
    return None if time_ms is None else Event(time_ms, line, log)
