"""Runs the procedures of docs/OPERATIONS.md: its property files and commands, on nodes of its own.

A machine of the page is a directory here, and an address HOST:PORT of the page a free port of
loopback. `systemctl` starts and stops the node with the machine's property file; every other
command is given to bash as the page has it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.testing.launcher import Launcher
from fencepost.testing.node_process import NodeProcess
from fencepost.testing.ports import LOOPBACK, free_ports

from ..waiting import DEADLINE_S, eventually

PAGE = Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md"
COMMAND_TIMEOUT_S = 400
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ADDRESS = re.compile(r"\b([hcb]\d):(\d+)")
_HOSTS = re.compile(r"\b[hcb]\d\b")
_OWN_KEYS = ("node.id=", "listeners=", "fencepost.metrics.listener=")
_UNTIL = "# until it prints "
_LEAVE = "# leave it running; it says "


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is used, and what is in it."""

    language: str
    place: str
    lines: tuple[str, ...]

    @property
    def hosts(self) -> list[str]:
        return _HOSTS.findall(self.place)


def procedure(heading: str) -> list[Block]:
    """The blocks of a section that name a machine, in order; AssertionError if it has none."""
    (_, text) = PAGE.read_text().split(f"\n{heading}\n")
    text = re.split(r"^#{2,3} ", _masked(text), maxsplit=1, flags=re.MULTILINE)[0]
    found = []
    for language, body in _FENCE.findall(text.replace("\0", "#")):
        place, *lines = body.replace("\\\n", " ").splitlines()
        if place.startswith("# ") and _HOSTS.search(place):
            found.append(Block(language, place, tuple(lines)))
    assert found, f"{heading}: no block to run"
    return found


def _masked(text: str) -> str:
    """Comments in blocks are no headings."""
    return _FENCE.sub(lambda match: match[0].replace("#", "\0"), text)


def operators_variable() -> str:
    """What FENCEPOST_BOOTSTRAP is in the operator's shell."""
    (found,) = re.findall(r"^export FENCEPOST_BOOTSTRAP=(\S+)$", PAGE.read_text(), re.MULTILINE)
    return str(found)


def served_config() -> str:
    """The property file that the unit file starts a node with."""
    (found,) = re.findall(r"^ExecStart=\S+/fencepost serve --config (\S+)$", PAGE.read_text(), re.M)
    return str(found)


