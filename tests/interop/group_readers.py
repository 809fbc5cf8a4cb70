"""Members of groups by other people's clients, as processes that say what they have and read.

Every reader prints the same lines (`go/reader/main.go`), with the time of this machine's clock, so
the lines of several readers can be put in order. `conflicts` and `missing` judge them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from ..waiting import DEADLINE_S
from .apache import QUICK_JVM, java
from .maven import ROOT, JarSet
from .oracle import PROGRAMS

HERE = Path(__file__).parent
BUILD_S = 300
CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"


class Line(NamedTuple):
    """One fact that a reader told."""

    time_ns: int
    reader: str
    what: str
    """`+` given, `-` taken, `r` read."""
    partition: int
    offset: int = -1


@dataclass
class Reader:
    """A running reader."""

    name: str
    process: subprocess.Popen[str]
    lines: list[Line] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            time_ns, what, *rest = text.split(maxsplit=2)
            if what in "+-r":
                numbers = [int(word) for word in rest[0].split()]
                self.lines.append(Line(int(time_ns), self.name, what, *numbers))
            elif what == "error":
                self.errors.append(text.strip())

    @property
    def held(self) -> frozenset[int]:
        """The partitions that it has now."""
        found: set[int] = set()
        for line in list(self.lines):
            if line.what == "+":
                found.add(line.partition)
            elif line.what == "-":
                found.discard(line.partition)
        return frozenset(found)

    @property
    def read(self) -> list[tuple[int, int]]:
        """Partition and offset of every record, in the order in which it read them."""
        return [(line.partition, line.offset) for line in list(self.lines) if line.what == "r"]

    def leave(self) -> None:
        """Let it close its client, and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._wait()

    def kill(self) -> None:
        """End it without a word to the broker."""
        self.process.kill()
        self._wait()

    def _wait(self) -> None:
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(DEADLINE_S)
            raise AssertionError(f"{self.name} does not leave") from None
        finally:
            self._thread.join(DEADLINE_S)
            assert self.process.stdout is not None
            self.process.stdout.close()


@dataclass
class Readers:
    """Starts readers of every library against one cluster, and ends them with the test."""

    servers: str
    jars: JarSet
    all: list[Reader] = field(default_factory=list)

    def java(self, group: str, topic: str, protocol: str, **config: str) -> Reader:
        """Kafka's own consumer."""
        program = [str(java()), *QUICK_JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        program += ["-cp", self.jars.class_path(), str(PROGRAMS / "GroupReader.java")]
        return self._start("java", program, group, topic, protocol, config)

    def confluent(self, group: str, topic: str, protocol: str, **config: str) -> Reader:
        """librdkafka's."""
        program = [sys.executable, str(HERE / "confluent_reader.py")]
        return self._start("confluent", program, group, topic, protocol, config)

    def franz(self, group: str, topic: str, protocol: str) -> Reader:
        """franz-go's."""
        return self._start("franz", [str(go_program("reader"))], group, topic, protocol, {})

    def _start(
        self,
        name: str,
        program: list[str],
        group: str,
        topic: str,
        protocol: str,
        config: dict[str, str],
    ) -> Reader:
        pairs = [f"{key.replace('_', '.')}={value}" for key, value in config.items()]
        process = subprocess.Popen(
            [*program, self.servers, group, topic, protocol, *pairs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.all.append(Reader(f"{name}-{protocol}-{len(self.all)}", process))
        return self.all[-1]

    def lines(self) -> list[Line]:
        """What all of them told, in the order of time."""
        return sorted(line for reader in self.all for line in list(reader.lines))

    def close(self) -> None:
        for reader in self.all:
            if reader.process.poll() is None:
                reader.kill()


def go_program(name: str) -> Path:
    """A program of franz-go, built once; the test is skipped where that is not possible."""
    cache = Path(os.environ.get("FENCEPOST_INTEROP_CACHE") or ROOT / ".cache" / "interop")
    source = HERE / "go" / name
    program = cache / f"go-{name}"
    newest = max(path.stat().st_mtime for path in source.iterdir())
    if program.exists() and program.stat().st_mtime > newest:
        return program
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    cache.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOPATH": str(cache / "go"), "GOFLAGS": "-modcacherw"}
    done = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"franz-go cannot be built: {done.stderr.strip()[-300:]}")
    return program


def conflicts(lines: Iterable[Line]) -> list[str]:
    """Where two readers had a partition at the same time, in words."""
    holders: dict[int, str] = {}
    found = []
    for line in lines:
        holder = holders.get(line.partition)
        if line.what == "+":
            if holder not in (None, line.reader):
                found.append(f"partition {line.partition}: {line.reader} beside {holder}")
            holders[line.partition] = line.reader
        elif line.what == "-" and holder == line.reader:
            del holders[line.partition]
        elif line.what == "r" and holder not in (None, line.reader):
            found.append(
                f"partition {line.partition}: {line.reader} reads {line.offset} beside {holder}"
            )
    return found


def missing(lines: Iterable[Line], ends: dict[int, int]) -> list[tuple[int, int]]:
    """Records below these end offsets that no reader has read."""
    wanted = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    return sorted(wanted - {(one.partition, one.offset) for one in lines if one.what == "r"})
