"""Conditions and parameters of errors: in the process that raised them, and in Spark's texts."""

from __future__ import annotations

import pickle
import re
import traceback
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from fencepost.arrow import errors as read_errors
from fencepost.arrow.conditions import DATA_LOSS_KINDS, END_BEHIND_LATEST, LOST_PARTITIONS
from fencepost.arrow.loss import Loss, never_seen, recreated, unseen_beginning
from fencepost.batch.errors import BatchError
from fencepost.client.errors import ConnectionFailed, UnknownTopic
from fencepost.client.metadata import TopicPartition
from fencepost.spark.conditions import CONDITIONS
from fencepost.spark.errors import (
    ClusterError,
    Condition,
    DataLossError,
    OptionError,
    SchemaError,
    SinkError,
    SparkError,
    cluster_errors,
    condition_of,
    spark_error,
)
from fencepost.spark.sink_errors import (
    DecisionError,
    IncompleteBatchError,
    SinkFencedError,
    UnfinishedBatchError,
)
from fencepost.wire.errors import EncodeError, ErrorCode

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
RANGE = {"topicPartition": "t-0", "startOffset": "3", "endOffset": "7"}
added = unseen_beginning(P0, 5)
assert added is not None
LOSSES = {
    "PARTITIONS_DELETED": (Loss("deleted", P0, 3, -1, ""), {"partitions": "t-0, t-1"}),
    "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS": (never_seen(P0), {"partitions": "t-0"}),
    "TOPIC_RECREATED": (
        recreated(P0, 3, 7, "then", "now", 0),
        {**RANGE, "previousTopicId": "then", "currentTopicId": "now"},
    ),
    "PARTITION_OFFSET_CHANGED": (
        Loss("truncated", P0, 3, 7, ""),
        {"topicPartition": "t-0", "prevOffset": "7", "newOffset": "3"},
    ),
    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO": (
        added,
        {"topicPartition": "t-0", "startOffset": "5"},
    ),
    "COULD_NOT_READ_OFFSET_RANGE": (
        Loss("aged out", P0, 3, 7, ""),
        {**RANGE, "groupId": "none"},
    ),
    "HISTORY_REPLACED": (Loss("history replaced", P0, 3, 7, ""), RANGE),
    "RECORDS_REWRITTEN": (Loss("rewritten", P0, 3, 7, ""), RANGE),
}
READ_ERRORS = [
    read_errors.DataLossError([LOSSES["TOPIC_RECREATED"][0]]),
    read_errors.BoundsError(
        "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", "x", {"startOffset": 5}
    ),
    read_errors.AvailableNowError(LOST_PARTITIONS, "x", {"tpsForEndOffset": "t-0"}),
    read_errors.AvailableNowError(END_BEHIND_LATEST, "x", {"latestOffset": "{}"}),
    read_errors.TimestampError(P0, 3, 2**60),
    read_errors.OffsetError(["x" * 10_000], "no"),
    read_errors.DamagedRecordsError(P0, BatchError(ErrorCode.CORRUPT_MESSAGE, "x", 3)),
]
ERRORS = [
    *map(spark_error, READ_ERRORS),
    OptionError("startingOffsets", "soon", "no"),
    SinkError("no", column="value"),
    SchemaError("no", "value", "binary"),
    ClusterError(UnknownTopic("no such topic", topic="t", partition=3)),
    SinkFencedError("s", "x"),
    IncompleteBatchError("s", 3, 2, ["s-1"]),
    UnfinishedBatchError("s", 3, 2, 1, "x"),
    DecisionError("s", "x"),
]


@pytest.mark.parametrize("name", LOSSES)
def test_every_kind_of_loss_has_its_condition(name: str):
    loss, parameters = LOSSES[name]
    error = spark_error(read_errors.DataLossError([loss, Loss("deleted", P1, 0, -1, "")]))
    assert error.getCondition() == f"KAFKA_DATA_LOSS.{name}"
    assert error.getMessageParameters() == parameters
    assert error.getSqlState() == "22000"
    assert str(error).startswith(f"[KAFKA_DATA_LOSS.{name}] data loss in 2 partition(s): t-0")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_are_pysparks_and_travel_in_pickles(error: SparkError):
    assert isinstance(error, PySparkException)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), str(error))
    assert condition_of(copy) == condition_of(error)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_traceback_carries_condition_and_parameters(error: SparkError):
    try:
        raise error
    except SparkError as caught:
        text = traceback.format_exc()
        expected = condition_of(caught)
    handed_on = RuntimeError(f"[STREAM_FAILED] Query terminated: {text}\tat org.apache.Spark(x)")
    assert condition_of(handed_on) == expected
    assert expected is not None and expected.parameters


