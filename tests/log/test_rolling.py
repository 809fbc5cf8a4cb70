"""When a batch goes to a new segment: at each bound, and one beyond it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.log.config import LogConfig
from fencepost.log.offset_index import RELATIVE_MAX
from fencepost.log.rolling import RollRule

BYTES_MAX = 1_000
MS_MAX = 60_000
BASE_OFFSET = 7
BEGUN_MS = 1_700_000_000_000
ENTRIES_MAX = 8
"""Of the offset index; the time index has 12 bytes an entry, and room for its last one."""
TIME_ENTRIES_MAX = 4


@pytest.fixture
def rule() -> RollRule:
    config = LogConfig.from_props(
        {
            "internal.segment.bytes": BYTES_MAX,
            "segment.ms": MS_MAX,
            "segment.index.bytes": ENTRIES_MAX * 8,
            "index.interval.bytes": 100,
        }
    )
    return RollRule(config, "t", 0)


def segment(**changes: Any) -> Any:
    """One that has room for more in every respect."""
    values: dict[str, Any] = {
        "base_offset": BASE_OFFSET,
        "size_bytes": 500,
        "bytes_since_index": 0,
        "index": [],
        "time_index": [],
        "first_timestamp_ms": BEGUN_MS,
        "created_ms": BEGUN_MS,
        **changes,
    }
    return SimpleNamespace(**values)


def must_roll(rule: RollRule, into: Any, **changes: int) -> bool:
    batch = {
        "size_bytes": 100,
        "last_offset": BASE_OFFSET + 9,
        "timestamp_ms": BEGUN_MS,
        "wall_ms": BEGUN_MS,
        **changes,
    }
    return rule.must_roll(into, **batch)


def test_a_segment_is_filled_to_its_last_byte(rule: RollRule) -> None:
    assert not must_roll(rule, segment(), size_bytes=BYTES_MAX - 500)
    assert must_roll(rule, segment(), size_bytes=BYTES_MAX - 499)
    assert not must_roll(rule, segment(size_bytes=0), size_bytes=2 * BYTES_MAX), "it is empty"


def test_offsets_reach_as_far_as_an_entry_of_the_index(rule: RollRule) -> None:
    last = BASE_OFFSET + RELATIVE_MAX
    for one in (segment(), segment(size_bytes=0)):
        assert not must_roll(rule, one, last_offset=last)
        assert must_roll(rule, one, last_offset=last + 1)


def test_a_segment_spans_so_much_time_from_its_first_batch(rule: RollRule) -> None:
    assert not must_roll(rule, segment(), timestamp_ms=BEGUN_MS + MS_MAX)
    assert must_roll(rule, segment(), timestamp_ms=BEGUN_MS + MS_MAX + 1)
    assert not must_roll(rule, segment(), wall_ms=BEGUN_MS + 10 * MS_MAX), "records say the time"


def test_a_segment_without_timestamps_goes_by_the_clock(rule: RollRule) -> None:
    untimed = segment(first_timestamp_ms=-1, rolling_timestamp_ms=lambda: -1)
    later = {"timestamp_ms": -1, "wall_ms": BEGUN_MS + MS_MAX}
    assert not must_roll(rule, untimed, **later)
    later["wall_ms"] += 1
    assert must_roll(rule, untimed, **{**later, "timestamp_ms": BEGUN_MS})


def test_a_full_index_matters_to_a_batch_that_would_make_an_entry(rule: RollRule) -> None:
    for full in ({"index": [0] * ENTRIES_MAX}, {"time_index": [0] * TIME_ENTRIES_MAX}):
        assert not must_roll(rule, segment(**full, bytes_since_index=100))
        assert must_roll(rule, segment(**full, bytes_since_index=101))
    almost = {"index": [0] * (ENTRIES_MAX - 1), "time_index": [0] * (TIME_ENTRIES_MAX - 1)}
    assert not must_roll(rule, segment(**almost, bytes_since_index=101))
