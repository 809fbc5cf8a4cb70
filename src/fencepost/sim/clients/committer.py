"""A consumer without members: it commits offsets of its own group, and asks what is committed.

It commits one offset after the other, each greater than any before, again and again until it is
known what has become of it, or it gives it up. No other client writes to its group, but a commit
that was on its way for long may still arrive behind a later one, as it may in Kafka: what is right
is what the log says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fencepost.sim.clients.coordinated import RETRIABLE, GroupClient
from fencepost.sim.group_oracle import OffsetKey
from fencepost.sim.oracle import Violation
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.sim.surroundings import Surroundings
from fencepost.wire.errors import ErrorCode

RETRY_MS: Final = 300
GIVES_UP_ONE_IN: Final = 4
"""Of commits that were refused, or not answered."""


@dataclass(slots=True)
class Asked:
    """A commit of an offset, or a fetch of it (None), that is not over."""

    key: PartitionKey
    topic: str
    offset: int | None


class Committer(GroupClient):
    """See the module docstring."""

    def __init__(self, world: Surroundings, client_id: int) -> None:
        super().__init__(world, client_id, f"g{client_id}")
        self.unfinished: Asked | None = None
        self.committed = 0
        self.fetched = 0
        self._unread: dict[PartitionKey, None] = {}
        self._next_offset = 0

    @property
    def is_idle(self) -> bool:
        """Whether it has asked for everything that it has committed."""
        return self.unfinished is None and not self._unread

    def begin(self) -> None:
        self.later(2 * self.world.options.commit_every_ms, self._turn)

    def _turn(self) -> None:
        self.begin()
        if self.unfinished is not None:
            return
        if self.is_closing:
            for key in list(self._unread)[:1]:
                self.fetch(key)
            return
        if not self.has_offsets_topic():
            return
        keys = self.partitions()
        if not keys:
            return
        key = keys[self.lane.pick(len(keys))]
        if self.lane.pick(3) == 2:
            self.fetch(key)
        else:
            self.commit(key)

    # -- one commit or fetch -----------------------------------------------------------------

    def commit(self, key: PartitionKey) -> None:
        """Commit the next offset for a partition; its topic must be known."""
        self._next_offset += 1
        self._begin(key, self._next_offset)

    def fetch(self, key: PartitionKey) -> None:
        """Ask what is committed for a partition; its topic must be known."""
        self._begin(key, None)

    def give_up(self) -> None:
        """Ask no more for what is not over; perhaps it is done, perhaps not."""
        self.unfinished = None

    def _begin(self, key: PartitionKey, offset: int | None) -> None:
        topic = self.name_of(key)
        if topic is None:
            self._unread.pop(key, None)
            return
        self.unfinished = Asked(key, topic, offset)
        self._send(self.unfinished)

    def _send(self, one: Asked) -> None:
        if one is not self.unfinished:
            return
        if one.key in self.world.observer.oracle.partitions.deleted:
            self._forget(one, "the topic is deleted")
            return
        partition = self.offsets_partition()
        broker_id = None if partition is None else self.leader_of(partition)
        if partition is None or broker_id is None:
            self.later(RETRY_MS, lambda: self._send(one))
            return
        request = (
            self.fetch_request(one.key, one.topic)
            if one.offset is None
            else self.commit_request(one.key, one.topic, one.offset)
        )
        self.ask(broker_id, request, lambda response: self._answered(one, partition, response))

    def _answered(self, one: Asked, partition: PartitionKey, response: Any) -> None:
        if one is not self.unfinished:
            return
        error, said = _said(one, response)
        self.world.trace.note(f"{one.offset} of {self.group_id}: {error} {said}")
        if error is ErrorCode.NONE:
            if one.offset is None:
                self.fetched += 1
                self._unread.pop(one.key, None)
                self._forget(one, f"NONE, {said}")
            else:
                self.committed += 1
                self._unread[one.key] = None
                key = OffsetKey(self.group_id, one.topic, one.key[1])
                self.world.observer.offset_acknowledged(partition, key, one.offset)
                self._forget(one, "NONE")
            return
        if error is not None and error not in RETRIABLE:
            raise Violation("unforeseen", f"group {self.group_id} is answered {error.name}")
        self.on_outcome("no answer" if error is None else error.name)
        if one.offset is not None and self.lane.pick(GIVES_UP_ONE_IN) == GIVES_UP_ONE_IN - 1:
            self._unread[one.key] = None
            self.give_up()
            return
        self.later(RETRY_MS, lambda: self._send(one))

    def _forget(self, one: Asked, said: str) -> None:
        assert one is self.unfinished, "one at a time"
        self.unfinished = None
        if one.key in self.world.observer.oracle.partitions.deleted:
            self._unread.pop(one.key, None)
        self.on_outcome(said)


def _said(one: Asked, response: Any) -> tuple[ErrorCode | None, int]:
    """The error of an answer, None if there is no answer; and the offset that was fetched."""
    if response is None:
        return None, -1
    if one.offset is not None:
        return ErrorCode(response.topics[0].partitions[0].error_code), -1
    (group,) = response.groups
    if group.error_code:
        return ErrorCode(group.error_code), -1
    part = group.topics[0].partitions[0]
    return ErrorCode(part.error_code), part.committed_offset
