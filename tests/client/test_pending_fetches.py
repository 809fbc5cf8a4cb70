"""Fetches that stay in flight over polls, without I/O: what is asked, taken and dropped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.client import pending_fetches
from fencepost.client.cluster_view import ClusterView
from fencepost.client.connection_core import ConnectionCore
from fencepost.client.conversation import (
    Begin,
    Connect,
    Conversation,
    Exchange,
    FirstOf,
    Pause,
    Where,
    drive,
)
from fencepost.client.errors import (
    AuthenticationFailed,
    BrokerError,
    ClientError,
    ConnectionFailed,
    DeadlineExceeded,
    OffsetOutOfRange,
    UnknownTopic,
)
from fencepost.client.fetch_core import FetchCore, Fetched, FetchPosition
from fencepost.client.metadata import TopicPartition
from fencepost.client.pending_fetches import PendingFetches
from fencepost.client.security import Security
from fencepost.wire.api.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from fencepost.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .records import batch

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
START = FetchPosition(0)
HOLD_MS, REQUEST_TIMEOUT_MS, API_TIMEOUT_MS = 400, 7_000, 60_000


class Clock:
    """The monotonic clock of a test: it goes on by what is waited for."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


class Open(ConnectionCore):
    """A connection that speaks every version."""

    def __init__(self, where: Where) -> None:
        super().__init__(where.host, where.port, "test", Security(), 1000)
        self.where = where
        self._is_open = True

    @property
    def is_open(self) -> bool:
        return self._is_open

    def close(self) -> None:
        self._is_open = False

    def version_for(self, request_class: Any, *, lowest: Any = None, highest: Any = None) -> int:
        return int(highest or request_class.max_version)


class Fetch:
    """A request that was sent; `answer` is what has come of it."""

    def __init__(self, exchange: Exchange[Any]) -> None:
        self.exchange = exchange
        self.connection = exchange.connection
        self.answer: FetchResponse | ClientError | None = None

    @property
    def node(self) -> int:
        return self.connection.port

    @property
    def topic_id(self) -> Uuid:
        (topic,) = self.exchange.message.topics  # type: ignore[attr-defined]
        return Uuid(topic.topic_id)

    @property
    def asked(self) -> dict[TopicPartition, int]:
        request = self.exchange.message
        assert isinstance(request, FetchRequest)
        return {
            TopicPartition("t", one.partition): one.fetch_offset
            for topic in request.topics
            for one in topic.partitions
        }


