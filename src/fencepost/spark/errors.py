"""What is raised to users of Spark: PySpark's exceptions, with conditions and parameters.

`fencepost.arrow.errors` are raised where topics are planned and read; `cluster_errors` makes
exceptions of PySpark's of them. `conditions` has the names of all; those that Spark's own Kafka
connector has, too, have its parameters. Where an error is caught in the process that raised it,
`getCondition()` and `getMessageParameters()` have both. Spark hands errors of its Python processes
on as text, inside an error with a condition of its own; the text then has the class, our condition
in brackets and the parameters as JSON, and `condition_of` finds them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PySparkException

from fencepost.arrow import errors as read_errors
from fencepost.arrow.conditions import DATA_LOSS, MALFORMED_TIMESTAMP, NO_SUCH_TIME
from fencepost.arrow.errors import VALUE_SHOWN_MAX
from fencepost.arrow.loss import Loss
from fencepost.client.errors import ClientError
from fencepost.spark.conditions import (
    CLUSTER,
    CONDITIONS,
    INVALID_OPTION,
    INVALID_ROWS,
    INVALID_SCHEMA,
)
from fencepost.wire.errors import WireError, error_name

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
        if isinstance(value, str) and len(value) > VALUE_SHOWN_MAX:
            value = f"{value[:VALUE_SHOWN_MAX]}..."
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


class ArchiveReadError(SparkError):
    """The archive of the option `archive` cannot be read, or lacks files."""


class BoundsError(SparkError, ValueError):
    """Starts or ends do not fit the partitions there are, or each other."""


class AvailableNowError(SparkError):
    """What Trigger.AvailableNow was to read is not there any more; whatever failOnDataLoss says, as
    with Spark's connector. A restart of the query reads what there is then."""


class TimestampError(SparkError, ValueError):
    """A record's timestamp, in ms since 1970, does not fit into Spark's microseconds."""


class DataLossError(SparkError):
    """Offsets a query counted on are lost or have been rewritten; `losses` has them all.

    The condition is that of the first.
    """

    losses: list[Loss]


_CLASSES: Final[dict[type[read_errors.ReadError], type[SparkError]]] = {
    read_errors.OffsetError: OffsetError,
    read_errors.DamagedRecordsError: DamagedRecordsError,
    read_errors.ArchiveReadError: ArchiveReadError,
    read_errors.BoundsError: BoundsError,
    read_errors.AvailableNowError: AvailableNowError,
    read_errors.TimestampError: TimestampError,
    read_errors.DataLossError: DataLossError,
}
_HINTS: Final[dict[str, str]] = {
    NO_SUCH_TIME: "; set startingOffsetsByTimestampStrategy=latest to start at its end",
    MALFORMED_TIMESTAMP: ". Name the columns you need without `timestamp` (.schema) to read the "
    "record without it",
    DATA_LOSS: ". Set failOnDataLoss=false to go on with a warning.",
}


def spark_error(error: read_errors.ReadError) -> SparkError:
    """PySpark's exception for one of `fencepost.arrow`, with what users of Spark can do."""
    kind = _CLASSES[type(error)]
    hint = _HINTS.get(error.condition.partition(".")[0], "")
    made = kind(error.condition, error.message + hint, error.parameters)
    if isinstance(made, DataLossError) and isinstance(error, read_errors.DataLossError):
        made.losses = error.losses
    return made


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Errors of the client and of `fencepost.arrow` within, as they are told to users of Spark."""
    try:
        yield
    except read_errors.ReadError as error:
        # Its own traceback would hide the class, which Spark's text is searched for.
        raise spark_error(error).with_traceback(error.__traceback__) from error.__cause__
    except (ClientError, WireError) as error:
        raise ClusterError(error) from error


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
