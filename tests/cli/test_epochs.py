"""`fencepost epochs` against a served broker, and replicas that differ on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fencepost.client.lineage import ReplicaLineage
from fencepost.client.offsets import EpochSpan
from fencepost.views.epochs import reference_of
from fencepost.views.epochs_drawing import DIVERGING_COLOR

from ..client.fake_cluster import FakeCluster, FakePartition
from ..client.records import batch
from .commands import Fencepost, Ran


def test_epochs_of_a_topic_without_a_leader_change(
    run: Fencepost, topic: str, produce: Callable[..., Ran]
):
    produce(topic, "1\n2\n", "--partition", "0")
    span = {"leader_epoch": 0, "start_offset": 0, "end_offset": 2}
    told = run("epochs", topic, "--partition", "0", "--json").json
    assert told["epochs"] == [{"partition": 0, **span}]
    (replica,) = told["replicas"]
    assert replica == {
        "partition": 0,
        "broker": replica["broker"],
        "role": "leader",
        "epochs": [span],
        "high_watermark": 2,
        "diverges_at": None,
        "error": None,
    }
    assert run("epochs", topic, "--partition", "9").code == 2
    assert run("epochs", topic, "--partition", "1").lines[1:] == [
        "offset    0",
        f"{replica['broker']} leader  |0",
    ]


@pytest.fixture
def diverged() -> Iterator[str]:
    """Broker 1 leads in epoch 4; 2 lacks the end, 3 has records of an epoch that 1 never saw."""
    with FakeCluster(brokers=4) as fake:
        fake.create_topic("t")
        logs = {1: [3, 0, 2, 0, 2], 2: [3, 0, 2], 3: [3, 4]}
        for node, records in logs.items():
            copy = fake.partition("t") if node == 1 else FakePartition(node)
            for epoch, count in enumerate(records):
                if epoch:
                    copy.elect(1)
                for _ in range(count):
                    copy.append(batch(b"x"))
            if node != 1:
                fake.partition("t").followers[node] = copy
        yield fake.bootstrap_servers


def test_a_log_that_diverges_is_drawn_below_the_others(run: Fencepost, diverged: str):
    assert run("epochs", "t", bootstrap=diverged).lines == [
        "t-0  leader 1, leader epoch 4, in sync 1,2,3,4",
        "offset     0     3     5     7",
        "1 leader   |0----|2----|4----|",
        "2 in sync  |0----|2----|",
        "3 in sync  |0----|1!!!!!!!!!!|",
        "4 in sync  "
        + run("epochs", "t", "--json", bootstrap=diverged).json["replicas"][3]["error"],
        "broker 3 diverges at offset 3: it has leader epoch 1, leader 1 has leader epoch 2 there"
        " (4 records)",
    ]
    told = run("epochs", "t", "--json", bootstrap=diverged).json["replicas"]
    assert [one["diverges_at"] for one in told] == [None, None, 3, None]
    assert "NOT_LEADER_OR_FOLLOWER" in told[3]["error"] and told[3]["epochs"] is None


def test_the_picture_as_svg(run: Fencepost, diverged: str, tmp_path: Path):
    path = tmp_path / "epochs.svg"
    ran = run("epochs", "t", "--svg", str(path), bootstrap=diverged)
    assert (ran.code, ran.out, ran.err) == (0, "", f"wrote {path}\n")
    root = ElementTree.fromstring(path.read_text())
    titles = [one.text for one in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles.count("leader epoch 2: offsets 3 to 5") == 2
    bars = root.iter("{http://www.w3.org/2000/svg}rect")
    red = [one for one in bars if one.get("fill") == DIVERGING_COLOR]
    assert [one[0].text for one in red] == ["leader epoch 1: offsets 3 to 7"]
    missing = run("epochs", "t", "--svg", str(tmp_path / "no" / "e.svg"), bootstrap=diverged)
    assert missing.code == 1 and missing.err.count("\n") == 1
    assert "No such file or directory" in missing.err


def test_epochs_of_what_cannot_be_asked(run: Fencepost):
    ran = run("epochs", "t", "--timeout", "0.2", bootstrap="127.0.0.1:1")
    assert ran.code == 1 and ran.err.startswith("fencepost epochs: ")
    assert ran.err.count("\n") == 1
    assert run("epochs", "there-is-none").code == 1


def test_epochs_of_a_topic_after_leader_changes(run: Fencepost):
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t")
        partition = fake.partition("t")
        partition.append(batch(b"a", b"b", b"c"))
        partition.elect(2)
        partition.append(batch(b"d"))
        partition.elect(1, cut_to=3)
        partition.append(batch(b"e", b"f"))
        told = run("epochs", "t", "--json", bootstrap=fake.bootstrap_servers).json
    assert told["epochs"] == [
        {"partition": 0, "leader_epoch": 0, "start_offset": 0, "end_offset": 3},
        {"partition": 0, "leader_epoch": 2, "start_offset": 3, "end_offset": 5},
    ]


def test_logs_are_held_against_the_leaders_else_against_the_newest():
    old, new = ReplicaLineage(1, (EpochSpan(2, 0, 9),)), ReplicaLineage(2, (EpochSpan(4, 0, 5),))
    gone = ReplicaLineage(3, error="down")
    assert reference_of([gone, old, new], 1) is old
    assert reference_of([old, gone, new], 3) is new
    assert reference_of([old, new, ReplicaLineage(4)], -1) is new
    assert reference_of([gone], 1) is None
