"""How a cluster is, in sentences, of a sample of it."""

from __future__ import annotations

from msgspec import structs

from fencepost.console.asked import path_to
from fencepost.console.page import Sentence
from fencepost.console.sample import Sample
from fencepost.console.summary import OFFLINE, UNDER_REPLICATED, Summary
from fencepost.views.times import iso_time
from fencepost.views.view import count


def health_of(
    sample: Sample, summary: Summary, unanswered_since_ms: int | None = None
) -> list[Sentence]:
    """The cluster's health, the worst first; the first sentence says all of it in short. Of a
    cluster that does not answer it is not known: what is said is of the sample's time."""
    found = [*_fenced(sample), *_partitions(summary), *_unanswered(sample)]
    order = ("bad", "warning", "note", "good")
    found.sort(key=lambda sentence: order.index(sentence.level))
    if unanswered_since_ms is not None:
        then = [structs.replace(one, text=f"Then: {one.text}", level="note") for one in found]
        return [_unknown(sample, summary, unanswered_since_ms), *then]
    return [_in_short(sample, summary, found), *found]


def _unknown(sample: Sample, summary: Summary, since_ms: int) -> Sentence:
    text = f"Not known since {iso_time(since_ms)}: the cluster does not answer."
    return Sentence(f"{text} Then it had {_counts(sample, summary)}.", "bad")


def _counts(sample: Sample, summary: Summary) -> str:
    alive = len(sample.brokers) - len(sample.fenced & sample.brokers.keys())
    return (
        f"{count(alive, 'broker')}, {count(len(sample.topics), 'topic')},"
        f" {count(summary.partitions, 'partition')}"
    )


def _in_short(sample: Sample, summary: Summary, found: list[Sentence]) -> Sentence:
    has = _counts(sample, summary)
    if not found:
        return Sentence(f"All is well: {has}, every replica in sync.", "good")
    worst = found[0].level
    word = {"bad": "Something is broken", "warning": "To be looked at"}.get(worst, "It runs")
    return Sentence(f"{word}: {has}.", worst)


def _fenced(sample: Sample) -> list[Sentence]:
    return [
        Sentence(
            f"Broker {broker} is fenced: it is stopped, or cannot be reached.",
            "bad",
            path_to("brokers", broker),
        )
        for broker in sorted(sample.fenced)
    ]


def _partitions(summary: Summary) -> list[Sentence]:
    offline = summary.troubled[OFFLINE]
    under = set(summary.troubled[UNDER_REPLICATED]).difference(offline)
    found = []
    if offline:
        link = path_to("replication", show=OFFLINE)
        text = f"{count(len(offline), 'partition')} without a leader."
        found.append(Sentence(text, "bad", link))
    if under:
        link = path_to("replication", show=UNDER_REPLICATED)
        text = f"{count(len(under), 'partition')} with replicas that are not in sync."
        found.append(Sentence(text, "warning", link))
    return found


def _unanswered(sample: Sample) -> list[Sentence]:
    return [
        Sentence(f"{name} could not be had: {error}.", "note")
        for name, error in sorted(sample.errors.items())
    ]
