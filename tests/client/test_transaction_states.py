"""What became of a batch's transaction: by the list of aborted ones, by markers, or not known."""

from __future__ import annotations

import pytest

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.errors import BatchError
from fencepost.batch.records import BatchBuilder
from fencepost.client.fetch_core import Fetched
from fencepost.client.metadata import TopicPartition
from fencepost.client.transaction_states import batch_states

# offset, producer id (-1: none), and how a marker ends its transaction (None: a record)
LOG = [
    (0, -1, None),
    (1, 7, None),
    (2, 8, None),
    (3, 7, "abort"),
    (4, 7, None),
    (5, 8, "commit"),
    (6, 7, "commit"),
    (7, 7, None),
]


def fetched(log: list[tuple[int, int, str | None]], aborted=()) -> Fetched:
    blob = bytearray()
    for offset, producer_id, end in log:
        if end is not None:
            blob += build_end_txn_marker(
                committed=end == "commit",
                coordinator_epoch=0,
                producer_id=producer_id,
                producer_epoch=0,
                timestamp_ms=0,
                base_offset=offset,
            )
            continue
        builder = BatchBuilder()
        builder.append(None, b"v", timestamp_ms=0)
        stamps = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        blob += builder.build(
            base_offset=offset,
            transactional=producer_id >= 0,
            **(stamps if producer_id >= 0 else {}),
        )
    place = TopicPartition("t", 0)
    return Fetched(place, memoryview(bytes(blob)), 8, 0, 8, 8, 0, tuple(aborted))


def states(log, *, lists_aborted: bool, aborted=()) -> list[str]:
    found = batch_states(fetched(log, aborted), lists_aborted=lists_aborted)
    return [one.state for one in found]


def test_the_list_decides_until_the_marker():
    assert states(LOG, lists_aborted=True, aborted=[(7, 1)]) == [
        "outside", "aborted", "committed", "control",
        "committed", "control", "control", "committed",
    ]  # fmt: skip


def test_a_transaction_that_began_before_the_fetch_is_aborted_all_the_same():
    assert states(LOG[4:], lists_aborted=True, aborted=[(7, 1)])[0] == "aborted"


def test_a_listed_transaction_that_begins_later_aborts_nothing_before_it():
    assert states(LOG[:3], lists_aborted=True, aborted=[(7, 4)]) == [
        "outside", "committed", "committed",
    ]  # fmt: skip


def test_without_the_list_markers_decide():
    assert states(LOG, lists_aborted=False) == [
        "outside", "aborted", "committed", "control",
        "committed", "control", "control", "undecided",
    ]  # fmt: skip


def test_damage_is_an_error():
    raw = bytearray(fetched(LOG).records)
    raw[16] = 9
    place = TopicPartition("t", 0)
    with pytest.raises(BatchError, match="magic"):
        batch_states(Fetched(place, memoryview(raw), 8, 0, 8, 8, 0), lists_aborted=True)
