"""Planning a stream over fake brokers: starts, limits, restarts, and logs that were cut."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest

from fencepost.client.errors import UnknownTopic
from fencepost.client.metadata import TopicPartition
from fencepost.spark import survey as survey_module
from fencepost.spark.errors import (
    AvailableNowError,
    BoundsError,
    Condition,
    DataLossError,
    OffsetError,
    condition_of,
)
from fencepost.spark.options import SourceOptions
from fencepost.spark.planning import OffsetRange
from fencepost.spark.stream_planner import Json, StreamPlanner
from fencepost.spark.survey import Survey

from ..client.fake_cluster import FakeCluster
from ..client.records import batch

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def fill(fake: FakeCluster, count: int, partition: int = 0, topic: str = "t") -> None:
    for _ in range(count):
        fake.partition(topic, partition).append(batch(b"x"))


class Query:
    """What Spark does with a reader, and what it keeps in its checkpoint."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.time = 0.0
        self.sleeps = 0
        self.committed: Json | None = None
        self.batches: list[list[OffsetRange]] = []
        self.restart()

    def restart(self, **changes: Any) -> None:
        """A new process: only the checkpoint survives."""
        from dataclasses import replace

        self.options = replace(self.options, **changes)
        self.planner = StreamPlanner(
            self.options, Survey(self.options), clock=lambda: self.time, sleep=self._sleep
        )

    def _sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.time += seconds

    def trigger(self, *, limited: bool = True, crash: bool = False) -> bool:
        """One trigger; whether a batch was run. With `crash` its end is stored, but not run."""
        start = self.committed if self.committed is not None else self.planner.initial()
        end = through_json(self.planner.next_end(through_json(start), limited=limited))
        if self.committed is not None and json.dumps(end) == json.dumps(self.committed):
            return False
        self.planned = end
        if crash:
            return True
        self.run()
        return True

    def run(self) -> None:
        """Run the batch whose end is stored."""
        start = self.committed if self.committed is not None else self.planner.initial()
        self.batches.append(self.planner.ranges(through_json(start), through_json(self.planned)))
        self.committed = self.planned

    @property
    def read(self) -> list[tuple[int, int, int]]:
        """Partition, start and end of everything read so far."""
        return [(r.partition.partition, r.start, r.end) for ranges in self.batches for r in ranges]


def through_json(offset: Json) -> Json:
    return json.loads(json.dumps(offset))


def test_from_the_beginning_in_limited_batches(fake: FakeCluster, options: Any):
    fill(fake, 25)
    fill(fake, 5, 1)
    query = Query(options(startingOffsets="earliest", maxOffsetsPerTrigger="12"))
    while query.trigger():
        pass
    assert query.read == [
        (0, 0, 10),
        (1, 0, 2),
        (0, 10, 20),
        (1, 2, 4),
        (0, 20, 25),
        (1, 4, 5),
    ]
    fill(fake, 3)
    assert query.trigger()
    assert query.read[-1] == (0, 25, 28)
    assert not query.trigger()


def test_read_all_available_ignores_the_limit(fake: FakeCluster, options: Any):
    fill(fake, 25)
    query = Query(options(startingOffsets="earliest", maxOffsetsPerTrigger="12"))
    assert query.trigger(limited=False)
    assert query.read == [(0, 0, 25)]


def test_latest_is_stored_by_an_empty_batch_before_anything_is_read(
    fake: FakeCluster, options: Any
):
    fill(fake, 7)
    query = Query(options())
    assert query.trigger()
    assert query.batches == [[]]
    assert query.committed is not None and query.committed["t"] == {"0": 7, "1": 0}
    fill(fake, 2)
    query.restart()  # even now nothing is missed
    assert query.trigger()
    assert query.read == [(0, 7, 9)]


