"""The hosts of coordinators without one of their rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from fencepost.machines.coordinator import UndoLog
from fencepost.sim.ablations.ablation import (
    Ablation,
    always,
    changed,
    in_brokers,
    patched,
)

coordinator = partial(changed, "coordinator")


TABLE: Final[Mapping[str, Ablation]] = {
    # A coordinator answers when its records are in the leader's log, and does not hold the answer.
    "answers-commits-at-once": in_brokers(
        "a commit is acknowledged that the next coordinator does not know",
        coordinator(answers_up_to=lambda _, appended, committed: appended),
        "S71",
        "S79",
        "S84",
    ),
    # A coordinator that another has replaced goes on with what it knew when it leads again.
    "keeps-groups-of-an-older-epoch": in_brokers(
        "a coordinator tells of offsets as they were before another one took over from it",
        coordinator(goes_on=always(True), has_ended=always(False)),
        "S80",
        searched=False,
    ),
    # What a coordinator has applied stays when the log refuses the record.
    "keeps-refused-offsets": in_brokers(
        "a coordinator tells of an offset that the log has refused, and its successor of another",
        patched((UndoLog, "revert", UndoLog.commit)),
        "S101",
        faults=("partition",),
    ),
}
