"""Drawn histories of groups whose members speak either protocol, or change from one to the other.

No step may give a partition to two members that read at the same time, and in the end, when the
members only do what their protocol wants of them, every partition has a reader.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from fencepost.machines.group.consumer.group import ConsumerGroup
from fencepost.machines.image import ClusterImage
from fencepost.wire.errors import ErrorCode

from ..group_world import Entry, compact, replay
from .classic_client import ClassicClient, Partition
from .test_histories import sums_of
from .world import Client, ConsumerWorld, owned_by

NAMES = ("a", "b", "c", "d")
STATIC = ("c", "d")
"""Members with an instance id, which they keep when they change their protocol."""


class Reader:
    """One process, which may speak either protocol."""

    def __init__(self, world: ConsumerWorld, name: str, *, is_cooperative: bool) -> None:
        self.world = world
        self.name = name
        self.instance = name if name in STATIC else None
        self.lives = 0
        self.is_cooperative = is_cooperative
        self.consumer: Client | None = None
        self.classic: ClassicClient | None = None

    @property
    def partitions(self) -> set[Partition]:
        """What it reads."""
        if self.classic is not None:
            return self.classic.owned
        return set() if self.consumer is None else self.consumer.partitions

    @property
    def member_id(self) -> str:
        """As the coordinator knows it; empty if it does not."""
        if self.classic is not None:
            return self.classic.member_id
        return "" if self.consumer is None else self.consumer.name

    def start(self, protocol: str) -> None:
        """It is a new process of this protocol; the old one has ended with `stop`."""
        self.lives += 1
        self.consumer = self.classic = None
        if protocol == "classic":
            self.classic = ClassicClient(
                self.world,
                is_cooperative=self.is_cooperative,
                instance=self.instance,
                session_ms=30_000,
            )
        else:
            self.consumer = Client(self.world, f"{self.name}{self.lives}")

    def stop(self) -> None:
        """The process ends in good order: a static one will be back."""
        if self.classic is not None and self.classic.member_id and self.instance is None:
            self.world.leave(self.classic.member_id)
        elif self.consumer is not None and self.consumer.epoch > 0:
            epoch = -1 if self.instance is None else -2
            self.world.beat(self.consumer.name, epoch, instance=self.instance)
        self.consumer = self.classic = None

    def step(self) -> None:
        """It does the next thing that its protocol wants."""
        if self.classic is not None:
            self.classic.step()
        elif self.consumer is not None:
            self._beat(self.consumer)

    def _beat(self, client: Client) -> None:
        said = {} if self.instance is None else {"instance": self.instance}
        token = self.world.ask_beat(client.name, client.epoch, **client.says(**said))
        answer = self.world.replies.get(token)
        client.says_all = answer is None
        if answer is None:
            return
        error = ErrorCode(answer.error_code)
        if error in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNRELEASED_INSTANCE_ID,
        ):
            client.epoch, client.owned = 0, {}
        elif error is ErrorCode.NONE:
            if client.epoch == 0:
                client.owned = {}
            client.epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = owned_by(answer) or {}
                client.owned = {topic: set(indexes) for topic, indexes in assigned.items()}

    def forget_if_gone(self) -> None:
        """A process whose session is over reads no more: its own clock tells it."""
        group = self.world.coordinator.groups.get("g")
        members: Any = {} if group is None else group.members
        if self.classic is not None and self.classic.member_id not in members:
            self.classic.owned, self.classic.is_in = set(), False
        elif self.consumer is not None and self.consumer.name not in members:
            self.consumer.epoch, self.consumer.owned = 0, {}


class Story:
    def __init__(self, *, is_cooperative: bool) -> None:
        self.world = ConsumerWorld()
        self.readers = [Reader(self.world, name, is_cooperative=is_cooperative) for name in NAMES]
        self._read: tuple[list[Entry], ClusterImage] | None = None
        self._replayed: list[tuple[Any, Any]] = []

    def take(self, what: str, *how: Any) -> None:
        world = self.world
        if what == "step":
            self.readers[how[0]].step()
        elif what == "refused":
            world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
            self.readers[how[0]].step()
            world.refusing = None
        elif what == "start":
            reader = self.readers[how[0]]
            reader.stop()
            reader.start(how[1])
        elif what == "stop":
            self.readers[how[0]].stop()
        elif what == "time":
            world.advance(how[0])
            for reader in self.readers:
                reader.forget_if_gone()
        elif what == "restart":
            world.restart()
            for reader in self.readers:
                if reader.classic is not None:
                    reader.classic.waits_for = None
        self.check()

    def check(self) -> None:
        """One reader for each partition, and the log says what the coordinator knows."""
        seen: dict[Partition, str] = {}
        for reader in self.readers:
            for partition in reader.partitions:
                assert partition not in seen, f"{partition}: {reader.name}, {seen[partition]}"
                seen[partition] = reader.name
        world = self.world
        group = world.coordinator.groups.get("g")
        if isinstance(group, ConsumerGroup):
            for counts in group.holders.values():
                assert set(counts.values()) <= {1}
        for view, sums in self._views_of_the_log():
            assert view == world.coordinator.durable_view()
            if isinstance(group, ConsumerGroup):
                assert sums == sums_of(world.coordinator)

    def _views_of_the_log(self) -> list[tuple[Any, Any]]:
        """What the log and what compaction leaves of it come to: what is durable, and the sums.

        They are replayed when they have changed, which most steps of a settled group do not do.
        """
        world = self.world
        if self._read != (world.log, world.image):
            self._read = (list(world.log), world.image)
            loaded = [
                replay(one, world.config, image=lambda: world.image)
                for one in (world.log, compact(world.log))
            ]
            self._replayed = [(one.durable_view(), sums_of(one)) for one in loaded]
        return self._replayed

    def settle(self) -> None:
        """Left alone, the members come to read everything between them."""
        present = [one for one in self.readers if one.classic or one.consumer]
        for _ in range(60):
            for reader in present:
                reader.step()
                self.check()
            self.world.advance(1_000)
        read = set().union(*[reader.partitions for reader in self.readers])
        assert not present or read == {("t", index) for index in range(4)}


WHO = st.integers(0, len(NAMES) - 1)
STEPS = st.one_of(
    st.tuples(st.just("step"), WHO),
    st.tuples(st.just("step"), WHO),
    st.tuples(st.just("step"), WHO),
    st.tuples(st.just("start"), WHO, st.sampled_from(["classic", "consumer"])),
    st.tuples(st.just("start"), WHO, st.sampled_from(["classic", "consumer"])),
    st.tuples(st.just("stop"), WHO),
    st.tuples(st.just("refused"), WHO),
    st.tuples(st.just("time"), st.sampled_from([0, 500, 1_000, 3_000, 31_000])),
    st.tuples(st.just("restart")),
)


FROM_ONE_REBALANCE_INTO_THE_NEXT: list[tuple[Any, ...]] = [
    *(("start", 0, "classic"), ("start", 1, "classic"), ("step", 0), ("step", 0), ("restart",)),
    *(("step", 0), ("step", 0), ("step", 1), ("step", 1), ("time", 0), ("step", 1), ("step", 0)),
    *(("step", 1), ("start", 0, "consumer")),
]
"""A cooperative consumer owned partitions, of which the classic group knew nothing any more."""


@pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])
@example(steps=FROM_ONE_REBALANCE_INTO_THE_NEXT)
@given(steps=st.lists(STEPS, max_size=60))
@settings(max_examples=60, deadline=None)
def test_no_partition_has_two_readers(is_cooperative: bool, steps: list[tuple[Any, ...]]) -> None:
    story = Story(is_cooperative=is_cooperative)
    for step in steps:
        story.take(*step)
    story.settle()


@pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])
def test_a_group_is_rolled_up_and_down(is_cooperative: bool) -> None:
    story = Story(is_cooperative=is_cooperative)
    everything = {("t", index) for index in range(4)}
    for number in range(len(NAMES)):
        story.take("start", number, "classic")
    story.settle()
    for protocol in ("consumer", "classic", "consumer"):
        for number in range(len(NAMES)):
            story.take("start", number, protocol)
            story.settle()
            assert set().union(*[one.partitions for one in story.readers]) == everything
        assert story.world.coordinator.groups["g"].group_type == protocol
