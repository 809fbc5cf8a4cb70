"""What driver and tasks of the exactly-once sink tell each other about a batch, in pickles."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.client.open_transactions import OpenTransaction
from fencepost.client.produce_queue import Identity
from fencepost.spark.decisions import NO_LABEL, Label
from fencepost.spark.memory import NOTHING, Memory


@dataclass(frozen=True, slots=True)
class Mandate:
    """The right to decide one batch: the driver's producer as `SinkDriver.open` made it, which the
    next `open` fences."""

    sink: str
    driver: Identity
    is_tv2: bool
    number: int
    """Of the last decision; 0 when there is none."""
    timeout_ms: int
    """Of the tasks' transactions."""
    opened_s: float
    """By the clock of the driver's machine; no transaction of the batch is older."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The batch was first tried longer ago than brokers keep decisions."""

    age_ms: int
    retention_ms: int


@dataclass(frozen=True, slots=True)
class Grant:
    """What tasks need of the driver."""

    mandate: Mandate
    run: str
    query: str
    batch: int
    """The batch of that query, or version of that key, is decided already; -1 when none is."""
    spare: tuple[str, ...]
    """Transactional ids for the first attempts of tasks 0, 1, ..."""
    memory: Memory = NOTHING
    """All that is decided, of every key."""
    forgotten: Forgotten | None = None
    """Why a key that is not remembered may have been decided all the same."""

    def covers(self, transactional_id: str) -> bool:
        """Whether it is of an attempt of this batch or one before it: no other batch is given the
        run or its spare ids before this one is decided."""
        made = f"{self.mandate.sink}-{self.run}-"
        return transactional_id.startswith(made) or transactional_id in self.spare


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What an attempt of a task leaves for the driver."""

    mandate: Mandate
    query: str
    """The key of the batch (`memory`)."""
    transaction: OpenTransaction | None
    """None if it had no rows, or the batch was decided already."""
    topics: tuple[str, ...]
    batch: int = 0
    """The version of the key."""
    label: Label = NO_LABEL
    run: str = ""
    """The run of the streaming query, if there is one (`memory.run_digest`)."""