def test_the_clients_errors_are_told_with_what_they_know():
    refused = UnknownTopic("gone", topic="t", partition=3, host="h:1", code=3)
    with pytest.raises(ClusterError, match="gone") as raised, cluster_errors():
        raise refused
    assert raised.value.__cause__ is refused
    assert condition_of(raised.value) == Condition(
        "FENCEPOST_CLUSTER",
        {
            "error": "UNKNOWN_TOPIC_OR_PARTITION",
            "reason": str(refused),
            "topic": "t",
            "partition": "3",
            "broker": "h:1",
        },
    )
    for cause in (ConnectionFailed("away", host="h:1"), EncodeError("too long")):
        with pytest.raises(ClusterError) as raised, cluster_errors():
            raise cause
        assert raised.value.getMessageParameters()["error"] == type(cause).__name__


@pytest.mark.parametrize("error", READ_ERRORS, ids=lambda error: type(error).__name__)
def test_errors_of_reading_have_their_names_and_conditions_in_spark(error: read_errors.ReadError):
    """The text that Spark hands on must begin with the class that users of Spark look for."""
    cause = ValueError("cause")
    with pytest.raises(SparkError) as raised, cluster_errors():
        raise error from cause
    assert type(raised.value).__name__ == type(error).__name__
    assert raised.value.__cause__ is cause
    assert condition_of(raised.value) == Condition(error.condition, error.parameters)
    text = "".join(traceback.format_exception(raised.value))
    assert f"fencepost.spark.errors.{type(error).__name__}: [{error.condition}]" in text
    assert "fencepost.arrow.errors" not in text
    assert error.message in text
    assert isinstance(raised.value, ValueError) == isinstance(error, ValueError)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.args, vars(copy)) == (type(error), error.args, vars(error))


def test_an_error_of_loss_keeps_its_losses_and_says_how_to_go_on():
    error = read_errors.DataLossError([LOSSES["TOPIC_RECREATED"][0]])
    with pytest.raises(DataLossError) as raised, cluster_errors():
        raise error
    assert raised.value.losses == error.losses
    assert str(raised.value).endswith(". Set failOnDataLoss=false to go on with a warning.")


def test_texts_of_others_have_no_condition_of_ours():
    """Those of Spark's own connector neither, which share names."""
    for text in (
        "[STREAM_FAILED] something",
        "[KAFKA_DATA_SOURCE_NOT_ENABLED] Kafka is not enabled",
        "org.apache.spark.sql.kafka010.X: [KAFKA_DATA_LOSS.PARTITIONS_DELETED] gone",
        "fencepost.spark.errors.DataLossError: [KAFKA_DATA_LOSS.X] not one of ours",
        "fencepost.spark.errors.DataLossError: [FENCEPOST_X] nor this",
    ):
        assert condition_of(RuntimeError(text)) is None, text


@pytest.mark.parametrize("behind", ["parameters: {not json", "parameters: [1]", "cut off"])
def test_parameters_that_did_not_come_through_are_none(behind: str):
    half = RuntimeError(f"fencepost.spark.errors.SinkError: [FENCEPOST_INVALID_ROWS] x {behind}")
    assert condition_of(half) == Condition("FENCEPOST_INVALID_ROWS", {})


def test_all_conditions_are_declared_and_documented():
    """An error with a name that is not declared is our mistake; the pages have them all."""
    assert set(LOSSES) == DATA_LOSS_KINDS
    with pytest.raises(AssertionError):
        SparkError("FENCEPOST_X", "x", {})
    docs = Path(__file__).parents[2] / "docs"
    page = "".join((docs / name).read_text() for name in ("SPARK.md", "EXACTLY_ONCE.md"))
    for name in CONDITIONS:
        assert re.search(rf"`\S*\b{name.rpartition('.')[2]}`", page), name


def test_errors_of_the_exactly_once_sink_say_what_became_of_the_batch():
    error = IncompleteBatchError("s", 3, 7, [f"s-{number}" for number in range(6)])
    assert isinstance(error, RuntimeError)
    assert error.getCondition() == "FENCEPOST_EXACTLY_ONCE.INCOMPLETE_BATCH"
    assert error.getMessageParameters() == {
        "sink": "s",
        "batch": "3",
        "transactions": "7",
        "lostTransactions": "6",
        "transactionalIds": "s-0, s-1, s-2, s-3, s-4",
    }
    assert "1 of its 7 transactions were committed" in str(error)
