"""S42: a snapshot gets its name before its bytes are on stable storage (KAFKA-15312)."""

from __future__ import annotations

from typing import Any

from fencepost.log.snapshots import FetchedSnapshot, SnapshotHeader
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules

_seal = FetchedSnapshot.seal


class _Unsynced:
    """A file whose syncs do nothing."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def sync(self) -> None:
        """Nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _without_sync(self: FetchedSnapshot, check: Any) -> SnapshotHeader:
    self._file = _Unsynced(self._file)
    return _seal(self, check)


ABLATION = Ablation(
    "a power cut leaves a snapshot without bytes, and no log before it",
    Rules(patches=((FetchedSnapshot, "seal", _without_sync),)),
    scenarios=("S42",),
    is_found_by_search=False,
)
