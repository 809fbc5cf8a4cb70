"""The commands of scenarios that are about brokers, partitions and their clients.

A scenario has brokers 101, 102, ... if its first command says `brokers=N`. Its producers are p1,
p2, ..., by turns idempotent and not, and c1 is its consumer. With `committers=N` there are g1, g2,
..., which commit offsets of groups, and with
`members=N` there are m1, m2, ..., the members of one group; with `mixed_members=N` k1, k2, ... are
classic members of the consumer group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.batch.header import iter_headers
from fencepost.machines.image import RECOVERING
from fencepost.runtime.replicas import HostedPartition
from fencepost.sim.brokers.broker import SimBroker
from fencepost.sim.calls import Call
from fencepost.sim.clients.committer import Committer
from fencepost.sim.clients.consumer import Consumer
from fencepost.sim.clients.member import Member
from fencepost.sim.clients.producer import Producer
from fencepost.sim.oracle import Violation
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.sim.script import Script, ScriptError
from fencepost.sim.script_table import (
    act_as,
    answer_to,
    client_of,
    command,
    keys_of,
    node_of,
    options_of,
    split_options,
)
from fencepost.sim.workload import COMPACTED, Asked
from fencepost.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from fencepost.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from fencepost.wire.api.fetch import FetchResponse
from fencepost.wire.errors import ErrorCode

_READ_BYTES: Final = 1 << 20


@command
def topic(script: Script, words: list[str]) -> None:
    """`topic A NAME [partitions=N] [replicas=N] [min_isr=N] [compacted]`: ask controller A for a
    topic, with one partition of three replicas that wants two in sync unless said otherwise; see
    `outcomes`."""
    node, name = node_of(script, words[0]), words[1]
    given = {key: int(value) for key, value in options_of(words[2:]).items()}
    script.world.workload.create_topic(
        node,
        name,
        given.get("partitions", 1),
        given.get("replicas", 3),
        answer_to(script, f"topic {name}"),
        given.get("min_isr", 2),
        configs=COMPACTED if "compacted" in given else {},
    )


@command
def elect(script: Script, words: list[str]) -> None:
    """`elect A TOPIC-N [unclean]`: ask controller A to have the partition's preferred replica lead,
    or any that may, in sync or not; see `outcomes`."""
    node, (name, _, index) = node_of(script, words[0]), words[1].rpartition("-")
    request = ElectLeadersRequest(
        election_type=int(words[2:] == ["unclean"]),
        topic_partitions=[TopicPartitions(topic=name, partitions=[int(index)])],
    )
    if request.election_type:
        script.world.observer.oracle.partitions.may_lose.add(partition_of(script, words[1]))
    key = f"elect {words[1]}"
    say = script.expect(key)

    def answered(asked: Asked) -> None:
        (topic,) = asked.reply.replica_election_results
        say(ErrorCode(topic.partition_result[0].error_code).name)

    script.world.workload.submit(
        node, key, lambda controller: controller.decide_elect_leaders(request), answered
    )


@command
def reassign(script: Script, words: list[str]) -> None:
    """`reassign A TOPIC-N B...`: ask controller A to move the partition to these brokers; see
    `outcomes`."""
    node, (name, _, index) = node_of(script, words[0]), words[1].rpartition("-")
    to = [broker_of(script, word).id for word in words[2:]]
    moved = ReassignablePartition(partition_index=int(index), replicas=to)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=[moved])]
    )
    key = f"reassign {words[1]} {to}"
    say = script.expect(key)

    def answered(asked: Asked) -> None:
        (topic,) = asked.reply.responses
        say(ErrorCode(topic.partitions[0].error_code).name)

    script.world.workload.submit(
        node, key, lambda one: one.decide_alter_partition_reassignments(request), answered
    )


@command
def stay_with(script: Script, words: list[str]) -> None:
    """`stay-with A B`: broker B sends its requests to controller A, and not to the leader of its
    metadata, until A answers NOT_CONTROLLER or not at all."""
    broker_of(script, words[1]).link.stay_with(node_of(script, words[0]).id)


@command
def feature(script: Script, words: list[str]) -> None:
    """`feature A NAME LEVEL`: ask controller A to run the cluster at a level of a feature; see
    `outcomes`."""
    node, name, level = node_of(script, words[0]), words[1], int(words[2])
    script.world.workload.update_feature(node, name, level, answer_to(script, f"feature {name}"))


@command
def partitions(script: Script, words: list[str]) -> list[str]:
    """`partitions N`: each partition as node N's image has it: leader, epochs, who is in sync, and
    who is eligible to lead or is known to have led last; `recovering` if data may be lost."""
    return [
        f"{topic.name}-{index} leader {one.leader} e{one.leader_epoch} p{one.partition_epoch}"
        f"   isr {sorted(one.isr)}   elr {sorted(one.eligible_leader_replicas)}"
        f"   last {list(one.last_known_elr)}"
        f"{'   recovering' if one.leader_recovery_state == RECOVERING else ''}"
        for topic, index, one in node_of(script, words[0]).metadata.image.partitions()
    ]


@command
def producer_id(script: Script, words: list[str]) -> None:
    """`producer-id P B`: producer P asks broker B for its producer id."""
    _producer_of(script, words[0]).ask_for_id(broker_of(script, words[1]).id)


@command
def produce(script: Script, words: list[str]) -> None:
    """`produce P TOPIC-N [COUNT [SEQUENCE]] [keys=K,...] [deleted=K,...]`: producer P sends a batch
    to the partition's leader, and again whenever it may, until it knows what has become of it; a
    key may be bytes, as 0x0001, and one that is deleted has no value; see `outcomes`."""
    words, given = split_options(words)
    producer, key = _producer_of(script, words[0]), partition_of(script, words[1])
    if producer.unfinished is not None:
        raise ScriptError(f"{words[0]} is not done with its last batch")
    count, sequence = int((words[2:] or ["1"])[0]), int(words[3]) if len(words) > 3 else None
    keys = keys_of(given.get("keys", given.get("deleted", "")))
    items = [(one, "deleted" in given) for one in keys if one]
    name = f"{words[0]} {words[1]}"
    act_as(script, producer, name, lambda: producer.produce(key, count, sequence, items))


@command
def consume(script: Script, words: list[str]) -> None:
    """`consume C TOPIC-N [B] [with-epoch]`: consumer C fetches what comes next from the leader, or
    broker B, and names the epoch of the last batch it has read (KIP-320)."""
    names_epoch = words[-1] == "with-epoch"
    consumer, key = _consumer_of(script, words[0]), partition_of(script, words[1])
    others = words[2 : len(words) - names_epoch]
    broker_id = broker_of(script, others[0]).id if others else None
    script.world.guard(
        lambda: consumer.fetch(key, broker_id, names_epoch=names_epoch or None), None
    )


@command
def latest(script: Script, words: list[str]) -> None:
    """`latest C TOPIC-N`: consumer C asks the leader where the partition ends; see `outcomes`."""
    consumer, key = _consumer_of(script, words[0]), partition_of(script, words[1])
    consumer.ask_latest(key, script.expect(f"latest {words[0]} {words[1]}"))


@command
def commit(script: Script, words: list[str]) -> None:
    """`commit G TOPIC-N`: committer G commits the next offset of its group for the partition, and
    again whenever it may; see `outcomes`."""
    _ask_of_group(script, words, "commit")


@command
def committed(script: Script, words: list[str]) -> None:
    """`committed G TOPIC-N`: committer G asks what its group has committed for the partition, and
    gives up a commit that is not over; see `outcomes`."""
    committer_of(script, words[0]).give_up()
    _ask_of_group(script, words, "committed")


def _ask_of_group(script: Script, words: list[str], what: str) -> None:
    committer, key = committer_of(script, words[0]), partition_of(script, words[1])
    if committer.unfinished is not None:
        raise ScriptError(f"{words[0]} is not done with its last commit")
    ask = committer.commit if what == "commit" else committer.fetch
    act_as(script, committer, f"{what} {words[0]} {words[1]}", lambda: ask(key))


@command
def join(script: Script, words: list[str]) -> None:
    """`join M`: member M joins its group, or takes part in a rebalance, and asks for what it is
    assigned; see `outcomes`."""
    _do_as_member(script, words, "join", lambda member: member.join())


@command
def heartbeat(script: Script, words: list[str]) -> None:
    """`heartbeat M`: member M says that it is there, and hears whether to join; see `outcomes`."""
    _do_as_member(script, words, "heartbeat", lambda member: member.heartbeat())


@command
def leave(script: Script, words: list[str]) -> None:
    """`leave M`: member M leaves its group; see `outcomes`."""
    _do_as_member(script, words, "leave", lambda member: member.leave())


@command
def commit_as(script: Script, words: list[str]) -> None:
    """`commit-as M TOPIC-N`: member M commits an offset for the partition, which another member may
    own by now, in the generation that M believes in; see `outcomes`."""
    name, _, index = words[1].rpartition("-")
    partition_of(script, words[1])
    _do_as_member(
        script, words, f"commit-as {words[1]}", lambda member: member.commit((name, int(index)))
    )


def _do_as_member(
    script: Script, words: list[str], what: str, do: Callable[[Member], None]
) -> None:
    member = member_of(script, words[0])
    act_as(script, member, f"{words[0]} {what}", lambda: do(member))


@command
def delete_records(script: Script, words: list[str]) -> None:
    """`delete-records TOPIC-N OFFSET`: ask the leader to delete what stands below the offset, once,
    in a world with deleters=1; see `outcomes`."""
    deleters = script.world.clients.deleters
    if not deleters:
        raise ScriptError("no client deletes records here; one does if deleters=1")
    key, offset = partition_of(script, words[0]), int(words[1])
    name = f"delete {words[0]} {words[1]}"
    act_as(script, deleters[0], name, lambda: deleters[0].delete(key, offset))


@command
def shutdown(script: Script, words: list[str]) -> None:
    """`shutdown B`: broker B is to stop; it hands over what it leads, and ends when it may."""
    broker = broker_of(script, words[0])
    script.world.guard(broker.stop, broker)


@command
def positions(script: Script, words: list[str]) -> list[str]:
    """`positions C`: how far consumer C has read each partition."""
    consumer = _consumer_of(script, words[0])
    image = script.world.observer.committed_image
    return [
        f"{topic.name}-{key[1]}: {position.offset}"
        for key, position in consumer.positions.items()
        if (topic := image.topics_by_id.get(key[0])) is not None
    ]


@command
def read_late(script: Script, words: list[str]) -> None:
    """`read-late A->B`: the first FetchAnswer on that way has all batches that A's log has by now
    from where it begins, as that of a leader which looks at the epoch first and then reads."""
    call: Call = script.flight([words[0], "FetchAnswer"]).about
    broker, response = broker_of(script, words[0].split("-")[0]), call.response
    assert isinstance(response, FetchResponse), "fetches are answered so"
    (topic,) = response.responses
    (part,) = topic.partitions
    hosted = broker.replicas.by_id(topic.topic_id, part.partition_index)
    from_offset = min(header.base_offset for _, header in iter_headers(part.records or b""))
    if isinstance(hosted, ErrorCode):
        raise ScriptError(f"{broker.id} has no such partition")
    found = hosted.log.read(from_offset, _READ_BYTES, hosted.machine.log_end_offset, True)
    part.records = b"".join(bytes(buffer) for buffer in found.buffers)


@command
def replicas(script: Script, words: list[str]) -> list[str]:
    """`replicas [B...]`: the partitions on these brokers, or on all that are up: batches by their
    leader epochs, what is behind `|` is not on the disk."""
    brokers = [broker_of(script, word) for word in words] or list(script.world.brokers.values())
    return [line for broker in brokers if broker.is_up for line in _replicas_on(broker)]


def _replicas_on(broker: SimBroker) -> list[str]:
    lines = []
    for hosted in broker.replicas.all():
        log = broker.world.observer.oracle.partitions.log(
            broker.id, (hosted.topic_id, hosted.index)
        )
        shown = []
        for batch in log.entries:
            if batch.base_offset == log.durable_offset:
                shown.append("|")
            shown.append(str(batch.epoch))
        machine = hosted.machine
        role = "leads" if machine.is_leader else f"follows {machine.leader_id}"
        isr = f"   isr {sorted(machine.isr)}" if machine.is_leader else ""
        lines.append(
            f"{broker.id} {role} {hosted.key} e{machine.leader_epoch}   hw"
            f" {machine.high_watermark}   [{' '.join(shown)}]{isr}"
        )
    return lines


def broker_of(script: Script, word: str) -> SimBroker:
    node = node_of(script, word)
    if not isinstance(node, SimBroker):
        raise ScriptError(f"{word} is no broker")
    return node


def hosted_of(script: Script, broker: str, partition: str) -> HostedPartition:
    """The replica of a partition on a broker. Violation if it has none."""
    key = partition_of(script, partition)
    for hosted in broker_of(script, broker).replicas.all():
        if (hosted.topic_id, hosted.index) == key:
            return hosted
    raise Violation("script", f"{partition} has no replica on {broker}")


def _producer_of(script: Script, word: str) -> Producer:
    clients = script.world.clients.producers
    return client_of(clients, word, "is no producer; there are p1, p2, ...")


def _consumer_of(script: Script, word: str) -> Consumer:
    clients = script.world.clients.consumers
    return client_of(clients, word, "is no consumer; there are c1, c2, ...")


def committer_of(script: Script, word: str) -> Committer:
    clients = script.world.clients.committers
    return client_of(clients, word, "commits nothing; g1, g2, ... do if committers=N")


def member_of(script: Script, word: str) -> Member:
    clients = script.world.clients
    members = clients.mixed_members if word.startswith("k") else clients.members
    said = "is no member; m1, m2, ... are if members=N, and k1, k2, ... if mixed_members=N"
    return client_of(members, word, said)


def partition_of(script: Script, word: str) -> PartitionKey:
    name, _, index = word.rpartition("-")
    found = script.world.observer.committed_image.topics_by_name.get(name)
    if found is None or not index.isdecimal() or int(index) >= len(found.partitions):
        raise Violation("script", f"there is no partition {word}")
    return found.topic_id, int(index)
