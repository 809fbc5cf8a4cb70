"""The bar from what is read to the high watermark, with the transactions that are open."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from fencepost.views.stable_offset_drawing import (
    OPEN_COLOR,
    STUCK_COLOR,
    draw_stable_offset_svg,
    draw_stable_offset_text,
)
from fencepost.views.transactions import OpenTransactionView, StableOffsetView, TransactionView

SVG = "{http://www.w3.org/2000/svg}"


def view(stable: int, high: int, *starts: int, verdict: str = "ongoing") -> StableOffsetView:
    transactions = [
        OpenTransactionView(
            "t:0",
            7,
            0,
            0,
            0,
            0,
            start,
            None,
            verdict,
            TransactionView("<i>" + "x" * 200, 1, 7, 0, "Ongoing", 1, 1, ["t:0"]),
        )
        for start in starts
    ]
    return StableOffsetView("t:0", stable, high, verdict, None, transactions)


def test_blocks_begin_where_transactions_do_and_end_at_the_high_watermark():
    drawn = ElementTree.fromstring(draw_stable_offset_svg(view(100, 200, 100, 150)))
    read, first, second = drawn.iter(f"{SVG}rect")
    ends = [float(one.get("x", 0)) + float(one.get("width", 0)) for one in (read, first, second)]
    assert float(first.get("x", 0)) == ends[0]
    assert ends[1] == ends[2]
    assert float(second.get("width", 0)) == float(first.get("width", 0)) / 2
    assert first.get("fill") == OPEN_COLOR


def test_text_says_the_same_and_names_are_cut():
    lines = draw_stable_offset_text(view(100, 200, 100, 150))
    assert [line.count("#") for line in lines] == [0, 0, 0, 24, 12]
    assert lines[2].count("=") == 24
    assert max(map(len, lines)) < 200


@pytest.mark.parametrize(("stable", "high"), [(0, 0), (0, 1), (5, 5), (1 << 62, (1 << 63) - 1)])
def test_any_offsets_are_drawn(stable: int, high: int):
    svg = draw_stable_offset_svg(view(stable, high, stable, -1, verdict="hanging"))
    ElementTree.fromstring(svg)
    assert STUCK_COLOR in svg
    assert "<i>" not in svg and "style" not in svg
    draw_stable_offset_text(view(stable, high, stable, -1))
