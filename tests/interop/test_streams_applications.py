"""Real Kafka Streams applications under `group.protocol=streams` (KIP-1071)."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer

from ..ended_transactions import stable_ends
from ..waiting import DEADLINE_S, eventually
from .apache import KAFKA_VERSION, QUICK_JVM, java
from .conftest import jars_or_skip, one_node
from .maven import JarSet
from .oracle import PROGRAMS

pytestmark = [pytest.mark.interop, pytest.mark.slow]

STREAMS = JarSet(
    f"kafka-streams-{KAFKA_VERSION}",
    (f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36"),
)
QUICK = {
    "offsets.topic.num.partitions": "4",
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
}
WORDS = ["the quick brown fox", "the lazy dog", "the end"]


class Application:
    """A process that runs `StreamsApplication.java`, and what it says."""

    def __init__(self, servers: str, name: str, topology: str, directory: Path, *more: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "log"
        self.said: list[str] = []
        program = PROGRAMS / "StreamsApplication.java"
        arguments = [servers, name, topology, str(directory / "state"), *more]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(java()), *QUICK_JVM, "-cp", STREAMS.class_path(), str(program), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.said.extend(line.strip() for line in iter(self.process.stdout.readline, ""))

    @property
    def is_running(self) -> bool:
        """Whether it has its tasks."""
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        states = [line for line in self.said if line.startswith("state ")]
        return states[-1:] == ["state RUNNING"]

    def end(self) -> list[str]:
        """Close it in good order; what it said."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return self.said

    def kill(self) -> None:
        """End it as a power failure would."""
        self.process.kill()
        self.process.wait(DEADLINE_S)


Start = Callable[..., Application]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts applications, and ends them with the test."""
    jars_or_skip(STREAMS)
    started: list[Application] = []

    def start_one(servers: str, name: str, topology: str, *more: str) -> Application:
        directory = tmp_path / f"instance{len(started)}"
        started.append(Application(servers, name, topology, directory, *more))
        return started[-1]

    yield start_one
    for one in started:
        with contextlib.suppress(OSError):
            one.kill()


@pytest.fixture(scope="module", params=["fencepost", "apache"])
def servers(
    request: pytest.FixtureRequest, kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with one_node(request.param, tmp_path_factory.mktemp(request.param), **QUICK) as address:
        yield address


@pytest.fixture
def cluster(servers: str) -> Iterator[Cluster]:
    with Cluster(servers) as cluster:
        yield cluster


def read(cluster: Cluster, topic: str) -> list[tuple[str, str]]:
    """All keys and values of the topic."""
    partitions = [TopicPartition(topic, index) for index in cluster.topic(topic).partitions]
    ends = stable_ends(cluster, partitions)
    return [
        ((record.key or b"").decode(), (record.value or b"").decode())
        for partition, end in sorted(ends.items())
        for fetched in Fetcher(cluster).read_range(partition, 0, end)
        for record in fetched.read_records(end)
    ]


def create(cluster: Cluster, **partitions: int) -> None:
    for name, count in partitions.items():
        Admin(cluster).create_topic(name, count)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_words_are_counted(start: Start, servers: str, cluster: Cluster, guarantee: str) -> None:
    """With transactions, offsets are committed by member epochs in TxnOffsetCommit."""
    name = guarantee.replace("_", "-")
    create(cluster, **{f"{name}-in": 3, f"{name}-out": 2})
    with Producer(cluster) as producer:
        for line in WORDS * 10:
            producer.send(f"{name}-in", line.encode())
    application = start(servers, name, "words", f"processing.guarantee={guarantee}")
    eventually(lambda: application.is_running, "the application runs")
    counted = {word: "10" for line in WORDS for word in line.split()} | {"the": "30"}
    eventually(lambda: dict(read(cluster, f"{name}-out")) == counted, "all words are counted")
    assert "closed" in application.end()


def test_a_join_goes_on_when_an_instance_is_killed(
    start: Start, servers: str, cluster: Cluster
) -> None:
    """The table's values are joined with all of the stream's, though one of two instances is killed
    in between and another takes its place."""
    create(cluster, **{"join-in": 4, "join-table": 4, "join-out": 2})
    keys = [f"k{number}" for number in range(20)]
    with Producer(cluster) as producer:
        for key in keys:
            producer.send("join-table", f"t{key}".encode(), key.encode())
    instances = [
        start(servers, "join", "join", f"application.server=here:{port}") for port in (1, 2)
    ]
    for one in instances:
        eventually(lambda one=one: one.is_running, "an instance runs")  # type: ignore[misc]

    def send(round_: int) -> None:
        with Producer(cluster) as producer:
            for key in keys:
                producer.send("join-in", f"{key}:{round_}".encode())

    def joined(rounds: int) -> bool:
        wanted = {(key, f"{key}:{one}=t{key}") for key in keys for one in range(rounds)}
        return set(read(cluster, "join-out")) == wanted

    send(0)
    eventually(lambda: joined(1), "the first round is joined")
    instances[0].kill()
    send(1)
    replacement = start(servers, "join", "join", "application.server=here:3")
    eventually(lambda: joined(2), "the second round is joined")
    eventually(lambda: replacement.is_running, "the replacement runs")
    send(2)
    eventually(lambda: joined(3), "the third round is joined")
    for one in (instances[1], replacement):
        assert "closed" in one.end()
