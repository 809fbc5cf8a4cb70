"""Losses that a stream's planner meets over fake brokers: logs that were cut, topics that went."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from fencepost.arrow import survey as survey_module
from fencepost.arrow.errors import DataLossError
from fencepost.arrow.survey import Survey
from fencepost.client.errors import UnknownTopic
from fencepost.client.metadata import TopicPartition
from fencepost.spark.errors import condition_of, spark_error
from fencepost.spark.projection import Projection
from fencepost.spark.tasks import read_range

from ..client.fake_cluster import FakeCluster
from .schemas import schema
from .stream_query import P0, P1, Query, fill, fill_as_read, started, through_json

RUNNING, RESTARTED = "running", "restarted"


class Row(NamedTuple):
    """A loss of which a query hears that has read offsets 0 to 10 of t-0, the last in epoch 1.

    `lose` makes it, `told` and `says` are the losses and what else is in the error's text (`{was}`
    is the topic's old id). `reads` has the ranges that are read next with failOnDataLoss=false. Not
    every loss is noticed both by the process that was running and by the next.
    """

    lose: Callable[[FakeCluster, Query], None]
    told: list[str]
    says: list[str]
    reads: list[tuple[int, int, int]]
    noticed_by: tuple[str, ...] = (RUNNING, RESTARTED)
    plain_offsets: str = "false"


def cut(fake: FakeCluster, _: Query) -> None:
    fake.partition("t").elect(2, cut_to=6)


def cut_and_grow(fake: FakeCluster, _: Query) -> None:
    """Beyond what was read: Spark's own connector would read on at 10."""
    fake.partition("t").elect(2, cut_to=6)
    fill(fake, 20)


def cut_and_grow_by_one(fake: FakeCluster, _: Query) -> None:
    fake.partition("t").elect(2, cut_to=6)
    fill(fake, 1)


def recreate(fake: FakeCluster, _: Query) -> None:
    """With more than there was: the offsets look right."""
    fake.create_topic("t", 2)
    fill(fake, 50)


def recreate_alike(fake: FakeCluster, _: Query) -> None:
    """With as many records in the same epochs: nothing tells it but its id."""
    fake.create_topic("t", 2)
    fill_as_read(fake)


def delete(fake: FakeCluster, _: Query) -> None:
    del fake.topics["t"]


def age_out(fake: FakeCluster, _: Query) -> None:
    fill(fake, 10)
    fake.partition("t").delete_before(14)


def claim_another_epoch(_: FakeCluster, query: Query) -> None:
    assert query.committed is not None
    query.committed["#fencepost"]["t"]["epochs"]["0"] = 77


def add_a_partition_that_begins_late(fake: FakeCluster, _: Query) -> None:
    fake.topics["t"].partitions.append(type(fake.partition("t"))(leader=1))
    fill(fake, 4, 2)
    fake.partition("t", 2).delete_before(2)


