"""The marker of a clean shutdown is left beside a log that could not be recovered (KAFKA-13773)."""

from __future__ import annotations

from fencepost.log.log_dir import LogDir
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def was_all_recovered(self: LogDir) -> bool:
    """Looks at nothing."""
    return True


ABLATION = Ablation(
    "a log that could not be recovered for want of space is never recovered",
    Rules(patches=((LogDir, "_was_all_recovered", was_all_recovered),)),
    scenarios=("S15",),
    is_found_by_search=False,
    in_brokers=True,
)
