"""What an attempt of a task knows without a broker: whether its batch was decided before, and the
transactional id that is its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from fencepost.client.produce_queue import Identity
from fencepost.spark.decisions import REVOKED, Label
from fencepost.spark.errors import condition_of
from fencepost.spark.grants import Forgotten, Grant, Mandate
from fencepost.spark.memory import NOTHING, key_of, run_digest
from fencepost.spark.options import sink_options
from fencepost.spark.sink_errors import BatchForgottenError, ExactlyOnceError
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


KEY = key_of("app", "t")
KEYED = replace(ATTEMPT, query=KEY)


def keyed(version: int, run: str = "") -> Grant:
    return replace(GRANT, memory=KNOWN.with_key(KEY, version, 20_000, run))


@pytest.mark.parametrize(
    ("version", "run", "mine", "expected"),
    [
        (4, "", "", False),
        (5, "", "", True),
        (5, "", "aa", True),
        (5, "aa", "", True),
        (5, "aa", "bb", True),
        (5, "aa", "aa", "SAME_KEY_TWICE"),
        (4, "aa", "aa", False),
        (6, "", "", "OLDER_VERSION"),
        (6, "aa", "aa", "OLDER_VERSION"),
    ],
)
def test_whether_a_write_with_a_key_was_done(
    version: int, run: str, mine: str, expected: bool | str
):
    attempt = replace(KEYED, run=mine)
    if isinstance(expected, bool):
        assert is_decided(keyed(version, run), attempt) is expected
        return
    with pytest.raises(ExactlyOnceError) as raised:
        is_decided(keyed(version, run), attempt)
    found = condition_of(raised.value)
    assert found is not None
    assert found.name == f"FENCEPOST_EXACTLY_ONCE.{expected}"
    assert (found.parameters["key"], found.parameters["version"]) == (KEY, "5")


def test_a_batch_that_may_have_been_forgotten_is_refused_where_it_is_not_remembered():
    forgotten = replace(GRANT, forgotten=Forgotten(700_000, 600_000))
    assert is_decided(forgotten, ATTEMPT)
    assert not is_decided(forgotten, replace(ATTEMPT, batch=6))
    assert not is_decided(forgotten, replace(ATTEMPT, query=""))
    with pytest.raises(BatchForgottenError) as raised:
        is_decided(forgotten, replace(ATTEMPT, query="other"))
    found = condition_of(raised.value)
    assert found is not None
    assert found.parameters == {
        "sink": "sink",
        "query": "other",
        "batch": "5",
        "ageMs": "700000",
        "retentionMs": "600000",
    }


DESCRIPTION = "to tables\nid = 7a\nrunId = 11111111-2222-3333-4444-555555555555\nbatch = 4"
AROUND = {
    "sql.streaming.queryId": "7a",
    "streaming.sql.batchId": "4",
    "spark.job.description": DESCRIPTION,
    "spark.app.name": "orders",
}
RUN = run_digest("11111111-2222-3333-4444-555555555555")


def running(
    monkeypatch: pytest.MonkeyPatch, around: dict[str, str], *, streaming: bool, **options: str
) -> Attempt:
    context = SimpleNamespace(
        getLocalProperty=around.get,
        partitionId=lambda: 2,
        taskAttemptId=lambda: 31,
        attemptNumber=lambda: 0,
    )
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    base = {"kafka.bootstrap.servers": "h:1", "deliveryGuarantee": "exactly-once", "topic": "t"}
    return Attempt.running(sink_options({**base, **options}), streaming=streaming)


PREFIX = {"transactionalIdPrefix": "p"}
GIVEN = {"txnAppId": "app", "txnVersion": "9", "txnRun": "r"}


@pytest.mark.parametrize(
    ("around", "streaming", "options", "expected"),
    [
        pytest.param(AROUND, True, {}, ("7a", 4, ""), id="a query"),
        pytest.param({}, False, {}, ("", 0, ""), id="a batch write"),
        pytest.param({}, False, PREFIX, ("", 0, ""), id="a batch write with a prefix"),
        pytest.param({}, False, GIVEN, (KEY, 9, run_digest("r")), id="a batch write with a key"),
        pytest.param(AROUND, False, GIVEN, (KEY, 9, run_digest("r")), id="with a key in a query"),
        pytest.param(AROUND, False, PREFIX, (key_of("7a", "t"), 4, RUN), id="without one in it"),
        pytest.param(AROUND, False, {}, "KEY_NEEDED", id="without one and a prefix"),
        pytest.param({}, True, {}, "UNKNOWN_BATCH", id="no query"),
        pytest.param(
            {**AROUND, "streaming.sql.batchId": "x"}, True, {}, "UNKNOWN_BATCH", id="no batch"
        ),
    ],
)
def test_what_a_task_writes(
    monkeypatch: pytest.MonkeyPatch,
    around: dict[str, str],
    streaming: bool,
    options: dict[str, str],
    expected: tuple[str, int, str] | str,
):
    if isinstance(expected, str):
        with pytest.raises(ExactlyOnceError) as raised:
            running(monkeypatch, around, streaming=streaming, **options)
        found = condition_of(raised.value)
        assert found is not None
        assert found.name.endswith(expected)
        return
    attempt = running(monkeypatch, around, streaming=streaming, **options)
    assert (attempt.query, attempt.batch, attempt.run) == expected
    assert (attempt.partition, attempt.task_attempt, attempt.is_first) == (2, 31, True)
    assert attempt.label == Label(around.get("spark.app.name", ""), "to tables" if around else "")


@pytest.mark.parametrize(
    ("description", "name", "run"),
    [
        (DESCRIPTION, "to tables", RUN),
        (DESCRIPTION.partition("\n")[2], "", RUN),
        ("the program's own", "the program's own", ""),
        ("", "", ""),
        ("x\nrunId = not-one", "x", ""),
    ],
)
def test_a_description_of_jobs(
    monkeypatch: pytest.MonkeyPatch, description: str, name: str, run: str
):
    around = {**AROUND, "spark.job.description": description}
    attempt = running(monkeypatch, around, streaming=False, **PREFIX)
    assert (attempt.label.query, attempt.run) == (name, run)


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
