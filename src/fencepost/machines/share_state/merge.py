"""How batches that are written are merged with those that are stored (KIP-932, KAFKA-20691).

At each offset the batch with the higher delivery count wins, and of equal counts the one with the
higher delivery state: a state with a higher number is later in a record's life. Offsets below the
start offset are dropped. Neighbours of equal state and count become one batch.

The result is what Kafka's `PersisterStateBatchCombiner` gives, in O(n log n): the batches' ends are
passed over in the order of their offsets, and a heap has the batches that cover the present one.

What is stored is merged already, and a write is of a few batches: `merge_into` finds the stored
ones that these touch, and leaves the others as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise

from fencepost.machines.share.state_batch import NO_START_OFFSET, StateBatch


def merge_batches(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """The batches as ones that do not overlap, in the order of their offsets.

    Each has `first_offset` <= `last_offset`. A `start_offset` of -1 drops nothing.
    """
    kept = sorted(_cut(batches, start_offset))
    if is_merged(kept):  # as what leaders write is, as a rule; a write may be of thousands
        return tuple(kept)
    edges = sorted({edge for one in kept for edge in (one.first_offset, one.last_offset + 1)})
    merged: list[StateBatch] = []
    covering: list[tuple[int, int, int]] = []  # (-delivery count, -delivery state, last offset)
    position = 0
    for edge, following in pairwise(edges):
        while position < len(kept) and kept[position].first_offset == edge:
            one = kept[position]
            heappush(covering, (-one.delivery_count, -one.delivery_state, one.last_offset))
            position += 1
        while covering and covering[0][2] < edge:
            heappop(covering)
        if covering:
            count, state, _ = covering[0]
            _append(merged, StateBatch(edge, following - 1, -state, -count))
    return tuple(merged)


def merge_into(
    stored: tuple[StateBatch, ...], written: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """What `merge_batches` makes of all of them, where `stored` is what it made before.

    The batches that were written are merged with the stored ones that they touch; of the others
    there is a copy.
    """
    fresh = merge_batches(written, start_offset)
    rest = 0 if start_offset == NO_START_OFFSET else bisect_left(stored, start_offset, key=_last)
    merged: list[StateBatch] = []
    if rest < len(stored) and stored[rest].first_offset < start_offset:
        stored = (
            *stored[:rest],
            stored[rest]._replace(first_offset=start_offset),
            *stored[rest + 1 :],
        )
    place = 0
    while place < len(fresh):
        begin = bisect_left(stored, fresh[place].first_offset - 1, rest, key=_last)
        end, together = begin, place
        while place < len(fresh) and (
            place == together
            or (end > begin and fresh[place].first_offset <= _last(stored[end - 1]) + 1)
        ):
            end = bisect_left(stored, fresh[place].last_offset + 2, end, key=_first)
            place += 1
        merged += stored[rest:begin]
        if begin == end:
            merged.append(fresh[together])
        else:
            merged += merge_batches((*stored[begin:end], *fresh[together:place]), start_offset)
        rest = end
    merged += stored[rest:]
    return tuple(merged)


def is_merged(batches: Sequence[StateBatch]) -> bool:
    """Whether the batches are as `merge_batches` leaves them."""
    return all(
        one.last_offset + 1 < after.first_offset
        or (one.last_offset + 1 == after.first_offset and one[2:] != after[2:])
        for one, after in pairwise(batches)
    )


def _first(batch: StateBatch) -> int:
    return batch.first_offset


def _last(batch: StateBatch) -> int:
    return batch.last_offset


def _cut(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """What of the batches is not below the start offset."""
    if start_offset == NO_START_OFFSET:
        return list(batches)
    return [
        one if one.first_offset >= start_offset else one._replace(first_offset=start_offset)
        for one in batches
        if one.last_offset >= start_offset
    ]


def _append(merged: list[StateBatch], batch: StateBatch) -> None:
    """Add a batch, or lengthen the one before it if that is of the same state and count."""
    if merged:
        last = merged[-1]
        if last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
            merged[-1] = last._replace(last_offset=batch.last_offset)
            return
    merged.append(batch)
