"""A broker that may have few files open, and clients that want them all (EMFILE)."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.testing import Cluster

from ..waiting import DEADLINE_S, eventually
from .door import Client, connect
from .test_bad_disks import SLICE, batch, create, produce, read_all

pytestmark = pytest.mark.slow

FILES = 96


@pytest.fixture
def frugal_python(tmp_path: Path) -> str:
    """An interpreter that may have `FILES` files open; the tests' own process keeps its limit."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nulimit -n {FILES}\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def cluster(frugal_python: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A broker that may have `FILES` files open, and has small segments."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", frugal_python)
        cluster = Cluster(log_segment_bytes=1 << 20, **SLICE)
        cluster.start()
    with contextlib.closing(cluster):
        yield cluster


def open_files(cluster: Cluster) -> int:
    return len(os.listdir(f"/proc/{cluster.pid}/fd"))


def crowd(cluster: Cluster, stack: contextlib.ExitStack, count: int) -> list[socket.socket]:
    """So many connections, held open; those that were refused are hung up on."""
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return [
        stack.enter_context(socket.create_connection((host, int(port)), timeout=DEADLINE_S))
        for _ in range(count)
    ]


def work(client: Client, values: list[bytes]) -> None:
    """Several segments of records and a new topic, then all is read back."""
    for _ in range(6):
        value = b"%d" % len(values) * 200_000
        assert produce(client, batch(value)).error_code == 0
        values.append(value)
    create(client, f"topic-{len(values)}")
    assert read_all(client) == values


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in /proc")
def test_connections_cannot_take_the_files_that_logs_need(cluster: Cluster):
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(connect(cluster))
        create(client)
        values: list[bytes] = []
        work(client, values)
        with contextlib.ExitStack() as others:
            held = crowd(cluster, others, 2 * FILES)
            assert held[-1].recv(1) == b"", "hung up on"
            assert open_files(cluster) < FILES
            work(client, values)
            work(client, values)
            assert f"of {FILES} open files (ulimit -n) the rest is for logs" in cluster.log_text
        eventually(lambda: open_files(cluster) < FILES // 2, "connections are let go of")
        with connect(cluster) as late:
            work(late, values)
        assert "Traceback" not in cluster.log_text
        assert "offline" not in cluster.log_text
        assert cluster.stop() == 0
