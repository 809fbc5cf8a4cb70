"""`fencepost sim`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.sim.listing import first_words

STORY = """\
> voters 1
> start 1
> append 1 a
> settle
> outcomes
"""


def test_seeds_that_hold(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    args = ["sim", "run", "--seeds", "2", "--from", "19", "--faults", "kill"]
    assert main([*args, "--ledger", str(ledger)]) == 0
    assert capsys.readouterr().out.startswith("2 seeds, ")
    said = json.loads(ledger.read_text())
    assert said["seeds"] == 2
    assert set(said["faults"]) <= {"kill"}
    assert said["violations"] == []
    assert said["first_seed"] == 19
    assert said["events_per_second_per_core"] > 0


def test_an_ablation_that_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "--seeds", "20", "--ablation", "commits-without-disk"]) == 0
    assert "ablation commits-without-disk: found after 1 seeds" in capsys.readouterr().out


def test_an_ablation_that_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["sim", "run", "--seeds", "1", "--from", "16", "--faults", "none"]
    assert main([*args, "--ablation", "grants-two-votes"]) == 1
    assert "NOT found" in capsys.readouterr().out


def test_searching_adds_to_a_ledger(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    ledger.write_text('{"seeds": 7}')
    assert main(["sim", "ablations", "commits-without-disk", "--ledger", str(ledger)]) == 0
    said = json.loads(ledger.read_text())
    assert said["seeds"] == 7
    assert said["ablations"]["commits-without-disk"]["seeds"] == 1


def test_a_replay_says_what_a_seed_came_to(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["sim", "replay", "17", "--faults", "none"]
    assert main([*args, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["violation"] is None
    assert len(said["fingerprint"]) == 64
    assert main([*args, "--words"]) == 0
    told = capsys.readouterr().out
    assert said["fingerprint"] in told
    assert "1 starts" in told


def test_a_violation_is_shown_shrunk_and_replayed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bug = ["--ablation", "commits-without-disk"]
    assert main(["sim", "replay", "1", *bug]) == 1
    assert "violation: I26" in capsys.readouterr().out
    out = tmp_path / "found.json"
    assert main(["sim", "shrink", "1", *bug, "--replays", "60", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "VIOLATION I26" in shown.out
    assert "... " in shown.err
    assert main(["sim", "replay", str(out)]) == 1, "the file knows of the bug"
    assert "violation: I26" in capsys.readouterr().out
    without = ["sim", "replay", str(out), "--ablation", "none"]
    assert main(without) == 0, "without the bug the same tape is harmless"
    out.write_text(out.read_text().replace('"commits-without-disk"', "null"))
    capsys.readouterr()
    assert main(["sim", "replay", str(out)]) == 1
    assert "the recorded violation I26 did not come out" in capsys.readouterr().err
    assert main(["sim", "replay", str(out), "--faults", "kill"]) == 2
    assert "a recording has faults of its own" in capsys.readouterr().err


def test_a_story_is_played(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    story = tmp_path / "story.txt"
    story.write_text(STORY)
    assert main(["sim", "play", str(story)]) == 0
    assert "a: NONE at 1" in capsys.readouterr().out
    story.write_text(STORY + "> deliver 1->2 Vote\n")
    assert main(["sim", "play", str(story)]) == 1
    assert "VIOLATION script: no message 1->2 Vote" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--faults", "kil"], "no fault 'kil'; did you mean kill?"),
        (["run", "--ablation", "gremlins"], "no ablation 'gremlins'; see `fencepost sim list`"),
        (["run", "--ablation", "two-votes"], "; did you mean grants-two-votes?"),
        (["run", "--seeds", "0"], "--seeds 0: it is at least 1"),
        (["run", "--from", "-1"], "--from -1: it is at least 0"),
        (["run", "--jobs", "100000"], "--jobs 100000: it is at most 256"),
        (["run", "--minutes", "nan"], "--minutes nan: it is a number of minutes"),
        (["run", "--ledger", "/"], "sim: /: Is a directory"),
        (["shrink", "5", "--out", "/no/such/directory"], "sim: /no/such/directory: No"),
        (["shrink", "5", "--replays", "-3"], "--replays -3: it is at least 1"),
        (["replay", "/dev/zero"], "/dev/zero: it is longer than"),
        (["ablations", "--ledger", "/"], "sim: /: Is a directory"),
        (["ablations", "--jobs", "0"], "--jobs 0: it is at least 1"),
        (["explore", "--minutes", "nan"], "--minutes nan: it is a number of minutes"),
        (["explore", "--ablation", "two-votes"], "; did you mean grants-two-votes?"),
        (["explore", "--logs", "99999999999//"], "epochs go to 15"),
        (["replay", "no-such-file.json"], "sim: no-such-file.json: No such file"),
        (["shrink", "19", "--faults", "none"], "seed 19 does not fail"),
        (["ablations", "gremlins"], "no ablation 'gremlins'"),
        (["play", "no-such-file.txt"], "sim: no-such-file.txt: No such file"),
    ],
)
def test_what_makes_no_sense(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main(["sim", *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 100_000])
def test_what_is_no_ledger_is_told_before_the_search(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    ledger = tmp_path / "ledger.json"
    ledger.write_text(text)
    assert main(["sim", "ablations", "commits-without-disk", "--ledger", str(ledger)]) == 2
    assert "this is no ledger" in capsys.readouterr().err
    assert ledger.read_text() == text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("voters 0", "a world has 1 to 50 voters"),
        ("voters 1000000000", "a world has 1 to 50 voters"),
        ("voters 3 observers=1000000000", "50 others at most"),
        ("dynamic 3 others=51", "50 others at most"),
        ("voters 1\n> wait 99999999999", "a wait is 0 to 3600000 ms"),
        ("voters 1\n> start 1\n> clock 1 x0", "a clock runs 0.001 to 1000 times as fast"),
        ("voters 1\n> start 1\n> clock 1 x-5", "a clock runs"),
        ("voters 1\n> start 1\n> clock 1 xnan", "a clock runs"),
        ("voters 1\n> start 1\n> clock 1 x1e308", "a clock runs"),
        ("voters 1\n> start 1\n> clock 1 +99999999999999999", "a clock is set by"),
        ("voters 1\n> show\n> append 1 a", "node 1 was never started"),
        ("voters 1\n> start 1\n> settle\n> corrupt 1 99", "no batch with offset 99"),
        ("voters 1 brokers=1\n> producer-id p0 2", "p0 is no producer; there are p1, p2, ..."),
        ("voters 1 brokers=1\n> producer-id p5 2", "p5 is no producer"),
    ],
)
def test_a_story_that_cannot_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, says: str
) -> None:
    story = tmp_path / "story.txt"
    story.write_text(f"> {line}\n")
    assert main(["sim", "play", str(story)]) == 2
    assert says in capsys.readouterr().err


def test_a_story_with_a_word_that_is_no_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    story = tmp_path / "story.txt"
    for text, says in [
        ("> dance 1\n", "story.txt: line 1: no command 'dance'; "),
        ("> voters 1\n\n> stat 1\n", "story.txt: line 3: no command 'stat'; did you mean start"),
        (">\n", "line 1: no command ''"),
        ("> start 1\n", "line 1: a scenario begins with"),
        ("> voters 1 gremlins=2\n", "a world has no gremlins"),
        ("# one\n> voters 1\n> start 2\n", "line 3: 2 is no node"),
        ("> voters 1\n> wait\n", "line 2: wait: wants more words; `wait MS`: let time"),
        ("> voters some\n", "line 1: voters some: invalid literal"),
    ]:
        story.write_text(text)
        assert main(["sim", "play", str(story)]) == 2
        assert says in capsys.readouterr().err


def test_what_there_is_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "list", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"faults", "checks", "ablations", "commands"}
    assert all(says for kind in said.values() for says in kind.values())
    assert main(["sim", "list"]) == 0
    assert "grants-two-votes" in capsys.readouterr().out


def test_a_fault_of_ones_own_needs_no_words_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("of_ones_own")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    told = type("Told", (), {"__module__": module.__name__, "__doc__": "By its class.\n\nMore."})
    silent = type("Silent", (), {"__module__": module.__name__})
    assert first_words(told) == "By its class."
    assert first_words(silent) == "(says nothing of itself)"
    module.__doc__ = "By its file."
    assert first_words(told) == "By its file."
