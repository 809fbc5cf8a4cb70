"""Drawings of a partition from its last stable offset to its high watermark, with the transactions
that are open in between: as text and as SVG."""

from __future__ import annotations

from typing import Final

from fencepost.views import svg
from fencepost.views.transactions import OpenTransactionView, StableOffsetView

BAR_WIDTH: Final = 640
LABEL_WIDTH: Final = 240
ROW_HEIGHT: Final = 30
BAR_HEIGHT: Final = 20
HEAD_HEIGHT: Final = 44
MARGIN: Final = 16
LABEL_CHARACTERS: Final = 30
TEXT_COLUMNS: Final = 48
OPEN_COLOR: Final = "#8a5300"
STUCK_COLOR: Final = "#b3161b"
READ_COLOR: Final = "#1a6b35"
STUCK: Final = ("overdue", "hanging", "refused")
"""Verdicts of transactions that will not end by themselves."""


def draw_stable_offset_svg(one: StableOffsetView) -> str:
    """The bar as SVG without styles: the page's sheet has those, for the class `epochs`."""
    low, high = _range(one)
    scale = BAR_WIDTH / max(1, high - low)
    left = MARGIN + LABEL_WIDTH
    width = left + BAR_WIDTH + MARGIN
    height = HEAD_HEIGHT + ROW_HEIGHT * (1 + len(one.open)) + MARGIN
    title = (
        f"{one.partition}: last stable offset {one.last_stable_offset}, high watermark"
        f" {one.high_watermark}"
    )
    parts = [
        svg.label(left, 30, f"{low}"),
        svg.label(left + BAR_WIDTH, 30, f"{high}", text_anchor="end"),
    ]
    y = HEAD_HEIGHT
    stable = left + (one.last_stable_offset - low) * scale
    parts.append(svg.label(MARGIN, y + 15, "readers of committed records"))
    parts.append(_bar(left, y, max(stable - left, 2), title, READ_COLOR))
    for transaction in one.open:
        y += ROW_HEIGHT
        start = left + (max(transaction.start_offset, low) - low) * scale
        color = STUCK_COLOR if transaction.verdict in STUCK else OPEN_COLOR
        parts.append(svg.label(MARGIN, y + 15, _label(transaction)))
        wide = max(left + BAR_WIDTH - start, 2)
        parts.append(_bar(start, y, wide, _sentence(transaction), color))
    ends = {"x1": stable, "x2": stable, "y1": HEAD_HEIGHT - 6, "y2": y + BAR_HEIGHT}
    parts.append(svg.element("line", **ends, stroke="currentColor", stroke_dasharray="4 3"))
    return svg.picture(title, width, height, parts, class_="epochs")


def draw_stable_offset_text(one: StableOffsetView) -> list[str]:
    """The same as lines: `=` is read, `#` a transaction that is open."""
    low, high = _range(one)

    def column(offset: int) -> int:
        return (max(offset, low) - low) * TEXT_COLUMNS // max(1, high - low)

    lines = [
        f"{one.partition}: last stable offset {one.last_stable_offset}, high watermark"
        f" {one.high_watermark}",
        f"offsets {low} to {high}",
        f"|{'=' * column(one.last_stable_offset)}".ljust(TEXT_COLUMNS + 1) + "| read",
    ]
    for transaction in one.open:
        begin = min(column(transaction.start_offset), TEXT_COLUMNS - 1)
        bar = " " * begin + "#" * (TEXT_COLUMNS - begin)
        lines.append(f"|{bar}| {_sentence(transaction)}")
    return lines


def _range(one: StableOffsetView) -> tuple[int, int]:
    """The offsets drawn: as many that are read as wait, so that both can be seen."""
    waiting = max(one.high_watermark - one.last_stable_offset, 1)
    return max(0, one.last_stable_offset - waiting), one.high_watermark


def _label(one: OpenTransactionView) -> str:
    name = one.transactional_id or f"producer {one.producer_id}"
    return name if len(name) <= LABEL_CHARACTERS else f"{name[: LABEL_CHARACTERS - 1]}…"


def _sentence(one: OpenTransactionView) -> str:
    whose = f"{_label(one)}, producer {one.producer_id} epoch {one.producer_epoch}"
    return f"{whose}: {one.verdict}, from offset {one.start_offset}"


def _bar(x: float, y: float, width: float, title: str, color: str) -> str:
    return svg.bar(x, y, width, BAR_HEIGHT, title, fill=color)
