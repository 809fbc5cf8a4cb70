"""I13: what somebody was told is committed, is committed, where they were told it stands."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Truth, Violation


class Promises(Check):
    """Keeps every promise, and compares it with the committed log as soon and as late as it can."""

    kind = "I13"

    def __init__(self) -> None:
        self._promises: dict[int, int] = {}

    def promised(self, truth: Truth, base_offset: int, crc: int) -> None:
        self._promises[base_offset] = crc
        self._compare(truth, base_offset)

    def at_end(self, truth: Truth) -> None:
        for base_offset in sorted(self._promises):
            self._compare(truth, base_offset)

    def _compare(self, truth: Truth, base_offset: int) -> None:
        at = truth.committed_position(base_offset)
        found = truth.committed[at] if at < len(truth.committed) else None
        if found is None or (found.base_offset, found.crc) != (
            base_offset,
            self._promises[base_offset],
        ):
            raise Violation(self.kind, f"what was promised at offset {base_offset} is not there")


CHECK = Promises
