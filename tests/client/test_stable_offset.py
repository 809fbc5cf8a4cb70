"""What holds a last stable offset: every standing of a coordinator towards an open transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.client import stable_offset
from fencepost.client.conversation import Conversation, drive
from fencepost.client.metadata import TopicPartition
from fencepost.client.stable_offset import (
    ENDED_EVERY_MS,
    NEVER_MS,
    OpenTransaction,
    StableOffset,
    Verdict,
    explain,
    judge,
    open_transactions,
)
from fencepost.client.transaction_admin import PartitionProducer, TransactionDescription
from fencepost.views.transactions import explanation, refusal_of, release_of

from .fake_cluster import FakeCluster
from .records import batch

HERE, ELSEWHERE = TopicPartition("a topic", 0), TopicPartition("a topic", 1)
PRODUCER = PartitionProducer(7, 3, 10, 5_000, 2, 40)
KNOWN = TransactionDescription("my id", 1, 7, 3, "Ongoing", 60_000, 1_000, (HERE, ELSEWHERE))
LATE_MS = 1_000 + 60_000 + ENDED_EVERY_MS


@pytest.mark.parametrize(
    ("known", "now_ms", "verdict"),
    [
        (None, 2_000, Verdict.HANGING),
        (KNOWN, 2_000, Verdict.ONGOING),
        (KNOWN, LATE_MS, Verdict.ONGOING),
        (KNOWN, LATE_MS + 1, Verdict.OVERDUE),
        (replace(KNOWN, timeout_ms=NEVER_MS), NEVER_MS + LATE_MS, Verdict.ONGOING),
        (replace(KNOWN, timeout_ms=NEVER_MS - 1), NEVER_MS + LATE_MS, Verdict.OVERDUE),
        (replace(KNOWN, producer_epoch=4), 2_000, Verdict.ONGOING),  # fenced, being aborted
        (replace(KNOWN, producer_epoch=2), 2_000, Verdict.HANGING),  # its marker is refused here
        (replace(KNOWN, producer_id=8), 2_000, Verdict.HANGING),
        (replace(KNOWN, partitions=(ELSEWHERE,)), 2_000, Verdict.HANGING),
        (replace(KNOWN, state="PrepareCommit"), 2_000, Verdict.ENDING),
        (replace(KNOWN, state="PrepareAbort", producer_epoch=4), LATE_MS + 1, Verdict.ENDING),
        (replace(KNOWN, state="PrepareEpochFence"), 2_000, Verdict.ENDING),
        (replace(KNOWN, state="CompleteAbort", partitions=()), 2_000, Verdict.HANGING),
        (replace(KNOWN, state="CompleteCommit"), 2_000, Verdict.HANGING),
        (replace(KNOWN, state="Empty", partitions=(), start_ms=-1), 2_000, Verdict.HANGING),
    ],
)
def test_judge(known: TransactionDescription | None, now_ms: int, verdict: Verdict):
    assert judge(HERE, PRODUCER, known, now_ms) is verdict


@pytest.mark.parametrize(
    ("epoch", "verdict"),
    [(-1, Verdict.ENDING), (1, Verdict.REFUSED), (2, Verdict.ENDING), (3, Verdict.ENDING)],
)
def test_a_later_coordinator_in_the_partition_refuses_the_marker(epoch: int, verdict: Verdict):
    known = replace(KNOWN, state="PrepareCommit")
    assert judge(HERE, PRODUCER, known, 2_000, epoch) is verdict
    assert judge(HERE, PRODUCER, KNOWN, 2_000, epoch) is Verdict.ONGOING


def test_a_refusal_says_by_what_and_until_when():
    known = replace(KNOWN, state="PrepareCommit")
    by_coordinator = OpenTransaction(HERE, PRODUCER, -1, known, Verdict.REFUSED, 1)
    assert refusal_of(by_coordinator) == [
        "a topic-0 refuses its marker, TRANSACTION_COORDINATOR_FENCED: somebody wrote one with"
        " coordinator epoch 2, the coordinator's has 1",
        "the coordinator asks again: PrepareCommit lasts until the leader epoch of the id's"
        " partition of __transaction_state has reached 2 (every election adds one), or until"
        " a topic-0 has forgotten the producer (producer.id.expiration.ms after"
        " 1970-01-01T00:00:05.000Z)",
    ]
    later = PRODUCER._replace(producer_epoch=32_767)
    by_producer = OpenTransaction(HERE, later, -1, known, Verdict.REFUSED, 2)
    first, second = refusal_of(by_producer)
    assert "INVALID_PRODUCER_EPOCH" in first and "32767, the coordinator's has 3" in first
    assert "has forgotten the producer" in second and "leader epoch" not in second
    assert release_of(by_producer) is None
    lines = explanation(StableOffset(HERE, 40, 50, Verdict.REFUSED, (by_coordinator,)), 10_000)
    assert lines[3:] == [f"  {text}" for text in refusal_of(by_coordinator)]


def held(verdict: Verdict, known: TransactionDescription | None, *more: Verdict) -> StableOffset:
    opened = tuple(OpenTransaction(HERE, PRODUCER, 4_000, known, one) for one in (verdict, *more))
    return StableOffset(HERE, 40, 50, verdict, opened)


def test_every_verdict_says_what_would_release_readers():
    hanging = held(Verdict.HANGING, None, Verdict.ONGOING)
    assert explanation(hanging, 10_000) == [
        "a topic-0: readers wait at offset 40, 10 before the high watermark 50",
        "  producer 7 epoch 3 has a transaction open from offset 40 on, since"
        " 1970-01-01T00:00:04.000Z (6 s), last wrote 1970-01-01T00:00:05.000Z",
        "  coordinator: none knows the producer id",
        "  it hangs: no coordinator will ever end it",
        "  to release: fencepost transactions abort 'a topic:0' --start-offset 40",
        "  behind it 1 more transaction(s) are open:",
        "    producer 7 epoch 3 has a transaction open from offset 40 on, since"
        " 1970-01-01T00:00:04.000Z (6 s), last wrote 1970-01-01T00:00:05.000Z: ongoing",
    ]
    terminate = "fencepost transactions force-terminate 'my id'"
    assert explanation(held(Verdict.ONGOING, KNOWN), 10_000)[2:] == [
        "  coordinator: broker 1 has it as transactional id my id, Ongoing, epoch 3,"
        " for 9 s of at most 60",
        "  its producer ends it, or its timeout at 1970-01-01T00:01:01.000Z",
        f"  to release now: {terminate}",
    ]
    at_its_end = explanation(held(Verdict.ONGOING, KNOWN), 61_000)
    assert at_its_end[3] == "  its producer ends it, or its timeout at 1970-01-01T00:01:01.000Z"
    timed_out = explanation(held(Verdict.ONGOING, KNOWN), 61_001)
    assert timed_out[3:] == [
        "  it timed out at 1970-01-01T00:01:01.000Z: its coordinator, which looks every 10 s,"
        " aborts it",
        f"  to release now: {terminate}",
    ]
    never = replace(KNOWN, timeout_ms=NEVER_MS)
    assert "never times out" in explanation(held(Verdict.ONGOING, never), 10_000)[3]
    assert explanation(held(Verdict.OVERDUE, KNOWN), LATE_MS)[-1] == f"  to release: {terminate}"
    ending = held(Verdict.ENDING, replace(KNOWN, state="PrepareCommit"))
    assert "in-sync replicas" in explanation(ending, 10_000)[-1]
    assert release_of(ending.open[0]) is None
    passing = StableOffset(HERE, 40, 50, Verdict.PASSING, ())
    assert explanation(passing, 0)[-1] == "  no transaction is open any more: look again"
    nothing = StableOffset(HERE, 50, 50, Verdict.NOTHING, ())
    assert explanation(nothing, 0) == ["a topic-0: nothing is held, readers reach offset 50"]
    without = replace(KNOWN, partitions=())
    assert "without this partition" in explanation(held(Verdict.HANGING, without), 10_000)[2]


def test_times_that_no_calendar_has_are_printed_nevertheless():
    wild = PRODUCER._replace(last_timestamp_ms=2**63 - 1)
    one = OpenTransaction(HERE, wild, 2**62, None, Verdict.HANGING)
    lines = explanation(StableOffset(HERE, 40, 50, Verdict.HANGING, (one,)), 10_000)
    assert f"{2**63 - 1} ms" in lines[1]


def answering(answer: Callable[..., Any]) -> Callable[..., Conversation[Any]]:
    """Conversations without a step: what `answer` says without its first argument, the view."""

    def conversation(view: Any, *arguments: Any) -> Conversation[Any]:
        return answer(*arguments)
        yield

    return conversation


def _fail(step: Any) -> Any:
    raise AssertionError(f"no step is expected: {step}")


class Told:
    """An administrator who is told one thing after the other of what is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: list[PartitionProducer]) -> None:
        self._looks = list(looks)
        self.asked: list[list[TopicPartition]] = []
        self.stable = {HERE: 40, ELSEWHERE: 50}
        offsets = {"read_committed": self.stable, "read_uncommitted": {HERE: 50, ELSEWHERE: 50}}
        for name, answer in (
            ("_offsets", lambda partitions, level: offsets[level]),
            ("_timestamp_at", lambda partition, offset: offset * 100),
            ("describing_producers", self._describe_producers),
            ("finding_transactions_of", self._transactions_of),
        ):
            monkeypatch.setattr(stable_offset, name, answering(answer))
        self.cluster = self

    def run(self, conversation: Conversation[Any]) -> Any:
        return drive(conversation, _fail)

    def _describe_producers(self, partitions: list[TopicPartition]) -> Any:
        self.asked.append(list(partitions))
        return {HERE: self._looks.pop(0)}

    def _transactions_of(self, producer_ids: Iterable[int]) -> Any:
        self.looked_for = set(producer_ids)
        return {7: KNOWN}

    def explained(self) -> list[StableOffset]:
        admin: Any = self
        return explain(admin, [ELSEWHERE, HERE], 6_000)


