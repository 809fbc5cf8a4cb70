"""All histories of small quorums on the real machine; and the explorer sees what it must."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencepost.cli.main import main
from fencepost.machines.quorum import QuorumMachine, Role
from fencepost.sim.explore import Report, Search
from fencepost.sim.explore.quorum import Bounds, Space, tell

from .explore_bugs import BUGS


def explore(bounds: Bounds, doubts: int = 0) -> tuple[Space, Report]:
    space = Space(bounds, doubts=doubts)
    report = Search(space).run()
    assert report.violation is None, "\n".join(tell(space, report))
    return space, report


# -- the product -------------------------------------------------------------------------------


SPACES = {
    "an election, and duels": Bounds(epochs=1, timeouts=2),
    "an election with a power cut": Bounds(epochs=1, timeouts=1, crashes=1, stays_down=True),
    "an election and a voter that goes": Bounds(epochs=1, timeouts=1, changes=1, first=1),
    "a client's record and late messages": Bounds(epochs=1, timeouts=1, appends=1, late=1, first=1),
    "lost messages": Bounds(epochs=1, timeouts=1, losses=1, first=1),
    "refused connections": Bounds(epochs=2, timeouts=1, refusals=2, first=1),
    "two voters and a third": Bounds(voters=2, others=1, epochs=1, timeouts=1, changes=1, first=1),
}


LARGEST = {
    "an election, and duels",
    "an election with a power cut",
    "a client's record and late messages",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(space, id=name, marks=[pytest.mark.long] if name in LARGEST else [])
        for name, space in SPACES.items()
    ],
)
def test_every_history_of_a_small_quorum_is_sound(bounds: Bounds) -> None:
    space, report = explore(bounds)
    assert report.covered
    assert report.waiting == 0
    assert any(view.role is Role.LEADER for view in space.steps.views)
    assert any(view.high_watermark > 0 for view in space.steps.views)
    sizes = {len(view.voters) for view in space.steps.views}
    assert (bounds.voters - 1 in sizes) == bool(bounds.changes)
    assert (bounds.voters + 1 in sizes) == bool(bounds.others)


@pytest.mark.long
def test_every_history_of_two_elections_is_sound() -> None:
    space, report = explore(Bounds(epochs=2, timeouts=2, first=1))
    assert report.covered
    assert report.states > 100_000
    second = [view for view in space.steps.views if view.role is Role.LEADER and view.epoch == 2]
    assert {view.node_id for view in second} == {1, 2, 3}
    assert any(view.high_watermark > 0 for view in second)


# -- the explorer ------------------------------------------------------------------------------


FAR_AWAY = {
    "changes of voters overlap",
    "logs are not compared",
    "votes are not on disk, and I23 is off",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] if n in FAR_AWAY else []) for n in BUGS],
)
def test_a_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    space = Space(bug.bounds, bug.machine, bug.unwatched)
    with bug.rules.in_force():
        report = Search(space).run(most_states=200_000)
        assert report.violation is not None, f"{name}: not in {report.states} states"
        assert report.violation.split(":")[0] in bug.breaks, report.violation
        story = list(tell(space, report))
    assert story[0] == "  1. 1: the election timer fires"
    assert story[-1] == f"VIOLATION {report.violation}"
    assert len(report.path) <= 20


def test_the_shortest_way_to_what_goes_wrong_is_told() -> None:
    bug = BUGS["voters change before a commit"]
    space = Space(bug.bounds, bug.machine)
    report = Search(space).run()
    story = [line.strip() for line in tell(space, report)]
    assert "3. 2->1 VoteAnswer e0 yes" in story
    assert "1 is candidate in epoch 1, voted for 1, log [], high watermark 0, voters [1, 2, 3]" in (
        story
    )
    assert any(line.startswith("6. an operator asks 1 to remove voter") for line in story)
    assert story[-1] == "VIOLATION I29: 1 changes the voters before it has committed in its epoch"


@pytest.mark.long
def test_states_that_are_taken_for_one_behave_as_one() -> None:
    """What the explorer looks up is what machines with another past do in the same state."""
    bounds = Bounds(
        epochs=2, timeouts=2, crashes=1, changes=1, appends=1, late=1, losses=1, first=1
    )
    space = Space(bounds, doubts=3)
    report = Search(space).run(most_states=8_000)
    assert report.violation is None
    assert space.steps.doubted > 2_000


def test_a_refused_connection_is_among_the_choices() -> None:
    """The follower that is told gives up its leader, and the other one grants its pre-vote."""

    def who_elects_early(bounds: Bounds) -> set[int]:
        space, _ = explore(bounds)
        cells = space.steps._cells
        return {cell.id for cell in cells if cell.machine.following.stood_early_in_epoch >= 0}

    assert who_elects_early(Bounds(epochs=1, timeouts=1, first=1)) == set()
    assert who_elects_early(Bounds(epochs=1, timeouts=1, refusals=1, first=1)) == {2, 3}


def test_who_lost_power_refuses_until_it_acts() -> None:
    space = Space(Bounds(epochs=1, timeouts=1, crashes=1, stays_down=True, first=1))
    refused_by_the_living = 0
    seen, waiting = set(), [space.first()]
    while waiting:
        state = waiting.pop()
        down = space.laws.pasts.values[state.past].down
        for action, following in space.after(state):
            if action.event[0] == "refused":
                refused_by_the_living += action.event[1] not in down
            acted = action.place + 1
            still_down = space.laws.pasts.values[following.past].down
            assert (acted in still_down) == action.outcome.has_died
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    assert refused_by_the_living == 0
    assert any(space.laws.pasts.values[state.past].down for state in seen)


class Restless(QuorumMachine):
    """Counts its steps, and nothing else comes of it."""

    count = 0

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> Any:
        self.count += 1
        return super().step(input_, now_ms, wall_ms)


def test_a_field_that_machines_gain_tells_states_apart() -> None:
    steps = Space(Bounds(), Restless).steps
    first, _ = steps.first(1)
    again = steps.outcome(first, ("crash", 0))
    assert again.cell == first
    flushed = steps.outcome(first, ("flush",))
    assert flushed.cell != first
    assert steps.views[flushed.cell] == steps.views[first]


def test_states_are_packed_without_loss() -> None:
    space = Space(Bounds(epochs=1, crashes=1, appends=2))
    state = space.first()
    for _ in range(12):
        assert space.unpack(space.pack(state)) == state
        state = list(space.after(state))[-1][1]


def test_a_search_that_does_not_finish_says_so() -> None:
    report = Search(Space(Bounds(epochs=2))).run(most_states=1)
    assert not report.covered
    assert report.waiting > 0


def test_bounds_that_make_no_sense_are_refused() -> None:
    for wrong in ({"voters": 0}, {"epochs": 16}, {"crashes": -1}, {"first": 4}, {"others": 3}):
        with pytest.raises(ValueError, match=r"voters|epochs|crashes|wake"):
            Bounds(**wrong)


# -- the command -------------------------------------------------------------------------------


def test_the_command_covers_a_space(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "explore", "--voters", "1", "--epochs", "2", "--appends", "1", "--json"]
    assert main([*arguments, "--crashes", "1"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["covered"] is True
    assert said["waiting"] == 0
    assert said["states"] > 5
    assert said["bounds"]["crashes"] == 1


def test_the_command_says_when_its_budget_ended_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "explore", "--states", "1"]) == 3
    assert "NOT covered: the budget ended with" in capsys.readouterr().out


def test_the_command_finds_an_old_bug(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "explore", "--epochs", "1", "--timeouts", "3"]
    assert main([*arguments, "--ablation", "grants-two-votes"]) == 0
    assert "VIOLATION I22" in capsys.readouterr().out
    assert main([*arguments, "--voters", "1", "--ablation", "grants-two-votes"]) == 1
    assert main([*arguments, "--voters", "9"]) == 2
    assert main([*arguments, "--ablation", "no-such"]) == 2
