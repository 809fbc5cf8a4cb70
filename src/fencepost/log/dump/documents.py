"""The small text files of a data directory as items: checkpoints, properties, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fencepost.log.checkpoints import decode_lines, parse_number
from fencepost.log.dump.items import Item, damage
from fencepost.log.durable_end import decode_durable_end
from fencepost.log.epochs import decode_epochs
from fencepost.log.errors import CorruptFileError
from fencepost.log.meta import MetaProperties, decode_partition_metadata
from fencepost.log.names import is_valid_topic
from fencepost.log.properties import decode_properties
from fencepost.log.quorum_state import decode_quorum_state
from fencepost.wire.records import quorum_state


def dump_offset_checkpoint(path: str, data: bytes) -> Iterator[Item]:
    """Lines of a file of one offset per partition."""
    try:
        if data:  # Kafka makes the file when it starts, and writes to it later
            decode_lines(path, data)
    except CorruptFileError as error:
        yield damage(error.position, error.reason)
    for number, line in _lines(data):
        fields = line.split()
        topic = fields[0].decode("ascii", "replace") if fields else ""
        try:
            if len(fields) != 3 or not is_valid_topic(topic):
                raise CorruptFileError(path, "is no topic, partition and offset")
            partition, offset = parse_number(path, fields[1]), parse_number(path, fields[2])
        except CorruptFileError as error:
            yield damage(None, error.reason, line=number)
        else:
            named = {"topic": topic, "partition": partition, "offset": offset}
            yield Item("entry", {"line": number, **named})


def dump_epoch_checkpoint(path: str, data: bytes) -> Iterator[Item]:
    """Lines of a `leader-epoch-checkpoint`."""
    try:
        if data:
            decode_epochs(path, data)
    except CorruptFileError as error:
        yield damage(error.position, error.reason)
    for number, line in _lines(data):
        try:
            epoch, start = [parse_number(path, field) for field in line.split()]
        except (CorruptFileError, ValueError):
            yield damage(None, "is no epoch and start offset", line=number)
        else:
            yield Item("entry", {"line": number, "epoch": epoch, "start_offset": start})


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines behind the first two, numbered as editors do."""
    lines = data.split(b"\n")
    for number, line in enumerate(lines[2:], 3):
        if line or number < len(lines):
            yield number, line


def dump_meta_properties(path: str, data: bytes) -> Iterator[Item]:
    """All entries of `meta.properties`."""
    try:
        yield Item("content", dict(decode_properties(path, data)))
        MetaProperties.decode(path, data)
    except CorruptFileError as error:
        yield damage(error.position, error.reason)


def dump_partition_metadata(path: str, data: bytes) -> Iterator[Item]:
    """The topic's id."""
    try:
        topic_id = decode_partition_metadata(path, data)
        yield Item("content", {"version": 0, "topic_id": str(topic_id)})
    except CorruptFileError as error:
        yield damage(error.position, error.reason)


def dump_quorum_state(path: str, data: bytes) -> Iterator[Item]:
    """What a Raft voter remembers, with the keys of the file."""
    content: Any = None
    try:
        content = json.loads(data.partition(b"\n")[0])
        state, version = quorum_state.from_file(content)
        yield Item("content", quorum_state.to_file(state, version))
        epoch, end_offset = decode_quorum_state(path, data).acknowledged_end
        if (epoch, end_offset) != (0, 0):
            yield Item("acknowledged_end", {"epoch": epoch, "end_offset": end_offset})
    except CorruptFileError as error:
        yield damage(error.position, error.reason)
    except (ValueError, RecursionError) as error:
        yield damage(None, f"is no quorum state: {error}")


def dump_clean_shutdown(path: str, data: bytes) -> Iterator[Item]:
    """The marker of a clean shutdown; older brokers left it empty."""
    if not data:
        yield Item("content", {})
        return
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        yield damage(None, f"is not JSON: {error}")
        return
    if isinstance(content, dict):
        yield Item("content", content)
    else:
        yield damage(None, "is not a JSON object")


def dump_durable_end(path: str, data: bytes) -> Iterator[Item]:
    """How far a log is durable, to the last flush."""
    try:
        yield Item("content", {"offset": decode_durable_end(path, data)})
    except CorruptFileError as error:
        yield damage(error.position, error.reason)
