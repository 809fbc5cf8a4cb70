"""A process's registration: what it collects, waits for and logs; the rules are the machine's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker.cluster.broker_lifecycle import LifecycleHandle, RegistrationError
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.endpoints import Endpoint
from fencepost.broker.storage.storage import Storage
from fencepost.machines.broker import ControllerRequest
from fencepost.machines.image import ClusterImage, TopicImage
from fencepost.machines.image.persistent import PersistentMap
from fencepost.runtime.halted import HaltCause
from fencepost.runtime.producer_ids import block_source
from fencepost.runtime.registrations import LIFECYCLE_KEY, Registrations
from fencepost.wire.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from fencepost.wire.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from fencepost.wire.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

from ...runtime.metadata.metadata_world import WorldPorts
from ...timers import ManualTimers

DIRECTORY = Uuid(b"directory-mine-1")
INTERVAL_MS = 2_000
IMAGE = ClusterImage(offset=100, features={"metadata.version": 30})


class Ports(WorldPorts):
    """Ports that hand what machines ask of the controller to `Registrations`."""

    submit: Callable[[Hashable, ControllerRequest], None]

    def send(self, key: Hashable, to: Any, message: Any) -> None:
        self.submit(key, message)


class World:
    """Storage and channel of one broker. `answer` makes the response to a request."""

    cluster_id = "c"

    def __init__(self) -> None:
        self.timers = ManualTimers()
        self.ports = Ports(self.timers)
        self.asked: list[Any] = []
        self.answer: Callable[[Message], Any] = self.usual
        self.registrations = Registrations(self.ports, self)
        self.ports.submit = self.registrations.submit
        config = BrokerConfig.load(None, {"broker.heartbeat.interval.ms": str(INTERVAL_MS)})
        self.lifecycle = LifecycleHandle(
            config,
            self,  # type: ignore[arg-type]
            self.ports.driver,
            self.registrations,
        )
        self.registrations.image_applied(IMAGE)

    # -- Storage
    def online_ids(self) -> list[Uuid]:
        return [DIRECTORY]

    def offline_ids(self) -> list[Uuid]:
        return []

    def previous_broker_epoch(self) -> int:
        return 33

    # -- ControllerChannel
    def ask(self, request: Message, on_reply: Any, **options: Any) -> None:
        self.asked.append(request)
        response = self.answer(request)
        if isinstance(response, ErrorCode):
            on_reply(response, None)
        elif response is not None:
            on_reply(ErrorCode.NONE, response)

    # -- the test
    def usual(self, request: Message) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(broker_epoch=50)
        if isinstance(request, AssignReplicasToDirsRequest):
            return None
        assert isinstance(request, BrokerHeartbeatRequest)
        return BrokerHeartbeatResponse(
            is_caught_up=True,
            is_fenced=request.want_fence,
            should_shut_down=request.want_shut_down,
        )

    def of(self, kind: type[Message]) -> list[Any]:
        return [one for one in self.asked if isinstance(one, kind)]

    async def start(self) -> None:
        await self.lifecycle.register([Endpoint("PLAINTEXT", "h", 9092)])
        await self.lifecycle.become_unfenced()

    def run_unfenced(self) -> None:
        asyncio.run(self.start())


@pytest.fixture
def world() -> World:
    return World()


def test_it_registers_with_what_the_process_has_and_is_unfenced(world: World) -> None:
    world.run_unfenced()
    (registered,) = world.of(BrokerRegistrationRequest)
    assert (registered.broker_id, registered.log_dirs) == (1, [DIRECTORY])
    assert (registered.cluster_id, registered.previous_broker_epoch) == ("c", 33)
    assert [(one.name, one.host, one.port) for one in registered.listeners] == [
        ("PLAINTEXT", "h", 9092)
    ]
    assert {f.name for f in registered.features} >= {"metadata.version", "kraft.version"}
    caught_up, unfenced = world.of(BrokerHeartbeatRequest)
    assert (caught_up.current_metadata_offset, caught_up.want_fence) == (100, True)
    assert unfenced.want_fence is False
    assert world.lifecycle.broker_epoch == 50


def test_what_never_succeeds_is_raised_with_its_error(world: World) -> None:
    world.answer = lambda request: BrokerRegistrationResponse(
        error_code=ErrorCode.INCONSISTENT_CLUSTER_ID
    )
    with pytest.raises(RegistrationError, match="refused: INCONSISTENT_CLUSTER_ID") as raised:
        world.run_unfenced()
    assert raised.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_without_a_controller_the_start_ends(world: World) -> None:
    world.answer = lambda request: ErrorCode.REQUEST_TIMED_OUT

    async def start() -> None:
        starting = asyncio.ensure_future(world.start())
        await asyncio.sleep(0)
        world.timers.advance(60_000)
        await starting

    with pytest.raises(RegistrationError, match="no answer of a controller: REQUEST_TIMED_OUT"):
        asyncio.run(start())


def test_a_start_that_is_called_off_leaves_nothing_waiting(world: World) -> None:
    world.answer = lambda request: None

    async def start() -> None:
        starting = asyncio.ensure_future(world.start())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await world.lifecycle.shut_down()

    asyncio.run(start())


def test_failing_heartbeats_are_said_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.run_unfenced()
    world.answer = lambda request: ErrorCode.REQUEST_TIMED_OUT
    world.timers.advance(5 * INTERVAL_MS)
    assert len(world.of(BrokerHeartbeatRequest)) > 5
    assert caplog.text.count("REQUEST_TIMED_OUT") == 1
    world.answer = world.usual
    world.timers.advance(2 * INTERVAL_MS)
    world.answer = lambda request: ErrorCode.REQUEST_TIMED_OUT
    world.timers.advance(INTERVAL_MS)
    assert caplog.text.count("REQUEST_TIMED_OUT") == 2, "it is a new failure"


def test_it_is_said_when_the_broker_is_fenced_and_unfenced(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        world.run_unfenced()
        assert "registered with broker epoch 50" in caplog.text
        assert caplog.text.count("has unfenced this broker") == 1
        answers = iter([BrokerHeartbeatResponse(is_fenced=True)])
        world.answer = lambda request: next(answers, None) or world.usual(request)
        world.timers.advance(INTERVAL_MS + 50)
    assert caplog.text.count("has fenced this broker") == 1
    assert caplog.text.count("has unfenced this broker") == 2


def test_replicas_are_told_of_once_the_broker_has_an_epoch(world: World) -> None:
    world.lifecycle.replicas_placed([(Uuid(b"topic-of-it-all!"), 0, DIRECTORY)])
    assert not world.of(AssignReplicasToDirsRequest)
    world.run_unfenced()
    (told,) = world.of(AssignReplicasToDirsRequest)
    assert (told.broker_epoch, told.directories[0].id) == (50, DIRECTORY)


def test_a_failed_directory_is_reported_at_once(world: World) -> None:
    world.run_unfenced()
    world.lifecycle.log_dir_failed(None)
    sent = len(world.asked)
    world.lifecycle.log_dir_failed(DIRECTORY)
    (beat,) = world.asked[sent:]
    assert beat.offline_log_dirs == [DIRECTORY]


def test_another_controller_is_told_to_the_machines_once(world: World) -> None:
    world.run_unfenced()
    world.answer = lambda request: ErrorCode.NOT_CONTROLLER
    world.timers.advance(INTERVAL_MS)
    sent = len(world.asked)
    for _ in range(3):
        world.registrations.note_leader(7)
    assert len(world.asked) == sent + 1


def test_after_the_shutdown_nothing_is_asked(world: World) -> None:
    world.run_unfenced()
    asyncio.run(world.lifecycle.shut_down())
    assert world.asked[-1].want_shut_down is True
    world.registrations.close()
    sent = len(world.asked)
    world.registrations.image_applied(IMAGE)
    world.timers.advance(10 * INTERVAL_MS)
    assert len(world.asked) == sent
    assert world.ports.driver.machine(LIFECYCLE_KEY) is None


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [([7], 7), ([7, 7], 7), ([7, 8], -1), ([7, None], -1), ([7, -1], -1), ([None], -1)],
)
def test_the_previous_broker_epoch_is_what_all_directories_agree_on(
    epochs: list[int | None], expected: int
) -> None:
    """None: a directory that is offline, -1: one that was not closed cleanly."""
    logs = [None if one is None else SimpleNamespace(previous_broker_epoch=one) for one in epochs]
    storage = SimpleNamespace(data_dirs=[SimpleNamespace(log_dir=one) for one in logs])
    assert Storage.previous_broker_epoch(storage) == expected  # type: ignore[arg-type]


def test_a_block_of_producer_ids_is_asked_for_with_the_broker_epoch(world: World) -> None:
    blocks: list[Any] = []
    fetch_block = block_source(world, 1, lambda: 50)  # type: ignore[arg-type]
    world.answer = lambda request: AllocateProducerIdsResponse(
        producer_id_start=3_000, producer_id_len=1_000
    )
    fetch_block(lambda *block: blocks.append(block))
    world.answer = lambda request: ErrorCode.REQUEST_TIMED_OUT
    fetch_block(lambda *block: blocks.append(block))
    asked = world.of(AllocateProducerIdsRequest)
    assert [(one.broker_id, one.broker_epoch) for one in asked] == [(1, 50)] * 2
    assert blocks == [(ErrorCode.NONE, 3_000, 1_000), (ErrorCode.REQUEST_TIMED_OUT, -1, 0)]


def test_replicas_whose_directory_the_controller_does_not_note_are_halted(world: World) -> None:
    topic = TopicImage("t", Uuid(b"t" * 16), ())
    image = ClusterImage(topics_by_id=PersistentMap({topic.topic_id: topic}))
    world.run_unfenced()
    world.answer = lambda request: ErrorCode.UNKNOWN_SERVER_ERROR
    gone = Uuid(b"g" * 16)
    world.lifecycle.replicas_placed([(topic.topic_id, 3, DIRECTORY), (gone, 0, DIRECTORY)])
    (halted,) = world.lifecycle.halted(image)
    assert (halted.name, halted.cause) == ("t-3", HaltCause.DIRECTORY_UNASSIGNED)
    assert "UNKNOWN_SERVER_ERROR" in halted.why
