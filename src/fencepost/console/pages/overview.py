"""The first page: how the cluster is, its brokers, and what was seen to change."""

from __future__ import annotations

from typing import ClassVar, Final

from fencepost.client.metadata import Node
from fencepost.console.asked import Asked
from fencepost.console.page import Level, Page, Section, Sentence, Table
from fencepost.console.pages.health import health_of
from fencepost.console.sample import Sample
from fencepost.console.session import Session
from fencepost.views.view import View

EVENTS_SHOWN: Final = 50


class BrokerRow(View, frozen=True):
    """A broker of the sample; `leads` and `replicas` count partitions."""

    columns: ClassVar = {
        "broker": "id",
        "address": "address",
        "rack": "rack",
        "state": "state",
        "leads": "leads",
        "replicas": "replicas",
    }

    id: int
    address: str
    rack: str | None
    state: str
    leads: int
    replicas: int


async def overview(session: Session, asked: Asked) -> Page:
    """The cluster's health in sentences, its brokers, and the newest events."""
    sample = await session.sample()
    seen = session.sampler.events[::-1][:EVENTS_SHOWN]
    events = [Sentence(f"{event.seen}: {event.text}", event.level) for event in seen]
    rows = _brokers(sample)
    levels: list[Level | None] = ["bad" if row.state == "fenced" else None for row in rows]
    return Page(
        f"Cluster {sample.cluster_id}",
        [
            Section("Health", health_of(sample), document=health_of(sample)),
            Section("Brokers", [], [Table("brokers", BrokerRow, rows, levels=levels)]),
            Section(
                "Events seen",
                events or [Sentence("None since the console began to look.")],
                document=list(seen),
            ),
        ],
        sample.taken_at_ms,
    )


def _brokers(sample: Sample) -> list[BrokerRow]:
    leads: dict[int, int] = {}
    replicas: dict[int, int] = {}
    for topic in sample.topics.values():
        for one in topic.partitions.values():
            leads[one.leader_id] = leads.get(one.leader_id, 0) + 1
            for broker in one.replicas:
                replicas[broker] = replicas.get(broker, 0) + 1
    return [
        _row(node, sample, leads.get(broker, 0), replicas.get(broker, 0))
        for broker, node in sorted(sample.brokers.items())
    ]


def _row(node: Node, sample: Sample, leads: int, replicas: int) -> BrokerRow:
    state = "fenced" if node.node_id in sample.fenced else "runs"
    return BrokerRow(node.node_id, node.address, node.rack, state, leads, replicas)
