"""Where the replicas of new partitions go: striped over racks and brokers, without randomness.

The aims, in this order: the replicas of a partition are on different racks; leaders and replicas
are spread evenly over brokers; brokers that are not fenced come first. Two rules are hard: a broker
has at most one replica of a partition, and the first replica, which will lead, is on a broker that
is not fenced. A broker all of whose log directories are cordoned gets none (KIP-1066).

Racks are taken in turn, partition by partition, and within a rack its brokers are taken in turn; a
broker without a rack is in the rack of those without. `start` turns both wheels once at the
beginning, so that small topics do not all begin on the first broker: the shell draws it.

    racks A: 0 1 2, B: 3 4 5, three replicas, start 0:
    partition 0: 0 3 1    partition 1: 3 0 4    partition 2: 1 4 2    partition 3: 4 1 5
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.machines.controller.decision import Refused
from fencepost.machines.image import BrokerImage
from fencepost.wire.errors import ErrorCode


class _Rack:
    """The brokers of one rack: those that may lead, and the others behind them."""

    def __init__(self) -> None:
        self.active: list[int] = []
        self.fenced: list[int] = []

    def turned_by(self, turn: int) -> list[int]:
        """All brokers, each kind turned by so many places."""
        return _turned(self.active, turn) + _turned(self.fenced, turn)


def _turned(ids: list[int], turn: int) -> list[int]:
    if not ids:
        return []
    turn %= len(ids)
    return ids[turn:] + ids[:turn]


def place_replicas(
    brokers: Iterable[BrokerImage], partitions: int, replication_factor: int, start: int
) -> list[list[int]]:
    """Broker ids for each of `partitions` new partitions, the leader first.

    Raises Refused with INVALID_REPLICATION_FACTOR if there are not enough brokers, or none that may
    lead.
    """
    racks: dict[str, _Rack] = {}
    total = 0
    usable = (broker for broker in brokers if not broker.is_cordoned)
    for broker in sorted(usable, key=lambda b: b.broker_id):
        rack = racks.setdefault("" if broker.rack is None else "/" + broker.rack, _Rack())
        (rack.active if broker.is_active else rack.fenced).append(broker.broker_id)
        total += 1
    if not any(rack.active for rack in racks.values()):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"no replica can be placed: none of {total} brokers may lead",
        )
    if replication_factor > total:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} needs as many brokers, there are {total}",
        )
    ordered = [racks[name] for name in sorted(racks)]
    return [_place_one(ordered, start + index, replication_factor) for index in range(partitions)]


def _place_one(racks: list[_Rack], turn: int, replication_factor: int) -> list[int]:
    """One partition's replicas: one broker of each rack in turn, until there are enough."""
    first = turn % len(racks)
    # Every round over the racks turns the brokers by one, or racks would keep to the same brokers.
    lists = [rack.turned_by(turn // len(racks)) for rack in racks[first:] + racks[:first]]
    leading = next(i for i, rack in enumerate(racks[first:] + racks[:first]) if rack.active)
    lists = lists[leading:] + lists[:leading]
    replicas: list[int] = []
    depth = 0
    while len(replicas) < replication_factor:
        replicas += [ids[depth] for ids in lists if depth < len(ids)]
        depth += 1
    return replicas[:replication_factor]
