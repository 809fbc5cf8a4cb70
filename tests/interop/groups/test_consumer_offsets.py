"""Offsets of consumer groups: which member epoch may commit and fetch, and what is deleted."""

from __future__ import annotations

import pytest

from fencepost.wire.errors import ErrorCode as E

from .conftest import Performance
from .consumer_words import beat, describe, join
from .group_words import list_groups
from .offset_words import commit, delete_groups, delete_offsets, fetch_offsets
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()
RANGE = {"server_assignor": "range"}


@scene
def commits_by_epoch(stage: Stage) -> None:
    topic, group = stage.topic("t", 4), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    commit(stage, group, topic, member="a", epoch=2)
    commit(stage, group, topic, member="a", epoch=3, error=E.STALE_MEMBER_EPOCH)
    commit(stage, group, topic, member="a", epoch=1, error=E.STALE_MEMBER_EPOCH)
    commit(stage, group, topic, member="a", epoch=0, error=E.STALE_MEMBER_EPOCH)
    commit(stage, group, topic, member="a", epoch=-1, error=E.STALE_MEMBER_EPOCH)
    commit(stage, group, topic, member="ghost", epoch=2, error=E.UNKNOWN_MEMBER_ID)
    commit(stage, group, topic, member="", epoch=2, error=E.UNKNOWN_MEMBER_ID)
    commit(stage, group, topic, error=E.UNKNOWN_MEMBER_ID)
    fetch_offsets(stage, group, topic, 0, 1)


@scene
def commits_of_older_versions(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic)
    for version in range(2, 9):
        commit(
            stage,
            group,
            topic,
            member="a",
            epoch=2,
            version=version,
            error=E.UNSUPPORTED_VERSION,
        )
        commit(stage, group, topic, member="a", epoch=3, version=version, error=None)
        commit(stage, group, topic, member="b", epoch=2, version=version, error=None)
        commit(stage, group, topic, version=version, error=None)
    commit(stage, group, topic, member="a", epoch=2, version=10)


@scene
def commit_of_an_unknown_group(stage: Stage) -> None:
    topic = stage.topic("t", 1)
    for version in (2, 7, 8, 9, 10):
        error = E.GROUP_ID_NOT_FOUND if version >= 9 else E.ILLEGAL_GENERATION
        group = stage.name(f"g{version}")
        commit(stage, group, topic, member="a", epoch=1, version=version, error=error)
        commit(stage, group, topic, member="a", epoch=0, version=version, error=error)
        commit(stage, group, topic, version=version)
        list_groups(stage, group)


@scene
def commits_to_an_empty_group(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join(stage, group, "a", topic)
    beat(stage, group, "a", -1)
    commit(stage, group, topic)
    commit(stage, group, topic, member="x")
    commit(stage, group, topic, member="x", epoch=1, error=None)
    commit(stage, group, topic, version=5)
    fetch_offsets(stage, group, topic)


@scene
def commit_of_an_older_epoch_by_partition(stage: Stage) -> None:
    """KIP-1251: fine for partitions that the member has had since that epoch, or gives up."""
    topic, group = stage.topic("t", 4), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    join(stage, group, "b", topic, **RANGE)
    beat(stage, group, "a", 2)
    commit(stage, group, topic, 0, member="a", epoch=2)
    commit(stage, group, topic, 3, member="a", epoch=2)
    beat(stage, group, "a", 2, owned={topic: [0, 1]})
    describe(stage, group)
    commit(stage, group, topic, 0, member="a", epoch=2)
    commit(stage, group, topic, 0, 1, member="a", epoch=2)
    commit(stage, group, topic, 0, member="a", epoch=1, error=E.STALE_MEMBER_EPOCH)
    commit(stage, group, topic, 3, member="a", epoch=2, error=E.STALE_MEMBER_EPOCH)
    commit(stage, group, topic, 0, 3, member="a", epoch=2, error=E.STALE_MEMBER_EPOCH)
    commit(stage, group, topic, 0, 9, member="a", epoch=3, error=E.UNKNOWN_TOPIC_OR_PARTITION)
    beat(stage, group, "b", 3)
    commit(stage, group, topic, 3, member="b", epoch=2, error=E.STALE_MEMBER_EPOCH)
    commit(stage, group, topic, 3, member="b", epoch=3)
    commit(stage, group, topic, 0, member="b", epoch=3)
    fetch_offsets(stage, group, topic, 0, 1, 2, 3)


@scene
def fetches_by_epoch(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic)
    commit(stage, group, topic, member="a", epoch=2)
    fetch_offsets(stage, group, topic, member="a", epoch=2)
    fetch_offsets(stage, group, topic, member="a", epoch=1, error=E.STALE_MEMBER_EPOCH)
    fetch_offsets(stage, group, topic, member="a", epoch=3, error=E.STALE_MEMBER_EPOCH)
    fetch_offsets(stage, group, topic, member="a", epoch=-1, error=E.STALE_MEMBER_EPOCH)
    fetch_offsets(stage, group, topic, member="b", epoch=2, error=E.UNKNOWN_MEMBER_ID)
    fetch_offsets(stage, group, topic, member="", epoch=2, error=E.UNKNOWN_MEMBER_ID)
    fetch_offsets(stage, group, topic)
    fetch_offsets(stage, group)
    fetch_offsets(stage, group, member="a", epoch=2)
    fetch_offsets(stage, group, member="a", epoch=1, error=E.STALE_MEMBER_EPOCH)
    fetch_offsets(stage, group, topic, member="a", epoch=2, version=10)
    fetch_offsets(stage, group, topic, version=8)
    subscribed = beat(stage, group, "a", 2, subscribed_topic_names=[topic, "x"])
    fetch_offsets(stage, group, topic, member="a", epoch=2, error=None)
    fetch_offsets(stage, group, topic, member="a", epoch=subscribed.member_epoch)
    fetch_offsets(stage, stage.name("none"), topic, member="a", epoch=2, error=None)
    fetch_offsets(stage, stage.name("none"), topic, error=None)


@scene
def offsets_that_are_deleted(stage: Stage) -> None:
    topic, other, group = stage.topic("t", 2), stage.topic("u", 2), stage.name("g")
    join(stage, group, "a", topic)
    commit(stage, group, topic, 0, 1, member="a", epoch=2)
    commit(stage, group, other, 0, 1, member="a", epoch=2)
    delete_offsets(stage, group, topic, error=E.GROUP_SUBSCRIBED_TO_TOPIC)
    delete_offsets(stage, group, other)
    delete_offsets(stage, group, other, 1, 7, error=None)
    delete_offsets(stage, stage.name("none"), topic, error=E.GROUP_ID_NOT_FOUND)
    fetch_offsets(stage, group)
    beat(stage, group, "a", -1)
    delete_offsets(stage, group, topic)
    fetch_offsets(stage, group)


@scene
def groups_that_are_deleted(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic)
    commit(stage, group, topic, 0, member="a", epoch=2)
    for version in range(4):
        delete_groups(stage, group, version=version, error=E.NON_EMPTY_GROUP)
        delete_groups(stage, stage.name("none"), version=version, error=E.GROUP_ID_NOT_FOUND)
        delete_groups(stage, "", version=version, error=None)
    beat(stage, group, "a", -1)
    delete_groups(stage, group)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND)
    fetch_offsets(stage, group, error=None)
    delete_groups(stage, group, error=E.GROUP_ID_NOT_FOUND)
    join(stage, group, "a", topic)
    describe(stage, group)


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(name, scene[name])
