"""The commands of scenarios about compacted topics."""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.batch.control import read_control
from fencepost.batch.header import BatchHeader
from fencepost.batch.records import read_batch
from fencepost.log.disk import Buffer
from fencepost.sim.brokers.compaction import compact as compact_log
from fencepost.sim.script import Script
from fencepost.sim.script_brokers import broker_of, hosted_of
from fencepost.sim.script_table import command
from fencepost.wire.records.control import ControlType


@command
def compact(script: Script, words: list[str]) -> list[str]:
    """`compact B TOPIC-N`: broker B closes the active segment of its replica and has its cleaner go
    over the log, as far as it may."""
    broker, hosted = broker_of(script, words[0]), hosted_of(script, words[0], words[1])
    hosted.log.roll(broker.clocks.wall_ms())
    stats = compact_log(broker, hosted)
    return [f"{stats.records_read} records into {stats.records_written}"]


@command
def records(script: Script, words: list[str]) -> list[str]:
    """`records B TOPIC-N`: what is on broker B's disk of the partition, batch by batch: offset,
    producer and epoch, keys and values, or the marker; `until TIME` if it has a delete horizon."""
    log = hosted_of(script, words[0], words[1]).log
    found = log.read_all_batches(log.start_offset, log.end_offset)
    return [_batch_in_words(header, data) for header, data in found]


def _batch_in_words(header: BatchHeader, data: Buffer) -> str:
    producer = f"   {header.producer_id} e{header.producer_epoch}" if header.has_producer_id else ""
    horizon = "   with a delete horizon" if header.has_delete_horizon else ""
    words = ", ".join(_records_in_words(header, data)) or "no record"
    return f"{header.base_offset}{producer}   {words}{horizon}"


def _records_in_words(header: BatchHeader, data: Buffer) -> Iterator[str]:
    if header.is_control:
        for marker in read_control(data):
            yield ControlType(marker.type).name
        return
    for record in read_batch(data, 0, header):
        value = "deleted" if record.value is None else record.value.decode()
        yield f"{_key_in_words(record.key)} is {value}"


def _key_in_words(key: bytes | None) -> str:
    if key is None:
        return "-"
    return key.decode() if key.isalnum() else f"0x{key.hex()}"
