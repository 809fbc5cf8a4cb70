"""What a voter must not forget: the latest epoch, its leader, the vote given in it, and a log that
it has said to hold and has lost the end of.

It is written, and synced, before anything that depends on it leaves the node. The file it goes to,
`quorum-state`, is the log package's (`fencepost.log.quorum_state`).
"""

from __future__ import annotations

from msgspec import Struct

from fencepost.wire.types import Uuid

NO_NODE = -1
"""No leader, or no vote."""

EPOCH_MAX = (1 << 31) - 1
"""The last epoch there can be."""


class QuorumState(Struct, frozen=True):
    """The latest epoch, its leader (or NO_NODE), and who got this node's vote in it (or NO_NODE).

    `voted_directory_id` is zero when the vote did not name a directory. `acknowledged_end` is
    (epoch of the last record, end offset) of a log that others may count on and of which a damaged
    end was cut off; (0, 0) once it is there again, and if nothing was lost.
    """

    epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: Uuid = Uuid.ZERO
    acknowledged_end: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        least = min(self.leader_id, self.voted_id)
        assert least >= NO_NODE, "ids are those of nodes, or the file could not be read again"