@pytest.mark.parametrize("start", ["latest", "a time at which nothing came"])
def test_records_between_the_start_and_the_first_batch_wait_for_the_second(
    fake: FakeCluster, options: Any, start: str
):
    """A crash in the first batch would lose them: "latest" would be found anew, behind them."""
    fill(fake, 7)
    chosen = {"startingOffsets": "latest"}
    if start != "latest":
        chosen = {
            "startingTimestamp": str(10**12),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    query = Query(options(**chosen))
    assert query.planner.initial()["t"] == {"0": 7, "1": 0}
    fill(fake, 3)
    fill(fake, 1, 1)
    assert query.trigger()
    assert query.batches == [[]]
    assert query.committed is not None and query.committed["t"] == {"0": 7, "1": 0}
    assert query.trigger()
    assert query.read == [(0, 7, 10), (1, 0, 1)]


def test_a_crash_before_the_empty_batch_is_committed(fake: FakeCluster, options: Any):
    fill(fake, 7)
    query = Query(options())
    assert query.trigger(crash=True)
    fill(fake, 5)
    query.restart()
    query.run()  # with another start than the first time, as Spark does
    assert query.batches == [[]]
    assert query.trigger()
    assert query.read == [(0, 7, 12)]


def test_initial_offsets_are_the_same_twice(fake: FakeCluster, options: Any):
    query = Query(options())
    first = query.planner.initial()
    fill(fake, 3)
    assert query.planner.initial() is first


def test_nothing_new_gives_the_very_start_back_and_holds_the_question(
    fake: FakeCluster, options: Any
):
    fill(fake, 3)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    start = query.committed
    assert start is not None
    assert query.planner.next_end(start, limited=True) is start  # verifies
    assert query.sleeps == 0
    assert query.planner.next_end(start, limited=True) is start  # waits
    assert query.sleeps > 5
    assert query.time < 1


def test_a_query_with_an_interval_asks_the_brokers_once_in_it(fake: FakeCluster, options: Any):
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    for _ in range(3):
        query.time += 10
        assert not query.trigger()
        assert query.sleeps == 0
    fill(fake, 1)
    query.time += 10
    assert query.trigger()


def test_an_idle_query_notices_data_while_it_waits(fake: FakeCluster, options: Any):
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    sleep = query.planner._sleep

    def sleep_and_write(seconds: float) -> None:
        if query.sleeps == 2:
            fill(fake, 1)
        sleep(seconds)

    query.planner._sleep = sleep_and_write
    assert query.trigger()
    assert query.sleeps == 3
    assert query.read == [(0, 0, 1)]


def test_available_now_stops_at_what_was_there(fake: FakeCluster, options: Any):
    fill(fake, 10)
    query = Query(options(startingOffsets="earliest", maxOffsetsPerTrigger="4"))
    query.planner.freeze()
    assert query.trigger()
    fill(fake, 10)
    while query.trigger():
        pass
    assert query.read == [(0, 0, 4), (0, 4, 8), (0, 8, 10)]
    assert query.sleeps == 0


@pytest.mark.parametrize("fails", ["true", "false"])
def test_available_now_refuses_a_target_that_vanished(fake: FakeCluster, options: Any, fails: str):
    fake.create_topic("u", 1)
    fill(fake, 10)
    fill(fake, 2, topic="u")
    chosen = {"subscribe": "t,u", "maxOffsetsPerTrigger": "4", "failOnDataLoss": fails}
    query = Query(options(startingOffsets="earliest", **chosen))
    query.planner.freeze()
    assert query.trigger()
    del fake.topics["u"]
    with pytest.raises(AvailableNowError, match="u-0 vanished") as raised:
        query.trigger()
    assert condition_of(raised.value) == Condition(
        "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
        {"tpsForLatestOffset": "t-0, t-1", "tpsForEndOffset": "t-0, t-1, u-0"},
    )
    query.restart(fail_on_data_loss=False)
    query.planner.freeze()
    while query.trigger():
        pass
    assert query.committed is not None
    assert query.committed["t"] == {"0": 10, "1": 0}


def test_available_now_refuses_a_target_that_was_cut(fake: FakeCluster, options: Any):
    fill(fake, 10)
    chosen = {"maxOffsetsPerTrigger": "4", "failOnDataLoss": "false"}
    query = Query(options(startingOffsets="earliest", **chosen))
    query.planner.freeze()
    assert query.trigger()
    fake.partition("t").elect(2, cut_to=6)
    with pytest.raises(AvailableNowError, match="t-0 ended at 10") as raised:
        query.trigger()
    assert condition_of(raised.value) == Condition(
        "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
        {"latestOffset": '{"t": {"0": 6, "1": 0}}', "endOffset": '{"t": {"0": 10, "1": 0}}'},
    )


def test_available_now_leaves_a_recreated_topic_to_the_users_choice(
    fake: FakeCluster, options: Any
):
    """It is another topic, of which nothing was to be read, and not one that was cut."""
    fill(fake, 10)
    query = Query(options(startingOffsets="earliest", maxOffsetsPerTrigger="4"))
    query.planner.freeze()
    assert query.trigger()
    fake.create_topic("t", 2)
    fill(fake, 3)
    with pytest.raises(DataLossError, match="t-0: recreated, offsets 4 to the end"):
        query.trigger()


def test_available_now_goes_on_while_a_high_watermark_lags(
    fake: FakeCluster, options: Any, monkeypatch: pytest.MonkeyPatch
):
    fill(fake, 10)
    ends = Survey._latest
    lags = False

    def latest(self: Survey, partitions: Any) -> Any:
        found = ends(self, partitions)
        return found | {P0: found[P0]._replace(offset=6)} if lags else found

    monkeypatch.setattr(Survey, "_latest", latest)
    query = Query(options(startingOffsets="earliest", maxOffsetsPerTrigger="4"))
    query.planner.freeze()
    assert query.trigger()
    lags = True
    assert query.trigger()
    lags = False
    while query.trigger():
        pass
    assert query.read == [(0, 0, 4), (0, 4, 6), (0, 6, 10)]


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
    found = condition_of(raised.value)
    assert found is not None
    assert found.name == "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS"
    assert found.parameters == {"partitions": "u-0"}
    fill(fake, 2)
    fake.create_topic("u", 1)
    query.restart(fail_on_data_loss=False)
    assert query.trigger()
    assert query.read[-1] == (0, 3, 5)


def test_a_restart_goes_on_where_it_was(fake: FakeCluster, options: Any):
    fill(fake, 10)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    fill(fake, 5)
    query.restart()
    query.trigger()
    assert query.read == [(0, 0, 10), (0, 10, 15)]


def test_a_planned_batch_is_the_same_after_a_crash(fake: FakeCluster, options: Any):
    fill(fake, 10)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    fill(fake, 5)
    query.trigger(crash=True)
    fill(fake, 5)
    query.restart()
    query.run()
    assert query.read == [(0, 0, 10), (0, 10, 15)]


def test_a_checkpoint_of_sparks_own_connector_is_taken_over(fake: FakeCluster, options: Any):
    fill(fake, 60)
    query = Query(options())
    query.committed = {"t": {"0": 40, "1": 0}}
    assert query.trigger()
    assert query.read == [(0, 40, 60)]
    extra = query.committed["#fencepost"]["t"]
    assert extra["id"] == str(fake.topics["t"].topic_id)
    assert extra["epochs"] == {"0": 0}  # the other partition has not moved


def test_plain_offsets_can_go_back(fake: FakeCluster, options: Any):
    fill(fake, 6)
    query = Query(options(startingOffsets="earliest", plainOffsets="true"))
    query.trigger()
    assert query.committed == {"t": {"0": 6, "1": 0}}


def test_new_partitions_are_read_from_their_beginning(fake: FakeCluster, options: Any):
    fill(fake, 3)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    fake.topics["t"].partitions.append(type(fake.partition("t"))(leader=1))
    fill(fake, 4, 2)
    query.time += 10
    query.restart()
    query.trigger()
    assert query.read[-1] == (2, 0, 4)


def test_a_new_partition_that_lost_its_beginning_is_reported(fake: FakeCluster, options: Any):
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    fake.topics["t"].partitions.append(type(fake.partition("t"))(leader=1))
    fill(fake, 4, 2)
    fake.partition("t", 2).delete_before(2)
    query.restart()
    with pytest.raises(DataLossError, match="t-2: aged out, offsets 0 to 2"):
        query.trigger()
    query.restart(fail_on_data_loss=False)
    query.trigger()
    assert query.read[-1] == (2, 2, 4)


def test_patterns_find_topics_as_they_come_but_not_kafkas_own(fake: FakeCluster, options: Any):
    fake.create_topic("__t")
    query = Query(options(subscribe=None, subscribePattern=".*t.*", startingOffsets="earliest"))
    query.trigger()
    assert set(query.committed or ()) == {"#fencepost", "t"}
    fake.create_topic("other")
    fill(fake, 3, topic="other")
    query.restart()
    query.trigger()
    assert [str(item.partition) for item in query.batches[-1]] == ["other-0"]


def test_a_pattern_may_match_nothing_yet(fake: FakeCluster, options: Any):
    query = Query(options(subscribe=None, subscribePattern="nope.*", startingOffsets="earliest"))
    query.trigger()
    assert query.committed == {}
    assert not query.trigger()


def test_assigned_partitions_only(fake: FakeCluster, options: Any):
    fill(fake, 3)
    fill(fake, 4, 1)
    query = Query(options(subscribe=None, assign='{"t":[1]}', startingOffsets="earliest"))
    query.trigger()
    assert query.read == [(1, 0, 4)]


def test_topics_and_partitions_that_are_not_there(options: Any):
    with pytest.raises(UnknownTopic, match="nope: no such topic"):
        Query(options(subscribe="t,nope")).planner.initial()
    with pytest.raises(UnknownTopic, match="t-5: no such partition"):
        Query(options(subscribe=None, assign='{"t":[0,5]}')).planner.initial()


@pytest.mark.parametrize("told", [{"logOffset": 3}, {"t": {"0": 2**63}}, [], 17, {"t": {"00": 1}}])
def test_a_checkpoint_of_something_else_is_refused(fake: FakeCluster, options: Any, told: Any):
    """Nothing is planned of it, and nothing called lost."""
    fill(fake, 3)
    good = {"t": {"0": 0, "1": 0}}
    planner = Query(options(failOnDataLoss="false")).planner
    for action in (
        lambda: planner.next_end(told, limited=True),
        lambda: planner.ranges(told, good),
        lambda: planner.ranges(good, told),
    ):
        with pytest.raises(OffsetError, match="the checkpoint has") as raised:
            action()
        found = condition_of(raised.value)
        assert found is not None and found.name == "FENCEPOST_INVALID_OFFSET"
        assert found.parameters["offset"] == json.dumps(told)


def test_starts_by_offset_and_time(fake: FakeCluster, options: Any):
    for second in range(5):
        fake.partition("t").append(batch(b"x", timestamp_ms=1000 * second))
    start = Query(options(startingOffsets='{"t":{"0":3,"1":-1}}')).planner.initial()
    assert start["t"] == {"0": 3, "1": 0}
    with pytest.raises(ValueError, match="missing: t-1; unknown: t-7"):
        Query(options(startingOffsets='{"t":{"0":3,"7":0}}')).planner.initial()
    with pytest.raises(BoundsError, match="t-1 has no record at or after timestamp 2500") as none:
        Query(options(startingTimestamp="2500")).planner.initial()
    assert condition_of(none.value) == Condition(
        "FENCEPOST_NO_RECORD_AT_TIMESTAMP",
        {"topic": "t", "partition": "1", "timestamp": "2500"},
    )
    lenient = options(startingTimestamp="2500", startingOffsetsByTimestampStrategy="latest")
    assert Query(lenient).planner.initial()["t"] == {"0": 3, "1": 0}


def test_small_batches_wait_for_more_or_for_their_time(fake: FakeCluster, options: Any):
    given = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "60s"}
    query = Query(options(startingOffsets="earliest", **given))
    fill(fake, 3)
    assert query.trigger()  # the first fires at once
    fill(fake, 3)
    assert not query.trigger()
    fill(fake, 7)
    assert query.trigger()  # just enough
    fill(fake, 1)
    assert not query.trigger()
    query.time += 61
    assert query.trigger()
    assert query.read == [(0, 0, 3), (0, 3, 13), (0, 13, 14)]


