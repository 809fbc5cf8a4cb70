"""Sessions look at what has moved, and at next to nothing besides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.machines.effects import Persisted
from fencepost.machines.fetch import Asker, FetchTerms
from fencepost.machines.fetch.answering import CONSUMER
from fencepost.machines.partition import BecomeLeader, BrokersChanged, StopReplica
from fencepost.runtime.requests.fetch_answer import PARTITIONS_PER_PIECE
from fencepost.wire.api.fetch import FetchResponse
from fencepost.wire.errors import ErrorCode

from .harness import broker, handled, register, to_its_end, topic
from .partitions import PartitionNode
from .test_follower_fetch import EPOCH, FOLLOWER, fetch, response_of

register("fetch")

COUNT = 3


class Round:
    """A node with partitions, and a follower or consumer with a session over all of them."""

    def __init__(self, directory: Path, *, count: int = COUNT, replica_id: int = FOLLOWER) -> None:
        node = PartitionNode(BrokerConfig.load(None, {}), directory=directory)
        self.node = node.learn(broker(1), broker(2))
        self.replica_id = replica_id
        node.learn(*topic("t", *[{"replicas": [1, 2]} for _ in range(count)]))
        self.hosted = [node.host("t", i, replicas=(1, 2)) for i in range(count)]
        self.offsets = [0] * count
        self.epochs = [0] * count
        self.looks = 0
        for one in self.hosted:
            self._count(one.machine)
        self.session_id = self.take(self.send((0, 0), tuple(range(count)))).session_id
        self.session_epoch = 0

    def _count(self, machine: Any) -> None:
        check = machine.check_fetch

        def counted(**asked: Any) -> Any:
            self.looks += 1
            return check(**asked)

        machine.check_fetch = counted

    def send(self, session: tuple[int, int], indexes: tuple[int, ...], **asked: Any) -> Any:
        asked = {"replica_id": self.replica_id, "offsets": self.offsets, **asked}
        asked = {"epochs": self.epochs, **asked}
        return fetch(self.node, 0, session=session, indexes=indexes, **asked)

    def begin(self, *indexes: int, **asked: Any) -> Any:
        """The next request of the session, which names some partitions."""
        self.session_epoch += 1
        return self.send((self.session_id, self.session_epoch), indexes, **asked)

    def take(self, context: Any) -> FetchResponse:
        """The answer; what was fetched is named in the next request."""
        return response_of(context)

    def ask(self, *indexes: int, **asked: Any) -> dict[int, Any]:
        return parts_of(self.take(self.begin(*indexes, **asked)))

    def rest(self) -> None:
        """Go on until everything is quiet."""
        self.ask()
        self.ask()
        assert len(self.node.fetches._quiet) == len(self.hosted)


def parts_of(response: FetchResponse) -> dict[int, Any]:
    assert response.error_code == 0
    return {part.partition_index: part for one in response.responses for part in one.partitions}


@pytest.fixture
def idle(tmp_path: Path) -> Round:
    one = Round(tmp_path)
    one.rest()
    return one


def test_an_idle_round_looks_at_next_to_nothing(idle: Round) -> None:
    idle.looks = 0
    for _ in range(10):
        assert idle.ask() == {}
    assert idle.looks == 2 * 10, "one partition a round, on arrival and for the answer"


@pytest.fixture
def consuming(tmp_path: Path) -> Round:
    one = Round(tmp_path, replica_id=CONSUMER)
    one.rest()
    return one


def test_a_consumer_that_has_everything_costs_as_little(consuming: Round) -> None:
    consuming.looks = 0
    for _ in range(10):
        assert consuming.ask() == {}
    assert consuming.looks == 2 * 10, "one partition a round, on arrival and for the answer"


def test_a_consumer_does_not_look_again_at_what_it_waited_for_in_vain(tmp_path: Path) -> None:
    one = Round(tmp_path, replica_id=CONSUMER)
    one.looks = 0
    waiting = one.begin(max_wait_ms=500)
    assert (one.looks, len(one.node.fetches._quiet)) == (COUNT, COUNT), "it knows what there is"
    one.node.timers.advance(500)
    assert parts_of(one.take(waiting)) == {}
    assert one.looks == COUNT


def test_the_end_of_the_log_alone_is_nothing_to_consumers(consuming: Round) -> None:
    consuming.node.produce(consuming.hosted[1], [1])  # which the follower has not yet
    assert len(consuming.node.fetches._quiet) == COUNT
    consuming.node.lead(consuming.hosted[1], 1, (1,))
    consuming.epochs[1] = 1
    assert len(consuming.ask(1)[1].records) > 0


def test_who_is_sent_on_to_other_replicas_is_never_quiet(tmp_path: Path) -> None:
    """Where it is sent depends on more than the partition."""
    one = Round(tmp_path, replica_id=CONSUMER)
    (session,) = one.node.fetches.sessions._sessions.values()
    asked = FetchTerms(1, 1)
    sent_on = replace(asked, choose_replica=lambda *_: -1)
    for key, hosted in zip(list(session.stirring), one.hosted, strict=True):
        assert not one.node.fetches.settle(session, hosted, key, Asker.of(sent_on))
    assert len(one.node.fetches._quiet) == 0
    assert one.node.fetches.settle(session, hosted, key, Asker.of(asked))


def test_nothing_is_quiet_in_a_session_that_has_ended(tmp_path: Path) -> None:
    """A fetch of it may have waited, and is answered afterwards; nobody would forget that."""
    one = Round(tmp_path, replica_id=CONSUMER)
    one.offsets[0] = 0
    one.node.produce(one.hosted[0], [1])
    (session,) = one.node.fetches.sessions._sessions.values()
    waiting = one.begin(max_wait_ms=500)
    one.take(one.send((one.session_id, -1), (0,)))
    one.node.fetches.sessions.on_removed(session)
    one.node.timers.advance(500)
    assert waiting.answered
    assert response_of(waiting).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(one.node.fetches._quiet) == 0


def test_a_quiet_partition_wakes_the_fetch_that_waits(idle: Round) -> None:
    idle.node.timers.advance(1_000)
    waiting = idle.begin(max_wait_ms=500)
    assert not waiting.answered
    for index in range(COUNT):
        idle.node.produce(idle.hosted[index], [1])
        if waiting.answered:
            break
    parts = parts_of(idle.take(waiting))
    assert list(parts) == [0] and len(parts[0].records) > 0
    state = idle.hosted[2].machine.follower_state(FOLLOWER)
    idle.node.produce(idle.hosted[2], [1])
    assert state is not None
    assert state.last_caught_up_ms == 1_000, "it was there with the last request"


def test_a_wait_for_quiet_partitions_alone_has_its_deadline(idle: Round) -> None:
    waiting = idle.begin(max_wait_ms=500)
    idle.node.timers.advance(499)
    assert not waiting.answered
    idle.node.timers.advance(1)
    assert parts_of(idle.take(waiting)) == {}


def test_what_moved_between_two_requests_is_in_the_next_answer(idle: Round) -> None:
    idle.node.produce(idle.hosted[1], [1, 2])
    assert len(idle.ask()[1].records) > 0
    idle.offsets[1] = 2
    assert idle.ask(1)[1].high_watermark == 2
    idle.ask()
    assert idle.ask() == {}


def test_the_high_watermark_alone_stirs(idle: Round) -> None:
    idle.node.produce(idle.hosted[1], [1])
    idle.ask()
    idle.offsets[1] = 1
    idle.hosted[1].machine.durable_offset = 0  # the leader's disk is slow
    assert idle.ask(1) == {}
    assert len(idle.node.fetches._quiet) == COUNT
    idle.node.driver.feed(idle.hosted[1].key, Persisted(1))
    part = idle.ask()[1]
    assert (part.high_watermark, len(part.records)) == (1, 0)


@pytest.mark.parametrize(("epoch", "error"), [(0, 74), (1, 0)])
def test_a_new_leader_epoch_stirs(idle: Round, epoch: int, error: int) -> None:
    idle.node.lead(idle.hosted[0], 1, (1, 2))
    assert idle.ask()[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    idle.epochs[0] = epoch
    assert {index: part.error_code for index, part in idle.ask(0).items()} == (
        {0: error} if error else {0: 0}
    )


def test_a_partition_that_is_gone_answers_who_waits(idle: Round) -> None:
    waiting = idle.begin(max_wait_ms=500)
    idle.node.driver.feed(idle.hosted[2].key, StopReplica(is_deleted=True))
    idle.node.fetches.gone(idle.hosted[2])
    assert parts_of(idle.take(waiting))[2].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_former_incarnation_is_found_out(idle: Round) -> None:
    for one in idle.hosted:
        idle.node.driver.feed(one.key, BrokersChanged({1: 10, FOLLOWER: EPOCH + 1}))
    idle.node.fetches.look_again()
    errors = {index: part.error_code for index, part in idle.ask().items()}
    assert errors == dict.fromkeys(range(COUNT), ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_the_next_incarnation_counts_in_its_own_name(idle: Round) -> None:
    idle.ask(broker_epoch=EPOCH + 1)
    for one in idle.hosted:
        state = one.machine.follower_state(FOLLOWER)
        assert state is not None and state.broker_epoch == EPOCH + 1


def test_who_is_not_in_sync_is_never_quiet(idle: Round) -> None:
    """Its next fetch is what asks the controller for it."""
    order = BecomeLeader(0, 5, (1, 2), (1,), {1: 10})
    idle.node.driver.feed(idle.hosted[0].key, order)
    idle.node.fetches.moved(idle.hosted[0])  # as `ReplicaManager` does
    for _ in range(3):
        idle.ask()
    assert idle.node.ports.sent == []
    idle.node.driver.feed(idle.hosted[0].key, BrokersChanged({1: 10, FOLLOWER: EPOCH}))
    idle.ask()
    assert [one.new_isr for one in idle.node.ports.sent] == [((1, 10), (FOLLOWER, EPOCH))]


def test_nothing_is_left_of_a_session_that_is_closed(idle: Round) -> None:
    idle.take(idle.send((idle.session_id, -1), (0,)))
    assert len(idle.node.fetches._quiet) == 0


def test_who_left_is_not_referred_to(idle: Round) -> None:
    waiting = idle.begin(max_wait_ms=500)
    (session,) = idle.node.fetches.sessions._sessions.values()
    assert session.waiting is not None
    waiting.abandoned()
    assert session.waiting is None
    assert len(idle.node.fetches) == 0


@pytest.mark.parametrize("ends", ["expires", "moves", "goes"])
def test_who_was_answered_is_not_referred_to(consuming: Round, ends: str) -> None:
    node, hosted = consuming.node, consuming.hosted[1]
    waiting = consuming.begin(max_wait_ms=500)
    (session,) = node.fetches.sessions._sessions.values()
    assert session.waiting is not None
    if ends == "expires":
        node.timers.advance(500)
    elif ends == "moves":
        node.lead(hosted, 1, (1,))
        node.produce(hosted, [1])
    else:
        node.fetches.gone(hosted)
    assert waiting.answered and session.waiting is None


@pytest.mark.parametrize(
    ("asker", "offset"),
    [(Asker(FOLLOWER, EPOCH + 1), 0), (Asker(3, EPOCH), 0), (Asker(FOLLOWER, EPOCH), 1)],
)
def test_nothing_is_quiet_for_whom_the_leader_does_not_know_to_have_all(
    idle: Round, asker: Asker, offset: int
) -> None:
    idle.node.fetches.look_again()
    (session,) = idle.node.fetches.sessions._sessions.values()
    hosted = idle.hosted[0]
    if offset:
        idle.node.produce(hosted, [1])
    (key, *_) = session.stirring
    idle.node.fetches.settle(session, hosted, key, asker)
    assert len(idle.node.fetches._quiet) == 0


def test_what_moves_while_others_are_looked_at_is_not_missed(tmp_path: Path) -> None:
    """Of many partitions some are looked at in another turn, and a quiet one may move between."""
    many = 2 * PARTITIONS_PER_PIECE
    one = Round(tmp_path, count=many)
    one.rest()
    for index in range(many - 2):  # all but two stir, and one of these with the request
        one.node.fetches.moved(one.hosted[index])
    context, pieces = one.begin(max_wait_ms=500, start=handled)
    next(pieces)
    one.node.produce(one.hosted[-1], [1])
    to_its_end(pieces)
    assert len(parts_of(one.take(context))[many - 1].records) > 0


def test_what_a_fetch_sets_off_in_another_of_its_partitions_is_not_missed(idle: Round) -> None:
    """A follower's progress decides a transaction, whose marker is written at once elsewhere."""
    idle.node.produce(idle.hosted[0], [1])
    assert len(idle.ask(0)[0].records) > 0
    idle.offsets[0] = 1
    begun: list[Any] = []
    watch = idle.node.ports.on_stepped

    def on_stepped(key: Any) -> None:
        watch(key)
        if idle.hosted[0].machine.high_watermark == 1 and not begun:
            begun.append(key)
            idle.node.begin_produce(idle.hosted[1], [1])

    idle.node.ports.on_stepped = on_stepped
    heard = idle.ask(0, max_wait_ms=500)
    assert begun
    assert len(heard[1].records) > 0
