"""What changed in a cluster between two samples of it, as sentences with their times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from fencepost.client.metadata import TopicInfo
from fencepost.console.page import Level
from fencepost.console.sample import Sample
from fencepost.views.times import iso_time
from fencepost.views.view import View, count

NAMED_MAX: Final = 3
"""Changes of one kind that are told one by one; of more, their number and the first."""


class Event(View, frozen=True):
    """Something seen to have changed by a time (ms since 1970): between that look and the last."""

    columns: ClassVar = {"seen": "seen", "what": "text"}

    seen_at_ms: int
    text: str
    level: Level

    @property
    def seen(self) -> str:
        return iso_time(self.seen_at_ms)


def events_between(before: Sample, after: Sample) -> list[Event]:
    """What changed: brokers, controller, topics, leaders and replicas in sync."""
    found = [*_brokers(before, after), *_controller(before, after), *_topics(before, after)]
    return [Event(after.taken_at_ms, text, level) for text, level in found]


def _brokers(before: Sample, after: Sample) -> Iterator[tuple[str, Level]]:
    was, now = _alive(before), _alive(after)
    for broker in sorted(was - now):
        yield f"broker {broker} stopped, or was fenced", "bad"
    for broker in sorted(now - was):
        yield f"broker {broker} is in the cluster", "good"


def _alive(sample: Sample) -> set[int]:
    return set(sample.brokers) - sample.fenced


def _controller(before: Sample, after: Sample) -> Iterator[tuple[str, Level]]:
    if before.quorum is None or after.quorum is None:
        return
    if before.quorum.leader_epoch != after.quorum.leader_epoch:
        yield (
            f"controller {after.quorum.leader_id} was elected in epoch {after.quorum.leader_epoch}"
            f" (before: {before.quorum.leader_id} in epoch {before.quorum.leader_epoch})",
            "note",
        )


def _topics(before: Sample, after: Sample) -> Iterator[tuple[str, Level]]:
    was, now = before.topics, after.topics
    yield from _some([f"topic {name} was deleted" for name in sorted(was.keys() - now.keys())])
    yield from _some([f"topic {name} was created" for name in sorted(now.keys() - was.keys())])
    leaders: list[str] = []
    fewer: list[str] = []
    more: list[str] = []
    for name, topic in now.items():
        former = was.get(name)
        if former is None or former is topic:
            continue
        if former.topic_id != topic.topic_id:
            yield f"topic {name} was deleted and created again", "warning"
            continue
        _compare(former, topic, leaders, fewer, more)
    yield from _some(leaders)
    yield from _some(fewer, "warning")
    yield from _some(more, "good")


def _compare(
    former: TopicInfo, topic: TopicInfo, leaders: list[str], fewer: list[str], more: list[str]
) -> None:
    """Note what changed of a topic's partitions in the three lists."""
    for number, one in topic.partitions.items():
        old = former.partitions.get(number)
        if old is None or old == one:
            continue
        where = f"{topic.name}-{number}"
        if old.leader_epoch != one.leader_epoch or old.leader_id != one.leader_id:
            who = f"broker {one.leader_id} leads" if one.leader_id >= 0 else "no broker leads"
            leaders.append(f"{who} {where} in epoch {one.leader_epoch}")
        gone, come = set(old.isr) - set(one.isr), set(one.isr) - set(old.isr)
        if gone:
            fewer.append(f"{_brokers_text(gone)} left the ISR of {where}")
        if come:
            more.append(f"{_brokers_text(come)} joined the ISR of {where}")


def _brokers_text(ids: set[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, sorted(ids)))}"


def _some(texts: list[str], level: Level = "note") -> Iterator[tuple[str, Level]]:
    if len(texts) <= NAMED_MAX:
        for text in texts:
            yield text, level
    else:
        yield f"{texts[0]}; and {count(len(texts) - 1, 'more change')} of this kind", level
