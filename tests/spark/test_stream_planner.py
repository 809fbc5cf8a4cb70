"""Planning a stream over fake brokers: starts, limits, restarts. Losses: `test_stream_losses`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.arrow import survey
from fencepost.arrow.errors import AvailableNowError, BoundsError, DataLossError, OffsetError
from fencepost.arrow.planning import OffsetRange
from fencepost.arrow.survey import Survey
from fencepost.client.errors import ClientError, UnknownTopic
from fencepost.client.fetcher import Fetcher
from fencepost.spark.errors import Condition, condition_of, spark_error

from ..client.fake_cluster import FakeCluster
from ..client.records import batch
from .stream_query import P0, Query, fill


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


def fill_with(fake: FakeCluster, sizes: Sequence[int], partition: int = 0) -> None:
    for size in sizes:
        fake.partition("t", partition).append(batch(b"x" * size))


def test_a_limit_in_bytes_goes_by_what_records_take_where_the_batch_begins(
    fake: FakeCluster, options: Any
):
    fill_with(fake, [0] * 50 + [2_000] * 50)
    small, large = (len(fake.partition("t").batches[at]) for at in (0, -1))
    query = Query(options(startingOffsets="earliest", maxBytesPerTrigger="10k"))
    while query.trigger():
        pass
    read = query.read
    assert [start for _, start, _ in read] == [0, *(end for _, _, end in read)][:-1]
    assert read[-1][2] == 100
    sizes = [min(end, 50) * small + max(0, end - 50) * large for _, _, end in read]
    taken = [after - before for before, after in zip([0, *sizes], sizes)]
    assert max(taken) <= 10 * 1024 + large
    assert len(read) <= 25  # 13 would do, were all sizes known


def test_both_limits_hold_and_a_record_larger_than_the_limit_is_read(
    fake: FakeCluster, options: Any
):
    fill_with(fake, [5_000] * 3)
    fill_with(fake, [10] * 20, 1)
    query = Query(
        options(startingOffsets="earliest", maxBytesPerTrigger="1", maxOffsetsPerTrigger="6")
    )
    assert query.trigger()
    assert query.read == [(0, 0, 1), (1, 0, 1)]
    query.restart(max_bytes_per_trigger=10**9)
    assert query.trigger()
    assert query.read[2:] == [(0, 1, 2), (1, 1, 6)]
    assert query.trigger(limited=False)
    assert query.read[4:] == [(0, 2, 3), (1, 6, 20)]


def test_sizes_that_cannot_be_sampled_stop_nothing(
    fake: FakeCluster, options: Any, monkeypatch: pytest.MonkeyPatch
):
    fill_with(fake, [100] * 30)

    def refuse(*_: Any, **__: Any) -> Any:
        raise ClientError("no")

    monkeypatch.setattr(Fetcher, "fetch", refuse)
    query = Query(options(startingOffsets="earliest", maxBytesPerTrigger="1024"))
    assert query.trigger()
    assert query.read == [(0, 0, 4)]  # by a guess of 256 bytes


def test_a_sample_is_small_beside_the_limit(
    fake: FakeCluster, options: Any, monkeypatch: pytest.MonkeyPatch
):
    fill_with(fake, [1_000] * 40)
    fill_with(fake, [1_000] * 40, 1)
    sampled: list[int] = []
    fetch = Fetcher.fetch

    def counted(self: Fetcher, positions: Any, **how: Any) -> Any:
        assert how["max_wait_ms"] == 0
        found = fetch(self, positions, **how)
        sampled.append(sum(len(one.records) for one in found))
        return found

    monkeypatch.setattr(Fetcher, "fetch", counted)
    query = Query(options(startingOffsets="earliest", maxBytesPerTrigger="24k"))
    while query.trigger():
        assert sampled[-1] <= 2 * (3 * 1024 + 1_100)
    assert sum(end - start for _, start, end in query.read) == 80


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
    assert condition_of(spark_error(raised.value)) == Condition(
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
    assert condition_of(spark_error(raised.value)) == Condition(
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


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where brokers say that partition 0 ends, once something is in it."""
    ends, said = Survey._latest, []

    def latest(self: Survey, partitions: Any) -> Any:
        found = ends(self, partitions)
        return found | {P0: found[P0]._replace(offset=said[-1])} if said else found

    monkeypatch.setattr(Survey, "_latest", latest)
    return said


