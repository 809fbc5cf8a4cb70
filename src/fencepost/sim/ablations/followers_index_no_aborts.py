"""A follower does not take down which transactions were aborted, and becomes leader."""

from __future__ import annotations

from typing import Any

from fencepost.log.appendable_log import AppendableLog
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

own = AppendableLog.append_as_follower


def appends_without_index(self: AppendableLog, *args: Any, **kwargs: Any) -> Any:
    """The batch is appended, and the transaction index stays as it was."""
    end_offset = self.end_offset
    result = own(self, *args, **kwargs)
    self._row.active.txn_index.truncate(end_offset)
    return result


ABLATION = Ablation(
    "a new leader gives what was aborted to who reads committed data",
    Rules(patches=((AppendableLog, "append_as_follower", appends_without_index),)),
    scenarios=("S70",),
    in_transactions=True,
)
