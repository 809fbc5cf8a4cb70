"""A blocking consumer that shares topics with the other members of a group.

    with Consumer(cluster, ["orders"]) as consumer:     # group.id is in the cluster's config
        while True:
            for fetched in consumer.poll():
                for record in fetched.read_records():        # of one partition
                    ...
                consumer.store(fetched.partition, fetched.next_offset, fetched.last_epoch)
            consumer.commit()

At least once: only offsets that the caller has stored are committed, by `commit`, before partitions
are given up in a rebalance, and by `close`. What was read and not committed is read again, by
whichever member has the partition then.

There is no thread: heartbeats leave from `poll`. A member that does not call it for
`session.timeout.ms` (with `group.protocol=consumer` the broker's
`group.consumer.session.timeout.ms`) is put out of the group and joins again at the next call. What
is done when is decided in `consumer_core`, what the group's coordinator receives in `membership`
and `consumer_membership`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Self

from fencepost.client.cluster import Cluster
from fencepost.client.consumer_core import ConsumerCore, ConsumerRebalanceListener
from fencepost.client.errors import ClientError
from fencepost.client.fetch_core import Fetched
from fencepost.client.metadata import CommittedOffset, TopicPartition

log = logging.getLogger("fencepost.client")


class Consumer(ConsumerCore):
    """One member of the group `group.id`; a context manager that leaves it. One thread.

    `topics` are those it subscribes to, by name; with `group_protocol="consumer"` also those whose
    whole names match `pattern`, which the coordinator resolves (RE2 syntax). Where the group has
    committed nothing, or what it has is not in the log any more, `auto.offset.reset` says where to
    read.
    """

    stores_positions = False
    waits_apart = False

    def __init__(
        self,
        cluster: Cluster,
        topics: Iterable[str] = (),
        listener: ConsumerRebalanceListener | None = None,
        *,
        pattern: str | None = None,
    ) -> None:
        super().__init__(cluster)
        self.cluster = cluster
        self._subscribe(topics, listener, pattern)
        self.group = self._group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self.cluster.close()  # it may have come in the middle of a request
        try:
            self.close()
        except ClientError as error:
            if kind is None:
                raise
            log.warning("leaving group %s: %s", self.group, error)

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are this member's now."""
        return self._assigned

    def poll(self, max_wait_ms: float | None = None) -> list[Fetched]:
        """Records of the assigned partitions, if any come within `max_wait_ms` (default
        `fetch.max.wait.ms`); takes part in a rebalance first, however long that takes, and then
        returns nothing, so that the caller can look at the new `assignment`.

        Raises BrokerError for what joining again cannot help, as an authorization that is missing,
        OffsetOutOfRange with `auto.offset.reset=none`, UnknownTopic, and DeadlineExceeded when all
        leaders have failed for `default.api.timeout.ms`.

        What the brokers hold answers for stays asked when there is no more time: with
        `max_wait_ms=0` a call takes what the one before it has asked for.
        """
        run = self.cluster.run
        run(self.beating())
        if self.has_to_join:
            run(self.rebalancing())
            return []
        limit_ms = self.config.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms
        found = run(self.reading(min(limit_ms, self.heartbeat_wait_ms)))
        for fetched in found:
            self._take(fetched)
        return found

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset | int] | None = None) -> None:
        """Commit what was stored since the last commit, or `offsets`; see
        `ConsumerCore.committing`."""
        self.cluster.run(self.committing(offsets))

    def committed(self, partition: TopicPartition) -> CommittedOffset | None:
        """What the group has committed for a partition."""
        return self.cluster.run(self.reading_committed([partition])).get(partition)

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Read on where the group has committed, as after a transaction that was aborted, and
        where it has committed nothing, as `auto.offset.reset` says; without partitions all that
        are assigned. What is stored of them is forgotten. ClientError for one that is not assigned.
        """
        self._seek_to_committed(partitions)

    def close(self) -> None:
        """Commit what is stored and leave the group, so that others get the partitions at once."""
        try:
            if self._member is not None and self._member.may_commit:
                self.commit()
        finally:
            self._fetches.close()
            self.cluster.run(self.leaving())
            self._forget_partitions(self.held())
