"""A broker loses its disk, and comes back with an empty one, under another directory id (S10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.sim.faults import Fault

if TYPE_CHECKING:
    from fencepost.sim.brokers.broker import SimBroker
    from fencepost.sim.node import SimNode

TRIES = 20


class LostDisk(Fault):
    """A broker dies; when others do without it everywhere, its disk is exchanged.

    Until then its disk may be the only one with what was acknowledged. From then on nothing may
    depend on it, whatever is still on its way from before.
    """

    name = "lost-disk"

    def fits(self) -> bool:
        return self.world.options.replicas > 1

    def act(self) -> None:
        brokers: list[SimNode] = list(self.world.brokers.values())
        node = self.a_node([one for one in brokers if one.is_up and one.gave_up is None])
        if node is None:
            return
        self.world.did(self.name, lambda: f"{node.id} is killed, and is to lose its disk")
        node.kill()
        self._try(self.world.brokers[node.id], node.incarnation, TRIES)

    def _try(self, broker: SimBroker, incarnation: int, tries: int) -> None:
        """Exchange the disk now, or look again soon; another fault may start the broker before."""
        if broker.is_up or broker.incarnation != incarnation:
            return
        if self._is_spared(broker.id):
            self.world.did(self.name, lambda: f"{broker.id} loses its disk")
            broker.new_disk()
        elif tries:
            self.later(500, lambda: self._try(broker, incarnation, tries - 1))
            return
        self.restart_later(broker, 3_000)

    def _is_spared(self, broker_id: int) -> bool:
        """Whether every partition that it has a replica of has others in sync, and not this one."""
        topics = self.world.observer.committed_image.topics_by_id.values()
        mine = [one for topic in topics for one in topic.partitions if broker_id in one.replicas]
        return all(
            one.isr and broker_id not in (*one.isr, *one.eligible_leader_replicas) for one in mine
        )


FAULT = LostDisk
