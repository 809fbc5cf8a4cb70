"""The map of keys to offsets: what it knows, and what it costs."""

from __future__ import annotations

import tracemalloc

import pytest

from fencepost.batch import backend
from fencepost.batch.header import HEADER_BYTES, read_header
from fencepost.batch.key_offsets import PLAIN_KEY_BYTES_MAX
from fencepost.batch.records import build_batch
from fencepost.log.cleaner.offset_map import ENTRY_BYTES, OffsetMap


@pytest.fixture(params=["c", "python"], autouse=True)
def kept_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either backend charges the same and knows the same."""
    if request.param == "python":
        monkeypatch.setattr(backend, "kernels", None)
    elif backend.kernels is None:
        pytest.skip("there are no kernels")


def rows(*items: tuple[int, bytes | None]):
    return [(offset, 0, 0, key, None, ()) for offset, key in items]


def test_the_last_offset_of_a_key_counts():
    offsets = OffsetMap(10_000)
    assert offsets.add(rows((1, b"a"), (2, b"b"), (3, b"a"), (4, None)), 0)
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.get(b"c")) == (3, 2, -1)
    assert len(offsets) == 2
    assert offsets.add(rows((5, b"b"), (6, b"c")), 6)
    assert (offsets.get(b"b"), offsets.get(b"c")) == (2, 6)
    offsets.latest_offset = 6
    offsets.clear()
    assert (len(offsets), offsets.used_bytes, offsets.get(b"a")) == (0, 0, -1)
    assert offsets.latest_offset == -1, "nothing of another log goes by what was known of this one"


def test_long_keys_are_told_apart_from_short_ones():
    offsets = OffsetMap(10_000)
    long = b"x" * (PLAIN_KEY_BYTES_MAX + 1)
    assert offsets.add(rows((1, long), (2, long + b"y"), (3, long[:-1])), 0)
    assert [offsets.get(key) for key in (long, long + b"y", long[:-1])] == [1, 2, 3]
    assert (
        offsets.used_bytes == 3 * ENTRY_BYTES + 2 * (PLAIN_KEY_BYTES_MAX + 1) + PLAIN_KEY_BYTES_MAX
    )


def test_a_full_map_says_so_and_still_takes_what_it_knows():
    offsets = OffsetMap(3 * (ENTRY_BYTES + 1))
    assert offsets.add(rows((1, b"a"), (2, b"b"), (3, b"c")), 0)
    assert offsets.utilization == 1
    assert offsets.add(rows((4, b"a"), (5, b"c")), 0)
    assert not offsets.add(rows((6, b"b"), (7, b"d"), (8, b"a")), 0)
    assert [offsets.get(key) for key in (b"a", b"b", b"c", b"d")] == [4, 6, 5, -1]


def test_a_batch_that_has_to_fit_fits():
    offsets = OffsetMap(1)
    assert not offsets.add(rows((1, b"a")), 0)
    assert offsets.add(rows((1, b"a" * 99), (2, b"b")), 0, is_bounded=False)
    assert offsets.utilization > 1
    assert offsets.add(rows((3, b"b")), 0)
    assert not offsets.add(rows((4, b"c")), 0)
    assert offsets.get(b"b") == 3


def test_a_payload_is_noted_and_charged_like_its_rows():
    keys = [b"a", b"b", b"x" * 40, b"a", None, b"c"]
    batch = build_batch([(key, b"v") for key in keys], timestamp_ms=1)
    header, payload = read_header(batch), memoryview(batch)[HEADER_BYTES:]
    for room, is_bounded in [(10_000, True), (2 * (ENTRY_BYTES + 1), True), (1, False)]:
        noted, added = OffsetMap(room), OffsetMap(room)
        all_noted = noted.add_payload(payload, header, 1, is_bounded=is_bounded)
        assert added.add(rows(*enumerate(keys)), 1, is_bounded=is_bounded) == all_noted
        assert (len(noted), noted.used_bytes) == (len(added), added.used_bytes)
        assert [noted.get(key or b"") for key in keys] == [added.get(key or b"") for key in keys]


def test_it_needs_no_more_memory_than_it_says():
    for count in (2_731, 10_922, 43_690):  # just behind where the table grows
        tracemalloc.start()
        offsets = OffsetMap(1 << 30)
        for at in range(count + 1):
            offsets.add(rows((1 << 40 | at, b"key-%020d" % at)), 0)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes <= offsets.used_bytes + 10_000
