"""What a writing task sends: every row once, in order, in batches as full as they can be."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from fencepost.batch.partitioner import partition_for_key
from fencepost.batch.record_size import size_bound
from fencepost.batch.records import read_records
from fencepost.spark import write_task
from fencepost.spark.errors import SinkError
from fencepost.spark.options import sink_options
from fencepost.spark.write_task import WriteTask

BATCH_BYTES = 16 * 1024
Sent = tuple[str, int, list[bytes], int]  # topic, partition, values, size


class Task(WriteTask):
    """A task whose cluster has topics of so many partitions, and whose producer keeps batches."""

    def __init__(self, partitions: int, **more: str) -> None:
        given = {"kafka.bootstrap.servers": "h:1", "kafka.batch.size": str(BATCH_BYTES), **more}
        self.sent: list[Sent] = []
        info = SimpleNamespace(partitions=dict.fromkeys(range(partitions)))
        cluster: Any = SimpleNamespace(topic=lambda name: info)
        producer: Any = SimpleNamespace(send_batches=self._keep)
        super().__init__(sink_options(given), cluster, producer)

    def _keep(self, topic: str, batches: Iterable[tuple[int, bytearray]]) -> None:
        for partition, data in batches:
            values = [record.value or b"" for record in read_records(data)]
            self.sent.append((topic, partition, values, len(data)))

    @property
    def waiting_bytes(self) -> int:
        return sum(one.size_bytes for one in self._pending.values())

    def values(self, topic: str, partition: int) -> list[bytes]:
        return [v for t, p, values, _ in self.sent for v in values if (t, p) == (topic, partition)]


def write_all(task: Task, rows: pa.RecordBatch) -> None:
    task.write(rows)
    task.finish()


def rows_of(count: int, size_bytes: int = 100, *, keyed: bool = False, first: int = 0) -> Any:
    numbers = range(first, first + count)
    values = [(b"%d" % number).ljust(size_bytes, b".") for number in numbers]
    keys = [b"k%d" % number for number in numbers]
    return pa.RecordBatch.from_pydict(({"key": keys} if keyed else {}) | {"value": values})


def test_rows_with_keys_wait_until_every_partition_has_a_batch():
    task = Task(12, topic="t")
    for first in range(0, 20_000, 500):
        task.write(rows_of(500, keyed=True, first=first))
        assert task.waiting_bytes < 12 * BATCH_BYTES
    sizes = [size for _, _, _, size in task.sent]
    # Without waiting a partition would get 42 rows at a time, of some 115 bytes each. Keys are not
    # spread so evenly that none of them ever needs a second, small batch.
    assert sum(sizes) / len(sizes) > BATCH_BYTES * 0.7
    assert max(sizes) <= BATCH_BYTES


def test_rows_of_a_partition_keep_their_order():
    task = Task(3, topic="t")
    keys, values = [], []
    for first, count in ((0, 7), (7, 900), (907, 1), (908, 2500)):
        rows = rows_of(count, keyed=True, first=first)
        keys += rows.column("key").to_pylist()
        values += rows.column("value").to_pylist()
        task.write(rows)
    task.finish()
    for partition in range(3):
        wanted = [v for k, v in zip(keys, values) if partition_for_key(k, 3) == partition]
        assert task.values("t", partition) == wanted
    assert task.records == {"t": 3408}


def test_rows_without_keys_change_the_partition_with_every_batch():
    task = Task(3, topic="t")
    for first in range(0, 3000, 1000):
        task.write(rows_of(1000, first=first))
    task.finish()
    turns = [partition for _, partition, _, _ in task.sent]
    assert turns == [(turns[0] + index) % 3 for index in range(len(turns))]
    assert [value for _, _, values, _ in task.sent for value in values] == (
        rows_of(3000).column("value").to_pylist()
    )


def test_what_waits_for_many_topics_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(write_task, "PENDING_BYTES_MAX", 50_000)
    task = Task(1)
    for number in range(40):
        rows = rows_of(20)
        task.write(rows.append_column("topic", pa.array([f"t{number}"] * 20)))
        assert task.waiting_bytes <= 50_000 + rows.nbytes
    task.finish()
    assert task.records == {f"t{number}": 20 for number in range(40)}
    assert sum(len(values) for _, _, values, _ in task.sent) == 800


def test_rows_that_are_enough_many_times_are_all_sent(monkeypatch: pytest.MonkeyPatch):
    """Without a rest, which would be copied, and with few calls of the encoder."""
    sends: list[int] = []
    send = WriteTask._send
    monkeypatch.setattr(WriteTask, "_send", lambda *of: (sends.append(of[2].num_rows), send(*of)))
    task = Task(1, topic="t")
    task.write(rows_of(100))
    task.write(rows_of(4000, first=100))
    assert task.waiting_bytes == 0
    assert len(sends) == 2  # what fills up the rows that waited, and all others
    monkeypatch.setattr(write_task, "SEND_BYTES", 100_000)
    task.write(rows_of(4000, first=4100))
    assert task.waiting_bytes == 0
    assert len(sends) == 2 + 5  # of 100 bytes and an offset each
    assert task.values("t", 0) == rows_of(8100).column("value").to_pylist()


def test_rows_that_are_enough_a_few_times_leave_a_rest():
    task = Task(1, topic="t")
    task.write(rows_of(1500))  # two and a half times
    assert 0 < task.waiting_bytes < 4 * BATCH_BYTES
    task.write(rows_of(1500, first=1500))
    task.finish()
    assert task.values("t", 0) == rows_of(3000).column("value").to_pylist()
    sizes = [size for _, _, _, size in task.sent]
    assert sum(size > BATCH_BYTES / 2 for size in sizes) >= len(sizes) - 2


def test_nothing_is_sent_of_no_rows():
    task = Task(2, topic="t")
    task.write(rows_of(0))
    task.finish()
    assert task.sent == []


@given(
    counts=st.lists(st.integers(0, 700), max_size=12),
    size_bytes=st.sampled_from([0, 3, 100, 15_000]),
    partitions=st.integers(1, 5),
    keyed=st.booleans(),
    skip=st.integers(0, 3),
)
def test_every_row_is_sent_once(
    counts: list[int], size_bytes: int, partitions: int, keyed: bool, skip: int
):
    counts = counts if size_bytes < 1000 else [count % 8 for count in counts]
    task = Task(partitions, topic="t")
    wanted: list[bytes] = []
    for count in counts:
        rows = rows_of(count + skip, size_bytes, keyed=keyed, first=len(wanted)).slice(skip)
        wanted += rows.column("value").to_pylist()
        task.write(rows)
    task.finish()
    sent = [value for _, _, values, _ in task.sent for value in values]
    assert sorted(sent) == sorted(wanted)
    assert task.records.get("t", 0) == len(wanted)


def test_rows_without_a_key_take_turns_beside_rows_with_one():
    task = Task(3, topic="t")
    keys = [b"k", None] * 20
    rows = pa.RecordBatch.from_pydict({"key": keys, "value": [b"%d" % n for n in range(40)]})
    where = []
    for _ in range(3):
        task.sent.clear()
        task.write(rows)
        task.finish()
        (partition,) = {p for _, p, values, _ in task.sent if b"1" in values}
        assert set(rows.column("value").to_pylist()[1::2]) <= set(task.values("t", partition))
        where.append(partition)
    assert sorted(where) == [0, 1, 2]


def test_a_row_larger_than_a_batch_goes_alone():
    task = Task(1, topic="t")
    sizes = [100, 200, 40_000, 300, 16_300, 16_400, 50]
    values = [b"x" * size for size in sizes]
    task.write(pa.RecordBatch.from_pydict({"value": values}))
    task.finish()
    assert [[len(value) for value in batch] for _, _, batch, _ in task.sent] == [
        [100, 200],
        [40_000],
        [300],
        [16_300],
        [16_400],
        [50],
    ]
    assert task.records == {"t": 7}


@pytest.mark.parametrize("limit", ["kafka.max.request.size", "kafka.buffer.memory"])
@pytest.mark.parametrize("batch_bytes", ["100", "262144"])
def test_a_row_may_be_as_large_as_kafkas_producer_takes_it(limit: str, batch_bytes: str):
    key, value = "k" * 90, b"v" * 20_000
    bound = size_bound(key.encode(), value, ())
    options = {"kafka.batch.size": batch_bytes, limit: str(bound)}
    task = Task(3, topic="t", **options)
    task.write(pa.RecordBatch.from_pydict({"key": [key], "value": [value]}))
    task.finish()
    assert [values for _, _, values, _ in task.sent] == [[value]]
    task.write(pa.RecordBatch.from_pydict({"key": ["a"], "value": [b""]}))
    with pytest.raises(SinkError) as caught:
        write_all(task, pa.RecordBatch.from_pydict({"key": [key], "value": [value + b"v"]}))
    partition = partition_for_key(key.encode(), 3)
    said = f"topic t, partition {partition}, with key b'{'k' * 40}'... takes {bound + 1} bytes"
    assert said in str(caught.value)
    assert f"more than {limit}={bound}" in str(caught.value)
    parameters = caught.value.getMessageParameters()
    assert parameters is not None
    assert (parameters["topic"], parameters["sizeBytes"]) == ("t", str(bound + 1))


def test_small_batches_are_as_small_as_they_were_asked_for():
    """A topic may take no larger ones."""
    task = Task(2, topic="t", **{"kafka.batch.size": "500"})
    task.write(rows_of(200, keyed=True))
    task.finish()
    assert max(size for _, _, _, size in task.sent) <= 500
    assert sum(len(values) for _, _, values, _ in task.sent) == 200
    task = Task(1, topic="t", **{"kafka.batch.size": "0"})
    task.write(rows_of(3))
    task.finish()
    assert [len(values) for _, _, values, _ in task.sent] == [1, 1, 1]
