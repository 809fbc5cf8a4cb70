"""A whole cluster in one process: a controller, brokers with their fetchers, a network, one clock.

What happens to it are the methods of `Cluster`: brokers die, come back, the controller fails over.
`Course` is what came of it, in the cluster's own time and CPU.

What is modelled and not run: a broker's death is noticed by two refused connections `PROBE_MS`
apart, as `runtime.broker_probes` has it; the quorum of three controllers costs two network delays
and a sync for each write, and `ELECTION_MS`, which was measured with processes, when the active
one is killed; every broker gets each batch of metadata in one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from benchmarks.scale.broker import Broker, Costs, Replica
from benchmarks.scale.clockwork import Core, World
from benchmarks.scale.metadata import Committed, Metadata
from fencepost.machines.controller import Controller, ControllerConfig, Decision
from fencepost.machines.image import ClusterImage, ImageDelta, diff

PROBE_MS: Final = 100.0
"""`fencepost.broker.probe.interval.ms`."""
HEARTBEAT_MS: Final = 2_000.0
ELECTION_MS: Final = 43.0
"""From the kill of the active controller to the next one's first write (benchmarks/quorum)."""
BYTES_PER_MS: Final = 2_000_000.0
"""What a core sends: 2 GB/s."""


@dataclass
class Course:
    """What came of something that happened at `began_ms`; all times count from then."""

    began_ms: float
    records: int = 0
    size_bytes: int = 0
    decisions: int = 0
    controller_ms: float = 0.0
    """CPU of the active controller: deciding, encoding, applying."""
    sending_ms: float = 0.0
    """CPU of the active controller: giving it to all brokers."""
    follow_ms: float = 0.0
    """CPU of each other node: the batches decoded, applied, compared."""
    committed_ms: float = 0.0
    serving_ms: list[float] = field(default_factory=list)
    """When each partition had a leader that serves again."""
    acknowledging_ms: list[float] = field(default_factory=list)
    """When all in sync had asked each new leader, so that acks=all is acknowledged."""


