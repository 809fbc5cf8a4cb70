"""The matrix of partitions and brokers: who leads, who is in sync, and who is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from fencepost.client.admin import TOPIC_RESOURCE
from fencepost.client.config_descriptions import describing_many_configs
from fencepost.client.metadata import Node, TopicPartition
from fencepost.client.replicas import PartitionState
from fencepost.console.asked import Asked, path_to
from fencepost.console.listing import FIRST_MAX, ROWS_MAX
from fencepost.console.page import Cell, Field, Level, Matrix, MatrixRow, Page, Section, Sentence
from fencepost.console.sample import Sample
from fencepost.console.session import Session, now_ms
from fencepost.console.summary import TROUBLES
from fencepost.views.replica_details import viewing_eligible, viewing_stored
from fencepost.views.replication import (
    KEY,
    ReplicaPlace,
    ReplicatedPartition,
    StoredIn,
    replicated_partition,
)
from fencepost.views.sizes import size_text
from fencepost.views.view import count

ROWS: Final = 50
REQUESTS_MAX: Final = 3
"""What a page may ask a cluster for without being told to ask more."""

ALL, AT_MIN_ISR = "all", "at-min-isr"
SHOW: Final = (ALL, *TROUBLES, AT_MIN_ISR)
NAMES_AT_ONCE: Final = 10_000
"""Topics whose min.insync.replicas one DescribeConfigs asks for."""

MIN_ISR: Final = "min.insync.replicas"
MIN_ISR_FRESH_MS: Final = 60_000

LEVELS: Final[dict[str, Level | None]] = {
    "leader": "good",
    "in sync": None,
    "eligible": "warning",
    "out of sync": "warning",
    "offline": "bad",
}


@dataclass(slots=True)
class MinIsr:
    """The min.insync.replicas of topics, asked for at most once a minute."""

    taken_at_ms: int = 0
    by_topic: Mapping[str, int] = field(default_factory=dict)

    async def of(self, session: Session, sample: Sample) -> MinIsr:
        """As they are, or were a minute ago. Raises ClientError."""
        if now_ms() - self.taken_at_ms > MIN_ISR_FRESH_MS:
            names = list(sample.topics)
            found: dict[str, int] = {}
            for first in range(0, min(len(names), REQUESTS_MAX * NAMES_AT_ONCE), NAMES_AT_ONCE):
                asked_for = names[first : first + NAMES_AT_ONCE]
                configs = await session.run(
                    describing_many_configs(session.cluster, TOPIC_RESOURCE, asked_for, [MIN_ISR])
                )
                found |= {
                    topic: int(one.value)
                    for topic, entries in configs.items()
                    for one in entries
                    if one.value is not None and one.value.isdecimal()
                }
            self.taken_at_ms, self.by_topic = now_ms(), found
        return self


@dataclass(frozen=True, slots=True)
class Details:
    """What brokers told of the rows shown; `notes` say what they did not."""

    eligible: Mapping[TopicPartition, PartitionState] = field(default_factory=dict)
    stored: Mapping[int, Mapping[TopicPartition, StoredIn]] = field(default_factory=dict)
    notes: Sequence[str] = ()


async def replication(session: Session, asked: Asked) -> Page:
    """Partitions by brokers, in parts; details of the rows shown where they cost little."""
    sample = await session.sample()
    show, wanted = asked.choice("show", SHOW), asked.text("filter")
    details_asked = asked.choice("details", ("auto", "none", "all"))
    first = asked.number("first", 0, 0, FIRST_MAX)
    rows = asked.number("rows", ROWS, 1, ROWS_MAX)
    total, chosen = await _chosen(session, sample, show, wanted)
    shown = list(islice(chosen, first, first + rows))
    details = await _details(session, sample, shown, details_asked)
    views = [_partition(sample, where, details) for where in shown]
    matrix = _matrix(sample, views, total)
    text = f"{count(total, 'partition')} of {session.summary(sample).partitions}"
    sentences = [Sentence(f"{text}."), *map(Sentence, details.notes)]
    more = None
    if first + len(shown) < total:
        query = {"show": show, "filter": wanted or None, "first": first + rows}
        query["rows"] = rows if rows != ROWS else None
        query["details"] = details_asked if details_asked != "auto" else None
        more = path_to("replication", **query)
    moving = Sentence("Reassignments in progress", link=path_to("reassignments"))
    return Page(
        "Replication",
        [Section("", [*sentences, moving], [matrix], views)],
        sample.taken_at_ms,
        fields=[
            Field("show", "show", show, SHOW),
            Field("filter", "topic contains", wanted),
            Field("details", "details", details_asked, ("auto", "none", "all")),
        ],
        more=more,
    )


async def _chosen(
    session: Session, sample: Sample, show: str, wanted: str
) -> tuple[int, Iterator[TopicPartition]]:
    """How many partitions are chosen, and these in order."""
    if show == ALL:
        names = sorted(name for name in sample.topics if wanted in name)
        total = sum(len(sample.topics[name].partitions) for name in names)
        return total, (
            TopicPartition(name, number)
            for name in names
            for number in sorted(sample.topics[name].partitions)
        )
    if show == AT_MIN_ISR:
        least = (await session.memory(MinIsr).of(session, sample)).by_topic
        found = [
            TopicPartition(name, number)
            for name, topic in sorted(sample.topics.items())
            if wanted in name
            for number, one in sorted(topic.partitions.items())
            if len(one.isr) <= least.get(name, 0)
        ]
    else:
        troubled = session.summary(sample).troubled[show]
        found = [TopicPartition(*where) for where in troubled if wanted in where[0]]
    return len(found), iter(found)


async def _details(
    session: Session, sample: Sample, shown: Sequence[TopicPartition], asked_for: str
) -> Details:
    """Who is eligible (one request), and where logs are (one for each broker), if REQUESTS_MAX
    allows it or all are asked for."""
    if asked_for == "none" or not shown:
        return Details()
    wanted: dict[int, list[TopicPartition]] = {}
    for where in shown:
        for broker in sample.topics[where.topic].partitions[where.partition].replicas:
            wanted.setdefault(broker, []).append(where)
    notes = []
    eligible = await session.run_each({0: viewing_eligible(session.cluster, shown)})
    if isinstance(eligible[0], str):
        notes.append(f"Which replicas are eligible to lead is not known: {eligible[0]}.")
    nodes = _reachable(sample, wanted)
    stored: dict[int, Mapping[TopicPartition, StoredIn]] = {}
    if asked_for == "auto" and len(nodes) > REQUESTS_MAX - 1:
        notes.append(
            f"Sizes, lags and log directories are on {len(nodes)} brokers, each to be asked by a"
            " request of its own: details=all asks them."
        )
    else:
        answers = await session.run_each(
            {id_: viewing_stored(session.cluster, node, wanted[id_]) for id_, node in nodes.items()}
        )
        for broker, answer in answers.items():
            if isinstance(answer, str):
                notes.append(f"Broker {broker} does not tell of its log directories: {answer}.")
            else:
                stored[broker] = answer
    return Details({} if isinstance(eligible[0], str) else eligible[0], stored, notes)


def _reachable(sample: Sample, brokers: Mapping[int, object]) -> dict[int, Node]:
    return {
        id_: sample.brokers[id_]
        for id_ in sorted(brokers)
        if id_ in sample.brokers and id_ not in sample.fenced
    }


def _partition(sample: Sample, where: TopicPartition, details: Details) -> ReplicatedPartition:
    found = details.eligible.get(where)
    return replicated_partition(
        where.topic,
        sample.topics[where.topic].partitions[where.partition],
        sample.fenced,
        eligible=found.eligible if found is not None else None,
        last_known=found.last_known if found is not None else None,
        stored={
            broker: replicas[where]
            for broker, replicas in details.stored.items()
            if where in replicas
        },
    )


def _matrix(sample: Sample, views: Sequence[ReplicatedPartition], total: int) -> Matrix:
    held = {place.broker for one in views for place in one.replicas}
    brokers = sorted(held | sample.brokers.keys())
    return Matrix(
        "replicas of partitions on brokers",
        "partition",
        [_broker_heading(broker, sample) for broker in brokers],
        [_row(one, brokers) for one in views],
        KEY,
        "about it",
        total,
    )


def _broker_heading(broker: int, sample: Sample) -> str:
    if broker in sample.fenced:
        return f"{broker} (fenced)"
    return f"{broker}" if broker in sample.brokers else f"{broker} (gone)"


def _row(one: ReplicatedPartition, brokers: Sequence[int]) -> MatrixRow:
    places = {place.broker: place for place in one.replicas}
    states = {place.state for place in one.replicas}
    level: Level | None = None
    if one.leader < 0:
        level = "bad"
    elif states - {"leader", "in sync"}:
        level = "warning"
    return MatrixRow(
        f"{one.topic}-{one.partition}",
        [_cell(places[broker]) if broker in places else None for broker in brokers],
        path_to("topics", one.topic, one.partition),
        _about(one),
        level,
    )


def _cell(place: ReplicaPlace) -> Cell:
    text, meaning = place.letters, f"broker {place.broker}: {place.state}"
    if place.preferred:
        meaning += ", preferred leader"
    if place.size_bytes is not None:
        text += f" {size_text(place.size_bytes)}"
        meaning += f", in {place.log_dir}"
    if place.offset_lag:
        text += f" −{place.offset_lag}"
        meaning += f", {place.offset_lag} behind"
    return Cell(text, meaning, LEVELS[place.state])


def _about(one: ReplicatedPartition) -> str:
    """What the cells do not say."""
    found = [f"epoch {one.leader_epoch}"] if one.leader_epoch >= 0 else []
    if one.leader < 0:
        found.append("no leader")
    elif one.replicas[0].state != "leader":
        found.append(f"preferred leader {one.replicas[0].broker} does not lead")
    if one.last_known:
        found.append(f"last known eligible {', '.join(map(str, one.last_known))}")
    return "; ".join(found)
