"""How long coordinators have taken to load, lately."""

from __future__ import annotations

from math import isnan

from fencepost.runtime.coordinator.load_times import LOADS_MAX, WINDOW_MS, LoadTimes


def test_the_longest_and_the_average_of_the_last_minute() -> None:
    now_ms = 0
    times = LoadTimes(lambda: now_ms)
    assert all(isnan(one) for one in times.recent())
    times.note(40)
    now_ms = 10
    times.note(20)
    assert times.recent() == (40, 30)
    now_ms = WINDOW_MS
    assert times.recent() == (20, 20)
    now_ms += 10
    assert all(isnan(one) for one in times.recent())


def test_loads_are_bounded() -> None:
    times = LoadTimes(lambda: 0)
    for load_ms in range(LOADS_MAX + 1):
        times.note(load_ms)
    assert times.recent() == (LOADS_MAX, (LOADS_MAX + 1) / 2)
