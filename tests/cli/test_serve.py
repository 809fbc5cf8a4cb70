"""`fencepost serve` where it cannot be, and what it leaves behind in the process."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli.main import main

from ..waiting import DEADLINE_S


def test_the_collector_works_again_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert gc.isenabled()
    assert main(["serve", "-o", "no.such.key=1"]) == 2
    assert "no.such.key" in capsys.readouterr().err
    assert gc.isenabled()


@pytest.mark.slow
def test_a_ready_file_that_cannot_be_written_is_no_start(tmp_path: Path) -> None:
    """Whoever waits for it would wait for ever."""
    path = tmp_path / "missing" / "ready"
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--ready-file", str(path)]
    command += ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "cannot start" in last and str(path) in last
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_ready_file_that_cannot_be_removed_is_no_start(tmp_path: Path) -> None:
    """It would be taken for this run's."""
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--ready-file", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "cannot start" in last and str(tmp_path) in last


@pytest.mark.slow
def test_the_ready_file_of_an_earlier_run_is_gone_when_the_next_cannot_serve(
    tmp_path: Path,
) -> None:
    """Whoever waits for it would go where nobody listens."""
    path = tmp_path / "ready"
    path.write_text("127.0.0.1:9092\n")
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--ready-file", str(path)]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command += ["--data-dir", str(tmp_path / "data")]
        command += ["--listen", f"127.0.0.1:{taken.getsockname()[1]}"]
        done = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1
    assert not path.exists()
