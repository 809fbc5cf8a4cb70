"""Topics, batches, Produce and Fetch through a raw client: what many tests of a node begin with."""

import time

from fencepost.batch.records import BatchBuilder, read_records
from fencepost.wire.api import (
    CreateTopicsRequest,
    FetchRequest,
    ProduceRequest,
)
from fencepost.wire.api.create_topics import CreatableTopic, CreatableTopicConfig
from fencepost.wire.api.fetch import FetchPartition, FetchTopic
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData

COUNTER = iter(range(1_000_000))
FOR_DAYS_MS = (1 << 31) - 1
"""A wait that no test sits out: what is answered has not been waited for."""


def make_topic(client, partitions=1, name=None, **configs):
    name = name or f"topic-{next(COUNTER)}"
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    CreatableTopicConfig(name=key.replace("_", "."), value=str(value))
                    for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=60_000,
    )
    response = client.ask(request, 7)
    assert response.topics[0].error_code == 0, response.topics[0].error_message
    return response.topics[0]


def batch(*values, **kinds):
    now_ms = int(time.time() * 1000)
    builder = BatchBuilder(kinds.pop("compression", "none"))
    for value in values:
        builder.append(kinds.get("key"), value, timestamp_ms=kinds.get("timestamp_ms", now_ms))
    kinds.pop("key", None)
    kinds.pop("timestamp_ms", None)
    return bytes(builder.build(**kinds))


def produce_request(topic, records, version=9, index=0, acks=-1, **fields):
    data = PartitionProduceData(index=index, records=records)
    named = (
        TopicProduceData(topic_id=topic.topic_id, partition_data=[data])
        if version >= 13
        else TopicProduceData(name=topic.name, partition_data=[data])
    )
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[named], **fields)


def produce(client, topic, records, version=9, **kinds):
    response = client.ask(produce_request(topic, records, version, **kinds), version)
    return response.responses[0].partition_responses[0]


def fetch_request(topic, *offsets, version=12, max_wait_ms=0, min_bytes=1, **fields):
    limits = {
        key: fields.pop(key)
        for key in ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")
        if key in fields
    }
    partitions = [
        FetchPartition(
            partition=index, fetch_offset=offset, **{"partition_max_bytes": 1 << 20, **limits}
        )
        for index, offset in enumerate(offsets)
    ]
    named = (
        FetchTopic(topic_id=topic.topic_id, partitions=partitions)
        if version >= 13
        else FetchTopic(topic=topic.name, partitions=partitions)
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=[named] if partitions else [], **fields
    )


def fetch(client, topic, *offsets, version=12, **kinds):
    response = client.ask(fetch_request(topic, *offsets, version=version, **kinds), version)
    assert response.error_code == 0
    return [part for answered in response.responses for part in answered.partitions]


def values(part):
    return [record.value for record in read_records(part.records)]
