"""A broker's life in the cluster, before a controller that answers what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.broker.cluster import registration as module
from fencepost.broker.cluster.registration import Registration, RegistrationError
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.endpoints import Endpoint
from fencepost.machines.image import BrokerImage, ClusterImage, PersistentMap
from fencepost.wire.api.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from fencepost.wire.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

from .metadata_world import WorldTimers

DIRECTORY = Uuid(b"directory-mine-1")
INTERVAL_MS = 2_000
STALE = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
ALIVE = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
FENCED = BrokerHeartbeatResponse(is_fenced=True)
DUPLICATE = BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)


def broker_image(broker_id: int, epoch: int, **changes: Any) -> BrokerImage:
    values: dict[str, Any] = {
        "incarnation_id": Uuid.ZERO,
        "listeners": (),
        "features": (),
        "rack": None,
        "fenced": False,
        "in_controlled_shutdown": False,
        "log_dirs": (DIRECTORY,),
        **changes,
    }
    return BrokerImage(broker_id, epoch, **values)


class World:
    """Storage, channel and image of one broker. `answer` makes the response to a request."""

    cluster_id = "c"
    is_local = False

    def __init__(self) -> None:
        self.timers = WorldTimers()
        self.asked: list[Any] = []
        self.unanswered: list[Callable[[ErrorCode, Any], None]] = []
        self.answer: Callable[[Message], Any] = self.usual
        self.image = ClusterImage(offset=100)
        config = BrokerConfig.load(None, {"broker.heartbeat.interval.ms": str(INTERVAL_MS)})
        self.registration = Registration(
            config,
            self,  # type: ignore[arg-type]
            self.timers,  # type: ignore[arg-type]
            lambda: self.timers.now_ms,
            lambda: self.image,
            self,  # type: ignore[arg-type]
        )

    # -- Storage
    def online_ids(self) -> list[Uuid]:
        return [DIRECTORY]

    def offline_ids(self) -> list[Uuid]:
        return []

    # -- ControllerChannel
    def ask(self, request: Message, on_reply: Any, **options: Any) -> None:
        self.asked.append(request)
        response = self.answer(request)
        if response is None:
            self.unanswered.append(on_reply)
        elif isinstance(response, ErrorCode):
            on_reply(response, None)
        else:
            on_reply(ErrorCode.NONE, response)

    # -- the test
    def usual(self, request: Message) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(broker_epoch=50)
        assert isinstance(request, BrokerHeartbeatRequest)
        return BrokerHeartbeatResponse(
            is_fenced=request.want_fence, should_shut_down=request.want_shut_down
        )

    def brokers(self, *images: BrokerImage) -> None:
        self.image = ClusterImage(
            offset=100,
            brokers=PersistentMap[int, BrokerImage]().update({b.broker_id: b for b in images}),
        )

    def join(self) -> None:
        asyncio.run(self.registration.join([Endpoint("PLAINTEXT", "h", 9092)]))

    @property
    def registrations(self) -> list[Any]:
        return [one for one in self.asked if isinstance(one, BrokerRegistrationRequest)]

    @property
    def beats(self) -> list[Any]:
        return [one for one in self.asked if isinstance(one, BrokerHeartbeatRequest)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(module, "DUPLICATE_RETRY_S", 0.0)
    return World()


def test_it_registers_and_is_unfenced(world: World) -> None:
    world.join()
    (registered,) = world.registrations
    assert (registered.broker_id, registered.log_dirs) == (1, [DIRECTORY])
    assert {f.name for f in registered.features} >= {"metadata.version", "kraft.version"}
    (beat,) = world.beats
    assert (beat.broker_epoch, beat.current_metadata_offset, beat.want_fence) == (50, 100, False)
    assert world.registration.broker_epoch == 50


def test_it_waits_until_it_has_read_its_registration(world: World) -> None:
    seen: list[int] = []

    def read_on(request: Message) -> Any:
        seen.append(world.image.offset)
        return world.usual(request)

    world.image = ClusterImage(offset=10)
    world.answer = read_on

    async def join() -> None:
        joining = asyncio.ensure_future(world.registration.join([]))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not joining.done() and not world.beats
        world.image = ClusterImage(offset=50)
        await joining

    asyncio.run(join())
    assert seen == [10, 50]


def test_a_former_life_on_these_directories_is_fenced_first(world: World) -> None:
    world.brokers(broker_image(1, 33))
    world.join()
    first = world.asked[0]
    assert isinstance(first, BrokerHeartbeatRequest)
    assert (first.broker_epoch, first.want_fence, first.want_shut_down) == (33, True, True)


def test_a_broker_of_this_id_elsewhere_is_left_alone(world: World) -> None:
    world.brokers(broker_image(1, 33, log_dirs=(Uuid(b"directory-theirs"),)))
    refusals = iter([DUPLICATE, DUPLICATE])

    def answer(request: Message) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            return next(refusals, None) or world.usual(request)
        return world.usual(request)

    world.answer = answer
    world.join()
    assert len(world.registrations) == 3, "until the other's session is over"
    assert [beat.broker_epoch for beat in world.beats] == [50]


def test_a_refusal_is_the_end(world: World) -> None:
    world.answer = lambda request: BrokerRegistrationResponse(
        error_code=ErrorCode.INCONSISTENT_CLUSTER_ID
    )
    with pytest.raises(RegistrationError, match="INCONSISTENT_CLUSTER_ID"):
        world.join()
    assert len(world.registrations) == 1


def test_without_a_controller_it_cannot_join(world: World) -> None:
    world.answer = lambda request: ErrorCode.REQUEST_TIMED_OUT
    with pytest.raises(RegistrationError, match="no answer of a controller: REQUEST_TIMED_OUT"):
        world.join()


def test_heartbeats_go_on_whatever_comes_of_them(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.join()
    world.answer = lambda request: ErrorCode.REQUEST_TIMED_OUT
    world.timers.advance(5 * INTERVAL_MS)
    assert len(world.beats) == 6
    assert caplog.text.count("REQUEST_TIMED_OUT") == 1, "it is said once"
    world.answer = world.usual
    world.timers.advance(INTERVAL_MS)
    assert len(world.beats) == 7


def test_one_heartbeat_at_a_time(world: World) -> None:
    world.join()
    world.answer = lambda request: None
    world.timers.advance(3 * INTERVAL_MS)
    assert len(world.beats) == 2, "the second is under way"
    world.answer = world.usual
    world.unanswered.pop()(ErrorCode.NONE, ALIVE)
    assert len(world.beats) == 3, "and the one that was due follows at once"


def test_who_is_forgotten_registers_again_under_the_same_incarnation(world: World) -> None:
    world.join()
    epochs = iter([70])

    def answer(request: Message) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(broker_epoch=next(epochs))
        return ALIVE if request.broker_epoch == 70 else STALE  # type: ignore[attr-defined]

    world.answer = answer
    world.timers.advance(INTERVAL_MS)
    first, second = world.registrations
    assert first.incarnation_id == second.incarnation_id
    assert world.registration.broker_epoch == 70
    assert [beat.broker_epoch for beat in world.beats] == [50, 50, 70]


def test_registering_again_is_tried_with_every_heartbeat(world: World) -> None:
    world.join()
    world.answer = lambda request: (
        DUPLICATE if isinstance(request, BrokerRegistrationRequest) else STALE
    )
    world.timers.advance(3 * INTERVAL_MS)
    assert len(world.registrations) == 4
    world.answer = lambda request: None if isinstance(request, BrokerRegistrationRequest) else STALE
    world.timers.advance(3 * INTERVAL_MS)
    assert len(world.registrations) == 5, "one at a time"


def test_who_is_fenced_says_soon_that_it_is_there(world: World) -> None:
    world.join()
    answers = iter([FENCED, ALIVE])
    world.answer = lambda request: next(answers)
    world.timers.advance(INTERVAL_MS + 100)
    assert len(world.beats) == 3, "without waiting for the next interval"


def test_it_hands_over_before_it_leaves(world: World) -> None:
    world.join()
    world.brokers(broker_image(1, 50), broker_image(2, 60))
    busy = iter([BrokerHeartbeatResponse(), BrokerHeartbeatResponse()])
    world.answer = lambda request: next(busy, BrokerHeartbeatResponse(should_shut_down=True))
    asyncio.run(world.registration.leave())
    last = world.beats[-3:]
    assert [(b.want_shut_down, b.want_fence) for b in last] == [(True, False)] * 3
    world.timers.advance(10 * INTERVAL_MS)
    assert len(world.beats) == 4, "and is silent from then on"


def test_the_only_broker_leaves_at_once(world: World) -> None:
    world.join()
    world.brokers(broker_image(1, 50), broker_image(2, 60, fenced=True))
    asyncio.run(world.registration.leave())
    assert [(b.want_shut_down, b.want_fence) for b in world.beats[1:]] == [(True, True)]


def test_leaving_without_a_controller_is_an_error(world: World) -> None:
    world.join()
    world.answer = lambda request: ErrorCode.REQUEST_TIMED_OUT
    with pytest.raises(RegistrationError):
        asyncio.run(world.registration.leave())


def test_who_never_joined_has_nothing_to_leave(world: World) -> None:
    asyncio.run(world.registration.leave())
    assert world.asked == []


# -- log directories (KIP-858) ---------------------------------------------------------------------


def at_level(world: World, level: int, **broker: Any) -> None:
    world.brokers(broker_image(1, 50, **broker))
    world.image = replace(world.image, features={"metadata.version": level})


def test_before_there_are_directories_nobody_is_told_of_them(world: World) -> None:
    """Then the broker registers with them, and says where its partitions are."""

    def answer(request: Message) -> Any:
        if isinstance(request, AssignReplicasToDirsRequest):
            return AssignReplicasToDirsResponse()
        return world.usual(request)

    world.answer = answer
    at_level(world, 16, log_dirs=())
    world.registration.tell_placed([(Uuid(b"topic-of-it-all!"), 0, DIRECTORY)])
    world.join()
    world.timers.advance(3 * INTERVAL_MS)
    assert len(world.registrations) == 1 and len(world.beats) == 4

    def told() -> list[Any]:
        return [one for one in world.asked if isinstance(one, AssignReplicasToDirsRequest)]

    assert not told()
    at_level(world, 17, log_dirs=())
    world.timers.advance(INTERVAL_MS)
    assert [one.log_dirs for one in world.registrations] == [[DIRECTORY]] * 2
    assert len({one.incarnation_id for one in world.registrations}) == 1
    assert [one.directories[0].id for one in told()] == [DIRECTORY]
    at_level(world, 17)
    world.timers.advance(3 * INTERVAL_MS)
    assert len(world.registrations) == 2 and len(told()) == 1