LOSSES = {
    "cut": Row(
        cut,
        ["t-0: truncated, offsets 6 to 10"],
        ["leader epoch 1", "of epoch 2 says that epoch 0 ends at 6"],
        reads=[],
    ),
    "cut, other records since": Row(
        cut_and_grow,
        ["t-0: rewritten, offsets 6 to 10"],
        ["leader epoch 1", "of epoch 2 says that epoch 0 ends at 6", "the log reaches 26"],
        reads=[(0, 6, 26)],
    ),
    # Without epochs only a shorter log can be seen, and what replaced 6 cannot.
    "cut, plain offsets": Row(
        cut_and_grow_by_one,
        ["t-0: truncated, offsets 7 to 10"],
        ["the log ends at 7"],
        reads=[],
        noticed_by=(RESTARTED,),  # while a query runs its epochs are known
        plain_offsets="true",
    ),
    "recreated": Row(
        recreate,
        ["t-0: recreated, offsets 10 to the end", "t-1: recreated, offsets 0 to the end"],
        ["its id was {was}"],
        reads=[(0, 0, 50)],
    ),
    "recreated, looks the same": Row(
        recreate_alike,
        ["t-0: recreated, offsets 10 to the end", "t-1: recreated, offsets 0 to the end"],
        ["its id was {was}"],
        reads=[(0, 0, 10)],
    ),
    "recreated, plain offsets": Row(
        recreate,
        ["t-0: recreated, offsets 10 to the end", "t-1: recreated, offsets 0 to the end"],
        ["its id was {was}"],
        reads=[(0, 0, 50)],
        noticed_by=(RUNNING,),  # the checkpoint has no ids
        plain_offsets="true",
    ),
    "deleted": Row(
        delete,
        ["t-0: deleted, offsets 10 to the end", "t-1: deleted, offsets 0 to the end"],
        ["does not exist any more"],
        reads=[],
    ),
    "aged out unread": Row(
        age_out,
        ["t-0: aged out, offsets 10 to 14"],
        ["records were deleted before being read"],
        reads=[(0, 14, 20)],
    ),
    "new partition aged out unread": Row(
        add_a_partition_that_begins_late,
        ["t-2: aged out, offsets 0 to 2"],
        ["its beginning was deleted already"],
        reads=[(2, 2, 4)],
    ),
    "epoch nobody knows": Row(
        claim_another_epoch,
        ["t-0: history replaced, offsets 0 to 10"],
        ["leader epoch 77, in which", "is unknown to the leader of epoch 1"],
        reads=[],
    ),
}

NOTICED = [(case, process) for case, row in LOSSES.items() for process in row.noticed_by]
each_loss = pytest.mark.parametrize(("case", "process"), NOTICED)


def meet(loss: Row, process: str, fake: FakeCluster, query: Query) -> None:
    """Let the query be idle and the loss happen; what happens next is in that process."""
    assert not query.trigger()
    loss.lose(fake, query)
    if process == RESTARTED:
        query.restart()
    else:
        # Its list of partitions is kept for a second, which has passed.
        query.planner.survey._listed_at = float("-inf")  # type: ignore[attr-defined]


@pytest.fixture
def ends_are_believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_module, "SHRUNKEN_END_PAUSE_S", 0.0)


@each_loss
@pytest.mark.usefixtures("ends_are_believed_at_once")
def test_a_loss_is_told_and_nothing_read(fake: FakeCluster, options: Any, case: str, process: str):
    row = LOSSES[case]
    query = started(fake, options, plainOffsets=row.plain_offsets)
    was = str(fake.topics["t"].topic_id)
    meet(row, process, fake, query)
    for _ in range(2):  # and again, as long as nobody lets it go on
        with pytest.raises(DataLossError) as caught:
            query.trigger()
        losses = caught.value.losses
        assert [str(loss).removesuffix(f": {loss.detail}") for loss in losses] == row.told
        for part in row.says:
            assert part.format(was=was) in str(caught.value)
    assert query.read == [(0, 0, 10)]


@each_loss
@pytest.mark.usefixtures("ends_are_believed_at_once")
def test_with_the_users_leave_what_is_left_is_read(
    fake: FakeCluster,
    options: Any,
    case: str,
    process: str,
    caplog: pytest.LogCaptureFixture,
):
    row = LOSSES[case]
    chosen = {"plainOffsets": row.plain_offsets, "failOnDataLoss": "false"}
    query = started(fake, options, **chosen)
    meet(row, process, fake, query)
    with caplog.at_level(logging.WARNING):
        query.trigger()
    assert query.read == [(0, 0, 10), *row.reads]
    for loss in row.told:
        assert f"data loss: {loss}: " in caplog.text
    if "t" in fake.topics:
        partition = row.reads[-1][0] if row.reads else 0
        end = fake.partition("t", partition).end_offset
        fill(fake, 1, partition)
        assert query.trigger()
        assert query.read[-1] == (partition, end, end + 1)


