"""Who reads committed data is not told which transactions were aborted."""

from __future__ import annotations

from typing import Any

from fencepost.log import readable_log
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def finds_nothing(*_: Any) -> list[Any]:
    """The index of aborted transactions is not looked at."""
    return []


ABLATION = Ablation(
    "who reads committed data is given what was aborted",
    Rules(patches=((readable_log, "find_aborted", finds_nothing),)),
    scenarios=("S75",),
    in_transactions=True,
)
