"""What runs of the simulator come to, in lines and as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pytest

from fencepost.cli.main import main
from fencepost.sim.explore.search import Report
from fencepost.sim.ledger import Ledger
from fencepost.sim.oracle import Violation
from fencepost.sim.run import Outcome
from fencepost.views.json_documents import json_text
from fencepost.views.simulation import Exploration, SimulatedSeeds

SOUND = Outcome(seed=4, fingerprint="f", events=300, simulated_us=7_200_000_000, cpu_seconds=2.0)

COUNTS = {"committed": 1, "elections": 2, "acked": 3, "refused": 4}


def test_a_ledger_adds_up_what_its_view_shows():
    ledger = Ledger(jobs=2)
    broken = dataclasses.replace(SOUND, seed=5, violation=Violation("I26", "two leaders"))
    for outcome in (SOUND, broken):
        ledger.add(dataclasses.replace(outcome, faults={"kill": 2, "clock": 1}, **COUNTS))
    ledger.add_unfinished(6, "killed")
    view = ledger.view(4)
    assert view.sentence == (
        "2 seeds, 4.0 simulated hours, 600 events (150/s per core,"
        " 3600 simulated hours per core-hour), 2 violations"
    )
    assert view.faults == {"clock": 2, "kill": 4}
    assert (view.batches_committed, view.epochs) == (2, 4)
    assert (view.requests_done, view.requests_refused) == (6, 8)
    assert [(one.seed, one.kind, one.text) for one in view.violations] == [
        (5, "I26", "two leaders"), (6, "process", "killed"),
    ]  # fmt: skip
    assert view.probes_never_hit
    assert (view.first_seed, view.ablation, view.jobs) == (4, None, 2)
    assert msgspec.json.decode(json_text(view), type=SimulatedSeeds) == view


def test_a_bug_that_was_put_back_is_found_or_not():
    ledger = Ledger()
    ledger.add(SOUND)
    assert ledger.view(1, "two-votes").verdict == "ablation two-votes: NOT found"
    ledger.add(dataclasses.replace(SOUND, violation=Violation("I1", "")))
    assert ledger.view(1, "two-votes").verdict == "ablation two-votes: found after 2 seeds"


def report(**changed: object) -> Exploration:
    seen: Report[Any, Any] = Report(
        states=1000,
        transitions=2500,
        depth=7,
        seconds=2.0,
        node_states=30,
        steps_taken=40,
        beyond=5,
    )
    for name, value in changed.items():
        setattr(seen, name, value)
    return seen.view({"epochs": 2}, ["1 crashes"] if seen.violation else [])


def test_an_exploration_says_whether_it_is_everything():
    seen = (
        "1,000 states, 2,500 transitions, depth 7, 2 s, 500 states/s; the machines took 40 steps"
        " between 30 states of nodes"
    )
    assert report(covered=True).lines == [
        seen, "covered: every state within the bounds (5 transitions led beyond)",
    ]  # fmt: skip
    assert report(waiting=1234).lines == [
        seen, "NOT covered: the budget ended with 1,234 states not looked at",
    ]  # fmt: skip
    assert report(violation="I22", covered=False).lines == ["1 crashes", seen]
    assert report(waiting=9).progress == (
        "1,000 states, 9 waiting, depth 7, 2,500 transitions, 500 states/s"
    )
    document = json.loads(json_text(report(violation="I22")))
    assert document["bounds"] == {"epochs": 2}
    assert document["violation"] == "I22"
    assert document["story"] == ["1 crashes"]
    assert "path" not in document


def test_the_parts_of_the_simulator_in_lines_and_as_json(capsys: pytest.CaptureFixture[str]):
    assert main(["sim", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert list(listed) == ["faults", "checks", "ablations", "commands"]
    assert all(listed.values())
    assert main(["sim", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(1 + len(entries) for entries in listed.values())
    assert lines[0] == "faults:"
    assert any(line.split(None, 1) == ["kill", listed["faults"]["kill"]] for line in lines)


def test_a_search_says_the_same_in_a_line_and_as_json(capsys: pytest.CaptureFixture[str]):
    words = ["sim", "ablations", "commits-without-disk", "--seeds", "1"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["commits-without-disk"]
    assert (found["seeds"], found["seed"], found["kind"]) == (1, 1, "I26")
    assert said == f"commits-without-disk: {found['says']}\n"


def test_a_shrunk_seed_is_one_value_with_its_story(capsys: pytest.CaptureFixture[str]):
    words = ["sim", "shrink", "1", "--ablation", "commits-without-disk", "--replays", "3"]
    assert main(words) == 0
    *story, last = capsys.readouterr().out.splitlines()
    assert main([*words, "--json"]) == 0
    shrunk = json.loads(capsys.readouterr().out)
    assert shrunk["story"] == story
    assert last == (
        f"seed 1, {shrunk['kind']}: from {shrunk['events_before']} events to {shrunk['events']},"
        f" {shrunk['choices']} choices left, {shrunk['replays']} replays,"
        f" {shrunk['voters']} voters, faults: {', '.join(shrunk['faults'])}"
    )
