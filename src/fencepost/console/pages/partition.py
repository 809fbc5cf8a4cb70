"""One partition: the leader epochs of every replica's log, where logs diverge, what was cut."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import ClientError
from fencepost.client.lineage import ReplicaLineage, reading_replica
from fencepost.client.metadata import Node, PartitionInfo, TopicInfo, TopicPartition
from fencepost.client.replicas import PartitionState
from fencepost.console.asked import Asked, NotThere, path_to
from fencepost.console.lineages import LineageMemory, Seen
from fencepost.console.page import Drawing, Level, Page, Section, Sentence, Table
from fencepost.console.sample import Sample
from fencepost.console.session import Session, now_ms
from fencepost.views.epochs import partition_epochs
from fencepost.views.epochs_drawing import Mark, Picture, draw_svg, draw_text
from fencepost.views.replica_details import viewing_eligible, viewing_stored
from fencepost.views.replica_findings import FindingKind, replica_findings
from fencepost.views.replication import ReplicaPlace, StoredIn, replicated_partition
from fencepost.views.times import iso_time
from fencepost.views.view import count

PARTITION_MAX: Final = (1 << 31) - 1
EPOCHS: Final = 40
EPOCHS_MAX: Final = 1_000
TEXT_WIDTH: Final = 120
HOW_IT_IS_KNOWN: Final = (
    "Each broker was asked where the epochs of its own log end, an epoch at a time: Kafka has no"
    " other way."
)
NOTCH_COLOR: Final = "#b35c00"
LEVELS: Final[dict[FindingKind, Level]] = {
    "leads": "note",
    "same": "good",
    "behind": "note",
    "diverges": "bad",
    "empty": "note",
    "unknown": "warning",
}


class ReplicaTold(NamedTuple):
    """What a broker told of its replica; `stored` is why not, or None if it has no log of it."""

    lineage: ReplicaLineage
    stored: StoredIn | str | None


async def partition(session: Session, asked: Asked) -> Page:
    """The lineage of every replica of a partition, as each broker tells it now."""
    sample = await session.sample()
    number = asked.number("partition", 0, 0, PARTITION_MAX)
    epochs_max = asked.number("epochs", EPOCHS, 1, EPOCHS_MAX)
    topic, info = _found(sample, asked.text("topic"), number)
    where = TopicPartition(topic.name, number)
    told, eligible = await asyncio.gather(
        _replicas(session, sample, topic, info, epochs_max),
        session.run_each({0: viewing_eligible(session.cluster, [where])}),
    )
    lineages = [one.lineage for one in told]
    memory = session.memory(LineageMemory)
    seen = memory.note(topic.topic_id, topic.name, number, lineages, now_ms())
    return Page(
        f"Partition {where}",
        [
            _lineage_section(topic, info, lineages, seen),
            _truncations(seen),
            _replicas_section(sample, topic, info, eligible[0], told),
            _elections(session, where),
        ],
        now_ms(),
    )


def _found(sample: Sample, name: str, number: int) -> tuple[TopicInfo, PartitionInfo]:
    topic = sample.topics.get(name)
    if topic is None:
        raise NotThere(f"no topic {name!r} in this cluster")
    if number not in topic.partitions:
        has = count(len(topic.partitions), "partition")
        raise NotThere(f"no partition {number} of topic {name!r}, which has {has}")
    return topic, topic.partitions[number]


async def _replicas(
    session: Session, sample: Sample, topic: TopicInfo, info: PartitionInfo, epochs_max: int
) -> list[ReplicaTold]:
    """Of every replica, in the order of the assignment. The leader is asked after the others: what
    a follower has, its leader has had before."""
    found: dict[int, ReplicaTold] = {}
    followers = [broker for broker in info.replicas if broker != info.leader_id]
    leaders = [broker for broker in info.replicas if broker == info.leader_id]
    for brokers in (followers, leaders):
        asking_them = {
            broker: _asking_replica(
                session.cluster,
                topic,
                info.partition,
                broker,
                None if broker in sample.fenced else sample.brokers.get(broker),
                epochs_max,
            )
            for broker in brokers
        }
        for broker, answer in (await session.run_each(asking_them)).items():
            if isinstance(answer, str):
                answer = ReplicaTold(ReplicaLineage(broker, error=answer), answer)
            found[broker] = answer
    return [found[broker] for broker in info.replicas]


def _asking_replica(
    view: ClusterView[Any],
    topic: TopicInfo,
    partition: int,
    broker: int,
    node: Node | None,
    epochs_max: int,
) -> Conversation[ReplicaTold]:
    lineage = yield from reading_replica(view, topic, partition, broker, node, spans_max=epochs_max)
    if node is None:
        return ReplicaTold(lineage, lineage.error)
    where = TopicPartition(topic.name, partition)
    try:
        return ReplicaTold(lineage, (yield from viewing_stored(view, node, [where])).get(where))
    except ClientError as error:
        return ReplicaTold(lineage, str(error))


def _lineage_section(
    topic: TopicInfo, info: PartitionInfo, lineages: Sequence[ReplicaLineage], seen: Seen
) -> Section:
    marks: dict[int, list[Mark]] = {}
    for cut in seen.truncations:
        marks.setdefault(cut.broker, []).append(
            Mark(cut.offset, cut.former_end, NOTCH_COLOR, cut.sentence)
        )
    epochs, picture = partition_epochs(topic.name, info, lineages, marks)
    findings = replica_findings(info, lineages)
    drawn = Picture(picture.heading, picture.rows)
    return Section(
        "Leader epochs of every replica",
        [*(Sentence(one.text, LEVELS[one.kind]) for one in findings), Sentence(HOW_IT_IS_KNOWN)],
        [
            Drawing(
                "Each band is a replica's log, each part a leader epoch, to scale. Red is what"
                " the leader's log does not have; a notch below a band is what was cut off.",
                draw_svg([drawn], is_part_of_page=True),
                draw_text(drawn, TEXT_WIDTH),
            )
        ],
        {"epochs": epochs, "findings": findings},
    )


def _truncations(seen: Seen) -> Section:
    if seen.looked_at_ms is None:
        text = "This is the first look at it: what is cut off is seen from one look to the next."
    else:
        cuts = count(len(seen.truncations), "truncation")
        text = f"{cuts} seen; the look before this one was at {iso_time(seen.looked_at_ms)}."
    return Section(
        "Truncations seen",
        [Sentence(text), *(Sentence(cut.sentence, "warning") for cut in seen.truncations)],
        document=list(seen.truncations),
    )


def _replicas_section(
    sample: Sample,
    topic: TopicInfo,
    info: PartitionInfo,
    eligible: Mapping[TopicPartition, PartitionState] | str,
    told: Sequence[ReplicaTold],
) -> Section:
    sentences = [*_not_told(eligible, told)]
    state = None
    if not isinstance(eligible, str):
        state = eligible.get(TopicPartition(topic.name, info.partition))
    found = replicated_partition(
        topic.name,
        info,
        sample.fenced,
        eligible=state.eligible if state is not None else None,
        last_known=state.last_known if state is not None else None,
        stored={
            one.lineage.broker_id: one.stored for one in told if isinstance(one.stored, StoredIn)
        },
    )
    if found.eligible:
        ids = ", ".join(map(str, found.eligible))
        sentences.append(Sentence(f"Out of sync and eligible to lead: {ids}.", "note"))
    if found.last_known:
        ids = ", ".join(map(str, found.last_known))
        sentences.append(Sentence(f"Last known eligible, to recover from by hand: {ids}."))
    waits = path_to("transactions", explain=f"{topic.name}:{info.partition}")
    sentences.append(Sentence("What readers of committed records wait for", link=waits))
    table = Table(
        "replicas",
        ReplicaPlace,
        found.replicas,
        {"broker": [path_to("brokers", one.broker) for one in found.replicas]},
    )
    return Section("Replicas", sentences, [table], found)


def _not_told(
    eligible: Mapping[TopicPartition, PartitionState] | str, told: Sequence[ReplicaTold]
) -> Iterator[Sentence]:
    if isinstance(eligible, str):
        yield Sentence(f"Which replicas are eligible to lead is not known: {eligible}.")
    for one in told:
        broker = one.lineage.broker_id
        if one.stored is None:
            yield Sentence(f"Broker {broker} has no log of it.", "warning")
        elif isinstance(one.stored, str):
            text = f"Where broker {broker} has its log is not known: {one.stored}."
            yield Sentence(text, "warning")


def _elections(session: Session, where: TopicPartition) -> Section:
    events = [
        one
        for one in session.sampler.events
        if one.kind == "partition" and one.name in (None, str(where))
    ]
    return Section(
        "Events seen",
        [Sentence(f"{one.seen}: {one.text}", one.level) for one in events[::-1]]
        or [Sentence("None since the console began to look.")],
        document=events[::-1],
    )
