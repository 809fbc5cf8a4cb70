"""The commands of scenarios in which voters come and go."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumConfig, QuorumState
from fencepost.machines.quorum.messages import begin_request
from fencepost.sim import membership
from fencepost.sim.boot import CLUSTER_ID
from fencepost.sim.options import Options
from fencepost.sim.oracle import Violation
from fencepost.sim.script import Script
from fencepost.sim.script_table import command, node_of, options_of
from fencepost.wire.errors import ErrorCode


@command
def dynamic(script: Script, words: list[str]) -> None:
    """`dynamic N [others=M] [joins] [static]`: a world whose voters come and go; first. The first N
    nodes are formatted as its voters, the others know where these are; `joins` has controllers add
    themselves, with `static` the voters are configured until kraft.version is raised."""
    given = options_of(words[1:])
    script.make_world(
        Options(
            voters=int(words[0]),
            observers=int(given.get("others", "0")),
            joins=given.get("joins", "0") != "0",
            begins_static=given.get("static", "0") != "0",
            is_dynamic=True,
            has_controller=given.get("controller", "0") != "0",
        )
    )


def _note(script: Script, name: str) -> membership.OnError:
    script.changes[name] = "waits"

    def told(error: ErrorCode) -> None:
        script.changes[name] = error.name

    return told


@command
def add_voter(script: Script, words: list[str]) -> None:
    """`add-voter A N [TIMEOUT_MS]`: ask A to add N, with the disk it has now, to the voters."""
    leader, joining = node_of(script, words[0]), node_of(script, words[1])
    timeout_ms = int(words[2]) if len(words) > 2 else 0
    membership.add_voter(leader, joining, _note(script, f"add {joining.id}"), timeout_ms)


@command
def remove_voter(script: Script, words: list[str]) -> None:
    """`remove-voter A N`: ask A to remove N, with the disk it has in A's voter set."""
    leader, id_ = node_of(script, words[0]), int(words[1])
    voter = leader.machine.voter_set.get(id_)
    if voter is None:
        raise Violation("script", f"{id_} is no voter")
    membership.remove_voter(leader, voter.key, _note(script, f"remove {id_}"))


@command
def upgrade(script: Script, words: list[str]) -> None:
    """`upgrade A`: ask A to raise kraft.version to 1."""
    membership.upgrade(node_of(script, words[0]), _note(script, "upgrade 1"))


@command
def changes(script: Script, words: list[str]) -> list[str]:
    """`changes`: what became of these."""
    return [f"{name}: {said}" for name, said in script.changes.items() if said != "waits"]


@command
def voters_of(script: Script, words: list[str]) -> list[str]:
    """`voters-of N`: the voters by the log of N, with the numbers of their disks."""
    voters = node_of(script, words[0]).machine.voter_set.voters
    return [" ".join(f"{v.id}/{v.key.directory_id[-2]}" for v in voters)]


@command
def claim(script: Script, words: list[str]) -> None:
    """`claim A B E`: A is told by B that it leads epoch E."""
    told, by = node_of(script, words[0]), node_of(script, words[1])
    state = QuorumState(int(words[2]), leader_id=by.id)
    request = begin_request(QuorumConfig(cluster_id=CLUSTER_ID), told.id, state)
    script.world.network.request(by, told.id, request)
