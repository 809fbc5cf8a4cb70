"""The process that starts nodes for the JVM of Apache Kafka's tests."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker.config.keys.authorization import STANDARD_AUTHORIZER
from fencepost.client.connection import Connection
from fencepost.testing.ports import free_ports
from fencepost.wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from fencepost.wire.errors import ErrorCode

from ..interop.maven import ROOT
from ..waiting import eventually


@pytest.fixture
def launcher() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.kafka_tests.launcher"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def start(
    launcher: subprocess.Popen[str], directory: Path, principals: str = "", **configs: str
) -> int:
    """Start a node in a directory of its own; its process id."""
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    directory.mkdir()
    configs = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": f"{directory}/data", **configs}
    (directory / "config").write_text("".join(f"{key}={configs[key]}\n" for key in configs))
    launcher.stdin.write("\t".join(f"{directory}/{name}" for name in ("config", "ready", "log")))
    launcher.stdin.write(f"\t{principals}\n")
    launcher.stdin.flush()
    return int(launcher.stdout.readline())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_nodes_that_end_at_once_or_later_leave_the_launcher_at_work(launcher, tmp_path):
    """The JVM sees a node's end by its process id: none may stay behind as a zombie."""
    refused = [start(launcher, tmp_path / f"{i}", **{"node.id": "none"}) for i in range(5)]
    served = start(launcher, tmp_path / "served")
    eventually(lambda: (tmp_path / "served" / "ready").exists())
    eventually(lambda: not any(map(is_alive, refused)))
    assert "node.id" in (tmp_path / "0" / "log").read_text()
    os.kill(served, signal.SIGTERM)
    eventually(lambda: not is_alive(served))


@pytest.mark.slow
def test_nodes_end_with_their_launcher(launcher, tmp_path):
    served = start(launcher, tmp_path / "served")
    eventually(lambda: (tmp_path / "served" / "ready").exists())
    launcher.stdin.close()
    assert launcher.wait(60) == 0
    eventually(lambda: not is_alive(served))


@pytest.mark.slow
def test_clients_are_the_principal_of_their_listener(launcher, tmp_path):
    """As a test's own Java class would have it; ACLs are decided by that."""
    ports = free_ports(2)
    names = ("USERS", "OTHERS")
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in zip(names, ports))
    start(
        launcher,
        tmp_path / "node",
        "USERS=User:ada",
        **{
            "listeners": listeners,
            "listener.security.protocol.map": "USERS:PLAINTEXT,OTHERS:PLAINTEXT",
            "inter.broker.listener.name": "USERS",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:ada",
        },
    )
    eventually(lambda: (tmp_path / "node" / "ready").exists())
    found = []
    for port in ports:
        with Connection("127.0.0.1", port) as connection:
            found.append(connection.request(DescribeUserScramCredentialsRequest()).error_code)
    assert found == [ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
