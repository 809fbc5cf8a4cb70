"""All topics, from the sample; and one topic: its partitions, configs, and halted replicas."""

from __future__ import annotations

from typing import Final

from fencepost.client.errors import BrokerError
from fencepost.console.asked import Asked, NotThere, path_to
from fencepost.console.listing import part_of
from fencepost.console.page import Level, Page, Section, Sentence, Table
from fencepost.console.session import Session, now_ms
from fencepost.console.summary import TopicHealth
from fencepost.views.topics import PartitionView, viewing_topic
from fencepost.views.view import count
from fencepost.wire.errors import ErrorCode

NO_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


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
    """A topic as its brokers describe it now."""
    name = asked.text("topic")
    try:
        found = await session.run(viewing_topic(session.cluster, name))
    except BrokerError as error:
        if error.code not in NO_TOPIC:
            raise
        raise NotThere(f"no topic {name!r} in this cluster") from None
    configs = [Sentence(f"{key} = {value}") for key, value in sorted(found.configs.items())]
    return Page(
        f"Topic {found.name}",
        [
            Section(
                "Partitions",
                [
                    Sentence(f"id {found.id}"),
                    *(Sentence(one.sentence, "warning") for one in found.halted),
                ],
                [_partitions(found.partitions)],
                found,
            ),
            Section("Configs set on it", configs or [Sentence("None.")], document=found.configs),
        ],
        now_ms(),
    )


def _partitions(partitions: list[PartitionView]) -> Table:
    levels: list[Level | None] = [
        "bad" if one.leader < 0 else "warning" if len(one.isr) < len(one.replicas) else None
        for one in partitions
    ]
    return Table("partitions", PartitionView, partitions, levels=levels)
