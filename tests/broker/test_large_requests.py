"""Clients that ask for more than a batch of the metadata log may hold."""

from __future__ import annotations

import pytest

from fencepost.broker import controller_service
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.errors import ErrorCode

from .conftest import RunningNode
from .door import Client


def create(client: Client, *names: str) -> list[int]:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
    return [topic.error_code for topic in answer.topics]


def test_a_request_is_refused_as_a_whole(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_service, "MAX_BATCH_BYTES", 1_000)
    names = [f"large-{n}" for n in range(20)]
    with node.connect() as client:
        assert create(client, *names) == [ErrorCode.POLICY_VIOLATION] * 20
        assert create(client, names[0]) == [0], "it was not there, and this is not too much"
        asked = [DeleteTopicState(name=name) for name in names[:2]]
        request = DeleteTopicsRequest(topics=asked, timeout_ms=60_000)
        codes = {t.name: t.error_code for t in client.ask(request, 6).responses}
        assert codes == {names[0]: 0, names[1]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
