"""What the exactly-once sink raises: PySpark's exceptions, like those of `errors`.

All conditions are kinds of FENCEPOST_EXACTLY_ONCE. Their parameters name the sink (its
transactionalIdPrefix), and where there is one the batch, so that a program can tell what became of
what it wrote without reading texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fencepost.spark.conditions import EXACTLY_ONCE
from fencepost.spark.errors import SparkError

NAMED_MAX: Final = 5
"""How many transactional ids a text names; the parameter `transactionalIds` has no more."""


class ExactlyOnceError(SparkError, RuntimeError):
    """A batch cannot be committed, or not yet; the text says what became of it."""

    def __init__(self, kind: str, message: str, parameters: Mapping[str, object]) -> None:
        super().__init__(f"{EXACTLY_ONCE}.{kind}", message, parameters)


class SinkFencedError(ExactlyOnceError):
    """Another driver has taken the sink over; what this one wrote is aborted."""

    def __init__(self, sink: str, message: str) -> None:
        super().__init__("SINK_FENCED", message, {"sink": sink})


class TransactionsLostError(ExactlyOnceError):
    """The batch was not decided, because transactions were aborted or soon could be; none of it is
    visible. TRANSACTIONS_LOST, or DECISION_TOO_LATE."""


class IncompleteBatchError(ExactlyOnceError):
    """A part of a decided batch was committed, the rest timed out before a driver committed it."""

    def __init__(self, sink: str, batch: int, count: int, lost: Sequence[str]) -> None:
        names = some_of(lost)
        super().__init__(
            "INCOMPLETE_BATCH",
            f"batch {batch} of {sink} was decided, {count - len(lost)} of its {count} transactions "
            f"were committed, and {len(lost)} timed out before the driver came back ({names}). To "
            "have the batch written again as a whole, with the rows of the committed ones twice, "
            f"call `fencepost spark forget {sink}` and start again",
            {
                "sink": sink,
                "batch": batch,
                "transactions": count,
                "lostTransactions": len(lost),
                "transactionalIds": names,
            },
        )


class UnfinishedBatchError(ExactlyOnceError):
    """A batch is decided, and some of its transactions are not ended yet."""

    def __init__(self, sink: str, batch: int, count: int, left: int, why: str) -> None:
        super().__init__(
            "UNFINISHED_BATCH",
            f"batch {batch} of {sink} is decided, but {left} of its {count} transactions could not "
            f"be ended yet: {why}. The next write of that transactionalIdPrefix finishes it, or "
            f"`fencepost spark finish {sink}`",
            {"sink": sink, "batch": batch, "transactions": count, "openTransactions": left},
        )


class DecisionError(ExactlyOnceError, ValueError):
    """What the group has committed is not a decision of this sink, or not a whole one."""

    def __init__(self, sink: str, reason: str) -> None:
        super().__init__(
            "INVALID_DECISION",
            f"the offsets of consumer group {sink} hold no decision of this sink: {reason}",
            {"sink": sink, "reason": reason},
        )


class DecisionLostError(ExactlyOnceError):
    """The sink has decided batches, and what it remembered of them is gone: whether the next batch
    is in its topics already is not known."""

    def __init__(self, sink: str, ago_ms: int) -> None:
        super().__init__(
            "DECISION_LOST",
            f"the driver of {sink} committed a decision {ago_ms // 1000} s ago, and consumer group "
            f"{sink} does not have it: the group was deleted, or all topics that it wrote to were. "
            "Whether the next batch was written before is not known. See what is in the topics; "
            f"`fencepost spark forget {sink}` then lets the sink begin again",
            {"sink": sink, "decidedAgoMs": ago_ms},
        )


class BatchForgottenError(ExactlyOnceError):
    """A batch that may have been decided longer ago than brokers keep decisions."""

    def __init__(self, sink: str, query: str, batch: int, age_ms: int, retention_ms: int) -> None:
        super().__init__(
            "BATCH_FORGOTTEN",
            f"batch {batch} of query {query} was first tried {age_ms // 1000} s ago, and {sink} "
            f"knows of no batch of that query: what it decided is kept for {retention_ms // 1000} "
            "s (offsets.retention.minutes). Whether this batch was written then is not known. See "
            "what is in the topics; forgottenBatch=write then writes it",
            {
                "sink": sink,
                "query": query,
                "batch": batch,
                "ageMs": age_ms,
                "retentionMs": retention_ms,
            },
        )


class TooManyKeysError(ExactlyOnceError):
    """A sink remembers as many keys as it can, and takes no new one."""

    def __init__(self, sink: str, count: int) -> None:
        super().__init__(
            "TOO_MANY_KEYS",
            f"{sink} remembers {count} queries and txnAppIds, and no more. Use a txnAppId again, "
            "with higher versions, or another transactionalIdPrefix; `fencepost spark forget "
            f"{sink} --keys-older-than DAYS` forgets old ones",
            {"sink": sink, "keys": count},
        )


def some_of(names: Sequence[str]) -> str:
    """The first few, for texts."""
    return ", ".join(names[:NAMED_MAX])