class Brokers:
    """Three brokers that lead a topic's partitions, one each unless a test says otherwise, and
    answer when the test does. The port of a broker is its id."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.leaders = {P0: 1, P1: 2, P2: 3}
        self.epoch = 5
        self.topic_id = Uuid(bytes(15) + b"\1")
        self.down: set[int] = set()
        self.exists = True
        self.fetches: list[Fetch] = []
        self.metadata_asked = 0
        self.waits_ms: list[float] = []
        self.in_wait: Callable[[], None] = lambda: None
        self.view = ClusterView[Open](
            "h:1",
            fetch_max_wait_ms=HOLD_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            api_timeout_ms=API_TIMEOUT_MS,
            retry_backoff_ms=50,
            retry_backoff_max_ms=50,
        )
        self.fetching = PendingFetches(FetchCore(self.view))
        self.wanted = dict.fromkeys((P0, P1, P2), START)

    # -- what a test does ------------------------------------------------------------------------

    def poll(self, max_wait_ms: float = 0) -> list[Fetched]:
        return self.run(self.fetching.receiving(lambda: self.wanted, max_wait_ms))

    def poll_all(self, max_wait_ms: float) -> list[Fetched]:
        """Poll as a consumer does, until something comes or the time is over."""
        until = self.clock() + max_wait_ms / 1000
        while True:
            found = self.poll(max(0.0, (until - self.clock()) * 1000))
            if found or self.clock() >= until:
                return found

    def in_flight(self) -> dict[int, Fetch]:
        return {one.node: one for one in self.fetches if one.answer is None}

    def refresh(self) -> None:
        """Have the cache hold what the brokers say now."""
        self.view.take_metadata(self._metadata())

    def answer(self, node: int, *, offset: int | None = None, values: int = 1) -> None:
        """The leader has records at all positions that it was asked for."""
        self._reply(
            node,
            lambda at, asked: PartitionData(
                partition_index=at.partition,
                high_watermark=99,
                records=batch(*[b"v"] * values, base_offset=asked if offset is None else offset),
            ),
        )

    def answer_nothing(self, node: int) -> None:
        self._reply(node, lambda at, _: PartitionData(partition_index=at.partition, records=b""))

    def refuse(self, node: int, code: ErrorCode) -> None:
        self._reply(
            node, lambda at, _: PartitionData(partition_index=at.partition, error_code=code)
        )

    def fail(self, node: int, error: ClientError | None = None) -> None:
        fetch = self.in_flight()[node]
        fetch.answer = error or ConnectionFailed("gone", host=f"h:{node}")
        fetch.connection.close()

    def _reply(self, node: int, data: Callable[[TopicPartition, int], PartitionData]) -> None:
        fetch = self.in_flight()[node]
        fetch.answer = FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic_id=topic.topic_id,
                    partitions=[data(at, offset) for at, offset in fetch.asked.items()],
                )
                for topic in fetch.exchange.message.topics  # type: ignore[attr-defined]
            ]
        )

    # -- carrying out ----------------------------------------------------------------------------

    def run(self, conversation: Conversation[Any]) -> Any:
        return drive(conversation, self._take)

    def _take(self, step: Any) -> Any:
        if isinstance(step, Connect):
            return self._connect(step.where)
        if isinstance(step, Begin):
            assert step.exchange.connection.is_open
            self.fetches.append(Fetch(step.exchange))
            return self.fetches[-1]
        if isinstance(step, FirstOf):
            self.waits_ms.append(step.wait_ms)
            self.in_wait()
            if all(one.answer is None for one in step.begun):
                self.clock.now_s += step.wait_ms / 1000
            return [one.answer for one in step.begun]
        if isinstance(step, Pause):
            self.clock.now_s += step.pause_ms / 1000
            return None
        assert isinstance(step, Exchange) and isinstance(step.message, MetadataRequest)
        self.metadata_asked += 1
        return self._metadata()

    def _connect(self, where: Where) -> Open:
        if where.port in self.down:
            raise ConnectionFailed("refused", host=f"h:{where.port}")
        known = self.view.open_connection(where)
        return known or self.view.keep_connection(where, Open(where))

    def _metadata(self) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(
                partition_index=at.partition, leader_id=leader, leader_epoch=self.epoch
            )
            for at, leader in self.leaders.items()
        ]
        code = ErrorCode.NONE if self.exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = MetadataResponseTopic(
            error_code=code,
            name="t",
            topic_id=self.topic_id if self.exists else Uuid.ZERO,
            partitions=partitions if self.exists else [],
        )
        brokers = [MetadataResponseBroker(node_id=node, host="h", port=node) for node in (1, 2, 3)]
        return MetadataResponse(brokers=brokers, topics=[topic])


@pytest.fixture
def brokers(clock: Clock) -> Brokers:
    return Brokers(clock)


def taken(found: list[Fetched]) -> dict[TopicPartition, int]:
    """Where reading goes on, of the partitions that brought records."""
    return {one.partition: one.next_offset for one in found if len(one.records)}


def test_a_poll_returns_at_the_first_answer_and_leaves_the_others_in_flight(brokers: Brokers):
    assert brokers.poll() == []
    assert {one.node: one.asked for one in brokers.fetches} == {1: {P0: 0}, 2: {P1: 0}, 3: {P2: 0}}
    brokers.answer(2, values=3)
    assert taken(brokers.poll(1_000)) == {P1: 3}
    assert brokers.clock() == 1_000, "the poll has waited for a leader that has nothing"
    brokers.wanted[P1] = FetchPosition(3)
    assert brokers.poll() == []
    assert [one.node for one in brokers.fetches] == [1, 2, 3, 2], "one fetch in flight per leader"
    assert brokers.fetches[-1].asked == {P1: 3}
    brokers.answer(1)
    brokers.answer(3)
    assert taken(brokers.poll()) == {P0: 1, P2: 1}, "later polls take what comes"


def test_each_leader_is_asked_over_a_connection_of_its_own(brokers: Brokers):
    brokers.poll()
    connections = [one.connection for one in brokers.fetches]
    assert len(set(connections)) == 3
    assert all(one.where.purpose for one in connections)
    other = PendingFetches(FetchCore(brokers.view))
    brokers.run(other.receiving(lambda: brokers.wanted, 0))
    assert not {one.connection for one in brokers.fetches[3:]} & set(connections)
    shared = brokers.view.open_connection()
    assert shared is not None and not shared.where.purpose
    brokers.fetching.close()
    assert not any(one.is_open for one in connections)
    assert shared.is_open and all(one.connection.is_open for one in brokers.fetches[3:])


def test_the_leader_holds_a_fetch_and_the_answer_has_the_request_timeout_more(brokers: Brokers):
    brokers.poll(20)
    assert brokers.waits_ms == [pytest.approx(20)]
    exchange = brokers.fetches[0].exchange
    assert exchange.message.max_wait_ms == HOLD_MS  # type: ignore[attr-defined]
    assert exchange.timeout_ms == HOLD_MS + REQUEST_TIMEOUT_MS


def test_leaders_have_buffers_of_their_own(brokers: Brokers):
    brokers.poll()
    first = {one.node: one.exchange.buffer for one in brokers.fetches}
    assert len({id(one) for one in first.values()}) == 3
    for node in (1, 2, 3):
        brokers.answer_nothing(node)
    brokers.poll()
    brokers.poll()
    assert {one.node: one.exchange.buffer for one in brokers.fetches[3:]} == first


def test_what_was_moved_paused_or_revoked_meanwhile_is_dropped(brokers: Brokers):
    brokers.leaders = {P0: 1, P1: 1, P2: 1}
    brokers.poll()
    brokers.answer(1)
    brokers.wanted = {P0: FetchPosition(7), P2: START}  # one moved, one paused
    assert taken(brokers.poll()) == {P2: 1}


def test_what_was_moved_while_a_poll_waited_is_dropped(brokers: Brokers):
    brokers.leaders = {P0: 1, P1: 1, P2: 1}

    def move() -> None:
        brokers.answer(1)
        brokers.wanted = {P0: START, P1: FetchPosition(0, last_epoch=4)}

    brokers.in_wait = move
    assert taken(brokers.poll(100)) == {P0: 1}


def test_an_error_about_a_position_that_was_left_is_none(brokers: Brokers):
    brokers.poll()
    brokers.refuse(1, ErrorCode.OFFSET_OUT_OF_RANGE)
    brokers.wanted[P0] = FetchPosition(8)
    assert brokers.poll() == []
    assert brokers.poll() == []
    assert brokers.in_flight()[1].asked == {P0: 8}, "no back-off for a position that is good"
    brokers.refuse(1, ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(OffsetOutOfRange) as caught:
        brokers.poll()
    assert (caught.value.topic, caught.value.partition) == P0


def test_a_partition_that_comes_back_to_its_position_is_not_asked_for_twice(brokers: Brokers):
    brokers.poll()
    del brokers.wanted[P0]
    brokers.poll()
    brokers.wanted[P0] = START
    brokers.poll()
    assert len(brokers.fetches) == 3
    brokers.answer(1)
    assert taken(brokers.poll()) == {P0: 1}


def test_newly_wanted_partitions_wait_for_the_answer_that_comes_soon(brokers: Brokers):
    brokers.leaders = {P0: 1, P1: 1}
    brokers.wanted = {P0: START}
    brokers.poll()
    brokers.wanted[P1] = START
    assert brokers.poll(10) == []
    brokers.answer(1)
    assert taken(brokers.poll(10)) == {P0: 1}
    brokers.wanted[P0] = FetchPosition(1)
    brokers.poll()
    assert brokers.fetches[-1].asked == {P0: 1, P1: 0}
    assert len(brokers.fetches) == 2
    brokers.clock.now_s += 10
    brokers.poll()
    assert len(brokers.fetches) == 2, "nothing is missed any more"


def test_a_fetch_that_keeps_partitions_waiting_is_given_up_with_its_connection(brokers: Brokers):
    brokers.leaders = {P0: 1, P1: 1, P2: 2}
    brokers.wanted = {P0: START, P2: START}
    brokers.poll()
    first = brokers.in_flight()[1]
    brokers.wanted[P1] = START
    brokers.poll_all(50)
    assert first.connection.is_open
    brokers.poll_all(1_000)
    assert not first.connection.is_open
    held_s = pending_fetches.WAIT_FOR_ANSWER_S
    assert [one.asked for one in brokers.fetches] == [{P0: 0}, {P2: 0}, {P0: 0, P1: 0}]
    assert min(ms for ms in brokers.waits_ms if ms) <= held_s * 1000
    brokers.answer(1)
    assert taken(brokers.poll()) == {P0: 1, P1: 1}


def test_partitions_that_have_moved_are_asked_of_their_new_leader(brokers: Brokers):
    brokers.leaders = {P0: 1, P1: 1, P2: 3}
    brokers.poll()
    brokers.leaders[P0] = 2
    brokers.epoch += 1
    brokers.refresh()
    brokers.poll()
    assert brokers.in_flight()[2].asked == {P0: 0}
    brokers.answer(1)
    brokers.answer(2, values=2)
    assert taken(brokers.poll()) == {P0: 2, P1: 1}, "the former leader's part is dropped"


def test_a_new_leader_epoch_of_the_same_leader_changes_nothing(brokers: Brokers):
    brokers.poll()
    brokers.epoch += 1
    brokers.refresh()
    brokers.poll()
    assert len(brokers.fetches) == 3
    brokers.answer(1)
    assert taken(brokers.poll()) == {P0: 1}


def test_records_of_a_topic_that_was_recreated_are_dropped(brokers: Brokers):
    brokers.leaders = {P0: 1}
    brokers.wanted = {P0: START}
    brokers.poll()
    brokers.topic_id = Uuid(bytes(15) + b"\2")
    brokers.refresh()
    brokers.answer(1)
    assert brokers.poll() == []
    brokers.poll()
    assert brokers.fetches[-1].topic_id == brokers.topic_id
    brokers.answer(1)
    assert taken(brokers.poll()) == {P0: 1}


def test_a_leader_that_is_away_holds_back_nothing_of_the_others(brokers: Brokers):
    brokers.poll()
    brokers.fail(1)
    brokers.down.add(1)
    began = brokers.clock()
    for number in range(40):
        brokers.answer(2)
        assert P1 in taken(brokers.poll_all(1_000))
        brokers.wanted[P1] = FetchPosition(number + 1)
        brokers.clock.now_s += 0.01
        brokers.poll()
    assert brokers.metadata_asked < 40, "asked again after a back-off only"
    assert brokers.clock() - began < 2
    brokers.down.clear()
    brokers.poll_all(100)
    brokers.answer(1)
    assert P0 in taken(brokers.poll_all(100))


def test_an_error_does_not_cost_the_records_of_other_leaders(brokers: Brokers):
    brokers.poll()
    brokers.refuse(1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    brokers.answer(2)
    assert taken(brokers.poll()) == {P1: 1}
    brokers.wanted[P1] = FetchPosition(1)
    with pytest.raises(BrokerError) as caught:
        brokers.poll()
    assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    brokers.poll_all(200)
    assert brokers.in_flight().keys() == {1, 2, 3}, "the next call goes on"


def test_an_error_that_waits_is_forgotten_with_its_partition(brokers: Brokers):
    brokers.poll()
    brokers.refuse(1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    brokers.answer(2)
    brokers.poll()
    del brokers.wanted[P0]
    assert brokers.poll() == []


def test_a_login_that_is_refused_is_raised(brokers: Brokers):
    brokers.poll()
    brokers.fail(3, AuthenticationFailed("no"))
    with pytest.raises(AuthenticationFailed):
        brokers.poll()


def test_a_topic_that_does_not_exist_is_believed_after_some_tries(brokers: Brokers):
    brokers.exists = False
    began = brokers.clock()
    assert brokers.poll() == []
    with pytest.raises(UnknownTopic):
        brokers.poll_all(60_000)
    assert brokers.clock() - began < 2
    assert brokers.metadata_asked == brokers.view.unknown_topic_attempts
    brokers.exists = True
    brokers.poll_all(100)
    assert len(brokers.fetches) == 3


def test_when_all_have_failed_for_long_that_is_an_error(brokers: Brokers):
    brokers.poll()
    brokers.down |= {1, 2, 3}
    for node in (1, 2, 3):
        brokers.fail(node)
    began = brokers.clock()
    assert brokers.poll_all(30_000) == [], "a poll has its time"
    brokers.clock.now_s += 40
    with pytest.raises(DeadlineExceeded, match="nothing could be fetched within 60000 ms"):
        brokers.poll_all(30_000)
    assert brokers.clock() - began >= API_TIMEOUT_MS / 1000


def test_one_failure_long_ago_is_no_reason_to_give_up(brokers: Brokers):
    brokers.poll()
    for node in (1, 2, 3):
        brokers.fail(node)
    brokers.down |= {1, 2, 3}
    brokers.poll()
    brokers.clock.now_s += 1_000  # the application did other things
    assert brokers.poll() == []
    brokers.down.clear()
    assert brokers.poll_all(100) == []
    brokers.answer(1)
    assert taken(brokers.poll()) == {P0: 1}


def test_a_divergence_comes_as_it_is(brokers: Brokers):
    brokers.wanted = {P0: FetchPosition(9, last_epoch=3)}
    brokers.poll()
    brokers._reply(
        1,
        lambda at, _: PartitionData(
            partition_index=at.partition,
            records=b"",
            diverging_epoch=EpochEndOffset(epoch=2, end_offset=6),
        ),
    )
    (found,) = brokers.poll()
    assert found.diverging is not None and found.diverging.end_offset == 6


def test_what_is_in_flight_is_given_up_when_it_is_closed_in_a_wait(brokers: Brokers):
    brokers.poll()
    first = [one.connection for one in brokers.fetches]

    def close() -> None:
        brokers.fetching.close()
        brokers.wanted = {}
        for one in brokers.fetches:
            one.answer = ConnectionFailed("the connection was closed")

    brokers.in_wait = close
    fresh = brokers.view.fresh_topic("t")
    assert brokers.poll(100) == []
    assert not any(one.is_open for one in first)
    assert brokers.view.fresh_topic("t") is fresh, "that is no sign of a broker that is gone"


def test_a_topic_that_was_recreated_is_asked_for_again_while_the_leader_holds_the_fetch(
    brokers: Brokers,
):
    brokers.wanted = {P0: START}
    brokers.poll()
    brokers.topic_id = Uuid(bytes(15) + b"\2")
    brokers.refresh()
    brokers.poll_all(1_000)
    assert len(brokers.fetches) == 2
    assert brokers.fetches[1].topic_id == brokers.topic_id


def test_each_time_that_partitions_are_missed_they_wait_first(brokers: Brokers):
    brokers.leaders = {P0: 1, P1: 1}
    brokers.wanted = {P0: START}
    brokers.poll()
    for _ in range(3):
        brokers.wanted[P1] = START
        brokers.poll()
        del brokers.wanted[P1]
        brokers.poll()
        brokers.clock.now_s += 10
    assert len(brokers.fetches) == 1


def test_a_login_that_is_refused_is_nothing_to_those_who_want_nothing_of_the_leader(
    brokers: Brokers,
):
    brokers.poll()
    brokers.fail(3, AuthenticationFailed("no"))
    del brokers.wanted[P2]
    assert brokers.poll() == []


def test_an_answer_in_between_gives_an_unknown_topic_all_its_tries_again(brokers: Brokers):
    brokers.wanted = {P0: START}
    for number in range(3):
        brokers.exists = False
        brokers.view.invalidate(["t"])
        for _ in range(brokers.view.unknown_topic_attempts - 2):
            assert brokers.poll() == []
            brokers.clock.now_s += 1
        brokers.exists = True
        brokers.poll()
        brokers.answer(1)
        assert taken(brokers.poll()) == {P0: number + 1}
        brokers.wanted[P0] = FetchPosition(number + 1)
