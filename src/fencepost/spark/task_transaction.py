"""What one attempt of a task does for the exactly-once sink: write in a transaction of its own and
leave it open for the driver (`exactly_once`)."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace

from pyspark import TaskContext

from fencepost.client.batch_producer import BatchProducer
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.spark.exactly_once import Grant, TaskResult
from fencepost.spark.sink_errors import ExactlyOnceError

BATCH_PROPERTY = "streaming.sql.batchId"
QUERY_PROPERTY = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which attempt of which task of which batch; a batch write has no query, and batch 0."""

    query: str
    batch: int
    partition: int
    task_attempt: int
    """Of all attempts of all tasks in the Spark application another."""
    is_first: bool

    @classmethod
    def running(cls, *, streaming: bool) -> Attempt:
        """The attempt that this Python worker works for."""
        context = TaskContext.get()
        if context is None:
            raise ExactlyOnceError(
                "NOT_IN_A_TASK", "exactly-once writes run in Spark's tasks only", {}
            )
        query, batch = "", "0"
        if streaming:
            query = context.getLocalProperty(QUERY_PROPERTY) or ""
            batch = context.getLocalProperty(BATCH_PROPERTY) or ""
            if not query or not re.fullmatch("[0-9]+", batch):
                raise ExactlyOnceError(
                    "UNKNOWN_BATCH",
                    f"Spark does not say which batch this is ({QUERY_PROPERTY}={query!r}, "
                    f"{BATCH_PROPERTY}={batch!r})",
                    {"query": query, "batch": batch},
                )
        return cls(
            query,
            int(batch),
            context.partitionId(),
            context.taskAttemptId(),
            context.attemptNumber() == 0,
        )


def is_decided(grant: Grant, attempt: Attempt) -> bool:
    """Whether the batch was decided before, so that nothing is to be written.

    ExactlyOnceError for a batch before the one that was decided last: its checkpoint went back.
    """
    if not attempt.query or grant.query != attempt.query or attempt.batch > grant.batch:
        return False
    if attempt.batch < grant.batch:
        sink = grant.mandate.sink
        raise ExactlyOnceError(
            "CHECKPOINT_WENT_BACK",
            f"batch {attempt.batch} is to be written, but {sink} has batch {grant.batch} of this "
            "query already: the checkpoint is older than what was written. With another "
            "transactionalIdPrefix it is written again",
            {
                "sink": sink,
                "query": attempt.query,
                "batch": attempt.batch,
                "decidedBatch": grant.batch,
            },
        )
    return True


class TaskTransaction:
    """The transaction of one attempt, begun with its first rows."""

    def __init__(self, cluster: Cluster, grant: Grant, attempt: Attempt) -> None:
        self.cluster = cluster
        self.grant = grant
        self.attempt = attempt
        self._producer: BatchProducer | None = None

    @property
    def transactional_id(self) -> str:
        """One that nobody else uses: a new one, or a spare one that is for this attempt alone."""
        grant, attempt = self.grant, self.attempt
        if attempt.is_first and attempt.partition < len(grant.spare):
            return grant.spare[attempt.partition]
        return "-".join(
            (
                grant.mandate.sink,
                grant.run,
                str(attempt.batch),
                str(attempt.partition),
                str(attempt.task_attempt),
            )
        )

    def producer(self) -> BatchProducer:
        """The producer, in the transaction."""
        if self._producer is None:
            config = replace(
                self.cluster.config,
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.grant.mandate.timeout_ms,
            )
            producer = BatchProducer(self.cluster, config)
            producer.init_transactions()
            producer.begin_transaction()
            self._producer = producer
        return self._producer

    def leave_open(self, topics: tuple[str, ...]) -> TaskResult:
        """Everything is acknowledged; what the driver needs to end the transaction.

        TransactionError, ClientError: nothing of it will be visible.
        """
        producer = self._producer
        return TaskResult(
            mandate=self.grant.mandate,
            query=self.attempt.query,
            transaction=producer.leave_open() if producer is not None else None,
            topics=topics,
        )

    def abort(self) -> None:
        """The attempt has failed; readers need not wait for its timeout."""
        if self._producer is not None:
            with contextlib.suppress(ClientError):  # its timeout or the next batch aborts it
                self._producer.abort_transaction()
