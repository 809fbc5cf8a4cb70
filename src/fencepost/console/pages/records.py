"""Records of a topic: a part of them, by where they are, with what became of their transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fencepost.client.metadata import TopicPartition
from fencepost.console.about_topic import topic_of
from fencepost.console.asked import Asked, BadQuery, path_to
from fencepost.console.page import Field, Level, Page, Section, Sentence, Table
from fencepost.console.records.cursors import BackwardCursor, Cursor, ForwardCursor, Make
from fencepost.console.records.dead_letters import Origin
from fencepost.console.records.decoders import Decoder
from fencepost.console.records.query import (
    PARTITIONS_MAX,
    LogRange,
    LookQuery,
    finding_ranges,
    positions_text,
)
from fencepost.console.records.row_maker import RowMaker, filter_of
from fencepost.console.records.rows import LetterRow, RecordRow, ScannedRange
from fencepost.console.records.scan import Budget, Scan
from fencepost.console.records.topic_decoders import decoders_of
from fencepost.console.session import Session, now_ms
from fencepost.views.view import count

RANGES_NAMED: Final = 10
KEPT: Final = (
    "from", "to", "partitions", "order", "limit", "isolation", "key", "value", "filter",
    "bytes", "seconds",
)  # fmt: skip
"""Parameters that "continue" has again."""
LEVELS: Final[dict[str, Level]] = {"aborted": "warning", "open": "warning", "undecided": "note"}


class Look(NamedTuple):
    """A look that was taken: its rows, its cursors by partition, and what their logs have."""

    query: LookQuery
    scan: Scan
    cursors: Mapping[int, Cursor]
    ranges: Mapping[int, LogRange]
    left_out: int
    """Partitions beyond PARTITIONS_MAX."""


async def records(session: Session, asked: Asked) -> Page:
    """A part of a topic's records, the exact offsets that were gone over, and a way to go on."""
    query = LookQuery.of(asked)
    shown_as = decoders_of(asked, query.topic, session.schemas)
    look = await look_at(session, query, RowMaker(*shown_as, filter_of(asked)))
    ranges = [_scanned(query.topic, look.cursors[one], look.ranges[one]) for one in look.ranges]
    more = None if look.scan.is_complete else _continue(asked, look)
    rows = look.scan.rows
    document = {
        "records": rows,
        "scanned": ranges,
        "is_complete": look.scan.is_complete,
        "continue_at": positions_text(positions_after(look)) if more else None,
    }
    sentences = _sentences(look, ranges, more)
    if session.options.allow_writes and any(row.origin for row in rows):
        to = path_to("writes", "redrive", topic=query.topic)
        sentences.append(Sentence("Produce dead letters again to where they came from.", link=to))
    return Page(
        f"Records of {query.topic}",
        [
            Section("", sentences, [_table(query, rows)], document),
            Section("Scanned", [], [_ranges_table(ranges)]),
        ],
        now_ms(),
        refresh_s=None,
        fields=_fields(asked, *shown_as),
        more=more,
    )


async def wanted_partitions(session: Session, query: LookQuery) -> tuple[list[int], int]:
    """The partitions to look at, PARTITIONS_MAX at most, and how many are left out. Raises
    BadQuery, NotThere, ClientError."""
    topic = await topic_of(session, query.topic)
    wanted = sorted(topic.partitions if query.partitions is None else query.partitions)
    for one in wanted:
        if one not in topic.partitions:
            allowed = f"{topic.name} has partitions 0 to {len(topic.partitions) - 1}"
            raise BadQuery("partitions", str(one), allowed)
    return wanted[:PARTITIONS_MAX], max(0, len(wanted) - PARTITIONS_MAX)


async def look_at(session: Session, query: LookQuery, make: Make) -> Look:
    """Take a look. Raises BadQuery, NotThere, ClientError."""
    chosen, left_out = await wanted_partitions(session, query)
    ranges = await session.run(finding_ranges(session.cluster, query, chosen))
    cursors = {one: _cursor(query, one, ranges[one], len(chosen)) for one in ranges}
    budget = Budget(query.budget_bytes, query.budget_s)
    scan = Scan(session, list(cursors.values()), make, query.limit, query.is_newest_first, budget)
    await scan.run()
    return Look(query, scan, cursors, ranges, left_out)


