"""The exactly-once sink's protocol on Apache Kafka's broker: a kill at each named point, a driver
that goes on after it was replaced, a write that fails, and what a timeout leaves."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.spark.exactly_once import SinkDriver
from fencepost.spark.takeover import DEFAULT_MAX_TIMEOUT_MS

from ..spark.exactly_once_world import Fuse, World
from ..spark.test_exactly_once import (
    KILLS,
    QUICK_TIMEOUTS,
    kill_and_restart,
    overtaken,
    times_out_before_the_decision,
)
from ..spark.test_exactly_once_uses import (
    DECIDED,
    is_repeated,
    keyed,
    killed_by,
    loses_its_group,
    loses_its_topic,
    points_of,
    share_a_sink,
)
from ..spark.test_failed_writes import ends_without_results, sends_behind_the_end
from .apache import apache_broker

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture
def make_world(bootstrap: str):
    def make(**options) -> World:
        name = f"once-{uuid.uuid4().hex[:8]}"
        with Cluster(bootstrap) as cluster:
            Admin(cluster).create_topic(name, 2)
            Admin(cluster).wait_for_topic(name)
        return World(bootstrap, name, **options)

    return make


@pytest.mark.parametrize("is_tv2", [True, False], ids=["TV2", "TV1"])
def test_kills_at_every_named_point(make_world, is_tv2: bool):
    measured = make_world(is_tv2=is_tv2, batches=1)
    fuse = Fuse()
    assert measured.live(fuse)
    assert measured.committed() == measured.expected()
    for name, which, after in KILLS.values():
        at = [number for number, seen in enumerate(fuse.seen) if seen == name][which]
        kill_and_restart(make_world(is_tv2=is_tv2), Fuse(at, after))


@pytest.mark.parametrize("is_tv2", [True, False], ids=["TV2", "TV1"])
def test_a_driver_that_was_replaced_goes_on(make_world, is_tv2: bool):
    for moment in ("before open", "after open", "after writing"):
        for at in range(7):
            assert overtaken(make_world(is_tv2=is_tv2), at, moment)


@pytest.mark.parametrize("is_tv2", [True, False], ids=["TV2", "TV1"])
def test_a_failed_write_leaves_nothing_open(make_world, is_tv2: bool):
    ends_without_results(make_world(is_tv2=is_tv2, batches=1))
    sends_behind_the_end(make_world(is_tv2=is_tv2, batches=1))


def test_transactions_get_the_longest_timeout_of_the_broker(make_world):
    world = make_world()
    with world.cluster() as cluster:
        assert SinkDriver(cluster, world.sink).open().mandate.timeout_ms == DEFAULT_MAX_TIMEOUT_MS


def test_transactions_that_time_out_before_the_decision(tmp_path: Path, kafka_jars):
    with apache_broker(tmp_path, **QUICK_TIMEOUTS) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            Admin(cluster).create_topic("t", 2)
            Admin(cluster).wait_for_topic("t")
        times_out_before_the_decision(World(broker.bootstrap_servers, "t"), 120_000)


@pytest.mark.parametrize("use", ["shared", "key", "group", "topic"])
def test_what_people_do_after_a_kill(make_world, use: str):
    for point, fuse in points_of(make_world(batches=1)).items():
        world = make_world(batches=1 if use == "key" else 2)
        killed = killed_by(fuse(), keyed(world, run="1") if use == "key" else world)
        if use == "shared":
            share_a_sink(killed)
        elif use == "key":
            is_repeated(killed)
        elif use == "group":
            loses_its_group(killed, is_decided=point in DECIDED)
        else:
            loses_its_topic(killed, is_decided=point in DECIDED)
