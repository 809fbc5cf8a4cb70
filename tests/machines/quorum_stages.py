"""Quorums of the simulator in situations that a change of the voters may meet, and what is asked.

The leader is node 1 of the founders 1, 2, 3, whose disks have number 1; node 4 follows. Nothing
happens in these worlds but what a test picks (`fencepost.sim.by_hand`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.batch.control import read_control
from fencepost.batch.header import read_header
from fencepost.machines.effects import DiskFailed
from fencepost.machines.quorum import Role, inputs, membership
from fencepost.machines.quorum.voters import ReplicaKey, Voter
from fencepost.sim.by_hand import ByHand
from fencepost.sim.options import Options
from fencepost.sim.rules import Rules
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest
from fencepost.wire.api.describe_quorum import (
    DescribeQuorumRequest,
    PartitionDataRequest,
    TopicDataRequest,
)
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterRequest
from fencepost.wire.errors import ErrorCode

# -- the stage ---------------------------------------------------------------------------------


def quorum(voters: int, observers: int = 0, rules: Rules | None = None) -> ByHand:
    """Voters that are configured; nothing is started."""
    return ByHand(Options(voters=voters, observers=observers, has_controller=False), rules)


def dynamic(
    voters: int,
    others: int = 0,
    *,
    joins: bool = False,
    static: bool = False,
    rules: Rules | None = None,
) -> ByHand:
    """Voters that come and go (KIP-853); nothing is started.

    `joins` makes every controller join on its own, `static` begins with configured voters.
    """
    options = Options(
        voters=voters,
        observers=others,
        is_dynamic=True,
        begins_static=static,
        joins=joins,
        has_controller=False,
    )
    return ByHand(options, rules)


def led(voters: int = 3, others: int = 1, **options: Any) -> ByHand:
    """Node 1 leads and has committed; the others follow and have caught up."""
    world = dynamic(voters, others, **options)
    world.start()
    if voters > 1:
        world.fire(1, inputs.ELECTION)
    world.settle()
    world.wait(2_500)
    assert world.machine(1).is_active_leader
    return world


def new_leader() -> ByHand:
    """Node 1 leads and has committed nothing in its epoch yet."""
    world = dynamic(3, others=1)
    world.start(1, 2, 3)
    world.fire(1, inputs.ELECTION)
    while world.machine(1).role is not Role.LEADER:
        world.deliver(world.flights()[0])
    return world


def asking() -> ByHand:
    """Node 1 has asked node 4 what it can run, to add it."""
    world = led()
    world.add_voter(1, 4)
    return world


def writing() -> ByHand:
    """Node 1 has written a voter set without node 3, which no other node has yet."""
    world = led()
    world.remove_voter(1, world.voter(3).key)
    return world


def waited_too_long() -> ByHand:
    """The same, and the request for it has been answered REQUEST_TIMED_OUT."""
    world = writing()
    world.drop_all()
    world.fire(1, inputs.VOTER_CHANGE)
    assert world.changes == {"remove 3": ErrorCode.REQUEST_TIMED_OUT}
    return world


def follower() -> ByHand:
    """Node 1 follows node 2."""
    world = led()
    world.feed(1, inputs.Resign())
    world.settle()
    assert world.machine(1).role is Role.FOLLOWER
    return world


def failed() -> ByHand:
    world = led()
    world.node(1).is_excused = True
    world.feed(1, DiskFailed("gone"))
    return world


def alone() -> ByHand:
    """Node 1 is the only voter."""
    return led(voters=1)


def static() -> ByHand:
    return led(static=True)


STAGES: dict[str, Callable[[], ByHand]] = {
    "led": led,
    "new leader": new_leader,
    "asking": asking,
    "writing": writing,
    "waited too long": waited_too_long,
    "follower": follower,
    "failed": failed,
    "alone": alone,
    "static": static,
}


# -- what is asked -----------------------------------------------------------------------------


def config_of(world: ByHand) -> Any:
    return world.machine(1).node.config


def add(world: ByHand, voter: Voter | None = None) -> AddRaftVoterRequest:
    return membership.add_request(config_of(world), voter or world.voter(4))


def remove(world: ByHand, key: ReplicaKey | None = None) -> RemoveRaftVoterRequest:
    return membership.remove_request(config_of(world), key or world.voter(3).key)


def update(world: ByHand, voter: Voter | None = None) -> UpdateRaftVoterRequest:
    epoch = world.machine(1).epoch
    return membership.update_request(config_of(world), epoch, voter or world.voter(3))


def describe_request() -> Any:
    topic = TopicDataRequest(topic_name="__cluster_metadata", partitions=[PartitionDataRequest()])
    return DescribeQuorumRequest(topics=[topic])


def ask(world: ByHand, request: Any) -> list[Any]:
    """What node 1 answers, filled in as it does."""
    return world.ask(1, request)


def records_of(world: ByHand, node_id: int) -> list[list[Any]]:
    """The control records of a log, by batch."""
    batches = [batch for batch in world.batches(node_id) if read_header(batch).is_control]
    return [[record.value for record in read_control(batch)] for batch in batches]
