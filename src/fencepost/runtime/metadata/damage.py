"""Opening a metadata log whose files have lost what had been durable (S53, S92).

A log that is damaged below the offset up to which it had been durable is not opened by itself:
acknowledged records would be gone in silence. Of the metadata log somebody else has them:

| who                              | what becomes of the log                                       |
|----------------------------------|---------------------------------------------------------------|
| a broker without a vote          | cut where the damage begins, and fetched again                |
| a controller with others to ask  | first the promise is written, then it is cut, and fetched     |
| the only voter                   | refused: nobody else has the records                          |
| damage that cannot be placed     | refused                                                       |

The promise is (epoch, end offset) of the log as it had been, or more, in `quorum-state`: other
voters may have counted this node as one that holds those records. Until its log reaches as far
again, the node does not stand for election, and its vote goes only to logs that do
(`QuorumState.promised`). What becomes durable comes in this order: the promise, the lowered
checkpoints, the cut. A crash in between leaves the damage, which is met again, or a log that ends
in front of it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.log.errors import CorruptFileError, DurableDataLostError
from fencepost.log.log_dir import LogDir
from fencepost.log.names import partition_dir
from fencepost.log.quorum_state import QuorumStateFile
from fencepost.log.salvage import log_end_of, sound_batches
from fencepost.log.snapshots import SnapshotError, SnapshotFileKind, SnapshotReader
from fencepost.log.snapshots.store import list_snapshots
from fencepost.machines.probes import probe
from fencepost.machines.quorum.voters import VoterSet
from fencepost.wire.records.control import VotersRecord

log = logging.getLogger(__name__)

FORGOTTEN: Final = (
    "a controller that has forgotten its commits and votes must not vote under its directory id:"
    " move the log directory away, format it anew (a new directory id), take the old voter out"
    " (fencepost quorum remove-voter) and the new one in (add-voter). Only a cluster's single"
    " controller may go on with what is left: -o fencepost.accept.loss=__cluster_metadata-0"
)
T = TypeVar("T")

ONLY_VOTER: Final = (
    "; this is the only voter, so nobody else has the records: restore the directory from a copy,"
    " or go on without them: -o fencepost.accept.loss=__cluster_metadata-0"
)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose metadata log it is: the node, the configured voters, and whether others count on it."""

    node_id: int
    static: VoterSet
    has_promised: bool


def open_despite_damage(
    open_log: Callable[[], T],
    log_dir: LogDir,
    topic: str,
    owner: Owner,
    state_file: QuorumStateFile,
) -> T:
    """What `open_log` opens, the log being cut where it is damaged if others have what is behind.

    Raises CorruptFileError if that must not be, and whatever else `open_log` raises.
    """
    cut_at: int | None = None
    while True:
        try:
            return open_log()
        except DurableDataLostError as error:
            sound_end = error.sound_end
            if sound_end is None or (cut_at is not None and sound_end >= cut_at):
                raise
            if owner.has_promised:
                _promise(error, sound_end, log_dir, topic, owner, state_file)
            probe("metadata.damage.cut")
            log.error("%s; the log is cut at offset %d, and fetched again", error, sound_end)
            log_dir.give_up_from(topic, 0, sound_end)
            cut_at = sound_end


def _promise(
    error: DurableDataLostError,
    sound_end: int,
    log_dir: LogDir,
    topic: str,
    owner: Owner,
    state_file: QuorumStateFile,
) -> None:
    """Write down what others may count on, unless this is the only voter. CorruptFileError."""
    stored = state_file.read()
    directory = f"{log_dir.path}/{partition_dir(topic, 0)}"
    if stored is None:
        reason = f"is gone, and the log beside it is damaged ({error})"
        raise CorruptFileError(state_file.path, f"{reason}; {FORGOTTEN}") from error
    if _last_known_voters(log_dir, directory, owner.static).ids == (owner.node_id,):
        reason = error.reason + ONLY_VOTER
        raise DurableDataLostError(error.path, reason, error.position) from error
    known_end = max(log_dir.known_offset(topic, 0), sound_end)
    end = log_end_of(log_dir.disk, directory, known_end, stored.state.leader_epoch)
    log.error(
        "until the log reaches offset %d (epoch %d) again, this node does not stand", *end[::-1]
    )
    promised = replace(stored, promised=max(end, stored.promised))
    state_file.write(promised)


def _last_known_voters(log_dir: LogDir, directory: str, static: VoterSet) -> VoterSet:
    """The newest voters that the files tell of, also behind the damage."""
    found: list[tuple[int, VotersRecord]] = []
    disk = log_dir.disk
    for name, snapshot_id in list_snapshots(disk, directory)[SnapshotFileKind.WHOLE]:
        file = disk.open(f"{directory}/{name}")
        try:
            with contextlib.suppress(SnapshotError):
                voters = SnapshotReader(file, name).header.voters
                if voters is not None:
                    found.append((snapshot_id.end_offset - 1, voters))
        finally:
            file.close()
    for header, batch in sound_batches(disk, directory):
        if header.is_control:
            with contextlib.suppress(BatchError):
                for record in read_control(batch, check=False):
                    if isinstance(record.value, VotersRecord):
                        found.append((record.offset, record.value))
    if not found:
        return static
    return VoterSet.from_record(max(found, key=lambda one: one[0])[1])
