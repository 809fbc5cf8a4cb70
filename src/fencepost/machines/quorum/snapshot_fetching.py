"""Loading a snapshot in place of the log, where the leader's log no longer reaches back (KIP-630).

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
by the log it had: it has told no voter that it has more.

Given up, the node waits for the retry backoff before it fetches, so that a leader that offers what
it does not have is not asked without end. A peer that cannot answer with an error but for the whole
request (Apache Kafka 4.3) is treated as in f, not as a broken one.
"""

from __future__ import annotations

from typing import Final

from fencepost.log.snapshots import BOOTSTRAP_ID, SnapshotId
from fencepost.machines.effects import InstallSnapshot, Persist, StoreSnapshot
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs, messages
from fencepost.machines.quorum.endpoints import leader_in
from fencepost.machines.quorum.leader_claims import LeaderClaims
from fencepost.machines.quorum.node import QuorumNode
from fencepost.machines.quorum.part import Part
from fencepost.machines.quorum.role_changes import RoleChanges
from fencepost.machines.quorum.roles import FetchingSnapshot, Follower, Leader, Nominee, Role
from fencepost.wire.api.fetch_snapshot import PartitionSnapshotResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

MAX_SNAPSHOT_BYTES: Final = 1 << 34
"""No snapshot is larger; a leader that says so is not believed."""

_LEADERS_ERRORS: Final = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
"""What only a leader says that knows its log."""


class SnapshotFetching(Part):
    """Fetches a snapshot piece by piece and has it installed; see the module docstring."""

    def __init__(self, node: QuorumNode, roles: RoleChanges, claims: LeaderClaims) -> None:
        super().__init__(node)
        self._roles = roles
        self._claims = claims

    def begin(self, follower: Follower, snapshot_id: SnapshotId) -> None:
        """The leader's log no longer reaches back to ours, and it offers this instead."""
        if not self._config.can_load_snapshots:
            self._roles.become_failed(self.out_of_reach())
        elif min(snapshot_id) < 0 or snapshot_id == BOOTSTRAP_ID:
            self._requests.pause(follower.leader_id, self._config.retry_backoff_ms)
        elif not self._may_load(snapshot_id):
            self._roles.become_failed(
                f"a snapshot of {snapshot_id.end_offset} is offered, below the high watermark"
                f" {self._log.high_watermark}"
            )
        else:
            follower.fetching = FetchingSnapshot(snapshot_id)

    def out_of_reach(self) -> str:
        """Why a node that cannot load snapshots stops when the leader has nothing else."""
        return (
            f"the leader's log does not reach back to {self._log.end_offset}, and this node follows"
            " without snapshots, as the draft FetchQuorumRecords has none: give it a copy of a log,"
            " or have it speak Fetch"
        )

    def _may_load(self, snapshot_id: SnapshotId) -> bool:
        """Whether nothing that we know to be committed would be lost (I07)."""
        damaged_at = self._log.damaged_at
        if damaged_at is not None and damaged_at < snapshot_id.end_offset:
            return True  # what we have behind it stays
        return snapshot_id.end_offset >= self._log.high_watermark

    def request(self, fetching: FetchingSnapshot) -> Message:
        """Ask for the next piece."""
        return messages.fetch_snapshot_request(
            self._config,
            self._node.id,
            self._outbox.state.epoch,
            fetching.snapshot_id,
            fetching.position_bytes,
        )

    def step_answer(self, input_: inputs.FetchSnapshotAnswered) -> None:
        said = messages.fetch_snapshot_response_of(input_.response)
        unusable = (
            said is None
            or said.error_code != ErrorCode.NONE
            or self._claims.is_invalid(
                said.current_leader.leader_epoch, said.current_leader.leader_id
            )
        )
        is_awaited = self._requests.settle(input_.source, input_.request, retry_later=unusable)
        if said is not None:
            current = said.current_leader
            endpoints = leader_in(input_.response, current.leader_id, self._config.listener)
            if self._claims.observe(
                current.leader_epoch, current.leader_id, endpoints, source=input_.source
            ):
                return
        follower = self._node.role_state
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
        self._roles.await_leader(follower.leader_id)

    def _is_next_piece(self, fetching: FetchingSnapshot, said: PartitionSnapshotResponse) -> bool:
        """Whether this is a piece of our snapshot, at our place, fits, and is our leader's."""
        size = len(said.unaligned_records)
        return (
            said.current_leader.leader_epoch == self._outbox.state.epoch
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
        self._outbox.emit(Persist(StoreSnapshot(fetching.snapshot_id, position, data, said.size)))
        fetching.position_bytes += len(data)
        fetching.size_bytes = said.size
        if self._rules.is_whole_snapshot(fetching.position_bytes, fetching.size_bytes):
            follower.fetching = None
            self._log.installing = fetching.snapshot_id
            keeps_log = self._is_inside_log(fetching.snapshot_id)
            self._outbox.emit(Persist(InstallSnapshot(fetching.snapshot_id, keeps_log)))

    def _is_inside_log(self, snapshot_id: SnapshotId) -> bool:
        """Whether our log has what it stands for, and more: others may count on us for that."""
        end_offset, epoch = snapshot_id
        is_inside = self._log.view.start_offset < end_offset < self._log.end_offset
        return is_inside and self._log.view.epochs.epoch_at(end_offset - 1) == epoch

    def _give_up_snapshot(self, follower: Follower) -> None:
        """Back to Fetch, in a moment: it says what the leader has by now."""
        follower.fetching = None
        self._requests.pause(follower.leader_id, self._config.retry_backoff_ms)

    def _wait_for_another(self, follower: Follower) -> None:
        """What was fetched was fetched for nothing: the leader gets time to have another."""
        wait_ms = self._config.fetch_timeout_ms // 2
        self._requests.pause(follower.leader_id, wait_ms)

    # -- in place of the log -------------------------------------------------------------------

    def step_installed(self, input_: inputs.SnapshotInstalled) -> None:
        snapshot_id = input_.snapshot_id
        if self._node.role is Role.FAILED or snapshot_id != self._log.installing:
            return
        assert not isinstance(self._node.role_state, Leader | Nominee), (
            "leaders never load a snapshot"
        )
        log = self._log
        log.installing = None
        if log.view.end_offset > snapshot_id.end_offset:
            log.advance_high_watermark(snapshot_id.end_offset)
            log.drop_damaged(snapshot_id.end_offset)
            return
        log.start_over(snapshot_id)
        if input_.history is not None:
            log.history = input_.history
            reason = log.reason_against_level()
            if reason is not None:
                self._roles.become_failed(reason)
                return
            self._roles.voters_changed()
        if isinstance(self._node.role_state, Follower):
            self._roles.await_leader(self._node.role_state.leader_id)

    def step_refused(self, input_: inputs.SnapshotRefused) -> None:
        if self._node.role is Role.FAILED:
            return
        follower = self._node.role_state
        if input_.snapshot_id == self._log.installing:
            self._log.installing = None
        elif isinstance(follower, Follower) and follower.is_fetching(input_.snapshot_id):
            follower.fetching = None
        else:
            return
        probe("quorum.snapshot.refused")
        if isinstance(follower, Follower):
            self._wait_for_another(follower)
