"""Markers on their way: grouped by leader, sent again by error, dropped with their coordinator."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.machines.image import BrokerImage, ClusterImage, PartitionImage, TopicImage, diff
from fencepost.machines.transaction.epochs import Identity
from fencepost.machines.transaction.model import TopicPartition, Transaction, TransactionState
from fencepost.runtime.transaction_markers import (
    FIRST_RETRY_MS,
    MAX_IN_FLIGHT,
    MAX_PARTITIONS,
    MAX_RETRY_MS,
    REFUSED_RETRY_MS,
    ROUTED_AT_ONCE,
    MarkerSender,
)
from fencepost.wire.api.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..marker_answers import answer_to_markers
from ..timers import ManualTimers

HERE, THERE, ELSEWHERE = 1, 2, 3


class World:
    """A sender, a cluster of three brokers, and leaders that answer when they are told to."""

    def __init__(self) -> None:
        self.timers = ManualTimers()
        self.image = image_of({"orders": [HERE, THERE, THERE, ELSEWHERE]})
        self.asked: list[tuple[int, WriteTxnMarkersRequest, Any, Any]] = []
        self.written: list[tuple[str, frozenset[TopicPartition]]] = []
        self.told: list[str] = []
        self.sender = MarkerSender(HERE, self.timers, self, lambda: self.image, self.told.append)
        self.sender.on_written = lambda sent, partitions: self.written.append(
            (sent.transactional_id, partitions)
        )

    def write_here(self, request: WriteTxnMarkersRequest, on_response: Any) -> None:
        """This node's leaders."""
        self.asked.append((HERE, request, on_response, None))

    def ask(self, node_id: int, request: WriteTxnMarkersRequest, *tell: Any) -> None:
        """Another node's."""
        self.asked.append((node_id, request, *tell))

    def apply(self, image: ClusterImage) -> None:
        """The metadata change, and the sender hears of it."""
        before, self.image = self.image, image
        self.sender.image_changed(diff(before, image))

    def take(self, node_id: int) -> tuple[WriteTxnMarkersRequest, Any, Any]:
        """The oldest request to a node."""
        (place, *_) = [i for i, asked in enumerate(self.asked) if asked[0] == node_id]
        return self.asked.pop(place)[1:]

    def answer(self, node_id: int, errors: dict[int, ErrorCode] | None = None) -> None:
        """The node answers its oldest request; `errors` by partition."""
        request, on_response, _ = self.take(node_id)
        on_response(answer_to_markers(request, errors or {}))


def image_of(topics: dict[str, list[int]], leader_epoch: int = 0) -> ClusterImage:
    """A cluster where these lead the partitions."""
    image = ClusterImage()
    brokers, by_name, by_id = image.brokers, image.topics_by_name, image.topics_by_id
    for broker_id in (HERE, THERE, ELSEWHERE):
        brokers = brokers.set(
            broker_id, BrokerImage(broker_id, 1, Uuid.ZERO, (), (), None, False, False, ())
        )
    for name, leaders in topics.items():
        partitions = tuple(PartitionImage((one,), (one,), one, leader_epoch, 0) for one in leaders)
        topic = TopicImage(name, Uuid(name.encode().ljust(16)), partitions)
        by_name, by_id = by_name.set(name, topic), by_id.set(topic.topic_id, topic)
    return replace(image, brokers=brokers, topics_by_name=by_name, topics_by_id=by_id)


def ending(number: int, *indexes: int, topic: str = "orders") -> Transaction:
    """The decided end of transactional id `t<number>`."""
    return Transaction(
        f"t{number}",
        Identity(number, 4, 3, number),
        1_000,
        TransactionState.PREPARE_COMMIT,
        frozenset((topic, index) for index in indexes),
        client_version=2,
    )


def test_every_leader_gets_its_markers_and_the_coordinator_hears_of_each() -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 0, 1, 2))
    assert sorted(asked[0] for asked in world.asked) == [HERE, THERE]
    request, on_response, _ = world.take(THERE)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (5, 4, 17)
    assert marker.transaction_result and marker.transaction_version == 2
    assert [(t.name, t.partition_indexes) for t in marker.topics] == [("orders", [1, 2])]
    on_response(answer_to_markers(request, {}))
    assert world.written == [("t5", {("orders", 1), ("orders", 2)})]
    assert world.sender.waiting == 1
    world.answer(HERE)
    assert world.written[1:] == [("t5", {("orders", 0)})]
    assert world.sender.waiting == 0


