"""Apache Kafka's tools as functions, and its broker as a context manager, on free loopback ports.

Everything runs in child processes of the test with a timeout, and every process is stopped by its
own id. The tools talk to whatever bootstrap address they are given: Fencepost's or Kafka's own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.spark.java import JavaNotFoundError, find_java
from fencepost.testing.ports import free_ports

from ..waiting import DEADLINE_S
from .maven import JarSet

KAFKA_VERSION = "4.4.0"
OLDER_VERSION = "4.3.1"
"""A release before, which clusters of today may still have brokers of."""
CLUSTER_ID = "fencepostInteropTestsQ"
HOST = "127.0.0.1"


def kafka_of(version: str) -> JarSet:
    """The jars of a release: brokers and tools."""
    return JarSet(
        f"kafka-{version}",
        (
            f"org.apache.kafka:kafka_2.13:{version}",
            f"org.apache.kafka:kafka-tools:{version}",
            "org.slf4j:slf4j-simple:1.7.36",
        ),
    )


KAFKA = kafka_of(KAFKA_VERSION)
OLDER_KAFKA = kafka_of(OLDER_VERSION)
# Maven Central has no kafka-shell of 4.4.0.
SHELL = JarSet(f"kafka-shell-{OLDER_VERSION}", (f"org.apache.kafka:kafka-shell:{OLDER_VERSION}",))
TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "org.apache.kafka.tools.ConfigCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "storage": "kafka.tools.StorageTool",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
}
TOOL_TIMEOUT_S = 2 * DEADLINE_S  # it starts, and may wait in vain
START_TIMEOUT_S: float = DEADLINE_S
STOP_TIMEOUT_S = DEADLINE_S  # long enough to write an archive of classes on a busy machine
ENDED_BY_SIGTERM = 128 + signal.SIGTERM
"""With which Java exits after an orderly stop."""
BROKER = "kafka.Kafka"


class ToolFailedError(AssertionError):
    """A tool exited with another code than 0; the message has what it printed."""


@dataclass(frozen=True)
class ToolOutput:
    """What a tool printed, for assertions that show all of it when they fail."""

    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """Lines of standard output without the empty ones."""
        return [line for line in self.stdout.splitlines() if line.strip()]


QUICK_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# What Kafka's own start script gives its broker.
BROKER_JVM = ("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


@functools.cache
def java() -> Path:
    """The Java that runs everything here, without a word of it to this process's environment."""
    found = find_java()
    if found is None:
        raise JavaNotFoundError("no Java of version 17 or newer")
    return found.home / "bin" / "java"


def java_command(
    main_class: str, *arguments: str, jvm: tuple[str, ...] = QUICK_JVM, jars: JarSet = KAFKA
) -> list[str]:
    """A command line that runs a class of Apache Kafka."""
    options = [*jvm]
    options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [str(java()), *options, "-cp", jars.class_path(), main_class, *arguments]


@dataclass(frozen=True)
class ClassArchive:
    """What a class of Apache Kafka loads, in a file that Java maps into memory, beside the jars.

    With it a tool takes less than half the processor time, and a broker half as long to start. An
    orderly run writes it where there is none. Its name has the time of the Java that wrote it, for
    no other one could use it.
    """

    main_class: str
    jars: JarSet = KAFKA

    @property
    def path(self) -> Path:
        """Where it is or will be."""
        self.jars.jars()
        written_by = java().resolve().stat().st_mtime_ns
        return self.jars.directory / f"{self.main_class}-{written_by}.jsa"

    @property
    def draft(self) -> Path:
        """Where a run that this process has started writes it."""
        return self.path.with_suffix(f".{os.getpid()}.draft")

    def options(self, *, is_written: bool) -> tuple[str, ...]:
        """Java's options to use it; or to write it, when there is none, if `is_written`."""
        # What Java says of it would be among what a tool prints.
        if self.path.exists():
            return ("-Xlog:disable", f"-XX:SharedArchiveFile={self.path}")
        if is_written:
            return ("-Xlog:disable", f"-XX:ArchiveClassesAtExit={self.draft}")
        return ()

    def settle(self, *, is_whole: bool) -> None:
        """Put what a run has written in its place, if that ended well."""
        if is_whole and self.draft.exists():
            self.draft.rename(self.path)
        self.draft.unlink(missing_ok=True)