@pytest.mark.parametrize(
    "case", [case for case, row in LOSSES.items() if RESTARTED in row.noticed_by]
)
@pytest.mark.usefixtures("ends_are_believed_at_once")
def test_leave_may_be_given_when_the_loss_was_told(fake: FakeCluster, options: Any, case: str):
    row = LOSSES[case]
    query = started(fake, options, plainOffsets=row.plain_offsets)
    meet(row, RESTARTED, fake, query)
    with pytest.raises(DataLossError):
        query.trigger()
    query.restart(fail_on_data_loss=False)
    query.trigger()
    assert query.read == [(0, 0, 10), *row.reads]


def test_a_clean_election_is_no_loss(fake: FakeCluster, options: Any):
    query = started(fake, options)
    for leader in (2, 1, 2):
        fake.partition("t").elect(leader)
        assert not query.trigger()
    fill(fake, 1)
    assert query.trigger()
    assert query.read[-1] == (0, 10, 11)


def test_a_batch_planned_before_a_cut_and_run_again_after_it(fake: FakeCluster, options: Any):
    query = started(fake, options)
    fill(fake, 10)
    query.trigger(crash=True)  # 10 to 20
    fake.partition("t").elect(2, cut_to=15)
    fill(fake, 30)
    query.restart()
    with pytest.raises(DataLossError, match="t-0: rewritten, offsets 15 to 20"):
        query.run()
    query.restart(fail_on_data_loss=False)
    query.run()
    assert query.read[-1] == (0, 10, 15)
    query.trigger()
    assert query.read[-1] == (0, 15, 45)


def test_the_range_after_a_loss_is_the_same_after_a_crash(fake: FakeCluster, options: Any):
    query = started(fake, options, failOnDataLoss="false")
    fake.partition("t").elect(2, cut_to=6)
    fill(fake, 3)
    query.trigger(crash=True)
    fill(fake, 50)
    query.restart()
    query.run()
    assert query.read[-1] == (0, 6, 9)


@pytest.mark.parametrize("beginning", [0, 15])
def test_a_batch_of_a_topic_that_was_recreated_meanwhile(
    fake: FakeCluster, options: Any, beginning: int
):
    query = started(fake, options, failOnDataLoss="false")
    fill(fake, 10)
    query.trigger(crash=True)
    fake.create_topic("t", 2)
    fill(fake, 50)
    fake.partition("t").delete_before(beginning)
    query.restart()
    query.run()
    assert query.batches[-1] == []  # those offsets were of the old topic
    query.trigger()
    assert query.read[-1] == (0, beginning, 50)


def test_records_that_aged_out_between_plan_and_read_are_lost_in_the_first_batch_too(
    fake: FakeCluster, options: Any
):
    fill(fake, 10)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    fake.partition("t").delete_before(10)
    ((planned,),) = query.batches
    with pytest.raises(DataLossError, match="t-0: aged out, offsets 0 to 10"):
        list(read_range(query.options, Projection(schema("offset bigint")), planned))


def test_several_partitions_are_reported_together(fake: FakeCluster, options: Any):
    fill(fake, 10, 1)
    query = Query(options(startingOffsets="earliest"))
    fill(fake, 10)
    query.trigger()
    fake.partition("t", 0).elect(2, cut_to=3)
    fake.partition("t", 1).elect(1, cut_to=4)
    with pytest.raises(DataLossError) as caught:
        query.trigger()
    found = [(loss.partition, loss.kind, loss.start, loss.end) for loss in caught.value.losses]
    assert sorted(found) == [(P0, "truncated", 3, 10), (P1, "truncated", 4, 10)]


def test_clusters_without_epochs_can_still_be_read(
    fake: FakeCluster, options: Any, caplog: pytest.LogCaptureFixture
):
    for broker in fake.brokers.values():
        broker.versions = {k: v for k, v in broker.versions.items() if k != 23}
    query = started(fake, options)
    fill(fake, 5)
    query.restart()
    with caplog.at_level(logging.WARNING):
        assert query.trigger()
    assert query.read[-1] == (0, 10, 15)
    assert "rewritten logs cannot be detected" in caplog.text


