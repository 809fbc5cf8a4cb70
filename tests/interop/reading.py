"""Reading a partition to its end with librdkafka's consumer."""

from __future__ import annotations

import contextlib
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from ..waiting import eventually

AT_ONCE = 500


def read_to_end(servers: str, topic: str, isolation: str) -> list[Any]:
    """All messages of partition 0 that a consumer of this isolation level sees."""
    config = {
        "bootstrap.servers": servers,
        "group.id": "unused",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "check.crcs": True,
    }
    found: list[Any] = []
    with contextlib.closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])

        def is_at_end() -> bool:
            for message in consumer.consume(AT_ONCE, timeout=1):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    return True
            return False

        eventually(is_at_end, f"the end of {topic}-0")
    return found
