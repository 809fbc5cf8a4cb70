"""The state of the groups of one partition of `__consumer_offsets`, and how it is reverted.

A `ClassicGroup` is never changed while it is in here: what a decision wants of it is a draft
(`ClassicGroup.draft`), which takes its place when the decision is applied. Groups of other types
may be changed in place, by applied records alone. Every replacement and change is noted in the undo
log, and so are offsets (`OffsetStore`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from fencepost.machines.coordinator import Decision as CoordinatorDecision, TimerName, UndoLog
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.group import Group
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.offsets import OffsetStore
from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.rules import RULES, GroupRules
from fencepost.machines.group.settings import (
    ConsumerSettings,
    GroupSettings,
    ShareSettings,
    StreamsSettings,
)
from fencepost.machines.image import ClusterImage
from fencepost.wire.message import Message

Decision = CoordinatorDecision[GroupRecord]
"""A decision about groups. Its changes are `Change`s: drafts of groups are."""

EXPIRY_TIMER: TimerName = ("expiry",)

DEFAULT_RECORD_BYTES_MAX = 1024 * 1024 + 12
"""Kafka's default of `max.message.bytes`."""

G = TypeVar("G", bound=Group)


class Change(Protocol):
    """What a decision changes in memory alone."""

    def apply_to(self, shard: Shard) -> None:
        """Make the change, and note in the shard's undo log how to undo it."""
        ...


class Shard:
    """The groups and offsets of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        config: GroupConfig,
        memory: GroupMemory,
        image: Callable[[], ClusterImage],
        make_simple_group: Callable[[str], Group],
        rules: GroupRules = RULES,
        settings: GroupSettings | None = None,
    ) -> None:
        """`memory` is what all groups of the node take together; its shards share it.

        `image` gives the cluster's metadata of now; `make_simple_group` makes the group of an id
        of which nothing is known but offsets; without `settings` the broker's configs of groups are
        Kafka's defaults.
        """
        self.config = config
        self.rules = rules
        self.memory = memory
        self.undo_log = UndoLog()
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore(self.undo_log, rules)
        self.record_bytes_max = DEFAULT_RECORD_BYTES_MAX
        """The largest batch that `__consumer_offsets` takes (its `max.message.bytes`), in bytes."""
        self._image = image
        self._make_simple_group = make_simple_group
        self._settings = settings or GroupSettings()

    @property
    def image(self) -> ClusterImage:
        """The cluster's metadata: topics, their partitions and racks, configs of groups."""
        return self._image()

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        """What holds for the consumer group now; it need not exist."""
        return self._settings.consumer(self.image, group_id)

    def share_settings(self, group_id: str) -> ShareSettings:
        """What holds for the share group now; it need not exist."""
        return self._settings.share(self.image, group_id)

    def streams_settings(self, group_id: str) -> StreamsSettings:
        """What holds for the streams group now; it need not exist."""
        return self._settings.streams(self.image, group_id)

    def group_of(self, group_id: str, cls: type[G]) -> G | None:
        """The group, if it is there and of that class."""
        group = self.groups.get(group_id)
        return group if isinstance(group, cls) else None

    def group_to_apply(self, group_id: str, cls: type[G]) -> G:
        """The group of that class to which a record (no tombstone) is applied; made if need be.

        It replaces a simple group. While the partition is loaded it replaces any group of another
        type: the record is the later one. A decision must have dissolved that group (`dissolve`).
        """
        group = self.groups.get(group_id)
        if isinstance(group, cls):
            return group
        assert group is None or group.is_forgettable or not self.undo_log.is_open, (
            f"group {group_id} is {group.group_type} still"
        )
        made = cls(group_id)
        self._replace(group_id, made)
        return made

    def group_to_change(self, key: Message, value: Message | None, cls: type[G]) -> G | None:
        """The group of that class that a record is of, made if need be; None if the record is a
        tombstone, and there is no such group."""
        group_id: str = key.group_id  # type: ignore[attr-defined]
        if value is None:
            return self.group_of(group_id, cls)
        return self.group_to_apply(group_id, cls)

    def add_simple_group(self, group_id: str) -> None:
        """There is at least one offset of the group, so there is a group."""
        if group_id not in self.groups:
            self.put(self._make_simple_group(group_id))

    def put(self, group: Group) -> None:
        """The group is this from now on; one of which nothing is known any more is dropped.

        One of which nothing was known before stays what it is: it is empty, and kept until offsets
        expire, whatever is asked of it and refused.
        """
        group_id = group.group_id
        before = self.groups.get(group_id)
        is_kept = not group.is_forgettable or self.offsets.has_any(group_id)
        if is_kept or before is None or not before.is_forgettable:
            self._replace(group_id, group if is_kept else None)

    def delete(self, group_id: str) -> None:
        """The group is deleted. Offsets that are left make it one of which nothing else is known;
        ids that were given out are not good any more, as in Kafka."""
        is_kept = self.offsets.has_any(group_id)
        self._replace(group_id, self._make_simple_group(group_id) if is_kept else None)

    def count_bytes(self, more_bytes: int) -> None:
        """A group that is changed in place takes so much more memory, or less."""
        self.memory.used_bytes += more_bytes
        self.undo_log.note(partial(self._uncount_bytes, more_bytes))

    def _uncount_bytes(self, bytes_: int) -> None:
        self.memory.used_bytes -= bytes_

    def discard(self) -> None:
        """The shard's groups are not here any more: they take no memory."""
        for group in self.groups.values():
            self.memory.used_bytes -= group.counted_bytes
        self.groups.clear()

    def _replace(self, group_id: str, group: Group | None) -> None:
        before = self.groups.get(group_id)
        if group is not before:
            self.undo_log.note(partial(self._set, group_id, before))
            self._set(group_id, group)

    def _set(self, group_id: str, group: Group | None) -> None:
        before = self.groups.get(group_id)
        if before is not None:
            self.memory.used_bytes -= before.counted_bytes
        if group is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = group
            self.memory.used_bytes += group.counted_bytes
