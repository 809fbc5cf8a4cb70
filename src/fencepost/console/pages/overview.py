"""The first page: how the cluster is, its brokers, and what was seen to change."""

from __future__ import annotations

from itertools import islice
from typing import ClassVar, Final

from fencepost.client.metadata import Node
from fencepost.console.asked import Asked, path_to
from fencepost.console.changes import changes_between
from fencepost.console.page import Field, Level, Page, Section, Sentence, Table
from fencepost.console.pages.changes import SINCE
from fencepost.console.pages.health import health_of
from fencepost.console.sample import Sample
from fencepost.console.session import Session
from fencepost.views.brokers import NOT_KNOWN
from fencepost.views.times import iso_time
from fencepost.views.view import View

EVENTS_SHOWN: Final = 50
CHANGES_SHOWN: Final = 50
STATE_LEVELS: Final[dict[str, Level]] = {"fenced": "bad", NOT_KNOWN: "warning"}


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
    summary = session.summary(sample)
    since_ms = session.unanswered_since_ms
    health = health_of(sample, summary, since_ms)
    rows = [
        _row(node, _state(node, sample, since_ms), summary.leads[broker], summary.replicas[broker])
        for broker, node in sorted(sample.brokers.items())
    ]
    since = asked.choice("since", ("", *SINCE))
    levels = [STATE_LEVELS.get(row.state) for row in rows]
    return Page(
        f"Cluster {sample.cluster_id}",
        [
            Section("Health", health, document=health),
            Section("Brokers", [], [_brokers(rows, levels)]),
            *_changes(session, sample, since),
            Section(
                "Events seen",
                events or [Sentence("None since the console began to look.")],
                document=list(seen),
            ),
        ],
        sample.taken_at_ms,
        fields=[Field("since", "changes since", since, ("", *SINCE))],
    )


def _changes(session: Session, sample: Sample, since: str) -> list[Section]:
    """What changed since a kept sample, if one is asked for."""
    before = session.samples.since(since, sample.taken_at_ms) if since else None
    if before is None:
        return []
    found = list(islice(changes_between(before, sample), CHANGES_SHOWN + 1))
    sentences = [Sentence(one.text, one.level) for one in found[:CHANGES_SHOWN]]
    link = path_to("changes", since=since)
    if not found:
        sentences = [Sentence("Nothing changed.", "good")]
    more = "All of them, with filters" if len(found) <= CHANGES_SHOWN else "More of them"
    heading = f"Changes since {iso_time(before.taken_at_ms)}"
    return [Section(heading, [*sentences, Sentence(more, link=link)], document=found)]


def _brokers(rows: list[BrokerRow], levels: list[Level | None]) -> Table:
    links = {"broker": [path_to("brokers", row.id) for row in rows]}
    return Table("brokers", BrokerRow, rows, links, levels)


def _state(node: Node, sample: Sample, unanswered_since_ms: int | None) -> str:
    if unanswered_since_ms is not None:
        return NOT_KNOWN
    return "fenced" if node.node_id in sample.fenced else "runs"


def _row(node: Node, state: str, leads: int, replicas: int) -> BrokerRow:
    return BrokerRow(node.node_id, node.address, node.rack, state, leads, replicas)