SECOND = PRODUCER._replace(producer_id=8, start_offset=44)
IDLE = PRODUCER._replace(producer_id=9, start_offset=-1)


def test_partitions_that_are_held_are_explained_by_what_is_open_there_first(
    monkeypatch: pytest.MonkeyPatch,
):
    told = Told(monkeypatch, *[[SECOND, IDLE, PRODUCER]] * 2)
    here, elsewhere = told.explained()
    assert (elsewhere.verdict, elsewhere.open) == (Verdict.NOTHING, ())
    assert here.partition == HERE and here.verdict is Verdict.ONGOING
    assert [(one.producer, one.verdict) for one in here.open] == [
        (PRODUCER, Verdict.ONGOING),
        (SECOND, Verdict.HANGING),
    ]
    assert [one.first_timestamp_ms for one in here.open] == [4_000, 4_400]
    assert told.asked == [[HERE]] * 2, "where nothing is held nobody is asked"
    assert told.looked_for == {7, 8}


def test_what_ends_or_begins_while_coordinators_are_asked_is_not_explained(
    monkeypatch: pytest.MonkeyPatch,
):
    """The coordinator's answer may be of before the end, or of before the beginning."""
    assert Told(monkeypatch, [PRODUCER], []).explained()[0].verdict is Verdict.PASSING
    told = Told(monkeypatch, [PRODUCER], [PRODUCER, SECOND])
    assert [one.producer for one in told.explained()[0].open] == [PRODUCER]
    again = PRODUCER._replace(start_offset=48)
    assert Told(monkeypatch, [PRODUCER], [again]).explained()[0].open == ()
    told = Told(monkeypatch)
    told.stable[HERE] = 50
    assert {one.verdict for one in told.explained()} == {Verdict.NOTHING}
    assert not told.asked


@pytest.mark.parametrize(("older_than_ms", "count"), [(-1, 1), (999, 1), (1_000, 0)])
def test_only_what_wrote_last_so_long_ago_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, older_than_ms: int, count: int
):
    told: Any = Told(monkeypatch, [PRODUCER], [PRODUCER])
    found = open_transactions(told, [HERE], 6_000, older_than_ms=older_than_ms)
    assert len(found) == count


def test_when_a_transaction_began_is_read_from_its_first_batch(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    for number in range(3):
        fake.partition("t").append(batch(b"a", b"b", timestamp_ms=1_000 + number))
    cluster = connect(fake)
    where = TopicPartition("t", 0)

    def timestamp_at(offset: int) -> int:
        return cluster.run(stable_offset._timestamp_at(cluster, where, offset))

    found = [timestamp_at(offset) for offset in range(6)]
    assert found == [1_000, 1_000, 1_001, 1_001, 1_002, 1_002]
    fake.partition("t").delete_before(4)
    assert timestamp_at(1) == -1
