"""Random histories of a leader: looking at what stirs says and does what looking at all does.

Two nodes live through the same, each with a follower that asks as ours does, or with a consumer.
One of them looks at all partitions with every request; the other at those that stir, and without
the requests that look at some quiet ones for safety, which would hide what the table in
`machines.fetch.quiet` lacks. They may differ only in the order in which partitions are named.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.machines.effects import Persisted, TimerFired
from fencepost.machines.fetch import quiet
from fencepost.machines.fetch.answering import CONSUMER
from fencepost.machines.partition import (
    AdvanceLogStart,
    BecomeLeader,
    BrokersChanged,
    ConfigChanged,
    StopReplica,
)
from fencepost.machines.partition.in_sync import ISR_TIMER
from fencepost.wire.api.fetch import FetchResponse, ForgottenTopic
from fencepost.wire.errors import ErrorCode

from .harness import broker, register, send, topic, topic_id
from .partitions import PartitionNode
from .test_follower_fetch import EPOCH, FOLLOWER, fetch, response_of

register("fetch")

COUNT = 2
LAG_MS = 30_000


class Known(NamedTuple):
    """What the follower knows of a partition, or what it was refused with."""

    high_watermark: int = -1
    log_start_offset: int = -1
    error_code: int = 0


class World:
    """A leader, its follower or a consumer, and the session between them."""

    def __init__(self, directory: Path, replica_id: int, *, looks_at_all: bool) -> None:
        directory.mkdir()
        self.replica_id = replica_id
        self.isolation_level = 0
        node = PartitionNode(BrokerConfig.load(None, {}), directory=directory)
        self.node = node.learn(broker(1), broker(2))
        node.learn(*topic("t", *[{"replicas": [1, 2]} for _ in range(COUNT)]))
        self.hosted = [node.host("t", i, replicas=(1, 2)) for i in range(COUNT)]
        if looks_at_all:
            node.fetches.settle = lambda *_: False  # type: ignore[method-assign]
        self.incarnation = EPOCH
        self.leader_epochs = [0] * COUNT
        self.partition_epochs = [0] * COUNT
        self.offsets = [0] * COUNT
        self.starts = [0] * COUNT
        self.told_epochs = [0] * COUNT
        self.known = [Known()] * COUNT
        self.followed = set(range(COUNT))
        self.to_name: set[int] = set()
        self.to_forget: set[int] = set()
        self.session = (0, 0)
        self.heard: list[Any] = []

    def close(self) -> None:
        """A process that makes thousands of worlds has only so many file descriptors."""
        for one in self.hosted:
            one.log.close()

    # -- the follower --------------------------------------------------------------------------

    def begin(self, max_wait_ms: int) -> Any:
        """Its next request, of its session or for a new one."""
        is_full = self.session[1] == 0
        named = self.followed if is_full else self.to_name & self.followed
        forgotten = set() if is_full else self.to_forget - self.followed

        def start(node: PartitionNode, request: Any, version: int) -> Any:
            request.isolation_level = self.isolation_level
            for one in request.topics:
                for part in one.partitions:
                    part.log_start_offset = self.starts[part.partition]
            if forgotten:
                request.forgotten_topics_data = [
                    ForgottenTopic(topic_id=topic_id("t"), partitions=sorted(forgotten))
                ]
            return send(node, request, version)

        self.to_name, self.to_forget = set(), set()
        return fetch(
            self.node,
            0,
            replica_id=self.replica_id,
            broker_epoch=self.incarnation,
            max_wait_ms=max_wait_ms,
            session=self.session,
            indexes=tuple(sorted(named)),
            offsets=self.offsets,
            epochs=self.told_epochs,
            start=start,
        )

    def take(self, response: FetchResponse) -> None:
        """What it makes of an answer; what has changed is named in its next request."""
        if response.error_code or not response.session_id:
            self.session = (0, 0)
            return
        self.session = (response.session_id, self.session[1] + 1)
        for one in response.responses:
            for part in one.partitions:
                self.take_part(part)

    def take_part(self, part: Any) -> None:
        index = part.partition_index
        size = len(part.records)
        self.heard.append((index, part.error_code, part.high_watermark, size))
        if part.error_code:
            self.known[index] = Known(error_code=part.error_code)
            if part.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                self.told_epochs[index] = self.leader_epochs[index]
                self.to_name.add(index)
            return
        self.known[index] = Known(part.high_watermark, part.log_start_offset)
        before = self.offsets[index], self.starts[index]
        if size:
            end = self.hosted[index].machine.log_end_offset
            self.offsets[index] = end if self.replica_id >= 0 else part.last_stable_offset
        self.starts[index] = max(self.starts[index], part.log_start_offset)
        if before != (self.offsets[index], self.starts[index]):
            self.to_name.add(index)

    # -- what happens --------------------------------------------------------------------------

    def elapse(self, ms: int) -> None:
        """Let time pass; leaders look for who has fallen behind when they are due.

        Not later: a leader that was late forgives what it has taken down of followers, and of quiet
        ones that is older.
        """
        timers = self.node.timers
        until_ms = timers.now_ms + ms
        while True:
            dues = [
                (due_ms, one.key)
                for one in self.hosted
                if (due_ms := one.machine.in_sync.check_due_ms) is not None
                and one.machine.is_leader
            ]
            due_ms, key = min(dues, default=(until_ms + 1, ""))
            if due_ms > until_ms:
                break
            timers.advance(due_ms - timers.now_ms)
            self.node.driver.feed(key, TimerFired(ISR_TIMER))
        timers.advance(until_ms - timers.now_ms)

    def is_here(self, index: int) -> bool:
        return not self.hosted[index].machine.has_ended

    def lead(self, index: int, isr: tuple[int, ...], *, is_new_epoch: bool) -> None:
        """The controller has written something about the partition; as `ReplicaManager` does."""
        self.leader_epochs[index] += is_new_epoch
        self.partition_epochs[index] += 1
        epochs = self.leader_epochs[index], self.partition_epochs[index]
        eligible = {1: 10, FOLLOWER: self.incarnation}
        self.node.driver.feed(
            self.hosted[index].key, BecomeLeader(*epochs, (1, FOLLOWER), isr, eligible)
        )
        self.node.fetches.moved(self.hosted[index])

    def register(self) -> None:
        for one in self.hosted:
            self.node.driver.feed(one.key, BrokersChanged({1: 10, FOLLOWER: self.incarnation}))
        self.node.fetches.look_again()

    def happen(self, step: str, index: int) -> None:
        hosted, driver = self.hosted[index], self.node.driver
        machine = hosted.machine
        if step in ("later", "much later"):
            self.elapse(LAG_MS // 2 + 1 if step == "later" else LAG_MS + 1)
        elif step == "registered again":
            self.incarnation += 1
            self.register()
            self.session = (0, 0)
        elif step == "asks as another":
            self.incarnation += 1
            if self.replica_id < 0:
                self.isolation_level = 1 - self.isolation_level
        elif step == "brokers":
            self.register()
        elif step == "a new session":
            self.session = (0, 0)
        elif step == "forget":
            self.followed.discard(index)
            self.to_forget.add(index)
        elif step == "follow":
            self.followed.add(index)
            self.to_name.add(index)
        elif not self.is_here(index):
            return
        elif step == "produce":
            self.node.produce(hosted, [1])
        elif step == "produce, not synced":
            durable = machine.durable_offset
            self.node.produce(hosted, [1])
            machine.durable_offset = durable
        elif step == "synced":
            driver.feed(hosted.key, Persisted(machine.log_end_offset))
        elif step == "deleted records":
            driver.feed(hosted.key, AdvanceLogStart(machine.high_watermark))
        elif step == "new epoch":
            self.lead(index, (1, FOLLOWER), is_new_epoch=True)
        elif step == "shrink":
            self.lead(index, (1,), is_new_epoch=False)
        elif step == "grow":
            self.lead(index, (1, FOLLOWER), is_new_epoch=False)
        elif step == "min isr":
            changed = replace(
                machine.config, min_insync_replicas=3 - machine.config.min_insync_replicas
            )
            driver.feed(hosted.key, ConfigChanged(changed))
        elif step == "gone":
            driver.feed(hosted.key, StopReplica(is_deleted=True))
            self.node.fetches.gone(hosted)
            del self.node.replicas.hosted["t", index]

    def live(self, steps: list[tuple[str, int]], *, waits: bool) -> Any:
        """Steps, before or while a fetch waits; everything there is to be seen afterwards."""
        context = self.begin(500) if waits else None
        for step, index in steps:
            self.happen(step, index)
        if context is None:
            context = self.begin(0)
        is_answered_at_once = context.answered
        self.elapse(500)
        self.take(response_of(context))
        heard, self.heard = sorted(self.heard), []
        states = [self.state_of(index) for index in range(COUNT)]
        return is_answered_at_once, heard, list(self.known), states

    def state_of(self, index: int) -> Any:
        machine = self.hosted[index].machine
        state = machine.follower_state(FOLLOWER) if machine.is_leader else None
        if state is None:
            return None
        end, now_ms = machine.log_end_offset, self.node.timers.now_ms
        return (
            end,
            machine.high_watermark,
            machine.log_start_offset,
            machine.isr,
            state.offset,
            state.log_start_offset,
            state.broker_epoch,
            state.is_caught_up(end, now_ms, LAG_MS),
        )


STEPS = [
    "produce",
    "produce",
    "produce, not synced",
    "synced",
    "much later",
    "deleted records",
    "new epoch",
    "shrink",
    "grow",
    "min isr",
    "gone",
    "later",
    "registered again",
    "asks as another",
    "brokers",
    "a new session",
    "forget",
    "follow",
    "idle",
]
HISTORIES = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.sampled_from(STEPS), st.integers(0, COUNT - 1)), min_size=1, max_size=2
        ),
        st.booleans(),
    ),
    min_size=6,
    max_size=20,
)

History = list[tuple[list[tuple[str, int]], bool]]


def compare(history: History, replica_id: int = FOLLOWER) -> None:
    """Have two leaders live through it, all of whose partitions are quiet when it begins."""
    with (
        tempfile.TemporaryDirectory() as directory,
        mock.patch.object(quiet, "LOOKS_MAX", 0),
        contextlib.ExitStack() as stack,
    ):
        thorough = World(Path(directory) / "thorough", replica_id, looks_at_all=True)
        stack.enter_context(contextlib.closing(thorough))
        quick = World(Path(directory) / "quick", replica_id, looks_at_all=False)
        stack.enter_context(contextlib.closing(quick))
        for _ in range(2):
            assert thorough.live([], waits=False) == quick.live([], waits=False)
        assert (len(thorough.node.fetches._quiet), len(quick.node.fetches._quiet)) == (0, COUNT)
        for steps, waits in history:
            seen = [world.live(steps, waits=waits) for world in (thorough, quick)]
            assert seen[0] == seen[1], (steps, waits)
            sent = [sorted(map(repr, world.node.ports.sent)) for world in (thorough, quick)]
            assert sent[0] == sent[1], (steps, waits)


@settings(max_examples=25, deadline=None)
@given(HISTORIES)
def test_looking_at_what_stirs_is_as_good_as_looking_at_everything(history: History) -> None:
    compare(history)


@settings(max_examples=15, deadline=None)
@given(HISTORIES)
def test_for_consumers_too(history: History) -> None:
    compare(history, CONSUMER)


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(HISTORIES, st.sampled_from([FOLLOWER, CONSUMER]))
def test_longer(history: History, replica_id: int) -> None:
    compare(history, replica_id)


LONG_AGO = ([("much later", 0)], False)


@pytest.mark.parametrize(
    "history",
    [
        [LONG_AGO, ([("produce", 0)], False)],
        [LONG_AGO, ([("brokers", 0), ("produce", 0)], False)],
        [LONG_AGO, ([("forget", 0)], False), ([("produce", 0)], False)],
        [LONG_AGO, ([("forget", 0)], False), LONG_AGO, ([("produce", 0)], False)],
    ],
)
def test_a_follower_counts_from_when_it_was_there_last(history: History) -> None:
    compare(history)


@pytest.mark.parametrize("replica_id", [FOLLOWER, CONSUMER])
def test_a_fetch_that_waits_hears_of_what_stirred_meanwhile(replica_id: int) -> None:
    compare([([("brokers", 0), ("shrink", 0), ("produce", 0)], True)], replica_id)


@pytest.mark.parametrize(
    "steps",
    [["shrink", "produce"], ["deleted records"], ["new epoch"], ["gone"], ["asks as another"]],
)
@pytest.mark.parametrize("waits", [False, True])
def test_what_a_consumer_hears_of(steps: list[str], waits: bool) -> None:
    compare([([(step, 1) for step in steps], waits), ([], False)], CONSUMER)
