"""Group coordinators without one of their rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from fencepost.machines.group.consumer import apply
from fencepost.machines.group.streams.group import StreamsGroup
from fencepost.machines.group.streams.tasks import HeldTasks
from fencepost.sim.ablations.ablation import (
    Ablation,
    always,
    changed,
    in_brokers,
    in_transactions,
    patched,
)

groups = partial(changed, "groups")


def _indexes_of_copies(self: StreamsGroup, held: HeldTasks) -> Any:
    return (self.standby_holders, held.standby), (self.warmup_holders, held.warmup)


TABLE: Final[Mapping[str, Ablation]] = {
    # The coordinator forgets which partitions members of a consumer group hold.
    "all-partitions-are-free": in_brokers(
        "a member is given a partition before the one that had it has given it up (KIP-848)",
        patched((apply, "_count_holders", always(None))),
        "S84",
        having={"epoch_members": 3},
    ),
    # The coordinator forgets which active tasks members of a streams group hold.
    "all-tasks-are-free": in_brokers(
        "a task is processed by a member before the one that had it has given it up (KIP-1071)",
        patched((StreamsGroup, "_indexes", _indexes_of_copies)),
        having={"streams_members": 3},
    ),
    # An offset expires though an open transaction has committed a new one.
    "expires-what-is-undecided": in_brokers(
        "a transaction is committed, and its offset is forgotten (KAFKA-19163)",
        groups(may_expire=always(True)),
        "S74",
        searched=False,
    ),
    # An offset of a transaction counts from its marker on, whatever was committed since.
    "late-offsets-win": in_transactions(
        "a group goes back to an offset that was committed before",
        groups(counts=always(True)),
        "S73",
    ),
    # What a member commits is taken, whatever generation it believes to be in.
    "old-generations-commit": in_brokers(
        "a member that has lost a partition commits behind the one that has it now",
        groups(may_commit=always(True)),
        "S82",
        searched=False,
    ),
    # A member hears what a later generation is assigned, and takes it for its own.
    "old-generations-sync": in_brokers(
        "two members read one partition, and each believes that its generation gave it to it",
        groups(may_sync=always(True)),
        "S84",
        searched=False,
    ),
    # An offset counts as soon as it is written in a transaction.
    "undecided-offsets-count": in_transactions(
        "a group has read to an offset whose transaction was aborted",
        groups(is_visible=always(True)),
        "S73",
        "S75",
    ),
}
