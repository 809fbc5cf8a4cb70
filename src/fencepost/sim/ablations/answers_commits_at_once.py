"""A coordinator answers when its records are in the leader's log, and does not hold the answer."""

from __future__ import annotations

from typing import Any

from fencepost.runtime.coordinator import Coordinator
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules
from fencepost.wire.errors import ErrorCode


def release(self: Any) -> None:
    """Let go whatever rests on what is appended."""
    for answer in self._held.release(self._appended_offset):
        self._answer(answer.token, ErrorCode.NONE, answer.value)


ABLATION = Ablation(
    "a client hears that an offset is committed that the next coordinator does not know",
    Rules(patches=((Coordinator, "_release", release),)),
    scenarios=("S79", "S84"),
    in_brokers=True,
)
