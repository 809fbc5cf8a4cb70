"""A fetcher by hand: what it asks, what it tells partitions, and answers for it."""

from __future__ import annotations

from typing import Any

from fencepost.batch.header import stamp
from fencepost.machines.effects import Send, SetTimer, Tell, TimerFired
from fencepost.machines.fetcher import (
    Fetcher,
    FetcherConfig,
    FetchPosition,
    Follow,
    FollowedPartition,
    LeaderAnswered,
    LeaderFailed,
    LeaderRequest,
    Progressed,
)
from fencepost.wire.api import fetch
from fencepost.wire.types import Uuid

from .fakes import batch

BROKER, LEADER, EPOCH, BROKER_EPOCH = 1, 2, 9, 77
CONFIG = FetcherConfig(backoff_ms=1_000)
TOPIC_IDS = {name: Uuid(name.encode() * 16) for name in "tu"}


def partition(number: int = 0, topic: str = "t") -> FollowedPartition:
    return FollowedPartition(topic, TOPIC_IDS.get(topic, Uuid.ZERO), number)


def records(base_offset: int, epoch: int = EPOCH, count: int = 1) -> bytes:
    """A batch as a leader stored it."""
    data = batch(count)
    stamp(data, 0, base_offset=base_offset, leader_epoch=epoch)
    return bytes(data)


def part(number: int = 0, error: int = 0, **fields: Any) -> fetch.PartitionData:
    """A partition's part of an answer."""
    fields = {"high_watermark": 0, "log_start_offset": 0, "records": b""} | fields
    return fetch.PartitionData(partition_index=number, error_code=int(error), **fields)


def diverging(epoch: int, end_offset: int) -> fetch.EpochEndOffset:
    return fetch.EpochEndOffset(epoch=epoch, end_offset=end_offset)


class Hand:
    """Steps one fetcher and keeps what came of it."""

    def __init__(self, config: FetcherConfig = CONFIG) -> None:
        self.held_back: set[FollowedPartition] = set()
        self.fetcher = Fetcher(
            BROKER, LEADER, config, lambda: BROKER_EPOCH, self.held_back.__contains__
        )
        self.now_ms = 5_000
        self.asked: list[LeaderRequest] = []
        self.told: list[tuple[FollowedPartition, Any]] = []
        self.timer_ms: int | None = None
        self._taken: dict[FollowedPartition, int] = {}

    def feed(self, input_: Any) -> None:
        for effect in self.fetcher.step(input_, self.now_ms, 0):
            if type(effect) is Send:
                assert effect.to == LEADER
                self.asked.append(effect.message)
            elif type(effect) is Tell:
                self._taken[effect.machine] = self._taken.get(effect.machine, 0) + 1
                self.told.append((effect.machine, effect.input_))
            else:
                assert type(effect) is SetTimer
                self.timer_ms = effect.deadline_ms

    def follow(
        self, one: FollowedPartition, offset: int = 0, last_epoch: int = -1, epoch: int = EPOCH
    ) -> None:
        position = FetchPosition(offset, last_epoch, 0)
        self.feed(Follow(one, one, epoch, position, self._taken.get(one, 0)))

    def progress(
        self, one: FollowedPartition, offset: int, last_epoch: int, start: int = 0
    ) -> None:
        """The partition's machine is done, and durable up to there."""
        position = FetchPosition(offset, last_epoch, start)
        self.feed(Progressed(one, position, self._taken.get(one, 0)))

    def wait(self, until_ms: int | None = None) -> None:
        """Let time pass until something is asked, or until then."""
        while not self.is_asking and self.timer_ms is not None:
            if until_ms is not None and self.timer_ms > until_ms:
                break
            self.now_ms, self.timer_ms = self.timer_ms, None
            self.feed(TimerFired("round"))
        self.now_ms = self.now_ms if until_ms is None else until_ms

    def fire(self, pass_ms: int) -> None:
        """Let so much time pass, and the timer fire if it is due."""
        self.now_ms += pass_ms
        while self.timer_ms is not None and self.timer_ms <= self.now_ms:
            self.timer_ms = None
            self.feed(TimerFired("round"))

    # -- what was asked ------------------------------------------------------------------------

    @property
    def last(self) -> Any:
        return self.asked[-1].request

    @property
    def is_asking(self) -> bool:
        """Whether the last request was not answered yet."""
        return self.fetcher._waits_for is not None

    def fetched(self) -> dict[tuple[str, int], tuple[int, int, int]]:
        """What the last Fetch names: offset, leader epoch and last fetched epoch by partition."""
        return {
            (topic.topic, one.partition): (
                one.fetch_offset,
                one.current_leader_epoch,
                one.last_fetched_epoch,
            )
            for topic in self.last.topics
            for one in topic.partitions
        }

    def forgotten(self) -> list[tuple[str, int]]:
        return [
            (topic.topic, number)
            for topic in self.last.forgotten_topics_data
            for number in topic.partitions
        ]

    # -- answers -------------------------------------------------------------------------------

    def answer(self, response: Any) -> None:
        self.feed(LeaderAnswered(self.asked[-1].number, response))

    def fail(self, *, is_unsupported: bool = False) -> None:
        self.feed(LeaderFailed(self.asked[-1].number, "connection refused", is_unsupported))

    def answer_fetch(
        self, *parts: fetch.PartitionData, session_id: int = 5, error: int = 0, topic: str = "t"
    ) -> None:
        response = fetch.FetchResponse(session_id=session_id, error_code=int(error))
        if parts:
            response.responses = [
                fetch.FetchableTopicResponse(
                    topic="" if topic in TOPIC_IDS else topic,
                    topic_id=TOPIC_IDS.get(topic, Uuid.ZERO),
                    partitions=list(parts),
                )
            ]
        self.answer(response)
