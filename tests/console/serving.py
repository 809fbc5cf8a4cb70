"""The console as a process of its own, on a free port."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.waiting import DEADLINE_S


@dataclass
class ServedConsole:
    """A console that runs: its URL as printed, its process, and what it wrote on stderr."""

    url: str
    process: subprocess.Popen[str]
    stderr: list[str] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return self.url.partition("?")[0].rstrip("/")


@contextlib.contextmanager
def serving(bootstrap: str, *options: str) -> Iterator[ServedConsole]:
    """`fencepost console` of a cluster, until the context ends."""
    listen = () if "--listen" in options else ("--listen", "127.0.0.1:0")
    command = [sys.executable, "-m", "fencepost.cli.main", "console", "-b", bootstrap]
    process = subprocess.Popen(
        [*command, *listen, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    told: list[str] = []
    reader = threading.Thread(target=lambda: told.extend(process.stderr or ()), daemon=True)
    reader.start()
    try:
        said = process.stdout.readline()
        assert " is at http" in said, f"{said!r} {told}"
        yield ServedConsole(said.rpartition(" is at ")[2].strip(), process, told)
    finally:
        process.terminate()
        try:
            process.wait(timeout=DEADLINE_S)
        finally:
            process.kill()
            reader.join(timeout=DEADLINE_S)
            process.stdout.close()
            process.stderr.close()
