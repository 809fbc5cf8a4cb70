"""Scenarios: what went wrong elsewhere must not go wrong here, and would be seen if it did.

Each file in `tests/transcripts/quorum` and `tests/transcripts/brokers` is a scenario of
docs/SIMULATOR.md (the file's name has its number) with the output that the product gives;
`fencepost.sim.script` says how to read it. Each names the old bugs that it guards against, its
ablations, and what they make of the story.

`FENCEPOST_REWRITE=1` rewrites the outputs. Commit a changed output only if you understand it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fencepost.sim.ablations import ablation_names, load_ablation
from fencepost.sim.script import ablations_of, play, without_remarks

from ..in_turn import in_turn

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts"
SCENARIOS = sorted([*TRANSCRIPTS.glob("quorum/*.txt"), *TRANSCRIPTS.glob("brokers/*.txt")])
BUGS = [
    pytest.param(path, name, id=f"{path.stem}-{name}")
    for path in SCENARIOS
    for name in ablations_of(path.read_text())
]


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) > 8


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_story_goes_as_written(path: Path) -> None:
    text = path.read_text()
    played = play(text)
    if os.environ.get("FENCEPOST_REWRITE"):
        path.write_text(played)
        text = played
    assert played == text
    assert "VIOLATION" not in without_remarks(played)


@in_turn("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_story_guards_against_something(path: Path) -> None:
    named = ablations_of(path.read_text())
    assert named, "a scenario that stays green under its ablation is not done; this one has none"
    assert set(named) <= set(ablation_names())


@pytest.mark.parametrize(("path", "name"), BUGS)
def test_the_old_bug_spoils_the_story(path: Path, name: str) -> None:
    text = path.read_text()
    consequence = ablations_of(text)[name]
    assert consequence not in without_remarks(text)
    assert consequence in without_remarks(play(text, load_ablation(name).rules))
