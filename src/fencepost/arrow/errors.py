"""What planning and reading raise beside the client's errors: a condition, a text, parameters.

`fencepost.spark.errors` has a PySpark exception for each class that can be raised in Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fencepost.arrow.conditions import (
    ARCHIVE,
    CALL_CONDITIONS,
    DAMAGED_RECORDS,
    DATA_LOSS,
    INVALID_ARGUMENT,
    INVALID_OFFSET,
    INVALID_TEXT,
    MALFORMED_TIMESTAMP,
    READ_CONDITIONS,
)
from fencepost.arrow.loss import UNKNOWN_END, Loss
from fencepost.batch.errors import BatchError
from fencepost.client.metadata import TopicPartition

VALUE_SHOWN_MAX: Final = 300
"""Characters of a wrong value that an error's text has."""


class ReadError(Exception):
    """Base of all errors here. `condition` is a name of `conditions`; `parameters`
    has what the text speaks of, by name."""

    def __init__(self, condition: str, message: str, parameters: Mapping[str, object]) -> None:
        assert condition in READ_CONDITIONS | CALL_CONDITIONS, condition
        super().__init__(message)
        self.condition = condition
        self.message = message
        self.parameters = {name: str(value) for name, value in parameters.items()}

    def __reduce__(self) -> Any:
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[ReadError], args: tuple[Any, ...], attributes: dict[str, Any]) -> ReadError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class ArgumentError(ReadError, ValueError):
    """A call's argument is wrong; the text names it and says what is allowed."""

    def __init__(self, argument: str, value: object, allowed: str) -> None:
        shown = repr(value)
        if len(shown) > VALUE_SHOWN_MAX:
            shown = f"{shown[:VALUE_SHOWN_MAX]}..."
        super().__init__(
            INVALID_ARGUMENT,
            f"{argument}={shown}: {allowed}",
            {"argument": argument, "value": shown, "allowed": allowed},
        )


class TextError(ReadError, ValueError):
    """A key or value that was to be read as text is not UTF-8."""

    def __init__(self, where: TopicPartition, offset: int, column: str) -> None:
        super().__init__(
            INVALID_TEXT,
            f"the {column} of the record at offset {offset} of {where} is not UTF-8; leave "
            f"{column!r} out of `text` to read bytes",
            {
                "topic": where.topic,
                "partition": where.partition,
                "offset": offset,
                "column": column,
            },
        )


class OffsetError(ReadError, ValueError):
    """What the checkpoint has as an offset is none: it was cut, or another source wrote it."""

    def __init__(self, told: object, reason: str) -> None:
        text = json.dumps(told, default=repr)[:VALUE_SHOWN_MAX]
        super().__init__(
            INVALID_OFFSET,
            f"the checkpoint has {text} as an offset, which is not one of topics: {reason}",
            {"offset": text, "reason": reason},
        )


class DamagedRecordsError(ReadError):
    """Bytes that a broker gave out are no records; the partition cannot be read past them."""

    def __init__(self, where: TopicPartition, cause: BatchError) -> None:
        at = {} if cause.offset is None else {"offset": cause.offset}
        super().__init__(
            DAMAGED_RECORDS,
            f"{where}: {cause}",
            {"topic": where.topic, "partition": where.partition, **at, "error": cause.code.name},
        )


class ArchiveReadError(ReadError):
    """The archive that a read begins in cannot be read, or lacks files; the text says why."""

    def __init__(self, archive: str, reason: str) -> None:
        super().__init__(ARCHIVE, f"archive {archive}: {reason}", {"archive": archive})


class BoundsError(ReadError, ValueError):
    """Starts or ends do not fit the partitions there are, or each other."""


class AvailableNowError(ReadError):
    """What a read of all that is available now was to read is not there any more; whether losses
    are reported as errors or not. A new start reads what there is then."""

    def __init__(self, condition: str, message: str, parameters: Mapping[str, object]) -> None:
        super().__init__(condition, f"{message}. Start the query again", parameters)


class TimestampError(ReadError, ValueError):
    """A record's timestamp, in ms since 1970, does not fit into 64 bits of microseconds."""

    def __init__(self, where: TopicPartition, offset: int, timestamp_ms: int) -> None:
        super().__init__(
            MALFORMED_TIMESTAMP,
            f"the record at offset {offset} of {where} has the timestamp {timestamp_ms} ms, which "
            "64 bits of microseconds cannot hold; perhaps its producer takes smaller units",
            {
                "topic": where.topic,
                "partition": where.partition,
                "offset": offset,
                "timestamp": timestamp_ms,
            },
        )


class DataLossError(ReadError):
    """Offsets a query counted on are lost or have been rewritten; `losses` has them all.

    The condition is that of the first.
    """

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = list(losses)
        name, parameters = loss_condition(self.losses[0], self.losses)
        super().__init__(
            f"{DATA_LOSS}.{name}",
            f"data loss in {len(self.losses)} partition(s): {'; '.join(map(str, self.losses))}",
            parameters,
        )


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