def run_tool(
    tool: str,
    *arguments: str,
    stdin: str | None = None,
    check: bool = True,
    jars: JarSet = KAFKA,
    jvm: tuple[str, ...] = (),
) -> ToolOutput:
    """Run one of `TOOLS`, with more options for its JVM; ToolFailedError when `check` and it exits
    with another code than 0."""
    return _run(TOOLS[tool], arguments, jars, stdin, check, jvm)


def consume(servers: str, topic: str, count: int, *more: str) -> list[str]:
    """What the console consumer prints of so many records; of fewer if no more come."""
    limits = ("--max-messages", str(count), "--timeout-ms", str(int(DEADLINE_S * 1000)))
    where = ("--bootstrap-server", servers, "--topic", topic)
    return run_tool("console-consumer", *where, *limits, *more).lines


def run_shell(snapshot: Path, *command: str) -> ToolOutput:
    """Run a command of the metadata shell on a snapshot; ToolFailedError.

    It reads logs, too, of either implementation, but waits for more of them for ever.
    """
    arguments = ("--snapshot", str(snapshot), *command)
    return _run("org.apache.kafka.shell.MetadataShell", arguments, SHELL, None, True)


def _run(
    main_class: str,
    arguments: tuple[str, ...],
    jars: JarSet,
    stdin: str | None,
    check: bool,
    options: tuple[str, ...] = (),
) -> ToolOutput:
    archive = ClassArchive(main_class, jars)
    jvm = (*QUICK_JVM, *archive.options(is_written=True), *options)
    is_whole = False
    try:
        done = subprocess.run(
            java_command(main_class, *arguments, jvm=jvm, jars=jars),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
        )
        is_whole = done.returncode == 0
    finally:
        archive.settle(is_whole=is_whole)
    if check and done.returncode != 0:
        raise ToolFailedError(
            f"{main_class} {' '.join(arguments)} exited with {done.returncode}:\n"
            f"{done.stdout}\n{done.stderr}"
        )
    return ToolOutput(done.stdout, done.stderr)


@dataclass
class ApacheBroker:
    """A running broker (and controller) of Apache Kafka."""

    bootstrap_servers: str
    data_dir: Path
    process: subprocess.Popen[bytes]
    started_s: float


@contextlib.contextmanager
def apache_broker(
    directory: Path, *, tuned_jvm: bool = False, **overrides: str
) -> Iterator[ApacheBroker]:
    """Format `directory` and run Apache Kafka's broker on it until the block ends.

    `tuned_jvm` starts it as its own script would, for benchmarks; else quick to start and small.
    """
    client_port, controller_port = free_ports(2)
    data_dir = directory / "data"
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{client_port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{client_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data_dir),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **overrides,
    }
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    if not (data_dir / "meta.properties").exists():
        run_tool("storage", "format", "-t", CLUSTER_ID, "-c", str(config))
    jvm = BROKER_JVM if tuned_jvm else QUICK_JVM
    with run_broker(config, client_port, data_dir, jvm) as broker:
        yield broker


@contextlib.contextmanager
def run_broker(
    config: Path, port: int, data_dir: Path, jvm: tuple[str, ...] = QUICK_JVM
) -> Iterator[ApacheBroker]:
    """Start the broker of `config`, wait until its client port answers, stop it afterwards."""
    archive = ClassArchive(BROKER)
    if jvm == QUICK_JVM:
        jvm += archive.options(is_written=True)
    command = java_command(BROKER, str(config), jvm=jvm)
    started = time.monotonic()
    process = None
    try:
        with listening(command, port, config.parent / "broker.log") as process:
            took = time.monotonic() - started
            yield ApacheBroker(f"{HOST}:{port}", data_dir, process, took)
    finally:
        ended = None if process is None else process.returncode
        archive.settle(is_whole=ended == ENDED_BY_SIGTERM)


@contextlib.contextmanager
def listening(command: list[str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, wait until its port answers, stop it afterwards; `log` has what it prints."""
    started = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        while not listens(port):
            if process.poll() is not None or time.monotonic() - started > START_TIMEOUT_S:
                raise ToolFailedError(log.read_text()[-4000:])
            time.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_TIMEOUT_S)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
