"""Record batches inside of messages, for people: `decode --records`.

What this makes stands beside a message, never in it, and nothing reads it back: the records field
itself stays base64, because a batch's bytes cannot be made again from its records (compression
levels, batches that compaction has thinned out, a CRC that is wrong).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader, check_crc, iter_headers
from fencepost.batch.records import read_batch
from fencepost.cli.json_values import json_bytes
from fencepost.log.dump.describe import describe_control, describe_header, describe_record
from fencepost.wire.layout import Layout, layout_of
from fencepost.wire.message import Message
from fencepost.wire.types import Buffer, Primitive


def decoded_records(message: Message, version: int) -> list[dict[str, Any]]:
    """The batches of every records field of `message` that is not empty, with the field's path."""
    cls = type(message)
    layout = layout_of(cls, version, cls.is_flexible(version))
    return [
        {"path": path, **_describe(data)} for path, data in _records_fields(layout, message, "")
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


def _describe(data: Buffer) -> dict[str, Any]:
    """The batches in `data`; `error` says why there are no more, `cut_bytes` what is left over."""
    batches: list[dict[str, Any]] = []
    described: dict[str, Any] = {"batches": batches}
    end = 0
    try:
        for pos, header in iter_headers(data):
            batches.append(_describe_batch(data, pos, header))
            end = pos + header.size_bytes
    except BatchError as error:
        described["error"] = str(error)
    if end < len(data):
        described["cut_bytes"] = len(data) - end
    return described


def _describe_batch(data: Buffer, pos: int, header: BatchHeader) -> dict[str, Any]:
    described = {**describe_header(header), "is_crc_right": check_crc(data, pos, header)}
    try:
        if header.is_control:
            batch = memoryview(data)[pos : pos + header.size_bytes]
            described["control"] = [
                describe_control(one) for one in read_control(batch, check=False)
            ]
        else:
            records = read_batch(data, pos, header)
            described["records"] = [describe_record(one, json_bytes, json_bytes) for one in records]
    except BatchError as error:
        described["error"] = str(error)
    return described
