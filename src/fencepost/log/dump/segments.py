"""The batches of a segment as items, on request with their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader
from fencepost.batch.records import read_batch
from fencepost.log.dump.batches import FoundBatch, Readable, UnreadableBytes, scan_batches
from fencepost.log.dump.describe import (
    BytesFormat,
    describe_control,
    describe_header,
    describe_record,
)
from fencepost.log.dump.items import Item, damage
from fencepost.wire.errors import DecodeError

RecordDecoder = Callable[[bytes | None, bytes | None], dict[str, Any]]
"""A record of one of Kafka's own logs, by key and value, as a JSON object. Raises DecodeError."""


class DumpOptions(Struct, frozen=True):
    """What is to be shown of segments, and how."""

    with_records: bool = False
    is_deep: bool = False
    """Whether records are looked into for damage even if they are not shown."""
    from_offset: int = 0
    key_format: BytesFormat = repr
    value_format: BytesFormat = repr
    decode: RecordDecoder | None = None
    """For the records of coordinators' logs and of the metadata log."""


def dump_segment(file: Readable, base_offset: int | None, options: DumpOptions) -> Iterator[Item]:
    """The batches from the one with `options.from_offset` on. OSError."""
    looks_inside = options.with_records or options.is_deep

    def with_data(header: BatchHeader) -> bool:
        return looks_inside

    found = scan_batches(
        file,
        base_offset=base_offset,
        from_offset=options.from_offset,
        with_data=with_data,
    )
    for one in found:
        if isinstance(one, UnreadableBytes):
            yield damage(one.position, one.reason, is_tail=one.is_tail, size_bytes=one.size_bytes)
            continue
        fields = describe_header(one.header)
        fields |= {"crc": one.header.crc, "is_crc_right": one.is_sound}
        yield Item("batch", {"position": one.position, **fields})
        if not one.is_sound:
            yield damage(one.position, f"the content's CRC is {one.crc:#010x}")
        if looks_inside:
            yield from _records(one, options)


def _records(found: FoundBatch, options: DumpOptions) -> Iterator[Item]:
    assert found.data is not None, "asked for"
    header = found.header
    try:
        if header.is_control:
            shown = [describe_control(one) for one in read_control(found.data, check=False)]
        else:
            records = read_batch(found.data, 0, header)
            if not options.with_records:
                return
            if options.decode is None:
                key, value = options.key_format, options.value_format
                shown = [describe_record(one, key, value) for one in records]
            else:
                yield from _decoded(found, records, options)
                return
    except BatchError as error:
        yield damage(found.position, str(error))
        return
    if not options.with_records:
        return
    for fields in shown:
        if header.is_control:
            fields["control_type"] = fields.pop("type")
        if fields["offset"] >= options.from_offset:
            yield Item("control" if header.is_control else "record", fields)


def _decoded(found: FoundBatch, records: list[Any], options: DumpOptions) -> Iterator[Item]:
    assert options.decode is not None
    for record in records:
        if record.offset < options.from_offset:
            continue
        fields = {"offset": record.offset, "timestamp_ms": record.timestamp_ms}
        try:
            yield Item("record", fields | options.decode(record.key, record.value))
        except DecodeError as error:
            plain = describe_record(record, options.key_format, options.value_format)
            yield Item("record", plain)
            yield damage(found.position, f"the record at offset {record.offset}: {error}")
