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

Stripes leave some brokers with a few replicas more than others of their rack, depending on `start`
and on how many partitions there are. So at the end followers move from brokers with more replicas
to those with fewer, until they differ by one at most, where no partition loses a rack by that.

    racks A: 0 1 2, B: 3 4 5, three replicas, start 0:
    partition 0: 0 3 1    partition 1: 3 0 4    partition 2: 1 4 2    partition 3: 4 1 5
    partition 4: 2 5 0    partition 5: 5 2 3    partition 6: 0 4 2    partition 7: 3 1 5
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
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
    placed = [_place_one(ordered, start + index, replication_factor) for index in range(partitions)]
    _Levelling(ordered, placed).level()
    return placed


class _Levelling:
    """Moves followers until brokers have equally many replicas."""

    def __init__(self, racks: Sequence[_Rack], placed: list[list[int]]) -> None:
        self._racks = racks
        self._placed = placed
        self._rack_of = {
            id_: place for place, rack in enumerate(racks) for id_ in rack.active + rack.fenced
        }
        self._fenced = {id_ for rack in racks for id_ in rack.fenced}
        self._replicas = Counter(id_ for replicas in placed for id_ in replicas)
        self._pairs = Counter((ids[0], id_) for ids in placed for id_ in ids[1:])
        self._followed: dict[int, list[int]] = defaultdict(list)
        """The partitions in which a broker is a follower."""
        for index, replicas in enumerate(placed):
            for id_ in replicas[1:]:
                self._followed[id_].append(index)

    def level(self) -> None:
        """Within each rack, and across racks if they have equally many brokers: small racks have
        more replicas for each of theirs, since partitions are to be on different racks."""
        for rack in self._racks:
            self._level_among(rack.active + rack.fenced)
        if len({(len(rack.active), len(rack.fenced)) for rack in self._racks}) == 1:
            self._level_among(list(self._rack_of))

    def _level_among(self, ids: list[int]) -> None:
        while self._move_one(sorted(ids, key=self._replicas.__getitem__)):
            """Until there is none to move."""

    def _move_one(self, ids: list[int]) -> bool:
        """Move a follower from a broker with many replicas, the last, to one with few; by way of
        a third one if that is the only way between the two extremes."""
        for few in ids:
            for many in reversed(ids):
                if self._replicas[many] - self._replicas[few] < 2:
                    break
                if self._move(many, few):
                    return True
        few, many = ids[0], ids[-1]
        if self._replicas[many] - self._replicas[few] < 2:
            return False
        between = (id_ for id_ in ids[1:-1] if self._movable(id_, few))
        return any(self._move(many, id_) and self._move(id_, few) for id_ in between)

    def _move(self, many: int, few: int) -> bool:
        """Move the follower of a leader that has fewest followers there; whether there was one."""
        movable = self._movable(many, few)
        if movable:
            pairs, placed = self._pairs, self._placed
            self._move_in(min(movable, key=lambda at: pairs[placed[at][0], few]), many, few)
        return bool(movable)

    def _movable(self, many: int, few: int) -> list[int]:
        if few in self._fenced and many not in self._fenced:
            return []
        return [index for index in self._followed[many] if self._may(index, many, few)]

    def _may(self, index: int, many: int, few: int) -> bool:
        """Whether the partition is not on the broker yet, and on as many racks afterwards."""
        replicas, rack_of = self._placed[index], self._rack_of
        if few in replicas:
            return False
        racks = [rack_of[id_] for id_ in replicas]
        before, after = rack_of[many], rack_of[few]
        return before == after or after not in racks or racks.count(before) > 1

    def _move_in(self, index: int, many: int, few: int) -> None:
        replicas = self._placed[index]
        replicas[replicas.index(many, 1)] = few
        self._followed[many].remove(index)
        self._followed[few].append(index)
        self._replicas[many] -= 1
        self._replicas[few] += 1
        self._pairs[replicas[0], many] -= 1
        self._pairs[replicas[0], few] += 1


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
