"""All topics, from the sample; and one topic: its partitions, configs, and halted replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.client.metadata import TopicPartition, is_under_replicated
from fencepost.console.about_topic import about_topic
from fencepost.console.asked import Asked, path_to
from fencepost.console.listing import FIRST_MAX, ROWS, ROWS_MAX, part_of
from fencepost.console.page import Field, Level, Page, Section, Sentence, Table
from fencepost.console.session import Session, now_ms
from fencepost.console.summary import TopicHealth
from fencepost.views.partition_contents import (
    Contents,
    PartitionContents,
    viewing_contents,
)
from fencepost.views.topics import PartitionView, TopicView, viewing_topic
from fencepost.views.view import count
from fencepost.wire.types import Uuid

SHOW: Final = ("replicas", "contents")
CONTENTS: Final = "contents"
HALTED_SHOWN: Final = 20


async def topics(session: Session, asked: Asked) -> Page:
    """The topics in parts; those in trouble first where that is the order."""
    sample = await session.sample()
    part, fields = part_of(
        session.summary(sample).topics.values(),
        asked,
        ("topics",),
        lambda row: row.name,
        {
            "name": lambda row: 0,
            "trouble": lambda row: (-row.offline, -row.under_replicated),
            "partitions": lambda row: -row.partitions,
        },
    )
    table = Table(
        "topics",
        TopicHealth,
        part.rows,
        {"topic": [path_to("topics", row.name) for row in part.rows]},
        [row.level for row in part.rows],
        part.total,
    )
    shown = f"{count(part.total, 'topic')} of {len(sample.topics)}"
    return Page(
        "Topics",
        [Section("", [Sentence(f"{shown}.")], [table], list(part.rows))],
        sample.taken_at_ms,
        fields=fields,
        more=part.more,
    )


async def topic(session: Session, asked: Asked) -> Page:
    """A topic as its brokers describe it now, with what is in its partitions if that is asked
    for."""
    name, show = asked.text("topic"), asked.choice("show", SHOW)
    first = asked.number("first", 0, 0, FIRST_MAX)
    limit = asked.number("rows", ROWS, 1, ROWS_MAX)
    found = await about_topic(session, name, viewing_topic(session.cluster, name))
    shown = found.partitions[first : first + limit]
    rows, notes = await _with_contents(session, name, shown) if show == CONTENTS else (shown, [])
    more = None
    if first + limit < len(found.partitions):
        more = path_to("topics", name, first=first + limit, rows=limit, show=show)
    configs = [Sentence(f"{key} = {value}") for key, value in sorted(found.configs.items())]
    return Page(
        f"Topic {found.name}",
        [
            Section(
                "Partitions",
                [
                    Sentence(_id_text(found)),
                    Sentence("Its records", link=path_to("topics", name, "records")),
                    Sentence("Its replicas", link=path_to("replication", filter=name)),
                    Sentence("Its configs and defaults", link=path_to("configs", topic=name)),
                    *(Sentence(one.sentence, "warning") for one in found.halted[:HALTED_SHOWN]),
                    *notes,
                ],
                [_partitions(name, rows, len(found.partitions))],
                msgspec.structs.replace(found, partitions=rows),
            ),
            Section("Configs set on it", configs or [Sentence("None.")], document=found.configs),
        ],
        now_ms(),
        fields=[Field("show", "show", show, SHOW)],
        more=more,
    )


def _id_text(topic: TopicView) -> str:
    if topic.id == str(Uuid.ZERO):
        return "It has no id: brokers before Kafka 2.8 give topics none."
    return f"id {topic.id}"


async def _with_contents(
    session: Session, name: str, partitions: list[PartitionView]
) -> tuple[list[PartitionView], list[Sentence]]:
    """The partitions with what is in them, asked of their leaders; and what is not known."""
    nodes = session.cluster.metadata.nodes
    led: dict[int, list[TopicPartition]] = {}
    for one in partitions:
        if one.leader in nodes:
            led.setdefault(one.leader, []).append(TopicPartition(name, one.partition))
    answers = await session.run_each(
        {
            id_: viewing_contents(session.cluster, nodes[id_], wanted)
            for id_, wanted in sorted(led.items())
        }
    )
    told: dict[TopicPartition, Contents] = {}
    notes = [Sentence(f"Three requests to each of {count(len(led), 'leader')} tell of contents.")]
    for id_, answer in answers.items():
        if isinstance(answer, str):
            text = f"What is in the partitions that broker {id_} leads is not known: {answer}."
            notes.append(Sentence(text, "warning"))
        else:
            told |= answer
    rows: list[PartitionView] = [
        PartitionContents.of(one, told.get(TopicPartition(name, one.partition)))
        for one in partitions
    ]
    return rows, notes


def _partitions(name: str, partitions: Sequence[PartitionView], total: int) -> Table:
    levels: list[Level | None] = [
        "bad" if one.leader < 0 else "warning" if is_under_replicated(one) else None
        for one in partitions
    ]
    kind = type(partitions[0]) if partitions else PartitionView
    links = {"partition": [path_to("topics", name, one.partition) for one in partitions]}
    return Table("partitions", kind, partitions, links, levels, total)
