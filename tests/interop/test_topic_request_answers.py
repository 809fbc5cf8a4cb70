"""Requests without time, topics meant twice: answered by Fencepost as by Apache Kafka.

As in `test_admin_answers`, every case runs against both.
"""

from __future__ import annotations

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.create_topics import CreateTopicsRequest
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic

from .topic_words import create, fresh, new

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture
def topic(broker: Connection) -> str:
    name = fresh()
    create(broker, new(name, 2))
    return name


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_happens(broker: Connection, topic: str, timeout_ms: int) -> None:
    name = fresh()
    made = CreateTopicsRequest(topics=[new(name, 1)], timeout_ms=timeout_ms)
    assert [t.error_code for t in broker.request(made).topics] == [7]
    grow = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    grown = CreatePartitionsRequest(topics=[grow], timeout_ms=timeout_ms)
    assert [t.error_code for t in broker.request(grown).results] == [7]
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=timeout_ms)
    assert [t.error_code for t in broker.request(gone).responses] == [7]
    asked = [MetadataRequestTopic(name=one) for one in (name, topic)]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    found = {t.name: (t.error_code, len(t.partitions)) for t in broker.request(request).topics}
    assert found == {name: (3, 0), topic: (0, 2)}


def test_a_topic_that_is_meant_by_name_and_by_id_is_answered_once(
    broker: Connection, topic: str
) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    (known,) = broker.request(request).topics
    asked = [DeleteTopicState(name=topic), DeleteTopicState(name=None, topic_id=known.topic_id)]
    answers = broker.request(DeleteTopicsRequest(topics=asked, timeout_ms=5000)).responses
    assert [(a.name, a.topic_id, a.error_code) for a in answers] == [(topic, known.topic_id, 42)]
