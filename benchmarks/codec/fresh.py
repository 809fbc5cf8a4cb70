"""Decoding messages that differ: a benchmark that reads the same bytes over and over flatters.

The C backend keeps the latest numbers it made. Epochs and offsets of real traffic move on from
message to message but repeat inside of one; here none ever comes back within thousands of numbers.
"""

from __future__ import annotations

import statistics
import time

from benchmarks.codec.contestants import NAMES, contestants
from benchmarks.codec.messages import Case, epochs_response
from benchmarks.peers import table

MESSAGES = 200
VERSION = 4


def fresh_table(rounds: int, *, least: bool) -> str:
    """Microseconds per message, the same one again and again or another each time."""
    taken_of = min if least else statistics.median
    case = Case(epochs_response(0), VERSION, ", 200 partitions")
    different = [epochs_response(1000 * n).encode(VERSION) for n in range(1, MESSAGES + 1)]
    inputs = {"the same bytes": [different[0]] * MESSAGES, "other numbers each time": different}
    field = contestants(case)
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for title, messages in inputs.items():
            for one in field:
                one.prepare()
                start = time.perf_counter()
                for data in messages:
                    one.decode(data)
                taken = (time.perf_counter() - start) / MESSAGES
                times.setdefault((title, one.name), []).append(taken)
    names = [name for name in NAMES if any(name == one.name for one in field)]
    rows = [
        [f"{case.title}, {title}"]
        + [f"{taken_of(times[title, name]) * 1e6:.2f} us" for name in names]
        for title in inputs
    ]
    return table(["decode", *names], rows)
