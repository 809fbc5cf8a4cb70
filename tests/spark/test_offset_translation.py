"""Offsets in other topics: nothing may be missing behind them, whatever way they are found."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.client.metadata import TopicPartition
from fencepost.spark.archive import offset_map
from fencepost.spark.offset_translation import (
    Sync,
    Syncs,
    TranslationError,
    add_sync,
    by_replay,
    by_syncs,
    given_offsets,
    parse_sync,
    same_offsets,
    translated,
)

T0, T1, N0, U0 = (TopicPartition(*one) for one in (("t", 0), ("t", 1), ("n", 0), ("u", 0)))


def key_of(topic: str, partition: int) -> bytes:
    name = topic.encode()
    return struct.pack(">h", len(name)) + name + struct.pack(">i", partition)


def value_of(upstream: int, downstream: int) -> bytes:
    return struct.pack(">qq", upstream, downstream)


def test_other_topics_of_the_source_are_kept_as_they_are():
    offset = StreamOffset({T0: Position(5, 2), U0: Position(9, 1)}, {"t": "a", "u": "b"}, {T0: 3})
    found = translated(offset, same_offsets({"t": "n"}))
    assert found == StreamOffset({N0: Position(5), U0: Position(9, 1)}, {"u": "b"})
    assert translated(offset, same_offsets({"elsewhere": "n"})) is None
    with pytest.raises(TranslationError, match="u-0: the source reads it already"):
        translated(offset, same_offsets({"t": "u"}))
    given_ones = translated(offset, given_offsets(["t"], {N0: 1, TopicPartition("n", 1): 2}))
    assert given_ones is not None
    assert {one: at.offset for one, at in given_ones.positions.items()} == {
        N0: 1,
        TopicPartition("n", 1): 2,
        U0: 9,
    }


def test_by_a_replay():
    columns: dict[str, Any] = {
        "topic": ["t", "t"],
        "topic_id": ["a", "a"],
        "partition": [0, 1],
        "first_offset": [10, 0],
        "last_offset": [19, 4],
        "new_topic": ["n", "n"],
        "new_partition": [0, 1],
        "new_first_offset": [0, 3],
    }
    translation = by_replay(pa.table(columns, schema=offset_map.SCHEMA), ["a"])
    assert translation.topics == {"t"}
    assert translation.translate({T0: 13, T1: 9}) == {N0: 3, TopicPartition("n", 1): 8}


# -- MirrorMaker -----------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=20), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_a_sync_as_mirrormaker_writes_it(topic: str, partition: int, offset: int):
    found = parse_sync(key_of(topic, partition), value_of(offset, 7))
    assert found == (TopicPartition(topic, partition), Sync(offset, 7))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", value_of(1, 1)),
        (key_of("t", 0)[:-1], value_of(1, 1)),
        (key_of("t", 0) + b"x", value_of(1, 1)),
        (struct.pack(">h", -5) + b"t\0\0\0\0", value_of(1, 1)),
        (struct.pack(">h", 30000) + b"t\0\0\0\0", value_of(1, 1)),
        (key_of("t", -1), value_of(1, 1)),
        (key_of("t", 0), b"short"),
        (key_of("t", 0), value_of(1, -2)),
        (b"\0\1\xff\0\0\0\0", value_of(1, 1)),
    ],
)
def test_what_is_no_sync(key: bytes, value: bytes):
    with pytest.raises(TranslationError, match="no offset sync of MirrorMaker"):
        parse_sync(key, value)


def test_a_sync_that_goes_back_makes_those_before_invalid():
    syncs: Syncs = {}
    for upstream, downstream in ((0, 0), (10, 8), (10, 9), (20, 15), (5, 40)):
        add_sync(syncs, T0, Sync(upstream, downstream))
    assert syncs == {T0: [Sync(5, 40)]}
    with pytest.raises(TranslationError, match=r"t-0: no offset sync at or before offset 4: .* 5"):
        by_syncs(syncs, {"t": "n"}).translate({T0: 4})
    with pytest.raises(TranslationError, match=r"t-1: no offset sync .* none is known"):
        by_syncs(syncs, {"t": "n"}).translate({T1: 4})


@given(st.data())
def test_by_syncs_nothing_is_missing(data: st.DataObject):
    """A copy drops some offsets (markers); whatever syncs it wrote, the record that is next
    upstream is not before the translated offset downstream."""
    kept = data.draw(st.lists(st.booleans(), min_size=1, max_size=40), "copied")
    place: dict[int, int] = {}
    for upstream, copied in enumerate(kept):
        if copied:
            place[upstream] = len(place)
    known = sorted(data.draw(st.sets(st.sampled_from(sorted(place)))) if place else set())
    syncs: Syncs = {}
    for upstream in known:
        add_sync(syncs, T0, Sync(upstream, place[upstream]))
    committed = data.draw(st.integers(0, len(kept)), "committed")
    translation = by_syncs(syncs, {"t": "n"})
    if not known or committed < known[0]:
        with pytest.raises(TranslationError):
            translation.translate({T0: committed})
        return
    new = translation.translate({T0: committed})[N0]
    unread = [place[one] for one in place if one >= committed]
    assert all(at >= new for at in unread)
    if committed in known:
        assert new == place[committed]


def test_later_offsets_translate_to_later_ones():
    syncs: Syncs = {T0: [Sync(0, 0), Sync(7, 5), Sync(20, 11)]}
    found = [by_syncs(syncs, {"t": "n"}).translate({T0: at})[N0] for at in range(30)]
    assert all(one <= other for one, other in pairwise(found))
    assert (found[7], found[8], found[29]) == (5, 6, 12)
