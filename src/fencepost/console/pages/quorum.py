"""The metadata quorum: voters, observers, elections that were seen, and the cluster's features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from fencepost.client.features import FeatureLevel, describing_features
from fencepost.client.quorum import QuorumDescription, QuorumLeader, describing_quorum
from fencepost.console.asked import Asked
from fencepost.console.page import Page, Section, Sentence, Table
from fencepost.console.session import Session, now_ms
from fencepost.views.features import FeatureView
from fencepost.views.quorum import QuorumReplicaRow, QuorumView, quorum_rows, quorum_view
from fencepost.views.view import View, count

LAG_NOTED: Final = 100
"""Records that a voter may lack without a word about it."""

SILENT_MS: Final = 5_000
"""A voter that has not fetched for so long is named; `controller.quorum.fetch.timeout.ms` is 2,000
by default."""


class FeatureRow(View, frozen=True):
    """A feature as a table shows it."""

    columns: ClassVar = {"feature": "name", "finalized": "level", "supported": "supported"}

    name: str
    level: str
    supported: str

    @classmethod
    def of(cls, one: FeatureView) -> FeatureRow:
        level = f"{one.level}" if one.level else "off"
        return cls(one.name, level, f"{one.min_level} to {one.max_level}")


async def quorum(session: Session, asked: Asked) -> Page:
    """The quorum as its leader sees it now, and the features as a broker tells them."""
    view = session.cluster
    told: dict[str, Any] = await session.run_each(
        {
            "quorum": describing_quorum(view, QuorumLeader(asks_controllers=False)),
            "features": describing_features(view),
        }
    )
    sections = [_quorum(told["quorum"], now_ms()), _elections(session), _features(told["features"])]
    return Page("Quorum", sections, now_ms())


def _quorum(found: QuorumDescription | str, at_ms: int) -> Section:
    if isinstance(found, str):
        text = f"The quorum cannot be described: {found}. Before Kafka 3.3 brokers do not tell."
        return Section("Quorum", [Sentence(text, "warning")])
    view = quorum_view(found)
    rows = quorum_rows(view, at_ms)
    return Section(
        "Voters and observers",
        [
            Sentence(
                f"Node {view.leader_id} leads in epoch {view.leader_epoch}; records up to offset"
                f" {view.high_watermark} are committed."
            ),
            *quorum_sentences(view, at_ms),
            Sentence(
                "Ids of snapshots are not known: controllers tell them to each other, not to"
                " clients of brokers."
            ),
        ],
        [Table("nodes with the metadata log", QuorumReplicaRow, rows)],
        view,
    )


def quorum_sentences(view: QuorumView, at_ms: int) -> Iterator[Sentence]:
    """Which voters are behind or silent, and what that means for elections."""
    voters = [one for one in view.replicas if one.role != "observer"]
    current = 0
    for one in voters:
        if one.role == "leader":
            current += 1
            continue
        silent_ms = at_ms - one.last_fetch_timestamp
        if one.lag is None:
            yield Sentence(f"Voter {one.node_id} has not fetched from this leader.", "warning")
        elif one.last_fetch_timestamp >= 0 and silent_ms > SILENT_MS:
            text = f"Voter {one.node_id} fetched last {silent_ms / 1000:.0f} s ago"
            yield Sentence(f"{text} and lacks {count(one.lag, 'record')}.", "warning")
        else:
            current += 1
            if one.lag > LAG_NOTED:
                text = f"Voter {one.node_id} lacks {count(one.lag, 'record')}."
                yield Sentence(text, "warning")
    if len(voters) == 1:
        yield Sentence("There is one voter: without it nothing can be committed.")
        return
    majority = len(voters) // 2 + 1
    spare = current - majority
    text = f"{current} of {count(len(voters), 'voter')} follow; {majority} are needed"
    if spare < 0:
        yield Sentence(f"{text}: nothing can be committed.", "bad")
    elif spare == 0:
        yield Sentence(f"{text}: none may fail.", "warning")
    else:
        yield Sentence(f"{text}: {spare} may fail.", "good")


def _elections(session: Session) -> Section:
    seen = [one for one in session.sampler.events if one.kind == "quorum"][::-1]
    sentences = [Sentence(f"{one.seen}: {one.text}", one.level) for one in seen]
    none = Sentence("None since the console began to look.")
    return Section("Elections seen", sentences or [none], document=seen)


def _features(levels: list[FeatureLevel] | str) -> Section:
    if isinstance(levels, str):
        return Section("Features", [Sentence(f"They are not known: {levels}.", "warning")])
    found = [FeatureView.of(one) for one in levels]
    version = next((one for one in found if one.name == "metadata.version"), None)
    sentences = []
    if version is not None:
        text = f"metadata.version is {version.level}"
        if version.level < version.max_level:
            text += f"; the broker that was asked can run {version.max_level}"
        sentences.append(Sentence(f"{text}."))
    else:
        sentences.append(Sentence("No metadata.version is finalized, or brokers do not tell it."))
    rows = [FeatureRow.of(one) for one in found]
    return Section("Features", sentences, [Table("features", FeatureRow, rows)], found)
