"""When simulated brokers compact their logs: now and then one of them, one of its logs."""

from __future__ import annotations

from typing import Final

from fencepost.log.errors import LogError
from fencepost.sim.brokers.broker import SimBroker
from fencepost.sim.brokers.compaction import compact
from fencepost.sim.world import World

TURN_MS: Final = 400


class Cleaners:
    """Those of all brokers of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lane = world.tape.lane("cleaners")

    def begin(self) -> None:
        """Clean now and then until the world ends."""
        delay_us = 1_000 * (2 * TURN_MS - self._lane.pick(TURN_MS))
        self._world.schedule_in(delay_us, "cleaner", self._turn)

    def _turn(self) -> None:
        self.begin()
        brokers = [one for one in self._world.brokers.values() if one.is_up and not one.is_paused]
        if brokers:
            broker = brokers[self._lane.pick(len(brokers))]
            self._world.guard(lambda: self._clean(broker), broker)

    def _clean(self, broker: SimBroker) -> None:
        logs = [one for one in broker.replicas.all() if one.log.config.is_compacted]
        if not logs or broker.gave_up is not None:
            return
        hosted = logs[self._lane.pick(len(logs))]
        try:
            stats = compact(broker, hosted)
        except (LogError, OSError) as error:
            broker.machine_failed(hosted.key, str(error))
            return
        read, written = stats.records_read, stats.records_written
        self._world.trace.note(f"compacted {hosted.key} {read} {written}")
        self._world.tell(lambda: f"{broker.id} compacts {hosted.key}: {read} into {written}")
