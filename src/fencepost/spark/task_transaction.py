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
from fencepost.spark.decisions import NO_LABEL, Label
from fencepost.spark.grants import Grant, TaskResult
from fencepost.spark.idempotency import DESCRIPTION_PROPERTY, QUERY_PROPERTY, run_in
from fencepost.spark.memory import is_keyed, key_of, run_digest
from fencepost.spark.options import SinkOptions
from fencepost.spark.sink_errors import BatchForgottenError, ExactlyOnceError, SinkFencedError
from fencepost.spark.takeover import driver_of

BATCH_PROPERTY = "streaming.sql.batchId"
APPLICATION_PROPERTY = "spark.app.name"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which attempt of which task of which batch."""

    query: str
    """The key of the batch (`memory`): a query's id, or that of a batch write; empty for a batch
    write without."""
    batch: int
    """The batch's id in its query, or the version of the key; 0 for a batch write without."""
    partition: int
    task_attempt: int
    """Of all attempts of all tasks in the Spark application another."""
    is_first: bool
    label: Label = NO_LABEL
    run: str = ""
    """The run of a streaming query in whose foreachBatch this is, as `memory.run_digest` has it."""

    @classmethod
    def running(cls, options: SinkOptions, *, streaming: bool) -> Attempt:
        """The attempt that this Python worker works for, of a batch or of a streaming query.

        A batch write without a key, in the function of a foreachBatch, has that of the query, if
        the sink has a name that stays. ExactlyOnceError.
        """
        context = TaskContext.get()
        if context is None:
            raise ExactlyOnceError(
                "NOT_IN_A_TASK", "exactly-once writes run in Spark's tasks only", {}
            )
        around = _Around.of(context)
        key, batch, run = _identity(options, around, streaming=streaming)
        return cls(
            key,
            batch,
            context.partitionId(),
            context.taskAttemptId(),
            context.attemptNumber() == 0,
            Label(around.application, around.query_name).shortened(),
            run_digest(run),
        )


@dataclass(frozen=True, slots=True)
class _Around:
    """What Spark tells its tasks of the query that they are a part of; empty where it is none."""

    application: str
    query_id: str
    batch: str
    query_name: str
    run_id: str

    @classmethod
    def of(cls, context: TaskContext) -> _Around:
        query_id = context.getLocalProperty(QUERY_PROPERTY) or ""
        name, run_id = "", ""
        if query_id:  # else the description is a text of the program's
            text = context.getLocalProperty(DESCRIPTION_PROPERTY) or ""
            first = text.partition("\n")[0]
            name = "" if first.startswith("id = ") else first
            run_id = run_in(text)
        return cls(
            context.getLocalProperty(APPLICATION_PROPERTY) or "",
            query_id,
            context.getLocalProperty(BATCH_PROPERTY) or "",
            name,
            run_id,
        )


def _identity(options: SinkOptions, around: _Around, *, streaming: bool) -> tuple[str, int, str]:
    """The key of what is written, its version, and the run of the query that it is a part of."""
    wanted = options.exactly_once
    if not streaming and wanted is not None and wanted.write is not None:
        write = wanted.write
        return key_of(write.app_id, options.topic), write.version, write.run
    if not streaming and not around.query_id:
        return "", 0, ""
    if not around.query_id or not re.fullmatch("[0-9]{1,18}", around.batch):
        raise ExactlyOnceError(
            "UNKNOWN_BATCH",
            f"Spark does not say which batch this is ({QUERY_PROPERTY}={around.query_id!r}, "
            f"{BATCH_PROPERTY}={around.batch!r})",
            {"query": around.query_id, "batch": around.batch},
        )
    if streaming:
        return around.query_id, int(around.batch), ""
    if wanted is None or wanted.name is None:
        raise ExactlyOnceError(
            "KEY_NEEDED",
            "this write is a part of a streaming query's batch, which Spark may run again, and its "
            "rows would be there again: write with .options(**in_batch(frame, batch_id)), which "
            "fencepost.spark has, or with txnAppId and txnVersion",
            {"query": around.query_id, "batch": around.batch},
        )
    return key_of(around.query_id, options.topic), int(around.batch), around.run_id