def test_small_batches_wait_where_their_start_is_not_told(fake: FakeCluster, options: Any):
    """PySpark 4.1 asks for ends alone: the first batch counts as one there, too."""
    given = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "60s"}
    query = Query(options(startingOffsets="earliest", **given))
    fill(fake, 3)
    first = query.planner.next_end(None, limited=True)
    assert first["t"]["0"] == 3
    fill(fake, 3)
    assert query.planner.next_end(None, limited=True) == first
    query.time += 61
    assert query.planner.next_end(None, limited=True)["t"]["0"] == 6


def test_splits(fake: FakeCluster, options: Any):
    fill(fake, 10)
    query = Query(options(startingOffsets="earliest", maxRecordsPerPartition="4"))
    query.trigger()
    assert query.read == [(0, 0, 3), (0, 3, 6), (0, 6, 10)]


def test_ranges_know_their_log(fake: FakeCluster, options: Any):
    fill(fake, 3)
    fake.partition("t").elect(2)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    topic_id = str(fake.topics["t"].topic_id)
    assert query.batches == [[OffsetRange(P0, 0, 3, 1, topic_id)]]


# -- cut logs ------------------------------------------------------------------------------------


def started(fake: FakeCluster, options: Any, count: int = 10, **given: str) -> Query:
    """A query that has read `count` records of partition 0, the last of them in epoch 1."""
    fill(fake, count - 2)
    fake.partition("t").elect(1)
    fill(fake, 2)
    query = Query(options(startingOffsets="earliest", **given))
    query.trigger()
    assert query.read == [(0, 0, count)]
    return query


