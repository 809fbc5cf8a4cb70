"""Transactions: those that coordinators know, one of them, and why readers of a partition wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError, UnsupportedApi
from fencepost.client.metadata import TopicPartition
from fencepost.client.stable_offset import (
    OpenTransaction,
    StableOffset,
    Verdict,
    explaining,
    finding_refusals,
)
from fencepost.client.transaction_admin import (
    ListedTransaction,
    TransactionDescription,
    describing_transaction,
    listing_transactions,
)
from fencepost.console.asked import Asked, BadQuery, NotThere, path_to
from fencepost.console.listing import part_of
from fencepost.console.page import (
    Block,
    Drawing,
    Field,
    Level,
    Page,
    Section,
    Sentence,
    Table,
    Text,
)
from fencepost.console.sample import Sample
from fencepost.console.session import Session, now_ms
from fencepost.views.stable_offset_drawing import draw_stable_offset_svg, draw_stable_offset_text
from fencepost.views.times import iso_time
from fencepost.views.transactions import (
    DescribedTransaction,
    OpenTransactionView,
    StableOffsetView,
    TransactionListed,
    described_transaction,
    explanation,
)
from fencepost.views.view import count
from fencepost.wire.errors import ErrorCode

STATES: Final = (
    "any state",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Empty",
    "PrepareEpochFence",
    "Dead",
)
UNFINISHED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
EXPLAINED_MAX: Final = 50
"""Partitions that one page explains: each open transaction in them takes a request or two."""

EXPLAINING_TIMEOUT_S: Final = 10.0

LEVELS: Final[dict[Verdict, Level]] = {
    Verdict.NOTHING: "good",
    Verdict.PASSING: "good",
    Verdict.ONGOING: "note",
    Verdict.ENDING: "note",
    Verdict.OVERDUE: "bad",
    Verdict.REFUSED: "bad",
    Verdict.HANGING: "bad",
}


async def transactions(session: Session, asked: Asked) -> Page:
    """The transactional ids of all coordinators, and what holds the partitions named."""
    state = asked.choice("state", STATES)
    wanted = asked.text("explain")
    sample = await session.sample()
    partitions = _partitions(sample, wanted)
    found, unknown = await _listed(session, sample, [] if state == STATES[0] else [state])
    part, fields = part_of(
        map(TransactionListed.of, found),
        asked,
        ("transactions",),
        lambda one: one.transactional_id,
        {
            "unfinished first": lambda one: one.state not in UNFINISHED,
            "name": lambda one: 0,
        },
    )
    rows = part.rows
    table = Table(
        "transactional ids",
        TransactionListed,
        rows,
        {"transactional-id": [path_to("transactions", one.transactional_id) for one in rows]},
        ["warning" if one.state in UNFINISHED else None for one in rows],
        part.total,
    )
    known = " that brokers tell of" if unknown else ""
    each = "Each broker is asked for the ids that it coordinates: Kafka has no other way."
    listed = Section(
        "Transactional ids",
        [Sentence(f"{count(part.total, 'transactional id')}{known}."), Sentence(each), *unknown],
        [table],
        list(rows),
    )
    explained = await _explained(session, sample, partitions) if partitions else []
    return Page(
        "Transactions",
        [*explained, listed],
        now_ms(),
        fields=[
            Field("state", "state", state, STATES),
            *fields,
            Field("explain", "why do readers wait (TOPIC or TOPIC:PARTITION)", wanted),
        ],
        more=_with(part.more, state=state, explain=wanted),
    )


async def _listed(
    session: Session, sample: Sample, states: list[str]
) -> tuple[list[ListedTransaction], list[Sentence]]:
    """What each broker that is not fenced coordinates, and which do not tell."""
    answers = await session.run_each(
        {
            id_: listing_transactions(session.cluster, states=states, node=node)
            for id_, node in sorted(sample.brokers.items())
            if id_ not in sample.fenced
        }
    )
    found: list[ListedTransaction] = []
    unknown = []
    for id_, answer in answers.items():
        if isinstance(answer, str):
            text = f"What broker {id_} coordinates is not known: {answer}."
            unknown.append(Sentence(text, "warning"))
        else:
            found += answer
    return found, unknown


def _with(more: str | None, *, state: str, explain: str) -> str | None:
    if more is None:
        return None
    given = {"state": state if state != STATES[0] else None, "explain": explain or None}
    query = path_to(**given).partition("?")[2]
    return f"{more}&{query}" if query else more


def _partitions(sample: Sample, wanted: str) -> list[TopicPartition]:
    """The partitions of "topic" or "topic:0". Raises BadQuery, NotThere."""
    if not wanted:
        return []
    name, colon, number = wanted.rpartition(":")
    if not colon:
        name = wanted
    elif not (number.isascii() and number.isdecimal() and len(number) <= 10):
        raise BadQuery("explain", wanted, "TOPIC or TOPIC:PARTITION is allowed")
    topic = sample.topics.get(name)
    if topic is None or (colon and int(number) not in topic.partitions):
        raise NotThere(f"no partition {wanted!r} in this cluster")
    return [TopicPartition(name, one) for one in ([int(number)] if colon else topic.partition_ids)]


async def _explained(
    session: Session, sample: Sample, partitions: Sequence[TopicPartition]
) -> list[Section]:
    """Why readers of the partitions wait; those without a leader cannot be asked about."""
    at_ms = now_ms()
    notes = []
    led = [
        where
        for where in partitions[:EXPLAINED_MAX]
        if where.topic not in sample.topics
        or sample.topics[where.topic].partitions[where.partition].leader_id >= 0
    ]
    leaderless = [f"{where}" for where in partitions[:EXPLAINED_MAX] if where not in led]
    if leaderless:
        text = f"No broker leads {', '.join(leaderless)}: nothing of it can be read."
        notes.append(Sentence(text, "bad"))
    if len(partitions) > EXPLAINED_MAX:
        text = f"Only the first {EXPLAINED_MAX} of {len(partitions)} partitions were looked at."
        notes.append(Sentence(text))
    told = await session.run_each(
        {0: explaining(session.cluster, led, at_ms)}, EXPLAINING_TIMEOUT_S
    )
    if isinstance(told[0], str):
        notes.append(Sentence(f"What holds readers is not known: {told[0]}.", "warning"))
    sections = [] if isinstance(told[0], str) else explained_sections(told[0], at_ms)
    return [Section("", notes), *sections] if notes else sections


def explained_sections(found: Sequence[StableOffset], at_ms: int) -> list[Section]:
    """A section for each partition that is held; one for all that are not."""
    free = [one for one in found if one.verdict is Verdict.NOTHING]
    sections = [_held(one, at_ms) for one in found if one.verdict is not Verdict.NOTHING]
    if free:
        lines = [Sentence(text, "good") for one in free for text in explanation(one, at_ms)]
        views = [StableOffsetView.of(one) for one in free]
        sections.append(Section("Partitions where nothing waits", lines, document=views))
    return sections


def _held(one: StableOffset, at_ms: int) -> Section:
    view = StableOffsetView.of(one)
    lines = [text.strip() for text in explanation(one, at_ms)]
    level = LEVELS[one.verdict]
    blocks: list[Block] = []
    if view.open:
        blocks.append(
            Drawing(
                "Offsets from what is read to the high watermark; below, each open transaction from"
                " its first record on.",
                draw_stable_offset_svg(view),
                draw_stable_offset_text(view),
            )
        )
        links = [
            None if row.transactional_id is None else path_to("transactions", row.transactional_id)
            for row in view.open
        ]
        table = Table(
            "open transactions", OpenTransactionView, view.open, {"transactional-id": links}
        )
        blocks.append(table)
    if view.release is not None:
        blocks.append(Text("what releases the readers", view.release))
    return Section(
        f"Why readers of {view.partition} wait",
        [Sentence(text, level if not place else "note") for place, text in enumerate(lines)],
        blocks,
        view,
    )


# -- one transactional id --------------------------------------------------------------------------


async def transaction(session: Session, asked: Asked) -> Page:
    """A transactional id as its coordinator describes it, and the partitions that it holds."""
    name = asked.text("id")
    at_ms = now_ms()
    try:
        described, refusing = await session.run(_describing(session.cluster, name))
    except BrokerError as error:
        if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        raise NotThere(f"no coordinator knows the transactional id {name!r}") from None
    except UnsupportedApi as error:
        text = f"It cannot be described: {error}. Before Kafka 3.0 brokers do not tell."
        section = Section("", [Sentence(text, "warning")])
        return Page(f"Transactional id {name}", [section], now_ms())
    held = described.partitions[:EXPLAINED_MAX]
    explained: list[Section] = []
    if held and not described.is_over:
        explained = await _explained(session, await session.sample(), held)
    return Page(
        f"Transactional id {name}",
        [_described(described, refusing, at_ms), *explained],
        now_ms(),
    )


def _describing(
    view: ClusterView[Any], name: str
) -> Conversation[tuple[TransactionDescription, list[OpenTransaction]]]:
    described = yield from describing_transaction(view, name)
    return described, (yield from finding_refusals(view, described))


def _described(
    found: TransactionDescription, refusing: list[OpenTransaction], at_ms: int
) -> Section:
    view: DescribedTransaction = described_transaction(found, refusing)
    sentences = [
        Sentence(
            f"Broker {found.coordinator_id} coordinates it: {found.state}, producer"
            f" {found.producer_id} epoch {found.producer_epoch}, timeout"
            f" {found.timeout_ms / 1000:g} s."
        )
    ]
    if found.start_ms >= 0 and not found.is_over:
        running_s = max(0, at_ms - found.start_ms) / 1000
        text = f"Its transaction began {iso_time(found.start_ms)}, {running_s:.0f} s ago."
        sentences.append(Sentence(text))
    if view.partitions:
        names = ", ".join(view.partitions[:EXPLAINED_MAX])
        more = len(view.partitions) - EXPLAINED_MAX
        text = f"Partitions without its marker yet: {names}"
        sentences.append(Sentence(f"{text}; and {more} more." if more > 0 else f"{text}."))
    else:
        sentences.append(Sentence("No partition waits for its marker.", "good"))
    sentences += [
        Sentence(f"{where} refuses its marker.", "bad", path_to("transactions", explain=where))
        for where in view.refused_by
    ]
    return Section("At its coordinator", sentences, document=view)
