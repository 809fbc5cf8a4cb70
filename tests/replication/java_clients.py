"""Apache Kafka's own clients, which write and read all the time in a process of their own."""

from __future__ import annotations

import subprocess
import threading
from abc import abstractmethod
from pathlib import Path
from typing import IO

from ..interop.apache import java_command
from .history import Place, Record
from .writers import PAUSE_S, Reader, Worker, Writer

SOURCE = Path(__file__).with_name("java") / "ChaosClient.java"


class JavaWorker(Worker):
    """Runs `ChaosClient` and takes down what it says."""

    _process: subprocess.Popen[str] | None = None

    def _run(self) -> None:
        command = java_command(str(SOURCE), *map(str, self.arguments()))
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            self._process = process
            threading.Thread(target=self._end_input, args=(process.stdin,), daemon=True).start()
            try:
                for line in process.stdout:
                    self.take(line.rstrip("\n").split(" ", 3))
            finally:
                process.kill()  # it has closed its output, or we have failed
        assert self._stopping.is_set(), f"{self.name} has ended by itself"

    def _end_input(self, stdin: IO[str]) -> None:
        self._stopping.wait()
        stdin.close()

    def abandon(self) -> None:
        """End it now, whatever it still waits for."""
        super().abandon()
        if self._process is not None:
            self._process.kill()

    @abstractmethod
    def arguments(self) -> list[object]:
        """What the program is told."""

    @abstractmethod
    def take(self, words: list[str]) -> None:
        """A line of its output."""


class JavaWriter(JavaWorker, Writer):
    """KafkaProducer."""

    def arguments(self) -> list[object]:
        pause_ms = int(PAUSE_S * 1000)
        return ["write", self.bootstrap, self.topic, self.partitions, self.name, pause_ms]

    def take(self, words: list[str]) -> None:
        what, number, *place = words
        record = Record(self.name, int(number))
        if what == "sent":
            self.sent.append(record)
        else:
            self.acknowledged[record] = Place(int(place[0]), int(place[1]))


class JavaReader(JavaWorker, Reader):
    """KafkaConsumer."""

    def arguments(self) -> list[object]:
        return ["read", self.bootstrap, self.topic, self.partitions]

    def take(self, words: list[str]) -> None:
        _, partition, offset, value = words
        self.seen.append((Place(int(partition), int(offset)), Record.parse(value.encode())))
