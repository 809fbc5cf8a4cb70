"""The audit log: lines, bounds, rotation, and what it says of what it leaves out."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.security import audit_log as module
from fencepost.broker.security.audit_file import RotatedFile
from fencepost.broker.security.audit_log import AuditLog, open_audit_log
from fencepost.broker.security.audit_rate import (
    KINDS_MAX,
    KINDS_OF_ONE_MAX,
    WINDOW_MS,
    AuditRate,
    Kind,
)
from fencepost.runtime.requests.audit import UNTOLD, AuditEvent, LoginEvent

from ...waiting import eventually

NOON_MS = 1_796_040_000_000
PREFIX = "fencepost.audit.log."


def event(number: int = 0, *, allowed: bool = False, **more: Any) -> AuditEvent:
    made = AuditEvent(
        NOON_MS + number,
        "User:eve",
        "10.0.0.9",
        "CLIENTS",
        "Fetch",
        "READ",
        "TOPIC",
        "orders",
        allowed,
        "DefaultDeny",
    )
    return made._replace(**more)


def opened(path: Path, **more: Any) -> AuditLog:
    chosen = {
        "path": str(path),
        "max.bytes": 1 << 20,
        "files.max": 3,
        "events.per.minute": 0,
        "allowed": True,
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    made = open_audit_log(lambda key: chosen[key.removeprefix(PREFIX)], lambda: NOON_MS)
    assert made is not None
    return made


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_each_event_is_a_line_that_only_the_owner_writes(tmp_path: Path):
    path = tmp_path / "audit.log"
    log = opened(path)
    log.record(event())
    log.record_login(LoginEvent(NOON_MS, None, "10.0.0.9", "CLIENTS", "PLAIN", False, "refused"))
    log.close()
    refusal, login = lines_of(path)
    assert refusal == {
        "time": "2026-11-30T12:00:00.000Z",
        "event": "authorization",
        "principal": "User:eve",
        "host": "10.0.0.9",
        "listener": "CLIENTS",
        "api": "Fetch",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "allowed": False,
        "rule": "DefaultDeny",
    }
    assert (login["event"], login["principal"], login["reason"]) == ("login", None, "refused")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path):
    path = tmp_path / "audit.log"
    path.touch()
    path.chmod(0o666)
    opened(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_names_that_clients_make_up_stay_on_their_line_and_are_cut(tmp_path: Path):
    path = tmp_path / "audit.log"
    log = opened(path)
    log.record(event(resource_name='x\n{"event":"login"}'))
    log.record(event(resource_name="x" * 100_000))
    log.close()
    first, second = lines_of(path)
    assert first["resource_name"] == 'x\n{"event":"login"}'
    assert len(second["resource_name"]) == module.TEXT_MAX


def test_what_is_allowed_may_be_left_out(tmp_path: Path):
    path = tmp_path / "audit.log"
    log = opened(path, allowed=False)
    log.record(event(allowed=True))
    log.record(event())
    log.close()
    assert [line["allowed"] for line in lines_of(path)] == [False]


def test_more_of_the_same_is_counted(tmp_path: Path):
    path = tmp_path / "audit.log"
    log = opened(path, events_per_minute=2)
    for number in range(10):
        log.record(event(number))
    log.record(event(resource_name="others"))
    log.record(event(WINDOW_MS))  # a minute later
    log.close()
    lines = lines_of(path)
    assert [line["event"] for line in lines].count("authorization") == 4
    (left_out,) = [line for line in lines if line["event"] == "left_out"]
    assert (left_out["count"], left_out["reason"]) == (8, "more of the same")
    assert (left_out["principal"], left_out["resource_name"]) == ("User:eve", "orders")


def test_counts_of_the_last_minute_are_written_at_the_end(tmp_path: Path):
    path = tmp_path / "audit.log"
    log = opened(path, events_per_minute=1)
    for number in range(4):
        log.record(event(number))
    log.close()
    assert [line.get("count") for line in lines_of(path)] == [None, 3]


def test_names_take_no_more_memory_than_their_lines(tmp_path: Path):
    path = tmp_path / "audit.log"
    log = AuditLog(RotatedFile(path, 1 << 30, 2), AuditRate(60), lambda: NOON_MS)
    tracemalloc.start()
    for number in range(1_000):
        log.record(event(resource_name=f"{number}{'x' * 30_000}", principal="p" * 30_000))
        reason = "r" * 30_000
        log.record_login(LoginEvent(NOON_MS, "p" * number, "h", "L", "PLAIN", True, reason))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 8 << 20
    log.start()
    log.close()
    assert len(lines_of(path)) == 2_000


@pytest.mark.parametrize("hostile", ["\ud800", "\u2028x\u2029", "\x85\x9b31m", "\u202eadmin", "é"])
def test_lines_are_ascii_and_whole_whatever_is_in_them(tmp_path: Path, hostile: str):
    path = tmp_path / "audit.log"
    log = opened(path)
    log.record(event(principal=f"User:{hostile}", resource_name=hostile))
    log.record_login(LoginEvent(NOON_MS, f"User:{hostile}", "h", "L", "PLAIN", True, hostile))
    log.close()
    assert path.read_bytes().isascii()
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["resource_name"] == second["reason"] == hostile


def test_a_client_that_makes_up_names_hides_nothing_but_its_own():
    rate = AuditRate(1)
    mine = [Kind("User:eve", "TOPIC", f"t-{n}", "Metadata", False) for n in range(KINDS_MAX)]
    assert sum(rate.takes(kind, NOON_MS) for kind in mine) == KINDS_OF_ONE_MAX + 1
    other = Kind("User:bob", "TOPIC", "orders", "Fetch", False)
    assert rate.takes(other, NOON_MS)
    left_out = rate.left_out(rate.taken_back())
    assert left_out == {Kind("User:eve", "", "", "", False): KINDS_MAX - KINDS_OF_ONE_MAX - 1}
    assert rate.takes(mine[-1], NOON_MS)


def test_kinds_are_bounded():
    rate = AuditRate(1)
    for number in range(KINDS_MAX + 50):
        kind = Kind(f"User:eve{number}", "TOPIC", "t", "Metadata", False)
        assert rate.takes(kind, NOON_MS) is (number <= KINDS_MAX)
    counts = rate.taken_back()
    assert len(counts) == KINDS_MAX + 1
    assert sum(rate.left_out(counts).values()) == 49


def test_a_full_queue_costs_events_and_never_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "QUEUE_MAX", 3)
    path = tmp_path / "audit.log"
    file = RotatedFile(path, 1 << 20, 2)
    log = AuditLog(file, AuditRate(0), lambda: NOON_MS)  # its thread has not begun
    for number in range(10):
        log.record(event(number))
    log.start()
    log.close()
    lines = lines_of(path)
    assert [line["event"] for line in lines] == ["authorization"] * 3 + ["left_out"]
    assert (lines[3]["count"], lines[3]["reason"]) == (7, "too many at once")


def test_files_are_rotated_and_no_line_is_torn(tmp_path: Path):
    path = tmp_path / "audit.log"
    size = 300
    file = RotatedFile(path, size, 3)
    for number in range(100):
        file.append([b'{"number": %d}\n' % number])
    file.close()
    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == ["audit.log", "audit.log.1", "audit.log.2"]
    kept = [lines_of(tmp_path / name) for name in ("audit.log.2", "audit.log.1", "audit.log")]
    numbers = [line["number"] for lines in kept for line in lines]
    assert numbers == list(range(numbers[0], 100))
    assert all((tmp_path / name).stat().st_size <= size for name in names)


def test_one_file_is_emptied_when_it_is_full(tmp_path: Path):
    file = RotatedFile(tmp_path / "audit.log", 10, 1)
    file.append([b"12345678\n"])
    file.append([b"abc\n"])
    file.close()
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"abc\n"]


def test_a_symbolic_link_is_not_followed(tmp_path: Path):
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "audit.log").symlink_to(target)
    with pytest.raises(OSError):
        opened(tmp_path / "audit.log")
    assert target.read_text() == "kept"


def test_a_line_of_which_only_a_part_was_written_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "audit.log"
    file = RotatedFile(path, 1 << 20, 2)
    file.append([b"first\n"])
    write, written = os.write, []

    def fills_up(handle: int, data: bytes) -> int:
        if written:
            raise OSError(28, "No space left on device")
        written.append(write(handle, data[:3]))
        return written[0]

    monkeypatch.setattr(os, "write", fills_up)
    with pytest.raises(OSError, match="No space left"):
        file.append([b"second\n"])
    assert (written, path.read_bytes()) == ([3], b"first\n")
    monkeypatch.setattr(os, "write", write)
    file.append([b"third\n"])
    file.close()
    assert path.read_bytes() == b"first\nthird\n"


class FullDisk(RotatedFile):
    """A disk that is full for a while."""

    is_full = True

    def append(self, lines: Any) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().append(lines)


def test_a_full_disk_is_said_once_and_what_was_lost_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "audit.log"
    file = FullDisk(path, 1 << 20, 2)
    log = AuditLog(file, AuditRate(0), lambda: NOON_MS)
    log.start()
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        for number in range(3):
            log.record(event(number))
            eventually(lambda number=number: log._lost == number + 1, "a line is lost")
        file.is_full = False
        log.record(event(9))
        log.close()
    assert [line.get("count") for line in lines_of(path)] == [None, 3]
    assert len(caplog.records) == 2
    assert "No space left" in caplog.text and "3 lines were lost" in caplog.text


def test_events_of_many_threads_are_all_there(tmp_path: Path):
    path = tmp_path / "audit.log"
    log = opened(path)
    threads = [
        threading.Thread(target=lambda: [log.record(event(n)) for n in range(200)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert len(lines_of(path)) == 800


def test_what_is_more_of_the_same_is_counted_without_events(tmp_path: Path):
    path = tmp_path / "audit.log"
    log = opened(path, events_per_minute=2)
    assert log.record(event(allowed=True)) is None, "the next is a line as well"
    tally = log.record(event(allowed=True))
    assert tally is not None and not tally.is_over
    tally.count += 5
    assert log.record(event(WINDOW_MS, allowed=True)) is None
    assert tally.is_over, "its minute has ended"
    log.close()
    *written, left_out = sorted(lines_of(path), key=lambda one: str(one["event"]))
    assert [one["event"] for one in written] == ["authorization"] * 3
    assert (left_out["count"], left_out["api"], left_out["allowed"]) == (5, "Fetch", True)


def test_logins_that_fail_at_one_address_do_not_hide_those_at_another(tmp_path: Path):
    path = tmp_path / "audit.log"
    log = opened(path, events_per_minute=2)
    for host in ("10.0.0.9",) * 5 + ("10.0.0.8",):
        log.record_login(LoginEvent(NOON_MS, None, host, "CLIENTS", "PLAIN", False, "refused"))
    log.close()
    written = lines_of(path)
    assert [one["host"] for one in written[:3]] == ["10.0.0.9", "10.0.0.9", "10.0.0.8"]
    assert [(one["event"], one["count"]) for one in written[3:]] == [("left_out", 3)]


def test_a_log_of_refusals_alone_needs_not_be_told_what_is_allowed(tmp_path: Path):
    log = opened(tmp_path / "audit.log", allowed=False)
    tally = log.record(event(allowed=True))
    assert tally is UNTOLD and not tally.is_over
    assert log.record(event()) is None
    log.close()
