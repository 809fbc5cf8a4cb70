"""How far a search goes: the bounds of one space of states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EPOCHS_MAX: Final = 15


@dataclass(frozen=True)
class Bounds:
    """How many of what may happen, in any order and anywhere; see the package for what is free.

    `voters` found the quorum, `others` are further controllers, which fetch and may be added.
    `epochs` is the highest epoch: steps that lead beyond it are not taken. `timeouts` is how many
    timers fire, 0 for any number (elections, silent leaders and followers). `crashes` are power
    cuts with a restart, each with every choice of unflushed batches that the disk has all the same.
    `changes` are removals of any voter and additions of any other controller, accepted by any
    leader. `appends` are records of clients.

    `losses` are requests or answers that do not arrive and whose sender is told; a message that is
    lost untold is the same as one that never arrives, which is always among the choices. `late` are
    messages that still arrive after the sender of the request has given up on the answer; a retried
    request is there twice then. Of identical late messages one is kept. `refusals` are requests
    whose connection is refused: they never arrive, and their sender concludes that the process has
    ended. With `stays_down` a node that has lost power refuses any number of them until it does
    something again.

    `one_batch` makes fetches return one batch at a time, `reminds` lets leaders repeat their
    BeginQuorumEpoch. With `first` that node's is the first timer to fire: the others' names are its
    own with the numbers changed, but for the order in which a resigning leader names its heirs.

    `logs` are what the voters' disks hold at the start, if they are not empty: for each node the
    epochs of its batches, each of which the first node that has it wrote as its leader. All nodes
    are in the highest of these epochs then.
    """

    voters: int = 3
    others: int = 0
    epochs: int = 2
    timeouts: int = 0
    crashes: int = 0
    changes: int = 0
    appends: int = 0
    losses: int = 0
    late: int = 0
    refusals: int = 0
    one_batch: bool = False
    reminds: bool = False
    stays_down: bool = False
    first: int = 0
    logs: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.voters <= 5 or not 0 <= self.others <= 2:
            raise ValueError("there are 1 to 5 voters and 0 to 2 others")
        if not 1 <= self.epochs <= EPOCHS_MAX:
            raise ValueError(f"there are 1 to {EPOCHS_MAX} epochs")
        if not all(0 <= n <= 15 for n in self.budget):
            raise ValueError("timeouts, crashes, changes, appends, losses, late, refusals: 0 to 15")
        if not 0 <= self.first <= self.voters:
            raise ValueError("the first to wake is a voter, or 0 for any")
        if self.logs and (len(self.logs) != self.voters or self.others or self.changes):
            raise ValueError("logs are one for each voter, and voters do not change then")
        for log in self.logs:
            if any(a >= b for a, b in zip((0, *log), log)):
                raise ValueError(f"epochs ascend along a log: {log}")
            if any(epoch > EPOCHS_MAX for epoch in log):
                raise ValueError(f"epochs go to {EPOCHS_MAX}, in logs too: {log}")

    def led(self, epoch: int) -> int:
        """The node that led an epoch before the start; -1 if none did."""
        return next((id_ for id_, log in enumerate(self.logs, 1) if epoch in log), -1)

    @property
    def first_epoch(self) -> int:
        """The epoch that all nodes are in at the start."""
        return max((epoch for log in self.logs for epoch in log), default=0)

    @property
    def budget(self) -> tuple[int, ...]:
        """What may still happen at the start."""
        return (
            self.refusals,
            self.timeouts,
            self.crashes,
            self.changes,
            self.appends,
            self.losses,
            self.late,
        )

    @property
    def founders(self) -> tuple[int, ...]:
        """The ids of the first voters."""
        return tuple(range(1, self.voters + 1))

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of all nodes."""
        return tuple(range(1, self.voters + self.others + 1))
