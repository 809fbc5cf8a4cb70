"""FetchQuorumRecords, the draft, on both sides: answered by leaders, spoken by followers (KIP-595).

The leader
----------
A request of the draft becomes the Fetch that asks for the same, goes through the very same rules,
and what comes out is said in the draft's words (`fencepost.wire.draft.mapping` has the fields):

| | what the leader finds                              | v0, as the text has it | v1, as it was |
|-|----------------------------------------------------|------------------------|---------------|
| a | another cluster, or a request that cannot be     | 104 or 42, and no more | the same      |
| b | an older epoch; a newer one; no leader here      | 74; 75; 6              | the same      |
| c | the logs part                                    | 1, NextFetchOffset     | 0, the same   |
| d | the log does not reach back, only a snapshot does | 1, no offset           | the same      |
| e | the sender calls itself a follower and is no voter | 94, records are valid  | not said      |
| f | records, or none yet                             | 0                      | 0             |

Codes: 1 OFFSET_OUT_OF_RANGE, 6 NOT_LEADER_OR_FOLLOWER, 42 INVALID_REQUEST, 74 FENCED_LEADER_EPOCH,
75 UNKNOWN_LEADER_EPOCH, 94 INCONSISTENT_VOTER_SET, which stands for the draft's NOT_FOLLOWER, 104
INCONSISTENT_CLUSTER_ID. c comes before e: a log that must be cut has no valid data yet.

Where the logs part takes as many rounds to find as it takes: each answer names the end of the
largest epoch that is not above the reader's, 0 included. A voter of the draft counts towards the
high watermark as one of Fetch does. It is a voter only where voters are configured without their
directory ids, because the draft cannot say which disk it speaks for.

The draft's reader does not say what high watermark it knows, so the leader remembers what it has
told it, and answers at once when there is news. A reader of v0 never waits.

The follower
------------
With `QuorumConfig.draft_version` a node that follows fetches with the draft, and does with the
answers what it does with those of Fetch. What it cannot do: the draft has no snapshots. A leader
whose log no longer reaches back to this node's has nothing it could understand, so it stops and
says so (d); it must be given a copy of a log, or be made to speak Fetch. A voter that is told that
it is none (e) takes the records and does not stand for election as long as that epoch lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.following import Following
from fencepost.machines.quorum.roles import Follower, Leader, Progress
from fencepost.machines.quorum.serving import Serving
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse
from fencepost.wire.draft.fetch_quorum_records import (
    FetchQuorumRecordsRequest,
    FetchQuorumRecordsResponse,
)
from fencepost.wire.draft.mapping import (
    NOT_FOLLOWER,
    UnmappableError,
    request_to_fetch,
    response_to_fetch,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

FETCH_VERSION: Final = 17
"""The version of Fetch whose words the draft is translated into; nothing is encoded at it."""

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class DraftReader:
    """The token of a fetch that came as a draft: who waits, and in which words to answer."""

    token: Any
    version: int
    replica_id: int
    calls_itself_follower: bool

    @property
    def key(self) -> ReplicaKey:
        """The draft does not name directories."""
        return ReplicaKey(self.replica_id, Uuid.ZERO)


class Draft(Serving, Following):
    """Handlers of FetchQuorumRecords; see the module docstring."""

    _disowned_in_epoch = -1

    # -- answering -----------------------------------------------------------------------------

    def _step_quorum_records(self, input_: inputs.QuorumRecordsReceived) -> None:
        draft, version = input_.request, input_.version
        try:
            request = request_to_fetch(draft, draft_version=version, fetch_version=FETCH_VERSION)
        except UnmappableError:
            bounds = inputs.DraftBounds(ErrorCode.INVALID_REQUEST, -1, -1)
            self._reply(input_.token, bounds)
            return
        calls_itself_follower = version == 0 and draft.is_follower
        reader = DraftReader(input_.token, version, draft.replica_id, calls_itself_follower)
        request.topics[0].partitions[0].high_watermark = self._high_watermark_known_to(reader)
        self._serve_fetch(reader, request)

    def _can_load_snapshots(self, token: Any) -> bool:
        """Readers of the draft cannot: they read the log as long as it reaches back."""
        return not isinstance(token, DraftReader)

    def _reply_bounds(self, token: Any, bounds: inputs.FetchBounds) -> None:
        if isinstance(token, DraftReader):
            self._reply(token.token, self._draft_bounds(token, bounds))
        else:
            super()._reply_bounds(token, bounds)

    def _draft_bounds(self, reader: DraftReader, bounds: inputs.FetchBounds) -> inputs.DraftBounds:
        """What Fetch would be told, in the draft's words; see the table."""
        if bounds.is_whole_request:
            return inputs.DraftBounds(bounds.error, -1, -1)
        error, cut_at, cut_epoch = bounds.error, -1, -1
        if bounds.diverging is not None:
            cut_epoch, cut_at = bounds.diverging
            if reader.version == 0:
                error = ErrorCode.OFFSET_OUT_OF_RANGE
        elif bounds.snapshot_id is not None:
            probe("quorum.draft.out_of_range")
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        elif error is ErrorCode.NONE and self._is_told_off(reader):
            error = NOT_FOLLOWER
        progress = self._progress_of_reader(reader)
        if progress is not None and bounds.error is ErrorCode.NONE:
            progress.told_high_watermark = bounds.high_watermark
        return inputs.DraftBounds(
            error=error,
            leader_id=bounds.leader_id,
            leader_epoch=bounds.leader_epoch,
            offset=bounds.offset,
            upper_bound_offset=bounds.upper_bound_offset,
            max_bytes=bounds.max_bytes,
            next_fetch_offset=cut_at,
            next_fetch_offset_epoch=cut_epoch,
            high_watermark=bounds.high_watermark,
            first_dirty_offset=self._first_dirty_offset,
            last_caught_up_ms=-1 if progress is None else self._wall_of(progress.last_caught_up_ms),
        )

    def _is_told_off(self, reader: DraftReader) -> bool:
        """Whether it takes itself for a follower with a vote, and the voters do not know it."""
        return reader.calls_itself_follower and not self.voter_set.contains(reader.key)

    @property
    def _first_dirty_offset(self) -> int:
        """Where the part of the log begins that no snapshot stands for."""
        latest = self._log.snapshots.latest()
        return self._log.start_offset if latest is None else latest.end_offset

    def _progress_of_reader(self, reader: DraftReader) -> Progress | None:
        leader = self._body
        if not isinstance(leader, Leader):
            return None
        if self.voter_set.contains(reader.key):
            return leader.followers.get(reader.replica_id)
        return leader.observers.get(reader.key)

    def _high_watermark_known_to(self, reader: DraftReader) -> int:
        progress = self._progress_of_reader(reader)
        return -1 if progress is None else progress.told_high_watermark

    # -- asking --------------------------------------------------------------------------------

    def _fetch_request(self) -> Message:
        if not self._config.speaks_draft:
            return super()._fetch_request()
        epoch, end_offset = self._fetch_end
        draft = FetchQuorumRecordsRequest(
            replica_id=self._node_id,
            leader_epoch=self._state.epoch,
            fetch_offset=end_offset,
            last_fetched_epoch=epoch,
        )
        cluster_id = self._config.cluster_id or ""
        if self._config.draft_version == 0:
            draft.cluster_number = _number_of(cluster_id)
            draft.is_follower = self.is_voter
        else:
            draft.cluster_id = cluster_id
            draft.max_wait_time_ms = self._config.fetch_max_wait_ms
        return draft

    def _step_quorum_records_answer(self, input_: inputs.QuorumRecordsAnswered) -> None:
        """The same as of Fetch, once it is said in the words of Fetch."""
        if not self._config.speaks_draft:
            return  # we never asked
        asked = self._as_fetch(input_.request)
        answer = self._in_words_of_fetch(input_.response)
        before = self._end_offset
        self._take_fetch_answer(input_.source, input_.request, asked, answer)
        if self._config.draft_version == 0 and self._end_offset == before:
            follower = self._body
            if isinstance(follower, Follower):  # nobody holds back an answer to v0
                self._wait_for_retry(follower)

    def _as_fetch(self, draft: FetchQuorumRecordsRequest) -> FetchPartition:
        version = self._config.draft_version
        request: FetchRequest = request_to_fetch(
            draft, draft_version=version, fetch_version=FETCH_VERSION
        )
        return request.topics[0].partitions[0]

    def _in_words_of_fetch(self, draft: FetchQuorumRecordsResponse) -> FetchResponse:
        """The answer; an error of the whole request, if it makes no sense."""
        if draft.error_code == NOT_FOLLOWER:
            self._step_down_as_told(draft)
            draft.error_code = ErrorCode.NONE
        try:
            return response_to_fetch(
                draft,
                draft_version=self._config.draft_version,
                fetch_version=FETCH_VERSION,
                dropping=("last_caught_up_time_ms",),
            )
        except UnmappableError:
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)

    def _may_stand(self) -> bool:
        """Nor while the leader of this epoch does not count us among the voters."""
        return self._disowned_in_epoch != self._state.epoch and super()._may_stand()

    def _step_down_as_told(self, draft: FetchQuorumRecordsResponse) -> None:
        """The leader does not count us among the voters."""
        if draft.leader_epoch == self._state.epoch:
            probe("quorum.draft.not_a_follower")
            self._disowned_in_epoch = draft.leader_epoch

    def _is_out_of_reach(self, error: int) -> bool:
        """Whether the leader's log does not reach back to ours, and we cannot load snapshots."""
        return self._config.speaks_draft and error == ErrorCode.OFFSET_OUT_OF_RANGE


def _number_of(cluster_id: str) -> int:
    """The cluster id as v0 has it; -1, not known, for one that is no number."""
    digits = cluster_id.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 10:
        return -1
    number = int(cluster_id)
    return number if _INT32_MIN <= number <= _INT32_MAX else -1
