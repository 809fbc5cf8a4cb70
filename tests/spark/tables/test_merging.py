"""Events into latest values: rules one by one, then drawn histories against a plain model."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from fencepost.spark.tables.errors import UnorderedError
from fencepost.spark.tables.merging import Rules, events_schema, merge

from .worlds import (
    COLUMNS,
    MergedTable,
    Record,
    decoding_of,
    envelope,
    key_of,
    row_of,
)


def debezium() -> MergedTable:
    return MergedTable(decoding_of("debezium"), "source")


def raw(order: str = "topic") -> MergedTable:
    return MergedTable(
        decoding_of("bytes", pa.schema([("key", pa.binary()), ("value", pa.binary())])), order
    )


def values(table: MergedTable) -> dict[bytes, bytes]:
    return {row["key"]: row["value"] for row in table.rows()}


# -- rules -----------------------------------------------------------------------------------------


def test_the_last_offset_of_a_key_wins_and_a_null_deletes():
    table = raw()
    table.take([Record(0, 0, b"a", b"1"), Record(0, 1, b"b", b"1"), Record(0, 2, b"a", b"2")])
    assert values(table) == {b"a": b"2", b"b": b"1"}
    table.take([Record(0, 3, b"a", None), Record(0, 4, b"c", b"")])
    assert values(table) == {b"b": b"1", b"c": b""}
    assert [(row["key"], row["value"]) for row in table.rows(deleted=True)] == [(b"a", None)]


def test_a_deletion_is_kept_so_that_an_earlier_event_changes_nothing():
    table = raw("timestamp")
    table.take([Record(0, 0, b"a", None, 20)])
    (merged,) = table.take([Record(1, 0, b"a", b"late", 10)])
    assert not merged.changed
    assert merged.counts["late"] == 1
    assert values(table) == {}
    table.take([Record(1, 1, b"a", b"new", 30)])
    assert values(table) == {b"a": b"new"}


def test_late_is_what_the_table_knew_better_and_overtaken_what_the_batch_did():
    table = raw("timestamp")
    table.take([Record(1, 0, b"a", b"1", 100), Record(1, 1, b"b", b"1", 50)])
    found = table.take(
        [
            Record(0, 0, b"a", b"later", 200),
            Record(1, 2, b"a", b"between the two", 150),
            Record(2, 0, b"a", b"before both", 10),
            Record(2, 1, b"b", b"late alone", 10),
            Record(2, 2, b"c", b"new", 10),
            Record(3, 0, b"c", b"new and overtaken", 5),
            Record(4, 0, b"c", None, 4),
            Record(4, 0, b"c", None, 4),
        ]
    )
    counts = sum((Counter(one.counts) for one in found), Counter())
    assert counts == {"upserts": 2, "late": 2, "overtaken": 4}
    assert values(table) == {b"a": b"later", b"b": b"1", b"c": b"new"}


def test_events_before_a_truncation_of_their_batch_are_overtaken_and_later_ones_late():
    table = debezium()
    created = Record(1, 0, key_of(1), envelope("c", 3, after=row_of(1, "a", "A")))
    table.take([created, Record(0, 0, None, envelope("t", 5))])
    assert (table.counts["late"], table.counts["overtaken"]) == (0, 1)
    table.take([created])
    assert (table.counts["late"], table.counts["overtaken"]) == (1, 1)


def test_what_cannot_be_ordered_before_the_batch_is_overtaken_and_no_error():
    """Both events of the batch tell their place in the database, the row of the table does not."""
    table = debezium()
    table.take([Record(0, 5, key_of(1), envelope("c", after=row_of(1, "a", "A")))])
    table.take(
        [
            Record(0, 6, key_of(1), envelope("u", 9, after=row_of(1, "c", "A"))),
            Record(1, 0, key_of(1), envelope("u", 8, after=row_of(1, "b", "A"))),
        ]
    )
    assert table.names() == {1: ("c", "A")}
    assert (table.counts["late"], table.counts["overtaken"]) == (0, 1)


def test_a_repeated_batch_changes_nothing():
    table = debezium()
    records = [
        Record(0, 0, key_of(1), envelope("c", 5, after=row_of(1, "a", "B"))),
        Record(0, 1, key_of(1), envelope("u", 6, after=row_of(1, "b"))),
        Record(0, 2, key_of(2), envelope("c", 7, after=row_of(2, "c", "C"))),
        Record(0, 3, key_of(2), envelope("d", 8, before=row_of(2, "c", "C"))),
        Record(0, 4, key_of(2), None),
    ]
    table.take(records)
    before = table.buckets.copy()
    assert not any(merged.changed for merged in table.take(records))
    assert table.buckets == before
    moved = [Record(0, one.offset + 5, one.key, one.value) for one in records]
    assert not any(merged.changed for merged in table.take(moved))
    assert table.names() == {1: ("b", "B")}


def test_a_key_in_two_partitions_has_no_order_by_offsets():
    table = raw()
    table.take([Record(0, 9, b"a", b"1")])
    with pytest.raises(
        UnorderedError, match=r"offset 3 of partition 1 and offset 9 of partition 0"
    ):
        table.take([Record(1, 3, b"a", b"2")])
    with pytest.raises(UnorderedError):
        raw().take([Record(0, 9, b"a", b"1"), Record(1, 3, b"a", b"2")])


def test_a_key_in_two_partitions_is_ordered_by_the_source():
    table = debezium()
    table.take([Record(0, 9, key_of(1), envelope("c", 5, after=row_of(1, "a", "A")))])
    table.take([Record(1, 0, key_of(1), envelope("u", 6, after=row_of(1, "b", "A")))])
    table.take([Record(0, 10, key_of(1), envelope("c", 5, after=row_of(1, "a", "A")))])
    assert table.names() == {1: ("b", "A")}


def test_events_of_a_new_generation_are_later():
    table = raw()
    table.take([Record(0, 9, b"a", b"old"), Record(0, 8, b"b", b"old")])
    table.take([Record(1, 0, b"a", b"new")], generation=1)
    assert values(table) == {b"a": b"new", b"b": b"old"}


def test_of_positions_of_two_logs_the_topic_decides():
    table = debezium()
    table.take([Record(0, 0, key_of(1), envelope("c", 900, after=row_of(1, "a", "A")))])
    other = {"connector": "postgresql", "name": "restored", "lsn": 5}
    table.take([Record(0, 1, key_of(1), envelope("u", after=row_of(1, "b", "A"), source=other))])
    assert table.names() == {1: ("b", "A")}


def test_without_a_position_the_topic_decides():
    table = debezium()
    table.take([Record(0, 3, key_of(1), envelope("c", after=row_of(1, "a", "A")))])
    table.take([Record(0, 2, key_of(1), envelope("c", after=row_of(1, "b", "A")))])
    assert table.names() == {1: ("a", "A")}
    assert table.counts["late"] == 1


def test_an_unavailable_value_is_the_older_one():
    table = debezium()
    table.take(
        [
            Record(0, 0, key_of(1), envelope("c", 1, after=row_of(1, "a", "first"))),
            Record(0, 1, key_of(1), envelope("u", 2, after=row_of(1, "b"))),
            Record(0, 2, key_of(1), envelope("u", 3, after=row_of(1, "c"))),
        ]
    )
    assert table.names() == {1: ("c", "first")}
    table.take([Record(0, 3, key_of(1), envelope("u", 4, after=row_of(1, "d")))])
    assert table.names() == {1: ("d", "first")}
    # An earlier event has no say, though its value is there.
    table.take(
        [
            Record(0, 4, key_of(1), envelope("u", 2, after=row_of(1, "x", "stale"))),
            Record(0, 5, key_of(1), envelope("u", 6, after=row_of(1, "e"))),
        ]
    )
    assert table.names() == {1: ("e", "first")}
    assert table.counts["unavailable"] == 0


def test_an_unavailable_value_that_nothing_has_is_null_and_counted():
    table = debezium()
    table.take([Record(0, 0, key_of(1), envelope("u", 1, after=row_of(1, "a")))])
    assert table.names() == {1: ("a", None)}
    table.take([Record(0, 1, key_of(1), envelope("d", 2)), Record(0, 2, key_of(1), None)])
    table.take([Record(0, 3, key_of(1), envelope("u", 3, after=row_of(1, "b")))])
    assert table.names() == {1: ("b", None)}
    assert table.counts["unavailable"] == 2


def test_a_bare_tombstone_deletes_as_far_as_the_topic_knows():
    """Of a compacted topic the `d` may be gone."""
    table = debezium()
    table.take([Record(0, 10, key_of(1), envelope("c", 5, after=row_of(1, "a", "A")))])
    table.take([Record(0, 9, key_of(1), None)])
    assert table.names() == {1: ("a", "A")}
    table.take([Record(0, 30, key_of(1), None)])
    assert table.names() == {}
    table.take([Record(0, 31, key_of(1), envelope("u", 4, after=row_of(1, "late", "A")))])
    assert table.names() == {}


@pytest.mark.parametrize("cuts", [[], [2], [3], [4], [3, 4], [1, 2, 3, 4, 5]])
def test_a_tombstone_behind_a_late_delete_changes_nothing(cuts: list[int]):
    """Within a batch, and where a batch ends between the two."""
    created = envelope("c", 3, after=row_of(1, "again", "A"))
    records = [
        Record(0, 0, key_of(1), envelope("d", 2)),
        Record(0, 1, key_of(1), None),
        Record(0, 2, key_of(1), created),
        Record(0, 3, key_of(1), envelope("d", 2)),
        Record(0, 4, key_of(1), None),
        Record(0, 5, key_of(2), envelope("d", 1)),
        Record(0, 6, key_of(1), envelope("u", 4, after=row_of(1, "more"))),
    ]
    table = debezium()
    for begin, end in itertools.pairwise([0, *cuts, len(records)]):
        table.take(records[begin:end])
        if 3 <= end < len(records):
            assert table.names() == {1: ("again", "A")}
    assert table.names() == {1: ("more", "A")}


def test_only_the_last_delete_of_a_partition_waits_for_its_tombstone():
    """A tombstone whose delete was not the last event before it says something."""
    table = debezium()
    table.take([Record(0, 0, key_of(1), envelope("d", 1)), Record(1, 0, key_of(2), None)])
    assert table.rules.deleted_last == {0: b"[1]"}
    table.take([Record(0, 2, key_of(3), envelope("c", 2, after=row_of(3, "c", "C")))])
    assert table.rules.deleted_last == {}
    table.take([Record(0, 3, key_of(1), envelope("c", 3, after=row_of(1, "a", "A")))])
    table.take([Record(0, 4, key_of(1), None)])
    assert table.names() == {3: ("c", "C")}


def test_a_row_comes_back_that_a_bare_tombstone_deleted():
    """A `d`, its tombstone and what followed were repeated, and compaction took the `d`."""
    table = debezium()
    created = envelope("c", 3, after=row_of(1, "again", "A"))
    table.take([Record(0, 2, key_of(1), created)])
    table.take([Record(0, 4, key_of(1), None)])
    assert table.names() == {}
    table.take([Record(0, 3, key_of(1), created)])
    assert table.names() == {}
    table.take([Record(0, 5, key_of(1), created)])
    assert table.names() == {1: ("again", "A")}


def test_truncation_deletes_what_was_there_and_makes_earlier_events_late():
    table = debezium()
    table.take(
        [
            Record(0, 0, key_of(1), envelope("c", 1, after=row_of(1, "a", "A"))),
            Record(1, 0, key_of(2), envelope("c", 9, after=row_of(2, "b", "B"))),
            Record(0, 1, key_of(3), envelope("c", 2, after=row_of(3, "c", "C"))),
        ]
    )
    table.take([Record(0, 2, None, envelope("t", 5))])
    assert table.names() == {2: ("b", "B")}
    assert table.counts["truncated"] == 2
    table.take(
        [
            Record(1, 1, key_of(4), envelope("c", 4, after=row_of(4, "d", "D"))),
            Record(1, 2, key_of(1), envelope("u", 6, after=row_of(1, "e", "E"))),
        ]
    )
    assert table.names() == {1: ("e", "E"), 2: ("b", "B")}


def test_truncation_in_a_topic_of_several_partitions_needs_positions():
    table = debezium()
    table.take([Record(1, 0, key_of(1), envelope("c", after=row_of(1, "a", "A")))])
    with pytest.raises(UnorderedError):
        table.take([Record(0, 1, None, envelope("t"))])


def test_old_deletions_are_purged_when_the_bucket_changes_or_is_cleaned():
    table = debezium()
    table.take([Record(0, 0, key_of(1), envelope("d", 1), 100)])
    (bucket,) = [one for one in table.buckets.values() if one.num_rows]
    schema = events_schema(COLUMNS)
    rules = Rules(COLUMNS, "source", purge_before_ms=100)
    assert merge(bucket, schema.empty_table(), rules).rows.num_rows == 1
    rules = Rules(COLUMNS, "source", purge_before_ms=101)
    cleaned = merge(bucket, schema.empty_table(), rules)
    assert cleaned.changed
    assert cleaned.counts["purged"] == 1
    assert cleaned.rows.num_rows == 0


def test_a_table_takes_new_columns_in():
    table = debezium()
    table.take([Record(0, 0, key_of(1), envelope("c", 1, after=row_of(1, "a", "A")))])
    wider = pa.schema([*COLUMNS, pa.field("more", pa.int32())])
    table.decoding = decoding_of("debezium", wider)
    table.rules = Rules(wider, "source")
    row = {**row_of(1, "b"), "more": 7}
    table.take([Record(0, 1, key_of(1), envelope("u", 2, after=row))])
    assert [(row["big"], row["more"]) for row in table.rows()] == [("A", 7)]


# -- drawn histories -------------------------------------------------------------------------------


class Change(NamedTuple):
    """What a database did at one position: `key` None is a truncation, `row` None a deletion."""

    position: int
    key: int | None
    row: tuple[str, str] | None
    is_big_changed: bool


@st.composite
def databases(draw: Any) -> list[Change]:
    """Changes of a table in a database, in the order of its log."""
    rows: dict[int, tuple[str, str]] = {}
    changes = []
    for number in range(draw(st.integers(1, 25))):
        key = draw(st.integers(0, 4))
        what = draw(st.sampled_from(["put", "put", "put", "delete", "delete", "truncate"]))
        if what == "truncate" and draw(st.booleans()):
            rows.clear()
            changes.append(Change(number + 1, None, None, False))
        elif what == "delete" and key in rows:
            del rows[key]
            changes.append(Change(number + 1, key, None, False))
        else:
            big_changed = key not in rows or draw(st.booleans())
            big = f"B{number}" if big_changed else rows[key][1]
            rows[key] = (f"n{number}", big)
            changes.append(Change(number + 1, key, rows[key], big_changed))
    return changes


def state_at(changes: list[Change], position: int, key: int) -> tuple[str, str] | None:
    """The model: a key's row in the database at a position of its log."""
    found = None
    for change in changes:
        if change.position <= position and change.key in (key, None):
            found = change.row
    return found


