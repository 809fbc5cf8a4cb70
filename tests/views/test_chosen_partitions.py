"""Which partitions of a topic are shown, by its min.insync.replicas."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.client.conversation import drive
from fencepost.client.errors import UnsupportedApi
from fencepost.client.metadata import PartitionInfo, TopicInfo
from fencepost.views import topics
from fencepost.views.topics import FILTERS, viewing_topic
from fencepost.wire.types import Uuid

IN_SYNC = {0: (), 1: (1,), 2: (1, 2)}


def answered(answer: Any) -> Any:
    """In the place of a conversation: has this answer, or raises it."""

    def conversation(*_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer
        yield

    return conversation


@pytest.mark.parametrize(
    ("min_isr", "under", "at"),
    [("2", [0, 1], [2]), ("1", [0], [1]), (None, [0], [1])],
    ids=["two", "one", "not told: the default of Kafka"],
)
def test_partitions_are_chosen_by_the_least_number_in_sync(
    monkeypatch: pytest.MonkeyPatch, min_isr: str | None, under: list[int], at: list[int]
) -> None:
    partitions = {
        number: PartitionInfo(number, 1, 0, (1, 2), isr, ()) for number, isr in IN_SYNC.items()
    }
    topic = TopicInfo("t", Uuid(bytes(16)), False, partitions)
    configs = [SimpleNamespace(name="retention.ms", value="7", source="topic")]
    if min_isr is not None:
        least = SimpleNamespace(name="min.insync.replicas", value=min_isr, source="default")
        configs.append(least)
    monkeypatch.setattr(topics, "describing_topic", answered(topic))
    monkeypatch.setattr(topics, "describing_configs", answered(configs))
    monkeypatch.setattr(topics, "describing_partitions", answered(UnsupportedApi("none")))
    monkeypatch.setattr(topics, "viewing_halted_replicas", answered([]))

    def chosen(name: str) -> list[int]:
        view: Any = None
        found = drive(viewing_topic(view, "t", [FILTERS[name][1]]), lambda step: None)
        assert found.configs == {"retention.ms": "7"}
        return [one.partition for one in found.partitions]

    assert (chosen("under_min_isr"), chosen("at_min_isr")) == (under, at)
    assert chosen("under_replicated") == [0, 1]
