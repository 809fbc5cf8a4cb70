"""Aborted transactions are looked for in as many segments as have them, and no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.log.aborted import find_aborted, has_aborted
from fencepost.log.txn_index import TxnIndex
from fencepost.wire.records.txn_index import AbortedTxn


class Untouched:
    """A segment whose index must not be read."""

    @property
    def txn_index(self) -> TxnIndex:
        raise AssertionError("it was read")


def aborted(first: int, marker: int, stable: int) -> AbortedTxn:
    return AbortedTxn(
        producer_id=first, first_offset=first, last_offset=marker, last_stable_offset=stable
    )


def row(*segments: Any) -> Any:
    return SimpleNamespace(from_offset=lambda offset: iter(segments))


def segment(*entries: AbortedTxn) -> Any:
    return SimpleNamespace(txn_index=TxnIndex(entries))


def test_the_search_ends_where_everything_below_the_bound_was_decided() -> None:
    early, late = aborted(3, 5, 6), aborted(8, 30, 31)
    disk: Any = None
    assert find_aborted(disk, row(segment(early), segment(late), Untouched()), 4, 20) == [
        early,
        late,
    ]
    assert find_aborted(disk, row(segment(early), Untouched()), 4, 6) == [early]
    with pytest.raises(AssertionError, match="it was read"):
        find_aborted(disk, row(segment(early), Untouched()), 4, 7)


def test_a_transaction_that_begins_at_the_bound_is_not_below_it() -> None:
    found = aborted(8, 30, 31)
    disk: Any = None
    assert find_aborted(disk, row(segment(found)), 4, 8) == []
    assert find_aborted(disk, row(segment(found)), 4, 9) == [found]
    assert find_aborted(disk, row(segment(found)), 30, 31) == [found]
    assert find_aborted(disk, row(segment(found)), 31, 40) == []


def test_whether_there_are_any_is_known_with_the_first() -> None:
    disk: Any = None
    assert has_aborted(disk, row(segment(), segment(aborted(3, 5, 6)), Untouched()), 0)
    assert not has_aborted(disk, row(segment(), segment()), 0)
