"""What all clients have in common: an end of the network, and an idea of who leads what.

Whom to ask a client reads off the image of a broker that is up, a drawn one, which may be behind;
now and then it asks a broker that does not lead. Nothing that is checked depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.machines.image import ClusterImage
from fencepost.sim.calls import ANY_VERSION, Versions
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.sim.surroundings import Surroundings
from fencepost.wire.message import Message

UNREACHABLE_US = 500_000
ASTRAY_PER_MILLE = 30
"""How often a client asks a broker that does not lead."""

OnAnswer = Callable[[Any], None]
"""Told the response; None if there is none."""


class Client:
    """One client, which lives as long as its world."""

    is_up = True
    is_paused = False
    is_powered = True
    is_old = False
    incarnation = 0
    silent_until_us = 0

    def __init__(self, world: Surroundings, client_id: int) -> None:
        self.world = world
        self.id = client_id
        self.lane = world.tape.lane(f"client.{client_id}")
        self.is_closing = False
        """Whether it begins nothing new."""
        self.on_outcome: Callable[[str], None] = lambda said: None
        """Called with the outcome of what a scenario had it do."""

    def begin(self) -> None:
        """Begin to do what it does."""

    @property
    def is_idle(self) -> bool:
        """Whether it waits for nothing and wants nothing."""
        return True

    # -- the network -------------------------------------------------------------------------

    def ask(
        self,
        broker_id: int,
        request: Message,
        then: OnAnswer,
        between: Versions = ANY_VERSION,
    ) -> None:
        """Send a request to a broker; `then` hears of the answer once."""
        if broker_id in self.world.workload.unreachable:
            self.world.schedule_in(UNREACHABLE_US, "client", lambda: then(None))
            return
        self.world.network.request(
            self, broker_id, request, lambda response, is_refused: then(response), between
        )

    def feed(self, input_: Any) -> None:
        """Never called: every request of a client has a callback of its own."""
        raise AssertionError(f"no callback waits for {input_}")

    def later(self, most_ms: int, act: Callable[[], None]) -> None:
        """Do something within that time; with nothing drawn at the end of it."""
        delay_us = 1_000 * (most_ms - self.lane.pick(most_ms))
        self.world.schedule_in(delay_us, "client", act)

    # -- the cluster -------------------------------------------------------------------------

    def image(self) -> ClusterImage | None:
        """The cluster as some broker knows it; None if none is up."""
        alive = [one for one in self.world.brokers.values() if one.is_up and not one.gave_up]
        return alive[self.lane.pick(len(alive))].metadata.image if alive else None

    def leader_of(self, key: PartitionKey) -> int | None:
        """The broker to ask about a partition; None if no leader of it is known."""
        brokers = list(self.world.brokers)
        if self.lane.chance(ASTRAY_PER_MILLE):
            return brokers[self.lane.pick(len(brokers))]
        image = self.image()
        topic = None if image is None else image.topics_by_id.get(key[0])
        if topic is None or key[1] >= len(topic.partitions):
            return None
        leader = topic.partitions[key[1]].leader
        return leader if leader >= 0 else None

    def is_deposed(self, broker_id: int, key: PartitionKey) -> bool:
        """Whether a later leader epoch than this broker's is committed, or the topic's deletion.

        A leader that is cut off from the controller serves on, and lacks what its successor took: a
        producer's sequence has a gap there, and a consumer is out of range.
        """
        observer = self.world.observer
        topic = observer.committed_image.topics_by_id.get(key[0])
        if topic is None or key[1] >= len(topic.partitions):
            return True
        latest = topic.partitions[key[1]]
        view = observer.oracle.partitions.views.get((broker_id, key))
        return latest.leader != broker_id or (
            view is not None and view.leader_epoch < latest.leader_epoch
        )

    def name_of(self, key: PartitionKey) -> str | None:
        """The name of a partition's topic, as far as some broker knows it."""
        image = self.image()
        topic = None if image is None else image.topics_by_id.get(key[0])
        return None if topic is None else topic.name

    def partitions(self) -> list[PartitionKey]:
        """The partitions of all topics that are not the cluster's own, in an order of names."""
        image = self.image()
        if image is None:
            return []
        return [
            (topic.topic_id, index)
            for name, topic in sorted(image.topics_by_name.items())
            if not name.startswith("__")
            for index in range(len(topic.partitions))
        ]