def test_sparks_that_do_not_tell_the_start(fake: FakeCluster, options: Any):
    fill(fake, 10)
    planner = Query(options(startingOffsets="earliest", maxOffsetsPerTrigger="6")).planner
    start = planner.initial()
    end = planner.next_end(None, limited=True)
    assert [(r.start, r.end) for r in planner.ranges(start, end)] == [(0, 6)]
    again = planner.next_end(None, limited=True)
    assert [(r.start, r.end) for r in planner.ranges(end, again)] == [(6, 10)]
    restarted = Query(options(startingOffsets="earliest")).planner
    fill(fake, 5)
    last = restarted.next_end(None, limited=True)
    assert [(r.start, r.end) for r in restarted.ranges(again, last)] == [(10, 15)]
    fake.partition("t").elect(2, cut_to=4)
    late = Query(options(startingOffsets="earliest")).planner
    fill(fake, 50)
    end = late.next_end(None, limited=True)
    with pytest.raises(DataLossError, match="rewritten, offsets 4 to 15"):
        late.ranges(last, end)


def replace_topic(fake: FakeCluster) -> None:
    del fake.topics["t"]
    fake.create_topic("t", 2)
    fill(fake, 15)


def cut_and_overwrite(fake: FakeCluster) -> None:
    fake.partition("t").elect(2, cut_to=6)
    fill(fake, 9)


@pytest.mark.parametrize(("lose", "begin"), [(replace_topic, 0), (cut_and_overwrite, 6)])
def test_a_batch_planned_without_its_start_begins_where_the_log_was_lost(
    fake: FakeCluster, options: Any, lose: Any, begin: int
):
    """PySpark 4.1 stores the end of a batch before it tells the start, which may be lost."""
    fill(fake, 10)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    lose(fake)
    query.restart()
    query.planned = through_json(query.planner.next_end(None, limited=True))
    for _ in range(2):  # in the process that planned it, and in the next
        with pytest.raises(DataLossError):
            query.run()
        query.restart()
    query.restart(fail_on_data_loss=False)
    query.run()
    assert query.read[-1] == (0, begin, 15)


def test_plain_offsets_say_at_every_start_what_they_cannot_tell(
    fake: FakeCluster, options: Any, caplog: pytest.LogCaptureFixture
):
    query = started(fake, options, plainOffsets="true")
    assert "cannot tell" not in caplog.text
    for _ in range(2):
        fill(fake, 3)
        caplog.clear()
        query.restart()
        assert query.trigger()
        assert caplog.text.count("this start cannot tell whether t was deleted") == 1
    # Not of a checkpoint that has ids.
    query.restart(plain_offsets=False)
    fill(fake, 1)
    assert query.trigger()
    caplog.clear()
    query.restart(plain_offsets=True)
    fill(fake, 1)
    assert query.trigger()
    assert "cannot tell" not in caplog.text


def test_a_new_partition_that_is_deleted_before_its_first_look(
    fake: FakeCluster, options: Any, monkeypatch: pytest.MonkeyPatch
):
    fill(fake, 3)
    query = Query(options(startingOffsets="earliest", subscribe=None, subscribePattern="t|u"))
    query.trigger()
    fake.create_topic("u", 1)
    query.time += 10
    asked = Survey.earliest

    def earliest(self: Survey, partitions: Any) -> Any:
        wanted = list(partitions)
        if TopicPartition("u", 0) in wanted:
            fake.topics.pop("u", None)
            raise UnknownTopic("gone", topic="u", partition=0)
        return asked(self, wanted)

    monkeypatch.setattr(Survey, "earliest", earliest)
    query.restart()
    with pytest.raises(DataLossError) as raised:
        query.trigger()
    found = condition_of(spark_error(raised.value))
    assert found is not None
    assert found.name == "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS"
    assert found.parameters == {"partitions": "u-0"}
    fill(fake, 2)
    fake.create_topic("u", 1)
    query.restart(fail_on_data_loss=False)
    assert query.trigger()
    assert query.read[-1] == (0, 3, 5)
