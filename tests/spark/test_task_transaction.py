"""What an attempt of a task knows without a broker: whether its batch was decided before, and the
transactional id that is its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fencepost.client.produce_queue import Identity
from fencepost.spark.decisions import REVOKED
from fencepost.spark.errors import condition_of
from fencepost.spark.grants import Grant, Mandate
from fencepost.spark.memory import NOTHING
from fencepost.spark.options import sink_options
from fencepost.spark.sink_errors import ExactlyOnceError
from fencepost.spark.task_transaction import Attempt, TaskTransaction, is_decided
from fencepost.spark.writer import write_in_transaction

MANDATE = Mandate("sink", Identity(90, 4), True, 7, 60_000, 0.0)
KNOWN = NOTHING.with_key("query", 5, 20_000)
GRANT = Grant(MANDATE, "0a1b2c3d", "query", 5, ("sink-spare-0", "sink-spare-1"), KNOWN)
ATTEMPT = Attempt("query", 5, 0, 31, is_first=True)


@pytest.mark.parametrize(
    ("grant", "attempt", "expected"),
    [
        pytest.param(GRANT, replace(ATTEMPT, batch=6), False, id="the next batch"),
        pytest.param(GRANT, ATTEMPT, True, id="the batch that was decided"),
        pytest.param(GRANT, replace(ATTEMPT, query="other"), False, id="of another query"),
        pytest.param(
            GRANT, replace(ATTEMPT, query="other", batch=0), False, id="before it, of another query"
        ),
        pytest.param(
            replace(GRANT, query="", batch=0, memory=NOTHING),
            replace(ATTEMPT, query="", batch=0),
            False,
            id="a batch write after a batch write",
        ),
        pytest.param(
            replace(GRANT, query="", batch=REVOKED, memory=NOTHING),
            replace(ATTEMPT, batch=0),
            False,
            id="nothing decided yet",
        ),
        pytest.param(
            replace(GRANT, batch=REVOKED, memory=NOTHING),
            replace(ATTEMPT, batch=0),
            False,
            id="revoked",
        ),
    ],
)
def test_whether_a_batch_was_decided(grant: Grant, attempt: Attempt, expected: bool):
    assert is_decided(grant, attempt) is expected


@pytest.mark.parametrize("batch", [4, 0])
def test_a_batch_before_the_decided_one_is_refused(batch: int):
    with pytest.raises(ExactlyOnceError, match=f"batch {batch} is to be written") as raised:
        is_decided(GRANT, replace(ATTEMPT, batch=batch))
    found = condition_of(raised.value)
    assert found is not None
    assert found.name == "FENCEPOST_EXACTLY_ONCE.CHECKPOINT_WENT_BACK"
    assert (found.parameters["batch"], found.parameters["decidedBatch"]) == (str(batch), "5")


def id_of(attempt: Attempt, grant: Grant = GRANT) -> str:
    cluster: Any = None
    return TaskTransaction(cluster, grant, attempt).transactional_id


def test_spare_ids_are_for_first_attempts_of_as_many_tasks():
    assert id_of(ATTEMPT) == "sink-spare-0"
    assert id_of(replace(ATTEMPT, partition=1)) == "sink-spare-1"
    assert id_of(replace(ATTEMPT, partition=2)) == "sink-0a1b2c3d-5-2-31"
    assert id_of(replace(ATTEMPT, is_first=False)) == "sink-0a1b2c3d-5-0-31"


def test_attempts_have_ids_of_their_own():
    mine = id_of(replace(ATTEMPT, is_first=False))
    others = [
        id_of(replace(ATTEMPT, is_first=False, **other))
        for other in ({"batch": 6}, {"partition": 1}, {"task_attempt": 32})
    ]
    others.append(id_of(replace(ATTEMPT, is_first=False), replace(GRANT, run="ffffffff")))
    assert len({mine, *others}) == 5


def test_an_attempt_without_rows_leaves_no_transaction():
    cluster: Any = None
    result = TaskTransaction(cluster, GRANT, ATTEMPT).leave_open(())
    assert (result.mandate, result.query, result.transaction) == (MANDATE, "query", None)


def test_rows_of_a_decided_batch_are_taken_and_not_written():
    """Spark goes on handing a task its rows until it has taken all."""
    taken: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            taken.append(number)
            yield pa.RecordBatch.from_pydict({"value": [b"%d" % number]})

    unused: Any = SimpleNamespace()
    options = sink_options({"kafka.bootstrap.servers": "h:1", "topic": "t"})
    message = write_in_transaction(options, GRANT, ATTEMPT, batches(), unused)
    assert taken == [0, 1, 2]
    assert message.records == {}
    assert message.result is not None
    assert message.result.transaction is None
