"""A story as swim lanes: a lane for each node, time downwards, messages as arrows between lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.console.page import Drawing
from fencepost.views import svg
from fencepost.views.story import StoryStep

TIME: Final = 80.0
LANE: Final = 150.0
ROW: Final = 26.0
TOP: Final = 34.0
LABEL: Final = 300.0
"""Room for a label behind the last lane."""
WORDS_MAX: Final = 60
"""Characters of a label; the whole text is in the title that a reader sees on pointing at it."""


def lanes(caption: str, steps: Sequence[StoryStep], nodes: Sequence[int]) -> Drawing:
    """The steps between these nodes, which are in lanes from left to right."""
    places = {node: TIME + LANE * (number + 0.5) for number, node in enumerate(nodes)}
    width = TIME + LANE * len(nodes) + LABEL
    height = TOP + ROW * (len(steps) + 1)
    parts = [
        piece
        for node, x in places.items()
        for piece in (
            svg.label(x, 16, f"node {node}", text_anchor="middle", class_="strong"),
            svg.element("line", x1=x, x2=x, y1=TOP - 12, y2=height, class_="axis"),
        )
    ]
    for number, step in enumerate(steps):
        parts.append(_drawn(step, places, TOP + ROW * (number + 0.5), width))
    lines = [line_of(step) for step in steps]
    return Drawing(caption, svg.picture(caption, width, height, parts), lines)


def line_of(step: StoryStep) -> str:
    """A step as a line of text."""
    who = {
        "message": f"{step.source} -> {step.target}: ",
        "node": f"node {step.source}: ",
        "fault": "fault: ",
        "note": "",
    }[step.kind]
    return f"{step.at_ms:10.3f} ms  {who}{step.text}"


def _drawn(step: StoryStep, places: dict[int, float], y: float, width: float) -> str:
    words = step.text if len(step.text) <= WORDS_MAX else f"{step.text[: WORDS_MAX - 1]}…"
    time = svg.label(TIME - 10, y + 4, f"{step.at_ms:.1f}", text_anchor="end", class_="faint")
    title = svg.element("title", svg.text(line_of(step)))
    source = places.get(step.source) if step.source is not None else None
    target = places.get(step.target) if step.target is not None else None
    if step.kind == "message" and source is not None and target is not None:
        shown = _arrow(source, target, y, words)
    elif step.kind == "node" and source is not None:
        dot = svg.element("circle", cx=source, cy=y, r=4, class_="reached")
        shown = dot + svg.label(source + 8, y + 4, words)
    else:
        kind = "broken" if step.kind == "fault" else "axis"
        line = svg.element("line", x1=TIME, x2=width, y1=y, y2=y, class_=kind)
        shown = line + svg.label(TIME + 4, y - 3, words, class_=f"{kind} words")
    return svg.element("g", title, time, shown)


def _arrow(source: float, target: float, y: float, words: str) -> str:
    tip = 7.0 if target > source else -7.0
    head = f"M{target - tip:.1f} {y - 4:.1f}L{target:.1f} {y:.1f}L{target - tip:.1f} {y + 4:.1f}Z"
    line = svg.element("line", x1=source, x2=target, y1=y, y2=y, class_="line")
    place = min(source, target) + 6
    return line + svg.element("path", d=head, class_="tip") + svg.label(place, y - 4, words)
