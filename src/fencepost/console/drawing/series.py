"""Lines over time: a number per look, such as a group's lag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fencepost.console.page import Drawing
from fencepost.views import svg
from fencepost.views.times import iso_time

WIDTH: Final = 720.0
HEIGHT: Final = 160.0
LEFT: Final = 70.0
TOP: Final = 10.0
BOTTOM: Final = 30.0
TEXT_POINTS_MAX: Final = 12


class Point(NamedTuple):
    """A number at a time (ms since 1970); None where it could not be had: the line is broken."""

    at_ms: int
    value: int | None


def series(caption: str, unit: str, points: Sequence[Point]) -> Drawing:
    """The points as a line that begins at zero; as text the first, the last and some between."""
    known = [point.value for point in points if point.value is not None]
    highest = max(known, default=0)
    first, last = (points[0].at_ms, points[-1].at_ms) if points else (0, 0)
    parts = [
        svg.element("path", d=_path(points, highest), class_="line", fill="none"),
        svg.element("line", x1=LEFT, x2=WIDTH, y1=_y(0, highest), y2=_y(0, highest), class_="axis"),
        svg.label(LEFT - 6, TOP + 10, f"{highest:,}", text_anchor="end"),
        svg.label(LEFT - 6, _y(0, highest), "0", text_anchor="end"),
        svg.label(LEFT, HEIGHT - 8, iso_time(first)[11:19]),
        svg.label(WIDTH, HEIGHT - 8, iso_time(last)[11:19], text_anchor="end"),
    ]
    step = max(1, -(-len(points) // TEXT_POINTS_MAX))
    shown = [*points[::step], *points[-1:]] if step > 1 else points
    lines = [f"{iso_time(point.at_ms)}  {_words(point, unit)}" for point in shown]
    return Drawing(caption, svg.picture(caption, WIDTH, HEIGHT, parts), lines)


def _words(point: Point, unit: str) -> str:
    return "unknown" if point.value is None else f"{point.value:,} {unit}"


def _path(points: Sequence[Point], highest: int) -> str:
    if not points:
        return ""
    first, last = points[0].at_ms, points[-1].at_ms
    steps, is_broken = [], True
    for point in points:
        if point.value is None:
            is_broken = True
            continue
        x = LEFT + (WIDTH - LEFT) * (point.at_ms - first) / max(1, last - first)
        steps.append(f"{'M' if is_broken else 'L'}{x:.1f} {_y(point.value, highest):.1f}")
        is_broken = False
    return "".join(steps)


def _y(value: int, highest: int) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / max(1, highest))
