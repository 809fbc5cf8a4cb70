"""What every coordinator is made of: decisions, and state that can be reverted.

A coordinator (of groups, of transactions, and later of share groups) is a machine of the shape
decide, then apply. It is driven by `runtime.coordinator`; what that expects of it is
`CoordinatorMachine`.
"""

from fencepost.machines.coordinator.decision import (
    Decision,
    Producer,
    TimerName,
    TransactionEnd,
    Work,
    WorkName,
    WorkResult,
)
from fencepost.machines.coordinator.machine import CoordinatorMachine
from fencepost.machines.coordinator.undo_log import UndoLog

__all__ = [
    "CoordinatorMachine",
    "Decision",
    "Producer",
    "TimerName",
    "TransactionEnd",
    "UndoLog",
    "Work",
    "WorkName",
    "WorkResult",
]