def is_decided(grant: Grant, attempt: Attempt) -> bool:
    """Whether the batch was decided before, so that nothing is to be written.

    ExactlyOnceError for a batch before the one that was decided last, since its checkpoint went
    back or its version is an older one; for a second write with one key in one batch of a query;
    and where the batch may have been decided before brokers forgot.
    """
    if not attempt.query:
        return False
    known = grant.memory.find(attempt.query)
    if known is None:
        if grant.forgotten is not None:
            age = grant.forgotten
            raise BatchForgottenError(
                grant.mandate.sink, attempt.query, attempt.batch, age.age_ms, age.retention_ms
            )
        return False
    if attempt.batch > known.version:
        return False
    if attempt.batch < known.version:
        raise _older(grant.mandate.sink, attempt, known.version)
    if is_keyed(attempt.query) and attempt.run and attempt.run == known.run:
        raise ExactlyOnceError(
            "SAME_KEY_TWICE",
            f"version {attempt.batch} of {attempt.query} was written by this run of the query "
            "already, so this is another write with the same txnAppId, which would be left out. "
            "Give each write of a batch its own: in_batch(frame, batch_id, 'NAME')",
            {"sink": grant.mandate.sink, "key": attempt.query, "version": attempt.batch},
        )
    return True


def _older(sink: str, attempt: Attempt, decided: int) -> ExactlyOnceError:
    if is_keyed(attempt.query):
        return ExactlyOnceError(
            "OLDER_VERSION",
            f"version {attempt.batch} of {attempt.query} is to be written, but {sink} has version "
            f"{decided} of it already. Versions must grow; with another txnAppId it is written",
            {
                "sink": sink,
                "key": attempt.query,
                "version": attempt.batch,
                "decidedVersion": decided,
            },
        )
    return ExactlyOnceError(
        "CHECKPOINT_WENT_BACK",
        f"batch {attempt.batch} is to be written, but {sink} has batch {decided} of this "
        "query already: the checkpoint is older than what was written, because it was set back, or "
        "is a copy of one that went on. With another transactionalIdPrefix it is written again",
        {
            "sink": sink,
            "query": attempt.query,
            "batch": attempt.batch,
            "decidedBatch": decided,
        },
    )


class TaskTransaction:
    """The transaction of one attempt, begun with its first rows."""

    def __init__(self, cluster: Cluster, grant: Grant, attempt: Attempt) -> None:
        self.cluster = cluster
        self.grant = grant
        self.attempt = attempt
        self._producer: BatchProducer | None = None

    @property
    def transactional_id(self) -> str:
        """One of this attempt alone: a new one, or a spare one that was given to it."""
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
        """The producer, in the transaction. SinkFencedError, ClientError."""
        if self._producer is None:
            self._require_driver()
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
        """Deliver everything; what the driver needs to end the transaction.

        SinkFencedError, TransactionError, ClientError: nothing of it will be visible.
        """
        left = self._producer.leave_open() if self._producer is not None else None
        if left is not None:
            self._require_driver()
        return TaskResult(
            mandate=self.grant.mandate,
            query=self.attempt.query,
            transaction=left,
            topics=topics,
            batch=self.attempt.batch,
            label=self.attempt.label,
            run=self.attempt.run,
        )

    def _require_driver(self) -> None:
        """SinkFencedError where the driver of this attempt can decide nothing any more: the write
        has failed meanwhile, or another driver has begun.

        The driver of a failed write takes the sink over and then lists what is open, to abort it.
        A transaction that is open when this asks is listed there, or this sees that the sink was
        taken over.
        """
        mandate = self.grant.mandate
        if driver_of(self.cluster, mandate.sink) != mandate.driver:
            raise SinkFencedError(
                mandate.sink,
                f"the write that this task is a part of has failed, or another driver has taken "
                f"the sink {mandate.sink} over; nothing of the task will be visible",
            )

    def abort(self) -> None:
        """The attempt has failed; readers need not wait for its timeout."""
        if self._producer is not None:
            with contextlib.suppress(ClientError):  # its timeout or the next batch aborts it
                self._producer.abort_transaction()
