"""The active controller without one of its rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from fencepost.machines.controller.partition_change import _Draft
from fencepost.machines.image import ClusterImage
from fencepost.runtime.controller_host import ControllerHost
from fencepost.sim.ablations.ablation import (
    Ablation,
    ablation,
    always,
    changed,
    in_brokers,
    patched,
)
from fencepost.wire.records.metadata import PartitionChangeRecord

controller = partial(changed, "controller")


_retire_controller = ControllerHost._retire_controller
_first_image = ControllerHost._first_image


def _retire_and_keep_the_image(self: ControllerHost) -> None:
    if self._controller is not None:
        self.__dict__["left_image"] = self._controller.image
    _retire_controller(self)


def _image_that_was_left(self: ControllerHost) -> ClusterImage:
    left: ClusterImage = self.__dict__.get("left_image") or _first_image(self)
    return left


_write_recovery_state = _Draft.write_recovery_state


def _lose_in_silence(self: _Draft, record: PartitionChangeRecord) -> None:
    """As the product does it for clean elections."""
    self._is_unclean = False
    _write_recovery_state(self, record)


TABLE: Final[Mapping[str, Ablation]] = {
    # S57: records that could not be written stay in the controller's state (KAFKA-13100).
    "does-not-revert": ablation(
        "a failed write leaves the controller ahead of the log",
        patched((ControllerHost, "_revert_state", always(None))),
        "S57",
        searched=False,
    ),
    # A reassignment ends when all that come are in sync, however few are left in sync by it.
    "ends-moves-below-the-minimum": in_brokers(
        "a reassignment leaves fewer in sync than were asked for, and writes are refused",
        controller(
            may_end_move=lambda _, adding, before, after, min_isr: bool(after) and adding <= after
        ),
        "S28",
        searched=False,
    ),
    # A reassignment ends as soon as one target replica is in sync, without the other ones.
    "ends-moves-early": in_brokers(
        "a reassignment takes in-sync replicas away before the new ones are in sync",
        controller(may_end_move=lambda _, adding, before, after, min_isr: bool(after)),
        "S28",
        searched=False,
    ),
    # A replica is taken away without another leader epoch.
    "keeps-the-epoch-of-removed-replicas": in_brokers(
        "a replica that was removed and came back empty is in sync, for what it had before",
        patched((_Draft, "fence_removed", always(None))),
        "S20",
        searched=False,
    ),
    # S57: a controller that leads again goes on where it was, committed or not (KAFKA-13100).
    "keeps-uncommitted-state": ablation(
        "a controller decides on records that were never committed",
        patched(
            (ControllerHost, "_retire_controller", _retire_and_keep_the_image),
            (ControllerHost, "_first_image", _image_that_was_left),
        ),
        "S57",
        faults=("partition",),
    ),
    # A partition all of whose replicas crashed waits for a leader for ever (before KIP-966).
    "last-leader-never-leads": in_brokers(
        "a power cut of all brokers leaves partitions without leaders",
        patched((_Draft, "_last_known_leader", always(None))),
        "S13",
        searched=False,
    ),
    # An unclean election leaves no trace of it in the metadata (before KIP-704).
    "loses-in-silence": in_brokers(
        "a partition may have lost records, and no log or metric says so",
        patched((_Draft, "write_recovery_state", _lose_in_silence)),
        "S14",
        "S33",
        searched=False,
    ),
    # A controller that is out of date takes itself for newer than a leader (KAFKA-14154).
    "stale-controllers-fence": in_brokers(
        "a leader believes that it is fenced, and never adds a replica to the in-sync set again",
        controller(is_ahead=always(False)),
        "S16",
        searched=False,
    ),
    # S12: a broker that was not closed in order counts as if it had lost nothing (KIP-966).
    "trusts-what-crashed": in_brokers(
        "the last replica in sync leads again after a power cut, before those that lack nothing",
        controller(was_closed_in_order=always(True)),
        "S12",
        searched=False,
    ),
    # S50: a broker has to reach the end of the log to be unfenced (KAFKA-13959).
    "unfences-at-the-end": ablation(
        "a broker is never unfenced while others write",
        controller(
            has_read_enough=lambda _, broker_epoch, metadata_offset, last_offset: (
                metadata_offset >= last_offset
            )
        ),
        "S50",
        searched=False,
    ),
}