def test_an_end_without_partitions_is_told_at_once() -> None:
    world = World()
    world.sender.begin(9, 17, ending(5))
    assert world.written == [("t5", frozenset())] and not world.asked


def test_transactions_share_requests_while_some_are_under_way() -> None:
    world = World()
    for number in range(MAX_IN_FLIGHT + 3):
        world.sender.begin(number, 17, ending(number, 1))
    assert len(world.asked) == MAX_IN_FLIGHT
    world.asked.reverse()  # answers come in any order
    world.asked[0][2](answer_to_markers(world.asked[0][1], {}))
    assert [marker.producer_id for marker in world.asked[-1][1].markers] == [2, 3, 4]


def test_a_coordinator_that_stumbles_over_the_answer_holds_up_no_other() -> None:
    """Otherwise no transaction of that leader would ever end again."""
    world = World()

    def written(sent: Transaction, partitions: frozenset[TopicPartition]) -> None:
        if sent.transactional_id == "t1":
            raise RuntimeError(partitions)
        world.written.append((sent.transactional_id, partitions))

    world.sender.on_written = written
    for number in range(MAX_IN_FLIGHT + 3):
        world.sender.begin(number, 17, ending(1 if number == 2 else number + 10, 1))
    for _ in range(MAX_IN_FLIGHT + 1):
        world.answer(THERE)
    world.sender.begin(9, 17, ending(9, 1))
    world.answer(THERE)
    assert [name for name, _ in world.written] == ["t10", "t11", "t13", "t14", "t9"]


def test_a_request_has_only_so_many_partitions() -> None:
    world = World()
    world.image = image_of({"wide": [THERE] * (MAX_PARTITIONS + 10)})
    world.sender.begin(9, 17, ending(5, *range(MAX_PARTITIONS + 10), topic="wide"))
    sizes = [len(asked[1].markers[0].topics[0].partition_indexes) for asked in world.asked]
    assert sizes == [MAX_PARTITIONS, 10]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_is_refused_goes_to_the_leader_of_then(error: ErrorCode) -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 1, 2))
    world.answer(THERE, {2: error})
    assert world.written == [("t5", {("orders", 1)})] and not world.asked
    world.image = image_of({"orders": [HERE, THERE, ELSEWHERE, ELSEWHERE]})
    world.timers.advance(FIRST_RETRY_MS)
    (request, *_) = world.take(ELSEWHERE)
    assert request.markers[0].topics[0].partition_indexes == [2]


@pytest.mark.parametrize(
    "error", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION]
)
def test_a_leader_that_cannot_have_markers_needs_none(error: ErrorCode) -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 1))
    world.answer(THERE, {1: error})
    assert world.written == [("t5", {("orders", 1)})]


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_a_leader_that_knows_a_later_epoch_is_asked_again_seldom(error: ErrorCode) -> None:
    """Kafka gives up, and without another coordinator the transaction stays decided for ever."""
    world = World()
    world.sender.begin(9, 17, ending(5, 0, 1, 2))
    world.answer(THERE, {2: error})
    world.answer(HERE)
    assert [done for _, done in world.written] == [{("orders", 1)}, {("orders", 0)}]
    assert (world.sender.waiting, world.sender.refused) == (1, 1)
    world.timers.advance(REFUSED_RETRY_MS - 1)
    assert not world.asked
    world.timers.advance(1)
    world.answer(THERE, {2: error})
    (told,) = world.told
    for fact in ("'t5'", "orders-2", error.name, "producer 5, epoch 4, coordinator epoch 17"):
        assert fact in told
    world.timers.advance(REFUSED_RETRY_MS)
    world.answer(THERE)
    assert world.sender.waiting == world.sender.refused == 0


def test_an_unexpected_error_is_told_once() -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 1))
    for _ in range(3):
        world.answer(THERE, {1: ErrorCode.CORRUPT_MESSAGE})
        world.timers.advance(MAX_RETRY_MS)
    assert world.told == ["the marker of 't5' in orders-1: CORRUPT_MESSAGE"]


def test_a_broken_connection_and_a_missing_answer_are_tried_again() -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 1))
    world.take(THERE)[2]("the peer closed the connection")
    world.timers.advance(FIRST_RETRY_MS)
    world.take(THERE)[1](WriteTxnMarkersResponse())
    world.timers.advance(10 * FIRST_RETRY_MS)
    world.answer(THERE)
    assert world.written == [("t5", {("orders", 1)})]


