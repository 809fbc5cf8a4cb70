"""Checkpoints of Spark's streaming queries, of our source and of Spark's own: what was planned and
committed, how far each is behind, and whether the log still has what was read."""

from __future__ import annotations

import asyncio
from typing import Final

from fencepost.console.asked import Asked, NotThere, path_to
from fencepost.console.given import by_name, place_of, reader_of
from fencepost.console.page import Level, Page, Section, Sentence, Table
from fencepost.console.session import Session, now_ms
from fencepost.views.queries import CheckpointRow, QueryPartition, QueryView
from fencepost.views.view import count

READER: Final = ("checkpoint", "checkpoint_looks")


async def checkpoints(session: Session, asked: Asked) -> Page:
    """The checkpoints that the console was given."""
    places = by_name(session.options.checkpoints)
    rows = await asyncio.to_thread(reader_of(*READER).rows_of, places) if places else []
    links = [path_to("checkpoints", row.name) for row in rows]
    levels: list[Level | None] = [None if row.error is None else "warning" for row in rows]
    hint = "" if rows else "; name directories with --checkpoint"
    table = Table("checkpoints", CheckpointRow, rows, {"checkpoint": links}, levels)
    section = Section("", [Sentence(f"{count(len(rows), 'checkpoint')}{hint}.")], [table], rows)
    return Page("Checkpoints of Spark's queries", [section], now_ms())


async def checkpoint(session: Session, asked: Asked) -> Page:
    """One checkpoint held against the cluster."""
    name = asked.text("checkpoint")
    place = place_of("checkpoint", name, session.options.checkpoints)
    looks = reader_of(*READER)
    try:
        found = await asyncio.to_thread(looks.look, session.config, place)
    except looks.CannotLook as error:
        raise NotThere(f"{place}: {error}") from None
    levels: list[Level | None] = [_level(one) for one in found.partitions]
    table = Table("partitions", QueryPartition, found.partitions, levels=levels)
    sentences = [Sentence(found.heading), *_findings(found)]
    return Page(f"Checkpoint {name}", [Section("", sentences, [table], found)], now_ms())


def _findings(found: QueryView) -> list[Sentence]:
    """What is lost, and how far the query is behind where nothing is."""
    broken = [Sentence(one.warning, "bad") for one in found.partitions if one.warning]
    behind = sum(one.lag or 0 for one in found.partitions)
    reading = [one for one in found.partitions if one.committed is not None]
    if broken:
        return broken
    if not reading:
        return [Sentence("The query has committed no offset of a topic yet.")]
    if behind:
        oldest = max((one.oldest_unread_age_ms or 0 for one in reading), default=0)
        age = f"; the oldest unread record is {oldest / 1000:,.0f} s old" if oldest else ""
        return [Sentence(f"The query is {behind:,} offsets behind{age}.")]
    return [Sentence("The query has read everything.", "good")]


def _level(one: QueryPartition) -> Level | None:
    return "bad" if one.warning else None
