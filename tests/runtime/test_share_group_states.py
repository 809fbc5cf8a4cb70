"""A group coordinator has share coordinators begin and delete states, and notes what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.machines.group.share.group import ShareGroup
from fencepost.machines.group.share.state import DeleteStates, NamedPartitions, StatePartitions
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.share_group_states import ShareGroupStates
from fencepost.wire.errors import ErrorCode

from ..machines.share_group_world import ShareWorld, topic_id

T, U = topic_id("t"), topic_id("u")
REFUSED = ErrorCode.COORDINATOR_NOT_AVAILABLE


class Persister:
    """Share coordinators that answer at once, or when the test says so, with these errors."""

    def __init__(self, *, is_prompt: bool, errors: dict[Any, ErrorCode]) -> None:
        self._is_prompt = is_prompt
        self._errors = errors
        self._answers: list[Callable[[], None]] = []
        self.starts: list[tuple[SharePartitionKey, int, int]] = []

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: Any
    ) -> None:
        self.starts.append((key, state_epoch, start_offset))
        self.delete(key, done)

    def delete(self, key: SharePartitionKey, done: Any) -> None:
        error = self._errors.get((key.topic_id, key.partition), ErrorCode.NONE)
        self._answers.append(lambda: done(error, "refused" if error else None))
        if self._is_prompt:
            self.answer()

    def answer(self) -> None:
        answers, self._answers = self._answers, []
        for one in answers:
            one()


class Cluster:
    """A group of "t" and "u" with two partitions each, and its share coordinators."""

    def __init__(self, is_prompt: bool, errors: dict[Any, ErrorCode]) -> None:
        self.world = ShareWorld()
        self.world.create("u", 2)
        self.persister = Persister(is_prompt=is_prompt, errors=errors)
        self.answered: list[tuple[ErrorCode, dict[Any, Any]]] = []
        self.states = ShareGroupStates(self.persister, self.submit)  # type: ignore[arg-type]

    def submit(self, group_id: str, decide: Any, on_reply: Any) -> None:
        world = self.world
        token = world.ask(lambda token: decide(world.coordinator, token))
        on_reply(ErrorCode.NONE, world.replies[token])

    def on_answered(self, error: ErrorCode, failures: Any) -> None:
        self.answered.append((error, dict(failures)))

    @property
    def noted(self) -> StatePartitions:
        group = self.world.coordinator.groups["g"]
        assert isinstance(group, ShareGroup)
        return group.states


def both(name: str) -> NamedPartitions:
    return NamedPartitions(name, frozenset((0, 1)))


@pytest.mark.parametrize("is_prompt", [True, False], ids=["at-once", "later"])
@pytest.mark.parametrize("failing", [None, (T, 0), (U, 1)], ids=["none", "first", "last"])
def test_states_are_noted_once_when_all_have_answered(is_prompt: bool, failing: Any) -> None:
    errors = {} if failing is None else {failing: REFUSED}
    cluster = Cluster(is_prompt, errors)
    cluster.world.beat("m", 0, "t", "u")
    (message,) = cluster.world.sends
    cluster.states.initialize(message, cluster.on_answered)
    if not is_prompt:
        assert cluster.answered == [] and cluster.noted.initializing == {T: both("t"), U: both("u")}
        cluster.persister.answer()
    failures = {one: (error, "refused") for one, error in errors.items()}
    assert cluster.answered == [(ErrorCode.NONE, failures)]
    done = {} if failing else {T: both("t"), U: both("u")}
    assert cluster.noted == StatePartitions(initialized=done)
    assert [(key.topic_id, key.partition, *rest) for key, *rest in cluster.persister.starts] == [
        (topic, index, 2, -1) for topic in (T, U) for index in (0, 1)
    ]


@pytest.mark.parametrize("is_prompt", [True, False], ids=["at-once", "later"])
@pytest.mark.parametrize("failing", [None, (T, 1), (U, 0)])
def test_topics_are_noted_as_deleted_where_all_partitions_are(
    is_prompt: bool, failing: Any
) -> None:
    errors = {} if failing is None else {failing: REFUSED}
    cluster = Cluster(is_prompt, errors)
    cluster.world.beat("m", 0, "t", "u")
    cluster.world.answer_sends()
    cluster.world.beat("m", -1)
    message = cluster.world.delete_offsets("t", "u").message
    assert message == DeleteStates("g", {T: both("t"), U: both("u")})
    cluster.states.delete(message, cluster.on_answered)
    if not is_prompt:
        assert cluster.answered == [] and cluster.noted.deleting == {T: "t", U: "u"}
        cluster.persister.answer()
    assert [error for error, _ in cluster.answered] == [ErrorCode.NONE]
    left = {} if failing is None else {failing[0]: "t" if failing[0] == T else "u"}
    assert cluster.noted == StatePartitions(deleting=left)
