"""Partitions by their replicas: what each broker is to each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from fencepost.client.metadata import PartitionInfo
from fencepost.views.log_dirs import StoredReplica
from fencepost.views.sizes import size_text
from fencepost.views.view import View

ReplicaState = Literal["leader", "in sync", "eligible", "out of sync", "offline"]

LETTERS: Final[dict[ReplicaState, str]] = {
    "leader": "L",
    "in sync": "S",
    "eligible": "E",
    "out of sync": "o",
    "offline": "x",
}
PREFERRED: Final = "*"
KEY: Final = {
    "L": "leader",
    "S": "in sync",
    "E": "out of sync, and eligible to lead (KIP-966)",
    "o": "out of sync",
    "x": "offline: its broker is stopped or fenced, or its log directory is gone",
    PREFERRED: "preferred leader",
}


class ReplicaPlace(View, frozen=True):
    """A replica on a broker. Bytes, the lag (in records behind the high watermark) and the log
    directory are None where they were not asked for."""

    columns: ClassVar = {
        "broker": "broker",
        "state": "state",
        "": "preferred_text",
        "size": "size",
        "lag": "offset_lag",
        "log directory": "log_dir",
    }

    broker: int
    state: ReplicaState
    preferred: bool
    size_bytes: int | None
    offset_lag: int | None
    log_dir: str | None

    @property
    def preferred_text(self) -> str:
        return "preferred" if self.preferred else ""

    @property
    def size(self) -> str | None:
        return None if self.size_bytes is None else size_text(self.size_bytes)

    @property
    def letters(self) -> str:
        return LETTERS[self.state] + (PREFERRED if self.preferred else "")


class ReplicatedPartition(View, frozen=True):
    """A partition with its replicas, the preferred leader first. `eligible` are those out of sync
    that may lead, `last_known` those that may be recovered from (None: not known)."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[ReplicaPlace]
    eligible: list[int] | None
    last_known: list[int] | None


class StoredIn(View, frozen=True):
    """A replica in a log directory of a broker."""

    path: str
    replica: StoredReplica


def replicated_partition(
    topic: str,
    one: PartitionInfo,
    fenced: frozenset[int],
    *,
    eligible: tuple[int, ...] | None = None,
    last_known: tuple[int, ...] | None = None,
    stored: Mapping[int, StoredIn] | None = None,
) -> ReplicatedPartition:
    """A partition as metadata has it, with what else is known; `stored` is by broker."""
    return ReplicatedPartition(
        topic,
        one.partition,
        one.leader_id,
        one.leader_epoch,
        [
            _place(one, broker, place == 0, fenced, eligible or (), (stored or {}).get(broker))
            for place, broker in enumerate(one.replicas)
        ],
        None if eligible is None else list(eligible),
        None if last_known is None else list(last_known),
    )


def _place(
    one: PartitionInfo,
    broker: int,
    preferred: bool,
    fenced: frozenset[int],
    eligible: tuple[int, ...],
    stored: StoredIn | None,
) -> ReplicaPlace:
    state = state_of(one, broker, fenced, eligible)
    if stored is None:
        return ReplicaPlace(broker, state, preferred, None, None, None)
    replica = stored.replica
    return ReplicaPlace(
        broker, state, preferred, replica.size_bytes, replica.offset_lag, stored.path
    )


def state_of(
    one: PartitionInfo, broker: int, fenced: frozenset[int], eligible: tuple[int, ...] = ()
) -> ReplicaState:
    """What a broker is to a partition that it has a replica of."""
    if broker == one.leader_id:
        return "leader"
    if broker in one.isr and broker not in one.offline:
        return "in sync"
    if broker in eligible:
        return "eligible"
    if broker in one.offline or broker in fenced:
        return "offline"
    return "out of sync"
