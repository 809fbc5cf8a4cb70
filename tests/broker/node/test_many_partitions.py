"""Topics of many partitions: others are served while they are made, opened and recovered."""

from __future__ import annotations

import itertools
import logging
import os
import threading

import psutil
import pytest

from fencepost.broker.node.node import StartError
from fencepost.log.open_job import OpenJob
from fencepost.runtime.cooperative import PIECES_AT_ONCE
from fencepost.testing import Cluster
from fencepost.wire.api import ApiVersionsRequest, CreateTopicsRequest
from fencepost.wire.api.create_topics import CreatableTopic

from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import connect

MANY = PIECES_AT_ONCE + 400
ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def create(client, count, name="many"):
    topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
    (made,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics
    assert made.error_code == 0


def hosted(running, name="many"):
    node = running.node
    return running.call(lambda: sum(one.topic == name for one in node.broker.replicas.all()))


def settle(running):
    running.call(running.node.broker.followed)


def test_a_topic_is_made_in_steps_between_which_others_come_to_their_turns(node_factory):
    running = node_factory()
    loop, replicas, seen = running.node.loop, running.node.broker.replicas, []
    running.node.ports.scheduler.turn_s = 0.0  # a turn is one piece

    def watch():
        seen.append(sum(1 for one in replicas.all() if one.topic == "many"))
        if seen[-1] < MANY:
            loop.call_soon(watch)

    loop.call_soon_threadsafe(watch)
    with running.connect() as client:
        create(client, MANY)
    eventually(lambda: seen and seen[-1] == MANY, "all are made")
    steps = [after - before for before, after in itertools.pairwise(seen)]
    assert max(steps) <= PIECES_AT_ONCE
    assert sum(step > 0 for step in steps) >= 20
    settle(running)
    assert hosted(running) == MANY


def test_a_small_topic_is_there_when_its_creation_is_answered(node_factory):
    running = node_factory()
    with running.connect() as client:
        create(client, 10)
        assert hosted(running) == 10


def test_logs_that_a_crash_left_are_checked_by_as_many_threads_as_are_asked_for(
    node_factory, monkeypatch, caplog
):
    """Each waits until the others of its directory are at work, too."""
    running = node_factory(num_recovery_threads_per_data_dir=3)
    with running.connect() as client:
        create(client, 12)
    running.call(running.node.stop)
    (running.data_dir / ".kafka_cleanshutdown").unlink()
    together, names, original = threading.Barrier(3, timeout=DEADLINE_S), set(), OpenJob.run

    def run(self):
        if self.needs_recovery and threading.current_thread().name.startswith("fencepost-rec"):
            names.add(threading.current_thread().name)
            together.wait()
        original(self)

    monkeypatch.setattr(OpenJob, "run", run)
    with caplog.at_level(logging.INFO, "fencepost"):
        running.node = running.start()
    assert len(names) == 3
    assert hosted(running) == 12
    assert "12 logs checked in" in caplog.text


def test_a_node_that_is_stopped_while_logs_are_checked_leaves_them_to_the_next(
    node_factory, monkeypatch
):
    running = node_factory()
    with running.connect() as client:
        create(client, 6)
    running.call(running.node.stop)
    (running.data_dir / ".kafka_cleanshutdown").unlink()
    begun, go_on, original = threading.Event(), threading.Event(), OpenJob.run

    def run(self):
        if self.needs_recovery and threading.current_thread().name.startswith("fencepost-rec"):
            begun.set()
            assert go_on.wait(DEADLINE_S)
        original(self)

    monkeypatch.setattr(OpenJob, "run", run)
    problems = []

    def start():
        try:
            running.start()
        except StartError as error:
            problems.append(str(error))

    starting = threading.Thread(target=start)
    original_init = type(running.node).__init__
    nodes = []
    monkeypatch.setattr(
        type(running.node),
        "__init__",
        lambda self, *rest: (nodes.append(self), original_init(self, *rest))[1],
    )
    starting.start()
    assert begun.wait(DEADLINE_S)
    running.call(nodes[0].request_stop, "enough")
    go_on.set()
    starting.join(DEADLINE_S)
    assert problems == ["enough"]
    assert not (running.data_dir / ".kafka_cleanshutdown").exists()
    running.node = running.start()
    assert hosted(running) == 6


@pytest.mark.long
def test_ten_thousand_idle_partitions_fit_into_300_mb_and_few_files():
    with Cluster(offsets_topic_num_partitions=1) as cluster:
        with connect(cluster) as client, connect(cluster) as other:
            for name in ("many", "more"):  # a request comes to 10,000 records at most
                create(client, 5_000, name)
            while len(os.listdir(cluster.data_dir)) < 10_000:
                assert other.ask(ASK, 3).error_code == 0
        cluster.stop()
        cluster.start()
        process = psutil.Process(cluster.pid)
        assert process.memory_info().rss < 300e6
        assert process.num_fds() < 300
        cluster.kill()
        cluster.start()
        assert "10000 logs checked" in cluster.log_text or "10001 logs checked" in cluster.log_text
        assert psutil.Process(cluster.pid).memory_info().rss < 300e6
        assert "Traceback" not in cluster.log_text
