"""Recordings: what is written is read, and what no recording is says why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencepost.sim.options import Options
from fencepost.sim.recording import Recording, RecordingError, read_recording, replay_recording

RECORDING = Recording(
    7,
    "I22",
    "two votes",
    Options(faults=("kill", "pause"), faults_off=("wipe",), voters=5, on_wire=True),
    {"network": [0, 3], "fault.kill": [1]},
    "grants-two-votes",
)


def test_what_is_written_is_read() -> None:
    assert read_recording(json.dumps(RECORDING.as_json())) == RECORDING


def test_a_file_of_an_older_version_has_no_ablation_and_fewer_options() -> None:
    said = RECORDING.as_json()
    del said["ablation"], said["options"]["joins"]
    assert read_recording(json.dumps(said)).ablation is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no JSON"),
        ("[]", "the file is no JSON object"),
        ("{}", "it has no 'seed'"),
        ('{"a":' * 100_000, "no JSON"),
        ("9" * 5_000, "no JSON"),
    ],
)
def test_garbage_is_no_recording(text: str, says: str) -> None:
    with pytest.raises(RecordingError, match=says):
        read_recording(text)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("seed", -1, "seed: -1 is no number"),
        ("violation", 3, "violation is no JSON string"),
        ("tape", [], "tape is no JSON object"),
        ("tape", {"network": [1.5]}, "tape.network: 1.5 is no number"),
        ("tape", {"network": 1}, "a lane is no JSON array"),
        ("ablation", "grants-two-vote", "did you mean grants-two-votes"),
        ("ablation", {}, "ablation is no JSON string"),
        ("options.voters", 0, "options.voters: 0 is no number from 1 to 50"),
        ("options.voters", 10**9, "is no number from 1 to 50"),
        ("options.safety_ms", True, "options.safety_ms: True is no number"),
        ("options.segment_bytes", "x", "options.segment_bytes: x is no number"),
        ("options.on_wire", 1, "options.on_wire is no JSON boolean"),
        ("options.faults", None, "names the faults that are on"),
        ("options.faults", ["gremlins"], "no fault 'gremlins'"),
        ("options.by_hand", True, "that is for scenarios"),
        ("options.gremlins", 1, "options.gremlins: this version has no such option"),
    ],
)
def test_a_file_that_makes_no_sense_says_where(place: str, value: Any, says: str) -> None:
    said = RECORDING.as_json()
    *outer, name = place.split(".")
    (said[outer[0]] if outer else said)[name] = value
    with pytest.raises(RecordingError, match=says):
        read_recording(json.dumps(said))


def test_the_smallest_sizes_run() -> None:
    for name in ("segment_bytes", "snapshot_bytes", "fetch_max_bytes", "fetch_snapshot_max_bytes"):
        said = RECORDING.as_json()
        said["options"] |= {name: 1, "warm_up_ms": 1_000, "safety_ms": 1_000, "faults": []}
        assert replay_recording(read_recording(json.dumps(said))).events > 0
