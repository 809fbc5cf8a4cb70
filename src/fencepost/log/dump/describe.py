"""Batches and records as values that JSON can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.batch.compression import Codec
from fencepost.batch.control import ControlRecord
from fencepost.batch.header import BatchHeader
from fencepost.batch.records import Record
from fencepost.wire.json_form import to_json
from fencepost.wire.records.control import ControlType

BytesFormat = Callable[[bytes | None], Any]
"""How a key or a value is shown."""

_CONTROL_NAMES = {control_type.value: control_type.name for control_type in ControlType}


def describe_header(header: BatchHeader) -> dict[str, Any]:
    """What a batch's header says; numbers that stand for "none" as they are."""
    described: dict[str, Any] = {
        "magic": header.magic,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records_count": header.records_count,
        "partition_leader_epoch": header.partition_leader_epoch,
        "compression": codec_name(header.compression),
        "timestamp_type": "append" if header.is_log_append_time else "create",
        "base_timestamp_ms": header.base_timestamp,
        "max_timestamp_ms": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
    }
    if header.has_delete_horizon:
        described["delete_horizon_ms"] = described.pop("base_timestamp_ms")
    return described


def describe_record(
    record: Record, key_format: BytesFormat, value_format: BytesFormat
) -> dict[str, Any]:
    """A record."""
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": key_format(record.key),
        "value": value_format(record.value),
        "headers": [[name, value_format(value)] for name, value in record.headers],
    }


def describe_control(record: ControlRecord) -> dict[str, Any]:
    """A control record, its type by name where it is known."""
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "type": _CONTROL_NAMES.get(record.type, record.type),
        "value": None if record.value is None else to_json(record.value, 0),
    }


def codec_name(codec: int) -> str:
    """The codec in lower case."""
    try:
        return Codec(codec).name.lower()
    except ValueError:
        return f"unknown ({codec})"
