"""Whose file counts for new topics: who is asked, how often, and what is logged."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker.cluster.topic_defaults import ASKED_AT_ONCE, KEYS, MIN_ISR, TopicDefaults
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.view import ConfigSource
from fencepost.machines.image import RESOURCE_BROKER, BrokerImage, ClusterImage, ListenerImage
from fencepost.machines.image.persistent import PersistentMap
from fencepost.wire.api.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from fencepost.wire.types import Uuid

NODE = 7


class World:
    """A node, the quorum as it sees it, and the requests it has sent."""

    def __init__(self, roles: str = "broker", **of_file: str) -> None:
        listeners = {"broker": "PLAINTEXT://127.0.0.1:0", "controller": "CONTROLLER://127.0.0.1:0"}
        config = BrokerConfig.load(
            None,
            {
                "node.id": str(NODE),
                "process.roles": roles,
                "listeners": listeners[roles],
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": "127.0.0.1:1",
                **{key.replace("_", "."): value for key, value in of_file.items()},
            },
        )
        self.leader_id = 1
        self.node_id = NODE
        self.image = ClusterImage()
        self.sent: list[tuple[tuple[str, int], Any, Any, Any]] = []
        self.defaults = TopicDefaults(config, self, self, self, lambda: self.image)

    def address_of(self, node_id: int) -> Any:
        return SimpleNamespace(host="controller", port=node_id)

    def send(self, address, request, on_response, on_failure, timeout_ms, *, purpose=""):
        self.sent.append((address, request, on_response, on_failure))

    def look(self) -> list[tuple[str, int]]:
        """The addresses that are asked now."""
        before = len(self.sent)
        self.defaults.look()
        return [address for address, *_ in self.sent[before:]]

    def register(self, *broker_ids: int, epoch: int = 5, is_fenced: bool = False) -> None:
        listeners = (ListenerImage("PLAINTEXT", "broker", 9, 0),)
        brokers = {
            id_: BrokerImage(id_, epoch, Uuid.ZERO, listeners, (), None, is_fenced, False, ())
            for id_ in broker_ids
        }
        self.image = ClusterImage(brokers=PersistentMap(brokers))

    def share(self, value: str) -> None:
        configs = {(RESOURCE_BROKER, ""): {MIN_ISR: value}}
        self.image = ClusterImage(configs=PersistentMap(configs))

    def answer(self, index: int = -1, **values: str) -> None:
        """The node that was asked has these in its file, and Kafka's defaults for the others."""
        given = {key.replace("_", "."): value for key, value in values.items()}
        configs = [
            DescribeConfigsResourceResult(
                name=key,
                value=given.get(key, "1"),
                synonyms=[
                    DescribeConfigsSynonym(name=key, value="9", source=ConfigSource.ALL_BROKERS),
                    DescribeConfigsSynonym(
                        name=key, value=given.get(key, "1"), source=ConfigSource.STATIC
                    ),
                    DescribeConfigsSynonym(name=key, value="1", source=ConfigSource.DEFAULT),
                ],
            )
            for key in KEYS
        ]
        self.sent[index][2](
            DescribeConfigsResponse(results=[DescribeConfigsResult(configs=configs)])
        )


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.WARNING, "fencepost.broker.cluster.topic_defaults")

    def take() -> list[str]:
        found = [one.getMessage() for one in caplog.records]
        caplog.clear()
        return found

    return take


def test_a_broker_asks_each_active_controller_once(logged):
    world = World(default_replication_factor="3")
    assert world.look() == [("controller", 1)]
    assert world.look() == [], "it is being asked"
    world.answer(default_replication_factor="3")
    assert (world.look(), logged()) == ([], [])
    world.leader_id = 2
    assert world.look() == [("controller", 2)]
    world.answer()
    (line,) = logged()
    assert line.startswith("default.replication.factor=3 of this broker counts only")
    assert "default.replication.factor=1 of the active controller, node 2" in line
    assert "num.partitions" not in line
    world.leader_id = -1
    assert world.look() == []
    world.leader_id = 1
    assert world.look() == [("controller", 1)], "it is active again, and may be another process"


def test_a_node_that_does_not_answer_is_asked_again():
    world = World()
    world.look()
    world.sent[-1][3]("refused")
    assert world.look() == [("controller", 1)]


def test_an_answer_of_a_former_controller_is_not_used(logged):
    world = World(num_partitions="6")
    world.look()
    world.leader_id = 2
    world.look()
    world.answer(index=0)
    assert logged() == []


def test_the_active_controller_asks_each_broker_once_per_registration(logged):
    world = World("controller", num_partitions="2")
    world.leader_id = NODE
    world.register(*range(100, 100 + ASKED_AT_ONCE + 1))
    assert len(world.look()) == ASKED_AT_ONCE
    assert len(world.look()) == 1
    assert world.look() == []
    world.answer(num_partitions="6")
    (line,) = logged()
    asked = world.sent[-1][1].resources[0].resource_name
    assert f"num.partitions=6 of broker {asked} counts only" in line
    assert "takes num.partitions=2 of this controller" in line
    world.register(100, epoch=6)
    assert world.look() == [("broker", 9)]


def test_a_fenced_broker_is_asked_when_it_is_active():
    world = World("controller")
    world.leader_id = NODE
    world.register(100, is_fenced=True)
    assert world.look() == []
    world.register(100)
    assert world.look() == [("broker", 9)]


def test_a_controller_that_is_not_active_asks_nobody():
    assert World("controller").look() == []


def test_min_isr_that_no_config_is_shared_for_counts_twice(logged):
    world = World(min_insync_replicas="2")
    world.look()
    world.answer()
    (line,) = logged()
    assert line.startswith("min.insync.replicas=2 of this broker counts for acks=all")
    assert "min.insync.replicas=1 of the active controller, node 1 for elections" in line


def test_a_file_that_the_shared_config_overrides_is_told_of_once_per_value(logged):
    world = World(min_insync_replicas="2")
    world.share("1")
    world.look()
    world.answer()
    (line,) = logged()
    assert "ignoring min.insync.replicas=2 of this node's file" in line
    assert "the cluster-wide value is min.insync.replicas=1" in line
    world.look()
    assert logged() == []
    world.share("2")
    world.look()
    assert logged() == []
    world.share("3")
    world.look()
    assert len(logged()) == 1


def test_a_file_that_does_not_say_is_not_overridden(logged):
    world = World()
    world.share("2")
    world.look()
    assert logged() == []


def test_a_controller_that_does_not_know_how_brokers_listen_asks_none_and_says_so_once(caplog):
    caplog.set_level(logging.INFO, "fencepost.broker.cluster.topic_defaults")
    protocols = {"listener_security_protocol_map": "CONTROLLER:PLAINTEXT"}
    world = World("controller", **protocols, inter_broker_listener_name="BROKERS")
    world.leader_id = NODE
    world.register(8)
    assert (world.look(), world.look()) == ([], [])
    [line] = [one.getMessage() for one in caplog.records]
    assert "listener.security.protocol.map has no BROKERS" in line
