"""What the metadata log beside the partitions can be asked, and its snapshots.

A snapshot (`<offset>-<epoch>.checkpoint`, KIP-630) is batches between a header and a footer, which
are control records; without its footer it was never finished.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader
from fencepost.batch.records import read_batch
from fencepost.log.dump.batches import UnreadableBytes, scan_batches
from fencepost.log.errors import crc_mismatch
from fencepost.log.names import LOG_SUFFIX, parse_offset_file
from fencepost.log.verify.files import Files
from fencepost.log.verify.problems import Problem, Severity
from fencepost.wire.errors import DecodeError
from fencepost.wire.records.control import ControlType
from fencepost.wire.records.metadata import RemoveTopicRecord, TopicRecord, decode_record
from fencepost.wire.types import Uuid

METADATA_DIR: Final = "__cluster_metadata-0"
_SNAPSHOT: Final = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint")


def is_snapshot(name: str) -> bool:
    """Whether a file is a finished snapshot of the metadata log, by its name."""
    return _SNAPSHOT.fullmatch(name) is not None


def check_snapshot(files: Files, path: str) -> Iterator[Problem]:
    """Whether the snapshot is whole and sound. OSError."""

    def problem(position: int | None, text: str) -> Problem:
        return Problem(path, position, Severity.ERROR, "snapshot", text)

    types: list[int] = []
    with closing(files.open(path)) as file:
        for found in scan_batches(file, with_data=_is_control):
            if isinstance(found, UnreadableBytes):
                yield problem(found.position, f"{found.size_bytes} bytes: {found.reason}")
            elif not found.is_sound:
                sums = f"{found.crc:#010x}, not {found.header.crc:#010x}"
                yield problem(found.position, f"{crc_mismatch(found.header)}: {sums}")
            elif found.data is not None:
                types += _control_types(found.data)
    if ControlType.SNAPSHOT_HEADER not in types[:1]:
        yield problem(None, "does not begin with a snapshot's header")
    if ControlType.SNAPSHOT_FOOTER not in types[-1:]:
        yield problem(None, "does not end with a snapshot's footer")


def _is_control(header: BatchHeader) -> bool:
    return header.is_control


def _control_types(data: bytes) -> list[int]:
    try:
        return [record.type for record in read_control(data, check=False)]
    except BatchError:
        return []


def topic_ids(files: Files, directory: str) -> dict[str, Uuid]:
    """The topics and their ids, by the metadata log in `directory`. OSError.

    What cannot be read there is passed over: it is reported where the log itself is verified.
    """
    snapshots, segments = [], []
    for name in files.list(directory):
        parsed = parse_offset_file(name)
        if parsed is not None and parsed[1:] == (LOG_SUFFIX, ""):
            segments.append(name)
        elif is_snapshot(name):
            snapshots.append(name)
    ids: dict[str, Uuid] = {}
    for name in [*snapshots[-1:], *segments]:
        for record in _records(files, f"{directory}/{name}"):
            if isinstance(record, TopicRecord):
                ids[record.name] = record.topic_id
            elif isinstance(record, RemoveTopicRecord):
                ids = {topic: one for topic, one in ids.items() if one != record.topic_id}
    return ids


def _records(files: Files, path: str) -> Iterator[object]:
    with closing(files.open(path)) as file:
        for found in scan_batches(file, with_data=lambda header: not header.is_control):
            if isinstance(found, UnreadableBytes) or not found.is_sound or found.data is None:
                continue
            try:
                records = read_batch(found.data, 0, found.header)
            except BatchError:
                continue
            for record in records:
                try:
                    yield decode_record(record.value or b"")
                except DecodeError:
                    continue