class Cluster:
    """See the module docstring."""

    def __init__(self, brokers: int, racks: int, costs: Costs) -> None:
        self.world = World()
        self.costs = costs
        self.metadata = Metadata(lambda: self.world.now_ms)
        self.core = Core(self.world)
        """The active controller's."""
        self.brokers: dict[int, Broker] = {}
        self.course = Course(0.0)
        self._racks = racks
        self._beats: set[int] = set()
        for id_ in range(1, brokers + 1):
            epoch = self.metadata.register(id_, self.rack_of(id_))
            self.brokers[id_] = self._broker(id_, epoch)
        for id_ in self.brokers:
            self.metadata.commit(lambda c, id_=id_: self.metadata.heartbeat(id_))  # type: ignore[misc]

    def rack_of(self, broker_id: int) -> str:
        """Brokers take turns in racks."""
        return f"rack-{broker_id % self._racks:02}"

    def _broker(self, id_: int, epoch: int) -> Broker:
        broker = Broker(self.world, id_, epoch, self.costs, self.brokers.__getitem__)
        broker.on_serving = self._serves
        broker.on_acknowledging = self._acknowledges
        return broker

    def _serves(self, replica: Replica) -> None:
        self.course.serving_ms.append(self.world.now_ms - self.course.began_ms)

    def _acknowledges(self, replica: Replica) -> None:
        self.course.acknowledging_ms.append(self.world.now_ms - self.course.began_ms)

    # -- metadata --------------------------------------------------------------------------------

    def decide(
        self,
        decide: Callable[[Controller], Decision],
        on_reply: Callable[[Committed], None] = lambda done: None,
    ) -> None:
        """On the controller's core, now or when it is free."""

        def work() -> None:
            done = self.metadata.commit(decide)
            # What `commit` has cost is measured; the part of the others is not the controller's.
            self.core.charge(-done.follow_ms)
            self._note(done)
            costs = self.costs
            if done.records:
                commit_ms = 2 * costs.link_ms + costs.sync_ms
                alive = [one for one in self.brokers.values() if one.core.is_alive]
                sending_ms = len(alive) * (2 * costs.socket_ms + done.size_bytes / BYTES_PER_MS)
                self.core.charge(sending_ms)
                self.course.sending_ms += sending_ms
                self.core.then(lambda: self._publish(alive, done, commit_ms))
            self.core.then(lambda: on_reply(done))

        self.core.soon(work)

    def _note(self, done: Committed) -> None:
        course = self.course
        course.records += done.records
        course.size_bytes += done.size_bytes
        course.decisions += done.records > 0
        course.controller_ms += done.controller_ms
        course.follow_ms += done.follow_ms if done.records else 0.0

    def _publish(self, alive: Iterable[Broker], done: Committed, commit_ms: float) -> None:
        """It is sent; it is committed, and known everywhere."""
        at_ms = self.world.now_ms + commit_ms
        self.course.committed_ms = at_ms - self.course.began_ms
        for broker in alive:
            self._give(broker, done.delta, done.follow_ms, at_ms + self.costs.link_ms)

    def _give(self, broker: Broker, delta: ImageDelta, follow_ms: float, at_ms: float) -> None:
        def apply() -> None:
            broker.core.charge(follow_ms + self.costs.socket_ms)
            broker.apply(delta.for_broker(broker.id))
            if delta.brokers:
                broker.fetches.look_again()

        broker.core.soon(apply, at_ms)

    # -- what happens ----------------------------------------------------------------------------

    def tell_all(self) -> None:
        """Every broker hears of everything, and fetches what it follows from then on."""
        delta = diff(ClusterImage(), self.metadata.image)
        for broker in self.brokers.values():
            self._give(broker, delta, 0.0, self.world.now_ms)

    def beat(self) -> None:
        """All brokers send heartbeats from now on."""
        for id_ in self.brokers:
            if id_ not in self._beats:
                self._beats.add(id_)
                self._beat(id_, self.world.now_ms + HEARTBEAT_MS * id_ / len(self.brokers))

    def _beat(self, id_: int, at_ms: float) -> None:
        def work() -> None:
            if not self.brokers[id_].core.is_alive:
                self._beats.discard(id_)
                return
            self.core.charge(2 * self.costs.socket_ms)
            decision = self.metadata.heartbeat(id_)
            assert not decision.records, "a heartbeat of a live broker changes nothing"
            self.metadata.controller.next_session_deadline_ms()
            self._beat(id_, self.world.now_ms + HEARTBEAT_MS)

        self.core.soon(work, at_ms)

    def begin(self) -> Course:
        """Count from now on."""
        self.course = Course(self.world.now_ms)
        self.core.busy_ms = 0.0
        for broker in self.brokers.values():
            broker.core.busy_ms = 0.0
            broker.rounds = broker.asked_bytes = broker.answered_bytes = 0
        return self.course

    def kill(self, ids: Iterable[int]) -> None:
        """The processes are gone, at once; each is fenced when its ports have refused twice."""
        ids = list(ids)
        since_ms = int(self.world.now_ms)
        for id_ in ids:
            self.brokers[id_].core.is_alive = False
        for id_ in ids:
            for other in self.brokers.values():
                if other.core.is_alive:
                    other.lose(id_)
            epoch = self.brokers[id_].epoch
            self.world.at(
                self.world.now_ms + PROBE_MS + 4 * self.costs.link_ms,
                lambda id_=id_, epoch=epoch: self.decide(  # type: ignore[misc]
                    lambda c: c.decide_fence_refusing(id_, epoch, since_ms + 1)
                ),
            )

    def fail_over(self) -> float:
        """The active controller is killed; CPU milliseconds until the next one may decide."""
        old = self.metadata.controller
        self.core.is_alive = False
        self.core = Core(self.world)
        took_ms = 0.0

        def work() -> None:
            image = self.metadata.image
            config = ControllerConfig(old._config.cluster_id)
            now_ms = int(self.world.now_ms)
            self.metadata.controller = Controller.from_image(image, config, now_ms)

        self.core.soon(work, self.world.now_ms + ELECTION_MS)
        self.world.run(self.world.now_ms + ELECTION_MS + 1)
        took_ms = self.core.busy_ms
        self._beats.clear()
        return took_ms
