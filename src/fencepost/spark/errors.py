"""What is raised to users of Spark: PySpark's exceptions, with conditions and parameters.

`conditions` has the names of all of them; those that Spark's own Kafka connector has, too, have its
parameters. Where an error is caught in the process that raised it, `getCondition()` and
`getMessageParameters()` have both. Spark hands errors of its Python processes on as text, inside an
error with a condition of its own; the text then has the class, our condition in brackets and the
parameters as JSON, and `condition_of` finds them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PySparkException

from fencepost.batch.errors import BatchError
from fencepost.client.errors import ClientError
from fencepost.client.metadata import TopicPartition
from fencepost.spark.conditions import (
    CLUSTER,
    CONDITIONS,
    DAMAGED_RECORDS,
    DATA_LOSS,
    INVALID_OFFSET,
    INVALID_OPTION,
    INVALID_ROWS,
    INVALID_SCHEMA,
    MALFORMED_TIMESTAMP,
)
from fencepost.spark.loss import UNKNOWN_END, Loss
from fencepost.wire.errors import WireError, error_name

SQL_STATES: Final = {DATA_LOSS: "22000", INVALID_OPTION: "42616", MALFORMED_TIMESTAMP: "22008"}
_PARAMETERS: Final = "parameters: "
# As Python writes an error of ours: with its class, which Spark's own connector has not.
_IN_TEXT: Final = re.compile(r"\bfencepost\.spark\.\w+\.\w+: \[([A-Z_]+(?:\.[A-Z_]+)?)\]")
_VALUE_SHOWN_MAX: Final = 300
# How much of a text is searched for our parameters: Spark's texts hold whole Java stacks.
_TEXT_MAX: Final = 1_000_000


class SparkError(PySparkException):
    """Base of all errors here: `str` has the condition in brackets, then the message."""

    def __init__(self, condition: str, message: str, parameters: Mapping[str, object]) -> None:
        assert condition in CONDITIONS, condition
        named = {name: str(value) for name, value in parameters.items()}
        super().__init__(message=message, errorClass=condition, messageParameters=named)
        self.args = (message,)
        self.add_note(_PARAMETERS + json.dumps(named, sort_keys=True))

    def getSqlState(self) -> str | None:  # noqa: N802
        """As Spark's connector has it, where it has one."""
        return SQL_STATES.get(str(self.getCondition()).partition(".")[0])

    def __str__(self) -> str:
        return str(self.getMessage())

    def __reduce__(self) -> Any:
        return _again, (type(self), self.__dict__)


def _again(kind: type[SparkError], attributes: dict[str, Any]) -> SparkError:
    error = kind.__new__(kind)
    error.__dict__.update(attributes)
    return error


class OptionError(SparkError, ValueError):
    """An option has a wrong name or value; the text names it and says what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        if isinstance(value, str) and len(value) > _VALUE_SHOWN_MAX:
            value = f"{value[:_VALUE_SHOWN_MAX]}..."
        super().__init__(
            INVALID_OPTION,
            f"option {name}={value!r}: {allowed}",
            {"option": name, "value": value, "allowed": allowed},
        )


class SinkError(SparkError, ValueError):
    """The rows cannot be written as they are; the text says which column and why."""

    def __init__(self, message: str, condition: str = INVALID_ROWS, **parameters: object) -> None:
        super().__init__(condition, message, parameters)


class SchemaError(SparkError, ValueError):
    """A read's schema names a column that there is not, or one of another type."""

    def __init__(self, message: str, column: str, allowed: str) -> None:
        super().__init__(INVALID_SCHEMA, message, {"column": column, "allowed": allowed})


class OffsetError(SparkError, ValueError):
    """What the checkpoint has as an offset is none: it was cut, or another source wrote it."""

    def __init__(self, told: object, reason: str) -> None:
        text = json.dumps(told, default=repr)[:_VALUE_SHOWN_MAX]
        super().__init__(
            INVALID_OFFSET,
            f"the checkpoint has {text} as an offset, which is not one of topics: {reason}",
            {"offset": text, "reason": reason},
        )


class ClusterError(SparkError):
    """Brokers cannot be reached, refuse, or do not answer as they should; the cause is the client's
    error. `error` is Kafka's name of the refusal, or the client's of what went wrong."""

    def __init__(self, cause: ClientError | WireError) -> None:
        name = type(cause).__name__
        parameters: dict[str, object] = {"reason": str(cause)}
        if isinstance(cause, ClientError):
            name = name if cause.code is None else error_name(cause.code)
            where = {"topic": cause.topic, "partition": cause.partition, "broker": cause.host}
            parameters |= {key: value for key, value in where.items() if value is not None}
        super().__init__(CLUSTER, str(cause), {"error": name, **parameters})