def test_a_partition_without_a_leader_is_waited_for_and_a_deleted_topic_is_not() -> None:
    world = World()
    world.image = image_of({"orders": [-1]})
    world.sender.begin(9, 17, ending(5, 0))
    assert not world.asked and world.sender.without_leader == 1
    world.timers.advance(FIRST_RETRY_MS)
    assert not world.asked and world.sender.without_leader == 1
    world.image = image_of({"orders": [THERE]})
    world.timers.advance(2 * FIRST_RETRY_MS)
    assert world.sender.without_leader == 0
    world.take(THERE)[2]("gone")
    world.image = image_of({})
    world.timers.advance(10 * FIRST_RETRY_MS)
    assert world.written == [("t5", {("orders", 0)})]


def test_what_a_coordinator_sent_is_dropped_with_it() -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 1))
    world.sender.begin(8, 17, ending(6, 1))
    world.sender.begin(9, 17, ending(7, 1))
    world.sender.forget(9)
    world.sender.forget(7)
    world.answer(THERE)
    assert not world.written, "the answer was for the coordinator of then"
    assert world.sender.waiting == 1
    world.sender.begin(9, 18, ending(5, 1))
    epochs = [(m.producer_id, m.coordinator_epoch) for _, r, *_ in world.asked for m in r.markers]
    assert epochs == [(6, 17), (5, 18)]
    world.answer(THERE)
    world.answer(THERE)
    assert [written[0] for written in world.written] == ["t6", "t5"]


def test_a_sender_that_is_closed_does_nothing() -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 1))
    world.sender.close()
    world.take(THERE)[2]("this node is stopping")
    world.timers.advance(10_000)
    world.sender.begin(9, 17, ending(6, 1))
    assert not world.asked and not world.written


def test_what_is_sent_again_takes_the_place_of_what_was_sent() -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 1))
    world.sender.begin(9, 18, ending(5, 1))
    world.answer(THERE, {1: ErrorCode.TRANSACTION_COORDINATOR_FENCED})
    assert not world.written and world.sender.waiting == 1
    world.answer(THERE)
    assert world.written == [("t5", {("orders", 1)})]


def test_answers_for_what_was_sent_before_count_for_nothing() -> None:
    """The partitions that are left are those of the end that was sent last."""
    world = World()
    world.sender.begin(9, 17, ending(5, 1, 3))
    world.sender.begin(9, 18, ending(5, 1, 3))
    for node_id in (THERE, ELSEWHERE):
        world.answer(node_id)
    assert not world.written and world.sender.waiting == 1
    world.answer(THERE)
    world.answer(ELSEWHERE)
    assert world.written == [("t5", {("orders", 1)}), ("t5", {("orders", 3)})]
    assert world.sender.waiting == 0


def test_what_was_refused_before_is_not_asked_for_again() -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 1))
    world.answer(THERE, {1: ErrorCode.TRANSACTION_COORDINATOR_FENCED})
    world.sender.begin(9, 18, ending(5, 1))
    world.timers.advance(2 * REFUSED_RETRY_MS)
    ((_, request, *_),) = world.asked
    assert [marker.coordinator_epoch for marker in request.markers] == [18]
    assert world.sender.refused == 0


def test_a_leader_that_is_fenced_is_not_asked() -> None:
    world = World()
    there = world.image.brokers[THERE]
    fenced = world.image.brokers.set(THERE, replace(there, fenced=True))
    alive, world.image = world.image, replace(world.image, brokers=fenced)
    world.sender.begin(9, 17, ending(5, 1))
    assert not world.asked and world.sender.without_leader == 1
    world.sender.begin(9, 18, ending(5, 1))
    world.image = alive
    world.timers.advance(FIRST_RETRY_MS)
    assert world.sender.without_leader == 0, "of what was dropped, too"
    world.answer(THERE)
    assert world.written == [("t5", {("orders", 1)})]


def test_a_topic_that_came_back_with_fewer_partitions_needs_no_marker() -> None:
    world = World()
    world.image = image_of({"orders": [THERE]})
    world.sender.begin(9, 17, ending(5, 1, 3))
    assert world.written == [("t5", {("orders", 1), ("orders", 3)})] and not world.asked


