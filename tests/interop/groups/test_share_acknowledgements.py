"""Share partitions: what acknowledgements do to records, and which are refused."""

from __future__ import annotations

from functools import partial

import pytest

from fencepost.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from fencepost.wire.errors import ErrorCode as E

from .conftest import Performance
from .share_words import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acks,
    acknowledge,
    acquired,
    describe_offsets,
    fetch,
    fetch_some,
    join_until_assigned,
    produce,
    ready_group,
)
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()
QUICK = {"max_wait_ms": 0}
INVALID, STATE = E.INVALID_REQUEST, E.INVALID_RECORD_STATE
TEN = [b"%d" % number for number in range(10)]

BATCHES: list[tuple[str, Acks, int]] = [
    ("one-type", [(0, 9, [ACCEPT])], 0),
    ("a-type-each", [(0, 9, [ACCEPT, RELEASE, REJECT, GAP, ACCEPT] * 2)], 0),
    ("no-batches", [], 0),
    ("two-batches", [(0, 4, [ACCEPT]), (5, 9, [RELEASE])], 0),
    ("in-part", [(2, 5, [ACCEPT])], 0),
    ("single-records", [(0, 0, [ACCEPT]), (9, 9, [REJECT])], 0),
    ("first-above-last", [(5, 4, [ACCEPT])], INVALID),
    ("first-below-0", [(-1, 4, [ACCEPT])], 0),
    ("overlapping", [(0, 5, [ACCEPT]), (5, 9, [ACCEPT])], STATE),
    ("overlapping-by-two", [(0, 6, [ACCEPT]), (5, 9, [ACCEPT])], INVALID),
    ("out-of-order", [(5, 9, [ACCEPT]), (0, 4, [ACCEPT])], INVALID),
    ("no-types", [(0, 9, [])], INVALID),
    ("too-few-types", [(0, 9, [ACCEPT, ACCEPT])], INVALID),
    ("too-many-types", [(0, 1, [ACCEPT] * 3)], INVALID),
    ("type-5", [(0, 9, [5])], INVALID),
    ("type-minus-1", [(0, 9, [-1])], INVALID),
    ("renew-without-the-flag", [(0, 9, [RENEW])], INVALID),
    ("past-the-acquired", [(0, 10, [ACCEPT])], INVALID),
    ("all-past-the-acquired", [(20, 30, [ACCEPT])], INVALID),
    ("far-past", [(2**62, 2**62, [ACCEPT])], INVALID),
    ("largest", [(0, 2**63 - 1, [ACCEPT])], INVALID),
    ("second-batch-is-wrong", [(0, 4, [ACCEPT]), (5, 20, [ACCEPT])], INVALID),
]


def acknowledged(
    stage: Stage, batches: Acks, error: int | None, version: int, piggybacked: bool
) -> None:
    """Acknowledge ten acquired records so, and see what is left for another member."""
    topic, group = ready_group(stage, "m", "n")
    produce(stage, topic, *TEN)
    epoch = fetch_some(stage, group, "m", 0, topic)
    if piggybacked:
        fetch(stage, group, "m", epoch, {topic: {0: batches}}, error=error, **QUICK)
        epoch += 1
    else:
        acknowledge(stage, group, "m", epoch, {topic: {0: batches}}, error=error, version=version)
    produce(stage, topic, b"one more")
    fetch_some(stage, group, "n", 0, topic, by="two")


@pytest.mark.parametrize(("name", "batches", "error"), BATCHES, ids=[name for name, *_ in BATCHES])
def test_batches(perform: Performance, name: str, batches: Acks, error: int) -> None:
    perform(
        f"acks-{name}",
        partial(acknowledged, batches=batches, error=error, version=2, piggybacked=False),
    )


@pytest.mark.parametrize("name", ["one-type", "a-type-each", "type-5", "past-the-acquired"])
def test_batches_in_a_fetch(perform: Performance, name: str) -> None:
    ((_, batches, _error),) = [row for row in BATCHES if row[0] == name]

    def scene(stage: Stage) -> None:
        acknowledged(stage, batches, error=None, version=2, piggybacked=True)

    perform(f"fetch-acks-{name}", scene)


@pytest.mark.parametrize("name", ["one-type", "type-5"])
def test_batches_of_version_1(perform: Performance, name: str) -> None:
    ((_, batches, error),) = [row for row in BATCHES if row[0] == name]
    perform(
        f"acks-v1-{name}",
        partial(acknowledged, batches=batches, error=error, version=1, piggybacked=False),
    )


