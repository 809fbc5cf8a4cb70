"""How much memory the groups of a node take, and how much they may.

Counted is what clients decide the size of: group ids, and what each member has said (ids, protocols
with their metadata, assignment), with an allowance for the objects around it. Offsets are not
counted: each is a record on disk that the same client had to write.

The last quarter is kept for members that need little (`SMALL_MEMBER_BYTES`), so that a client that
fills the rest with large ones does not keep other members out.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import getsizeof
from typing import Final

DEFAULT_GROUP_BYTES_MAX: Final = 16 * 1024 * 1024
DEFAULT_NODE_BYTES_MAX: Final = 128 * 1024 * 1024

GROUP_BYTES: Final = 1024
"""Allowance for a group's own objects."""
MEMBER_BYTES: Final = 1024
"""Allowance for a member's own objects and its timer; likewise for an id given out."""
PROTOCOL_BYTES: Final = 64
SMALL_MEMBER_BYTES: Final = 16 * 1024
RESERVED_PART: Final = 4


class GroupMemory:
    """The sum over all groups of a node, which its shards share."""

    def __init__(self, max_bytes: int = DEFAULT_NODE_BYTES_MAX) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0

    def admits(self, more_bytes: int) -> bool:
        """Whether a member that needs `more_bytes` more than it has may have them."""
        is_small = more_bytes <= SMALL_MEMBER_BYTES
        free_bytes = self.max_bytes - self.used_bytes
        reserved_bytes = 0 if is_small else self.max_bytes // RESERVED_PART
        return more_bytes <= 0 or more_bytes <= free_bytes - reserved_bytes


def member_bytes(
    protocols: Iterable[tuple[str, bytes]], assignment: bytes, *texts: str | None
) -> int:
    """What a member takes that has said this; `texts` are its ids and its host."""
    return (
        MEMBER_BYTES
        + getsizeof(assignment)
        + sum(getsizeof(text) for text in texts)
        + sum(PROTOCOL_BYTES + getsizeof(name) + getsizeof(data) for name, data in protocols)
    )


def pending_member_bytes(member_id: str) -> int:
    """What an id takes that was given out and not yet used."""
    return MEMBER_BYTES + getsizeof(member_id)


def group_bytes(group_id: str) -> int:
    """What a group takes besides its members."""
    return GROUP_BYTES + getsizeof(group_id)
