"""Dynamic broker configs: which value is in force, and that a running node acts on a change."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

import fencepost.broker.apis.api_versions  # noqa: F401 registers the handler under test
from fencepost.batch.records import build_batch
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.endpoints import parse_host_limits
from fencepost.broker.config.settings import Settings
from fencepost.broker.storage.log_recovery_pool import RecoveryPool
from fencepost.machines.image import ClusterImage, apply_records
from fencepost.wire.api import ApiVersionsRequest, ProduceRequest
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.records.metadata import ConfigRecord

from ...waiting import eventually
from ..listener_fixtures import LIMITS, serve_listener
from ..topic_requests import make_topic

BROKER = 4
ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def image(*configs: tuple[str, str, str]) -> ClusterImage:
    """An image with dynamic configs: broker (or ""), key and value."""
    records = [
        ConfigRecord(resource_type=BROKER, resource_name=broker, name=key, value=value)
        for broker, key, value in configs
    ]
    return apply_records(ClusterImage(), records, len(records))


def settings(**static: str) -> Settings:
    return Settings(BrokerConfig.load(None, {k.replace("_", "."): v for k, v in static.items()}))


# -- which value is in force ---------------------------------------------------------------------


def test_a_brokers_own_value_wins_over_the_shared_one_and_that_over_the_file():
    found = settings(max_connections="7")
    assert found.get("max.connections") == 7
    found.apply(image(("", "max.connections", "8")))
    assert found.get("max.connections") == 8
    found.apply(image(("", "max.connections", "8"), ("1", "max.connections", "9")))
    assert found.get("max.connections") == 9
    found.apply(image(("2", "max.connections", "10")))
    assert found.get("max.connections") == 7


def test_watchers_hear_of_their_own_keys_and_of_changes_alone():
    heard: list[str] = []
    found = settings(max_connections="7")
    found.watch(["max.connections", "max.connections.per.ip"], lambda: heard.append("limits"))
    found.watch(["log.cleaner.threads"], lambda: heard.append("cleaner"))
    found.apply(image(("", "max.connections", "7")))
    assert heard == [], "that was its value"
    found.apply(image(("", "max.connections", "8"), ("", "max.connections.per.ip", "3")))
    assert heard == ["limits"]
    found.apply(image(("", "max.connections", "8"), ("", "max.connections.per.ip", "3")))
    assert heard == ["limits"]
    found.apply(image())
    assert heard == ["limits", "limits"]
    assert found.get("max.connections") == 7


def test_values_that_no_broker_accepts_are_left_out_with_an_error(caplog):
    found = settings()
    found.apply(
        image(("", "max.connections", "x"), ("", "node.id", "5"), ("", "log.cleaner.threads", "2"))
    )
    assert found.get("max.connections") == 4096
    assert found.get("node.id") == 1, "it is read-only"
    assert found.get("log.cleaner.threads") == 2
    assert "max.connections='x'" in caplog.text
    found.apply(
        image(("", "log.cleaner.threads", "2"), ("1", "log.cleaner.dedupe.buffer.size", "1"))
    )
    assert found.get("log.cleaner.threads") == 1
    assert "contradict each other" in caplog.text


def test_a_change_without_effect_is_said_in_one_line(caplog):
    found = settings()
    found.apply(image(("", "num.io.threads", "9"), ("", "background.threads", "11")))
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert line.endswith("no effect here: background.threads, num.io.threads")
    caplog.clear()
    found.apply(
        image(
            ("", "num.io.threads", "9"),
            ("", "background.threads", "11"),
            ("", "max.connections", "8"),
        )
    )
    assert not caplog.records


# -- the listener ------------------------------------------------------------------------------


def is_served(client: Any) -> bool:
    """Whether the connection is served, and not disconnected."""
    try:
        return client.ask(ASK, 3).error_code == 0
    except (EOFError, ConnectionError):
        return False


def change_limits(served: Any, **limits: Any) -> None:
    def change() -> None:
        served.listener.limits = replace(served.listener.limits, **limits)

    served.thread.call(change)


def test_an_address_may_have_a_limit_of_its_own():
    limits = replace(LIMITS, max_connections_per_ip=0)
    with serve_listener(limits) as served:
        with served.connect() as client:
            assert not is_served(client)
        change_limits(served, max_connections_of={"127.0.0.1": 2, "::1": 0})
        with served.connect() as first, served.connect() as second, served.connect() as third:
            assert is_served(first)
            assert is_served(second)
            assert not is_served(third)


def test_new_connections_over_the_rate_wait_unread_and_are_served_later():
    with serve_listener(replace(LIMITS, max_created_per_s=2)) as served:
        clients = [served.connect() for _ in range(4)]
        try:
            eventually(lambda: served.connection_count() == 4)
            waiting = served.thread.call(
                lambda: sum(
                    connection._wait is not None for connection in served.listener.connections
                )
            )
            assert waiting >= 1
            assert all(is_served(client) for client in clients)
        finally:
            for client in clients:
                client.sock.close()


def test_connections_that_would_wait_too_long_are_refused():
    with serve_listener(replace(LIMITS, max_created_per_s=1)) as served:
        clients = [served.connect() for _ in range(14)]
        try:
            eventually(lambda: served.listener._refused + served.connection_count() >= 11)
            eventually(lambda: served.connection_count() <= 13)
            assert served.connection_count() >= 11
        finally:
            for client in clients:
                client.sock.close()
    nobody = replace(LIMITS, max_created_per_s=0)
    with serve_listener(nobody) as served, served.connect() as client:
        assert not is_served(client)


def test_limits_by_address_are_read_with_brackets_or_without():
    assert parse_host_limits(" 127.0.0.1:5 , [::1]:6,::2:7,") == {
        "127.0.0.1": 5,
        "::1": 6,
        "::2": 7,
    }
    assert parse_host_limits("") == {}
    for wrong in ("127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "localhost:1", "127.0.0.1:\u0665"):
        with pytest.raises(ValueError):
            parse_host_limits(wrong)


# -- a running node ------------------------------------------------------------------------------


def alter(running: Any, *changes: tuple[str, str], broker: str = "") -> None:
    resource = AlterConfigsResource(
        resource_type=BROKER,
        resource_name=broker,
        configs=[AlterableConfig(name=k, config_operation=0, value=v) for k, v in changes],
    )
    with running.connect() as client:
        reply = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    (result,) = reply.responses
    assert result.error_code == 0, result.error_message


def test_connection_limits_change_while_a_node_runs(node_factory):
    running = node_factory()
    with running.connect() as first:
        assert is_served(first)
        alter(running, ("max.connections", "2"))
        with running.connect() as second, running.connect() as third:
            assert is_served(second)
            assert not is_served(third)
            assert is_served(first), "connections that are open stay"
            gone = AlterableConfig(name="max.connections", config_operation=1, value=None)
            resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[gone])
            reply = first.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert reply.responses[0].error_code == 0
        with running.connect() as second, running.connect() as third:
            assert is_served(second)
            assert is_served(third)


def test_cleaner_configs_change_while_a_node_runs(node_factory):
    running = node_factory()
    compactor = running.node.broker.compactor
    alter(
        running,
        ("log.cleaner.threads", "2"),
        ("log.cleaner.dedupe.buffer.size", "4194304"),
        ("log.cleaner.io.buffer.load.factor", "0.5"),
        ("log.cleaner.io.buffer.size", "65536"),
        ("log.cleaner.io.max.bytes.per.second", "1000.5"),
        ("log.cleaner.backoff.ms", "7"),
    )
    assert compactor._threads_max == 2
    assert compactor._map_bytes == 1 << 20
    assert compactor._io_bytes == 16_384
    assert compactor._throttle.bytes_per_s == 1000.5
    assert compactor._backoff_ms == 7


def test_a_shorter_backoff_counts_at_once(node_factory):
    running = node_factory(log_cleaner_backoff_ms="86400000")
    looks: list[int] = []
    compactor = running.node.broker.compactor
    look = compactor._look
    compactor._look = lambda: (looks.append(1), look())
    alter(running, ("log.cleaner.backoff.ms", "1"))
    eventually(lambda: len(looks) > 1)


def test_producers_expire_by_the_value_in_force(node_factory):
    running = node_factory()
    with running.connect() as client:
        topic = make_topic(client).name
        stamps = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        records = build_batch([(None, b"x")], timestamp_ms=running.node.wall_ms(), **stamps)
        partition = PartitionProduceData(index=0, records=bytes(records))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=9000,
            topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
        )
        assert client.ask(request, 9).responses[0].partition_responses[0].error_code == 0
    producers = running.node.broker.replicas.get(topic, 0).log.producers

    def expire() -> int:
        running.call(running.node.housekeeping._expire)
        return running.call(lambda: len(producers))

    assert expire() == 1
    alter(running, ("producer.id.expiration.ms", "1"))
    eventually(lambda: expire() == 0)


def test_recovery_threads_are_as_many_as_are_in_force_when_they_are_needed():
    found = settings()
    recovery_pool = RecoveryPool(None, lambda: found.get("num.recovery.threads.per.data.dir"))
    found.apply(image(("", "num.recovery.threads.per.data.dir", "4")))
    assert recovery_pool.new_pool()._max_workers == 4


def test_a_value_that_is_left_out_is_told_of_once(caplog):
    """Every change of the metadata is followed, whatever it is about."""
    found = settings()
    for _ in range(3):
        found.apply(image(("", "max.connections", "many")))
    assert len(caplog.records) == 1
