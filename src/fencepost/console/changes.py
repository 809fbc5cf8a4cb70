"""What differs between two samples of a cluster: the one list that events and diffs are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

from fencepost.client.metadata import Node, PartitionInfo, TopicInfo
from fencepost.client.quorum import QuorumDescription, QuorumReplica
from fencepost.console.page import Level
from fencepost.console.sample import Sample
from fencepost.views.view import View

ChangedKind = Literal["broker", "quorum", "topic", "partition", "group"]


class Change(View, frozen=True):
    """A difference: `what` of the thing that `name` names was `before` and is `after`, each None
    where there is none; `text` says so in a sentence."""

    columns: ClassVar = {
        "of": "kind",
        "name": "name",
        "what": "what",
        "before": "before",
        "after": "after",
    }

    kind: ChangedKind
    name: str
    what: str
    before: str | None
    after: str | None
    text: str
    level: Level = "note"


def changes_between(before: Sample, after: Sample) -> Iterator[Change]:
    """Everything that differs, brokers first, then the quorum, topics and groups."""
    yield from _brokers(before, after)
    if before.quorum is not None and after.quorum is not None:
        yield from _quorum(before.quorum, after.quorum)
    yield from _topics(before, after)
    yield from _groups(before, after)


def _brokers(before: Sample, after: Sample) -> Iterator[Change]:
    was, now = _alive(before), _alive(after)
    for broker in sorted(was - now):
        state = "fenced" if broker in after.brokers else None
        text = f"broker {broker} stopped, or was fenced"
        yield Change("broker", f"{broker}", "state", "runs", state, text, "bad")
    for broker in sorted(now - was):
        state = "fenced" if broker in before.brokers else None
        text = f"broker {broker} is in the cluster"
        yield Change("broker", f"{broker}", "state", state, "runs", text, "good")
    for broker in sorted(before.brokers.keys() & after.brokers.keys()):
        old, new = before.brokers[broker], after.brokers[broker]
        if old != new:
            text = f"broker {broker} is at {_place(new)} (before: {_place(old)})"
            yield Change("broker", f"{broker}", "address", _place(old), _place(new), text)


def _alive(sample: Sample) -> set[int]:
    return set(sample.brokers) - sample.fenced


def _place(node: Node) -> str:
    return node.address if node.rack is None else f"{node.address} in rack {node.rack}"


def _quorum(old: QuorumDescription, new: QuorumDescription) -> Iterator[Change]:
    if (old.leader_epoch, old.leader_id) != (new.leader_epoch, new.leader_id):
        was, now = _leadership(old), _leadership(new)
        text = f"controller {new.leader_id} was elected in epoch {new.leader_epoch} (before: {was})"
        yield Change("quorum", "quorum", "leader", was, now, text)
    for what, then, here in (
        ("voters", old.voters, new.voters),
        ("observers", old.observers, new.observers),
    ):
        was, now = _nodes(then), _nodes(here)
        if was != now:
            text = f"the quorum's {what} are {now or 'none'} (before: {was or 'none'})"
            yield Change("quorum", "quorum", what, was, now, text)


def _leadership(quorum: QuorumDescription) -> str:
    return f"{quorum.leader_id} in epoch {quorum.leader_epoch}"


def _nodes(replicas: Iterable[QuorumReplica]) -> str:
    return ", ".join(str(id_) for id_ in sorted(one.node_id for one in replicas))


def _topics(before: Sample, after: Sample) -> Iterator[Change]:
    was, now = before.topics, after.topics
    for name in sorted(was.keys() - now.keys()):
        id_ = f"{was[name].topic_id}"
        yield Change("topic", name, "id", id_, None, f"topic {name} was deleted")
    for name in sorted(now.keys() - was.keys()):
        id_ = f"{now[name].topic_id}"
        yield Change("topic", name, "id", None, id_, f"topic {name} was created")
    for name, topic in sorted(now.items()):
        former = was.get(name)
        if former is None or former is topic:
            continue
        if former.topic_id != topic.topic_id:
            text = f"topic {name} was deleted and created again"
            ids = f"{former.topic_id}", f"{topic.topic_id}"
            yield Change("topic", name, "id", *ids, text, "warning")
        else:
            yield from _topic(former, topic)


def _topic(former: TopicInfo, topic: TopicInfo) -> Iterator[Change]:
    if len(former.partitions) != len(topic.partitions):
        was, now = f"{len(former.partitions)}", f"{len(topic.partitions)}"
        text = f"topic {topic.name} has {now} partitions (before: {was})"
        yield Change("topic", topic.name, "partitions", was, now, text)
    for number, one in sorted(topic.partitions.items()):
        old = former.partitions.get(number)
        if old is not None and old != one:
            yield from _partition(f"{topic.name}-{number}", old, one)


def _partition(name: str, old: PartitionInfo, new: PartitionInfo) -> Iterator[Change]:
    if (old.leader_epoch, old.leader_id) != (new.leader_epoch, new.leader_id):
        who = f"broker {new.leader_id} leads" if new.leader_id >= 0 else "no broker leads"
        text = f"{who} {name} in epoch {new.leader_epoch}"
        level: Level = "note" if new.leader_id >= 0 else "bad"
        yield Change("partition", name, "leader", _leader(old), _leader(new), text, level)
    if old.replicas != new.replicas:
        was, now = _ids(old.replicas), _ids(new.replicas)
        text = f"{name} is on brokers {now} (before: {was})"
        yield Change("partition", name, "replicas", was, now, text)
    gone, come = set(old.isr) - set(new.isr), set(new.isr) - set(old.isr)
    both = _ids(old.isr), _ids(new.isr)
    if gone:
        text = f"{_brokers_text(gone)} left the ISR of {name}"
        yield Change("partition", name, "ISR", *both, text, "warning")
    if come:
        text = f"{_brokers_text(come)} joined the ISR of {name}"
        yield Change("partition", name, "ISR", *both, text, "good")


def _leader(one: PartitionInfo) -> str | None:
    return None if one.leader_id < 0 else f"{one.leader_id} in epoch {one.leader_epoch}"


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))


def _brokers_text(ids: set[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {_ids(sorted(ids))}"


def _groups(before: Sample, after: Sample) -> Iterator[Change]:
    if before.groups is None or after.groups is None:
        return
    was = {one.group_id: one for one in before.groups}
    now = {one.group_id: one for one in after.groups}
    for name in sorted(was.keys() - now.keys()):
        text = f"group {name} is gone"
        yield Change("group", name, "state", was[name].state, None, text)
    for name in sorted(now.keys() - was.keys()):
        text = f"group {name} is there, {now[name].state}"
        yield Change("group", name, "state", None, now[name].state, text)
    for name in sorted(was.keys() & now.keys()):
        old, new = was[name], now[name]
        for what, then, here in (
            ("state", old.state, new.state),
            ("type", old.kind, new.kind),
        ):
            if then != here:
                text = f"group {name}: {what} {here} (before: {then})"
                yield Change("group", name, what, then, here, text)
