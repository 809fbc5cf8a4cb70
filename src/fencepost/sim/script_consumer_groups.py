"""The commands of scenarios with members of a consumer group (KIP-848): e1, e2, ...

A world has them with `epoch_members=N`. What they do not do by themselves a request of its own says
(`beat-as`): it is sent in their place, to the same group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.sim.clients.epoch_member import REBALANCE_TIMEOUT_MS, EpochMember
from fencepost.sim.script import Script, ScriptError
from fencepost.sim.script_brokers import member_of, partition_of
from fencepost.sim.script_table import act_as, client_of, command, split_options
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode

_NEWEST: Final = (1, None)


@command
def beat(script: Script, words: list[str]) -> None:
    """`beat E`: member E joins its consumer group, or says what it owns; see `outcomes`."""
    _do(script, words, "beat", lambda member: member.heartbeat())


@command
def leave_epoch(script: Script, words: list[str]) -> None:
    """`leave-epoch E`: member E leaves its consumer group, for a while if it is static; see
    `outcomes`."""
    _do(script, words, "leaves", lambda member: member.leave())


@command
def commit_in_epoch(script: Script, words: list[str]) -> None:
    """`commit-in-epoch E TOPIC-N`: member E commits an offset for the partition, in its epoch; see
    `outcomes`."""
    key = partition_of(script, words[1])
    _do(script, words, f"commit-in-epoch {words[1]}", lambda member: member.commit(key))


@command
def static(script: Script, words: list[str]) -> None:
    """`static M I` or `static E I`: the member is static, with that instance id."""
    is_epoch_member = words[0].startswith("e")
    member = _epoch_member_of(script, words[0]) if is_epoch_member else member_of(script, words[0])
    member.instance_id = words[1]


@command
def garble(script: Script, words: list[str]) -> None:
    """`garble K`: what classic member K says of itself cannot be read from now on."""
    member_of(script, words[0]).is_garbled = True


@command
def beat_as(script: Script, words: list[str]) -> None:
    """`beat-as ID EPOCH [instance=I] [topics=T,...] [regex=R] [assignor=A] [owns=T-N,...]`: member
    ID of the consumer group sends this heartbeat, which says that it owns nothing if it joins; the
    expression `-` is none; see `outcomes`."""
    (member_id, epoch), given = split_options(words)
    sender, regex = _epoch_member_of(script, "e1"), given.get("regex")
    request = ConsumerGroupHeartbeatRequest(
        group_id=sender.group_id,
        member_id=member_id,
        member_epoch=int(epoch),
        instance_id=given.get("instance"),
        server_assignor=given.get("assignor"),
        subscribed_topic_regex="" if regex == "-" else regex,
    )
    if "topics" in given or "regex" in given:
        request.subscribed_topic_names = [one for one in given.get("topics", "").split(",") if one]
        request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
    if "owns" in given or int(epoch) == 0:
        request.topic_partitions = [
            TopicPartitions(topic_id=topic_id, partitions=[index])
            for topic_id, index in (
                partition_of(script, one) for one in given.get("owns", "").split(",") if one
            )
        ]
    say = script.expect(f"{member_id} {epoch}")

    def answered(response: Any) -> None:
        say("no answer" if response is None else _said(script, response))

    broker_id = sender.coordinator()
    if broker_id is None:
        raise ScriptError("no broker coordinates the group")
    script.world.guard(lambda: sender.ask(broker_id, request, answered, _NEWEST), None)


def _said(script: Script, response: Any) -> str:
    """What the answer to a heartbeat says, in words."""
    error = ErrorCode(response.error_code)
    if error is not ErrorCode.NONE:
        return error.name
    said = f"epoch {response.member_epoch}"
    if response.assignment is None:
        return said
    topics = script.world.observer.committed_image.topics_by_id
    owned = sorted(
        f"{topics[one.topic_id].name}-{index}"
        for one in response.assignment.topic_partitions
        for index in one.partitions
    )
    return f"{said} owns {' '.join(owned) or 'nothing'}"


def _do(script: Script, words: list[str], what: str, do: Callable[[EpochMember], None]) -> None:
    member = _epoch_member_of(script, words[0])
    act_as(script, member, f"{words[0]} {what}", lambda: do(member))


def _epoch_member_of(script: Script, word: str) -> EpochMember:
    clients = script.world.clients.epoch_members
    return client_of(clients, word, "is none of e1, e2, ...: epoch_members=N")
