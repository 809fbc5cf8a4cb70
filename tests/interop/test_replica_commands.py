"""Commands about replicas and offsets, against two brokers of either kind, one of which crashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.main import main
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer

from ..waiting import eventually
from .maven import JarSet
from .quorum import APACHE, FENCEPOST, Quorum

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

SESSION = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}
TOPIC = "t"
Told = Callable[..., Any]


@pytest.fixture(scope="module", params=[FENCEPOST, APACHE])
def quorum(
    request: pytest.FixtureRequest, kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Quorum]:
    """A controller and the brokers 101 and 102."""
    kind = request.param
    home = tmp_path_factory.mktemp(f"replicas-{kind}")
    with Quorum(home, (kind,), (kind, kind), config=SESSION) as started:
        started.format()
        started.start()
        yield started


@pytest.fixture
def told(quorum: Quorum, capsys: pytest.CaptureFixture[str]) -> Told:
    """What a command prints with --json."""
    servers = ",".join(quorum.nodes[id_].address for id_ in (101, 102))

    def run(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([*words, "--json", "-b", servers]) == code, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run


def send(quorum: Quorum, *values: bytes) -> None:
    with Cluster(",".join(quorum.nodes[id_].address for id_ in (101, 102))) as cluster:
        producer = Producer(cluster)
        for value in values:
            producer.send(TOPIC, value, partition=0, timestamp_ms=1_000 * len(value))
        producer.flush()


def lineages(told: Told) -> dict[int, list[tuple[int, int, int]] | None]:
    """By broker, its log's epochs as (epoch, start, end)."""
    return {
        one["broker"]: None if one["epochs"] is None else [tuple(e.values()) for e in one["epochs"]]
        for one in told("epochs", TOPIC)["replicas"]
    }


def until(look: Callable[[], Any], wanted: Any) -> None:
    """Wait for it; what was seen last is said if it does not come."""
    seen: list[Any] = [None]

    def is_there() -> bool:
        seen[0] = look()
        return bool(seen[0] == wanted)

    try:
        eventually(is_there)
    except AssertionError:
        raise AssertionError(f"{seen[0]} is not {wanted}") from None


def test_replicas_are_told_of_through_a_crash_of_the_leader(
    quorum: Quorum, told: Told, tmp_path: Path
) -> None:
    with Cluster(quorum.nodes[101].address) as cluster:
        admin = Admin(cluster)
        admin.create_topic(TOPIC, assignments={0: [101, 102]}, configs={"min.insync.replicas": "1"})
        admin.wait_for_topic(TOPIC)
    send(quorum, b"1", b"22", b"333")
    first = [(0, 0, 3)]
    until(lambda: lineages(told), {101: first, 102: first})
    (topic,) = told("topics", "describe", TOPIC)
    (partition,) = topic["partitions"]
    assert (partition["leader"], partition["leader_epoch"]) == (101, 0)
    assert sorted(partition["isr"]) == [101, 102]
    assert partition["elr"] == partition["last_known_elr"] == []
    assert told("topics", "describe", "--under-replicated") == []

    quorum.nodes[101].kill()
    until(lambda: told("topics", "describe", TOPIC)[0]["partitions"][0]["leader"], 102)
    (short,) = told("topics", "describe", "--under-replicated", TOPIC)[0]["partitions"]
    assert (short["isr"], short["offline"]) == ([102], [101])
    epoch = short["leader_epoch"]
    assert epoch > 0
    send(quorum, b"4444", b"55555")
    alone = lineages(told)
    assert alone == {101: None, 102: [(0, 0, 3), (epoch, 3, 5)]}

    quorum.nodes[101].start()
    both = [(0, 0, 3), (epoch, 3, 5)]
    until(lambda: lineages(told), {101: both, 102: both})
    until(lambda: told("topics", "describe", "--under-replicated"), [])

    rows = told("offsets", TOPIC, "--at", "earliest", "--at", "latest", "--at", "@3000")
    assert [(row["at"], row["offset"]) for row in rows] == [
        ("earliest", 0),
        ("latest", 5),
        ("@3000", 2),
    ]
    (elected,) = told("elect", "preferred", TOPIC)
    assert (elected["election"], elected["result"]) == ("held", "ok")
    (deleted,) = told("delete-records", f"{TOPIC}:0=4")
    assert deleted["low_watermark"] == 4
    until(lambda: lineages(told)[102], [(epoch, 4, 5)])
    assert (lineages(told)[101] or [])[0] == (epoch, 4, 5)


def test_a_partition_moves_there_and_back(quorum: Quorum, told: Told, tmp_path: Path) -> None:
    with Cluster(quorum.nodes[101].address) as cluster:
        Admin(cluster).create_topic("moved", assignments={0: [101]})
        Admin(cluster).wait_for_topic("moved")
    before = tmp_path / "before.json"
    move = ("--move", "moved:0=102")
    begun = told("reassign", "execute", *move, "--save-current", str(before), "--wait")
    assert begun[0]["result"] == "begun"
    assert told("reassign", "verify", *move)[0]["state"] == "done"
    dirs = told("log-dirs", "describe", "moved")
    assert {one["broker"] for one in dirs if one["replicas"]} == {102}
    assert dirs[0]["path"] == str(quorum.nodes[101].data_dir)
    assert told("reassign", "execute", str(before), "--wait")[0]["to"] == [101]
    assert told("reassign", "list") == []
    (none,) = told("reassign", "cancel", "moved:0", code=1)
    assert none["result"] == "NO_REASSIGNMENT_IN_PROGRESS"
