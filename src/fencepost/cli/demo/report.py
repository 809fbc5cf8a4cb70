"""The demo's tables on the terminal and its chart on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_CARRIERS = {
    "9E": "Endeavor", "AA": "American", "AS": "Alaska", "B6": "JetBlue", "DL": "Delta",
    "EV": "ExpressJet", "F9": "Frontier", "FL": "AirTran", "HA": "Hawaiian", "MQ": "Envoy",
    "OO": "SkyWest", "UA": "United", "US": "US Airways", "VX": "Virgin", "WN": "Southwest",
    "YV": "Mesa",
}  # fmt: skip
_BAR, _LINE, _INK = "#2a6f97", "#c8553d", "#333333"


def delay_lines(delays: pa.Table) -> list[str]:
    """The delays by carrier as lines of a table, most delayed first."""
    rows = sorted(delays.to_pylist(), key=lambda row: -(row["mean_delay_min"] or 0))
    heads = f"{'carrier':<16}{'flights':>9}{'cancelled':>11}"
    lines = [f"{heads}{'mean min':>10}{'p90':>6}{'late %':>8}"]
    lines += [
        f"{row['carrier']} {_CARRIERS.get(row['carrier'], ''):<13}{row['flights']:>9,}"
        f"{row['cancelled']:>11,}{row['mean_delay_min']:>10}{row['p90_delay_min']:>6}"
        f"{row['late_pct']:>8}"
        for row in rows
    ]
    return lines


def draw_chart(by_carrier: pa.Table, by_hour: pa.Table, routes: pa.Table, path: Path) -> None:
    """Save the three views as one picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(16, 5.4), width_ratios=(1.1, 1, 1.1), layout="constrained"
    )
    carriers = sorted(by_carrier.to_pylist(), key=lambda row: row["mean_delay_min"] or 0)
    names = [_CARRIERS.get(row["carrier"], row["carrier"]) for row in carriers]
    left.barh(names, [row["mean_delay_min"] for row in carriers], color=_BAR)
    left.set_title("Mean departure delay by airline")
    left.set_xlabel("minutes")

    hours = sorted(by_hour.to_pylist(), key=lambda row: row["hour"])
    flown = [row for row in hours if row["mean_delay_min"] is not None]
    clock = [row["hour"] for row in flown]
    middle.fill_between(clock, [row["mean_delay_min"] for row in flown], color=_LINE, alpha=0.25)
    middle.plot(clock, [row["mean_delay_min"] for row in flown], color=_LINE, marker="o", ms=4)
    middle.set_ylim(bottom=0)
    middle.set_xticks(range(6, 24, 3))
    middle.set_title("Delays build up over the day")
    middle.set_xlabel("scheduled hour of departure")
    middle.set_ylabel("mean delay, minutes")

    top = sorted(routes.to_pylist(), key=lambda row: row["flights"])[-12:]
    labels = [f"{row['origin']} to {row['dest']}" for row in top]
    right.barh(labels, [row["flights"] for row in top], color=_BAR)
    right.set_title("Busiest routes")
    right.set_xlabel("flights in 2013")

    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_color(_INK)
    total = sum(row["flights"] for row in carriers)
    figure.suptitle(f"{total:,} flights from New York City, through Fencepost and Spark")
    figure.savefig(path, dpi=110)
    plt.close(figure)
