"""Record batches inside of messages, for people: `decode --records`.

What this makes stands beside a message, never in it, and nothing reads it back: the records field
itself stays base64, because a batch's bytes cannot be made again from its records (compression
levels, batches that compaction has thinned out, a CRC that is wrong).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fencepost.batch.control import parse_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import UNKNOWN_COUNT, BatchHeader, check_crc, iter_headers
from fencepost.batch.records import Record, read_first
from fencepost.cli.output import json_bytes
from fencepost.log.dump.describe import describe_control, describe_header, describe_record
from fencepost.wire.layout import Layout, layout_of
from fencepost.wire.message import Message
from fencepost.wire.types import Buffer, Primitive

BYTES_SHOWN_MAX: Final = 16 * 1024 * 1024
"""Of keys, values and headers of one message: compressed they can be a thousandth of it."""


class _Budget:
    """How much of a message can still be shown."""

    def __init__(self, items: int) -> None:
        self.items = items
        self.bytes = BYTES_SHOWN_MAX

    @property
    def is_left(self) -> bool:
        return self.items > 0 and self.bytes > 0

    def close(self) -> None:
        """Nothing more of this message."""
        self.items = 0

    def take(self, records: list[Record]) -> None:
        """Take what a batch with these records needs; it counts as one itself."""
        self.items -= 1
        for record in records:
            self.items -= 1 + len(record.headers)
            for one in (record.key, record.value, *(value for _, value in record.headers)):
                self.bytes -= len(one or b"")
            self.bytes -= sum(len(name) for name, _ in record.headers)


def decoded_records(message: Message, version: int, limit: int) -> list[dict[str, Any]]:
    """The batches of every records field of `message` that is not empty, with the field's path.

    No more than `limit` records, headers of records and batches together, and BYTES_SHOWN_MAX of
    content; `records_left_out` and `bytes_left_out` say what is missing then.
    """
    cls = type(message)
    layout = layout_of(cls, version, cls.is_flexible(version))
    budget = _Budget(limit)
    return [
        {"path": path, **_describe(data, budget)}
        for path, data in _records_fields(layout, message, "")
    ]


def _records_fields(layout: Layout, value: Any, path: str) -> Iterator[tuple[str, Buffer]]:
    if not layout.has_records:
        return
    for slot in layout.plain + layout.tagged:
        content = getattr(value, slot.field.name)
        here = f"{path}.{slot.field.name}" if path else slot.field.name
        if content is None:
            continue
        if slot.field.primitive is Primitive.RECORDS:
            if len(content):
                yield here, content
        elif slot.layout is not None and slot.field.is_array:
            for index, element in enumerate(content):
                yield from _records_fields(slot.layout, element, f"{here}[{index}]")
        elif slot.layout is not None:
            yield from _records_fields(slot.layout, content, here)


def _describe(data: Buffer, budget: _Budget) -> dict[str, Any]:
    """The batches in `data`; `error` says why there are no more, `cut_bytes` what is left over."""
    batches: list[dict[str, Any]] = []
    described: dict[str, Any] = {"batches": batches}
    end = 0
    try:
        for pos, header in iter_headers(data):
            if not budget.is_left:
                described["bytes_left_out"] = len(data) - pos
                return described
            batches.append(_describe_batch(data, pos, header, budget))
            end = pos + header.size_bytes
    except BatchError as error:
        described["error"] = str(error)
    if end < len(data):
        described["cut_bytes"] = len(data) - end
    return described


def _describe_batch(data: Buffer, pos: int, header: BatchHeader, budget: _Budget) -> dict[str, Any]:
    described = {**describe_header(header), "is_crc_right": check_crc(data, pos, header)}
    records: list[Record] = []
    try:
        records, has_more = read_first(
            data, pos, header, max_items=budget.items - 1, max_bytes=budget.bytes
        )
        if header.is_control:
            described["control"] = [describe_control(parse_control(one, header)) for one in records]
        else:
            described["records"] = [describe_record(one, json_bytes, json_bytes) for one in records]
        if has_more:
            described["records_left_out"] = _left_out(header, len(records))
            budget.close()
    except BatchError as error:
        described["error"] = str(error)
    budget.take(records)
    return described


def _left_out(header: BatchHeader, shown: int) -> int | None:
    """How many more records there are; None where the header does not say how many."""
    return None if header.records_count == UNKNOWN_COUNT else header.records_count - shown
