"""Batches as tables show them."""

from __future__ import annotations

from typing import ClassVar

from fencepost.batch.header import BatchHeader
from fencepost.client.transaction_states import State
from fencepost.console.records.rows import STATE_TEXTS
from fencepost.log.dump.describe import codec_name
from fencepost.views.times import iso_time
from fencepost.views.view import View, known


class BatchRow(View, frozen=True):
    """A batch of a log, by its header. None stands for what it does not have. `records_count` of a
    compressed message of the formats before batches is not known."""

    columns: ClassVar = {
        "base offset": "base_offset",
        "last": "last_offset",
        "records": "records_count",
        "bytes": "size_bytes",
        "codec": "compression",
        "leader epoch": "partition_leader_epoch",
        "producer": "producer_id",
        "epoch": "producer_epoch",
        "sequence": "sequence_text",
        "transaction": "state_text",
        "control": "control",
        "from": "first_time",
        "CRC": "crc_text",
    }

    base_offset: int
    last_offset: int
    records_count: int | None
    size_bytes: int
    magic: int
    compression: str
    partition_leader_epoch: int | None
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    last_sequence: int | None
    is_transactional: bool
    state: State
    control: str | None
    base_timestamp_ms: int
    max_timestamp_ms: int
    crc: int
    is_crc_right: bool

    @property
    def sequence_text(self) -> str | None:
        if self.base_sequence is None:
            return None
        return f"{self.base_sequence} to {self.last_sequence}"

    @property
    def state_text(self) -> str:
        return STATE_TEXTS.get(self.state, self.state)

    @property
    def first_time(self) -> str | None:
        return None if self.base_timestamp_ms < 0 else iso_time(self.base_timestamp_ms)

    @property
    def crc_text(self) -> str:
        return f"{self.crc:#010x}" + ("" if self.is_crc_right else " (wrong)")

    @classmethod
    def of(
        cls, header: BatchHeader, state: State, control: str | None, is_crc_right: bool
    ) -> BatchRow:
        return cls(
            header.base_offset,
            header.last_offset,
            known(header.records_count),
            header.size_bytes,
            header.magic,
            codec_name(header.compression),
            known(header.partition_leader_epoch),
            known(header.producer_id),
            known(header.producer_epoch),
            known(header.base_sequence),
            known(header.last_sequence),
            header.is_transactional,
            state,
            control,
            header.base_timestamp,
            header.max_timestamp,
            header.crc,
            is_crc_right,
        )
