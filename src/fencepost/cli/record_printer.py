"""Fetched records on standard output, as text, JSON or a format string has them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fencepost.cli.failures import UsageError
from fencepost.cli.output import json_bytes
from fencepost.cli.record_format import FormatError, RecordFormat

if TYPE_CHECKING:
    from fencepost.batch.records import Record
    from fencepost.client.metadata import TopicPartition


class Printer:
    """Prints records until there are `--max-messages` of them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Raises UsageError for a format string that is none."""
        self._left: int | None = arguments.max_messages
        self._line = _line_of(arguments)
        self._out = sys.stdout.buffer

    @property
    def is_full(self) -> bool:
        return self._left == 0

    def print(self, partition: TopicPartition, records: Iterable[Record]) -> int | None:
        """Print records; the offset behind the last one, when all are out; None without any."""
        next_offset = None
        for record in records:
            if self._left == 0:
                break
            self._out.write(self._line(partition, record))
            next_offset = record.offset + 1
            if self._left is not None:
                self._left -= 1
        self._out.flush()
        return next_offset


def _line_of(arguments: argparse.Namespace) -> Callable[[TopicPartition, Record], bytes]:
    """How a record is printed, its end included."""
    null = os.fsencode(arguments.null)
    if arguments.json:
        return lambda partition, record: json.dumps(json_record(partition, record)).encode() + b"\n"
    if arguments.format is not None:
        try:
            return RecordFormat(arguments.format, null)
        except FormatError as error:
            raise UsageError(f"--format: {error}") from None
    if arguments.key_separator is None:
        return lambda partition, record: (null if record.value is None else record.value) + b"\n"
    separator = os.fsencode(arguments.key_separator)

    def with_key(partition: TopicPartition, record: Record) -> bytes:
        parts = (null if part is None else part for part in (record.key, record.value))
        return separator.join(parts) + b"\n"

    return with_key


def json_record(partition: TopicPartition, record: Record) -> dict[str, Any]:
    """A record as JSON; bytes that are no text appear as an object with their hex digits."""
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": "append" if record.timestamp_type == 1 else "create",
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[name, json_bytes(value)] for name, value in record.headers],
    }
