"""`CoordinatorRuntime`: the coordinators of one kind on one node, a partition each.

Theory of operation
-------------------
The partition's leader coordinates, and the leader epoch says whose word counts. Loads and unloads
may arrive late and in any order:

* a load for an epoch that is not newer than the one loaded, or older than one that ended our
  leadership, changes nothing;
* an unload names the epoch that ended our leadership (another broker leads in it, or none). It
  unloads what was loaded for an older epoch, never a newer one (KAFKA-18137). Without an epoch,
  because the partition is gone from this node, it unloads whatever there is (KAFKA-19274);
* a load for the epoch right behind the one loaded means that no other broker has led between:
  epochs go up by one with every change of the leader. What is loaded goes on in the new epoch
  (KAFKA-15468). After a larger step another broker may have led and cut the log, so it is loaded
  again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from fencepost.machines.coordinator import CoordinatorMachine, Decision
from fencepost.runtime.cooperative import Lane
from fencepost.runtime.coordinator.coordinator import (
    Coordinator,
    CoordinatorKind,
    CoordinatorPorts,
    CoordinatorState,
    OnReply,
)
from fencepost.runtime.coordinator.load_times import LoadTimes
from fencepost.runtime.coordinator.partition import LedPartition
from fencepost.wire.errors import ErrorCode

log = logging.getLogger(__name__)

M = TypeVar("M", bound="CoordinatorMachine[Any]")


class CoordinatorRuntime(Generic[M]):
    """See the module docstring."""

    def __init__(self, kind: CoordinatorKind[M], ports: CoordinatorPorts, lane: Lane) -> None:
        self._kind = replace(kind, on_loaded=self._loaded)
        self._on_loaded = kind.on_loaded
        self.load_times = LoadTimes(ports.now_ms)
        self._ports = ports
        self._lane = lane
        self._coordinators: dict[int, Coordinator[M]] = {}
        self._ended: dict[int, int] = {}  # partition -> the last epoch that ended our leadership

    # -- leadership ------------------------------------------------------------------------

    def load(self, index: int, partition: LedPartition, leader_epoch: int) -> None:
        """This node leads the partition in that epoch."""
        present = self._coordinators.get(index)
        last_epoch = self._ended.get(index, -1) if present is None else present.leader_epoch
        if leader_epoch <= last_epoch:
            log.info("%s: ignoring a load for the older leader epoch %d", partition, leader_epoch)
            return
        if present is not None:
            is_whole = present.state is not CoordinatorState.FAILED
            if is_whole and self._kind.rules.goes_on(last_epoch, leader_epoch):
                present.led_on(leader_epoch)
                return
            self._close(index)
        coordinator = Coordinator(self._kind, self._ports, self._lane, partition, leader_epoch)
        self._coordinators[index] = coordinator
        coordinator.load()

    def unload(self, index: int, leader_epoch: int | None) -> None:
        """This node leads the partition no longer since that epoch, or has it no longer (None)."""
        present = self._coordinators.get(index)
        if leader_epoch is None:
            self._ended.pop(index, None)  # should it come back, it may begin with epoch 0
        else:
            if present is not None and not self._kind.rules.has_ended(
                present.leader_epoch, leader_epoch
            ):
                log.info(
                    "%s: ignoring an unload for the older leader epoch %d", index, leader_epoch
                )
                return
            self._ended[index] = max(leader_epoch, self._ended.get(index, -1))
        if present is not None:
            self._close(index)

    def _close(self, index: int) -> None:
        self._coordinators.pop(index).close()

    def _loaded(self, coordinator: Coordinator[M]) -> None:
        self.load_times.note(coordinator.load_ms)
        self._on_loaded(coordinator)

    def high_watermark_moved(self, index: int) -> None:
        """The partition's high watermark, or its role, may have changed."""
        coordinator = self._coordinators.get(index)
        if coordinator is not None:
            coordinator.high_watermark_moved()

    def close(self) -> None:
        """Unload everything; requests that wait are answered with NOT_COORDINATOR."""
        for index in list(self._coordinators):
            self._close(index)

    # -- operations ------------------------------------------------------------------------

    def get(self, index: int) -> Coordinator[M] | None:
        """The partition's coordinator, loaded or being loaded; None if it is not here."""
        return self._coordinators.get(index)

    def all(self) -> Iterator[Coordinator[M]]:
        """Every coordinator here, by partition."""
        for _, coordinator in sorted(self._coordinators.items()):
            yield coordinator

    def submit(
        self, index: int, decide: Callable[[M, OnReply], Decision[Any]], on_reply: OnReply
    ) -> None:
        """Have the partition's coordinator decide about a request; see `Coordinator.submit`."""
        coordinator = self._coordinators.get(index)
        if coordinator is None:
            on_reply(ErrorCode.NOT_COORDINATOR, None)
        else:
            coordinator.submit(decide, on_reply)

    def tell_all(self, decide: Callable[[M], Decision[Any]]) -> None:
        """Have every coordinator decide something that no client asked for."""
        for coordinator in self.all():
            coordinator.tell(decide)
