"""A blocking consumer of a share group: records are handed out one by one, and acknowledged.

    with ShareConsumer(cluster, ["jobs"]) as consumer:    # group.id is in the cluster's config
        while True:
            for record in consumer.poll():
                ...
            consumer.commit_sync()

Members of a share group read the same partitions side by side; each record goes to one of them. In
implicit mode the next `poll` or `commit_sync` accepts everything that the last `poll` returned.
With `share.acknowledgement.mode=explicit` each record is to be acknowledged before the next `poll`:

            for record in consumer.poll():
                try:
                    work(record)
                except TemporaryError:
                    consumer.acknowledge(record, AcknowledgeType.RELEASE)
                else:
                    consumer.acknowledge(record)

The methods have the names of Java's KafkaShareConsumer. There is no thread: heartbeats leave from
`poll` and `commit_sync`, so a consumer that calls neither for the broker's
`group.share.session.timeout.ms` is put out of the group, and joins again at the next call. What is
done when is decided in `share_core`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Self

from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.client.retry import Deadline
from fencepost.client.share_core import ShareConsumerCore
from fencepost.client.share_records import ShareRecord
from fencepost.client.share_sessions import Results

log = logging.getLogger("fencepost.client")


class ShareConsumer(ShareConsumerCore):
    """One member of the share group `group.id`; a context manager that closes it. One thread.

    `max.poll.records` is how many records a broker is asked for at a time; it may hand out more, up
    to the end of a batch, unless `share.acquire.mode=record_limit`. Where a group begins to read is
    its config `share.auto.offset.reset`.
    """

    waits_apart = False

    def __init__(self, cluster: Cluster, topics: Iterable[str] = ()) -> None:
        super().__init__(cluster)
        self.cluster = cluster
        self.subscribe(topics)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self.cluster.close()  # it may have come in the middle of a request
        try:
            self.cluster.run(self.closing(accepts=kind is None))
        except ClientError as error:
            if kind is None:
                raise
            log.warning("closing a consumer of share group %s: %s", self.group, error)

    def poll(self, timeout_ms: float | None = None) -> list[ShareRecord]:
        """Records, if any can be acquired within `timeout_ms` (default `fetch.max.wait.ms`).

        Raises BrokerError for what trying again cannot help, as an authorization that is missing;
        ClientError in explicit mode while a record of the last poll is not acknowledged.
        """
        run, at_once_ms = self.cluster.run, self.config.fetch_max_wait_ms
        deadline = Deadline(at_once_ms if timeout_ms is None else timeout_ms)
        while True:
            run(self.beating())
            wait_ms = min(deadline.remaining_ms(), at_once_ms, self.heartbeat_wait_ms)
            found = run(self.polling(wait_ms))
            if found or deadline.passed:
                return found

    def commit_sync(self) -> Results:
        """Send all acknowledgements and wait for the answers; for each partition of these the
        error, INVALID_RECORD_STATE for one when a lock had run out, or None."""
        self.cluster.run(self.beating())
        return self.cluster.run(self.committing())

    def commit_async(self) -> None:
        """Have the next `poll`, `commit_sync` or `close` send all acknowledgements, in implicit
        mode of everything handed out; the callback is told how it went."""
        self._settle_delivered()

    def unsubscribe(self) -> None:
        """Send all acknowledgements, release what is not acknowledged, and leave the group."""
        self.cluster.run(self.closing(accepts=True))
        self.subscribe(())

    def close(self) -> None:
        """Send all acknowledgements, in implicit mode of everything handed out; release the rest,
        and leave the group. The cluster stays."""
        self.cluster.run(self.closing(accepts=True))
