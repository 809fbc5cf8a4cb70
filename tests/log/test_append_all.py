"""Batches that are appended with one write leave the log as if each had been written alone."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.record_batch import RecordBatch
from fencepost.log.disk import OsDisk
from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import SimDisk

from .helpers import NOW_MS, append, config, contents, make_batch, open_log

BATCHES = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 120), st.sampled_from([-1, 5, 1000, 90_000])),
    min_size=1,
    max_size=8,
)


def made(sizes: list[tuple[int, int, int]]) -> list[RecordBatch]:
    return [
        RecordBatch.parse(make_batch(records, size, NOW_MS + at_ms, fill=number))
        for number, (records, size, at_ms) in enumerate(sizes)
    ]


def files_of(log: PartitionLog) -> dict[str, bytes]:
    disk, directory = log.disk, log.directory
    return {name: disk.read(f"{directory}/{name}") for name in disk.list(directory)}


@settings(max_examples=40, deadline=None)
@given(
    groups=st.lists(BATCHES, min_size=1, max_size=4),
    segment_bytes=st.sampled_from([400, 1000, 1 << 20]),
    kind=st.sampled_from(["CreateTime", "LogAppendTime"]),
    index_bytes=st.sampled_from([36, 1 << 20]),
)
def test_together_is_as_one_by_one(groups, segment_bytes, kind, index_bytes) -> None:
    logs = [
        open_log(
            SimDisk(),
            "/data/topic-0",
            config(
                internal_segment_bytes=segment_bytes,
                segment_ms=60_000,
                index_interval_bytes=100,
                segment_index_bytes=index_bytes,
                message_timestamp_type=kind,
            ),
        )
        for _ in range(2)
    ]
    together, alone = logs
    for group in groups:
        together.append_all_as_leader(made(group), 3, NOW_MS)
        for batch in made(group):
            alone.append_as_leader(batch, 3, NOW_MS)
    for log in logs:
        log.close()
    assert files_of(together) == files_of(alone)
    assert together.segment_base_offsets == alone.segment_base_offsets


def test_one_write_for_all_of_them(tmp_path, monkeypatch) -> None:
    log = open_log(OsDisk(), str(tmp_path / "topic-0"))
    append(log, make_batch(timestamp_ms=NOW_MS))
    writes = []
    file = log._row.active.file
    monkeypatch.setattr(
        type(file), "write_at", lambda self, data, position: writes.append((len(data), position))
    )
    batches = made([(1, 10, 0), (2, 20, 0), (1, 5, 0)])
    size_bytes = log.size_bytes
    log.append_all_as_leader(batches, 0, NOW_MS)
    assert writes == [(sum(len(batch.data) for batch in batches), size_bytes)]


def test_a_write_that_fails_leaves_the_log_as_it_was(tmp_path, monkeypatch) -> None:
    log = open_log(OsDisk(), str(tmp_path / "topic-0"))
    append(log, make_batch(timestamp_ms=NOW_MS))
    before = contents(log)
    file = log._row.active.file
    written = type(file).write_at

    def half(self, data, position) -> None:
        written(self, bytes(data)[: len(data) // 2], position)
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(type(file), "write_at", half)
    with pytest.raises(OSError, match="no space"):
        log.append_all_as_leader(made([(1, 10, 0), (2, 20, 0)]), 0, NOW_MS)
    monkeypatch.undo()
    assert contents(log) == before and log.end_offset == 1
    append(log)
    assert len(contents(log)) == 2


def test_each_batch_begins_where_the_one_before_it_ends(tmp_path) -> None:
    log = open_log(OsDisk(), str(tmp_path / "topic-0"))
    append(log, make_batch(timestamp_ms=NOW_MS))
    log.append_all_as_leader(made([(1, 10, 0), (2, 20, 0), (3, 5, 0)]), 0, NOW_MS)
    assert [offset for offset, _ in contents(log)] == [0, 1, 2, 4]
    assert log.end_offset == 7
