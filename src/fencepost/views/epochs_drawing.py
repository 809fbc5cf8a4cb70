"""Drawings of the logs of a partition's replicas, one below the other: as text and as SVG.

Both pictures show every replica as a bar of leader epochs over the same offsets, so a log that
diverges stands out. The text has a column for every offset at which an epoch begins or a log ends;
the SVG is to scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fencepost.client.lineage import Divergence, ReplicaLineage
from fencepost.client.offsets import EpochSpan
from fencepost.views import svg

COLUMN_MIN: Final = 6
DIVERGING: Final = "!"
SAME: Final = "-"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something about the offsets from `start_offset` up to `end_offset`, drawn below the bar."""

    start_offset: int
    end_offset: int
    color: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One replica of the picture: what it is called, its log, and where that diverges. The SVG has
    the marks, too."""

    label: str
    lineage: ReplicaLineage
    divergence: Divergence | None = None
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A partition: a heading, its replicas, and sentences that belong below them."""

    heading: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    @property
    def boundaries(self) -> list[int]:
        """All offsets at which a log or an epoch begins or ends, and a divergence, in order."""
        found: set[int] = set()
        for row in self.rows:
            found.update(offset for span in row.lineage.spans for offset in span[1:])
            if row.divergence is not None:
                found.add(row.divergence.offset)
            found.update(at for mark in row.marks for at in (mark.start_offset, mark.end_offset))
        return sorted(found)


# -- text ------------------------------------------------------------------------------------------


def draw_text(picture: Picture, width: int) -> list[str]:
    """Lines of at most `width` characters, where that is possible; the newest epochs come last.

    If not all columns fit, the oldest are left out and a line says so.
    """
    boundaries = picture.boundaries
    label_width = max((len(row.label) for row in picture.rows), default=0) + 2
    widths = _column_widths(picture, boundaries)
    first = _first_shown(widths, width - label_width)
    lines = [picture.heading]
    if boundaries:
        cells = [str(b).ljust(w) for b, w in zip(boundaries[first:], widths[first:], strict=True)]
        lines.append(("offset".ljust(label_width) + "".join(cells)).rstrip())
    for row in picture.rows:
        bar = row.lineage.error or _bar(row, boundaries, widths, first)
        lines.append((row.label.ljust(label_width) + bar).rstrip())
    if first:
        lines.append(f"(earlier epochs, up to offset {boundaries[first]}, are not drawn)")
    return lines + list(picture.notes)


def _column_widths(picture: Picture, boundaries: Sequence[int]) -> list[int]:
    epochs = [span.leader_epoch for row in picture.rows for span in row.lineage.spans]
    least = max(COLUMN_MIN, max((len(str(epoch)) for epoch in epochs), default=0) + 3)
    return [max(least, len(str(boundary)) + 1) for boundary in boundaries]


def _first_shown(widths: Sequence[int], room: int) -> int:
    """The first column of as many of the last ones as fit; two at least."""
    first, used = len(widths), 0
    while first and (used + widths[first - 1] <= room or first > len(widths) - 2):
        first -= 1
        used += widths[first]
    return first


def _bar(row: Row, boundaries: Sequence[int], widths: Sequence[int], first: int) -> str:
    """`|0-----|2--------|`: each epoch from its first offset on, `!` where the log diverges."""
    text = ""
    spans = row.lineage.spans
    if not spans:
        return "(no records)"
    starts = {span.start_offset: span for span in spans}
    for place in range(first, len(boundaries)):
        offset, column = boundaries[place], widths[place]
        span = starts.get(offset) or _span_at(spans, offset)
        if span is None:
            text += ("|" if offset == row.lineage.end_offset else "").ljust(column)
            continue
        fill = DIVERGING if _diverges(row, offset) else SAME
        is_new = offset == span.start_offset or place == first
        head = f"|{span.leader_epoch}" if is_new else fill
        is_empty = span.start_offset == span.end_offset
        text += head.ljust(column, " " if is_empty else fill)
    return text.rstrip()


def _span_at(spans: Iterable[EpochSpan], offset: int) -> EpochSpan | None:
    return next((span for span in spans if span.start_offset <= offset < span.end_offset), None)


def _diverges(row: Row, offset: int) -> bool:
    return row.divergence is not None and offset >= row.divergence.offset


# -- SVG -------------------------------------------------------------------------------------------

