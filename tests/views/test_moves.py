"""How far a reassignment is."""

from __future__ import annotations

import pytest

from fencepost.client.metadata import TopicPartition
from fencepost.client.replicas import Reassignment
from fencepost.views.log_dirs import StoredReplica
from fencepost.views.moves import partition_move
from fencepost.views.replication import StoredIn


def stored(size_bytes: int) -> StoredIn:
    return StoredIn("/data", StoredReplica("t", 0, size_bytes, 5, False))


@pytest.mark.parametrize(
    ("isr", "sizes", "text"),
    [
        ((1,), {1: 2048, 3: 1024}, "3: 1.0 KiB of 2.0 KiB (50 %)"),
        ((1,), {1: 1024, 3: 4096}, "3: 4.0 KiB of 1.0 KiB (100 %)"),
        ((1,), {1: 0, 3: 0}, "3: 0 B of 0 B"),
        ((1,), {3: 1024}, "3: 1.0 KiB"),
        ((1,), {1: 1024}, "3: not known"),
        ((1, 3), {1: 1024, 3: 1}, "3: in sync"),
    ],
)
def test_progress_is_of_the_leaders_size(isr, sizes, text):
    move = Reassignment((1, 2, 3), (3,), (2,))
    found = {broker: stored(size) for broker, size in sizes.items()}
    assert partition_move(TopicPartition("t", 0), move, 1, isr, found).progress == text


def test_a_new_order_copies_nothing():
    move = partition_move(TopicPartition("t", 0), Reassignment((2, 1), (), ()), 1, (1, 2), {})
    assert move.progress == "only the order of replicas changes"
