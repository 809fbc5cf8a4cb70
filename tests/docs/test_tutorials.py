"""Every tutorial does what it says, from its first block to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

from .tutorial_page import steps
from .tutorial_session import Session

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
WITH_SPARK = {"spark.md"}


COLUMNS_SHOWN = 88
"""What fits into a block of the site without a scroll bar, on a screen of usual width."""


@pytest.mark.parametrize("page", sorted(TUTORIALS.glob("*.md")), ids=lambda page: page.stem)
def test_lines_of_blocks_fit(page: Path):
    shown = "\n".join(f"{step.text}{step.shown or ''}" for step in steps(page)).splitlines()
    assert shown
    assert not [line for line in shown if len(line) > COLUMNS_SHOWN]


def carried_out(page: Path, directory: Path) -> None:
    session = Session(page, directory)
    try:
        session.carry_out()
    finally:
        session.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [path for path in sorted(TUTORIALS.glob("*.md")) if path.name not in WITH_SPARK],
    ids=lambda page: page.stem,
)
def test_a_tutorial(page: Path, tmp_path: Path):
    carried_out(page, tmp_path)


@pytest.mark.long
@pytest.mark.spark
def test_the_tutorial_for_spark(tmp_path: Path):
    carried_out(TUTORIALS / "spark.md", tmp_path)
