"""I03: where two logs have a batch of one offset and epoch, they agree on everything before it."""

from __future__ import annotations

from typing import Any

from fencepost.sim.checks import Check
from fencepost.sim.log_contents import LogContents
from fencepost.sim.oracle import Oracle, Violation


class LogMatching(Check):
    """Compares every two logs at the end; both may begin with a snapshot."""

    kind = "I03"

    def at_end(self, oracle: Oracle) -> None:
        ids = sorted(oracle.disks)
        for index, a in enumerate(ids):
            for b in ids[index + 1 :]:
                if not (oracle.disks[a].is_damaged or oracle.disks[b].is_damaged):
                    self._compare(a, oracle.disks[a], b, oracle.disks[b])

        partitions = oracle.partitions
        for key in sorted({key for _, key in partitions.logs}):
            logs = sorted(partitions.replicas_of(key).items())
            for index, (a, one) in enumerate(logs):
                for b, other in logs[index + 1 :]:
                    self._compare(a, one, b, other)

    def _compare(self, a: int, one: LogContents[Any], b: int, other: LogContents[Any]) -> None:
        theirs = {(entry.base_offset, entry.epoch) for entry in other.entries}
        common = [e for e in one.entries if (e.base_offset, e.epoch) in theirs]
        if not common:
            return
        start = max(one.start_offset, other.start_offset)
        last = common[-1].base_offset
        first_log = [e for e in one.entries if start <= e.base_offset <= last]
        second_log = [e for e in other.entries if start <= e.base_offset <= last]
        if first_log != second_log:
            raise Violation(self.kind, f"logs of {a} and {b} differ below offset {last}")


CHECK = LogMatching
