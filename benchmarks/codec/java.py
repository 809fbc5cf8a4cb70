"""Apache Kafka's own message classes as a contestant, in a Java process beside this one.

They take part when the jars are in the cache of the interop suite and there is a Java that can run
a source file; nothing is fetched. The process times itself, on one request per round.
"""

from __future__ import annotations

import atexit
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.interop.apache import KAFKA

from fencepost.spark.java import JavaNotFoundError, ensure_java_home

PROGRAM = Path(__file__).parent / "java" / "MessageBench.java"
NAME = "Kafka's Java"


class JavaClasses:
    """The running process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def seconds(self, cls: Any, version: int, data: bytes, target_s: float) -> tuple[float, float]:
        """Seconds for one decode and one encode, over `target_s` of each."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        name = f"{cls.kafka_name}Data"
        requests.write(f"{name} {version} {data.hex()} {round(target_s * 1000)}\n")
        requests.flush()
        answer = answers.readline().split()
        if len(answer) != 2:
            raise SystemExit(f"{NAME} gave up on {name} v{version}; its message is above")
        decode_ns, encode_ns = map(float, answer)
        return decode_ns / 1e9, encode_ns / 1e9

    def stop(self) -> None:
        """End the process by the end of its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


@cache
def java_classes() -> JavaClasses | None:
    """The process, started on first use; None when it cannot be had here."""
    if not KAFKA.directory.is_dir():
        return None
    try:
        java = ensure_java_home().home / "bin" / "java"
    except JavaNotFoundError:
        return None
    command = [str(java), "-Xms512m", "-Xmx512m", "-XX:+UseParallelGC"]
    process = subprocess.Popen(
        [*command, "-cp", KAFKA.class_path(), str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    classes = JavaClasses(process)
    atexit.register(classes.stop)
    return classes
