"""How far a search of one partition goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EPOCHS_MAX: Final = 15


@dataclass(frozen=True)
class Bounds:
    """How many of what may happen, in any order and anywhere; see the package for what is free.

    `replicas` brokers hold the partition. 1 leads it in epoch 0; the first `in_sync` are in sync at
    the start (0: all of them). `epochs` is the highest leader epoch: what leads beyond it is not
    done. `fences` are sessions that the controller takes for lost, whether the broker is up or not;
    `crashes` are power cuts, each with every choice of unflushed batches that the disk has all the
    same, and with the high watermark as it was or never written down. `changes` are in-sync sets
    that the controller takes over from a leader, `lags` how often leaders find that followers lag
    that are not at the end, `appends` batches that a client produces with acks=all at a broker that
    takes itself for the leader.

    `losses` are requests or answers that do not arrive and whose sender is told. `late` are
    requests that arrive although their sender has died or given up on them.

    `stragglers` is how many brokers may be behind with the metadata at once; all others take over
    what the controller has decided in the same moment. With `skips` a broker takes over several
    changes of the metadata as one, or one after the other; without, one after the other. With
    `slow_answers` the answer to a fetch is on its way like any other message, and may be overtaken
    by whatever happens; without, a fetch is answered in the moment that it arrives. With `flushes`
    the disks take their time: a power cut may take what was not flushed. Without, every write is
    durable at once.

    `min_isr` is `min.insync.replicas`; with `elr` the controller keeps eligible leader replicas.
    """

    replicas: int = 3
    in_sync: int = 0
    epochs: int = 1
    fences: int = 0
    crashes: int = 0
    changes: int = 0
    lags: int = 0
    appends: int = 0
    losses: int = 0
    late: int = 0
    stragglers: int = 1
    min_isr: int = 2
    slow_answers: bool = False
    flushes: bool = False
    skips: bool = False
    elr: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= 4:
            raise ValueError("there are 1 to 4 replicas")
        if not 0 <= self.in_sync <= self.replicas:
            raise ValueError("in_sync is 1 to the number of replicas, or 0 for all of them")
        if not 0 <= self.epochs <= EPOCHS_MAX:
            raise ValueError(f"there are 0 to {EPOCHS_MAX} epochs")
        if not 1 <= self.min_isr <= self.replicas:
            raise ValueError("min_isr is 1 to the number of replicas")
        if not 0 <= self.stragglers <= self.replicas:
            raise ValueError("there are 0 stragglers to as many as there are replicas")
        if not all(0 <= n <= 15 for n in self.budget):
            raise ValueError("fences, crashes, changes, lags, appends, losses, late: 0 to 15")

    @property
    def budget(self) -> tuple[int, ...]:
        """What may still happen at the start, in the order of `space`'s shifts."""
        return (
            self.fences,
            self.crashes,
            self.changes,
            self.lags,
            self.appends,
            self.losses,
            self.late,
        )

    @property
    def isr(self) -> tuple[int, ...]:
        """Who is in sync at the start."""
        return self.ids[: self.in_sync or self.replicas]

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of all brokers."""
        return tuple(range(1, self.replicas + 1))
