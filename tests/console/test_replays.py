"""Stories of simulated runs: lines as steps, steps as swim lanes, in the console and as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("htpy")

from fencepost.cli.main import main
from fencepost.console.drawing.lanes import lanes
from fencepost.views.story import StoryStep, steps_of

BUG = "commits-without-disk"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shrunk run of a bug that was put back."""
    path = tmp_path_factory.mktemp("recordings") / "found.json"
    command = ["sim", "shrink", "1", "--ablation", BUG, "--replays", "5", "--out", str(path)]
    assert main(command) == 0
    return path


def test_lines_of_a_replay_are_steps():
    lines = [
        "     0.328  101->2 Fetch e0 from 0, last e0",
        "     1.000  3 candidate  e2 of ?   hw 0, end 4",
        "     2.500  ** cut: 1-2",
        "     3.000  all is well again",
        "what is not a line of it",
    ]
    assert steps_of(lines) == [
        StoryStep(0.328, "message", 101, 2, "Fetch e0 from 0, last e0"),
        StoryStep(1.0, "node", 3, None, "candidate  e2 of ?   hw 0, end 4"),
        StoryStep(2.5, "fault", None, None, "cut: 1-2"),
        StoryStep(3.0, "note", None, None, "all is well again"),
    ]


def test_lanes_say_in_text_what_they_draw_and_draw_no_markup():
    steps = steps_of(["1.000  1->2 <b>&", "2.000  ** \x1b[31m", "3.000  9->1 from no lane"])
    drawing = lanes("a story", steps, [1, 2])
    assert len(drawing.lines) == 3
    assert "<b>" not in drawing.svg and "&lt;b&gt;&amp;" in drawing.svg
    assert "\x1b" not in drawing.svg
    assert "style" not in drawing.svg
    assert drawing.svg.count('class="tip"') == 1


def test_a_recording_is_shown_step_by_step(recording: Path, browse):
    console = browse("127.0.0.1:1", recordings=(recording.parent,))
    assert [
        (row["name"], row["bug"])
        for row in console.get("/api/replays").json()["sections"][0]["document"]
    ] == [("found.json", BUG)]
    document = console.get("/api/replays/found.json").json()
    (section,) = document["sections"]
    assert section["sentences"][0]["level"] == "bad", "the violation came out again"
    every = console.get("/api/replays/found.json?messages=all&first=0").json()
    first = every["sections"][0]["document"][0]
    assert first["kind"] in ("node", "message", "note", "fault")
    assert all("kind" in step for step in section["document"])
    assert "<svg" in console.get("/replays/found.json").text


@pytest.mark.parametrize("name", ["absent.json", "..%2F..%2Fetc%2Fpasswd", "%00"])
def test_only_given_recordings_are_read(recording: Path, browse, name: str):
    console = browse("127.0.0.1:1", recordings=(recording,))
    assert console.get(f"/api/replays/{name}").status_code == 404


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seed": 1}', "\x00" * 100])
def test_what_is_no_recording_says_so(tmp_path: Path, browse, text: str):
    (tmp_path / "bad.json").write_text(text)
    console = browse("127.0.0.1:1", recordings=(tmp_path,))
    (row,) = console.get("/api/replays").json()["sections"][0]["document"]
    assert row["kind"].startswith("cannot be read: ")
    assert console.get("/api/replays/bad.json").status_code == 404


def test_a_replay_is_drawn_in_a_file_of_its_own(recording: Path, tmp_path: Path, capsys):
    drawn = tmp_path / "story.html"
    assert main(["sim", "replay", str(recording), "--html", str(drawn)]) == 1
    text = drawn.read_text()
    assert "<svg" in text and "href=" not in text and "src=" not in text
    assert main(["sim", "replay", str(recording), "--html", "/no/such/dir/x.html"]) == 2
    assert main(["sim", "replay", "1", "--html", str(drawn), "--words"]) == 2
    assert "one of them" in capsys.readouterr().err
