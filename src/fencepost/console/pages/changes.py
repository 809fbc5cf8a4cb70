"""What changed since an earlier sample; and the newest sample as a document to keep."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fencepost.console.asked import Asked, path_to
from fencepost.console.changes import Change, changes_between
from fencepost.console.kept_samples import AGES_S, START
from fencepost.console.listing import part_of
from fencepost.console.page import Field, Page, Section, Sentence, Table, Text
from fencepost.console.sample import Sample
from fencepost.console.sample_document import SampleDocument
from fencepost.console.session import Session
from fencepost.views.times import iso_time
from fencepost.views.view import count

SINCE: Final = (*AGES_S, START)
COMMAND: Final = """\
fencepost console --once sample --json > old.json
fencepost console --diff old.json"""


async def changes(session: Session, asked: Asked) -> Page:
    """What differs between the newest sample and a kept one."""
    since = asked.choice("since", SINCE)
    after = await session.sample()
    before = session.samples.since(since, after.taken_at_ms) or after
    return changes_page(before, after, asked, since)


def changes_page(before: Sample, after: Sample, asked: Asked, since: str = "") -> Page:
    """The page about the differences between two samples; `since` is what the first was chosen
    by."""
    found = list(changes_between(before, after))
    part, fields = part_of(
        found,
        asked,
        ("changes",),
        lambda one: f"{one.kind} {one.name}",
        {"kind": lambda one: one.kind, "level": _rank},
    )
    if since:
        fields.insert(0, Field("since", "since", since, SINCE))
    counted = ", ".join(
        f"{what} ({number})" for what, number in sorted(Counter(map(_of, found)).items())
    )
    table = Table(
        "changes",
        Change,
        part.rows,
        {"name": [_link(one) for one in part.rows]},
        [None if one.level == "note" else one.level for one in part.rows],
        part.total,
    )
    return Page(
        f"Changes since {iso_time(before.taken_at_ms)}",
        [
            Section("", _sentences(before, after, counted), [table], list(part.rows)),
        ],
        after.taken_at_ms,
        fields=fields,
        more=None if part.more is None else _with_since(part.more, since),
    )


def _sentences(before: Sample, after: Sample, counted: str) -> list[Sentence]:
    between_s = (after.taken_at_ms - before.taken_at_ms) / 1000
    found = [
        Sentence(
            f"Between {iso_time(before.taken_at_ms)} and {iso_time(after.taken_at_ms)}"
            f" ({between_s:.0f} s): {counted or 'nothing changed'}."
        )
    ]
    if before.cluster_id != after.cluster_id:
        text = f"These are samples of two clusters: {before.cluster_id} and {after.cluster_id}."
        found.insert(0, Sentence(text, "warning"))
    missing = [
        name
        for name, is_known in (
            ("groups", before.groups is not None and after.groups is not None),
            ("the quorum", before.quorum is not None and after.quorum is not None),
        )
        if not is_known
    ]
    if missing:
        text = f"One of the samples does not have {' and '.join(missing)}: that is not compared."
        found.append(Sentence(text))
    return found


def _of(change: Change) -> str:
    return f"{change.what} of {change.kind if change.kind == 'quorum' else change.kind + 's'}"


def _rank(change: Change) -> int:
    return ("bad", "warning", "note", "good").index(change.level)


def _link(change: Change) -> str | None:
    if change.kind == "broker":
        return path_to("brokers", change.name)
    if change.kind == "quorum":
        return path_to("quorum")
    if change.after is None:
        return None
    if change.kind == "partition":
        topic, _, number = change.name.rpartition("-")
        return path_to("topics", topic, number)
    return path_to("topics" if change.kind == "topic" else "groups", change.name)


def _with_since(more: str, since: str) -> str:
    return f"{more}&since={since}" if since else more


async def sample(session: Session, asked: Asked) -> Page:
    """The newest sample, for `--diff` to compare a later one with."""
    newest = await session.sample()
    kept = session.samples.times_ms
    first = iso_time(kept[0]) if kept else "none yet"
    return Page(
        "Sample",
        [
            Section(
                "",
                [
                    Sentence(
                        f"Taken in {newest.took_ms:.0f} ms:"
                        f" {count(len(newest.brokers), 'broker')},"
                        f" {count(len(newest.topics), 'topic')},"
                        f" {count(session.summary(newest).partitions, 'partition')}."
                    ),
                    Sentence(
                        f"{count(len(kept), 'sample')} kept, the first of {first}.",
                        link=path_to("changes", since=START),
                    ),
                ],
                document=SampleDocument.of(newest),
            ),
            Section(
                "Before and after, on the command line", (), [Text("compare", COMMAND)], COMMAND
            ),
        ],
        newest.taken_at_ms,
        refresh_s=None,
    )
