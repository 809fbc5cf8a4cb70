"""Batches with their headers, and blocks of them."""

from __future__ import annotations

import pytest

from fencepost.batch import backend
from fencepost.batch.record_batch import BatchBlock, RecordBatch, is_block
from fencepost.batch.records import build_batch


def test_blocks_are_told_from_other_sequences_of_batches() -> None:
    batch = RecordBatch.parse(build_batch([(b"k", b"v")]))
    for batches in ([batch], (batch,), []):
        assert not is_block(batches)
        assert not isinstance(batches, BatchBlock)


@pytest.mark.skipif(backend.produce_kernel is None, reason="there are no blocks then")
def test_the_kernels_blocks_are_such() -> None:
    kernel = backend.produce_kernel
    assert kernel is not None
    block = kernel.Block.__new__(kernel.Block)
    assert is_block(block)
    assert isinstance(block, BatchBlock)
