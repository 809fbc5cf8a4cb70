"""`GROUP_TYPES`: the group types that this broker offers.

A new type is a room beside `classic` and a row here: its decisions over a shard (`GroupType`), and
its groups (`Group`). From this table come the records that are kept, who applies them, and whose
timers they are. Requests of a type's own APIs reach it through `GroupCoordinator.of_type`.
"""

from __future__ import annotations

from typing import Final

from fencepost.machines.group.classic.groups import ClassicGroups
from fencepost.machines.group.consumer.groups import ConsumerGroups
from fencepost.machines.group.group_type import GroupType
from fencepost.machines.group.share.groups import ShareGroups
from fencepost.machines.group.streams.groups import StreamsGroups

GROUP_TYPES: Final[tuple[type[GroupType], ...]] = (
    ClassicGroups,
    ConsumerGroups,
    ShareGroups,
    StreamsGroups,
)
