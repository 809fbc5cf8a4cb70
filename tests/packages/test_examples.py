"""The layouts in examples/ run as their pages say; tests/spark runs the jobs of examples/orders."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.testing.ports import free_ports

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TIMEOUT_S = 300
ATTEMPTS = 100
NODES_PORTS = (0, 1, 2, 100, 101, 102, 200, 201, 202)


def run(*command: object, cwd: Path, **environment: str) -> str:
    """What a command prints; AssertionError with it if the command fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def copied(name: str, place: Path) -> Path:
    """The example by itself, as one would begin with it."""
    return Path(shutil.copytree(EXAMPLES / name, place / name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["application", "client_faults"])
def test_an_examples_tests_pass_with_pytest(name: str, tmp_path: Path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    assert " passed" in run(*command, cwd=copied(name, tmp_path))


@pytest.mark.slow
def test_an_applications_tests_pass_with_unittest(tmp_path: Path):
    place = copied("application", tmp_path)
    command = [sys.executable, "-m", "unittest", "tests/test_shop_unittest.py"]
    assert "\nOK\n" in run(*command, cwd=place)


def first_port() -> int:
    """A port from which on all are free that the script `nodes` listens on."""
    for _ in range(ATTEMPTS):
        (port,) = free_ports(1)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for of in NODES_PORTS:
                stack.enter_context(socket.create_server(("127.0.0.1", port + of)))
            return port
    raise AssertionError("no such ports")


@pytest.mark.long
def test_an_operators_three_nodes_begin_where_they_were(tmp_path: Path):
    place = copied("nodes", tmp_path)
    program = Path(sys.executable).parent / "fencepost"
    nodes = tmp_path / "cluster"
    port = first_port()
    variables = {"FENCEPOST_NODES_PORT": str(port), "FENCEPOST": str(program)}
    reach = ["-b", f"127.0.0.1:{port}", "--client-config", nodes / "tls" / "admin.properties"]
    try:
        assert f"clients: -b 127.0.0.1:{port}" in run(
            "./nodes", "start", nodes, cwd=place, **variables
        )
        run(program, "topics", "create", "orders", *reach, cwd=tmp_path)
        run("sh", "-c", 'echo hello | "$0" produce orders "$@"', program, *reach, cwd=tmp_path)
        run("./nodes", "stop", nodes, cwd=place, **variables)
        run("./nodes", "start", nodes, cwd=place, **variables)
        assert run(program, "consume", "orders", *reach, cwd=tmp_path) == "hello\n"
        described = run(program, "topics", "describe", "orders", *reach, cwd=tmp_path)
        assert len(described.splitlines()[-1].split()[3].split(",")) == 3
    finally:
        run("./nodes", "stop", nodes, cwd=place, **variables)