def test_an_idle_query_waits_on_while_a_high_watermark_lags(
    fake: FakeCluster, options: Any, cut_off: list[int]
):
    fill(fake, 10)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    assert not query.trigger()
    cut_off.append(6)
    assert not query.trigger()
    assert query.sleeps > 5, "its epoch says that the log was not cut"


def test_an_idle_query_without_epochs_notices_a_log_that_ends_below_it(
    fake: FakeCluster, options: Any, cut_off: list[int]
):
    fill(fake, 10)
    query = Query(options(startingOffsets="earliest", plainOffsets="true"))
    query.trigger()
    query.restart()
    assert not query.trigger()
    cut_off.append(6)
    with pytest.raises(DataLossError, match="t-0: truncated"):
        query.trigger()
    assert query.sleeps == 0


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
    with pytest.raises(UnknownTopic, match="nope: no such topic"):
        Query(options(subscribe=None, assign='{"t":[0],"nope":[0]}')).planner.initial()


def test_assigned_partitions_that_are_not_there_are_said_and_the_others_read(
    fake: FakeCluster, options: Any, caplog: pytest.LogCaptureFixture
):
    fill(fake, 3)
    fill(fake, 4, 1)
    query = Query(options(subscribe=None, assign='{"t":[1,2,5]}', startingOffsets="earliest"))
    query.trigger()
    assert query.read == [(1, 0, 4)]
    assert "assign names partitions that do not exist, and are not read: t-2, t-5" in caplog.text
    fake.topics["t"].partitions.append(type(fake.partition("t"))(leader=1))
    fill(fake, 2, 2)
    query.time += 10
    query.restart()
    query.trigger()
    assert query.read[1:] == [(2, 0, 2)]
    none = Query(options(subscribe=None, assign='{"t":[7]}', startingOffsets="earliest"))
    none.trigger()
    assert none.committed == {}


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
        found = condition_of(spark_error(raised.value))
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
    assert condition_of(spark_error(none.value)) == Condition(
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


def test_a_look_at_very_many_partitions_keeps_no_core_busy_while_a_query_waits(
    fake: FakeCluster, options: Any, monkeypatch: pytest.MonkeyPatch
):
    fill(fake, 3)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    assert not query.trigger()
    looks: list[float] = []
    peek = Survey.peek

    def slow(self: Survey) -> Any:
        looks.append(0.3)
        query.time += 0.3
        return peek(self)

    monkeypatch.setattr(Survey, "peek", slow)
    begun = query.time
    for _ in range(20):
        query.time += 0.01  # as soon as Spark asks again
        asked_at = query.time
        assert not query.trigger()
        assert query.time - asked_at <= 0.3 + 0.5 + 0.01, "a question is held no longer than it may"
    assert sum(looks) <= 0.45 * (query.time - begun)
    fill(fake, 1)
    assert query.trigger()


def test_what_a_peek_saw_is_confirmed_and_not_asked_for_again(
    fake: FakeCluster, options: Any, monkeypatch: pytest.MonkeyPatch
):
    """With ten thousand partitions each list of offsets takes a third of a second."""
    fill(fake, 3)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    fill(fake, 2)
    query.trigger()
    assert not query.trigger()
    fill(fake, 2)
    listed: list[int] = []
    latest = Survey._latest
    monkeypatch.setattr(Survey, "_latest", lambda self, of: listed.append(1) or latest(self, of))
    assert query.trigger()
    assert query.read[-1] == (0, 5, 7)
    assert len(listed) == 1


def test_partitions_that_came_since_a_peek_are_looked_at(
    fake: FakeCluster, options: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(survey, "PARTITIONS_MAX_AGE_S", 3600)  # as if it were a moment ago
    fill(fake, 3)
    query = Query(options(startingOffsets="earliest"))
    query.trigger()
    fill(fake, 2)
    query.trigger()
    assert not query.trigger()
    fill(fake, 2)
    fake.topics["t"].partitions.append(type(fake.partition("t"))(leader=1))
    fill(fake, 4, 2)
    assert query.trigger()
    assert sorted(query.read[-2:]) == [(0, 5, 7), (2, 0, 4)]
    old = str(fake.topics["t"].topic_id)
    fake.create_topic("t", 2)
    fill(fake, 9)
    with pytest.raises(DataLossError, match=f"its id was {old}"):
        query.trigger()
