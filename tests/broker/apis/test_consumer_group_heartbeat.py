"""Where the newer protocols are off, their members are refused as by Kafka, and told of."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from fencepost.broker.apis.consumer_group_heartbeat import NOT_OFFERED
from fencepost.broker.net.log_limit import SHOWN_CHARACTERS
from fencepost.wire.api import ConsumerGroupHeartbeatRequest, StreamsGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import encode_request

from ...waiting import DEADLINE_S
from ..conftest import RunningNode

CLASSIC_ALONE = {"group.coordinator.rebalance.protocols": "classic"}
HEARTBEAT = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
OF_STREAMS = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", CLASSIC_ALONE)
    yield running
    running.close()


@pytest.mark.parametrize("version", [0, 1])
def test_it_is_refused_without_a_text(node: RunningNode, version: int) -> None:
    with node.connect() as client:
        answer = client.ask(HEARTBEAT, version)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message is None


@pytest.mark.parametrize(("request_", "version"), [(HEARTBEAT, 1), (OF_STREAMS, 0)])
def test_the_log_names_each_client_once(node, caplog, request_, version):
    says = "group.protocol=classic"
    caplog.set_level(logging.INFO, logger="fencepost")
    names = [
        f"app-{type(request_).api_key}",
        f"{type(request_).api_key}-other\x1b[2J" + "x" * 32_000,
    ]
    for name in names * 3:
        with node.connect() as client:
            client.send_raw(encode_request(request_, version, 1, name))
            client.receive(type(request_).api_key, version)
    lines = [r.getMessage() for r in caplog.records if says in r.getMessage()]
    assert len(lines) == 2
    assert repr(names[0]) in lines[0]
    assert "127.0.0.1" in lines[0]
    assert "\x1b" not in lines[1]
    assert len(lines[1]) < SHOWN_CHARACTERS + len(NOT_OFFERED) + 200


@pytest.mark.slow
@pytest.mark.clients
def test_librdkafka_ends_with_an_error_instead_of_reading_nothing(node, topic, caplog):
    from confluent_kafka import Consumer, KafkaError

    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "client.id": "new-protocol",
            "group.id": "of-new-protocol",
            "group.protocol": "consumer",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + DEADLINE_S
        message = None
        while message is None and time.monotonic() < deadline:
            message = consumer.poll(0.5)
        assert message is not None, "it was told nothing"
        assert message.error().code() == KafkaError._FATAL
        assert "not supported" in message.error().str()
    finally:
        consumer.close()
    assert len([r for r in caplog.records if "'new-protocol'" in r.getMessage()]) == 1