class Site:
    """The machines of the page."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "backup").mkdir()
        self.format_options = ""
        """Added to each `fencepost format`."""
        self._launcher = Launcher()
        self._ports: dict[tuple[str, str], int] = {}
        self._nodes: dict[str, NodeProcess] = {}
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []

    # -- machines ------------------------------------------------------------------------------

    def node(self, host: str) -> NodeProcess:
        """The node of a machine: the one that its unit file starts."""
        if host not in self._nodes:
            config = Path(self.here(host, served_config()))
            assert config.name == "server.properties"
            config.parent.mkdir(parents=True, exist_ok=True)
            self._nodes[host] = NodeProcess(host, config.parent, self._launcher)
        return self._nodes[host]

    def here(self, host: str, text: str) -> str:
        """A text of the page with the addresses and paths that it has on this machine."""
        text = text.replace("$(hostname)", host)
        text = _ADDRESS.sub(lambda match: f"{LOOPBACK}:{self._port(match[1], match[2])}", text)
        for place in ("/etc/fencepost", "/var/lib"):
            text = text.replace(place, str(self.directory / host / place[1:]))
        return text.replace("/mnt/backup", str(self.directory / "backup"))

    def _port(self, host: str, port: str) -> int:
        if (host, port) not in self._ports:
            (self._ports[host, port],) = free_ports(1)
        return self._ports[host, port]

    def close(self) -> None:
        """End all nodes and commands that still run."""
        for process, _ in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE_S)
        for node in self._nodes.values():
            node.terminate()
        for node in self._nodes.values():
            if node.running:
                node.wait()
        self._launcher.close()

    # -- procedures ----------------------------------------------------------------------------

    def carry_out(self, heading: str) -> None:
        """A procedure from its first block to its last."""
        for block in procedure(heading):
            self.run(block)

    def run(self, block: Block) -> None:
        """A block, on each of its machines in turn."""
        for host in block.hosts:
            if block.language == "properties":
                self._write_config(host, block)
            else:
                self._run_commands(host, block.lines)

    def _write_config(self, host: str, block: Block) -> None:
        first = block.hosts[0]
        number = int(host[1:]) - int(first[1:])
        lines = []
        for line in block.lines:
            if line.startswith(_OWN_KEYS):
                line = line.replace(first, host)
            if line.startswith("node.id="):
                line = f"node.id={int(line.partition('=')[2]) + number}"
            lines.append(self.here(host, line))
        self.node(host).config_path.write_text("\n".join(lines) + "\n")

    def _run_commands(self, host: str, lines: tuple[str, ...]) -> None:
        until = leave = ""
        for line in lines:
            if line.startswith(_UNTIL):
                until = line.removeprefix(_UNTIL)
            elif line.startswith(_LEAVE):
                leave = line.removeprefix(_LEAVE)
            elif until:
                self._repeat(host, line, until)
                until = ""
            elif leave:
                self._begin(host, line, leave)
                leave = ""
            else:
                self.command(host, line)

    def command(self, host: str, line: str) -> str:
        """One command of the page; its output. AssertionError if it fails."""
        if line.startswith("systemctl "):
            self._systemctl(host, *line.split()[1:])
            return ""
        code, output = self._bash(host, line)
        assert code == 0, f"{line}\nexit code {code}\n{output}"
        return output

    def _repeat(self, host: str, line: str, wanted: str) -> None:
        last = ""

        def is_done() -> bool:
            nonlocal last
            code, last = self._bash(host, line)
            return code == 0 and (not last.strip() if wanted == "nothing" else wanted in last)

        try:
            eventually(is_done)
        except AssertionError as error:
            raise AssertionError(f"{line} never printed {wanted}, at last: {last}") from error

    def _begin(self, host: str, line: str, wanted: str) -> None:
        output = self.directory / f"running-{len(self._running)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", self.here(host, line)],
                env=self._environment(host),
                cwd=self.directory / host,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append((process, output))
        eventually(lambda: wanted in output.read_text() or process.poll() is not None, line)
        assert wanted in output.read_text(), output.read_text()

    def wait_for_running(self) -> list[str]:
        """Wait for the commands that were left running; what they printed."""
        said = []
        while self._running:
            process, output = self._running.pop()
            code = process.wait(COMMAND_TIMEOUT_S)
            said.append(output.read_text())
            assert code == 0, said[-1]
        return said

    def _bash(self, host: str, line: str) -> tuple[int, str]:
        if line.startswith("fencepost format --"):
            line = f"{line} {self.format_options}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.here(host, line)],
            env=self._environment(host),
            cwd=self.directory / host,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout + (done.stderr if done.returncode else "")

    def _environment(self, host: str) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        bootstrap = self.here(host, operators_variable())
        return {**os.environ, "PATH": path, "FENCEPOST_BOOTSTRAP": bootstrap}

    def _systemctl(self, host: str, action: str, unit: str) -> None:
        """What systemd does: a start does not wait until the node is ready, a stop for its end."""
        assert unit == "fencepost"
        node = self.node(host)
        if action in ("stop", "restart") and node.running:
            assert node.stop() == 0, node.log_tail
        if action in ("start", "restart"):
            node.start()
        assert action in ("start", "stop", "restart")


def opened(directory: Path) -> Iterator[Site]:
    """For fixtures: a site that is closed at the end."""
    site = Site(directory)
    try:
        yield site
    finally:
        site.close()
