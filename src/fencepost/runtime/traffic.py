"""What clients and other brokers have written to and read from each topic on this node.

A partition that is hosted here has the counts of its topic at hand (`HostedPartition.traffic`),
and every append and every read adds to them. They only grow. When the last partition of a topic
leaves this node its counts go, and what they came to stays in the totals.
"""

from __future__ import annotations

from typing import Self

from msgspec import Struct


class TopicTraffic(Struct):
    """The counts of one topic. Requests count once for each partition in them, as in Kafka; but
    those of a fetch session not for partitions with nothing new (`machines.fetch.quiet`)."""

    messages_in: int = 0
    """Records that producers wrote."""
    bytes_in: int = 0
    """The batches of those, as they were appended."""
    bytes_out: int = 0
    """Batches that consumers were sent."""
    replication_bytes_in: int = 0
    """Batches that this node copied from leaders."""
    replication_bytes_out: int = 0
    """Batches that followers were sent."""
    produce_requests: int = 0
    failed_produce_requests: int = 0
    fetch_requests: int = 0
    failed_fetch_requests: int = 0

    def produced(self, records: int, size_bytes: int, error_code: int) -> None:
        """A producer's batch was appended, or refused."""
        self.produce_requests += 1
        if error_code:
            self.failed_produce_requests += 1
        else:
            self.messages_in += records
            self.bytes_in += size_bytes

    def produced_block(self, batches: int, records: int, size_bytes: int, error_code: int) -> None:
        """So many batches of producers were appended together, or refused."""
        self.produce_requests += batches
        if error_code:
            self.failed_produce_requests += batches
        else:
            self.messages_in += records
            self.bytes_in += size_bytes

    def fetched(self, size_bytes: int, error_code: int, is_follower: bool) -> None:
        """A partition was read for a fetch, which is sent so much of it."""
        self.fetch_requests += 1
        if error_code:
            self.failed_fetch_requests += 1
        elif is_follower:
            self.replication_bytes_out += size_bytes
        else:
            self.bytes_out += size_bytes

    def add(self, other: Self) -> None:
        """Add what another one has counted."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """The counts of all topics of a node; see the module."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._gone = TopicTraffic()

    def of(self, topic: str) -> TopicTraffic:
        """The counts of a topic that is hosted here."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicTraffic()
        return found

    def forget(self, topic: str) -> None:
        """No partition of the topic is hosted here any more."""
        gone = self._topics.pop(topic, None)
        if gone is not None:
            self._gone.add(gone)

    def topics(self) -> list[tuple[str, TopicTraffic]]:
        """The counts of every topic, in the order in which topics first had any."""
        return list(self._topics.items())

    def total(self) -> TopicTraffic:
        """All of them, with those of topics that are gone."""
        total = TopicTraffic()
        total.add(self._gone)
        for _, one in self.topics():
            total.add(one)
        return total
