"""Snapshots on the side of whoever has the log: fetched, taken, retained; and damage (KIP-630).

Fetching
--------
A leader whose log no longer reaches back to where a follower stands answers its fetch with the id
of its newest snapshot. The follower then asks for one piece after the other, and when it has all of
them, has the snapshot installed in place of its log. What happens in between:

|   | what comes                                     | what becomes of the snapshot       |
|---|------------------------------------------------|------------------------------------|
| a | the piece that was asked for                   | stored; the next is asked for      |
| b | the last piece                                 | stored, and the whole is installed |
| c | no answer, or one that comes too late          | the same piece is asked for again  |
| d | SNAPSHOT_NOT_FOUND: the leader has a newer one | given up; Fetch says what to do    |
| e | POSITION_OUT_OF_RANGE, or any other error      | given up; Fetch says what to do    |
| f | the request is refused whole                   | given up; Fetch says what to do    |
| g | another snapshot, place, size or epoch         | given up; Fetch says what to do    |
| h | an empty piece, or one that goes past the end  | given up; Fetch says what to do    |
| i | another leader or epoch, in any message        | given up with the role             |
| j | installed: sound and in place                  | the log begins and ends at its end |
| k | refused: not whole, or a checksum is wrong     | thrown away; Fetch says what to do |
| l | refused while it is fetched: no room for it,   | given up; Fetch says what to do    |
|   | or its beginning is not one                    |                                    |

Nothing of a snapshot is visible before j. Between b and j or k the log is left alone: this node
neither fetches nor stands for election, so a leader never loads a snapshot (I28). It still votes,
by the log it had: nobody has been told that it has more.

Given up, the node waits for the retry backoff before it fetches, so that a leader that offers what
it does not have is not asked without end. A peer that cannot answer with an error but for the whole
request (Apache Kafka 4.3) is treated as in f, not as a broken one.

Taking and retaining
--------------------
The shell takes snapshots of what is committed and says so. Then, and when the oldest grows too old,
this node looks whether it keeps too much: if there are two snapshots, and the log with all of them
is larger than `retention_bytes`, or the oldest older than `retention_ms`, the log drops what lies
below the second, and the oldest goes with it. One at a time, as long as that holds. A follower that
lags keeps nothing back: it will be offered a snapshot.

Damage
------
A batch that no longer matches its checksum is neither sent nor applied (`LogDamaged`). A leader
that has one resigns; a node that has one does not stand for election until it is healed. Where the
high watermark lies beyond the batch, it is healed by a snapshot that stands for it: there is one,
or the shell takes one of its image. Else the leader is asked for the very batch, and has it, or a
snapshot beyond it; the one is written over the damage, the other put beside the log, which keeps
what lies behind. Where it does not, the log is cut
there and fetched again; until then votes go only to candidates whose logs are as long as ours was,
because somebody may have counted on it, and we do not stand. That promise is a part of the durable
state (`QuorumState.promised`), written before the log is cut: a node that is killed meanwhile keeps
it, and one that finds at its start what had rotted begins with it. A lone voter has nobody to fetch
from, and stops.
"""

from __future__ import annotations

from typing import Final

from fencepost.batch.errors import BatchError
from fencepost.batch.header import check_crc, iter_headers
from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotId
from fencepost.machines.effects import (
    Buffer,
    DropPrefix,
    InstallSnapshot,
    Persist,
    RepairBatch,
    StoreSnapshot,
)
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, messages
from fencepost.machines.quorum.endpoints import leader_in
from fencepost.machines.quorum.roles import FetchingSnapshot, Follower, Leader, Nominee, Role
from fencepost.machines.quorum.transitions import Transitions
from fencepost.wire.api.fetch_snapshot import PartitionSnapshotResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

MAX_SNAPSHOT_BYTES: Final = 1 << 34
"""No snapshot is larger; a leader that says so is not believed."""

LOOK_INTERVAL_MS: Final = 60_000
"""How often the age of snapshots is looked at, as in Kafka."""

_LEADERS_ERRORS: Final = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
"""What only a leader says that knows its log."""


