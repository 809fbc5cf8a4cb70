"""One record, whole: key, value and headers as text, as bytes, and the batch that it came in."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from fencepost.console.asked import Asked, path_to
from fencepost.console.page import Block, Field, Page, Section, Sentence, Table, Text
from fencepost.console.pages.records import origin_path
from fencepost.console.records.batch_rows import BatchRow
from fencepost.console.records.decoders import (
    PAGE_BYTES_MAX,
    Shown,
    hex_dump,
    pretty,
)
from fencepost.console.records.one import WholeRecord, read_one
from fencepost.console.records.row_maker import RowMaker, headers_of
from fencepost.console.records.rows import HeaderView
from fencepost.console.records.topic_decoders import decoders_of
from fencepost.console.session import Session, now_ms
from fencepost.views.view import count

HEX_BYTES: Final = 512
HEX_BYTES_MAX: Final = 64 << 10
HEADERS_MAX: Final = 1_000


async def record(session: Session, asked: Asked) -> Page:
    """The record at an offset of a partition."""
    key_as, value_as = decoders_of(asked, asked.text("topic"), session.schemas)
    hex_bytes = asked.number("hex", HEX_BYTES, 0, HEX_BYTES_MAX)
    whole = await read_one(session, asked, RowMaker(key_as, value_as))
    one = whole.found.record
    key = await asyncio.to_thread(key_as.show, one.key, PAGE_BYTES_MAX)
    value = await asyncio.to_thread(value_as.show, one.value, PAGE_BYTES_MAX, one.key)
    headers = headers_of(one.headers[:HEADERS_MAX], PAGE_BYTES_MAX // HEADERS_MAX)
    full = msgspec.structs.replace(whole.row, key=key, value=value, headers=headers)
    batch = BatchRow.of(whole.found.header, whole.row.state, None, True)
    return Page(
        f"{whole.topic}-{whole.row.partition} at {whole.row.offset}",
        [
            Section("", _sentences(whole), document=full),
            _part("Key", key, one.key, hex_bytes, _download(whole, "key")),
            _part("Value", value, one.value, hex_bytes, _download(whole, "value")),
            Section("Headers", [], [Table("headers", HeaderView, headers, total=len(one.headers))]),
            Section("Batch", [], [Table("the batch that it is in", BatchRow, [batch])]),
        ],
        now_ms(),
        refresh_s=None,
        fields=[
            Field("key", "key as", key_as.name, key_as.names),
            Field("value", "value as", value_as.name, value_as.names),
        ],
    )


def _sentences(whole: WholeRecord) -> list[Sentence]:
    row, log = whole.row, whole.log
    clock = "the broker's clock" if row.is_append_time else "the producer's clock"
    around = {"partitions": row.partition, "order": "oldest", "limit": 20}
    path = ("topics", whole.topic, "records")
    begin = max(log.log_start, row.offset - 10)
    origin = []
    if row.origin is not None:
        why = f": {row.origin.reason}" if row.origin.reason else ""
        text = f"A dead letter ({row.origin.convention}) of {row.origin.text}{why}"
        origin.append(Sentence(text, "warning", origin_path(row.origin)))
    return [
        *origin,
        Sentence(f"{row.time or 'no time'}, by {clock}; transaction: {row.state_text}."),
        Sentence("Records around it", link=path_to(*path, **around, **{"from": begin})),
        Sentence(
            "Its batch and those after it",
            link=path_to("topics", whole.topic, "batches", row.partition, offset=row.offset),
        ),
    ]


def _part(heading: str, shown: Shown, data: bytes | None, hex_bytes: int, download: str) -> Section:
    if data is None:
        return Section(heading, [Sentence("null")], document=None)
    has = f"{count(len(data), 'byte')}, shown as {shown.as_}"
    if shown.problem is not None:
        has += f" ({shown.problem})"
    sentences = [Sentence(f"{has}.", "warning" if shown.problem else "note")]
    if shown.is_cut:
        sentences.append(Sentence(f"Only the beginning is shown: {PAGE_BYTES_MAX} at most."))
    sentences.append(Sentence("Download the bytes", link=download))
    blocks: list[Block] = [Text(heading.lower(), pretty(shown) or shown.text or "")]
    if hex_bytes and data:
        blocks.append(Text("in hexadecimal", hex_dump(data, hex_bytes)))
    return Section(heading, sentences, blocks)


def _download(whole: WholeRecord, part: str) -> str:
    row = whole.row
    return path_to("topics", whole.topic, "records", row.partition, row.offset, part)
