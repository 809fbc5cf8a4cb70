"""Brokers: what each leads and has; and one broker with its disks, features and quotas."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from fencepost.client.client_quotas import Quotas, describing_client_quotas
from fencepost.client.conversation import Conversation
from fencepost.client.features import describing_features
from fencepost.client.metadata import Node
from fencepost.client.replicas import describing_log_dirs
from fencepost.console.asked import Asked, NotThere, path_to
from fencepost.console.listing import part_of
from fencepost.console.page import Level, Page, Section, Sentence, Table
from fencepost.console.sample import Sample
from fencepost.console.session import Session, now_ms
from fencepost.console.summary import Summary
from fencepost.views.brokers import BrokerView, quorum_role
from fencepost.views.features import FeatureView
from fencepost.views.log_dirs import LogDirView, StoredReplica
from fencepost.views.sizes import size_text
from fencepost.views.view import View, count

REPLICAS_SHOWN: Final = 50
BROKER_MAX: Final = (1 << 31) - 1
FULL_AT: Final = 0.9
QUORUM_ROLES: Final = {"leader": "the leader", "voter": "a voter", "observer": "an observer"}


class LogDirRow(View, frozen=True):
    """A log directory as a table shows it."""

    columns: ClassVar = {
        "directory": "path",
        "condition": "condition",
        "replicas": "replicas",
        "logs": "logs",
        "volume": "volume",
        "free": "free",
    }

    path: str
    condition: str
    replicas: int
    logs: str
    volume: str | None
    free: str | None

    @classmethod
    def of(cls, one: LogDirView) -> LogDirRow:
        return cls(
            one.path,
            one.condition,
            len(one.replicas),
            size_text(sum(replica.size_bytes for replica in one.replicas)),
            None if one.total_bytes is None else size_text(one.total_bytes),
            None if one.usable_bytes is None else size_text(one.usable_bytes),
        )


async def brokers(session: Session, asked: Asked) -> Page:
    """All brokers, of the sample: no request."""
    sample = await session.sample()
    summary = session.summary(sample)
    part, fields = part_of(
        [broker_view(session, sample, node) for node in sample.brokers.values()],
        asked,
        ("brokers",),
        lambda one: f"{one.broker:010} {one.host} {one.rack or ''}",
        {
            "id": lambda one: one.broker,
            "leads": lambda one: -one.leads,
            "out of sync": lambda one: -one.out_of_sync,
        },
    )
    rows = part.rows
    table = Table(
        "brokers",
        BrokerView,
        rows,
        {"broker": [path_to("brokers", one.broker) for one in rows]},
        [_level(one) for one in rows],
        part.total,
    )
    return Page(
        "Brokers",
        [Section("", [*_balance(sample, summary)], [table], list(rows))],
        sample.taken_at_ms,
        fields=fields,
        more=part.more,
    )


def broker_view(session: Session, sample: Sample, node: Node) -> BrokerView:
    """A broker of a sample with what it has; its state, if the cluster still answers."""
    id_, summary = node.node_id, session.summary(sample)
    is_known = session.unanswered_since_ms is None
    return BrokerView(
        id_,
        node.host,
        node.port,
        node.rack,
        id_ in sample.fenced if is_known else None,
        quorum_role(id_, sample.quorum),
        summary.replicas[id_],
        summary.leads[id_],
        summary.out_of_sync[id_],
    )


def _level(one: BrokerView) -> Level | None:
    return "bad" if one.fenced else "warning" if one.out_of_sync or one.fenced is None else None


def _balance(sample: Sample, summary: Summary) -> list[Sentence]:
    """How evenly partitions are led."""
    alive = sorted(set(sample.brokers) - sample.fenced)
    if not alive or not summary.partitions:
        return []
    most = max(alive, key=lambda id_: summary.leads[id_])
    least = min(alive, key=lambda id_: summary.leads[id_])
    text = (
        f"Broker {most} leads most, {count(summary.leads[most], 'partition')}; broker {least}"
        f" least, {summary.leads[least]}."
    )
    return [Sentence(text)]


# -- one broker ------------------------------------------------------------------------------------


async def broker(session: Session, asked: Asked) -> Page:
    """One broker: three requests to it or about it, none of them awaited long."""
    sample = await session.sample()
    id_ = asked.number("broker", -1, 0, BROKER_MAX)
    node = sample.brokers.get(id_)
    if node is None:
        there = ", ".join(map(str, sorted(sample.brokers)))
        raise NotThere(f"no broker {id_} in this cluster; there are {there}")
    view = broker_view(session, sample, node)
    sections = [_about(sample, view)]
    cluster = session.cluster
    asking: dict[str, Conversation[Any]] = {"quotas": describing_client_quotas(cluster)}
    if view.fenced:
        text = "It is fenced, and was not asked about itself."
        sections.append(Section("Log directories", [Sentence(text, "warning")]))
    else:
        asking["dirs"] = describing_log_dirs(cluster, node)
        asking["features"] = describing_features(cluster, node)
    told = await session.run_each(asking)
    if not view.fenced:
        sections += [_log_dirs(id_, told["dirs"]), _features(told["features"])]
    sections.append(_quotas(told["quotas"]))
    return Page(f"Broker {id_}", sections, now_ms())


def _about(sample: Sample, view: BrokerView) -> Section:
    states: dict[bool | None, Sentence] = {
        True: Sentence("It is fenced: it is stopped, or cannot be reached.", "bad"),
        False: Sentence("It is in the cluster.", "good"),
        None: Sentence("Whether it is in the cluster is not known now.", "warning"),
    }
    rack = "no rack" if view.rack is None else f"rack {view.rack}"
    sentences = [
        states[view.fenced],
        Sentence(f"Clients reach it at {view.address}; {rack}."),
        Sentence(
            f"It leads {count(view.leads, 'partition')} and has"
            f" {count(view.replicas, 'replica')}, {view.out_of_sync} of them out of sync.",
            "warning" if view.out_of_sync else "note",
        ),
        Sentence("Its configs, beside other brokers'", link=path_to("configs")),
    ]
    if sample.controller_id == view.broker and sample.quorum is None:
        sentences.append(Sentence("It is the controller."))
    if view.quorum_role is not None:
        text = f"In the metadata quorum it is {QUORUM_ROLES[view.quorum_role]}."
        sentences.append(Sentence(text, link=path_to("quorum")))
    return Section("", sentences, document=view)


def _log_dirs(broker_id: int, told: Any) -> Section:
    if isinstance(told, str):
        text = f"Its log directories are not known: {told}."
        return Section("Log directories", [Sentence(text, "warning")])
    views = [LogDirView.of(broker_id, one) for one in told]
    sentences = []
    for one in views:
        level: Level = "bad" if one.error else "note"
        if one.total_bytes and one.usable_bytes is not None and not one.error:
            used = 1 - one.usable_bytes / one.total_bytes
            if used >= FULL_AT:
                text = f"The volume of {one.path} is {100 * used:.0f} % full."
                sentences.append(Sentence(text, "warning"))
        if one.error:
            sentences.append(Sentence(f"{one.path} is {one.condition}.", level))
    largest = sorted(
        (replica for one in views for replica in one.replicas),
        key=lambda replica: (-replica.size_bytes, replica.topic, replica.partition),
    )
    shown = largest[:REPLICAS_SHOWN]
    dirs = Table(
        "log directories",
        LogDirRow,
        [LogDirRow.of(one) for one in views],
        levels=["bad" if one.error else None for one in views],
    )
    links = {"topic": [path_to("topics", one.topic, one.partition) for one in shown]}
    replicas = Table("largest replicas", StoredReplica, shown, links, total=len(largest))
    document = {
        "log_dirs": [LogDirRow.of(one) for one in views],
        "largest": shown,
        "replicas": len(largest),
    }
    return Section("Log directories", sentences, [dirs, replicas], document)


def _features(told: Any) -> Section:
    if isinstance(told, str):
        return Section("Features", [Sentence(f"They are not known: {told}.", "warning")])
    found = [FeatureView.of(one) for one in told]
    lines = [
        Sentence(
            f"{one.name}: it can run {one.min_level} to {one.max_level}; {one.level} is in force"
        )
        for one in found
    ]
    return Section("Features", lines or [Sentence("It tells of none.")], document=found)


def _quotas(told: Any) -> Section:
    """Quotas are of the cluster, and each broker holds clients to them by itself."""
    heading = "Quotas it holds clients to"
    if isinstance(told, str):
        return Section(heading, [Sentence(f"They are not known: {told}.", "warning")])
    found: Quotas = told
    lines = [
        Sentence(f"{whom}: {key} {value:g}")
        for whom, values in found.items()
        for key, value in values.items()
    ]
    if not lines:
        lines = [Sentence("None.")]
    more = len(lines) - REPLICAS_SHOWN
    shown = lines[:REPLICAS_SHOWN]
    if more > 0:
        shown.append(Sentence(f"{count(more, 'more quota')}."))
    return Section(heading, shown, document={f"{whom}": values for whom, values in found.items()})
