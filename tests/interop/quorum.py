"""Nodes of a quorum as processes: Apache Kafka's and Fencepost's, side by side and mixed.

A `Quorum` is a plan (who votes, who is a broker, of which kind each node is) and a directory. It
writes every node's configuration, the same keys for both kinds, formats the directories, starts
and stops nodes, and kills them without a warning. Node ids are the voters' 1, 2, 3 and the brokers'
101, 102. Every process is a child of the test and is stopped by its own id.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.client.connection import Connection
from fencepost.client.errors import ClientError
from fencepost.client.security import Security
from fencepost.machines.quorum.messages import TOPIC as METADATA_TOPIC
from fencepost.testing.ports import free_ports
from fencepost.wire.api.describe_quorum import PartitionDataResponse
from fencepost.wire.types import Uuid

from ..waiting import eventually
from . import apache
from .apache import CLUSTER_ID, HOST
from .quorum_words import describes

METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"
SMALL_JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
APACHE, OLDER, FENCEPOST = "apache", "older apache", "fencepost"
# Quick elections, and no records but those that a test asks for.
QUICK = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "1000",
    "metadata.max.idle.interval.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
_JARS = {APACHE: apache.KAFKA, OLDER: apache.OLDER_KAFKA}


class NodeError(AssertionError):
    """A node did not do what was asked of it; the message ends with the last of its log."""


@dataclass
class Node:
    """One node: where it lives, what it is configured with, and its process while it runs."""

    kind: str
    node_id: int
    roles: str
    home: Path
    port: int
    config: dict[str, str]
    jvm: tuple[str, ...] = SMALL_JVM
    directory_id: Uuid = field(default_factory=Uuid.random)
    process: subprocess.Popen[bytes] | None = None
    security: Security | None = None
    """How the test itself reaches it; None: without TLS and login."""

    @property
    def data_dir(self) -> Path:
        """Its one log directory."""
        return self.home / "data"

    @property
    def metadata_dir(self) -> Path:
        """Where the metadata log and its snapshots are."""
        return self.data_dir / METADATA_DIRECTORY

    @property
    def address(self) -> str:
        """host:port of the listener that its peers or clients use."""
        return f"{HOST}:{self.port}"

    @property
    def config_path(self) -> Path:
        """The file it is started with."""
        return self.home / "server.properties"

    @property
    def log_path(self) -> Path:
        """What it has printed, in all its runs."""
        return self.home / "node.log"

    @property
    def is_running(self) -> bool:
        """Whether its process is alive."""
        return self.process is not None and self.process.poll() is None

    def error(self, what: str) -> NodeError:
        """An error that shows what the node said last."""
        said = self.log_path.read_text(errors="replace")[-3000:] if self.log_path.exists() else ""
        return NodeError(f"{self.kind} node {self.node_id}: {what}\n{said}")

    def write_config(self, **overrides: str) -> None:
        """Write the configuration file, with changes that stay."""
        self.config.update(overrides)
        self.home.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{key}={value}\n" for key, value in self.config.items())
        self.config_path.write_text(lines)

    def format(self, *arguments: str) -> None:
        """Format its directory with its own kind's tool."""
        if self.kind in _JARS:
            storage = ("format", "-t", CLUSTER_ID, "-c", str(self.config_path))
            apache.run_tool("storage", *storage, *arguments, jars=_JARS[self.kind])
            return
        command = [sys.executable, "-m", "fencepost.cli.main", "format"]
        command += ["--cluster-id", CLUSTER_ID, "--config", str(self.config_path), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise self.error(f"format exited with {done.returncode}: {done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        """How it is started."""
        if self.kind in _JARS:
            jvm, jars = self.jvm, _JARS[self.kind]
            if jvm == SMALL_JVM:
                jvm += apache.ClassArchive(apache.BROKER, jars).options(is_written=False)
            return apache.java_command(apache.BROKER, str(self.config_path), jvm=jvm, jars=jars)
        return [
            sys.executable,
            "-m",
            "fencepost.cli.main",
            "serve",
            "--config",
            str(self.config_path),
        ]

    def start(self, wait: bool = True) -> None:
        """Start it, and wait until its port answers."""
        assert not self.is_running, f"node {self.node_id} runs already"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if wait:
            self.wait_for_port()

    def wait_for_port(self) -> None:
        """Return when the node listens; NodeError when it has ended, or takes too long."""
        deadline = time.monotonic() + apache.START_TIMEOUT_S
        while not apache.listens(self.port):
            if not self.is_running or time.monotonic() > deadline:
                raise self.error("does not listen")
            time.sleep(0.02)

    def stop(self) -> int:
        """Ask it to stop and wait for its exit code; kill it when it does not."""
        process = self._take_process()
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(apache.STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(apache.STOP_TIMEOUT_S)
            raise self.error("did not stop when asked") from None

    def kill(self) -> None:
        """End it without a warning."""
        process = self._take_process()
        process.kill()
        process.wait(apache.STOP_TIMEOUT_S)

    def _take_process(self) -> subprocess.Popen[bytes]:
        process, self.process = self.process, None
        assert process is not None, f"node {self.node_id} does not run"
        return process

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop its threads with SIGSTOP and let them go on afterwards."""
        assert self.process is not None, f"node {self.node_id} does not run"
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def metadata_log(self) -> bytes:
        """The bytes of its metadata log, all segments."""
        return b"".join(path.read_bytes() for path in sorted(self.metadata_dir.glob("*.log")))

    def log_start(self) -> int:
        """The first offset that its metadata log can hold."""
        return min(int(path.stem) for path in self.metadata_dir.glob("*.log"))

    def snapshots(self) -> list[Path]:
        """Its snapshots of the metadata, oldest first, without the one it was formatted with."""
        found = sorted(self.metadata_dir.glob("*.checkpoint"))
        return [path for path in found if int(path.name[:20]) > 0]

    def stored_directory_id(self) -> str:
        """The id in its directory's meta.properties."""
        lines = (self.data_dir / "meta.properties").read_text().splitlines()
        stored = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
        return stored["directory.id"].replace("\\", "")

    def describe(self, timeout_ms: float = 2_000) -> PartitionDataResponse | None:
        """What it says about the quorum; None when it cannot be asked or does not lead."""
        try:
            with Connection(
                HOST, self.port, timeout_ms=timeout_ms, security=self.security
            ) as connection:
                partition = connection.request(describes()).topics[0].partitions[0]
        except (ClientError, OSError):
            return None
        return partition if partition.error_code == 0 else None


class Quorum:
    """Voters 1 to n of the given kinds, and brokers from 101 on; see the module's docstring.

    `is_dynamic` formats with kraft.version 1 and the voters as initial controllers, otherwise the
    voters are in everybody's configuration.
    """

    def __init__(
        self,
        directory: Path,
        controllers: tuple[str, ...],
        brokers: tuple[str, ...] = (),
        *,
        is_dynamic: bool = False,
        config: Mapping[str, str] | None = None,
        jvm: tuple[str, ...] = SMALL_JVM,
    ) -> None:
        self.is_dynamic = is_dynamic
        self._directory = directory
        self._jvm = jvm
        self._heirs = itertools.count(1)
        self._config = {**QUICK, **(config or {})}
        ports = free_ports(len(controllers) + len(brokers))
        self.voter_ports = dict(enumerate(ports[: len(controllers)], start=1))
        self.nodes: dict[int, Node] = {}
        for node_id, (kind, port) in enumerate(zip(controllers, ports, strict=False), start=1):
            self._plan(kind, node_id, "controller", port)
        for node_id, (kind, port) in enumerate(
            zip(brokers, ports[len(controllers) :], strict=False), start=101
        ):
            self._plan(kind, node_id, "broker", port)

    def _plan(self, kind: str, node_id: int, roles: str, port: int) -> Node:
        home = self._directory / f"node-{node_id}"
        listener = "CONTROLLER" if roles == "controller" else "PLAINTEXT"
        config = {
            "process.roles": roles,
            "node.id": str(node_id),
            "listeners": f"{listener}://{HOST}:{port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(home / "data"),
            **self._who_votes(),
            **self._config,
        }
        if roles == "broker":
            config["advertised.listeners"] = f"PLAINTEXT://{HOST}:{port}"
        node = Node(kind, node_id, roles, home, port, config, self._jvm)
        self.nodes[node_id] = node
        return node

    def _who_votes(self) -> dict[str, str]:
        if self.is_dynamic:
            servers = ",".join(f"{HOST}:{port}" for port in self.voter_ports.values())
            return {"controller.quorum.bootstrap.servers": servers}
        voters = ",".join(f"{id_}@{HOST}:{port}" for id_, port in self.voter_ports.items())
        return {"controller.quorum.voters": voters}

    @property
    def voters(self) -> list[Node]:
        """The controllers of the plan."""
        return [self.nodes[id_] for id_ in self.voter_ports]

    @property
    def bootstrap_controllers(self) -> str:
        """What tools take as --bootstrap-controller."""
        return ",".join(node.address for node in self.voters)

    def initial_controllers(self) -> str:
        """What the format tools take as --initial-controllers."""
        return ",".join(f"{n.node_id}@{n.address}:{n.directory_id}" for n in self.voters)

    def format(self, *arguments: str) -> None:
        """Write all configurations and format all directories."""
        for node in self.nodes.values():
            node.write_config()
            if self.is_dynamic and node.node_id in self.voter_ports:
                node.format("--initial-controllers", self.initial_controllers(), *arguments)
            else:
                node.format(*arguments)

    def add_controller(self, kind: str, node_id: int) -> Node:
        """Plan, and format, a controller that is no voter yet."""
        node = self._plan(kind, node_id, "controller", free_ports(1)[0])
        node.write_config()
        node.format("--no-initial-controllers")
        return node

    def start(self, *node_ids: int) -> None:
        """Start these nodes, or all, and wait for their ports."""
        chosen = [self.nodes[id_] for id_ in node_ids or self.nodes]
        for node in chosen:
            node.start(wait=False)
        for node in chosen:
            node.wait_for_port()

    def leader(self) -> Node | None:
        """The running voter that leads with a high watermark, if there is one right now."""
        for node in self.nodes.values():
            if node.roles == "controller" and node.is_running:
                said = node.describe()
                if said is not None and said.high_watermark >= 0:
                    return node
        return None

    def wait_for_leader(self) -> Node:
        """The leader, as soon as there is one."""
        leader = eventually(self.leader, "a voter leads")
        assert leader is not None, "that is what was waited for"
        return leader

    def kill_leader(self, heir: Node, write: Callable[[str], object]) -> Node:
        """Kill the leader so that `heir` wins the election; the killed node.

        The third voter stands still while `write` puts records into the other two's logs, so its
        log is behind when the leader is gone: it can vote for the heir and not be elected. What is
        written first may be in the answer to a fetch that waits; the second is not. `write` is
        given a name of its own each time.
        """
        leader = self.wait_for_leader()
        assert heir is not leader and self.voter_ids_running() >= {heir.node_id, leader.node_id}
        (other,) = self.voter_ids_running() - {heir.node_id, leader.node_id}
        number = next(self._heirs)
        with self.nodes[other].paused():
            for part in ("first", "second"):
                write(f"{part}-write-before-heir-{number}-leads")
            leader.kill()
        found = self.wait_for_leader()
        assert found is heir, f"{found.node_id} leads, not {heir.node_id}"
        return leader

    def voter_ids_running(self) -> set[int]:
        """The controllers that run, voters or about to be."""
        nodes = self.nodes.values()
        return {n.node_id for n in nodes if n.roles == "controller" and n.is_running}

    def close(self) -> None:
        """End every process that still runs."""
        for node in self.nodes.values():
            if node.process is not None:
                node.kill()

    def __enter__(self) -> Quorum:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