@scene
def renewal_in_version_1(stage: Stage) -> None:
    acknowledged(stage, [(0, 9, [RENEW])], INVALID, 1, piggybacked=False)


@scene
def records_of_others(stage: Stage) -> None:
    topic, group = ready_group(stage, "m", "n")
    produce(stage, topic, *TEN)
    fetch_some(stage, group, "m", 0, topic)
    fetch(stage, group, "n", 0, {topic: {0: []}}, by="two", **QUICK)
    acknowledge(stage, group, "n", 1, {topic: {0: [(0, 0, [ACCEPT])]}}, by="two", error=STATE)


@scene
def acknowledged_twice(stage: Stage) -> None:
    topic, group = ready_group(stage, "m")
    produce(stage, topic, *TEN)
    epoch = fetch_some(stage, group, "m", 0, topic)
    acknowledge(stage, group, "m", epoch, {topic: {0: [(0, 3, [ACCEPT])]}})
    acknowledge(stage, group, "m", epoch + 1, {topic: {0: [(0, 3, [ACCEPT])]}})
    acknowledge(stage, group, "m", epoch + 2, {topic: {0: [(2, 5, [ACCEPT])]}}, error=None)
    acknowledge(stage, group, "m", epoch + 3, {topic: {0: [(8, 8, [ACCEPT])]}})
    acknowledge(stage, group, "m", epoch + 4, {topic: {0: [(8, 8, [ACCEPT])]}}, error=STATE)
    acknowledge(stage, group, "m", epoch + 5, {topic: {0: [(0, 9, [ACCEPT])]}}, error=None)
    describe_offsets(stage, group)


@scene
def one_failure_undoes_all_of_the_partition(stage: Stage) -> None:
    topic, group = ready_group(stage, "m")
    produce(stage, topic, *TEN)
    epoch = fetch_some(stage, group, "m", 0, topic)
    acknowledge(stage, group, "m", epoch, {topic: {0: [(5, 5, [ACCEPT])]}})
    acks: Acks = [(2, 3, [ACCEPT]), (5, 5, [ACCEPT])]
    acknowledge(stage, group, "m", epoch + 1, {topic: {0: acks}}, error=STATE)
    acknowledge(stage, group, "m", epoch + 2, {topic: {0: [(2, 3, [ACCEPT])]}})


@scene
def releases_until_the_limit(stage: Stage) -> None:
    """Delivery counts, records that come alone when half the limit is used up, then archived."""
    topic, group = ready_group(stage, "m", delivery_count_limit="4")
    produce(stage, topic, *TEN[:4])
    epoch = 0
    for _ in range(2):
        epoch = fetch_some(stage, group, "m", epoch, topic)
        acknowledge(stage, group, "m", epoch, {topic: {0: [(0, 3, [RELEASE])]}})
        epoch += 1
    epoch = fetch_some(stage, group, "m", epoch, topic)
    epoch = fetch_some(stage, group, "m", epoch, topic)
    describe_offsets(stage, group)


@scene
def limit_of_two_deliveries(stage: Stage) -> None:
    topic, group = ready_group(stage, "m", delivery_count_limit="2")
    produce(stage, topic, *TEN[:2])
    epoch = fetch_some(stage, group, "m", 0, topic)
    acknowledge(stage, group, "m", epoch, {topic: {0: [(0, 1, [RELEASE])]}})
    epoch = fetch_some(stage, group, "m", epoch + 1, topic)
    acknowledge(stage, group, "m", epoch, {topic: {0: [(0, 1, [RELEASE])]}}, error=None)
    produce(stage, topic, b"next")
    fetch_some(stage, group, "m", epoch + 1, topic)


@scene
def locks_run_out(stage: Stage) -> None:
    topic, group = ready_group(stage, "m", "n", record_lock_duration_ms="1000")
    produce(stage, topic, *TEN)
    epoch = fetch_some(stage, group, "m", 0, topic)
    acknowledge(stage, group, "m", epoch, {topic: {0: [(0, 4, [ACCEPT])]}})
    count, session = 0, 0
    while count < 5:  # each record has a timer of its own
        session = fetch_some(stage, group, "n", session, topic, by="two")
        (of_topic,) = stage.entries.pop().observed["responses"]
        for row in of_topic["partitions"][0]["acquired_records"]:
            count += row["last_offset"] - row["first_offset"] + 1
            stage.require("deliveries", row["delivery_count"], 2)
    stage.entries[:] = [one for one in stage.entries if one.request != "deliveries"]
    acknowledge(stage, group, "m", epoch + 1, {topic: {0: [(5, 9, [ACCEPT])]}}, error=STATE)