def test_a_clean_election_is_no_loss(fake: FakeCluster, options: Any):
    query = started(fake, options)
    for leader in (2, 1, 2):
        fake.partition("t").elect(leader)
        assert not query.trigger()
    fill(fake, 1)
    assert query.trigger()
    assert query.read[-1] == (0, 10, 11)


def test_records_replaced_behind_the_querys_back_are_reported(fake: FakeCluster, options: Any):
    query = started(fake, options)
    fake.partition("t").elect(2, cut_to=6)
    fill(fake, 20)  # grown beyond: Spark's own connector would read on at 10
    with pytest.raises(DataLossError, match="t-0: rewritten, offsets 6 to 10") as caught:
        query.trigger()
    assert "leader epoch 1" in str(caught.value)
    assert "of epoch 2 says that epoch 0 ends at 6" in str(caught.value)


@pytest.mark.parametrize("plain", ["false", "true"])
def test_with_the_users_leave_the_replacements_are_read(
    fake: FakeCluster, options: Any, plain: str, caplog: pytest.LogCaptureFixture
):
    query = started(fake, options, failOnDataLoss="false", plainOffsets=plain)
    if plain == "true":
        query.restart()  # while a query runs its epochs are known
    fake.partition("t").elect(2, cut_to=6)
    fill(fake, 20 if plain == "false" else 1)
    survey_module.SHRUNKEN_END_PAUSE_S, before = 0.0, survey_module.SHRUNKEN_END_PAUSE_S
    try:
        with caplog.at_level(logging.WARNING):
            assert query.trigger()
    finally:
        survey_module.SHRUNKEN_END_PAUSE_S = before
    if plain == "false":
        assert query.read[-1] == (0, 6, 26)
        assert "data loss: t-0: rewritten, offsets 6 to 10" in caplog.text
    else:
        # Without epochs only a shorter log can be seen, and what replaced 6 cannot.
        assert query.read[-1] == (0, 0, 10)
        assert "data loss: t-0: truncated, offsets 7 to 10" in caplog.text
    fill(fake, 1)
    assert query.trigger()
    assert query.read[-1] == ((0, 26, 27) if plain == "false" else (0, 7, 8))


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


