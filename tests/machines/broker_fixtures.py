"""Machines of `machines.broker` in the hands of a test: a hand-set clock, effects sorted."""

from __future__ import annotations

from typing import Any

from fencepost.machines.broker import (
    BrokerLifecycle,
    ControllerAnswered,
    ControllerRequest,
    LifecycleConfig,
    MetadataApplied,
    Outcome,
    ReadyToUnfence,
    Registration,
    Start,
)
from fencepost.machines.effects import CONTROLLER, Fail, Reply, Send, SetTimer, TimerFired
from fencepost.machines.image import (
    BrokerImage,
    ClusterImage,
    FeatureRange,
    ListenerImage,
    PersistentMap,
)
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from fencepost.wire.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

DIRECTORY = Uuid(b"directory-mine-1")
OTHER_DIRECTORY = Uuid(b"directory-mine-2")
INCARNATION = Uuid(b"this-incarnation")
EPOCH = 50
CONFIG = LifecycleConfig()
OWN = Registration(
    broker_id=1,
    cluster_id="c",
    incarnation_id=INCARNATION,
    listeners=(ListenerImage("PLAINTEXT", "h", 9092, 0),),
    features=(FeatureRange("metadata.version", 7, 33),),
    rack="r",
    log_dirs=(OTHER_DIRECTORY, DIRECTORY),
    previous_broker_epoch=33,
)
OK = Outcome(ErrorCode.NONE)


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


def image(offset: int, *brokers: BrokerImage, level: int = 33) -> ClusterImage:
    return ClusterImage(
        offset=offset,
        features={"metadata.version": level},
        brokers=PersistentMap[int, BrokerImage]().update({b.broker_id: b for b in brokers}),
    )


class MachineFixture:
    """Steps a machine of `machines.broker` and keeps what comes of it."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.now_ms = 1_000
        self.sent: list[ControllerRequest] = []
        self.replies: list[tuple[Any, Outcome]] = []
        self.failures: list[str] = []
        self.timers: dict[str, int] = {}

    def step(self, input_: Any) -> list[Any]:
        """Step it; the requests that are sent, without their numbers."""
        sent_before = len(self.sent)
        for effect in self.machine.step(input_, self.now_ms, 0):
            if isinstance(effect, Send):
                assert effect.to == CONTROLLER
                self.sent.append(effect.message)
            elif isinstance(effect, Reply):
                self.replies.append((effect.token, effect.value))
            elif isinstance(effect, SetTimer):
                self.timers.pop(effect.name, None)
                if effect.deadline_ms is not None:
                    self.timers[effect.name] = effect.deadline_ms
            else:
                assert isinstance(effect, Fail)
                self.failures.append(effect.reason)
        return [one.request for one in self.sent[sent_before:]]

    def answer(self, response: Any, number: int | None = None) -> list[Any]:
        """The controller answers the last request, or the one of that number, so or by an error."""
        number = self.sent[-1].number if number is None else number
        if isinstance(response, ErrorCode):
            return self.step(ControllerAnswered(number, response, None))
        return self.step(ControllerAnswered(number, ErrorCode.NONE, response))

    def advance(self, by_ms: int) -> list[Any]:
        """Let time pass; what is sent meanwhile."""
        sent: list[Any] = []
        until_ms = self.now_ms + by_ms
        while self.timers and min(self.timers.values()) <= until_ms:
            name = min(self.timers, key=lambda one: self.timers[one])
            self.now_ms = max(self.now_ms, self.timers.pop(name))
            sent += self.step(TimerFired(name))
        self.now_ms = until_ms
        return sent


class LifecycleFixture(MachineFixture):
    """A broker, with shorthand for how far it has come."""

    machine: BrokerLifecycle

    def __init__(self, config: LifecycleConfig = CONFIG) -> None:
        super().__init__(BrokerLifecycle(config))

    def start(self, registration: Registration = OWN) -> BrokerRegistrationRequest:
        (request,) = self.step(Start(registration, "start"))
        assert isinstance(request, BrokerRegistrationRequest)
        return request

    def registered(self) -> BrokerHeartbeatRequest:
        """Registered and not caught up; its first heartbeat."""
        self.start()
        (beat,) = self.answer(BrokerRegistrationResponse(broker_epoch=EPOCH))
        assert isinstance(beat, BrokerHeartbeatRequest)
        return beat

    def recovering(self) -> None:
        """Caught up, and loading its logs."""
        self.step(MetadataApplied(image(EPOCH, broker_image(1, EPOCH, fenced=True))))
        self.registered()
        assert self.answer(alive(is_fenced=True)) == []
        assert self.replies == [("start", OK)]

    def ready(self) -> BrokerHeartbeatRequest:
        """Its logs are loaded; the heartbeat by which it asks to be unfenced."""
        self.recovering()
        (beat,) = self.step(ReadyToUnfence("ready"))
        assert isinstance(beat, BrokerHeartbeatRequest)
        return beat

    def running(self) -> None:
        """Unfenced; nothing is under way."""
        self.ready()
        assert self.answer(alive()) == []
        assert self.replies[1:] == [("ready", OK)]


def alive(**changes: Any) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(**{"is_caught_up": True, "is_fenced": False, **changes})
