"""All histories of one small partition on the real machines; and the explorer sees what it must."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fencepost.cli.main import main
from fencepost.machines.partition.isr import FollowerState
from fencepost.sim.ablations import load_ablation
from fencepost.sim.explore import Search
from fencepost.sim.explore.copying import clone
from fencepost.sim.explore.partition import Bounds, Space, tell
from fencepost.sim.explore.partition.space import Action, State
from fencepost.sim.explore.search import Report

# -- the product -------------------------------------------------------------------------------

SPACES = {
    "an in-sync set that changes": Bounds(epochs=0, fences=1, changes=1, appends=1),
    "an election": Bounds(replicas=2, fences=1, appends=1, changes=1, min_isr=1),
    "two elections and a power cut": Bounds(replicas=2, epochs=2, fences=1, crashes=1),
    "an election of three": Bounds(fences=1, changes=1, appends=1),
}
WHOLE = Bounds(epochs=2, fences=1, crashes=1, changes=1, appends=1)
"""Three replicas, two elections, a power cut, an in-sync set that changes, and a batch."""
LARGE_SPACES = {
    "all of it, without a batch": replace(WHOLE, appends=0),
    "all of it, and no broker is behind": replace(WHOLE, stragglers=0),
    "a follower that lags": Bounds(replicas=2, fences=1, changes=1, lags=1, appends=1, min_isr=1),
    "a lost answer": Bounds(in_sync=2, fences=1, changes=1, appends=1, losses=1),
    "slow answers": Bounds(fences=1, appends=1, slow_answers=True),
    "slow disks": Bounds(crashes=1, appends=1, flushes=True),
    "everybody is behind": Bounds(fences=1, appends=1, stragglers=3, skips=True),
    "no eligible replicas are kept": Bounds(crashes=1, changes=1, appends=1, elr=False),
}


def explore(bounds: Bounds, doubts: int = 0) -> tuple[Space, Report[Action, State]]:
    space = Space(bounds, doubts=doubts)
    report = Search(space).run()
    assert report.violation is None, "\n".join(tell(space, report))
    assert report.covered
    return space, report


def look_at_what_was_seen(space: Space, bounds: Bounds) -> None:
    """A space in which nothing happens would be sound, too."""
    views = space.steps.views
    assert any(view.high_watermark for view in views) == bool(bounds.appends)
    leaders = {view.epoch for view in views if view.is_leader}
    assert leaders == set(range(bounds.epochs + 1))
    assert any(not view.is_up for view in views) == bool(bounds.crashes)
    images = range(len(space.steps.metadata.images))
    in_sync = {len(space.steps.metadata.partition(number).isr) for number in images}
    assert len(in_sync) > 1


@pytest.mark.parametrize("name", SPACES)
def test_every_history_of_a_small_partition_is_sound(name: str) -> None:
    space, report = explore(SPACES[name])
    assert report.states > 100
    look_at_what_was_seen(space, SPACES[name])


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE_SPACES)
def test_every_history_of_a_larger_space_is_sound(name: str) -> None:
    space, report = explore(LARGE_SPACES[name])
    assert report.states > 1_000
    look_at_what_was_seen(space, LARGE_SPACES[name])


@pytest.mark.long
def test_two_elections_of_three_with_a_batch_and_a_broker_behind() -> None:
    """More than there is time for: as far as it goes, breadth first."""
    space = Space(WHOLE)
    report = Search(space).run(most_states=100_000)
    assert report.violation is None, "\n".join(tell(space, report))
    assert {view.epoch for view in space.steps.views if view.is_leader} == {0, 1, 2}


# -- the explorer ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bug:
    """An ablation, where to look for it, and which law it breaks there."""

    ablation: str
    bounds: Bounds
    breaks: str
    unwatched: frozenset[str] = frozenset()


BUGS = [
    Bug(
        "truncates-to-the-high-watermark",
        Bounds(fences=1, appends=1),
        "I11",
    ),
    Bug("high-watermark-counts-unsynced", Bounds(epochs=0, appends=1, flushes=True), "I05"),
    Bug("shows-with-too-few-in-sync", Bounds(replicas=2, epochs=0, fences=1, appends=1), "I17"),
    Bug(
        "proposed-replicas-do-not-count",
        Bounds(replicas=2, in_sync=1, epochs=0, changes=1, appends=1, min_isr=1),
        "I09",
    ),
    Bug(
        "proposed-replicas-do-not-count",
        Bounds(replicas=2, in_sync=1, epochs=0, changes=1, lags=1, appends=1, min_isr=1),
        "I17",
        frozenset(("I09",)),
    ),
]
LARGE_BUGS = [
    Bug("truncates-to-the-high-watermark", replace(WHOLE, stragglers=0), "I07"),
    Bug("shows-with-too-few-in-sync", replace(WHOLE, stragglers=0), "I17"),
    Bug(
        "joins-at-the-high-watermark",
        Bounds(in_sync=2, fences=2, changes=1, appends=1, losses=1, stragglers=0),
        "I11",
    ),
]


def look_for(bug: Bug) -> None:
    rules = load_ablation(bug.ablation).rules
    with rules.in_force():
        space = Space(bug.bounds, rules, bug.unwatched)
        report = Search(space).run(most_states=300_000)
        assert report.violation is not None, f"not in {report.states} states"
        assert report.violation.split(":")[0] == bug.breaks, report.violation
        story = list(tell(space, report))
    assert story[-1] == f"VIOLATION {report.violation}"
    assert any(line.startswith("  1. ") for line in story)
    assert len(report.path) <= 12


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.ablation}-{bug.breaks}")
def test_a_bug_is_found(bug: Bug) -> None:
    look_for(bug)


@pytest.mark.long
@pytest.mark.parametrize("bug", LARGE_BUGS, ids=lambda bug: f"{bug.ablation}-{bug.breaks}")
def test_a_bug_is_found_in_a_larger_space(bug: Bug) -> None:
    look_for(bug)


@pytest.mark.long
def test_states_that_are_taken_for_one_behave_as_one() -> None:
    """What the explorer looks up is what brokers with another past do in the same state."""
    bounds = Bounds(replicas=2, crashes=1, changes=1, lags=1, appends=2, losses=1, flushes=True)
    space = Space(bounds, doubts=3)
    report = Search(space).run(most_states=1_000)
    assert report.violation is None
    assert space.steps.doubted > 20


MERGED = {
    "an election of three": Bounds(fences=1),
    "a power cut": Bounds(replicas=2, epochs=2, fences=1, crashes=1),
    "a late fetch": Bounds(replicas=2, fences=1, changes=1, late=1, min_isr=1),
}


def shown_by(bounds: Bounds, *, merges: bool) -> tuple[int, set[Any]]:
    """How many states there are, and all that the laws and the controller know of any of them."""
    space = Space(bounds, merges=merges)
    search = Search(space)
    assert search.run().covered
    steps, metadata = space.steps, space.steps.metadata
    shown = set()
    for state in map(space.unpack, search._seen):
        views = [steps.views[cell] for cell in state.cells]
        logs = tuple(tuple(steps.entry(n)[:3] for n in view.log) for view in views)
        past = space.laws.pasts.values[state.past]
        image = metadata[space.image(state)]
        shown.add(
            (
                logs,
                tuple(view._replace(log=()) for view in views),
                (past.leaders, len(past.shown)),
                metadata.partition(space.image(state)),
                tuple(sorted(image.brokers.items())),
            )
        )
    return len(search._seen), shown


@pytest.mark.parametrize("name", MERGED)
def test_states_that_are_merged_hide_nothing(name: str) -> None:
    merged, shown = shown_by(MERGED[name], merges=True)
    all_, shown_by_all = shown_by(MERGED[name], merges=False)
    assert shown == shown_by_all
    assert merged < all_


def test_states_are_packed_without_loss() -> None:
    space = Space(Bounds(crashes=1, fences=1, appends=1))
    state = space.first()
    for _ in range(12):
        assert space.unpack(space.pack(state)) == state
        state = list(space.after(state))[-1][1]


class Knows:
    """Has a friend, and a way to call it."""

    def __init__(self) -> None:
        self.friend = FollowerState(0)
        self.call = self.friend.seen
        self.tell = lambda at_ms: self.friend.seen(at_ms)


Knows.__module__ = "fencepost.tests"


def test_a_copy_knows_the_copies_and_not_the_originals() -> None:
    one = Knows()
    other = clone(one, {})
    other.friend.offset = 0
    other.call(5)
    assert other.friend.last_caught_up_ms == 5
    other.tell(7)
    assert (other.friend.last_caught_up_ms, one.friend.last_caught_up_ms) == (7, 0)


def test_bounds_that_make_no_sense_are_refused() -> None:
    for wrong in ({"replicas": 0}, {"epochs": 16}, {"crashes": -1}, {"min_isr": 4}, {"in_sync": 4}):
        with pytest.raises(ValueError, match=r"replicas|epochs|crashes|min_isr|in_sync"):
            Bounds(**wrong)  # type: ignore[arg-type]


# -- the command -------------------------------------------------------------------------------


def test_the_command_covers_a_space(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "explore-partition", "--epochs", "0", "--appends", "1", "--json"]
    assert main([*arguments, "--slow-answers"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["covered"] is True
    assert said["bounds"]["slow_answers"] is True
    assert said["states"] > 5


def test_the_command_finds_an_old_bug(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "explore-partition", "--replicas", "2", "--epochs", "0", "--fences", "1"]
    bug = ["--ablation", "shows-with-too-few-in-sync"]
    assert main([*arguments, "--appends", "1", *bug]) == 0
    told = capsys.readouterr().out
    assert "the controller takes the session of 2 for lost" in told
    assert "VIOLATION I17" in told
    assert main([*arguments, *bug]) == 1
    assert main([*arguments, "--replicas", "9"]) == 2
    assert main([*arguments, "--ablation", "no-such"]) == 2
