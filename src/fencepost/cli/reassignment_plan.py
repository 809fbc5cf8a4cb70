"""Which brokers partitions are to be on: a plan that moves little and spreads evenly.

Replicas that are on a wanted broker stay there. What is missing goes to racks that the partition is
not in yet, and to the broker with the fewest replicas; then replicas move from the fullest broker
to the emptiest until they differ by one at most, and preferred leaders change places within their
partitions. The same input always gives the same plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fencepost.client.metadata import TopicPartition
from fencepost.views.view import count

Assignment = dict[TopicPartition, list[int]]


class PlanError(ValueError):
    """There are too few brokers for that many replicas."""


def make_plan(
    current: Mapping[TopicPartition, Sequence[int]],
    brokers: Iterable[int],
    *,
    racks: Mapping[int, str | None] | None = None,
    replication_factor: int | None = None,
) -> Assignment:
    """Replicas of every partition, preferred leader first, on these brokers alone. PlanError."""
    wanted = sorted(set(brokers))
    plan: Assignment = {}
    load: Counter[int] = Counter(dict.fromkeys(wanted, 0))
    rack_of = {id_: (racks or {}).get(id_) or f"broker {id_}" for id_ in wanted}
    for where, replicas in sorted(current.items()):
        replica_count = replication_factor or len(replicas)
        if replica_count > len(wanted):
            raise PlanError(
                f"{where} is to have {count(replica_count, 'replica')},"
                f" brokers named: {len(wanted)}"
            )
        plan[where] = [id_ for id_ in replicas if id_ in load][:replica_count]
        load.update(plan[where])
    for where, kept in plan.items():
        replica_count = replication_factor or len(current[where])
        while len(kept) < replica_count:
            in_racks = Counter(rack_of[id_] for id_ in kept)
            free = [id_ for id_ in wanted if id_ not in kept]
            chosen = min(free, key=lambda id_: (in_racks[rack_of[id_]], load[id_], id_))
            kept.append(chosen)
            load[chosen] += 1
    _spread_replicas(plan, load, rack_of)
    _spread_leaders(plan, wanted)
    return plan


def _spread_replicas(plan: Assignment, load: Counter[int], rack_of: Mapping[int, str]) -> None:
    """Move replicas from fuller to emptier brokers, and no partition into fewer racks."""
    moved = True
    while moved:
        moved = False
        by_load = sorted(load, key=lambda id_: (load[id_], id_))
        for target in by_load:
            for source in reversed(by_load):
                if load[source] - load[target] <= 1:
                    break
                if _move_one(plan, source, target, rack_of):
                    load[source] -= 1
                    load[target] += 1
                    moved = True
                    break
            if moved:
                break


def _move_one(plan: Assignment, source: int, target: int, rack_of: Mapping[int, str]) -> bool:
    """Put `target` into the place of `source` in the first partition where that can be."""
    for replicas in plan.values():
        if source not in replicas or target in replicas:
            continue
        place = replicas.index(source)
        others = {rack_of[id_] for id_ in replicas if id_ != source}
        if rack_of[target] in others and rack_of[source] not in others:
            continue
        replicas[place] = target
        return True
    return False


def _spread_leaders(plan: Assignment, brokers: Sequence[int]) -> None:
    """Have every broker be the first replica of about as many partitions."""
    firsts: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    firsts.update(replicas[0] for replicas in plan.values())
    for _ in range(len(plan)):  # each pass may open the way for the next; usually two are enough
        changed = False
        for replicas in plan.values():
            first = replicas[0]
            best = min(replicas, key=lambda id_: (firsts[id_], id_))
            if firsts[first] - firsts[best] > 1:
                place = replicas.index(best)
                replicas[0], replicas[place] = best, first
                firsts[first] -= 1
                firsts[best] += 1
                changed = True
        if not changed:
            return
