"""`ShareGroupStates`: what group coordinators have share coordinators do, and what follows of it.

A decision about a share group names partitions whose state is to begin (`InitializeStates`) or to
be deleted (`DeleteStates`). Here share coordinators are asked for each of them, and when all have
answered, the group's coordinator makes another decision. If that is not on this node any more, the
new one finds the partitions noted as initializing or deleting, and asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.share.groups import ShareGroups
from fencepost.machines.group.share.state import DeleteStates, InitializeStates
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.coordinator import OnReply
from fencepost.runtime.share_persister import SharePersister
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

Failures = Mapping[tuple[Uuid, int], tuple[ErrorCode, str | None]]
"""By topic and partition: the error of a share coordinator, and its words."""
OnAnswered = Callable[[ErrorCode, Failures], None]
"""Takes why the group's coordinator has not noted the answers, or NONE, and the failures."""

Submit = Callable[[str, Callable[[GroupCoordinator, Any], Decision], OnReply], None]


class ShareGroupStates:
    """See the module docstring."""

    def __init__(self, persister: SharePersister, submit: Submit) -> None:
        """`submit` has the coordinator of a group decide (`TopicCoordinators.submit`)."""
        self._persister = persister
        self._submit = submit

    def initialize(self, message: InitializeStates, on_answered: OnAnswered) -> None:
        """Have the states begun; if one cannot be, all are noted as not begun."""

        def decide(failures: Failures, machine: GroupCoordinator, token: Any) -> Decision:
            offsets = machine.of_type(ShareGroups).offsets
            return _answered(offsets.initialized(message, succeeded=not failures), token)

        gather = _Gather(self._submit, message.group_id, decide, on_answered)
        for topic_id, starts in message.starts.items():
            for index, start_offset in starts.items():
                self._persister.initialize(
                    SharePartitionKey(message.group_id, topic_id, index),
                    state_epoch=message.state_epoch,
                    start_offset=start_offset,
                    done=gather.expect(topic_id, index),
                )
        gather.all_are_asked()

    def delete(self, message: DeleteStates, on_answered: OnAnswered) -> None:
        """Have the states deleted; topics of which all are, are noted as deleted."""

        def decide(failures: Failures, machine: GroupCoordinator, token: Any) -> Decision:
            failed = {topic_id for topic_id, _ in failures}
            deleted = [topic_id for topic_id in message.topics if topic_id not in failed]
            offsets = machine.of_type(ShareGroups).offsets
            return _answered(offsets.deleted(message, deleted), token)

        gather = _Gather(self._submit, message.group_id, decide, on_answered)
        for topic_id, topic in message.topics.items():
            for index in sorted(topic.partitions):
                key = SharePartitionKey(message.group_id, topic_id, index)
                self._persister.delete(key, gather.expect(topic_id, index))
        gather.all_are_asked()


class _Gather:
    """Waits for the answers of share coordinators, and then has the group's coordinator decide."""

    def __init__(
        self,
        submit: Submit,
        group_id: str,
        decide: Callable[[Failures, GroupCoordinator, Any], Decision],
        on_answered: OnAnswered,
    ) -> None:
        self._submit = submit
        self._group_id = group_id
        self._decide = decide
        self._on_answered = on_answered
        self._outstanding = 1  # for `all_are_asked`: answers may come at once
        self._failures: dict[tuple[Uuid, int], tuple[ErrorCode, str | None]] = {}

    def expect(self, topic_id: Uuid, index: int) -> Callable[[ErrorCode, str | None], None]:
        """What takes the answer for a partition."""
        self._outstanding += 1

        def done(error: ErrorCode, message: str | None) -> None:
            if error is not ErrorCode.NONE:
                self._failures[topic_id, index] = error, message
            self._one_less()

        return done

    def all_are_asked(self) -> None:
        """There are no more answers to be expected."""
        self._one_less()

    def _one_less(self) -> None:
        self._outstanding -= 1
        if self._outstanding:
            return

        def on_reply(error: ErrorCode, reply: Any) -> None:
            self._on_answered(error, self._failures)

        self._submit(self._group_id, partial(self._decide, self._failures), on_reply)


def _answered(decision: Decision, token: Any) -> Decision:
    decision.reply(token, None)
    return decision