class Snapshots(Transitions):
    """Handlers of snapshots; see the module docstring."""

    _begun: FetchingSnapshot | None = None

    # -- fetching one --------------------------------------------------------------------------

    def _begin_snapshot(self, follower: Follower, snapshot_id: SnapshotId) -> None:
        """The leader's log no longer reaches back to ours, and it offers this instead."""
        if min(snapshot_id) < 0 or snapshot_id == BOOTSTRAP_ID:
            self._wait_for_retry(follower)
        elif not self._may_load(snapshot_id):
            self.become_failed(
                f"a snapshot of {snapshot_id.end_offset} is offered, below the high watermark"
                f" {self._high_watermark}"
            )
        else:
            follower.fetching = self._begun = FetchingSnapshot(snapshot_id)

    def _may_load(self, snapshot_id: SnapshotId) -> bool:
        """Whether nothing that we know to be committed would be lost (I07)."""
        damaged_at = self.damaged_at
        if damaged_at is not None and damaged_at < snapshot_id.end_offset:
            return True  # what we have behind it stays
        return snapshot_id.end_offset >= self._high_watermark

    def _fetch_snapshot_request(self, fetching: FetchingSnapshot) -> Message:
        return messages.fetch_snapshot_request(
            self._config,
            self._node_id,
            self._state.epoch,
            fetching.snapshot_id,
            fetching.position_bytes,
        )

    def _step_fetch_snapshot_answer(self, input_: inputs.FetchSnapshotAnswered) -> None:
        said = messages.fetch_snapshot_response_of(input_.response)
        unusable = (
            said is None
            or said.error_code != ErrorCode.NONE
            or self._is_invalid_leader_claim(
                said.current_leader.leader_epoch, said.current_leader.leader_id
            )
        )
        is_awaited = self._settle_request(input_.source, input_.request, retry_later=unusable)
        if said is not None:
            current = said.current_leader
            endpoints = leader_in(input_.response, current.leader_id, self._config.listener)
            if self._observe(
                current.leader_epoch, current.leader_id, endpoints, source=input_.source
            ):
                return
        follower = self._body
        if not is_awaited or not isinstance(follower, Follower):
            return
        if follower.fetching is None:  # it was refused while this was asked for
            self._wait_for_another(follower)
            return
        if said is None or unusable:
            probe("quorum.snapshot.fetch.refused")
            self._give_up_snapshot(follower)
            if said is None or said.error_code not in _LEADERS_ERRORS:
                return  # it is there, but does not lead
        elif self._is_next_piece(follower.fetching, said):
            self._take_piece(follower, follower.fetching, said)
        else:
            probe("quorum.snapshot.fetch.other_piece")
            self._give_up_snapshot(follower)
        follower.has_fetched = True
        self._await_leader(follower.leader_id)

    def _is_next_piece(self, fetching: FetchingSnapshot, said: PartitionSnapshotResponse) -> bool:
        """Whether this is a piece of our snapshot, at our place, fits, and is our leader's."""
        size = len(said.unaligned_records)
        return (
            said.current_leader.leader_epoch == self._state.epoch
            and (said.snapshot_id.end_offset, said.snapshot_id.epoch) == fetching.snapshot_id
            and said.position == fetching.position_bytes
            and fetching.size_bytes in (-1, said.size)
            and 0 < size <= said.size - said.position
            and said.size <= MAX_SNAPSHOT_BYTES
        )

    def _take_piece(
        self, follower: Follower, fetching: FetchingSnapshot, said: PartitionSnapshotResponse
    ) -> None:
        data = said.unaligned_records
        position = fetching.position_bytes
        self._emit(Persist(StoreSnapshot(fetching.snapshot_id, position, data, said.size)))
        fetching.position_bytes += len(data)
        fetching.size_bytes = said.size
        if self._rules.is_whole_snapshot(fetching.position_bytes, fetching.size_bytes):
            follower.fetching = None
            self._installing = fetching.snapshot_id
            keeps_log = self._is_inside_log(fetching.snapshot_id)
            self._emit(Persist(InstallSnapshot(fetching.snapshot_id, keeps_log)))

    def _is_inside_log(self, snapshot_id: SnapshotId) -> bool:
        """Whether our log has what it stands for, and more: others may count on us for that."""
        end_offset, epoch = snapshot_id
        is_inside = self._log.start_offset < end_offset < self._end_offset
        return is_inside and self._log.epochs.epoch_at(end_offset - 1) == epoch

    def _give_up_snapshot(self, follower: Follower) -> None:
        """Back to Fetch, in a moment: it says what the leader has by now."""
        follower.fetching = None
        self._wait_for_retry(follower)

    def _wait_for_retry(self, follower: Follower) -> None:
        self._not_before[follower.leader_id] = self._now_ms + self._config.retry_backoff_ms

    # -- in place of the log -------------------------------------------------------------------

    def _step_snapshot_installed(self, input_: inputs.SnapshotInstalled) -> None:
        snapshot_id = input_.snapshot_id
        if self.role is Role.FAILED or snapshot_id != self._installing:
            return
        assert not isinstance(self._body, Leader | Nominee), "leaders never load a snapshot"
        log = self._log
        if log.end_offset > snapshot_id.end_offset:
            self._installing = None
            self._advance_high_watermark(snapshot_id.end_offset)
            self._drop_damaged(snapshot_id.end_offset)
            return
        assert log.start_offset == log.end_offset == snapshot_id.end_offset, "the log is empty"
        self._installing = None
        self._end_offset = self._durable_end_offset = snapshot_id.end_offset
        self._last_epoch = snapshot_id.epoch
        self._damaged = frozenset()
        self._advance_high_watermark(snapshot_id.end_offset)
        if input_.history is not None:
            self._history = input_.history
            reason = self._reason_of_level()
            if reason is not None:
                self.become_failed(reason)
                return
            self._voters_changed()
        if isinstance(self._body, Follower):
            self._await_leader(self._body.leader_id)

    def _step_snapshot_refused(self, input_: inputs.SnapshotRefused) -> None:
        if self.role is Role.FAILED:
            return
        follower = self._body
        if input_.snapshot_id == self._installing:
            self._installing = None
        elif isinstance(follower, Follower) and follower.is_fetching(input_.snapshot_id):
            follower.fetching = None
        else:
            return
        probe("quorum.snapshot.refused")
        if isinstance(follower, Follower):
            self._wait_for_another(follower)

    def _wait_for_another(self, follower: Follower) -> None:
        """What was fetched was fetched for nothing: the leader gets time to have another."""
        wait_ms = self._config.fetch_timeout_ms // 2
        self._not_before[follower.leader_id] = self._now_ms + wait_ms

    # -- taking and retaining ------------------------------------------------------------------

    def _step_snapshot_taken(self, input_: inputs.SnapshotTaken) -> None:
        if self.role is Role.FAILED or self._installing is not None:
            return
        assert input_.snapshot_id.end_offset <= self._high_watermark, "snapshots are committed"
        damaged_at = self.damaged_at
        if damaged_at is not None and damaged_at < input_.snapshot_id.end_offset:
            self._drop_damaged(input_.snapshot_id.end_offset)
        else:
            self._clean()

    def _step_clean(self) -> None:
        """The oldest snapshot may be too old by now, or one of many has just gone."""
        if self._installing is None:
            self._clean()

    def _clean(self) -> None:
        """Drop the oldest snapshot and its part of the log if they are too much; look again."""
        ids = self._log.snapshots.ids()
        timer: int | None = None
        if len(ids) > 1 and ids[1].end_offset > self._log.start_offset:
            timer = self._next_look_ms(ids[0])
            if self._keeps_too_much(ids[0]):
                probe("quorum.snapshot.retention")
                self._drop_prefix(ids[1].end_offset)
                timer = self._now_ms
        self._set_timer(inputs.CLEAN, timer)

    def _keeps_too_much(self, oldest: SnapshotId) -> bool:
        """Whether a snapshot breaks the retention of size or time."""
        left_ms = self._left_ms(oldest)
        if left_ms is not None and left_ms <= 0:
            return True
        if self._config.retention_bytes < 0:
            return False
        snapshots = self._log.snapshots
        held = sum(snapshots.size_bytes(id_) or 0 for id_ in snapshots.ids())
        return held + self._log.size_bytes > self._config.retention_bytes

    def _next_look_ms(self, oldest: SnapshotId) -> int | None:
        """When to look at the oldest snapshot's age again; None for never.

        Its age is a matter of the wall clock, which may be set meanwhile.
        """
        left_ms = self._left_ms(oldest)
        return None if left_ms is None else self._now_ms + min(left_ms, LOOK_INTERVAL_MS)

    def _left_ms(self, snapshot_id: SnapshotId) -> int | None:
        """How long it takes until the snapshot is older than `retention_ms`; None for ever."""
        taken_ms = self._log.snapshots.timestamp_ms(snapshot_id)
        if taken_ms is None or self._config.retention_ms < 0:
            return None
        return taken_ms + self._config.retention_ms + 1 - self._wall_ms

    def _drop_prefix(self, start_offset: int) -> None:
        assert start_offset <= self._high_watermark, "only what is committed is in a snapshot"
        if start_offset > self._log.start_offset:
            self._emit(Persist(DropPrefix(start_offset)))
            # What was in force below it counts, should a record at it be cut off.
            self._history.drop_prefix(start_offset - 1)

    # -- damage --------------------------------------------------------------------------------

    @property
    def damaged_at(self) -> int | None:
        """Where the first batch of the log begins that cannot be read; None if all can.

        While it is not None, a snapshot that ends beyond it is wanted.
        """
        return min(self._damaged, default=None)

    def _step_log_damaged(self, input_: inputs.LogDamaged) -> None:
        offset = input_.offset
        if self.role is Role.FAILED:
            return
        if not self._log.start_offset <= offset < self._end_offset:
            return  # it is no longer in the log
        probe("quorum.log.damaged")
        self._damaged |= {offset}
        if self._installing is not None:
            return
        latest = self._log.snapshots.latest()
        if latest is not None and latest.end_offset > offset:
            self._drop_damaged(latest.end_offset)
            return
        promised = self._promise()
        self._stop_leading_damaged()
        if offset < self._high_watermark:
            return
        if self._others:
            self._cut_damaged(offset, promised)
        else:
            self.become_failed(f"the batch at {offset} cannot be read, and nobody else has it")

    def _stop_leading_damaged(self) -> None:
        """Who cannot read its log can neither lead nor hope to."""
        if isinstance(self._body, Leader):
            self.become_resigned()
        elif isinstance(self._body, Nominee):
            self.become_unattached(self._state.epoch)

    def _promise(self) -> tuple[int, int]:
        """(epoch, end offset) of what others may count on us for.

        Followers have told their leader that they hold their log. What a leader has appended
        itself, nobody but itself has counted.
        """
        leader = self._body
        if not isinstance(leader, Leader):
            return self._acknowledged_log_end
        start = leader.epoch_start_offset
        return max(self._state.promised, (self._epoch_before(start), start))

    def _cut_damaged(self, offset: int, promised: tuple[int, int]) -> None:
        """Nobody has told us that it is committed: have it fetched again."""
        if promised > (self._epoch_before(offset), offset):
            self._promise_log_end(promised)
        self._forget_requests()  # a fetch that waits for the flush of what is cut never leaves
        self._truncate(offset)

    def _maybe_keep_promise(self) -> None:
        """What was promised of the log is there again, durably: nothing need be remembered.

        A record of a later epoch will do, too: who led that epoch had all that was committed, and
        our log has what came before the record.
        """
        is_whole = self._installing is None and not self._damaged and self.role is not Role.FAILED
        is_durable = self._durable_end_offset == self._end_offset
        if is_whole and is_durable and (0, 0) < self._state.promised <= self._log_end:
            probe("quorum.log.promise.kept")
            self._promise_log_end((0, 0))

    @property
    def _fetch_end(self) -> tuple[int, int]:
        """(epoch of the record below, offset) where we ask for more: what is damaged comes first.

        That a batch is damaged and still in the log means that it is committed.
        """
        at = self.damaged_at
        damaged = None if at is None else (self._epoch_before(at), at)
        return self._rules.fetch_position(self._log_end, damaged)

    def _take_good_copy(self, follower: Follower, records: Buffer | None) -> None:
        """Have a damaged batch replaced by the leader's; it is the same batch, or none of ours."""
        damaged_at = self.damaged_at
        view = memoryview(records or b"")
        try:
            position, header = next(iter_headers(view), (0, None))
        except BatchError:
            header = None
        if (
            header is None
            or header.base_offset != damaged_at
            or header.next_offset > self._end_offset
            or header.partition_leader_epoch != self._log.epochs.epoch_at(header.base_offset)
            or not check_crc(view, position, header)
        ):
            probe("quorum.mend.unsound")
        else:
            probe("quorum.log.mended")
            batch = bytes(view[position : position + header.size_bytes])
            self._emit(Persist(RepairBatch(header.base_offset, batch)))
            self._damaged -= {header.base_offset}
        self._wait_for_retry(follower)

    def _drop_damaged(self, start_offset: int) -> None:
        """A snapshot stands for what cannot be read."""
        probe("quorum.log.healed")
        self._drop_prefix(start_offset)
        self._damaged = frozenset(at for at in self._damaged if at >= start_offset)