@st.composite
def topics(draw: Any) -> tuple[list[Change], list[list[tuple[Record, Change]]]]:
    """A database, and the partitions of its topic: the connector restarts and repeats changes."""
    changes = draw(databases())
    sent: list[Change] = []
    at = 0
    while at < len(changes):
        end = draw(st.integers(at + 1, len(changes)))
        sent += changes[at:end]
        at = max(0, end - draw(st.integers(0, 4))) if end < len(changes) else end
        if len(sent) > 200:
            sent += changes[at:]
            break
    partitions: list[list[tuple[Record, Change]]] = [[], []]
    for change in sent:
        number = (change.key or 0) % 2
        for key, value in written(change):
            place = partitions[number]
            place.append((Record(number, len(place), key, value), change))
    return changes, partitions


def written(change: Change) -> list[tuple[bytes | None, bytes | None]]:
    """The records of a change."""
    if change.key is None:
        return [(None, envelope("t", change.position))]
    key = key_of(change.key)
    if change.row is None:
        before = row_of(change.key, None)
        return [(key, envelope("d", change.position, before=before)), (key, None)]
    name, big = change.row
    after = row_of(change.key, name, big) if change.is_big_changed else row_of(change.key, name)
    return [(key, envelope("u", change.position, after=after))]


@settings(max_examples=60, deadline=None)
@given(topics(), st.lists(st.tuples(st.integers(0, 1), st.integers(1, 8)), max_size=12))
def test_every_key_is_as_the_database_had_it_at_the_latest_position_seen(
    topic: Any, steps: list[tuple[int, int]]
):
    """However the partitions are cut into batches, and whatever is repeated."""
    changes, partitions = topic
    table = debezium()
    ends = [0, 0]
    seen: dict[int | None, int] = {}
    for number, size in [*steps, (0, 1000), (1, 1000)]:
        batch = partitions[number][ends[number] : ends[number] + size]
        ends[number] += len(batch)
        if not batch:
            continue
        table.take([record for record, _ in batch])
        for _, change in batch:
            seen[change.key] = max(change.position, seen.get(change.key, 0))
        expected = {}
        for key in {*seen} - {None}:
            row = state_at(changes, max(seen[key], seen.get(None, 0)), key)
            if row is not None:
                expected[key] = row
        assert table.names() == expected
    whole = {key: state_at(changes, len(changes), key) for key in range(5)}
    assert table.names() == {key: row for key, row in whole.items() if row is not None}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans(), st.integers(0, 5)),
        min_size=1,
        max_size=30,
    ),
    st.randoms(use_true_random=False),
    st.integers(1, 5),
)
def test_by_timestamps_no_order_of_arrival_matters(events: Any, random: Any, size: int):
    records = [
        Record(partition, offset, b"k%d" % key, None if gone else b"v%d" % offset, at)
        for offset, (partition, key, gone, at) in enumerate(events)
    ]
    latest = {}
    for one in sorted(records, key=lambda one: (one.timestamp_ms, one.partition, one.offset)):
        latest[one.key] = one.value
    again = [*records, *random.sample(records, len(records) // 2)]
    random.shuffle(again)
    table = raw("timestamp")
    for at in range(0, len(again), size):
        table.take(again[at : at + size])
    assert values(table) == {key: value for key, value in latest.items() if value is not None}


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30),
    st.integers(1, 5),
)
def test_plain_json_is_the_last_value_of_each_key(events: Any, size: int):
    table = MergedTable(decoding_of("json"), "topic")
    latest: dict[int, tuple[str, str] | None] = {}
    records = []
    for offset, (key, gone) in enumerate(events):
        latest[key] = None if gone else (f"n{offset}", "b")
        value = None if gone else json.dumps(row_of(key, f"n{offset}", "b")).encode()
        records.append(Record(key % 3, offset, key_of(key), value))
    for at in range(0, len(records), size):
        table.take(records[at : at + size])
    assert table.names() == {key: row for key, row in latest.items() if row is not None}