def test_a_recreated_topic_is_reported(fake: FakeCluster, options: Any):
    query = started(fake, options)
    old = str(fake.topics["t"].topic_id)
    fake.create_topic("t", 2)
    fill(fake, 50)
    query.restart()
    with pytest.raises(DataLossError, match="t-0: recreated, offsets 10 to the end") as caught:
        query.trigger()
    assert old in str(caught.value)
    assert len(caught.value.losses) == 2
    query.restart(fail_on_data_loss=False)
    query.trigger()
    assert query.read[-1] == (0, 0, 50)


def test_a_recreated_topic_is_noticed_by_a_running_query(fake: FakeCluster, options: Any):
    query = started(fake, options)
    assert not query.trigger()
    fake.create_topic("t", 2)
    query.planner.survey._listed_at = float("-inf")  # type: ignore[attr-defined]
    with pytest.raises(DataLossError, match="recreated"):
        query.trigger()


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


def test_a_deleted_topic(fake: FakeCluster, options: Any):
    query = started(fake, options)
    assert not query.trigger()
    del fake.topics["t"]
    with pytest.raises(DataLossError, match="t-0: deleted, offsets 10 to the end"):
        query.trigger()
    query.restart()
    with pytest.raises(DataLossError, match="t-0: deleted, offsets 10 to the end"):
        query.trigger()


