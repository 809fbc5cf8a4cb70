"""Producer ids out of the controller's blocks: each once, and every request is answered."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.runtime.producer_ids import MAX_WAITING, ProducerIds, block_source
from fencepost.wire.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from fencepost.wire.errors import ErrorCode

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR


class World:
    """Ids for broker 7, and a controller that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[AllocateProducerIdsRequest, Any]] = []
        self.told: list[tuple[ErrorCode, int]] = []
        self.ids = ProducerIds(block_source(self, 7, lambda: 40))

    def ask(self, request: Any, on_reply: Any) -> None:
        """The way to the controller."""
        self.asked.append((request, on_reply))

    def want(self, count: int = 1) -> None:
        for _ in range(count):
            self.ids.next_id(lambda error, id_: self.told.append((error, id_)))

    def answer(self, first: int = 0, count: int = 0, *, code: int = 0) -> None:
        reply = AllocateProducerIdsResponse(
            error_code=code, producer_id_start=first, producer_id_len=count
        )
        self.asked.pop(0)[1](NONE, reply)


def test_callers_wait_for_one_block_and_use_it_up() -> None:
    world = World()
    world.want(3)
    [(request, _)] = world.asked
    assert (request.broker_id, request.broker_epoch) == (7, 40) and not world.told
    world.answer(100, 2)
    assert world.told == [(NONE, 100), (NONE, 101)] and len(world.asked) == 1
    world.answer(200, 2)
    world.want()
    assert world.told[2:] == [(NONE, 200), (NONE, 201)] and not world.asked


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"code": int(ErrorCode.STALE_BROKER_EPOCH)}, ErrorCode.STALE_BROKER_EPOCH),
        ({"code": 999}, UNKNOWN),
        ({"first": 5, "count": 0}, UNKNOWN),
        ({"first": 5, "count": -3}, UNKNOWN),
    ],
)
def test_what_the_controller_refuses_or_muddles_is_told_and_asked_again(
    answer: dict[str, int], told: ErrorCode
) -> None:
    world = World()
    world.want(2)
    world.answer(**answer)
    assert world.told == [(told, -1)] * 2
    world.want()
    world.answer(300, 1)
    assert world.told[2:] == [(NONE, 300)]


def test_who_waits_is_told_that_there_is_no_controller() -> None:
    world = World()
    world.want(2)
    world.asked.pop()[1](ErrorCode.REQUEST_TIMED_OUT, None)
    assert world.told == [(ErrorCode.REQUEST_TIMED_OUT, -1)] * 2


def test_only_so_many_wait() -> None:
    world = World()
    world.want(MAX_WAITING + 1)
    assert world.told == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)]
    world.answer(0, MAX_WAITING)
    assert len({id_ for _, id_ in world.told[1:]}) == MAX_WAITING
