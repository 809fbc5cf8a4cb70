"""Pictures of replicas' logs: lines of text and SVG."""

from __future__ import annotations

from xml.etree import ElementTree

from fencepost.client.lineage import Divergence, ReplicaLineage
from fencepost.client.offsets import EpochSpan
from fencepost.views.epochs_drawing import (
    DIVERGING_COLOR,
    EPOCH_COLORS,
    Picture,
    Row,
    draw_svg,
    draw_text,
)


def lineage(broker: int, *ends: tuple[int, int, int]) -> ReplicaLineage:
    return ReplicaLineage(broker, tuple(EpochSpan(*one) for one in ends))


MANY = lineage(1, *((epoch, epoch * 10, epoch * 10 + 10) for epoch in range(40)))


def test_what_does_not_fit_is_left_out_from_the_left_and_said():
    lines = draw_text(Picture("t-0", [Row("1 leader", MANY)]), 60)
    assert max(map(len, lines)) <= 60
    assert lines[1].startswith("offset    330") and lines[1].endswith("400")
    assert lines[2].startswith("1 leader  |33---|34---") and lines[2].endswith("|39---|")
    assert lines[3] == "(earlier epochs, up to offset 330, are not drawn)"


def test_an_epoch_that_began_further_left_still_says_its_number():
    long = lineage(2, (0, 0, 345), (34, 345, 350))
    lines = draw_text(Picture("t-0", [Row("1 leader", MANY), Row("2 in sync", long)]), 60)
    assert [line[:17] for line in lines[2:4]] == ["1 leader   |34---", "2 in sync  |0----"]


def test_large_offsets_and_epochs_keep_the_columns_apart():
    big = lineage(1, (1_000_000, 0, 123_456_789_012), (2_147_483_647, 123_456_789_012, 1 << 62))
    lines = draw_text(Picture("t-0", [Row("1 leader", big)]), 80)
    assert lines[1].split() == ["offset", "0", "123456789012", str(1 << 62)]
    assert [lines[1].index(word) for word in lines[1].split()[1:]] == [
        place for place, char in enumerate(lines[2]) if char == "|"
    ]


def test_logs_that_begin_later_are_empty_or_unknown():
    rows = [
        Row("1 leader", lineage(1, (3, 5, 8), (4, 8, 8))),
        Row("2 in sync", lineage(2, (3, 6, 8)), Divergence(7, 3, -1)),
        Row("3 in sync", lineage(3)),
        Row("4 in sync", ReplicaLineage(4, error="is not there")),
    ]
    assert draw_text(Picture("t-0", rows, ["a note"]), 80) == [
        "t-0",
        "offset     5     6     7     8",
        "1 leader   |3----------------|4",
        "2 in sync        |3----!!!!!!|",
        "3 in sync  (no records)",
        "4 in sync  is not there",
        "a note",
    ]
    assert draw_text(Picture("t-0", []), 80) == ["t-0"]


def test_svg_is_well_formed_to_scale_and_shows_what_names_hold_as_text():
    rows = [Row("<1> & leader", lineage(1, (0, 100, 150), (2, 150, 200)), Divergence(175, 2, -1))]
    empty = Picture("none", [Row("1", lineage(1)), Row("2", ReplicaLineage(2, error="<down>"))])
    root = ElementTree.fromstring(draw_svg([Picture("t-0", rows, ["<note>"]), empty]))
    bars = [one for one in root.iter("{http://www.w3.org/2000/svg}rect") if len(one)]
    assert [float(bar.get("width", 0)) for bar in bars] == [380.0, 190.0, 190.0]
    assert [float(bar.get("x", 0)) for bar in bars] == [206.0, 586.0, 776.0]
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<1> & leader", "<note>", "<down>", "100", "200", "(no records)"} <= set(texts)


def test_as_many_columns_are_drawn_as_fit_exactly():
    picture = Picture("t-0", [Row("1 leader", lineage(1, (0, 0, 10), (1, 10, 20), (2, 20, 30)))])
    assert draw_text(picture, 10 + 4 * 6)[1].split() == ["offset", "0", "10", "20", "30"]
    assert draw_text(picture, 10 + 4 * 6 - 1)[1].split() == ["offset", "10", "20", "30"]


def test_an_epoch_that_diverges_from_before_its_beginning_is_red_alone():
    row = Row("1", lineage(1, (0, 0, 100), (2, 100, 200)), Divergence(50, 2, -1))
    root = ElementTree.fromstring(draw_svg([Picture("t-0", [row])]))
    bars = [one for one in root.iter("{http://www.w3.org/2000/svg}rect") if len(one)]
    assert [(float(one.get("width", 0)), one.get("fill")) for one in bars] == [
        (190.0, EPOCH_COLORS[0]),
        (190.0, DIVERGING_COLOR),
        (380.0, DIVERGING_COLOR),
    ]
