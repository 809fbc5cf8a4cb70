"""Runs what files for containers run, in directories of this machine and on its loopback.

A file names paths and addresses of its own: `/etc/fencepost`, `kafka-1:9092`. Here each node has a
directory in the place of its paths, and an address that some node of the file listens on has a free
port of loopback. Commands are otherwise those of the file.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from fencepost.testing.ports import LOOPBACK, free_ports

from ..waiting import DEADLINE_S, eventually

RUN = "from fencepost.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"
CERTIFICATES, DATA = "/etc/fencepost/certificates", "/var/lib/fencepost"


class Sandbox:
    """Directories, addresses and processes of the nodes of a file."""

    def __init__(self, directory: Path, host: str) -> None:
        """`host` is a regular expression: a host of the file."""
        self.directory = directory
        self.certificates = directory / "certificates"
        self.certificates.mkdir()
        self._address = re.compile(rf"(?<![\w.-])({host}|127\.0\.0\.1|):(\d{{4}})\b")
        self._ports: dict[tuple[str, str, str], int] = {}
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}

    def here(self, node: str, text: str) -> str:
        """A text of the file as it is for this node here."""
        text = text.replace(CERTIFICATES, str(self.certificates))
        text = text.replace(DATA, str(self.directory / node / "data"))
        text = text.replace("/etc/fencepost", str(self.directory / node))
        return self._address.sub(lambda found: self.address(node, found[1], found[2]), text)

    def address(self, node: str, host: str, port: str) -> str:
        """Of a host and port of the file; a node's own loopback is no other's."""
        own = host in ("", "127.0.0.1")
        key = (node if own else host.partition(".")[0], port, "")
        if key not in self._ports:
            (self._ports[key],) = free_ports(1)
        return f"{LOOPBACK}:{self._ports[key]}"

    def configure(self, node: str, name: str, text: str) -> None:
        """Put a file of the node's configuration where commands find it."""
        path = self.directory / node / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(self.here(node, text))

    def run(self, node: str, words: list[str], given: str | None = None) -> str:
        """What a command prints; AssertionError with what it says if it fails."""
        command = [sys.executable, "-c", RUN, *(self.here(node, word) for word in words)]
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def serve(self, node: str, words: list[str]) -> None:
        """Start a node; its log is `log.txt` in its directory."""
        command = [sys.executable, "-c", RUN, *(self.here(node, word) for word in words)]
        with (self.directory / node / "log.txt").open("wb") as log:
            self._nodes[node] = subprocess.Popen(command, stderr=log, cwd=self.directory)

    def wait_until_ready(self) -> None:
        """Until all nodes say on their metrics' listeners that they are."""
        for node, process in self._nodes.items():
            url = f"http://{self.address(node, '', '9404')}/ready"
            eventually(lambda url=url, process=process: answers(url) or process.poll() is not None)
            log = (self.directory / node / "log.txt").read_text()
            assert process.poll() is None, log[-3000:]

    def stop(self) -> list[int]:
        """Stop all nodes in order; their exit codes."""
        for process in self._nodes.values():
            process.send_signal(signal.SIGTERM)
        return [process.wait(DEADLINE_S) for process in self._nodes.values()]

    def close(self) -> None:
        """End what still runs."""
        for process in self._nodes.values():
            process.kill()
            process.wait()


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=DEADLINE_S) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def tool(name: str) -> str:
    """Where a program is; KeyError if it is not on this machine."""
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if path is None:
        raise KeyError(name)
    return path
