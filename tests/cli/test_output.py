"""Tables and JSON on standard output."""

from __future__ import annotations

import pytest

from fencepost.cli.output import print_table


def test_unknown_numbers_stay_below_the_others(capsys: pytest.CaptureFixture[str]):
    print_table(("a", "lag", "none", "-1"), [("x", 5, None, -1), ("y", None, None, 10)])
    assert capsys.readouterr().out.splitlines() == [
        "a  lag  none  -1",
        "x    5  -     -1",
        "y    -  -     10",
    ]
