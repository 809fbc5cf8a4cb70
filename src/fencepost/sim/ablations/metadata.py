"""The metadata log and its snapshots with a check left out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from fencepost.log.snapshots import (
    FetchedSnapshot,
    SnapshotHeader,
    SnapshotId,
    SnapshotReader,
    opening,
    store,
)
from fencepost.machines.image import ClusterImage
from fencepost.runtime.metadata import damage
from fencepost.sim.ablations.ablation import (
    Ablation,
    ablation,
    always,
    both,
    changed,
    patched,
)

metadata = partial(changed, "metadata")


def _header_only(file: Any, path: str) -> SnapshotHeader:
    return SnapshotReader(file, path).header


class _Unsynced:
    """A file whose syncs do nothing."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def sync(self) -> None:
        """Nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


_seal = FetchedSnapshot.seal


def _seal_unsynced(self: FetchedSnapshot, check: Any) -> SnapshotHeader:
    self._file = _Unsynced(self._file)
    return _seal(self, check)


TABLE: Final[Mapping[str, Ablation]] = {
    # S41: a snapshot is served, and put in place of the log, without a look at its checksums.
    "accepts-any-snapshot": ablation(
        "a bit flipped in one node's snapshot is in the next one's log",
        both(
            metadata(load_snapshot=lambda _, *at: (_header_only(*at), ClusterImage())),
            patched((store, "check_whole", _header_only)),
        ),
        "S41",
        searched=False,
    ),
    # S53: a voter that finds its log damaged at a start cuts it, and votes by what is left.
    "forgets-the-acknowledged-end": ablation(
        "what a voter had told others to hold, and has lost to damage, does not bind its vote",
        patched((damage, "_write_acknowledged_end", always(None))),
        "S53",
        "S93",
        searched=False,
    ),
    # S42: a snapshot gets its name before its bytes are on stable storage (KAFKA-15312).
    "forgets-to-sync-a-snapshot": ablation(
        "a power cut leaves a snapshot without bytes, and no log before it",
        patched((FetchedSnapshot, "seal", _seal_unsynced)),
        "S42",
        searched=False,
    ),
    # S41: a leader hands out its snapshot without a look at its checksums.
    "serves-corrupt-snapshots": ablation(
        "followers refuse a corrupt snapshot for ever, and their leader never learns why",
        patched((store, "check_whole", _header_only)),
        "S41",
        searched=False,
    ),
    # S53: a leader sends what its disk gives it, without a look at the checksums.
    "serves-without-crc-checks": ablation(
        "followers refuse a corrupt batch for ever, and their leader never learns why",
        metadata(is_intact=always(True)),
        "S53",
        searched=False,
    ),
    # S43: a snapshot is named after the last offset in it, not after the one behind (KAFKA-14618).
    "snapshots-end-one-early": ablation(
        "a snapshot is taken for the log below its last record",
        metadata(snapshot_id_of=lambda _, image: SnapshotId(image.offset, image.epoch)),
    ),
    # S41: a restarted node keeps its log beside a snapshot that the log is not of.
    "starts-beside-its-snapshot": ablation(
        "the log that a loaded snapshot was to replace is taken for what follows it",
        patched((opening, "_is_in", always(True))),
        "S41",
        "S43",
        searched=False,
    ),
}