def test_records_that_aged_out_between_plan_and_read_are_lost_in_the_first_batch_too(
    fake: FakeCluster, options: Any
):
    from fencepost.spark.projection import Projection
    from fencepost.spark.tasks import read_range

    from .schemas import schema

    fill(fake, 10)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    fake.partition("t").delete_before(10)
    ((planned,),) = query.batches
    with pytest.raises(DataLossError, match="t-0: aged out, offsets 0 to 10"):
        list(read_range(query.options, Projection(schema("offset bigint")), planned))


def test_records_that_aged_out_unread(fake: FakeCluster, options: Any):
    query = started(fake, options)
    fill(fake, 10)
    fake.partition("t").delete_before(14)
    with pytest.raises(DataLossError, match="t-0: aged out, offsets 10 to 14"):
        query.trigger()
    query.restart(fail_on_data_loss=False)
    query.trigger()
    assert query.read[-1] == (0, 14, 20)


def test_an_unknown_leader_epoch_is_reported(fake: FakeCluster, options: Any):
    query = started(fake, options)
    assert query.committed is not None
    query.committed["#fencepost"]["t"]["epochs"]["0"] = 77
    with pytest.raises(DataLossError, match=r"leader epoch 77, .*unknown to the leader of epoch 1"):
        query.trigger()


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


def test_plain_offsets_notice_a_recreated_topic_while_the_query_runs(
    fake: FakeCluster, options: Any
):
    query = started(fake, options, plainOffsets="true")
    old = str(fake.topics["t"].topic_id)
    fake.create_topic("t", 2)
    fill(fake, 50)  # more than before: the offsets look right
    with pytest.raises(DataLossError, match=f"t-0: recreated.*{old}"):
        query.trigger()


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


def test_starts_before_the_end_are_stored_before_anything_is_read(fake: FakeCluster, options: Any):
    fill(fake, 25)
    fill(fake, 5, 1)
    query = Query(options(startingOffsets="-10 offsets"))
    assert query.trigger()
    assert query.committed is not None
    assert query.committed["t"] == {"0": 15, "1": 0}
    assert query.read == []
    fill(fake, 4)
    query.restart()
    assert query.trigger()
    assert query.read == [(0, 15, 29), (1, 0, 5)]


def test_starts_some_time_ago(fake: FakeCluster, options: Any):
    for age_s in (7200, 4000, 60, 5):
        written = time.time_ns() // 1_000_000 - age_s * 1000
        fake.partition("t", 0).append(batch(b"x", timestamp_ms=written))
    query = Query(options(startingTimestamp="-1 hour"))
    assert query.trigger()
    assert query.committed is not None
    assert query.committed["t"] == {"0": 2, "1": 0}  # nothing in 1: its end
