"""The rate of throttled replication, and whose it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.machines.fetch import UNLIMITED, ByteRate, is_throttled


def test_a_rate_is_exceeded_until_it_was_waited_off() -> None:
    rate = ByteRate(1_000)
    assert not rate.is_exceeded(0)
    rate.record(1_000, 0)
    assert not rate.is_exceeded(0), "as much as is allowed"
    rate.record(2_001, 0)
    assert rate.is_exceeded(0)
    assert rate.is_exceeded(3_000)
    assert not rate.is_exceeded(3_001)


def test_what_is_older_than_the_windows_does_not_count() -> None:
    rate = ByteRate(100, windows=3, window_ms=1_000)
    rate.record(1 << 30, 0)
    assert rate.is_exceeded(2_999)
    assert not rate.is_exceeded(3_000)


def test_one_burst_is_not_spread_over_time_that_has_not_passed() -> None:
    rate = ByteRate(100)
    rate.record(101, 5_000)
    assert rate.is_exceeded(5_001), "a window is the shortest time there is"


def test_nobody_is_held_back_without_a_limit() -> None:
    rate = ByteRate()
    rate.record(1 << 62, 0)
    assert not rate.is_limited
    assert not rate.is_exceeded(0)
    rate.limit = UNLIMITED - 1
    assert rate.is_limited


def test_a_limit_of_zero_holds_back_whoever_comes_second() -> None:
    rate = ByteRate(0)
    assert not rate.is_exceeded(0)
    rate.record(1, 0)
    assert rate.is_exceeded(10_999)
    assert not rate.is_exceeded(11_000)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 10_000)), max_size=50))
def test_few_samples_are_kept_and_never_too_much_is_let_through(
    steps: list[tuple[int, int]],
) -> None:
    rate, now_ms, sent = ByteRate(1_000), 0, 0
    biggest = 0
    for pause_ms, size in steps:
        now_ms += pause_ms
        if not rate.is_exceeded(now_ms):
            rate.record(size, now_ms)
            sent += size
            biggest = max(biggest, size)
        assert len(rate._samples) <= 12
    # What is recorded within a window counts from its beginning, so two windows may pass as one.
    assert sent <= 1_000 * (now_ms / 1_000 + 2) * 2 + biggest


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [
        ((), []),
        (("*",), [0, 1, 2]),
        (("0:1", "1:2", "2:1"), [0, 2]),
        (("none",), []),
        (("0:11",), []),
    ],
)
def test_whose_bytes_count(replicas: tuple[str, ...], throttled: list[int]) -> None:
    assert [index for index in range(3) if is_throttled(replicas, index, 1)] == throttled
