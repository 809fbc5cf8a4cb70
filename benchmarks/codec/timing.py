"""Interleaved rounds: a slow moment of the machine falls on all that are compared."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.codec.contestants import Contestant
from benchmarks.codec.java import NAME, JavaClasses
from benchmarks.codec.messages import Case

TARGET_S = 0.02
"""How long one codec works per round, message and direction."""

UNDISTURBED_S = 0.003
"""The same where the least of the rounds counts: one or the other is over before others get on."""


def pin_collector(*, enabled: bool) -> str:
    """Put Python's collector into a known state; returns a line that says which."""
    gc.collect()
    gc.freeze()
    if enabled:
        gc.enable()
        gc.set_threshold(700, 10, 10)
        return "collector on, thresholds 700, 10, 10"
    gc.disable()
    return "collector off"


def seconds_per_call(
    function: Callable[[Any], Any], argument: Any, target_s: float = TARGET_S
) -> float:
    """One round: as many calls as fit into the target, timed together."""
    start = time.perf_counter()
    function(argument)
    once = time.perf_counter() - start
    count = max(1, int(target_s / max(once, 1e-7)))
    start = time.perf_counter()
    for _ in range(count):
        function(argument)
    return (time.perf_counter() - start) / count


def measure(
    case: Case,
    data: bytes,
    field: list[Contestant],
    rounds: int,
    java: JavaClasses | None = None,
    *,
    least: bool = False,
) -> Any:
    """Seconds of (decode, encode) by contestant, medians of the rounds or the `least` of them.

    SystemExit when one writes other bytes.
    """
    target_s, taken_of = (UNDISTURBED_S, min) if least else (TARGET_S, statistics.median)
    objects = {}
    for one in field:
        one.prepare()
        objects[one.name] = one.decode(data)
        if bytes(one.encode(objects[one.name])) != data:
            raise SystemExit(f"{one.name} writes {case.title} differently")
    times: dict[str, list[tuple[float, float]]] = {one.name: [] for one in field}
    for _ in range(rounds):
        if java is not None:
            taken = java.seconds(type(case.message), case.version, data, target_s)
            times.setdefault(NAME, []).append(taken)
        for one in field:
            one.prepare()
            decode = seconds_per_call(one.decode, data, target_s)
            encode = seconds_per_call(one.encode, objects[one.name], target_s)
            times[one.name].append((decode, encode))
    return {
        name: tuple(taken_of(column) for column in zip(*taken)) for name, taken in times.items()
    }
