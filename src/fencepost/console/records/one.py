"""One record by its offset, whole, with the batch that it is in."""

from __future__ import annotations

import msgspec

from fencepost.client.metadata import TopicPartition
from fencepost.console.about_topic import topic_of
from fencepost.console.asked import Asked, NotThere
from fencepost.console.records.cursors import ForwardCursor, Found
from fencepost.console.records.query import (
    BUDGET_BYTES,
    BUDGET_S,
    OFFSET_MAX,
    LogRange,
    LookQuery,
    finding_ranges,
)
from fencepost.console.records.row_maker import RowMaker
from fencepost.console.records.rows import RecordRow
from fencepost.console.records.scan import Budget, Scan
from fencepost.console.session import Session


class WholeRecord(msgspec.Struct, frozen=True):
    """A record with its row, which has what is known of its transaction, and what its log has."""

    topic: str
    found: Found
    row: RecordRow
    log: LogRange


async def read_one(session: Session, asked: Asked, make: RowMaker) -> WholeRecord:
    """The record that `topic`, `partition` and `offset` name. Raises BadQuery, ClientError, and
    NotThere, which says what there is."""
    name = asked.text("topic")
    partition = asked.number("partition", 0, 0, 2**31 - 1)
    offset = asked.number("offset", 0, 0, OFFSET_MAX - 1)
    topic = await topic_of(session, name)
    if partition not in topic.partitions:
        raise NotThere(f"{name} has no partition {partition}: it has {len(topic.partitions)}")
    query = LookQuery.of(Asked({"topic": name}))
    ranges = await session.run(finding_ranges(session.cluster, query, [partition]))
    log = ranges[partition]
    place = f"{name}-{partition}"
    if not log.log_start <= offset < log.log_end:
        has = f"{log.log_start} to {log.log_end - 1}" if log.log_start < log.log_end else "none"
        raise NotThere(f"no record at offset {offset} of {place}: its offsets are {has}")
    kept: list[Found] = []

    def keep(found: Found) -> RecordRow | None:
        kept.append(found)
        return make(found)

    cursor = ForwardCursor(TopicPartition(name, partition), offset, offset + 1)
    budget = Budget(BUDGET_BYTES, BUDGET_S)
    rows = await Scan(session, [cursor], keep, 1, False, budget).run()
    if not rows:
        why = (
            "; ".join(cursor.tally.damage)
            or ("it is a marker of a transaction" if cursor.tally.control else "")
            or ("it could not be read in time" if budget.is_late() else "it was compacted away")
        )
        raise NotThere(f"no record at offset {offset} of {place}: {why}")
    return WholeRecord(name, kept[0], rows[0], log)
