"""How far a group is behind: in offsets, in time, and whether records are left at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from fencepost.client.errors import ClientError
from fencepost.client.metadata import TopicPartition
from fencepost.client.unread import Unread, finding_unread
from fencepost.console.asked import path_to
from fencepost.console.drawing.series import Point, series
from fencepost.console.page import Block, Level, Section, Sentence, Table
from fencepost.console.session import Session, now_ms
from fencepost.views.groups import GroupView, Progress
from fencepost.views.view import View, count

LOOKED_AT_MAX: Final = 100
"""Partitions with a lag that are looked into, for the time of their first unread records."""


class LagRow(View, frozen=True):
    """A partition that a group reads. `lag` is in offsets; `behind` says what they are: how old the
    first unread records are, or that there are control batches alone."""

    columns: ClassVar = {
        "topic": "topic",
        "partition": "partition",
        "current-offset": "offset",
        "log-end-offset": "end",
        "lag": "lag",
        "behind": "behind",
        "consumer-id": "member",
    }

    topic: str | None
    partition: int | None
    offset: int | None
    end: int | None
    lag: int | None
    behind: str | None
    member: str | None


async def behind(session: Session, group: GroupView) -> Mapping[TopicPartition, Unread]:
    """What is unread where the group has a lag, of LOOKED_AT_MAX partitions at most."""
    offsets = {
        where: one.offset
        for one in group.partitions
        if one.lag and one.offset is not None and (where := _where(one)) is not None
    }
    chosen = dict(sorted(offsets.items())[:LOOKED_AT_MAX])
    if not chosen:
        return {}
    try:
        return await session.run(finding_unread(session.cluster, chosen))
    except ClientError:  # records were deleted up to there, or the reader may not read the topic
        return {}


def lag_section(
    session: Session, group: GroupView, unread: Mapping[TopicPartition, Unread]
) -> Section:
    """The lag of each partition now, their sum, and the sum since it is watched."""
    now = now_ms()
    rows = [_row(one, unread, now) for one in group.partitions]
    known = [one.lag for one in rows if one.lag is not None]
    points = [*session.lag.watch(group.group), Point(now, sum(known))]
    blocks: list[Block] = [
        Table("lag by partition", LagRow, rows, {"behind": [_to_records(one) for one in rows]})
    ]
    if len(points) > 1:
        blocks.insert(0, series("lag in offsets, over time", "offsets", points))
    document = {"partitions": rows, "lag": [point._asdict() for point in points]}
    return Section("Lag", [_sentence(group, rows, unread)], blocks, document)


def _sentence(
    group: GroupView, rows: list[LagRow], unread: Mapping[TopicPartition, Unread]
) -> Sentence:
    lagging = [one for one in rows if one.lag]
    total = sum(one.lag or 0 for one in lagging)
    unknown = sum(one.lag is None for one in rows if one.partition is not None)
    if not lagging and unknown:
        what = "no offset" if unknown == len(rows) else f"no offset in {unknown} of them"
        return Sentence(f"Of {count(len(rows), 'partition')} the group has committed {what} yet.")
    if not lagging:
        return Sentence("The group has read everything.", "good")
    if len(unread) == len(lagging) and all(
        one.timestamp_ms is None and one.is_known for one in unread.values()
    ):
        words = "control batches of transactions alone"
        return Sentence(f"The group has read every record: behind its offsets are {words}.", "good")
    level: Level = "note" if group.members else "warning"
    without = "" if group.members else ", and has no members"
    partitions = count(len(lagging), "partition")
    return Sentence(f"The group is {total:,} offsets behind in {partitions}{without}.", level)


def _row(one: Progress, unread: Mapping[TopicPartition, Unread], now: int) -> LagRow:
    where = _where(one)
    words = None if where is None else _behind(unread.get(where), now)
    return LagRow(one.topic, one.partition, one.offset, one.end, one.lag, words, one.member)


def _where(one: Progress) -> TopicPartition | None:
    if one.topic is None or one.partition is None:
        return None
    return TopicPartition(one.topic, one.partition)


def _behind(unread: Unread | None, now: int) -> str | None:
    if unread is None:
        return None
    if unread.timestamp_ms is None:
        return "control batches alone" if unread.is_known else None
    if unread.timestamp_ms < 0:
        return "records without a time"
    return f"{max(0, now - unread.timestamp_ms) / 1000:,.0f} s"


def _to_records(one: LagRow) -> str | None:
    """The path of the first unread record."""
    if one.topic is None or one.offset is None or not one.lag:
        return None
    where = {"from": one.offset, "partitions": one.partition, "order": "oldest"}
    return path_to("topics", one.topic, "records", **where)
