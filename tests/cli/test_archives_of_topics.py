"""`fencepost spark watch --archive` and `fencepost archive continue`, on archives without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.spark.archive.replaying import replay

from ..spark.archive.test_replay import sink
from ..spark.archive.worlds import World
from ..spark.checkpoints import write_checkpoint
from .commands import Fencepost

pytestmark = pytest.mark.slow


def test_a_query_that_reads_an_archive_has_lost_nothing(
    run: Fencepost, cluster: Cluster, topic: str, tmp_path: Path
):
    with Producer(cluster) as producer:
        for _ in range(5):
            producer.send(topic, b"v", partition=0)
    topic_id = str(cluster.topic(topic).topic_id)
    world = World(tmp_path / "archive", topic, topic_id)
    world.archive({0: (0, 3)}, begins={0: 0})
    Admin(cluster).delete_records({TopicPartition(topic, 0): 3})
    folder = str(write_checkpoint(tmp_path, [{topic: {"0": 1}}], committed=0))

    def watched(*more: str) -> tuple[str, int]:
        document: Any = run("spark", "watch", folder, "--once", "--json", *more).json
        (row,) = document["partitions"]
        return row["condition"], row["lag"]

    assert watched() == ("aged out", 2)
    assert watched("--archive", str(tmp_path / "archive")) == ("archived", 4)
    wrong = run("spark", "watch", folder, "--once", "--archive", str(tmp_path))
    assert wrong.code == 1
    assert "no archive: there is no _fencepost/state.json" in wrong.err


def test_an_archive_goes_on_where_its_replay_ended(
    run: Fencepost, cluster: Cluster, topic: str, tmp_path: Path
):
    world = World(tmp_path / "archive")
    world.archive({0: (0, 8), 1: (0, 5)}, begins={0: 0, 1: 0})
    (world.checkpoint / "commits").mkdir()
    (world.checkpoint / "commits" / "0").write_text("v1\n{}\n")
    place, name = str(tmp_path / "archive"), f"{topic}-again"
    refused = run("archive", "continue", place, name)
    assert refused.code == 1
    assert "no replay" in refused.err
    replay(world.layout, sink(cluster.config.bootstrap_servers, name), name=name)
    rows: Any = run("archive", "continue", place, name, "--json").json
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
        (name, 0, 8),
        (name, 1, 5),
    ]
    assert all(row["leader_epoch"] >= 0 for row in rows)
    again = run("archive", "continue", place, name)
    assert again.code == 1
    assert f"goes on in {name} already" in again.err
