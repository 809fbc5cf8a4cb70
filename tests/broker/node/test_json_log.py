"""`fencepost.log.format=json`: every line of a node's log is a JSON object."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.node.json_log import MESSAGE_CHARACTERS_MAX, JsonFormatter
from fencepost.cli.main import main


def formatted(message: str, *values: object, exc_info: Any = None) -> dict[str, str]:
    record = logging.LogRecord("fencepost.x", 30, "x.py", 1, message, values, exc_info)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found: dict[str, str] = json.loads(line)
    return found


def test_an_event_is_one_line_whatever_is_in_it():
    event = formatted("client %s", 'a"\n{"level": "ERROR"}\udcff')
    assert (event["level"], event["logger"]) == ("WARNING", "fencepost.x")
    assert event["message"] == 'client a"\n{"level": "ERROR"}\udcff'
    assert datetime.fromisoformat(event["time"]).utcoffset() is not None
    assert "exception" not in event
    long = formatted("x" * 50_000)["message"]
    assert long == "x" * MESSAGE_CHARACTERS_MAX + "... (50000 characters)"


def test_a_traceback_is_a_field_of_its_event():
    try:
        raise ValueError("why")
    except ValueError:
        event = formatted("it failed", exc_info=sys.exc_info())
    assert event["message"] == "it failed"
    assert event["exception"].startswith("Traceback")
    assert event["exception"].endswith("ValueError: why")


@pytest.mark.slow
def test_a_node_logs_json_from_its_start_to_its_end(tmp_path: Path):
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--data-dir", str(tmp_path)]
    command += ["--listen", "127.0.0.1:0", "-o", "fencepost.log.format=json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as node:
        try:
            assert node.stderr is not None
            events = []
            for line in node.stderr:
                events.append(json.loads(line))
                if events[-1]["message"].startswith("listening on"):
                    node.terminate()
        finally:
            node.kill()
    assert events[0]["message"].startswith("node 1 on Python")
    assert events[-1] | {"time": ""} == {
        "time": "",
        "level": "INFO",
        "logger": "fencepost",
        "message": "stopped",
    }


def test_another_format_is_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "-o", "fencepost.log.format=xml"]) == 2
    assert "fencepost.log.format" in capsys.readouterr().err
