"""A block of batches leaves the log as if each had been appended alone."""

from __future__ import annotations

import pytest

from fencepost.batch import record_batch
from fencepost.batch.header import BatchHeader, stamp
from fencepost.batch.record_batch import RecordBatch
from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import SimDisk

from .filled_logs import data_disk
from .helpers import NOW_MS, append, config, contents, make_batch, open_log


class Block(list[RecordBatch]):
    """What `BatchBlock` asks for, in Python."""

    def __init__(self, *batches: bytearray) -> None:
        super().__init__(map(RecordBatch.parse, batches))
        self.sizes = [header.last_offset_delta + 1 for header, _ in self]
        self.offsets = sum(self.sizes)
        self.max_timestamp = max(header.max_timestamp for header, _ in self)
        self.data = bytearray().join(data for _, data in self)
        self.size_bytes = len(self.data)
        self.producers: list[tuple[int, BatchHeader]] = [
            (place, header) for place, (header, _) in enumerate(self) if header.producer_id >= 0
        ]

    def stamp(self, first_offset: int, leader_epoch: int) -> list[int]:
        """See `BatchBlock.stamp`."""
        base_offsets, position = [first_offset], 0
        for (_, batch), count in zip(self, self.sizes, strict=True):
            stamp(self.data, position, base_offset=base_offsets[-1], leader_epoch=leader_epoch)
            base_offsets.append(base_offsets[-1] + count)
            position += len(batch)
        return [base_offsets[place] for place, _ in self.producers]

    def index_entries(
        self,
        next_relative: int,
        newest_ms: int,
        newest_relative: int,
        bytes_since_index: int,
        interval_bytes: int,
    ) -> tuple[list[tuple[int, int, int, int]], int, int, int]:
        """See `BatchBlock.index_entries`."""
        entries, relative, position = [], next_relative - 1, 0
        for (header, batch), count in zip(self, self.sizes, strict=True):
            relative += count
            if header.max_timestamp > newest_ms:
                newest_ms, newest_relative = header.max_timestamp, relative
            if bytes_since_index > interval_bytes:
                entries.append((relative, position, newest_ms, newest_relative))
                bytes_since_index = 0
            bytes_since_index += len(batch)
            position += len(batch)
        return entries, newest_ms, newest_relative, bytes_since_index


@pytest.fixture(autouse=True)
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batch, "_BLOCK", Block)


@pytest.fixture
def disk() -> SimDisk:
    return data_disk()


def batches() -> list[bytearray]:
    return [
        make_batch(2, 50, 1000),
        make_batch(3, 50, 3000, producer_id=5, producer_epoch=0, base_sequence=0),
        make_batch(1, 50, 2000),
        make_batch(1, 50, 2000, producer_id=6, producer_epoch=1, base_sequence=0),
    ]


def state_of(log: PartitionLog) -> tuple[object, ...]:
    producers = {state.producer_id: state for state in log.producers.active()}
    return (
        contents(log),
        log.end_offset,
        list(log.epochs),
        log.producers.end_offset,
        {number: (state.last_sequence, state.last_offset) for number, state in producers.items()},
        log.max_timestamp(),
    )


@pytest.mark.parametrize("leader_epoch", [-1, 0, 3])
@pytest.mark.parametrize("first_epoch", [-1, 0])
def test_a_block_is_as_its_batches_one_by_one(disk, first_epoch, leader_epoch):
    logs = [open_log(disk, f"/data/t-{at}", config(index_interval_bytes=60)) for at in range(2)]
    for log in logs:
        append(log, make_batch(), epoch=first_epoch)
    together, alone = logs
    block = Block(*batches())
    assert together.has_room_for(block, NOW_MS)
    together.append_all_as_leader(block, leader_epoch, NOW_MS)
    for batch in batches():
        append(alone, batch, epoch=leader_epoch)
    assert state_of(together) == state_of(alone)
    for log in logs:
        log.close()
    for name in disk.list("/data/t-1"):
        assert disk.read(f"/data/t-0/{name}") == disk.read(f"/data/t-1/{name}"), name


@pytest.mark.parametrize(("newest_ms", "has_room"), [(6000, True), (6001, False)])
def test_a_block_has_room_unless_one_of_its_records_is_too_new(disk, newest_ms, has_room):
    log = open_log(disk, "/data/t-0", config(segment_ms=1000))
    append(log, make_batch(timestamp_ms=5000))
    block = Block(make_batch(timestamp_ms=newest_ms), make_batch(timestamp_ms=5000))
    assert log.has_room_for(block, NOW_MS) == has_room
