"""Members without I/O in random worlds with our coordinator: no partition is owned twice, and every
group comes to rest with all partitions given out (KIP-848)."""

from __future__ import annotations

import random

from hypothesis import given, strategies as st

from fencepost.client.consumer_membership import (
    ConsumerMembership,
    ConsumerMembershipConfig,
    IdPartition,
    State,
)
from fencepost.client.metadata import TopicPartition
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.shard import Decision
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

from ..machines.consumer_groups.world import NAME_OF, ConsumerWorld, image_of

STEPS = 60
ROUNDS_MAX = 40
"""Of heartbeats of all members, in which a group comes to rest."""


class World:
    """A coordinator, and members that are in any state."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.coordinator = ConsumerWorld()
        self.coordinator.image = image_of(t=4, u=3)
        self.members: list[ConsumerMembership] = []
        self.made = 0
        for _ in range(2):
            self.join()

    # -- what may happen ---------------------------------------------------------------------

    def join(self) -> None:
        topics = self.random.choice([("t",), ("u",), ("t", "u")])
        self.made += 1
        config = ConsumerMembershipConfig("g", topics, retry_backoff_ms=0)
        self.members.append(ConsumerMembership(config, f"m{self.made}"))

    def beat(self, member: ConsumerMembership, *, is_lost: bool = False) -> None:
        request = member.heartbeat()
        response = self.answer(request)
        if not is_lost:
            member.on_response(request, response, self.coordinator.now)

    def reconcile(self, member: ConsumerMembership) -> None:
        if member.state is State.RECONCILING:
            member.acknowledge({one: named(one) for one in member.target})

    def leave(self, member: ConsumerMembership) -> None:
        if member.has_to_leave:
            self.answer(member.leave_request())
        self.members.remove(member)

    def crash(self, member: ConsumerMembership) -> None:
        """A member ends without a word; the coordinator finds out later."""
        self.members.remove(member)

    def subscribe(self, member: ConsumerMembership) -> None:
        member.subscribe(self.random.choice([("t",), ("u",), ("t", "u")]), None)

    def step(self) -> None:
        kind = self.random.random()
        if kind < 0.1 and len(self.members) < 5:
            self.join()
        elif kind < 0.2:
            self.coordinator.advance(self.random.choice([200, 1_500, 7_000]))
        elif self.members:
            member = self.random.choice(self.members)
            if kind < 0.55:
                self.beat(member, is_lost=self.random.random() < 0.2)
            elif kind < 0.85:
                self.reconcile(member)
            elif kind < 0.9:
                self.subscribe(member)
            elif len(self.members) > 1:
                self.random.choice([self.leave, self.crash])(member)

    # -- what holds --------------------------------------------------------------------------

    def answer(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        world = self.coordinator

        def decide(token: int) -> Decision:
            caller = Caller(token, 1, "c", "/host", f"u{token}")
            return world.consumer.heartbeat(request, caller, world.may_describe, world.wall)

        response: ConsumerGroupHeartbeatResponse = world.replies[world.ask(decide)]
        return response

    def live(self) -> list[ConsumerMembership]:
        """Members that the coordinator would let commit: others may own what these are told only
        later that they have lost."""
        known = self.coordinator.group.members if "g" in self.coordinator.coordinator.groups else {}
        return [one for one in self.members if one.member_id in known]

    def check_owners(self) -> None:
        seen: set[TopicPartition] = set()
        for member in self.live():
            owned = set(member.assignment)
            assert not owned & seen, f"owned twice: {owned & seen}"
            seen |= owned

    def is_at_rest(self) -> bool:
        wanted = {topic for member in self.members for topic in member.config.topics}
        counts = {"t": 4, "u": 3}
        every = {TopicPartition(topic, n) for topic in wanted for n in range(counts[topic])}
        owned = [one for member in self.members for one in member.assignment]
        return set(owned) == every and len(owned) == len(every)


def named(one: IdPartition) -> TopicPartition:
    return TopicPartition(NAME_OF[one.topic_id], one.partition)


@given(st.integers(0, 2**32))
def test_no_partition_is_owned_twice_and_groups_come_to_rest(seed: int):
    world = World(seed)
    for _ in range(STEPS):
        world.step()
        world.check_owners()
    world.coordinator.advance(50_000)  # sessions of members that crashed end
    for _ in range(ROUNDS_MAX):
        if world.is_at_rest():
            break
        for member in world.members:
            world.beat(member)
            world.reconcile(member)
            world.check_owners()
        world.coordinator.advance(1_000)
    assert world.is_at_rest(), [(one.member_id, one.state) for one in world.members]
