"""/health and /ready: what they answer, and why."""

import asyncio
import contextlib

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.metrics.health import Report
from fencepost.broker.node import housekeeping
from fencepost.broker.node.node import Node, StartError
from fencepost.broker.node.observation import NO_LEADER
from fencepost.machines.partition import BecomeFollower
from fencepost.runtime.halted import HaltCause
from fencepost.testing.quorum_cluster import QuorumCluster

from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import LoopThread
from ..topic_requests import make_topic
from .scraping import get, scrape


def test_a_report_has_a_line_for_everything_that_is_wrong():
    answer = Report(("it is\nlate",), ("a disk is gone",)).answer("ready", "not ready")
    assert (answer.status, b"".join(answer.body)) == (
        503,
        b"not ready\nit is late\nwarning: a disk is gone\n",
    )
    answer = Report((), ("a disk is gone",)).answer("ready", "not ready")
    assert (answer.status, b"".join(answer.body)) == (200, b"ready\nwarning: a disk is gone\n")


def test_a_node_that_works_is_well_and_ready_and_one_that_fails_says_why(node_factory):
    running = node_factory(fencepost_metrics_listener=0)
    port = running.node.observation.bound.port
    assert get(port, "/health").text == "healthy\n"
    assert get(port, "/ready").text == "ready\n"
    running.call(running.node.fail, "the sky has fallen")
    for path, word in (("/health", "failed"), ("/ready", "not ready")):
        response = get(port, path)
        assert response.status == 503
        assert response.text.splitlines() == [word, "the sky has fallen"]


def test_a_node_that_is_about_to_stop_is_well_and_not_ready(node_factory):
    running = node_factory(fencepost_metrics_listener=0)
    port = running.node.observation.bound.port
    running.call(running.node.request_stop, "enough")
    assert get(port, "/health").status == 200
    assert get(port, "/ready").text.splitlines() == ["not ready", "the node stops"]


def test_a_broker_that_is_fenced_says_so(node_factory):
    running = node_factory(fencepost_metrics_listener=0)
    port = running.node.observation.bound.port

    def fenced():
        """As the controller's answer would have it, and what is said before the next one."""
        running.node.broker.lifecycle.machine.is_fenced = True
        return running.node.observation.readiness()

    assert running.call(fenced).problems == ("the controller has fenced this broker",)
    eventually(lambda: get(port, "/ready").text == "ready\n")  # the next answer says otherwise


def test_a_directory_of_several_that_fails_is_a_warning(node_factory, tmp_path):
    dirs = [tmp_path / "a", tmp_path / "b"]
    running = node_factory(fencepost_metrics_listener=0, log_dirs=f"{dirs[0]},{dirs[1]}")
    port = running.node.observation.bound.port
    with running.connect() as client:
        make_topic(client, partitions=2)
    lost = running.node.storage.data_dirs[1]
    running.call(running.node.broker.replicas.dir_failed, lost, "no such device")
    response = get(port, "/ready")
    assert response.status == 200
    assert (
        f"warning: the log directory {dirs[1]} is offline: no such device; repair" in response.text
    )
    assert f"-1): the log directory {dirs[1]} is offline" in response.text
    found = scrape(port)
    assert found.value("kafka_log_logmanager_offlinelogdirectorycount") == 1
    offline = "kafka_log_logmanager_logdirectoryoffline"
    assert [found.value(offline, logDirectory=str(one)) for one in dirs] == [0, 1]
    assert found.value("kafka_server_replicamanager_offlinereplicacount") == 1
    assert found.value("fencepost_replicas_halted", cause="directory_offline") == 1
    assert found.value("fencepost_replicas_halted", cause="no_leader") == 0
    strays = "fencepost_log_directory_strays"
    assert [found.value(strays, logDirectory=str(one)) for one in dirs] == [0, 0]


def test_replicas_of_a_directory_that_fails_are_named_in_the_log(
    node_factory, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(housekeeping, "LOOK_EVERY_MS", 50)
    running = node_factory(log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")
    with running.connect() as client:
        name = make_topic(client, partitions=2).name
    lost = running.node.storage.data_dirs[1]
    running.call(running.node.broker.replicas.dir_failed, lost, "no such device")
    said = f"1 halted replica ({name}-1): the log directory {lost.path} is offline"
    eventually(lambda: any(said in one.getMessage() for one in caplog.records))


def test_a_replica_without_a_leader_is_halted(node_factory):
    running = node_factory()
    with running.connect() as client:
        name = make_topic(client).name
    replicas = running.node.broker.replicas

    def leaderless():
        hosted = replicas.get(name, 0)
        order = BecomeFollower(-1, hosted.machine.leader_epoch + 1, 1, (1,), (1,))
        before = list(replicas.leaderless())
        running.node.driver.feed(hosted.key, order)
        return before, [(one.name, one.cause) for one in replicas.leaderless()]

    assert running.call(leaderless) == ([], [(f"{name}-0", HaltCause.NO_LEADER)])


def test_a_broker_that_waits_for_a_controller_says_so(tmp_path):
    """A start may take long, and whoever waits for it wants to know why."""
    thread = LoopThread()
    with contextlib.closing(QuorumCluster(1, 1, directory=tmp_path)) as plan:
        overrides = {"fencepost.metrics.listener": "0", "fencepost.event.loop": "asyncio"}
        config = BrokerConfig.load(plan.nodes[2].config_path, overrides)
        node = thread.call(Node, config, thread.loop)
        starting = asyncio.run_coroutine_threadsafe(node.start(), thread.loop)
        bound = eventually(lambda: node.observation.bound)
        said = ["the broker's state: starting", f"warning: {NO_LEADER}"]
        eventually(lambda: set(said) <= set(get(bound.port, "/ready").text.splitlines()))
        assert get(bound.port, "/ready").status == 503
        assert get(bound.port, "/health").status == 200
        assert scrape(bound.port).value("kafka_server_kafkaserver_brokerstate") == 1
        eventually(lambda: "no answer of a controller" in get(bound.port, "/ready").text)
        thread.call(node.request_stop, "enough")
        with pytest.raises(StartError, match="enough"):
            starting.result(DEADLINE_S)
        thread.call(node.stop)
    thread.close()
