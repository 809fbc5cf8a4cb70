"""Brokers' audit logs: who did what to which resource, and what was refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

import msgspec

from fencepost.console.asked import Asked, path_to
from fencepost.console.audit_log_files import (
    LOGS_MAX,
    LOOK_BYTES,
    Event,
    Line,
    Look,
    logs_of,
    look_at_logs,
)
from fencepost.console.page import Field, Level, Page, Section, Sentence, Table
from fencepost.console.session import Session, now_ms
from fencepost.views.times import iso_time
from fencepost.views.view import View, count

SHOWN: Final = ("refused", "all", "allowed", "logins", "left out")
ROWS: Final = 100
ROWS_MAX: Final = 1_000
GROUPS_MAX: Final = 30


class AuditRow(View, frozen=True):
    """An event of an audit log. `count` is of events that the broker only counted."""

    columns: ClassVar = {
        "time": "time",
        "principal": "principal",
        "host": "host",
        "what": "what",
        "result": "result",
        "why": "why",
        "log": "log",
    }

    time: str
    event: str
    principal: str | None
    host: str | None
    listener: str | None
    what: str
    result: str
    why: str | None
    count: int | None
    log: str


class RefusedRow(View, frozen=True):
    """What one principal, or one host that did not log in, was refused."""

    columns: ClassVar = {
        "principal": "principal",
        "what": "what",
        "times": "times",
        "last": "last",
    }

    principal: str
    what: str
    times: int
    last: str


async def audit_log(session: Session, asked: Asked) -> Page:
    """The newest events before `to` that are asked for; refused ones are counted by principal."""
    shown = asked.choice("show", SHOWN)
    wanted = {key: asked.text(key) for key in ("principal", "what", "host")}
    before_ms = asked.moment_ms("to")
    most = asked.number("rows", ROWS, 1, ROWS_MAX)
    logs = await asyncio.to_thread(logs_of, session.options.audit_logs)
    look = await asyncio.to_thread(look_at_logs, logs, before_ms)
    chosen = [
        one
        for one in look.events
        if _is_shown(one.line, shown) and all(_fits(one.line, *pair) for pair in wanted.items())
    ]
    rows = chosen[: _cut(chosen, most)]
    sections = [Section("", list(_findings(session, look, len(logs), len(chosen))), (), look.logs)]
    if shown == "refused":
        sections.append(_refused(chosen))
    sections.append(_events(rows, len(chosen)))
    next_ms = rows[-1].time_ms if len(rows) < len(chosen) else look.read_from_ms
    kept = {key: text or None for key, text in wanted.items()}
    more = None
    if next_ms is not None:
        kept |= {"show": shown if shown != SHOWN[0] else None, "to": iso_time(next_ms)}
        more = path_to("audit-log", **kept, rows=most if most != ROWS else None)
    return Page(
        "Audit log",
        sections,
        now_ms(),
        fields=[
            Field("show", "show", shown, SHOWN),
            Field("principal", "principal contains", wanted["principal"]),
            Field("what", "what contains", wanted["what"]),
            Field("host", "host contains", wanted["host"]),
            Field("to", "before (a time)", asked.text("to")),
        ],
        more=more,
    )


def _cut(chosen: list[Event], most: int) -> int:
    """Where a page of about `most` rows ends: not between two events of the same time, of which
    the next page could not tell them apart."""
    end = most
    while end < min(len(chosen), 2 * ROWS_MAX) and chosen[end].time_ms == chosen[end - 1].time_ms:
        end += 1
    return end


def _is_shown(line: Line, shown: str) -> bool:
    match shown:
        case "refused":
            return _is_refused(line)
        case "allowed":
            return line.event == "authorization" and line.allowed is True
        case "logins":
            return line.event == "login"
        case "left out":
            return line.event == "left_out"
    return True


def _is_refused(line: Line) -> bool:
    """Whether a client was refused something; also where the broker only counted it."""
    return (line.succeeded if line.event == "login" else line.allowed) is False


def _fits(line: Line, key: str, text: str) -> bool:
    if key == "what":
        return text in _what(line)
    return text in ((line.principal if key == "principal" else line.host) or "")


def _what(line: Line) -> str:
    """ "Produce: WRITE TOPIC orders", "SCRAM-SHA-512 login at CLIENTS"."""
    if line.event == "login":
        return f"{line.mechanism} login at {line.listener}"
    if line.api and not line.resource_type:  # counted logins have a mechanism here
        return f"{line.api} login at {line.resource_name}"
    if line.api:
        parts = (line.operation, line.resource_type, line.resource_name)
        return f"{line.api}: {' '.join(part for part in parts if part)}"
    return "" if line.event in ("authorization", "left_out") else line.event


def _row(event: Event) -> AuditRow:
    line = event.line
    if line.event == "left_out":
        result = f"{line.count} left out"
        result += ", refused" if line.allowed is False else ""
    elif line.event == "login":
        result = "logged in" if line.succeeded else "login failed"
    else:
        result = "allowed" if line.allowed else "refused"
    return AuditRow(
        iso_time(event.time_ms),
        line.event,
        line.principal,
        line.host,
        line.listener,
        _what(line),
        result,
        line.rule or line.reason or None,
        line.count,
        event.log,
    )


def _events(rows: list[Event], total: int) -> Section:
    levels: list[Level | None] = ["warning" if _is_refused(one.line) else None for one in rows]
    shown = [_row(one) for one in rows]
    table = Table("events", AuditRow, shown, levels=levels, total=total)
    return Section("Events", [], [table], shown)


def _refused(chosen: Iterable[Event]) -> Section:
    """What was refused, by principal and resource, most often first."""
    times: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], int] = {}
    for one in chosen:
        # What a broker only counted has no operation.
        what = _what(msgspec.structs.replace(one.line, operation=None))
        key = (one.line.principal or f"(from {one.line.host})", what)
        times[key] = times.get(key, 0) + (1 if one.line.count is None else max(0, one.line.count))
        last[key] = max(last.get(key, 0), one.time_ms)
    order = sorted(times, key=lambda key: (-times[key], key))
    rows = [RefusedRow(*key, times[key], iso_time(last[key])) for key in order[:GROUPS_MAX]]
    table = Table("refused, by principal and resource", RefusedRow, rows, total=len(order))
    return Section("Refused", [], [table], rows)


def _findings(session: Session, look: Look, logs: int, found: int) -> Iterator[Sentence]:
    if not logs and session.options.audit_logs:
        places = ", ".join(map(str, session.options.audit_logs))
        yield Sentence(f"No audit log is there yet: {places} has no *.log.", "warning")
        return
    if not logs:
        yield Sentence("No audit log is given; name files or directories with --audit-log.")
        return
    readable = sum(one.error is None for one in look.logs)
    words = f"{count(found, 'event')} of {len(look.events)} in {count(readable, 'log')}"
    since = "" if look.read_from_ms is None else f", of {iso_time(look.read_from_ms)} and later"
    yield Sentence(f"{words}{since}.")
    if look.read_from_ms is not None:
        yield Sentence(f"A look reads {LOOK_BYTES >> 20} MiB; what is older comes with More.")
    if logs > LOGS_MAX:
        yield Sentence(f"Only {LOGS_MAX} of {logs} logs are read.", "warning")
    for one in look.logs:
        if one.error is not None:
            yield Sentence(f"{one.log} cannot be read: {one.error}.", "bad")
        if one.unreadable:
            lines = count(one.unreadable, "line")
            yield Sentence(f"{one.log}: {lines} of what was read are no audit events.", "warning")
