"""Quorums in situations that a change of the voters may meet, and what is asked of them there.

The leader is node 1 of the founders 1, 2, 3, whose disks have number 1; node 4 follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.batch.control import read_control
from fencepost.machines.effects import DiskFailed
from fencepost.machines.quorum import Role, inputs, membership, received
from fencepost.machines.quorum.voters import ReplicaKey, Voter
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest
from fencepost.wire.api.describe_quorum import (
    DescribeQuorumRequest,
    PartitionDataRequest,
    TopicDataRequest,
)
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterRequest
from fencepost.wire.errors import ErrorCode

from .quorum_world import KEY
from .voters_world import VotersWorld, control_entries

# -- the stage ---------------------------------------------------------------------------------


def led(static: bool = False, voters: int = 3, others: int = 1, **options: Any) -> VotersWorld:
    """Node 1 leads and has committed; the others follow and have caught up."""
    world = VotersWorld(voters, others=others, static=static, **options)
    for id_ in world.nodes:
        world.start(id_)
    if voters > 1:
        world.fire(1, inputs.ELECTION)
    world.settle()
    world.wait(2_500)
    assert world.machine(1).is_active_leader
    return world


def new_leader() -> VotersWorld:
    """Node 1 leads and has committed nothing in its epoch yet."""
    world = VotersWorld(3, others=1)
    for id_ in (1, 2, 3):
        world.start(id_)
    world.fire(1, inputs.ELECTION)
    while world.machine(1).role is not Role.LEADER:
        world.deliver(world.flights[0])
    return world


def asking() -> VotersWorld:
    """Node 1 has asked node 4 what it can run, to add it."""
    world = led()
    world.add_voter(1, 4)
    return world


def writing() -> VotersWorld:
    """Node 1 has written a voter set that nobody else has: node 3 has gone from it."""
    world = led()
    world.remove_voter(1, world.voter(3).key)
    return world


def waited_too_long() -> VotersWorld:
    """The same, and whoever asked for it has been told that it takes too long."""
    world = writing()
    world.flights.clear()
    world.fire(1, inputs.VOTER_CHANGE)
    assert world.changes == {"remove 3": ErrorCode.REQUEST_TIMED_OUT}
    return world


def follower() -> VotersWorld:
    """Node 1 follows node 2."""
    world = led()
    world.driver(1).feed(KEY, inputs.Resign())
    world.settle()
    assert world.machine(1).role is Role.FOLLOWER
    return world


def failed() -> VotersWorld:
    world = led()
    world.driver(1).feed(KEY, DiskFailed("gone"))
    return world


def alone() -> VotersWorld:
    """Node 1 is the only voter."""
    return led(voters=1)


def static() -> VotersWorld:
    return led(static=True)


STAGES: dict[str, Callable[[], VotersWorld]] = {
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


def config_of(world: VotersWorld) -> Any:
    return world.machine(1)._config


def add(world: VotersWorld, voter: Voter | None = None) -> AddRaftVoterRequest:
    return membership.add_request(config_of(world), voter or world.voter(4))


def remove(world: VotersWorld, key: ReplicaKey | None = None) -> RemoveRaftVoterRequest:
    return membership.remove_request(config_of(world), key or world.voter(3).key)


def update(world: VotersWorld, voter: Voter | None = None) -> UpdateRaftVoterRequest:
    epoch = world.machine(1).epoch
    return membership.update_request(config_of(world), epoch, voter or world.voter(3))


def describe_request() -> Any:
    topic = TopicDataRequest(topic_name="__cluster_metadata", partitions=[PartitionDataRequest()])
    return DescribeQuorumRequest(topics=[topic])


def ask(world: VotersWorld, request: Any) -> list[Any]:
    """What node 1 answers, filled in as it does."""
    answers: list[Any] = []
    world.driver(1).feed(KEY, received(answers.append, request))
    return answers


def records_of(world: VotersWorld, node_id: int) -> list[list[Any]]:
    """The control records of a log, by batch."""
    log = world.nodes[node_id].log
    return [[r.value for r in read_control(e.data)] for e in control_entries(log)]
