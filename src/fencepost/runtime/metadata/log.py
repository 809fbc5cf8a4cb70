"""Opens the metadata log of one directory, with everything in front of it. No asyncio, no config.

What is done, in this order, over nothing but the `LogDir` that is given, so that a simulator does
it on its own disk: the log is opened and recovered; its snapshots are looked through
(`log/snapshots/opening.py`); the voters are gathered from the newest snapshot's header and from the
control batches behind it; `quorum-state` is read; the machine is made; the bootstrap records are
read for the first active controller.

A directory whose metadata log or `quorum-state` is gone has forgotten the commits it took part in
and the votes it gave. A controller does not start with it, because under its directory id the
others count on them; a broker begins again (`machines/quorum/log_damage.py`).

`quorum-state` is written in the data version that belongs to the level of kraft.version in force,
as Kafka does: 0 names the configured voters, 1 (KIP-853) has the directory that got the vote.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from fencepost.log.config import LogConfig
from fencepost.log.errors import CorruptFileError, DurableDataLostError, LogError
from fencepost.log.log_dir import LogDir
from fencepost.log.names import partition_dir
from fencepost.log.partition_log import PartitionLog
from fencepost.log.quorum_state import QuorumStateFile, StoredQuorumState
from fencepost.log.snapshots import BOOTSTRAP_FILE, BOOTSTRAP_ID, SnapshotStore
from fencepost.machines.quorum import (
    DraftAdapter,
    MachineMaker,
    QuorumConfig,
    QuorumMachine,
    QuorumState,
)
from fencepost.machines.quorum.draft import NOT_SPOKEN
from fencepost.machines.quorum.view import SnapshottedLog
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.metadata.files import MetadataFiles
from fencepost.runtime.metadata.host import METADATA_TOPIC, MetadataHost
from fencepost.runtime.metadata.replay import missing_batch, snapshot_records
from fencepost.runtime.metadata.rules import RULES, MetadataRules
from fencepost.runtime.metadata.snapshot_generation import SnapshotRules, history_of
from fencepost.runtime.ports import MachinePorts
from fencepost.wire.errors import WireError
from fencepost.wire.message import Message
from fencepost.wire.records.quorum_state import QuorumStateData, QuorumVoter
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

T = TypeVar("T")

DYNAMIC_SINCE: Final = 1
"""The level of kraft.version, and the data version of `quorum-state`, with voters in the log."""


class MetadataLogSettings(Struct, frozen=True):
    """How a metadata log is kept: its segments, and when snapshots of it are taken."""

    log: LogConfig
    snapshots: SnapshotRules


def open_metadata(
    ports: MachinePorts,
    log_dir: LogDir,
    node_id: int,
    static: VoterSet,
    config: QuorumConfig,
    settings: MetadataLogSettings,
    *,
    wall_ms: int,
    draw: Callable[[int], int] = random.randrange,
    make_machine: MachineMaker = QuorumMachine,
    rules: MetadataRules = RULES,
    accept_loss: bool = False,
    follow_with_draft: int = NOT_SPOKEN,
) -> MetadataHost:
    """The metadata log of a directory and the quorum machine in front of it. LogError, OSError.

    `static` are the configured voters, empty where they are dynamic. `draw(n)` gives a number in
    [0, n) for the machine's jitter. `accept_loss` opens a directory that has forgotten its promises
    all the same, which is safe for a lone voter that can do without what is lost.
    `follow_with_draft` is the version of FetchQuorumRecords to follow with.
    """
    directory = f"{log_dir.path}/{partition_dir(METADATA_TOPIC, 0)}"
    state_file = QuorumStateFile(log_dir.disk, directory)
    is_observer = accept_loss or not config.can_become_voter
    files = MetadataFiles(log_dir, METADATA_TOPIC, state_file, node_id, static, is_observer, rules)
    log_dir.keep_durable_end(METADATA_TOPIC, 0)
    _check_log_is_there(files)
    metadata_log, store, history = _open_despite_damage(
        lambda: _open_files(files, settings.log, wall_ms, accept_loss), files
    )
    # A vote that is written into a directory which a power cut may take would be forgotten with it.
    log_dir.begin_durable_end(metadata_log)
    stored_state = state_file.read()
    if stored_state is None:
        _check_log_is_empty(files, metadata_log, store)
    view = SnapshottedLog(metadata_log, store)
    machine = make_machine(
        node_id,
        history,
        view,
        quorum_state_of(stored_state, keeps_acknowledged_end=not accept_loss),
        config,
    )

    def write_state(state: QuorumState) -> None:
        state_file.write(stored_quorum_state(state, machine.voters, machine.kraft_version))

    return MetadataHost(
        ports,
        metadata_log,
        store,
        DraftAdapter(machine, view, follow_with_draft),
        write_state,
        write_starts=log_dir.checkpoint_start_offsets,
        snapshot_rules=settings.snapshots,
        rules=rules,
        bootstrap_records=read_bootstrap(log_dir, store),
        draw=draw,
    )


def _open_despite_damage(open_log: Callable[[], T], files: MetadataFiles) -> T:
    """What `open_log` opens, the log being truncated where it is damaged if others have the rest.

    Raises CorruptFileError if that must not be, and whatever else `open_log` raises.
    """
    truncated_at: int | None = None
    while True:
        try:
            return open_log()
        except DurableDataLostError as error:
            # A sound log needs none of it; nor do the two checks below, for one that is there.
            from fencepost.runtime.metadata.damage import carry_out

            truncated_at = carry_out(error, truncated_at, files)


def _open_files(
    files: MetadataFiles, config: LogConfig, wall_ms: int, accept_loss: bool
) -> tuple[PartitionLog, SnapshotStore, VoterHistory]:
    """The log, durable to its end, its snapshots, and the voters that they tell of.

    DurableDataLostError for damage that must be cut off, other LogError, OSError.
    """
    what = METADATA_TOPIC, 0, Uuid.METADATA_TOPIC_ID, config
    opened = files.log_dir.create(*what, wall_ms=wall_ms, accept_loss=accept_loss, is_gapless=True)
    store = files.rules.open_snapshots(opened)
    if opened.recovery_point < opened.end_offset:
        opened.flush()
    return opened, store, read_history(files.static, opened, store)


def _check_log_is_there(files: MetadataFiles) -> None:
    """Refuse to make the log again where others count on what it held. CorruptFileError."""
    log_dir = files.log_dir
    is_gone = log_dir.was_there(METADATA_TOPIC, 0) and not log_dir.disk.exists(files.directory)
    topic_id = log_dir.topic_id_on_disk(METADATA_TOPIC, 0)
    if not is_gone and topic_id in (None, Uuid.METADATA_TOPIC_ID):
        return
    from fencepost.runtime.metadata.damage import check_log_is_not_gone

    if is_gone:
        offset = log_dir.known_offset(METADATA_TOPIC, 0)
        reason = f"is gone, and had been written up to offset {offset}"
        check_log_is_not_gone(files, files.directory, reason)
    if topic_id not in (None, Uuid.METADATA_TOPIC_ID):
        reason = f"belongs to topic id {topic_id}, which is not the metadata log's"
        check_log_is_not_gone(files, files.directory, reason)


def _check_log_is_empty(
    files: MetadataFiles, metadata_log: PartitionLog, store: SnapshotStore
) -> None:
    """Refuse a log with records whose `quorum-state` is gone. CorruptFileError.

    A directory that is just formatted has neither, but for the bootstrap snapshot.
    """
    latest = store.latest()
    offset = max(metadata_log.end_offset, 0 if latest is None else latest.end_offset)
    if offset > 0:
        reason = f"is gone, and the log beside it reaches offset {offset}"
        from fencepost.runtime.metadata.damage import check_state_is_not_gone

        check_state_is_not_gone(files, files.state.path, reason)


def read_history(
    static: VoterSet, metadata_log: PartitionLog, store: SnapshotStore
) -> VoterHistory:
    """The voters along the log: what the newest snapshot says, and the log behind it.

    Raises DurableDataLostError for damage that leaves no place for a good copy, LogError for voter
    sets that cannot follow each other.
    """
    latest = store.latest()
    start_offset = metadata_log.start_offset
    history = VoterHistory(static)
    if latest is not None:
        header = store.header(latest)
        assert header is not None, "the newest snapshot is in place"
        history = history_of(static, latest, header)
        start_offset = max(start_offset, latest.end_offset)
    next_offset = start_offset
    try:
        for header_, batch in metadata_log.read_all_batches(start_offset, metadata_log.end_offset):
            if header_.base_offset > next_offset:
                raise missing_batch(metadata_log, next_offset, header_)
            if header_.is_control:
                history.take_batch(header_.base_offset, batch)
            next_offset = header_.next_offset
    except CorruptFileError as error:
        damaged_at = metadata_log.first_damaged(next_offset)
        if damaged_at is not None and not metadata_log.is_framed(damaged_at):
            raise DurableDataLostError(
                error.path, error.reason, error.position, sound_end=damaged_at
            ) from error
        # A good copy will fit: applying the log meets the damage again, and has it repaired.
        log.error("cannot determine the voters after the corrupt batch: %s", error)
    except ValueError as error:
        raise LogError(f"{metadata_log.directory}: {error}") from None
    return history


def read_bootstrap(log_dir: LogDir, store: SnapshotStore) -> Sequence[Message]:
    """The records that `fencepost format`, or Kafka's tool, has left for the first controller.

    They stand in the bootstrap snapshot (KIP-1170), before Kafka 4.4 in `bootstrap.checkpoint` next
    to `meta.properties`. None if there are none. Raises LogError, OSError.
    """
    paths = [store.path(BOOTSTRAP_ID)] if BOOTSTRAP_ID in store.ids() else []
    paths.append(f"{log_dir.path}/{BOOTSTRAP_FILE}")
    for path in paths:
        try:
            file = log_dir.disk.open(path)
        except FileNotFoundError:
            continue
        try:
            records = list(snapshot_records(file, path))
        except WireError as error:
            raise CorruptFileError(path, str(error)) from None
        finally:
            file.close()
        if records:
            return records
    return ()


def quorum_state_of(
    stored: StoredQuorumState | None, *, keeps_acknowledged_end: bool = True
) -> QuorumState:
    """The machine's state from what the file says; nothing stored is the beginning.

    Without `keeps_acknowledged_end` it is forgotten that the log has lost anything.
    """
    if stored is None:
        return QuorumState()
    return QuorumState(
        epoch=max(stored.state.leader_epoch, 0),
        leader_id=stored.state.leader_id,
        voted_id=stored.state.voted_id,
        voted_directory_id=stored.state.voted_directory_id,
        acknowledged_end=stored.acknowledged_end if keeps_acknowledged_end else (0, 0),
    )


def stored_quorum_state(
    state: QuorumState, voters: Sequence[int], kraft_version: int
) -> StoredQuorumState:
    """What the file says of the machine's state at this level of kraft.version."""
    stored = QuorumStateData(
        leader_epoch=state.epoch, leader_id=state.leader_id, voted_id=state.voted_id
    )
    if kraft_version >= DYNAMIC_SINCE:
        stored.voted_directory_id = state.voted_directory_id
    else:
        stored.current_voters = [QuorumVoter(voter_id=voter) for voter in voters]
    return StoredQuorumState(stored, min(kraft_version, DYNAMIC_SINCE), state.acknowledged_end)
