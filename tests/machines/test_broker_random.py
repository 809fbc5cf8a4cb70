"""Brokers and the real controller's decisions under random schedules: lost, late, doubled messages.

A broker that lives is unfenced in the end, the controller never hears a heartbeat of an epoch that
the broker knows to be over, and every shutdown ends.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fencepost.machines.broker import (
    BeginControlledShutdown,
    BrokerLifecycle,
    BrokerState,
    ControllerAnswered,
    ControllerChanged,
    ControllerRequest,
    LogDirFailed,
    MetadataApplied,
    ReadyToUnfence,
    Registration,
    Start,
)
from fencepost.machines.effects import Reply, Send, SetTimer, TimerFired
from fencepost.machines.image import ClusterImage, FeatureRange, ListenerImage, apply_records
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.broker_registration import BrokerRegistrationRequest
from fencepost.wire.errors import ErrorCode

from .controller_fixtures import CLUSTER_ID, SESSION_MS, Bench, uuid

BROKERS = (1, 2, 3)


class Process:
    """One start of a broker: its machine, timers, and its own copy of the metadata."""

    def __init__(self, world: World, broker_id: int, number: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.machine = BrokerLifecycle()
        self.timers: dict[str, int] = {}
        self.read = 0
        self.image = ClusterImage()
        self.may_stop = False
        self.has_failed = False
        self.log_dirs = (uuid(500 + 2 * broker_id), uuid(501 + 2 * broker_id))
        registration = Registration(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=uuid(100_000 + number),
            listeners=(ListenerImage("PLAINTEXT", f"host{broker_id}", 9092, 0),),
            features=(FeatureRange("metadata.version", 7, 33),),
            log_dirs=self.log_dirs,
        )
        self.step(Start(registration, "start"))

    def step(self, input_: Any) -> None:
        for effect in self.machine.step(input_, self.world.now_ms, 0):
            if isinstance(effect, Send):
                self.world.send(self, effect.message)
            elif isinstance(effect, SetTimer):
                self.timers.pop(effect.name, None)
                if effect.deadline_ms is not None:
                    self.timers[effect.name] = effect.deadline_ms
            elif isinstance(effect, Reply):
                self.replied(effect.token, effect.value.error)
            else:
                self.has_failed = True

    def replied(self, token: str, error: int) -> None:
        if token == "stop":
            self.may_stop = True
        elif error != ErrorCode.NONE:
            self.has_failed = True
        elif token == "start":
            assert self.image.offset >= self.machine.broker_epoch, "it has read its registration"
            self.world.later(self.world.random.choice((0, 10, 3_000)), self.load_logs)

    def load_logs(self) -> None:
        if self.world.processes.get(self.broker_id) is self and (
            self.machine.state is BrokerState.RECOVERY
        ):
            self.step(ReadyToUnfence("ready"))

    def read_on(self, count: int) -> None:
        """Apply some more records of the metadata log."""
        records = self.world.bench.log[self.read : self.read + count]
        if records:
            self.read += len(records)
            self.image = apply_records(self.image, records, self.read - 1)
            self.step(MetadataApplied(self.image))


class World:
    """Brokers, a controller and a network that is bad until it is calm."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bench = Bench()
        self.now_ms = 0
        self.is_calm = False
        self.restarts = True
        self.processes: dict[int, Process] = {}
        self.events: list[tuple[int, int, Any]] = []
        self.numbers = 0
        self.controller_id = 90
        self.epochs_over: set[tuple[int, int]] = set()
        """(broker id, epoch) that the broker itself has replaced by a newer one."""

    def later(self, delay_ms: int, act: Any) -> None:
        self.numbers += 1
        self.events.append((self.now_ms + delay_ms, self.numbers, act))

    def delay_ms(self) -> int:
        return self.random.choice((0, 1, 5)) if self.is_calm else self.random.choice((0, 9, 4_000))

    def send(self, process: Process, asked: ControllerRequest) -> None:
        machine, request = process.machine, asked.request
        if isinstance(request, BrokerHeartbeatRequest) and machine.is_registered:
            assert request.broker_epoch == machine.broker_epoch, "never a stale epoch"
        copies = 1 if self.is_calm else self.random.choice((0, 1, 1, 1, 2))
        for _ in range(copies):
            self.later(self.delay_ms(), lambda: self.serve(process, asked))

    def serve(self, process: Process, asked: ControllerRequest) -> None:
        bench, request = self.bench, asked.request
        bench.now_ms = self.now_ms
        if not self.is_calm and self.random.random() < 0.1:
            error = self.random.choice(
                (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, 9_999)
            )
            answer = ControllerAnswered(asked.number, error, None)
        else:
            if isinstance(request, BrokerHeartbeatRequest):
                decided = bench.controller.decide_broker_heartbeat(request, self.now_ms)
            else:
                assert isinstance(request, BrokerRegistrationRequest)
                decided = bench.controller.decide_register_broker(request, self.now_ms)
            answer = ControllerAnswered(asked.number, ErrorCode.NONE, bench.do(decided))
        if self.is_calm or self.random.random() < 0.9:
            self.later(self.delay_ms(), lambda: self.answer(process, answer))

    def answer(self, process: Process, answer: ControllerAnswered) -> None:
        if self.processes.get(process.broker_id) is process:
            process.step(answer)

    def start(self, broker_id: int) -> None:
        self.numbers += 1
        self.processes.pop(broker_id, None)
        self.processes[broker_id] = Process(self, broker_id, self.numbers)

    def trouble(self) -> None:
        """Something that happens to a cluster."""
        broker_id = self.random.choice(BROKERS)
        process = self.processes[broker_id]
        what = self.random.choice(("kill", "stop", "fail over", "unregister", "directory", "topic"))
        if what == "kill":
            self.start(broker_id)
        elif what == "stop":
            process.step(BeginControlledShutdown("stop"))
        elif what == "fail over":
            self.bench.fail_over()
            self.controller_id += 1
            for one in list(self.processes.values()):
                one.step(ControllerChanged(self.controller_id))
        elif what == "unregister":
            if broker_id in self.bench.image.brokers:
                self.bench.do(self.bench.controller.decide_unregister_broker(broker_id))
        elif what == "directory":
            process.step(LogDirFailed(process.log_dirs[0]))
        elif any(one.is_active for one in self.bench.image.brokers.values()):
            self.bench.create(f"t{len(self.bench.image.topics_by_name)}", 2, 1)

    def run(self, for_ms: int) -> None:
        until_ms = self.now_ms + for_ms
        while self.now_ms < until_ms:
            self.now_ms += 10
            self.bench.now_ms = self.now_ms
            self.bench.do(self.bench.controller.decide_session_expiry(self.now_ms))
            due = sorted(one for one in self.events if one[0] <= self.now_ms)
            self.events = [one for one in self.events if one[0] > self.now_ms]
            for _, _, act in due:
                act()
            for process in list(self.processes.values()):
                if self.is_calm or self.random.random() < 0.1:
                    process.read_on(50 if self.is_calm else self.random.randrange(4))
                for name, deadline_ms in list(process.timers.items()):
                    if deadline_ms <= self.now_ms and process.timers.get(name) == deadline_ms:
                        del process.timers[name]
                        process.step(TimerFired(name))
                if self.restarts and (process.may_stop or process.has_failed):
                    self.start(process.broker_id)  # a supervisor starts it again
            if not self.is_calm and self.random.random() < 0.005:
                self.trouble()


@pytest.mark.parametrize("seed", range(12))
def test_brokers_come_stay_and_go_whatever_the_network_does(seed: int) -> None:
    world = World(seed)
    for broker_id in BROKERS:
        world.start(broker_id)
    world.run(60_000)
    world.is_calm = True
    world.run(3 * SESSION_MS)
    for broker_id, process in world.processes.items():
        registered = world.bench.image.brokers[broker_id]
        machine = process.machine
        assert machine.state is BrokerState.RUNNING and not machine.is_fenced
        assert registered.is_active and registered.epoch == machine.broker_epoch
    world.restarts = False
    for process in world.processes.values():
        process.step(BeginControlledShutdown("stop"))
    world.run(3 * SESSION_MS)
    assert all(process.may_stop for process in world.processes.values())
    assert not any(broker.is_active for broker in world.bench.image.brokers.values())
