"""OffsetFetch of many partitions of one group: in pieces, and answered as if it were one."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.runtime.requests import offset_fetch
from fencepost.runtime.requests.offset_fetch import PARTITIONS_PER_PIECE
from fencepost.wire.api import OffsetFetchRequest
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..conftest import RunningNode
from ..groups.group_requests import commit, coordinated, held_loading, new_group
from ..listener_fixtures import Client
from ..topic_requests import make_topic

MANY = list(range(3 * PARTITIONS_PER_PIECE + 7))
NOBODYS = Uuid(b"?" * 16)


@pytest.fixture
def group(client: Client) -> str:
    coordinated(client)
    return new_group()


def ask(client: Client, group: str, wanted: list[tuple[Any, list[int]]], version: int) -> Any:
    """The answer about the group, whatever the version's form; topics by id or by name."""
    if version < 8:
        old = [OffsetFetchRequestTopic(name=t.name, partition_indexes=some) for t, some in wanted]
        return client.ask(OffsetFetchRequest(group_id=group, topics=old), version)
    topics = [
        OffsetFetchRequestTopics(
            partition_indexes=some,
            **({"topic_id": topic.topic_id} if version >= 10 else {"name": topic.name}),
        )
        for topic, some in wanted
    ]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=topics)]
    (answer,) = client.ask(OffsetFetchRequest(groups=groups), version).groups
    return answer


def offsets(topic: Any) -> dict[int, int]:
    return {one.partition_index: one.committed_offset for one in topic.partitions}


@pytest.mark.parametrize("version", [1, 7, 9, 10])
def test_topics_of_many_partitions_are_answered_once_each(
    client: Client, group: str, version: int
) -> None:
    before, large, behind = (make_topic(client, partitions=2) for _ in range(3))
    for topic, offset in [(before, 1), (large, 2), (behind, 3)]:
        assert commit(client, group, topic, offset) == 0
    answer = ask(client, group, [(before, [1, 0]), (large, MANY), (behind, [0])], version)
    expected = [{1: -1, 0: 1}, {0: 2} | dict.fromkeys(MANY[1:], -1), {0: 3}]
    assert [offsets(topic) for topic in answer.topics] == expected
    assert [len(topic.partitions) for topic in answer.topics] == [2, len(MANY), 1]
    told = [topic.topic_id if version >= 10 else topic.name for topic in answer.topics]
    key = "topic_id" if version >= 10 else "name"
    assert told == [getattr(topic, key) for topic in (before, large, behind)]


def test_many_topics_and_ids_that_no_topic_has(client: Client, group: str) -> None:
    topic = make_topic(client)
    assert commit(client, group, topic, 5) == 0
    nobodys = OffsetFetchRequestTopics(topic_id=NOBODYS, partition_indexes=MANY)
    known = OffsetFetchRequestTopics(topic_id=topic.topic_id, partition_indexes=[0])
    groups = [OffsetFetchRequestGroup(group_id=group, topics=[known, nobodys, known])]
    (answer,) = client.ask(OffsetFetchRequest(groups=groups), 10).groups
    assert [one.topic_id for one in answer.topics] == [topic.topic_id, NOBODYS, topic.topic_id]
    assert offsets(answer.topics[0]) == offsets(answer.topics[2]) == {0: 5}
    unknown = {one.error_code for one in answer.topics[1].partitions}
    assert (len(answer.topics[1].partitions), unknown) == (len(MANY), {100})


@pytest.mark.parametrize("version", [1, 7, 9])
def test_a_coordinator_that_loads_refuses_the_whole_group(
    node: RunningNode, client: Client, group: str, version: int
) -> None:
    topic = make_topic(client)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with held_loading(node, group):
        answer = ask(client, group, [(topic, MANY)], version)
    if version == 1:
        (only,) = answer.topics
        assert [one.error_code for one in only.partitions] == [loading] * len(MANY)
    else:
        assert (answer.error_code, answer.topics) == (loading, [])


def test_a_group_is_asked_about_in_pieces(
    client: Client, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    decide = GroupCoordinator.decide_offset_fetch

    def noted(self: GroupCoordinator, wanted: Any, *rest: Any) -> Any:
        sizes.append(sum(1 + len(topic.partition_indexes) for topic in wanted.topics))
        return decide(self, wanted, *rest)

    monkeypatch.setattr(GroupCoordinator, "decide_offset_fetch", noted)
    topics = [OffsetFetchRequestTopics(name=f"t{at}", partition_indexes=[0]) for at in MANY]
    topics.append(OffsetFetchRequestTopics(name="large", partition_indexes=MANY * 20))
    groups = [OffsetFetchRequestGroup(group_id=group, topics=topics)]
    (answer,) = client.ask(OffsetFetchRequest(groups=groups), 9).groups
    assert [topic.name for topic in answer.topics] == [topic.name for topic in topics]
    assert max(sizes) <= PARTITIONS_PER_PIECE + 1
    assert sum(sizes) >= len(MANY) * 22


def test_parts_cover_a_group_without_topics() -> None:
    empty = OffsetFetchRequestGroup(group_id="g", topics=[])
    assert [part.topics for part in offset_fetch._parts_of(empty)] == [[]]
    everything = OffsetFetchRequestGroup(group_id="g", topics=None)
    assert [part.topics for part in offset_fetch._parts_of(everything)] == [None]
