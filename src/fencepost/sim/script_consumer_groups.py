"""The commands of scenarios with members of a consumer group (KIP-848): e1, e2, ...

A world has them with `epoch_members=N`.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.sim.clients.epoch_member import EpochMember
from fencepost.sim.script import Script, ScriptError
from fencepost.sim.script_brokers import note_outcome, partition_of
from fencepost.sim.script_table import command


@command
def beat(script: Script, words: list[str]) -> None:
    """`beat E`: member E joins its consumer group, or says what it owns; see `outcomes`."""
    _do(script, words, "beat", lambda member: member.heartbeat())


@command
def commit_in_epoch(script: Script, words: list[str]) -> None:
    """`commit-in-epoch E TOPIC-N`: member E commits an offset for the partition, in its epoch; see
    `outcomes`."""
    key = partition_of(script, words[1])
    _do(script, words, f"commit-in-epoch {words[1]}", lambda member: member.commit(key))


def _do(script: Script, words: list[str], what: str, do: Callable[[EpochMember], None]) -> None:
    try:
        member = script.world.clients.epoch_members[int(words[0].removeprefix("e")) - 1]
    except (ValueError, IndexError):
        raise ScriptError(f"{words[0]} is none of e1, e2, ...: epoch_members=N") from None
    note_outcome(script, member, f"{words[0]} {what}")
    script.world.guard(lambda: do(member), None)