def test_the_pause_grows_while_a_leader_refuses() -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 1))
    for _ in range(8):
        world.answer(THERE, {1: ErrorCode.NOT_LEADER_OR_FOLLOWER})
        world.timers.advance(MAX_RETRY_MS)
    world.answer(THERE, {1: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    world.timers.advance(MAX_RETRY_MS // 4)
    assert not world.asked
    world.timers.advance(MAX_RETRY_MS)
    world.answer(THERE)
    assert world.written == [("t5", {("orders", 1)})]


def slow_retries(world: World) -> None:
    """Marker of t5 in orders-1 has been refused so often that it rests for about a second."""
    world.sender.begin(9, 17, ending(5, 1))
    for _ in range(8):
        world.answer(THERE, {1: ErrorCode.NOT_LEADER_OR_FOLLOWER})
        world.timers.advance(2 * MAX_RETRY_MS)
    world.answer(THERE, {1: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    assert not world.asked


def test_the_new_leader_is_asked_as_soon_as_the_metadata_name_it() -> None:
    """Not when the pause is over (Kafka's TransactionMarkerChannelManager is woken, too)."""
    world = World()
    slow_retries(world)
    world.apply(image_of({"orders": [HERE, ELSEWHERE, THERE, ELSEWHERE]}, 1))
    world.answer(ELSEWHERE)
    assert world.written == [("t5", {("orders", 1)})]
    world.timers.advance(2 * MAX_RETRY_MS)
    assert not world.asked, "the pause that was under way is over"


def test_a_leader_that_leads_again_in_a_new_epoch_is_asked_at_once() -> None:
    world = World()
    slow_retries(world)
    world.apply(image_of({"orders": [HERE, THERE, THERE, ELSEWHERE]}, 1))
    world.answer(THERE, {1: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    assert not world.asked
    world.timers.advance(2 * FIRST_RETRY_MS)
    assert world.asked, "it gets the short pauses of a new leader"


def test_what_other_partitions_go_through_wakes_nobody() -> None:
    world = World()
    slow_retries(world)
    other = image_of({"orders": [HERE, THERE, THERE, ELSEWHERE], "others": [HERE]})
    world.apply(other)
    topic = other.topics_by_name["orders"]
    shrunk = replace(topic.partitions[1], partition_epoch=1)
    partitions = (topic.partitions[0], shrunk, *topic.partitions[2:])
    topic = replace(topic, partitions=partitions)
    by_name = other.topics_by_name.set("orders", topic)
    by_id = other.topics_by_id.set(topic.topic_id, topic)
    world.apply(replace(other, topics_by_name=by_name, topics_by_id=by_id))
    assert not world.asked


def test_a_deleted_topic_ends_the_pause() -> None:
    world = World()
    slow_retries(world)
    world.apply(image_of({}))
    assert world.written == [("t5", {("orders", 1)})] and not world.asked


def test_what_is_queued_for_a_leader_that_hangs_goes_to_the_next_leader() -> None:
    world = World()
    for number in range(MAX_IN_FLIGHT + 2):
        world.sender.begin(9, 17, ending(number, 1))
    world.apply(image_of({"orders": [HERE, ELSEWHERE, THERE, ELSEWHERE]}, 1))
    sent = [m.producer_id for node, r, *_ in world.asked if node == ELSEWHERE for m in r.markers]
    assert sent == [MAX_IN_FLIGHT, MAX_IN_FLIGHT + 1]
    for _ in range(MAX_IN_FLIGHT):
        world.take(THERE)[2]("no answer in time")
    world.answer(ELSEWHERE)
    world.answer(ELSEWHERE)
    while world.asked:
        world.answer(ELSEWHERE)
    assert sorted(name for name, _ in world.written) == ["t0", "t1", "t2", "t3"]


def test_an_answer_of_the_old_leader_that_comes_behind_the_metadata_needs_no_pause() -> None:
    world = World()
    world.sender.begin(9, 17, ending(5, 1, 2))
    world.apply(image_of({"orders": [HERE, ELSEWHERE, THERE, ELSEWHERE]}, 1))
    world.answer(THERE, dict.fromkeys((1, 2), ErrorCode.NOT_LEADER_OR_FOLLOWER))
    (request, *_) = world.take(ELSEWHERE)
    assert request.markers[0].topics[0].partition_indexes == [1]
    assert not world.asked, "who is still named as the leader is given time"


def test_a_broker_that_comes_back_gets_what_waited_for_it() -> None:
    world = World()
    there = world.image.brokers[THERE]
    alive = world.image
    world.image = replace(alive, brokers=alive.brokers.set(THERE, replace(there, fenced=True)))
    world.sender.begin(9, 17, ending(5, 1))
    assert world.sender.without_leader == 1
    world.apply(alive)
    assert world.sender.without_leader == 0
    world.answer(THERE)
    assert world.written == [("t5", {("orders", 1)})]


def test_the_leaders_of_many_partitions_are_looked_up_in_pieces() -> None:
    world = World()
    world.image = image_of({"wide": [HERE, THERE] * ROUTED_AT_ONCE})
    wide = ending(5, *range(2 * ROUTED_AT_ONCE), topic="wide")
    world.sender.begin(9, 17, wide)
    assert sum(len(r.markers[0].topics[0].partition_indexes) for _, r, *_ in world.asked) == (
        ROUTED_AT_ONCE
    )
    for _ in range(10):
        for node_id in [asked[0] for asked in world.asked]:
            world.answer(node_id)
        world.timers.advance(1)
    assert frozenset().union(*(done for _, done in world.written)) == wide.partitions


def looked_up(world: World) -> list[int]:
    """How many partitions' leaders are looked up, so far; takes down what comes."""
    counts = [0]
    leader_of = world.sender._leader_of

    def counting(partition: TopicPartition) -> int | None:
        counts[0] += 1
        return leader_of(partition)

    world.sender._leader_of = counting  # type: ignore[method-assign]
    return counts


def pass_turns(world: World, turns: int, counts: list[int]) -> None:
    """Answer everything; in no turn are more leaders looked up than one has room for."""
    for _ in range(turns):
        before = counts[0]
        world.timers.advance(1)
        assert counts[0] - before <= ROUTED_AT_ONCE
        for node_id in [asked[0] for asked in world.asked]:
            world.answer(node_id)


def test_many_decided_ends_of_a_coordinator_that_is_loaded_take_turns() -> None:
    """And one of them that has no partitions has its turn, too."""
    world = World()
    counts = looked_up(world)
    ends = [ending(number, 0, 1, 3) for number in range(ROUTED_AT_ONCE)]
    ends[700] = ending(700)
    world.sender.begin(9, 17, *ends)
    assert counts[0] == ROUTED_AT_ONCE and world.sender.waiting == ROUTED_AT_ONCE
    pass_turns(world, 30, counts)
    assert world.sender.waiting == 0 and "t700" in {name for name, _ in world.written}


def test_what_waits_for_its_turn_is_forgotten_with_its_coordinator() -> None:
    world = World()
    counts = looked_up(world)
    world.sender.begin(8, 17, ending(1, 1))
    world.sender.begin(9, 17, *(ending(number, 0, 1, 3) for number in range(2, ROUTED_AT_ONCE)))
    world.sender.forget(9)
    seen = counts[0]
    pass_turns(world, 30, counts)
    assert {name for name, _ in world.written} == {"t1"} and counts[0] == seen


def test_what_a_change_of_the_metadata_wakes_takes_turns() -> None:
    world = World()
    alive = world.image
    gone = replace(alive.brokers[THERE], fenced=True)
    world.image = replace(alive, brokers=alive.brokers.set(THERE, gone))
    for number in range(ROUTED_AT_ONCE):
        world.sender.begin(9, 17, ending(number, 1, 2))
    assert world.sender.without_leader == ROUTED_AT_ONCE and not world.asked
    counts = looked_up(world)
    world.apply(alive)
    assert counts[0] == ROUTED_AT_ONCE
    pass_turns(world, 30, counts)
    assert world.sender.waiting == 0


def test_a_coordinator_in_trouble_does_not_keep_others_from_their_turn() -> None:
    world = World()
    world.image = image_of({})  # no topics: everything is done as soon as it is looked up
    told = world.sender.on_written

    def fails_once(sent: Transaction, partitions: frozenset[TopicPartition]) -> None:
        world.sender.on_written = told
        raise RuntimeError("no coordinator")

    world.sender.on_written = fails_once
    with pytest.raises(RuntimeError):
        world.sender.begin(9, 17, ending(1, 1), ending(2, 1))
    world.timers.advance(1)
    world.sender.begin(9, 17, ending(3, 1))
    assert [name for name, _ in world.written] == ["t2", "t3"]
