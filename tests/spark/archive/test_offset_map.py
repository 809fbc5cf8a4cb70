"""Runs of records that are neighbours before and after a replay, and what groups go on with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fencepost.client.metadata import TopicPartition
from fencepost.spark.archive.offset_map import SCHEMA, each_offset, runs_of, translate


def runs(*moved: tuple[int, int, int]) -> list[tuple[int, ...]]:
    """Of records by old offset, new partition, new offset."""
    found = runs_of(*(np.array(column, np.int64) for column in zip(*moved, strict=True)))
    return list(zip(*(column.tolist() for column in found.values()), strict=True))


def table(*rows: tuple[int, int, int, int]) -> pa.Table:
    """Runs of partition 0 of t: first and last offset, new partition, new first offset."""
    made = [("t", "id", 0, first, last, "u", part, new) for first, last, part, new in rows]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in made], SCHEMA)


def test_a_run_ends_where_either_side_has_a_gap():
    assert runs((0, 0, 5), (1, 0, 6), (2, 0, 7)) == [(0, 2, 0, 5)]
    old_gap = [(0, 1, 0, 5), (3, 3, 0, 7)]
    assert runs((0, 0, 5), (1, 0, 6), (3, 0, 7)) == old_gap
    new_gap = [(0, 1, 0, 5), (2, 2, 0, 8)]  # the marker of a transaction lies between
    assert runs((0, 0, 5), (1, 0, 6), (2, 0, 8)) == new_gap
    assert runs((0, 1, 5), (1, 0, 6), (2, 1, 6)) == [(1, 1, 0, 6), (0, 0, 1, 5), (2, 2, 1, 6)]
    assert all(len(column) == 0 for column in runs_of(*[np.empty(0, np.int64)] * 3).values())


def test_each_offset_is_moved_along_with_its_run():
    moved = [(row[3], row[6]) for row in each_offset(table((0, 1, 0, 5), (3, 3, 0, 8)))]
    assert moved == [(0, 5), (1, 6), (3, 8)]


def test_a_group_goes_on_at_the_first_record_it_has_not_read():
    replayed = table((0, 1, 0, 5), (3, 5, 0, 8), (6, 6, 1, 0))
    new = [TopicPartition("u", 0), TopicPartition("u", 1)]
    for position, expected in ((0, 5), (1, 6), (2, 8), (3, 8), (5, 10), (6, 11), (9, 11)):
        found = translate(replayed, {TopicPartition("t", 0): position})
        assert found == {new[0]: expected, new[1]: 1 if position == 9 else 0}
    assert translate(replayed, {}) == {new[0]: 11, new[1]: 1}
    of_another = translate(replayed, {TopicPartition("t", 0): 0}, ["other"])
    assert of_another == {new[0]: 11, new[1]: 1}