@scene
def renewals(stage: Stage) -> None:
    """The lock begins again; nothing is fetched with it (KIP-1222).

    A write of Kafka's has the start offset from before it, so one that moves no offset is the last.
    """
    topic, group = ready_group(stage, "m")
    produce(stage, topic, *TEN)
    epoch = fetch_some(stage, group, "m", 0, topic)
    acks: dict[str, dict[int, Acks]] = {topic: {0: [(0, 9, [RENEW])]}}
    acknowledge(stage, group, "m", epoch, acks, is_renew_ack=True)
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    produce(stage, topic, b"more")
    fetch(stage, group, "m", epoch + 1, acks, is_renew_ack=True, **nothing)
    mixed: dict[str, dict[int, Acks]] = {topic: {0: [(0, 1, [ACCEPT, RENEW])]}}
    acknowledge(stage, group, "m", epoch + 2, mixed, is_renew_ack=True)
    acknowledge(stage, group, "m", epoch + 3, {topic: {0: [(1, 9, [ACCEPT])]}})
    epoch = fetch_some(stage, group, "m", epoch + 4, topic)
    acknowledge(stage, group, "m", epoch, {topic: {0: [(10, 10, [RELEASE])]}})
    describe_offsets(stage, group)


@scene
def renewals_that_are_switched_off(stage: Stage) -> None:
    topic, group = ready_group(stage, "m", renew_acknowledge_enable="false")
    produce(stage, topic, *TEN)
    epoch = fetch_some(stage, group, "m", 0, topic)
    acks: dict[str, dict[int, Acks]] = {topic: {0: [(0, 9, [RENEW])]}}
    acknowledge(stage, group, "m", epoch, acks, is_renew_ack=True, error=None)
    acknowledge(stage, group, "m", epoch + 1, {topic: {0: [(0, 9, [ACCEPT])]}})


@scene
def locks_that_are_all_taken(stage: Stage) -> None:
    """At the limit of locks nothing new is acquired, but what was released is."""
    topic, group = ready_group(stage, "m", "n", partition_max_record_locks="100")
    for _ in range(6):
        produce(stage, topic, *(b"%d" % number for number in range(30)))
    epoch = fetch_some(stage, group, "m", 0, topic)
    fetch(stage, group, "n", 0, {topic: {0: []}}, by="two", **QUICK)
    acknowledge(stage, group, "m", epoch, {topic: {0: [(30, 59, [RELEASE])]}})
    fetch_some(stage, group, "n", 1, topic, by="two")
    acknowledge(stage, group, "m", epoch + 1, {topic: {0: [(0, 29, [ACCEPT])]}})
    fetch_some(stage, group, "n", 2, topic, by="two")


@scene
def records_that_are_deleted(stage: Stage) -> None:
    """What is below the log's start is archived."""
    topic, group = ready_group(stage, "m", "n")
    produce(stage, topic, *TEN)
    epoch = fetch_some(stage, group, "m", 0, topic)
    acknowledge(stage, group, "m", epoch, {topic: {0: [(0, 9, [RELEASE])]}})
    row = DeleteRecordsPartition(partition_index=0, offset=5)
    wanted = DeleteRecordsTopic(name=topic, partitions=[row])
    stage.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=30_000), 2)
    fetch_some(stage, group, "n", 0, topic, by="two")


@scene
def group_begins_at_the_end(stage: Stage) -> None:
    """`share.auto.offset.reset` is latest unless it is set."""
    topic, group = stage.topic("t", 1), stage.name("g")
    produce(stage, topic, *TEN)
    join_until_assigned(stage, group, "m", topic)
    answer = fetch(stage, group, "m", 0, {topic: {0: []}}, max_wait_ms=3_000)
    stage.require("nothing", acquired(answer), [])
    produce(stage, topic, b"new")
    fetch_some(stage, group, "m", 1, topic)


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(f"share-{name}", scene[name])
