"""Which replica a consumer is to read from (KIP-392).

A leader that is asked by a consumer of another rack may name a replica in the consumer's own. Only
replicas that are in sync and hold the wanted offset come into question, and of those the one that
has come furthest is chosen; who is equally far goes by how long ago it was caught up, and by id.
The leader itself is never named: the consumer reads from it already. Followers' fetches are not
asked about.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

NO_NODE: Final = -1


class ReadReplica(Struct, frozen=True):
    """A replica that a consumer could read from."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    behind_for_ms: int
    """How long ago it was caught up with its leader."""


def choose_by_rack(rack: str, leader_rack: str | None, others: Iterable[ReadReplica]) -> int:
    """Kafka's RackAwareReplicaSelector: the broker to read from, `NO_NODE` for the leader."""
    if not rack or leader_rack == rack:
        return NO_NODE
    near = [one for one in others if one.rack == rack]
    if not near:
        return NO_NODE
    best = max(near, key=lambda one: (one.log_end_offset, -one.behind_for_ms, one.broker_id))
    return best.broker_id
