"""The processes of a read-process-write chain: with which clients there are any, and how they run.

`exactly_once_chain` has the chains in Python, `java/ExactlyOnceChain.java` and `go/main.go` the
others, which are compiled once per test. What is missing for one of them skips its tests.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..interop import apache
from ..interop.conftest import jars_or_skip

ROOT = Path(__file__).resolve().parents[2]
JAVA = Path(__file__).with_name("java") / "ExactlyOnceChain.java"
GO = Path(__file__).with_name("go")
BUILD_TIMEOUT_S = 300
CLIENTS = ("ours", "ours-asyncio", "confluent", "aiokafka", "java", "franz-go")
ALONE = {"aiokafka"}
"""Clients that cannot share a group's partitions out among chains: see `exactly_once_chain`."""


def command_of(client: str, directory: Path) -> list[str]:
    """How a chain by `client` is started, with its arguments to follow; compiles it in `directory`
    where that has to be, and skips the test where that cannot be."""
    if client == "java":
        return _java(directory)
    if client == "franz-go":
        return [str(_go(directory))]
    return [sys.executable, "-m", "tests.replication.exactly_once_chain", client]


def _java(directory: Path) -> list[str]:
    jars = jars_or_skip(apache.KAFKA)
    classes = directory / "classes"
    compiler = str(apache.java().with_name("javac"))
    _run(compiler, "-cp", jars.class_path(), "-d", str(classes), str(JAVA))
    command = apache.java_command("ExactlyOnceChain", jvm=(*apache.QUICK_JVM, "-Xshare:auto"))
    class_path = command.index("-cp") + 1
    command[class_path] = os.pathsep.join((str(classes), command[class_path]))
    return command


def _go(directory: Path) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    missing = _missing_modules(go)
    if missing is not None:
        pytest.skip(f"franz-go cannot be had: {missing}")
    built = directory / "chain"
    _run(go, "-C", str(GO), "build", "-buildvcs=false", "-o", str(built), ".")
    return built


@functools.cache
def _missing_modules(go: str) -> str | None:
    """Why the modules that the chain needs are neither here nor to be had."""
    done = subprocess.run(
        [go, "-C", str(GO), "mod", "download"],
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    return done.stderr.strip() if done.returncode != 0 else None


def _run(*command: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr


class Chain:
    """A process of a chain, which is there again soon whenever it ends."""

    def __init__(self, command: list[str], group: str, name: str, servers: str, log: Path) -> None:
        self._command = [*command, servers, group, name, "source", "target"]
        self.name = name
        self.gave_up = 0
        """How often it has ended by itself."""
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def keep_running(self) -> None:
        """Start it unless it runs."""
        if self._process is not None and self._process.poll() is not None:
            self.gave_up += 1
            self._process = None
        if self._process is None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def tail(self) -> str:
        """What it said last."""
        return self._log.read_text(errors="replace")[-3_000:] if self._log.exists() else ""
