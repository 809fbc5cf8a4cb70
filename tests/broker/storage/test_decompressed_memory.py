"""What becomes of a batch's output when it is decompressed: nothing of it stays in memory.

Batches of zeros are a kilobyte on the wire and megabytes of records. They are refused here after
they were decompressed: they have one record and claim two.
"""

from __future__ import annotations

import threading

import psutil
import pytest

from fencepost.batch.errors import BatchError
from fencepost.batch.header import pack_header, stamp_crc, unpack_header
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.broker.storage import decompression
from fencepost.broker.storage.decompression import MEDIUM_BYTES_MAX, Decompression
from fencepost.runtime.cooperative import Pieces
from fencepost.testing import Cluster
from fencepost.wire.errors import ErrorCode

from ...reference_cycles import cycles
from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import connect
from ..topic_requests import batch, make_topic, produce

CODECS = ["gzip", "snappy", "lz4", "zstd"]
MIB = 1024 * 1024
BOUND_MIB = 150
"""What two threads and the allocator may take between two of these batches."""


def bomb(codec: str, size_bytes: int) -> bytes:
    """A batch with a sound CRC that has one record where its header says two."""
    made = bytearray(batch(bytes(size_bytes), compression=codec))
    header = unpack_header(made)
    pack_header(made, header._replace(records_count=2, last_offset_delta=1))
    stamp_crc(made)
    return bytes(made)


@pytest.fixture
def cluster():
    """A broker of its own for each test: what one leaves would hide what the next needs."""
    with Cluster(faults=False, message_max_bytes=4 * MIB) as started:
        yield started


def growth_mib(cluster: Cluster, codec: str, size_bytes: int, bombs: int) -> float:
    """How much more memory the broker has after it has refused many such batches."""
    process, sent = psutil.Process(cluster.pid), bomb(codec, size_bytes)
    with connect(cluster) as client:
        topic = make_topic(client)
        assert produce(client, topic, sent).error_code == ErrorCode.INVALID_RECORD
        before = process.memory_info().rss
        for _ in range(bombs):
            assert produce(client, topic, sent).error_code == ErrorCode.INVALID_RECORD
        return float(process.memory_info().rss - before) / MIB


@pytest.mark.parametrize("codec", CODECS)
def test_the_output_of_refused_batches_is_not_kept(cluster, codec):
    assert growth_mib(cluster, codec, 2 * MIB, 200) < BOUND_MIB


@pytest.mark.long
@pytest.mark.parametrize("codec", CODECS)
def test_the_output_of_the_largest_refused_batches_is_not_kept(cluster, codec):
    assert growth_mib(cluster, codec, 62 * MIB, 30) < BOUND_MIB


def finish(pieces: Pieces) -> object:
    """What work in pieces returns, or raises."""
    while True:
        try:
            waited = next(pieces)
        except StopIteration as done:
            return done.value
        if waited is not None:
            waited.exception(DEADLINE_S)
        del waited


@pytest.mark.parametrize("limit_bytes", [MEDIUM_BYTES_MAX, MIB])
@pytest.mark.parametrize("codec", CODECS)
def test_an_error_of_a_thread_is_no_reference_cycle(codec, limit_bytes, monkeypatch):
    """Raised by the first thread, or by the one for large batches."""
    monkeypatch.setattr(decompression, "MEDIUM_BYTES_MAX", limit_bytes)
    work, sent = Decompression(), bomb(codec, 2 * MIB)

    def check(max_bytes: int) -> object:
        return prepare_produced(sent, ProduceRules(4 * MIB), max_decompressed_bytes=max_bytes)

    def refused() -> bool:
        try:
            finish(work.run(check))
        except BatchError as error:
            return error.code is ErrorCode.INVALID_RECORD
        return False

    assert refused()  # what is imported and made once is there now
    with cycles() as found:
        assert refused()
    assert found == []


@pytest.mark.parametrize("is_refused", [False, True])
def test_output_counts_while_a_batch_is_decompressed(is_refused):
    """The memory budget has it, whatever becomes of the batch."""
    work, go_on, begun = Decompression(), threading.Event(), threading.Event()

    def held(max_bytes: int) -> int:
        begun.set()
        assert go_on.wait(DEADLINE_S)
        if is_refused:
            raise BatchError(ErrorCode.INVALID_RECORD, "no record")
        return max_bytes

    pieces = work.run(held)
    future = next(pieces)
    try:
        assert begun.wait(DEADLINE_S)
        assert work.reserve(1000)
        assert work.used_bytes == MEDIUM_BYTES_MAX + 1000
    finally:
        go_on.set()
    assert future is not None
    future.exception(DEADLINE_S)
    eventually(lambda: work.used_bytes == 1000, "the output is let go of")
    work.release(1000)
    assert work.used_bytes == 0
    work.close()
