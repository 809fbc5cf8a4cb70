"""Fixtures of the power-loss suite, its size, and the figures it ends with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .filesystem import KINDS, Filesystem, try_make

CYCLES_VARIABLE = "FENCEPOST_POWERLOSS_CYCLES"
CYCLES_DEFAULT = 200


@dataclass
class Tally:
    """What a test's cycles came to."""

    name: str
    cycles: int = 0
    acknowledged: int = 0
    """Records that were reported as durable."""
    unsynced: int = 0
    """Records that were appended and not reported, at the moment of a cut."""
    unsynced_lost: int = 0
    acknowledged_lost: int = 0

    def __str__(self) -> str:
        return (
            f"powerloss {self.name}: {self.cycles} cycles, {self.acknowledged} records "
            f"acknowledged, {self.unsynced} not yet, {self.unsynced_lost} of these lost; "
            f"acknowledged lost: {self.acknowledged_lost}"
        )


TALLIES: list[Tally] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.powerloss)
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for tally in TALLIES:
        terminalreporter.write_line(str(tally))


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """Figures that are told at the end of the run."""
    made = Tally(request.node.name)
    TALLIES.append(made)
    return made


@pytest.fixture
def cycles() -> int:
    """How many power cuts a test of the bare log is to make, per file system."""
    return int(os.environ.get(CYCLES_VARIABLE, CYCLES_DEFAULT))


@pytest.fixture(params=sorted(KINDS))
def filesystem(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Filesystem]:
    """A small file system of each kind; skipped with the reason where that cannot be."""
    made = try_make(request.param, tmp_path)
    if isinstance(made, str):
        pytest.skip(made)
    try:
        yield made
    finally:
        made.close()
