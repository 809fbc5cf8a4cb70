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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PySparkException

from fencepost.client.metadata import TopicPartition
from fencepost.spark.conditions import (
    CONDITIONS,
    DATA_LOSS,
    INVALID_OPTION,
    INVALID_ROWS,
    MALFORMED_TIMESTAMP,
)
from fencepost.spark.loss import UNKNOWN_END, Loss

SQL_STATES: Final = {DATA_LOSS: "22000", INVALID_OPTION: "42616", MALFORMED_TIMESTAMP: "22008"}
_PARAMETERS: Final = "parameters: "
# As Python writes an error of ours: with its class, which Spark's own connector has not.
_IN_TEXT: Final = re.compile(r"\bfencepost\.spark\.\w+\.\w+: \[([A-Z_]+(?:\.[A-Z_]+)?)\]")
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
        super().__init__(
            INVALID_OPTION,
            f"option {name}={value!r}: {allowed}",
            {"option": name, "value": value, "allowed": allowed},
        )


class SinkError(SparkError, ValueError):
    """The rows cannot be written as they are; the text says which column and why."""

    def __init__(self, message: str, condition: str = INVALID_ROWS) -> None:
        super().__init__(condition, message, {})


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
