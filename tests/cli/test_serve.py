"""`fencepost serve` where it cannot be, and what it leaves behind in the process."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli.main import main

from ..ports import address_of, refusing_port
from ..waiting import DEADLINE_S, eventually


def test_the_collector_works_again_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert gc.isenabled()
    assert main(["serve", "-o", "no.such.key=1"]) == 2
    assert "no.such.key" in capsys.readouterr().err
    assert gc.isenabled()


@pytest.mark.slow
def test_a_ready_file_that_cannot_be_written_is_no_start(tmp_path: Path) -> None:
    """What waits for it would wait for ever."""
    path = tmp_path / "missing" / "ready"
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--ready-file", str(path)]
    command += ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1
    (told,) = [line for line in done.stderr.splitlines() if "cannot start" in line]
    assert str(path) in told
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_ready_file_that_cannot_be_removed_is_no_start(tmp_path: Path) -> None:
    """It would be taken for this run's."""
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--ready-file", str(tmp_path)]
    command += ["--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "cannot start" in last and str(tmp_path) in last


@pytest.mark.slow
def test_the_ready_file_of_an_earlier_run_is_gone_while_a_start_waits(tmp_path: Path) -> None:
    """A client that waits for it would go to a port without a listener."""
    ready, config = tmp_path / "ready", tmp_path / "server.properties"
    ready.write_text("127.0.0.1:9092\n")
    with refusing_port() as unused:
        _check_it_goes(ready, config, address_of(unused))


def _check_it_goes(ready: Path, config: Path, controller: str) -> None:
    config.write_text(
        f"process.roles=broker\nnode.id=2\nlog.dirs={config.with_name('data')}\n"
        "listeners=PLAINTEXT://127.0.0.1:0\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@{controller}\n"
    )
    fencepost = [sys.executable, "-m", "fencepost.cli.main"]
    cluster_id = ["--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg"]
    subprocess.run([*fencepost, "format", "--config", str(config), *cluster_id], check=True)
    command = [*fencepost, "serve", "--config", str(config), "--ready-file", str(ready)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: not ready.exists())
        finally:
            process.terminate()


@pytest.mark.slow
def test_the_ready_file_is_written_through_no_link(tmp_path: Path) -> None:
    """It often is in a directory where other users can put links."""
    ready, other = tmp_path / "ready", tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "ready.tmp").symlink_to(other)
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--listen", "127.0.0.1:0"]
    command += ["--data-dir", str(tmp_path / "data"), "--ready-file", str(ready)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(ready.exists)
        finally:
            process.terminate()
    assert other.read_text() == "kept"
    assert not ready.is_symlink()


@pytest.mark.slow
def test_a_start_that_finds_the_directory_in_use_leaves_the_ready_file(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--listen", "127.0.0.1:0"]
    command += ["--data-dir", str(tmp_path / "data"), "--ready-file", str(ready)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(ready.exists)
            again = subprocess.run(command, capture_output=True, text=True, check=False)
            assert again.returncode == 1
            assert f"in use by process {process.pid}" in again.stderr
            assert ready.exists()
        finally:
            process.terminate()


@pytest.mark.slow
def test_a_new_cluster_has_the_levels_that_format_gives_one_and_says_them(tmp_path: Path) -> None:
    formatted = tmp_path / "formatted.properties"
    keys = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "log.dirs": tmp_path / "formatted",
    }
    formatted.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    words = ["format", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg", "--config", str(formatted)]
    assert main(words) == 0
    said = [_finalized_by(tmp_path / name) for name in ("formatted", "new")]
    assert said[0] == said[1]
    assert (
        "eligible.leader.replicas.version=1, group.version=1, kraft.version=0,"
        " metadata.version=33, share.version=2, streams.version=1, transaction.version=2"
    ) in said[0]


def _finalized_by(data_dir: Path) -> str:
    """What a node says of the finalized features when it starts."""
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--data-dir", str(data_dir)]
    command += ["--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as node:
        try:
            assert node.stderr is not None
            lines = iter(node.stderr.readline, "")
            return next(line for line in lines if "finalized features" in line).partition(": f")[2]
        finally:
            node.terminate()


@pytest.mark.slow
@pytest.mark.parametrize("authorizer", [False, True])
def test_an_audit_log_without_an_authorizer_is_said_to_have_logins_alone(
    tmp_path: Path, *, authorizer: bool
) -> None:
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--listen", "127.0.0.1:0"]
    command += ["--data-dir", str(tmp_path / "data"), "--ready-file", str(ready)]
    command += ["-o", f"fencepost.audit.log.path={tmp_path / 'audit.log'}"]
    if authorizer:
        name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        command += ["-o", f"authorizer.class.name={name}", "-o", "super.users=User:ANONYMOUS"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(ready.exists)
        finally:
            process.terminate()
            _, said = process.communicate(timeout=DEADLINE_S)
    warned = [line for line in said.splitlines() if " WARNING " in line and "audit log" in line]
    assert [("authorizer.class.name" in line) for line in warned] == [True] * (not authorizer)
