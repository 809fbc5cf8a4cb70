"""Partitions that move to other brokers now, with how much is copied (KIP-455)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from fencepost.client.errors import UnsupportedApi
from fencepost.client.metadata import PartitionInfo, TopicPartition
from fencepost.client.replicas import Reassignment, listing_reassignments
from fencepost.console.asked import Asked, path_to
from fencepost.console.listing import FIRST_MAX, ROWS, ROWS_MAX
from fencepost.console.page import Page, Section, Sentence, Table
from fencepost.console.sample import Sample
from fencepost.console.session import Session, now_ms
from fencepost.views.moves import PartitionMove, partition_move
from fencepost.views.replica_details import viewing_stored
from fencepost.views.replication import StoredIn
from fencepost.views.view import count

BROKERS_MAX: Final = 20
"""Brokers that one page asks how much they have, each with a request of its own."""


async def reassignments(session: Session, asked: Asked) -> Page:
    """The moves in progress, in parts; sizes are asked of the brokers of the rows shown."""
    first = asked.number("first", 0, 0, FIRST_MAX)
    rows = asked.number("rows", ROWS, 1, ROWS_MAX)
    sample = await session.sample()
    try:
        moving = await session.run(listing_reassignments(session.cluster))
    except UnsupportedApi as error:
        text = f"What moves is not known: {error}. Before Kafka 2.4 brokers do not tell."
        return Page("Reassignments", [Section("", [Sentence(text, "warning")])], now_ms())
    shown = dict(islice(sorted(moving.items()), first, first + rows))
    stored, sentences = await _stored(session, sample, shown)
    views = [_move(sample, where, move, stored) for where, move in shown.items()]
    table = Table(
        "partitions that move",
        PartitionMove,
        views,
        {"partition": [path_to("topics", one.topic, one.partition) for one in views]},
        total=len(moving),
    )
    said = f"{count(len(moving), 'partition')} in progress." if moving else "Nothing moves."
    more = first + rows < len(moving)
    return Page(
        "Reassignments",
        [Section("", [Sentence(said), *sentences], [table], views)],
        now_ms(),
        more=path_to("reassignments", first=first + rows, rows=rows) if more else None,
    )


async def _stored(
    session: Session, sample: Sample, shown: Mapping[TopicPartition, Reassignment]
) -> tuple[dict[int, Mapping[TopicPartition, StoredIn]], list[Sentence]]:
    """What the brokers that have replicas to copy, or copy from, tell of them."""
    wanted: dict[int, list[TopicPartition]] = {}
    for where, move in shown.items():
        info = _info(sample, where)
        for broker in {*move.adding, *(() if info is None else (info.leader_id,))}:
            if broker in sample.brokers and broker not in sample.fenced:
                wanted.setdefault(broker, []).append(where)
    chosen = dict(islice(sorted(wanted.items()), BROKERS_MAX))
    answers = await session.run_each(
        {
            broker: viewing_stored(session.cluster, sample.brokers[broker], partitions)
            for broker, partitions in chosen.items()
        }
    )
    sentences = [
        Sentence(f"Broker {broker} does not tell how much it has: {answer}.", "warning")
        for broker, answer in answers.items()
        if isinstance(answer, str)
    ]
    if len(chosen) < len(wanted):
        text = f"Only {BROKERS_MAX} of {len(wanted)} brokers were asked how much they have."
        sentences.append(Sentence(text))
    return {id_: one for id_, one in answers.items() if not isinstance(one, str)}, sentences


def _move(
    sample: Sample,
    where: TopicPartition,
    move: Reassignment,
    stored: Mapping[int, Mapping[TopicPartition, StoredIn]],
) -> PartitionMove:
    info = _info(sample, where)
    here = {broker: replicas[where] for broker, replicas in stored.items() if where in replicas}
    if info is None:
        return partition_move(where, move, -1, (), here)
    return partition_move(where, move, info.leader_id, info.isr, here)


def _info(sample: Sample, where: TopicPartition) -> PartitionInfo | None:
    topic = sample.topics.get(where.topic)
    return None if topic is None else topic.partitions.get(where.partition)
