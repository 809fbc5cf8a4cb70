"""The metadata log as the machine knows it: its end, what is durable, committed, damaged.

Appends and truncations are effects and happen after the step, so `end_offset` and `last_epoch` run
ahead of the log in a step; at the next they agree. So does the voter history: a set counts as soon
as its record is appended, and no longer than the record stays.

`Persisted` is trusted to speak of the log as it is: a shell must not report a flush that began
before a truncation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fencepost.batch.errors import BatchError
from fencepost.batch.record_batch import RecordBatch
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import Append, DropPrefix, Persist, Truncate
from fencepost.machines.probes import probe
from fencepost.machines.quorum.component import Component
from fencepost.machines.quorum.outbox import Outbox
from fencepost.machines.quorum.rules import QuorumRules
from fencepost.machines.quorum.view import LogView
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import VoterSet


class QuorumLog(Component):
    """The log, to be looked at; changed by the methods alone.

    `view` is the log on disk, `history` the voters along it. `installing` names the snapshot that
    is being put in the log's place, `damaged` where the batches begin that cannot be read.
    """

    NOT_STATE: ClassVar = frozenset(("_max_kraft_version", "view"))

    def __init__(
        self,
        view: LogView,
        history: VoterHistory,
        outbox: Outbox,
        max_kraft_version: int,
        rules: QuorumRules,
    ) -> None:
        self.view = view
        self.history = history
        self.end_offset = 0
        self.durable_end_offset = 0
        self.last_epoch = 0
        self.high_watermark = 0
        self.installing: SnapshotId | None = None
        self.damaged: frozenset[int] = frozenset()
        self._outbox = outbox
        self._max_kraft_version = max_kraft_version
        self._rules = rules

    def open(self) -> None:
        """Take over what the log holds at the start; all of it is durable."""
        view = self.view
        assert view.recovery_point >= view.end_offset, "the log is flushed before Start"
        self.end_offset = self.durable_end_offset = view.end_offset
        self.last_epoch = self.epoch_before(view.end_offset)

    def count_snapshots_as_committed(self) -> None:
        """What is in a snapshot, and what was dropped for one, was committed."""
        latest = self.view.snapshots.latest()
        self.high_watermark = max(self.view.start_offset, latest.end_offset if latest else 0)

    # -- what there is -------------------------------------------------------------------------

    @property
    def end(self) -> tuple[int, int]:
        """(epoch of the last record, end offset): what logs are compared by. Empty is (0, 0)."""
        return self.last_epoch, self.end_offset

    @property
    def voter_set(self) -> VoterSet:
        """The voters in force."""
        return self._rules.voters_in_force(self.history, self.high_watermark)

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version in force."""
        return self.history.kraft_version

    @property
    def damaged_at(self) -> int | None:
        """Where the first batch of the log begins that cannot be read; None if all can."""
        return min(self.damaged, default=None)

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record below `offset` of the log as it is on disk; 0 if there is none.

        At the log's start that is the epoch of the snapshot that ends there.
        """
        if offset > self.view.start_offset:
            return self.view.epochs.epoch_at(offset - 1) or 0
        ending_here = [i.epoch for i in self.view.snapshots.ids() if i.end_offset == offset]
        return ending_here[-1] if ending_here else 0

    def reason_against_level(self) -> str | None:
        """Why this node cannot go on with the level of kraft.version in the log; None if it can."""
        level, most = self.kraft_version, self._max_kraft_version
        if level <= most:
            return None
        return f"kraft.version {level} is in force, and this node can run no more than {most}"

    # -- its end -------------------------------------------------------------------------------

    def append(self, batches: Sequence[RecordBatch], epoch: int, as_leader: bool) -> bool:
        """Append, the last batch being of `epoch`; whether the voters change with that.

        Raises ValueError or BatchError, with nothing done, for control records that cannot be.
        """
        assert epoch >= self.last_epoch, "epochs do not fall along a log"
        voters_changed = self._take_control(batches)
        self._outbox.emit(Persist(Append(batches, self._outbox.state.epoch, as_leader)))
        self.end_offset += sum(batch.header.last_offset_delta + 1 for batch in batches)
        self.last_epoch = epoch
        return voters_changed

    def _take_control(self, batches: Sequence[RecordBatch]) -> bool:
        """Whether the voters or kraft.version change with these batches, which follow the log."""
        changed = False
        offset = self.end_offset
        try:
            for batch in batches:
                header = batch.header
                if header.is_control:
                    changed = self.history.take_batch(offset, batch.data) or changed
                offset += header.last_offset_delta + 1
            reason = self.reason_against_level()
            if reason is not None:
                raise ValueError(reason)
        except (ValueError, BatchError):
            self.history.truncate_to(self.end_offset)
            raise
        return changed

    def truncate(self, end_offset: int) -> None:
        """Cut the log, which must not take away anything that is committed (I07)."""
        assert self.high_watermark <= end_offset <= self.end_offset, "what is committed stays"
        self._outbox.emit(Persist(Truncate(end_offset)))
        self.ended_at(end_offset)

    def ended_at(self, end_offset: int) -> None:
        """The log ends there now: what was behind it is gone."""
        epoch = self.epoch_before(end_offset)
        self.end_offset = end_offset
        self.damaged = frozenset(at for at in self.damaged if at < end_offset)
        self.durable_end_offset = min(self.durable_end_offset, end_offset)
        self.last_epoch = epoch
        self.history.truncate_to(end_offset)

    def persisted(self, end_offset: int) -> None:
        """Everything below `end_offset` is on stable storage."""
        durable = min(end_offset, self.end_offset)
        self.durable_end_offset = max(self.durable_end_offset, durable)

    @property
    def is_durable(self) -> bool:
        """Whether all of the log is on stable storage."""
        return self.durable_end_offset == self.end_offset

    def advance_high_watermark(self, offset: int) -> None:
        """The high watermark never falls, whatever an old or late answer says."""
        self.high_watermark = max(self.high_watermark, offset)

    # -- its start, and snapshots in its place -------------------------------------------------

    def start_over(self, snapshot_id: SnapshotId) -> None:
        """A snapshot is in the log's place: the log begins and ends where it ends."""
        end_offset = snapshot_id.end_offset
        assert self.view.start_offset == self.view.end_offset == end_offset, "the log is empty"
        self.end_offset = self.durable_end_offset = end_offset
        self.last_epoch = snapshot_id.epoch
        self.damaged = frozenset()
        self.advance_high_watermark(end_offset)

    def drop_prefix(self, start_offset: int) -> None:
        """Let the log start at `start_offset`, where a snapshot ends."""
        assert start_offset <= self.high_watermark, "only what is committed is in a snapshot"
        if start_offset > self.view.start_offset:
            self._outbox.emit(Persist(DropPrefix(start_offset)))
            # What was in force below it counts, should a record at it be cut off.
            self.history.drop_prefix(start_offset - 1)

    def drop_damaged(self, start_offset: int) -> None:
        """A snapshot that ends at `start_offset` stands for what cannot be read."""
        probe("quorum.log.healed")
        self.drop_prefix(start_offset)
        self.damaged = frozenset(at for at in self.damaged if at >= start_offset)
