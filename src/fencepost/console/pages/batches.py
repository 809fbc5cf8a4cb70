"""The batches of a partition: how records came into the log, and what the log keeps of them."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from fencepost.client.errors import ClientError, OffsetOutOfRange
from fencepost.client.fetch_core import FetchCore
from fencepost.client.metadata import TopicPartition
from fencepost.client.transaction_admin import describing_producers
from fencepost.console.about_topic import topic_of
from fencepost.console.asked import Asked, NotThere, path_to
from fencepost.console.page import Block, Field, Level, Page, Section, Sentence, Table, Text
from fencepost.console.records.batch_reading import BatchPart, reading_batches
from fencepost.console.records.batch_rows import BatchRow
from fencepost.console.records.query import OFFSET_MAX, LookQuery, finding_ranges
from fencepost.console.session import Session, now_ms
from fencepost.views.view import count

BATCHES: Final = 50
BATCHES_MAX: Final = 500
HEX_BYTES_MAX: Final = 64 << 10


async def batches(session: Session, asked: Asked) -> Page:
    """The batches from an offset on: codec, producer, sequence, leader epoch, control records."""
    name = asked.text("topic")
    partition = asked.number("partition", 0, 0, 2**31 - 1)
    limit = asked.number("limit", BATCHES, 1, BATCHES_MAX)
    hex_bytes = asked.number("hex", 0, 0, HEX_BYTES_MAX)
    topic = await topic_of(session, name)
    if partition not in topic.partitions:
        raise NotThere(f"{name} has no partition {partition}: it has {len(topic.partitions)}")
    query = LookQuery.of(Asked({"topic": name}))
    log = (await session.run(finding_ranges(session.cluster, query, [partition])))[partition]
    offset = asked.number("offset", log.log_start, 0, OFFSET_MAX - 1)
    place = TopicPartition(name, partition)
    core = FetchCore(session.cluster)
    begin = max(offset, log.log_start)
    try:
        part = await session.run(reading_batches(core, place, begin, log.log_end, limit, hex_bytes))
    except OffsetOutOfRange as error:
        raise NotThere(f"{error}: records were deleted meanwhile") from None
    rows = await _settled(session, place, part.rows)
    path = ("topics", name, "batches", partition)
    more = None
    if part.next_offset < log.log_end and rows:
        more = path_to(*path, offset=part.next_offset, limit=asked.values.get("limit") or None)
    blocks: list[Block] = [_table(rows, name, partition)]
    if part.hex_text:
        blocks.append(Text("the first of them in hexadecimal", part.hex_text))
    sentences = [*_sentences(place, part, rows, begin, log.log_end)]
    return Page(
        f"Batches of {name}-{partition}",
        [Section("", sentences, blocks, {"batches": rows, "next_offset": part.next_offset})],
        now_ms(),
        refresh_s=None,
        fields=[
            Field("offset", "from offset", str(begin)),
            Field("limit", "limit", asked.text("limit")),
            Field("hex", "bytes of the first in hexadecimal", asked.text("hex")),
        ],
        more=more,
    )


async def _settled(session: Session, place: TopicPartition, rows: list[BatchRow]) -> list[BatchRow]:
    """The rows, those of undecided transactions with what the leader knows of their producers."""
    if not any(row.state == "undecided" for row in rows):
        return rows
    try:
        described = await session.run(describing_producers(session.cluster, [place]))
    except ClientError:
        return rows
    began = {one.producer_id: one.start_offset for one in described[place] if one.is_open}
    return [
        msgspec.structs.replace(
            row,
            state="open"
            if began.get(row.producer_id or 0, OFFSET_MAX) <= row.base_offset
            else "ended",
        )
        if row.state == "undecided"
        else row
        for row in rows
    ]


def _table(rows: list[BatchRow], topic: str, partition: int) -> Table:
    levels: list[Level | None] = [
        "bad" if not row.is_crc_right else "warning" if row.state in ("aborted", "open") else None
        for row in rows
    ]
    links = [
        path_to("topics", topic, "batches", partition, offset=row.base_offset, limit=1, hex=4096)
        for row in rows
    ]
    return Table("batches", BatchRow, rows, {"base offset": links}, levels)


def _sentences(
    place: TopicPartition, part: BatchPart, rows: list[BatchRow], begin: int, log_end: int
) -> list[Sentence]:
    name = f"{place.topic}-{place.partition}"
    if not rows and not part.damage:
        return [Sentence(f"No batch from offset {begin} on: {name} ends at {log_end}.")]
    codecs = Counter(row.compression for row in rows)
    records = sum(row.records_count or 0 for row in rows)
    text = (
        f"{len(rows)} {'batch' if len(rows) == 1 else 'batches'} of {name} from offset {begin}"
        f" up to {part.next_offset}: {count(records, 'record')}, {part.size_bytes} bytes;"
        f" {', '.join(f'{number} with codec {codec}' for codec, number in codecs.items())}."
    )
    found = [Sentence(text)]
    wrong = sum(not row.is_crc_right for row in rows)
    if wrong:
        found.append(Sentence(f"The CRC of {wrong} of them is wrong.", "bad"))
    found += [Sentence(what, "bad") for what in part.damage]
    return found
