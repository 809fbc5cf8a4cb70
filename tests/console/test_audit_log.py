"""The page of brokers' audit logs: read from their ends, whatever is in the files."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("htpy")

from fencepost.broker.security.audit_file import RotatedFile
from fencepost.broker.security.audit_log import AuditLog
from fencepost.broker.security.audit_rate import AuditRate
from fencepost.cli.main import main
from fencepost.console.audit_log_files import BLOCK_BYTES, LINE_BYTES_MAX, LOOK_BYTES, look_at_logs
from fencepost.runtime.requests.audit import AuditEvent, LoginEvent

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
NOWHERE = "127.0.0.1:1"


def at(second: float) -> str:
    moment = START + timedelta(seconds=second)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decision(second: float, allowed: bool = True, **other: Any) -> dict[str, Any]:
    return {
        "time": at(second),
        "event": "authorization",
        "principal": "User:bob",
        "host": "10.0.0.7",
        "listener": "CLIENTS",
        "api": "Produce",
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "allowed": allowed,
        "rule": "DefaultDeny",
        **other,
    }


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def page(browse: Any, *logs: Path, **asked: object) -> dict[str, Any]:
    answer = browse(NOWHERE, audit_logs=logs).get("/api/audit-log", params=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["sections"][-1]["document"]
    return found


def words(document: dict[str, Any]) -> str:
    return " ".join(one["text"] for one in document["sections"][0]["sentences"])


def test_what_a_broker_writes_is_shown(browse, tmp_path: Path):
    path = tmp_path / "audit.log"
    time_ms = int(START.timestamp() * 1000)
    log = AuditLog(RotatedFile(path, 1 << 20, 3), AuditRate(1), lambda: time_ms)
    log.start()
    log.record_login(LoginEvent(time_ms, None, "10.0.0.9", "CLIENTS", "PLAIN", False, "no user"))
    for later_ms in (1, 2, 3):
        event = AuditEvent(
            *(time_ms + later_ms, "User:eve", "10.0.0.9", "CLIENTS", "Produce"),
            *("WRITE", "TOPIC", "orders", False, "DefaultDeny"),
        )
        log.record(event)
    log.close()
    document = page(browse, path)
    assert {(one["principal"], one["what"], one["result"]) for one in rows(document)} == {
        (None, "PLAIN login at CLIENTS", "login failed"),
        ("User:eve", "Produce: WRITE TOPIC orders", "refused"),
        ("User:eve", "Produce: TOPIC orders", "2 left out, refused"),
    }
    refused = document["sections"][1]["document"]
    assert {(one["principal"], one["times"]) for one in refused} == {
        ("User:eve", 3),
        ("(from 10.0.0.9)", 1),
    }
    assert document["requests"] == {}


def test_filters_are_of_the_result_principal_what_and_host(browse, tmp_path: Path):
    path = write(
        tmp_path / "audit.log",
        [
            decision(1),
            decision(2, False),
            decision(3, False, principal="User:ann", resource_name="payments"),
            decision(4, host="10.0.0.8"),
            {"time": at(5), "event": "login", "principal": "User:bob", "succeeded": True},
        ],
    )

    def seconds(**asked: object) -> list[str]:
        return [one["time"][17:19] for one in rows(page(browse, path, **asked))]

    assert seconds() == ["03", "02"], "what was refused, newest first, unless more is asked for"
    assert seconds(show="all") == ["05", "04", "03", "02", "01"]
    assert seconds(show="allowed") == ["04", "01"]
    assert seconds(show="logins") == ["05"]
    assert seconds(show="all", principal="ann") == ["03"]
    assert seconds(show="all", what="TOPIC orders", host="10.0.0.8") == ["04"]
    assert seconds(show="all", to=at(3)) == ["02", "01"]


def test_pages_go_on_where_the_one_before_ended(browse, tmp_path: Path):
    """Three events of each millisecond are on one page."""
    lines = [decision(number // 3, resource_name=f"t{number}") for number in range(90)]
    path = write(tmp_path / "audit.log", lines)
    console = browse(NOWHERE, audit_logs=(path,))
    found, to = [], "/audit-log?show=all&rows=10"
    while to is not None:
        document = console.get("/api" + to).json()
        found += [one["what"].rpartition(" ")[2] for one in rows(document)]
        to = document["more"]
    assert sorted(found) == sorted(f"t{number}" for number in range(90))
    assert len(found) == 90, "no event comes twice"


def test_rotated_files_are_one_log_and_logs_are_merged(browse, tmp_path: Path):
    write(tmp_path / "a.log.2", [decision(1)])
    write(tmp_path / "a.log.1", [decision(2), decision(3)])
    write(tmp_path / "a.log", [decision(5)])
    write(tmp_path / "b.log", [decision(4)])
    found = rows(page(browse, tmp_path, show="all"))
    assert [(one["time"][18], one["log"]) for one in found] == [
        ("5", "a.log"),
        ("4", "b.log"),
        ("3", "a.log"),
        ("2", "a.log"),
        ("1", "a.log"),
    ]
    (tmp_path / "a.log").unlink()  # as while it is being replaced
    assert len(rows(page(browse, tmp_path / "a.log", show="all"))) == 3


@pytest.mark.parametrize("place", ["first", "last", "middle"])
def test_lines_that_are_no_events_are_counted_and_left_out(browse, tmp_path: Path, place: str):
    strange = [
        b"\xff\xfe\x00",
        b"[" * 5_000,
        b'{"time":"soon","event":"login"}',
        b'{"time":7,"event":"login"}',
        b'{"event":"login"}',
        b"null",
        b"x" * (LINE_BYTES_MAX * 5),
        b"",
    ]
    good = [json.dumps(decision(number)).encode() for number in range(2)]
    where = {"first": 0, "middle": 1, "last": 2}[place]
    path = tmp_path / "audit.log"
    path.write_bytes(b"".join(one + b"\n" for one in [*good[:where], *strange, *good[where:]]))
    document = page(browse, path, show="all")
    assert len(rows(document)) == 2
    assert f"{len(strange)} lines of what was read are no audit events" in words(document)


def test_a_last_line_without_its_end_is_still_being_written(browse, tmp_path: Path):
    path = write(tmp_path / "audit.log", [decision(1), decision(2)])
    whole = path.read_bytes()
    for cut in range(1, len(whole) // 2):
        path.write_bytes(whole[:-cut])
        look = look_at_logs([path])
        assert len(look.events) == 1
        assert look.logs[0].unreadable == 0
    path.write_bytes(b"")
    assert rows(page(browse, path)) == []


def test_hostile_text_is_text(browse, tmp_path: Path):
    markup = "<script>alert(1)</script>\x1b[31m\u2028"
    path = write(tmp_path / "audit.log", [decision(1, False, principal=markup, rule=markup)])
    text = browse(NOWHERE, audit_logs=(path,)).get("/audit-log").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_a_large_log_costs_a_look_no_more_at_any_time(tmp_path: Path, monkeypatch):
    """24 MiB of lines: what is read is counted."""
    line = json.dumps(decision(0)).encode()
    path = tmp_path / "audit.log"
    lines = 24 * (1 << 20) // (len(line) + 1)
    with path.open("wb") as file:
        for number in range(lines):
            file.write(line.replace(at(0).encode(), at(number).encode()) + b"\n")
    read: list[int] = []
    pread = os.pread

    def counted(handle: int, size: int, offset: int) -> bytes:
        found = pread(handle, size, offset)
        read.append(len(found))
        return found

    monkeypatch.setattr(os, "pread", counted)
    for before in (None, 1, lines // 3, lines // 2, lines - 1, lines + 10**6):
        read.clear()
        before_ms = None if before is None else int((START.timestamp() + before) * 1000)
        look = look_at_logs([path], before_ms)
        newest = lines - 1 if before is None else min(lines, before) - 1
        assert look.events[0].line.time == at(newest)
        assert sum(read) <= LOOK_BYTES + 25 * BLOCK_BYTES
        if newest * len(line) > 2 * LOOK_BYTES:
            assert look.read_from_ms is not None and look.read_from_ms > START.timestamp() * 1000


def test_looks_that_follow_each_other_leave_nothing_out(tmp_path: Path, monkeypatch):
    """Of two logs with a budget that ends in the middle of a millisecond."""
    monkeypatch.setattr("fencepost.console.audit_log_files.LOOK_BYTES", 300_000)
    monkeypatch.setattr("fencepost.console.audit_log_files.BLOCK_BYTES", 10_000)
    paths = [
        write(
            tmp_path / name,
            [decision(number // each, resource_name=f"{name}{number}") for number in range(2_000)],
        )
        for name, each in (("a.log", 7), ("b.log", 3))
    ]
    found: list[str | None] = []
    before_ms = None
    while True:
        look = look_at_logs(paths, before_ms)
        found += [one.line.resource_name for one in look.events]
        if look.read_from_ms is None:
            break
        before_ms = look.read_from_ms
    wanted = {f"{name}{number}" for name in ("a.log", "b.log") for number in range(2_000)}
    assert len(found) == 4_000
    assert set(found) == wanted


def test_files_that_cannot_be_read_are_named(browse, tmp_path: Path):
    path = write(tmp_path / "audit.log", [decision(1)])
    pipe = tmp_path / "pipe.log"
    os.mkfifo(pipe)
    gone = tmp_path / "gone.log"
    document = page(browse, path, pipe, gone, show="all")
    assert len(rows(document)) == 1
    assert "pipe.log cannot be read: it is no regular file" in words(document)
    assert "gone.log cannot be read: No such file or directory" in words(document)
    assert "name files or directories with --audit-log" in words(page(browse))


@pytest.mark.parametrize(
    "asked", [{"show": "some"}, {"to": "soon"}, {"to": "9" * 30}, {"rows": "0"}, {"rows": "x"}]
)
def test_parameters_that_make_no_sense_are_refused(browse, tmp_path: Path, asked: dict[str, str]):
    console = browse(NOWHERE, audit_logs=(write(tmp_path / "audit.log", []),))
    for path in ("/audit-log", "/api/audit-log"):
        assert console.get(path, params=asked).status_code == 400


def test_the_command_names_a_log_that_is_not_there(tmp_path: Path, capsys):
    command = ["console", "-b", NOWHERE, "--audit-log", str(tmp_path / "none"), "--once"]
    assert main([*command, "audit-log"]) == 2
    assert "none: there is no such file or directory" in capsys.readouterr().err
    path = write(tmp_path / "audit.log", [decision(1, False)])
    command = ["console", "-b", NOWHERE, "--audit-log", str(path), "--once", "audit-log"]
    assert main(command) == 0
    assert "Produce: WRITE TOPIC orders" in capsys.readouterr().out


def test_the_list_of_pages_has_the_log_where_one_is_given(browse, tmp_path: Path):
    path = write(tmp_path / "audit.log", [])
    assert 'href="/audit-log"' in browse(NOWHERE, audit_logs=(path,)).get("/audit-log").text
    assert '"/audit-log"' not in browse(NOWHERE).get("/checkpoints").text


def test_a_directory_without_a_log_has_none_yet(browse, tmp_path: Path):
    (sentence,) = page(browse, tmp_path)["sections"][0]["sentences"]
    assert sentence["text"] == f"No audit log is there yet: {tmp_path} has no *.log."
    write(tmp_path / "audit.log", [decision(0, allowed=False)])
    assert "1 event of 1" in page(browse, tmp_path)["sections"][0]["sentences"][0]["text"]