def _cursor(query: LookQuery, partition: int, log: LogRange, partitions: int) -> Cursor:
    place = TopicPartition(query.topic, partition)
    if query.is_newest_first:
        width = max(4, 2 * query.limit // partitions)
        return BackwardCursor(place, log.start, log.end, width, query.only_committed)
    return ForwardCursor(place, log.start, log.end, query.only_committed)


def positions_after(look: Look) -> dict[int, int]:
    """Where each partition's next look begins: up from there, or down."""
    place = 0 if look.query.is_newest_first else 1
    return {one: cursor.scanned[place] for one, cursor in look.cursors.items()}


def _continue(asked: Asked, look: Look) -> str:
    kept = {key: asked.values.get(key) or None for key in KEPT}
    at = positions_text(positions_after(look))
    return path_to("topics", look.query.topic, "records", **kept, at=at)


def _scanned(topic: str, cursor: Cursor, log: LogRange) -> ScannedRange:
    start, end = cursor.scanned
    tally = cursor.tally
    return ScannedRange(
        topic,
        cursor.partition.partition,
        start,
        end,
        tally.records,
        tally.control,
        tally.bytes,
        log.log_start,
        log.log_end,
        cursor.stable_offset,
    )


def _sentences(look: Look, ranges: list[ScannedRange], more: str | None) -> list[Sentence]:
    named = ", ".join(one.text for one in ranges[:RANGES_NAMED])
    rest = len(ranges) - RANGES_NAMED
    others = f", and {count(rest, 'more partition')}" if rest > 0 else ""
    total = sum(one.size_bytes for one in ranges)
    gone_over = sum(one.records for one in ranges)
    found = [
        Sentence(
            f"{count(len(look.scan.rows), 'record')}; scanned {named or 'nothing'}{others}"
            f" ({count(gone_over, 'record')}, {total} bytes)."
        )
    ]
    tail = path_to("topics", look.query.topic, "tail")
    found.append(Sentence("Follow what comes", link=tail))
    if look.scan.budget.is_spent and more is not None:
        text = "The look ended at its limit of bytes or time: continue."
        found.append(Sentence(text, "note", more))
    if look.left_out:
        text = f"{count(look.left_out, 'partition')} left out: choose them with partitions=."
        found.append(Sentence(text, "warning"))
    found += [
        Sentence(
            f"{one.topic}-{one.partition}: consumers of read_committed stop at offset"
            f" {one.last_stable_offset} of {one.log_end_offset}: a transaction is open from there.",
            "warning",
            path_to("transactions", explain=f"{one.topic}:{one.partition}"),
        )
        for one in ranges
        if one.last_stable_offset is not None and one.last_stable_offset < one.log_end_offset
    ]
    for cursor in look.cursors.values():
        found += [
            Sentence(f"{cursor.partition.topic}-{cursor.partition.partition}: {what}", "bad")
            for what in cursor.tally.damage[:RANGES_NAMED]
        ]
    return found


def _table(query: LookQuery, rows: list[RecordRow]) -> Table:
    links = [record_path(query.topic, row.partition, row.offset) for row in rows]
    levels = [LEVELS.get(row.state) for row in rows]
    if not any(row.origin for row in rows):
        return Table("records", RecordRow, rows, {"offset": links}, levels)
    origins = [origin_path(row.origin) for row in rows]
    return Table("records", LetterRow, rows, {"offset": links, "dead letter of": origins}, levels)


def origin_path(origin: Origin | None) -> str | None:
    """The page of the record that a dead letter is about."""
    if origin is None:
        return None
    return record_path(origin.topic, origin.partition, origin.offset)


def _ranges_table(ranges: list[ScannedRange]) -> Table:
    links = [
        path_to("topics", one.topic, "batches", one.partition, offset=one.start_offset)
        for one in ranges
    ]
    return Table("offsets gone over", ScannedRange, ranges, {"partition": links})


def record_path(topic: str, partition: int, offset: int, **query: Any) -> str:
    """The page of one record."""
    return path_to("topics", topic, "records", partition, offset, **query)


def _fields(asked: Asked, key_as: Decoder, value_as: Decoder) -> list[Field]:
    orders, levels = ("newest", "oldest"), ("read_uncommitted", "read_committed")
    return [
        Field("from", "from", asked.text("from")),
        Field("to", "to", asked.text("to")),
        Field("partitions", "partitions", asked.text("partitions")),
        Field("order", "order", asked.text("order") or orders[0], orders),
        Field("limit", "limit", asked.text("limit")),
        Field("filter", "filter", asked.text("filter")),
        Field("key", "key as", key_as.name, key_as.names),
        Field("value", "value as", value_as.name, value_as.names),
        Field("isolation", "isolation", asked.text("isolation") or levels[0], levels),
    ]