BAR_WIDTH: Final = 760
BAR_HEIGHT: Final = 26
ROW_HEIGHT: Final = 36
LABEL_WIDTH: Final = 190
HEAD_HEIGHT: Final = 56
NOTE_HEIGHT: Final = 20
MARGIN: Final = 16
MARK_HEIGHT: Final = 6
MARK_WIDTH_MIN: Final = 3
EPOCH_COLORS: Final = ("#3b6696", "#2c7a74", "#3d7a36", "#8a5280", "#7f5b45", "#625a58")
"""White text on each of them has a contrast of 4.5 at least."""

DIVERGING_COLOR: Final = "#c22f2e"
LABEL_FROM_WIDTH: Final = 22  # narrower bars have their epoch in a tooltip alone
STYLE: Final = "text{font:13px sans-serif;fill:#222}.h{font-weight:bold}.l{fill:#fff}.n{fill:#b00}"


def draw_svg(pictures: Sequence[Picture], *, is_part_of_page: bool = False) -> str:
    """One SVG document with all partitions; bars are to scale within a partition. In a page it has
    no style and no paper of its own: the page's sheet has both, for the class `epochs`."""
    parts: list[str] = []
    y = MARGIN
    for picture in pictures:
        drawn, height = _svg_partition(picture, y)
        parts += drawn
        y += height
    width, height = LABEL_WIDTH + BAR_WIDTH + 2 * MARGIN, y + MARGIN
    title = "; ".join(picture.heading for picture in pictures)
    if is_part_of_page:
        return svg.picture(title, width, height, parts, class_="epochs")
    paper = [
        svg.element("style", STYLE),
        svg.element("rect", width=width, height=height, fill="#fff"),
    ]
    return svg.picture(title, width, height, [*paper, *parts]) + "\n"


def _svg_partition(picture: Picture, top: int) -> tuple[list[str], int]:
    """The elements of a partition, and how high they are."""
    boundaries = picture.boundaries
    low, high = (boundaries[0], boundaries[-1]) if boundaries else (0, 0)
    scale = BAR_WIDTH / max(1, high - low)
    left = LABEL_WIDTH + MARGIN
    parts = [svg.label(MARGIN, top + 14, picture.heading, class_="h")]
    if boundaries:
        parts.append(svg.label(left, top + 38, str(low)))
        parts.append(svg.label(left + BAR_WIDTH, top + 38, str(high), text_anchor="end"))
    y = top + HEAD_HEIGHT - 8
    for row in picture.rows:
        parts.append(svg.label(MARGIN, y + 18, row.label))
        if row.lineage.error is not None:
            parts.append(svg.label(left, y + 18, row.lineage.error, class_="n"))
        elif not row.lineage.spans:
            parts.append(svg.label(left, y + 18, "(no records)"))
        for span in row.lineage.spans:
            for start, end, color in _colored(row, span):
                x, wide = left + (start - low) * scale, max((end - start) * scale, 1)
                parts += _svg_bar(x, y, wide, span, color)
        for mark in row.marks:
            x = left + (mark.start_offset - low) * scale
            wide = max((mark.end_offset - mark.start_offset) * scale, MARK_WIDTH_MIN)
            place = (x, y + BAR_HEIGHT, wide, MARK_HEIGHT)
            parts.append(svg.bar(*place, mark.text, fill=mark.color))
        y += ROW_HEIGHT
    for note in picture.notes:
        parts.append(svg.label(MARGIN, y + 14, note, class_="n"))
        y += NOTE_HEIGHT
    return parts, y - top + MARGIN


def _colored(row: Row, span: EpochSpan) -> Iterable[tuple[int, int, str]]:
    """A span's bars: what agrees in the color of its epoch, what diverges in red."""
    start, end = span.start_offset, span.end_offset
    cut = end if row.divergence is None else min(max(row.divergence.offset, start), end)
    color = EPOCH_COLORS[span.leader_epoch % len(EPOCH_COLORS)]
    if start < cut or start == end:
        yield start, cut, color
    if cut < end:
        yield cut, end, DIVERGING_COLOR


def _svg_bar(x: float, y: int, wide: float, span: EpochSpan, color: str) -> Iterable[str]:
    title = f"leader epoch {span.leader_epoch}: offsets {span.start_offset} to {span.end_offset}"
    yield svg.bar(x, y, wide, BAR_HEIGHT, title, fill=color, stroke="#fff")
    if wide >= LABEL_FROM_WIDTH:
        yield svg.label(x + 5, y + 18, str(span.leader_epoch), class_="l")
