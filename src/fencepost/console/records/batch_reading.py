"""The batches of a partition from an offset on, by their headers: records stay compressed."""

from __future__ import annotations

from typing import Final, NamedTuple

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import check_crc
from fencepost.client.conversation import Conversation
from fencepost.client.fetch_core import FetchCore, Fetched, FetchLimits, FetchPosition
from fencepost.client.metadata import TopicPartition
from fencepost.client.transaction_states import batch_states
from fencepost.console.records.batch_rows import BatchRow
from fencepost.console.records.decoders import hex_dump
from fencepost.wire.records.control import ControlType

FETCH_BYTES: Final = 1 << 20
FETCHES_MAX: Final = 4
CONTROL_NAMES: Final = {one.value: one.name for one in ControlType}


class BatchPart(NamedTuple):
    """Batches one behind the other; `next_offset` is behind the last of them. `hex_text` is of the
    first one's bytes; `damage` says what is not sound."""

    rows: list[BatchRow]
    next_offset: int
    size_bytes: int
    hex_text: str
    damage: list[str]


def reading_batches(
    core: FetchCore, partition: TopicPartition, offset: int, end: int, limit: int, hex_bytes: int
) -> Conversation[BatchPart]:
    """Batches from the one with `offset` on, up to `end`, `limit` at most; fewer where they are
    large, one at least. Raises ClientError."""
    part = BatchPart([], offset, 0, "", [])
    lists_aborted = True
    for _ in range(FETCHES_MAX):
        if part.next_offset >= end or len(part.rows) >= limit:
            break
        answers = yield from core.fetching(
            {partition: FetchPosition(part.next_offset)},
            max_wait_ms=0,
            limits=FetchLimits(FETCH_BYTES, FETCH_BYTES),
            isolation_level="read_committed" if lists_aborted else "read_uncommitted",
        )
        if not answers:
            break
        (answer,) = answers
        if len(answer.records):
            part = _taken(part, answer, lists_aborted, limit, hex_bytes)
        elif lists_aborted:
            lists_aborted = False  # the last stable offset is here
        else:
            part = part._replace(next_offset=end)  # the offsets up to the end are gone
    return part


def _taken(
    part: BatchPart, answer: Fetched, lists_aborted: bool, limit: int, hex_bytes: int
) -> BatchPart:
    rows, damage, hex_text = list(part.rows), list(part.damage), part.hex_text
    reached = answer.next_offset
    size = part.size_bytes
    try:
        for position, header, state in batch_states(answer, lists_aborted=lists_aborted):
            if len(rows) >= limit:
                reached = header.base_offset
                break
            data = answer.records[position : position + header.size_bytes]
            if not rows and hex_bytes:
                hex_text = hex_dump(bytes(data[:hex_bytes]), hex_bytes)
            is_right = check_crc(answer.records, position, header)
            control = _control_text(data) if header.is_control else None
            rows.append(BatchRow.of(header, state, control, is_right))
            size += header.size_bytes
    except BatchError as error:
        damage.append(str(error))
    return BatchPart(rows, reached, size, hex_text, damage)


def _control_text(batch: memoryview) -> str:
    """The types of a control batch's records, and what they say."""
    try:
        found = read_control(batch, check=False)
    except BatchError as error:
        return str(error)
    texts = []
    for one in found:
        name = CONTROL_NAMES.get(one.type, f"type {one.type}")
        epoch = getattr(one.value, "coordinator_epoch", None)
        texts.append(name if epoch is None else f"{name} (coordinator epoch {epoch})")
    return ", ".join(texts)