class DamagedRecordsError(SparkError):
    """Bytes that a broker gave out are no records; the partition cannot be read past them."""

    def __init__(self, where: TopicPartition, cause: BatchError) -> None:
        at = {} if cause.offset is None else {"offset": cause.offset}
        super().__init__(
            DAMAGED_RECORDS,
            f"{where}: {cause}",
            {"topic": where.topic, "partition": where.partition, **at, "error": cause.code.name},
        )


@contextmanager
def cluster_errors() -> Iterator[None]:
    """The client's errors within, as they are told to users of Spark."""
    try:
        yield
    except (ClientError, WireError) as error:
        raise ClusterError(error) from error


class BoundsError(SparkError, ValueError):
    """Starts or ends do not fit the partitions there are, or each other."""


class AvailableNowError(SparkError):
    """What Trigger.AvailableNow was to read is not there any more; whatever failOnDataLoss says, as
    with Spark's connector. A restart of the query reads what there is then."""

    def __init__(self, condition: str, message: str, parameters: Mapping[str, object]) -> None:
        super().__init__(condition, f"{message}. Start the query again", parameters)


class TimestampError(SparkError, ValueError):
    """A record's timestamp, in ms since 1970, does not fit into Spark's microseconds."""

    def __init__(self, where: TopicPartition, offset: int, timestamp_ms: int) -> None:
        super().__init__(
            MALFORMED_TIMESTAMP,
            f"the record at offset {offset} of {where} has the timestamp {timestamp_ms} ms, which "
            "Spark's microseconds cannot hold; perhaps its producer takes smaller units. Name the "
            "columns you need without `timestamp` "
            "(.schema) to read the record without it",
            {
                "topic": where.topic,
                "partition": where.partition,
                "offset": offset,
                "timestamp": timestamp_ms,
            },
        )


class DataLossError(SparkError):
    """Offsets a query counted on are lost or have been rewritten; `losses` has them all.

    The condition is that of the first.
    """

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = list(losses)
        text = (
            f"data loss in {len(self.losses)} partition(s): "
            + "; ".join(map(str, self.losses))
            + ". Set failOnDataLoss=false to go on with a warning."
        )
        name, parameters = loss_condition(self.losses[0], self.losses)
        super().__init__(f"{DATA_LOSS}.{name}", text, parameters)


def loss_condition(loss: Loss, losses: Sequence[Loss]) -> tuple[str, dict[str, object]]:
    """The kind of KAFKA_DATA_LOSS that `loss` is, with its parameters."""
    where = loss.partition
    end = "the end" if loss.end == UNKNOWN_END else loss.end
    range_: dict[str, object] = {
        "topicPartition": where,
        "startOffset": loss.start,
        "endOffset": end,
    }
    if loss.kind == "deleted":
        gone = [one.partition for one in losses if one.kind == "deleted"]
        return "PARTITIONS_DELETED", {"partitions": ", ".join(map(str, gone))}
    if loss.kind == "never seen":
        gone = [one.partition for one in losses if one.kind == "never seen"]
        names: dict[str, object] = {"partitions": ", ".join(map(str, gone))}
        return "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", names
    if loss.kind == "recreated":
        ids = {"previousTopicId": loss.topic_ids[0], "currentTopicId": loss.topic_ids[1]}
        return "TOPIC_RECREATED", {**range_, **ids}
    if loss.kind == "truncated":
        changed = {"prevOffset": end, "newOffset": loss.start}
        return "PARTITION_OFFSET_CHANGED", {"topicPartition": where, **changed}
    if loss.kind == "aged out" and loss.is_new_partition:
        begins = {"topicPartition": where, "startOffset": loss.end}
        return "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO", begins
    if loss.kind == "aged out":
        # No consumer group reads here, but its name is one of the condition's parameters.
        return "COULD_NOT_READ_OFFSET_RANGE", {**range_, "groupId": "none"}
    if loss.kind == "history replaced":
        return "HISTORY_REPLACED", range_
    assert loss.kind == "rewritten", loss.kind
    return "RECORDS_REWRITTEN", range_


@dataclass(frozen=True)
class Condition:
    """A condition of this package, and its parameters as far as they came through."""

    name: str
    parameters: Mapping[str, str]


def condition_of(error: BaseException) -> Condition | None:
    """The condition of an error of ours, also where Spark handed it on as text in one of its own.

    None for errors of others.
    """
    if isinstance(error, SparkError):
        return Condition(str(error.getCondition()), dict(error.getMessageParameters() or {}))
    text = str(error)[:_TEXT_MAX]
    for found in _IN_TEXT.finditer(text):
        if found[1] in CONDITIONS:
            return Condition(found[1], _parameters_in(text[found.end() :]))
    return None


def _parameters_in(text: str) -> dict[str, str]:
    _, mark, behind = text.partition(_PARAMETERS)
    if not mark:
        return {}
    try:
        parsed, _ = json.JSONDecoder().raw_decode(behind)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
