"""Results of `fencepost audit`: which replicas have findings, and where in their logs."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from fencepost.console.asked import Asked, NotThere, path_to
from fencepost.console.given import by_name, place_of, reader_of
from fencepost.console.page import (
    Block,
    Cell,
    Field,
    Level,
    Matrix,
    MatrixRow,
    Page,
    Section,
    Sentence,
    Table,
)
from fencepost.console.session import Session, now_ms
from fencepost.views.audit import AuditListed, FindingView, StoredAudit
from fencepost.views.view import View, count

READER: Final = ("audit", "audit_results")
ANY: Final = "any"
LEVELS: Final[dict[str, Level]] = {"error": "bad", "warning": "warning", "note": "note"}
LETTERS: Final = {"error": "E", "warning": "W", "note": "n"}
MATRIX_ROWS_MAX: Final = 100
REPLICAS_MAX: Final = 50
ROWS: Final = 100
ROWS_MAX: Final = 1_000
FIRST_MAX: Final = 10_000_000


class FindingRow(View, frozen=True):
    """A finding in a table."""

    columns: ClassVar = {
        "partition": "partition",
        "replica": "replica",
        "severity": "severity",
        "check": "check",
        "offsets": "offsets",
        "what": "what",
        "file": "file",
    }

    partition: str
    replica: int
    severity: str
    check: str
    offsets: str | None
    what: str
    file: str

    @classmethod
    def of(cls, one: FindingView) -> FindingRow:
        offsets = None if one.start_offset is None else str(one.start_offset)
        if one.start_offset is not None and (one.end_offset or 0) > one.start_offset + 1:
            offsets = f"{one.start_offset} to {(one.end_offset or 0) - 1}"
        return cls(
            f"{one.topic}-{one.partition}" if one.topic else "(log directory)",
            one.replica,
            one.severity,
            one.check,
            offsets,
            one.text,
            one.path if one.position is None else f"{one.path} at {one.position}",
        )


async def audits(session: Session, asked: Asked) -> Page:
    """The results that the console was given."""
    places = by_name(session.options.audits)
    rows = await asyncio.to_thread(reader_of(*READER).rows_of, places) if places else []
    links = [path_to("audits", row.name) for row in rows]
    levels: list[Level | None] = [
        "bad" if row.errors else "warning" if row.warnings or row.error else None for row in rows
    ]
    hint = "" if rows else "; name what `fencepost audit --output` wrote with --audits"
    table = Table("audits", AuditListed, rows, {"audit": links}, levels)
    section = Section("", [Sentence(f"{count(len(rows), 'audit')}{hint}.")], [table], rows)
    return Page("Audits of log directories", [section], now_ms(), refresh_s=None)


async def audit(session: Session, asked: Asked) -> Page:
    """One result: partitions against replicas, and its findings in parts."""
    name = asked.text("audit")
    place = place_of("audit", name, session.options.audits)
    reading = reader_of(*READER)
    try:
        stored: StoredAudit = await asyncio.to_thread(reading.read, place)
    except reading.CannotRead as error:
        raise NotThere(str(error)) from None
    severity = asked.choice("severity", (ANY, *LEVELS))
    check, wanted = asked.text("check"), asked.text("filter")
    first = asked.number("first", 0, 0, FIRST_MAX)
    limit = asked.number("rows", ROWS, 1, ROWS_MAX)
    found: list[FindingView] = [
        one
        for one in stored.findings
        if severity in (ANY, one.severity)
        and check in ("", one.check)
        and wanted in f"{one.topic}-{one.partition}"
    ]
    shown = found[first : first + limit]
    more = None
    if first + limit < len(found):
        kept = {"severity": severity if severity != ANY else None, "filter": wanted or None}
        kept |= {"check": check or None}
        rows = limit if limit != ROWS else None
        more = path_to("audits", name, **kept, first=first + limit, rows=rows)
    checks = sorted({"", check, *(one.check for one in stored.findings)})
    return Page(
        f"Audit {name}",
        [
            Section("", list(_sentences(stored))),
            *_replicas(found),
            _findings(shown, len(found)),
        ],
        now_ms(),
        refresh_s=None,
        fields=[
            Field("filter", "partition contains", wanted),
            Field("severity", "severity", severity, (ANY, *LEVELS)),
            Field("check", "check", check, checks),
        ],
        more=more,
    )


def _sentences(stored: StoredAudit) -> Iterator[Sentence]:
    words = ", ".join(count(stored.count_of(one), one) for one in LEVELS)
    worst = next((one for one in LEVELS if stored.count_of(one)), "note")
    yield Sentence(stored.summary or f"{words}.", LEVELS[worst] if worst != "note" else "good")
    if stored.summary is None and stored.ranges is not None:
        equal = stored.ranges - (stored.differing or 0)
        yield Sentence(
            f"{equal} of {count(stored.ranges, 'compared range')} equal in all replicas.",
            "bad" if stored.differing else "good",
        )


def _replicas(found: Sequence[FindingView]) -> Iterator[Section]:
    """Which replicas of which partitions have findings, the worst of each; none for none."""
    at: dict[str, dict[int, list[FindingView]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        if one.topic:
            at[f"{one.topic}-{one.partition}"][one.replica].append(one)
    if not at:
        return
    replicas = sorted({replica for cells in at.values() for replica in cells})[:REPLICAS_MAX]
    order = list(LEVELS)

    def worst(partition: str) -> tuple[int, str]:
        ones = (one for cell in at[partition].values() for one in cell)
        return min(order.index(one.severity) for one in ones), partition

    names = sorted(at, key=worst)
    rows = [
        MatrixRow(name, [_cell(at[name].get(replica)) for replica in replicas])
        for name in names[:MATRIX_ROWS_MAX]
    ]
    blocks: list[Block] = [
        Matrix(
            "findings by partition and replica",
            "partition",
            [str(one) for one in replicas],
            rows,
            {LETTERS[one]: one for one in LEVELS},
            total=len(names),
        )
    ]
    yield Section("Replicas", [], blocks)


def _cell(ones: Sequence[FindingView] | None) -> Cell | None:
    if not ones:
        return None
    severity = next(name for name in LEVELS if any(one.severity == name for one in ones))
    meaning = f"{count(len(ones), 'finding')}: {ones[0].text[:200]}"
    return Cell(f"{LETTERS[severity]} {len(ones)}", meaning, LEVELS[severity])


def _findings(shown: Sequence[FindingView], total: int) -> Section:
    table = Table(
        "findings",
        FindingRow,
        [FindingRow.of(one) for one in shown],
        {"offsets": [_to_batches(one) for one in shown]},
        [LEVELS[one.severity] if one.severity != "note" else None for one in shown],
        total,
    )
    return Section("Findings", [], [table], list(shown))


def _to_batches(one: FindingView) -> str | None:
    """The batches that the partition's leader has there."""
    if not one.topic or one.start_offset is None:
        return None
    return path_to("topics", one.topic, "batches", one.partition, offset=one.start_offset)
