"""Checkpoints converted without a batch, run by Spark's own connector and by this one in turn."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.arrow.storage import storage_at
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.spark.checkpoint_edit import (
    JAR,
    OURS,
    open_checkpoint,
    plan_conversion,
    plan_offsets,
    with_offsets,
)
from fencepost.spark.offset_translation import identified

from . import apache
from .conftest import SPARK_KAFKA, jars_or_skip, one_node

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module", params=["fencepost", "apache"])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    jars_or_skip(SPARK_KAFKA)
    if request.param == "apache":
        jars_or_skip(apache.KAFKA)
    with one_node(request.param, tmp_path_factory.mktemp(request.param)) as address:
        yield address


class World:
    """Two topics read by one query with two sources, and what it has read."""

    def __init__(self, spark: Any, servers: str, folder: Path) -> None:
        self.spark, self.servers, self.folder = spark, servers, folder
        self.topics = [f"both-{uuid.uuid4().hex[:8]}" for _ in range(2)]
        self.produced: set[tuple[str, int, int]] = set()
        self.read: list[tuple[str, int, int]] = []
        self.fails = False
        with Cluster(servers) as cluster:
            for topic in self.topics:
                Admin(cluster).create_topic(topic, 2)
                Admin(cluster).wait_for_topic(topic)

    def produce(self, count: int) -> None:
        with Cluster(self.servers) as cluster, Producer(cluster) as producer:
            sent = [
                (topic, number % 2, producer.send(topic, b"v", partition=number % 2))
                for topic in self.topics
                for number in range(count)
            ]
            producer.flush()
            self.produced |= {(*where, one.result()) for *where, one in sent}

    def run(self, kind: str, start: str = "earliest", *, fails: bool = False) -> None:
        frames = [
            self.spark.readStream.format(kind)
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", topic)
            .option("startingOffsets", start)
            .load()
            .select("topic", "partition", "offset")
            for topic in self.topics
        ]

        def take(rows: Any, _: int) -> None:
            if fails:
                raise RuntimeError("on purpose")
            self.read += [tuple(row) for row in rows.collect()]

        query = (
            frames[0]
            .union(frames[1])
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.folder))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(120)
        except Exception:
            if not fails:
                raise

    def convert(self, to: str, *, known: bool = False) -> tuple[str, ...]:
        storage = storage_at(self.folder)
        opened = open_checkpoint(storage, whole=True)
        ids = {}
        if known:
            with Cluster(self.servers) as cluster:
                ids = {
                    source.name: identified(cluster, source.planned)
                    for source in opened.checkpoint.sources
                    if source.planned
                }
        edit = plan_conversion(opened, to, ids)
        edit.apply(storage)
        assert all(open_checkpoint(storage).connector(str(n)) == to for n in range(2))
        return edit.warnings

    def check(self) -> None:
        assert sorted(self.read) == sorted(self.produced)


@pytest.fixture
def world(spark: Any, servers: str, tmp_path: Path) -> World:
    return World(spark, servers, tmp_path / "checkpoint")


@pytest.mark.parametrize("known", [False, True])
def test_there_and_back_again_and_again(world: World, known: bool):
    kind = JAR
    for step in range(4):
        world.produce(3 + step)
        world.run(kind)
        world.check()
        kind = OURS if kind == JAR else JAR
        world.convert(kind, known=known)
        world.run(kind)  # nothing new
        world.check()


@pytest.mark.parametrize("first", [JAR, OURS])
def test_a_batch_that_one_has_planned_is_finished_by_the_other(world: World, first: str):
    other = OURS if first == JAR else JAR
    world.produce(4)
    world.run(first)
    world.produce(5)
    world.run(first, fails=True)
    assert open_checkpoint(storage_at(world.folder)).checkpoint.state == "planned"
    world.convert(other)
    world.produce(6)
    world.run(other)
    world.check()


def test_a_first_batch_of_the_jar_from_latest_is_finished_by_ours(world: World):
    """Where it began is only in sources/N/0."""
    world.produce(4)
    world.run(JAR, "latest")  # nothing is there behind latest: no batch
    before = set(world.produced)
    world.produce(5)
    world.run(JAR, "latest", fails=True)
    assert open_checkpoint(storage_at(world.folder)).checkpoint.state == "planned"
    world.convert(OURS)
    world.run(OURS, "latest")
    assert set(world.read) <= world.produced - before
    assert sorted(world.read) == sorted(world.produced - before)


@pytest.mark.parametrize("kind", [JAR, OURS])
def test_a_moved_query_reads_from_there(world: World, kind: str):
    world.produce(6)
    world.run(kind)
    storage = storage_at(world.folder)
    opened = open_checkpoint(storage)
    source = opened.checkpoint.sources[0]
    assert source.committed is not None
    where = TopicPartition(world.topics[0], 1)
    moved = with_offsets(source.committed, {where: 1}, dict(source.committed.topic_ids))
    plan_offsets(opened, {"0": moved}).apply(storage)
    world.read.clear()
    world.run(kind)
    assert sorted(world.read) == [(*where, 1), (*where, 2)]
