"""Both brokers, with the settings that scenes need, started when a scene is first played on one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from ...process_state import kept_for_the_session
from ..conftest import one_node
from ..drawn.comparing import Side
from ..maven import JarSet
from .stage import Scene, Transcript, differences, play, warm_up

SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.min.session.timeout.ms": "100",
    # Assignments at once: what a second brings is in scenes of its own, by group configs.
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
}
KINDS = ("apache", "fencepost")
Sides = Callable[[str], Side]
Performance = Callable[[str, Scene], None]


@pytest.fixture(scope="session")
def side_of(kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """The side of that kind."""
    made: dict[str, Side] = {}
    with contextlib.ExitStack() as running:

        def side(kind: str) -> Side:
            if kind not in made:
                directory = tmp_path_factory.mktemp(f"groups-{kind}")
                with kept_for_the_session():
                    servers = running.enter_context(one_node(kind, directory, **SETTINGS))
                host, _, port = servers.rpartition(":")
                made[kind] = Side(kind, host, int(port))
                running.callback(made[kind].close)
                warm_up(made[kind])
            return made[kind]

        yield side


@pytest.fixture(scope="session")
def on_apache(side_of: Sides) -> Callable[[str, Scene, str], Transcript]:
    """Plays a scene on Apache Kafka, once for all tests that need its transcript.

    A name belongs to one test: what another test calls the same would be compared with this one's
    transcript, and meet its topics and groups.
    """
    played: dict[str, tuple[str, Transcript]] = {}

    def performed(name: str, scene: Scene, test: str) -> Transcript:
        if name not in played:
            played[name] = test, play(side_of("apache"), name, scene)
        owner, transcript = played[name]
        assert owner == test, f"{owner} has a scene {name}, too"
        return transcript

    return performed


@pytest.fixture(params=KINDS)
def perform(
    request: pytest.FixtureRequest,
    side_of: Sides,
    on_apache: Callable[[str, Scene, str], Transcript],
) -> Performance:
    """Plays a scene: on Apache Kafka it must come true, and on ours be answered alike."""

    test = f"{request.module.__name__}.{request.function.__name__}"

    def performed(name: str, scene: Scene) -> None:
        theirs = on_apache(name, scene, test)
        if request.param == "apache":
            assert not theirs.failure, f"{name} on Apache Kafka: {theirs.failure}\n{theirs.last()}"
            return
        ours = play(side_of("fencepost"), name, scene)
        found = "\n".join(differences(theirs, ours))
        assert not found, f"{name}: {found}"

    return performed
