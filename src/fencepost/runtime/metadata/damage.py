"""What is done about a metadata log whose files have lost what had been durable (S53, S92).

Loaded when something is missing, which for most nodes is never.

What is done about which damage is a table: `machines/quorum/log_damage.py`. Here it is carried out:
what the files still tell of the log's end and its voters is read, and what becomes durable comes in
this order: the acknowledged log end (in `quorum-state`), the lowered checkpoints, the truncation. A
crash in between leaves the damage, which is met again, or a log that ends in front of it.

The acknowledged log end is (epoch, end offset) of the log as it had been, or more.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final

from msgspec.structs import replace

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.log.errors import CorruptFileError, DurableDataLostError
from fencepost.log.log_dir import LogDir
from fencepost.log.quorum_state import StoredQuorumState
from fencepost.log.salvage import log_end_of, sound_batches
from fencepost.log.snapshots import SnapshotError, SnapshotFileKind, SnapshotReader
from fencepost.log.snapshots.store import list_snapshots
from fencepost.machines.probes import probe
from fencepost.machines.quorum.log_damage import Action, Found, Owner, decide, find_damage
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.metadata.files import MetadataFiles
from fencepost.wire.records.control import VotersRecord

log = logging.getLogger(__name__)

FORGOTTEN: Final = (
    "a controller that has forgotten its commits and votes must not vote under its directory id:"
    " move the log directory away, format it again (a new directory id), take the old voter out"
    " (fencepost quorum remove-voter) and the new one in (add-voter). Only a cluster's single"
    " controller may go on with what is left: -o fencepost.accept.loss=__cluster_metadata-0"
)
ONLY_VOTER: Final = (
    "; this is the only voter, so no other controller has the records: restore the directory from"
    " a copy, or go on without them: -o fencepost.accept.loss=__cluster_metadata-0"
)


def check_log_is_not_gone(files: MetadataFiles, path: str, reason: str) -> None:
    """Refuse a node that has lost the log which others count on. CorruptFileError."""
    _check_nothing_is_gone(Found.LOG_GONE, files, path, reason)


def check_state_is_not_gone(files: MetadataFiles, path: str, reason: str) -> None:
    """Refuse a node that has lost the `quorum-state` which others count on. CorruptFileError."""
    _check_nothing_is_gone(Found.STATE_GONE, files, path, reason)


def _check_nothing_is_gone(found: Found, files: MetadataFiles, path: str, reason: str) -> None:
    # Whether there are other voters does not matter, and cannot be told.
    owner = Owner.OBSERVER if files.is_observer else Owner.VOTER
    if decide(found, owner) is not Action.OPEN:
        raise CorruptFileError(path, f"{reason}; {FORGOTTEN}")


def carry_out(error: DurableDataLostError, truncated_at: int | None, files: MetadataFiles) -> int:
    """Do what the table says; where the log has been truncated now, so that it can be opened.

    `truncated_at` is where it was before, in this start. Raises CorruptFileError if it must not be.
    """
    stored = files.state.read()
    found = find_damage(error.sound_end, truncated_at, state_is_gone=stored is None)
    action = decide(found, _owner_of(files))
    if action is Action.REFUSE_FORGOTTEN:
        reason = f"is gone, and the log beside it is damaged ({error})"
        raise CorruptFileError(files.state.path, f"{reason}; {FORGOTTEN}") from error
    if action is Action.REFUSE_ONLY_COPY:
        reason = error.reason + ONLY_VOTER
        raise DurableDataLostError(error.path, reason, error.position) from error
    if action is Action.REFUSE or error.sound_end is None:
        raise error
    if action is Action.ACKNOWLEDGE_AND_TRUNCATE:
        assert stored is not None, "or the node would have been refused"
        _write_acknowledged_end(stored, error.sound_end, files)
    probe("metadata.damage.cut")
    log.error("%s; truncating the log to offset %d and fetching it again", error, error.sound_end)
    files.log_dir.give_up_from(files.topic, 0, error.sound_end)
    return error.sound_end


def _owner_of(files: MetadataFiles) -> Owner:
    if files.is_observer:
        return Owner.OBSERVER
    voters = _last_known_voters(files.log_dir, files.directory, files.static)
    return Owner.ONLY_VOTER if voters.ids == (files.node_id,) else Owner.VOTER


def _write_acknowledged_end(
    stored: StoredQuorumState, sound_end: int, files: MetadataFiles
) -> None:
    """Make durable up to where others may count on this log: that binds the node's vote (S53)."""
    log_dir = files.log_dir
    known_end = max(log_dir.known_offset(files.topic, 0), sound_end)
    end = log_end_of(log_dir.disk, files.directory, known_end, stored.state.leader_epoch)
    log.error(
        "this node does not become a candidate until its log reaches offset %d (epoch %d) again",
        *end[::-1],
    )
    files.state.write(replace(stored, acknowledged_end=max(end, stored.acknowledged_end)))


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
