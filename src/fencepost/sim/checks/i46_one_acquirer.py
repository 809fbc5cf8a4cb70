"""I46: a record of a share partition is acquired by one member at a time, up to its limit of times.

At one leader: another leader knows only what was stored. A lock that is over, an acknowledgement or
the end of a session frees what was acquired, and a renewal locks it for longer; each time that it
is acquired, its delivery count rises.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.share_oracle import Delivered, Renewed, Returned


class OneAcquirer(Check):
    """Follows who holds what at each leader, from what it answers and is asked."""

    kind = "I46"

    def __init__(self) -> None:
        self._held: dict[object, dict[int, Delivered]] = {}
        self._counts: dict[object, dict[int, int]] = {}

    def share_delivered(self, oracle: Oracle, broker_id: int, delivered: Delivered) -> None:
        held = self._held.setdefault(delivered.share, {})
        counts = self._counts.setdefault(delivered.share, {})
        if delivered.delivery_count > delivered.limit:
            self._refuse(broker_id, delivered, delivered.first, f"of at most {delivered.limit}")
        for offset in range(delivered.first, delivered.last + 1):
            other = held.get(offset)
            if other is not None and delivered.to_ms < other.from_ms + other.lock_ms:
                self._refuse(broker_id, delivered, offset, f"while {other.member_id} holds it")
            if delivered.delivery_count <= counts.get(offset, 0):
                self._refuse(broker_id, delivered, offset, f"after time {counts[offset]}")
            counts[offset] = delivered.delivery_count
            held[offset] = delivered

    def share_renewed(self, oracle: Oracle, broker_id: int, renewed: Renewed) -> None:
        held = self._held.get(renewed.share, {})
        for offset in range(renewed.first, renewed.last + 1):
            one = held.get(offset)
            if one is not None and one.member_id == renewed.member_id:
                held[offset] = one._replace(from_ms=renewed.from_ms)

    def share_returned(self, oracle: Oracle, returned: Returned) -> None:
        for held in self._held.values():
            for offset, one in list(held.items()):
                is_its = one.member_id == returned.member_id and one.key[0] == returned.group_id
                is_meant = returned.key is None or (
                    returned.key == one.key and returned.first <= offset <= returned.last
                )
                if is_its and is_meant:
                    del held[offset]

    def _refuse(self, broker_id: int, delivered: Delivered, offset: int, wrong: str) -> None:
        key, count = delivered.key, delivered.delivery_count
        raise Violation(
            self.kind,
            f"{broker_id} delivers {offset} of partition {key.partition} to {delivered.member_id}"
            f" of {key.group_id} for the time {count}, {wrong}",
        )


CHECK = OneAcquirer
