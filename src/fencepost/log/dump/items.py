"""What a dump consists of.

An item has a type and named values that JSON can hold:

| type | what |
|---|---|
| `batch`, `record` | of a segment, or of a snapshot of the metadata log |
| `entry` | of an index, a producer snapshot or a checkpoint file |
| `content` | all of a small file |
| `acknowledged_end` | up to where a voter's log was acknowledged, of `quorum-state` |
| `note` | something worth knowing, such as space that is allocated and not used |
| `damage` | what cannot be, with `reason`, and `is_tail` if it is the file's end that is missing |

`position` is the byte in the file at which the item begins.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Item(NamedTuple):
    """See the module docstring."""

    type: str
    fields: dict[str, Any]

    @property
    def is_damage(self) -> bool:
        """Whether the file is not what it should be here."""
        return self.type == "damage"


def damage(position: int | None, reason: str, *, is_tail: bool = False, **fields: Any) -> Item:
    """What cannot be at `position`, or in the file as a whole."""
    where = {} if position is None else {"position": position}
    tail = {"is_tail": True} if is_tail else {}
    return Item("damage", {**where, **fields, **tail, "reason": reason})
