"""Where the replicas of new partitions go: striped over racks and brokers, without randomness.

The aims, in this order: the replicas of a partition are on different racks; leaders and replicas
are spread evenly over brokers; brokers that are not fenced come first. Two rules are hard: a broker
has at most one replica of a partition, and the first replica, which will lead, is on a broker that
is not fenced. A broker all of whose log directories are cordoned gets none (KIP-1066).

Racks are taken in turn, partition by partition, and within a rack its brokers are taken in turn; a
broker without a rack is in the rack of those without. `start` turns both wheels once at the
beginning, so that small topics do not all begin on the first broker: the shell draws it.

Whenever every broker has had its turn as leader, a new lap begins, and the wheels of the other
replicas are turned against that of the leaders. Were they not, the partitions that a broker leads
would all have the same followers, and one of those would inherit all of them.

    racks A: 0 1 2, B: 3 4 5, three replicas, start 0:
    partition 0: 0 3 1    partition 1: 3 0 4    partition 2: 1 4 2    partition 3: 4 1 5
    partition 4: 2 5 0    partition 5: 5 2 3    partition 6: 0 4 2    partition 7: 3 1 5
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from fencepost.machines.controller.decision import Refused
from fencepost.machines.image import BrokerImage
from fencepost.wire.errors import ErrorCode

T = TypeVar("T")


class _Rack:
    """The brokers of one rack: those that may lead, and the others behind them."""

    def __init__(self) -> None:
        self.active: list[int] = []
        self.fenced: list[int] = []

    def turned_by(self, turn: int, lap: int) -> list[int]:
        """All brokers, each kind turned by so many places, and all but its first by `lap` more."""
        return _turned_in_lap(self.active, turn, lap) + _turned_in_lap(self.fenced, turn, lap)


def _turned(items: list[T], turn: int) -> list[T]:
    if not items:
        return []
    turn %= len(items)
    return items[turn:] + items[:turn]


def _turned_in_lap(ids: list[int], turn: int, lap: int) -> list[int]:
    turned = _turned(ids, turn)
    return turned[:1] + _turned(turned[1:], lap)


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
            f"Unable to replicate the partition {replication_factor} time(s): All brokers are"
            " currently fenced or have all their log directories cordoned.",
        )
    if replication_factor > total:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target"
            f" replication factor of {replication_factor} cannot be reached because only {total}"
            " broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    ordered = [racks[name] for name in sorted(racks)]
    return [_place_one(ordered, start + index, replication_factor) for index in range(partitions)]


def _place_one(racks: list[_Rack], turn: int, replication_factor: int) -> list[int]:
    """One partition's replicas: one broker of each rack in turn, until there are enough."""
    # Every round over the racks turns the brokers by one, or racks would keep to the same brokers.
    rounds, first = divmod(turn, len(racks))
    lap = rounds // max(len(rack.active) + len(rack.fenced) for rack in racks)
    ordered = _turned(racks, first)
    leading = next(place for place, rack in enumerate(ordered) if rack.active)
    leader, *others = _turned(ordered, leading)
    # First the racks take all turns behind the leader's, then the brokers in them.
    shift = lap // max(1, len(others))
    lists = [leader.turned_by(rounds, lap)]
    for place, rack in enumerate(_turned(others, lap), 1):
        lists.append(rack.turned_by(rounds + place * shift, lap))
    replicas: list[int] = []
    depth = 0
    while len(replicas) < replication_factor:
        replicas += [ids[depth] for ids in lists if depth < len(ids)]
        depth += 1
    return replicas[:replication_factor]
