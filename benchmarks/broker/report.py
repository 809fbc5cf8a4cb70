"""The table and the picture of a run."""

from __future__ import annotations

import statistics
from typing import Final

from tools.performance_picture import Cost, draw

from benchmarks import peers
from benchmarks.broker.pipes import Figures

LOAD_MAX: Final = 3.0
HEADINGS: Final = (
    *("load", "broker", "CPU us", "of Kafka's", "cores", "generator's", "requests/s"),
    *("p50 ms", "p99 ms", "p99.9 ms"),
)
Rounds = dict[str, dict[str, list[Figures]]]
"""By load and by broker."""


def median(rounds: list[Figures], field: str) -> float:
    """Of one figure."""
    return statistics.median(getattr(one, field) for one in rounds)


def table(found: Rounds, reference: str | None) -> str:
    """All rows; ratios of CPU are to the broker called `reference`."""
    rows = []
    for load, by_broker in found.items():
        for broker, rounds in by_broker.items():
            of_reference = "-"
            if reference in by_broker and rounds and by_broker[reference]:
                cost = median(rounds, "cpu_us") / median(by_broker[reference], "cpu_us")
                of_reference = f"{cost:.2f}"
            rows.append([load, broker, *_cells(rounds, of_reference)])
    return peers.table(list(HEADINGS), rows)


def _cells(rounds: list[Figures], of_reference: str) -> list[str]:
    if not rounds:
        return ["-"] * (len(HEADINGS) - 2)

    def shown(field: str, digits: int) -> str:
        value = median(rounds, field)
        return "-" if value != value else f"{value:,.{digits}f}"

    cpu_us = median(rounds, "cpu_us")
    return [
        shown("cpu_us", 2 if cpu_us < 10 else 0),
        of_reference,
        shown("cores", 3),
        shown("generator_cores", 2),
        shown("requests_per_s", 0),
        *(shown(field, 2) for field in ("p50_ms", "p99_ms", "p999_ms")),
    ]


def picture(found: Rounds, ours: str, reference: str) -> str:
    """How many times less CPU each load costs with ours, as SVG."""
    costs = [
        Cost(
            f"{load}, us of CPU",
            (round(median(by_broker[ours], "cpu_us"), 2),),
            (round(median(by_broker[reference], "cpu_us"), 2),),
            reference,
        )
        for load, by_broker in found.items()
        if by_broker.get(ours) and by_broker.get(reference)
    ]
    return draw(costs)


def machine(found: Rounds) -> str:
    """What else the machine did, as far as its load tells."""
    loads = [
        one.load for by_broker in found.values() for all_ in by_broker.values() for one in all_
    ]
    if not loads:
        return "nothing was measured"
    said = f"load of the machine: {min(loads):.1f} to {max(loads):.1f}"
    busy = sum(load > LOAD_MAX for load in loads)
    if busy:
        said += f"; above {LOAD_MAX:.0f} in {busy} of {len(loads)} windows: not a quiet machine"
    return said
