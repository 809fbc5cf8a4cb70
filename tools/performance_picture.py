"""Draws docs/performance.svg from the table of costs in docs/PERFORMANCE.md.

    python tools/performance_picture.py

One bar for each row, as long as the logarithm of how many times less the work costs with Fencepost
than with the other; where it costs more, the bar is on the left of the line. The tests see to it
that the picture is that of the table.
"""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
PAGE: Final = DOCS / "PERFORMANCE.md"
PICTURE: Final = DOCS / "performance.svg"
COSTS: Final = re.compile(r"<!-- costs -->\n(.*?)<!-- end -->", re.DOTALL)

WIDTH: Final = 900
NAMES: Final = 400
"""Room for the names of the work."""
LABELS: Final = 220
TOP: Final = 34
ROW: Final = 24
LESS: Final = "#1f6feb"
MORE: Final = "#d1242f"
GREY: Final = "#6e7781"
TICKS: Final = (1 / 10, 1 / 3, 1, 3, 10, 30, 100)


class Cost(NamedTuple):
    """What a piece of work costs with Fencepost and with another."""

    work: str
    ours: float
    others: float
    other: str

    @property
    def times_less(self) -> float:
        """Below 1 where it costs more."""
        return self.others / self.ours


def costs_in(page: str) -> list[Cost]:
    """The rows of the table. ValueError if there is none, or a cell is no number."""
    found = COSTS.search(page)
    if found is None:
        raise ValueError("the page has no table between <!-- costs --> and <!-- end -->")
    rows = [line.strip().strip("|").split("|") for line in found[1].splitlines()[2:]]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [
        Cost(work, float(ours), float(others), other.replace("`", ""))
        for work, ours, others, other in cells
    ]


def draw(costs: list[Cost]) -> str:
    """The picture as SVG."""
    lengths = [math.log(cost.times_less) for cost in costs]
    least, most = min(0.0, *lengths), max(0.0, *lengths)
    scale = (WIDTH - NAMES - LABELS) / (most - least)
    line_x = NAMES + 10 - least * scale
    height = TOP + ROW * len(costs) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for tick in TICKS:
        if least <= math.log(tick) <= most:
            lines += _tick(tick, line_x + math.log(tick) * scale, height)
    for place, cost in enumerate(costs):
        lines += _bar(cost, TOP + ROW * place, line_x, scale)
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def _tick(times: float, x: float, height: int) -> list[str]:
    if times == 1:
        name, colour = "equal", GREY
    else:
        name = f"{times:.0f}x less" if times > 1 else f"{1 / times:.0f}x more"
        colour = "#d0d7de"
    return [
        f'<text x="{x:.0f}" y="18" text-anchor="middle" fill="{GREY}">{name}</text>',
        f'<path d="M{x:.1f} {TOP - 8}V{height - 4}" stroke="{colour}"/>',
    ]


def _bar(cost: Cost, top: int, line_x: float, scale: float) -> list[str]:
    work, _, unit = cost.work.rpartition(", ")
    length = math.log(cost.times_less) * scale
    # The unit stands behind both numbers: "Apache Kafka 4.1" would be read as a version.
    label = f"{cost.ours:g} {unit}, {cost.others:g} {unit} with {cost.other}"
    return [
        f'<text x="{NAMES}" y="{top + 13}" text-anchor="end">{escape(work)}</text>',
        f'<rect x="{min(line_x, line_x + length):.1f}" y="{top + 2}" width="{abs(length):.1f}"'
        f' height="{ROW - 8}" fill="{LESS if length >= 0 else MORE}"/>',
        f'<text x="{max(line_x, line_x + length) + 6:.1f}" y="{top + 13}" fill="#24292f">'
        f"{escape(label)}</text>",
    ]


def main() -> None:
    """Draw it again."""
    PICTURE.write_text(draw(costs_in(PAGE.read_text())))


if __name__ == "__main__":
    main()
