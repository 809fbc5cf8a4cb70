"""FetchQuorumRecords, the draft of KIP-595, translated for a quorum machine that speaks Fetch.

`DraftAdapter` stands in front of a `QuorumMachine` and is stepped in its place. The machine does
not know of the draft: it is asked what it would answer to a Fetch, and told what an answer says in
the words of Fetch (`fencepost.wire.draft.mapping` has the fields).

The leader
----------
A request of the draft becomes the Fetch that asks for the same, goes through the very same rules,
and what comes out is said in the draft's words:

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

The draft's reader does not say what high watermark it knows, so the adapter remembers what the
reader was told in this epoch, and there is an answer at once to any update. A reader of v0
never waits.

The follower
------------
With a version to follow with, what the machine sends as Fetch leaves as FetchQuorumRecords, and the
machine hears the answer as that of Fetch. What it cannot do: the draft has no snapshots. So the
machine must be configured with `can_load_snapshots=False`: a leader whose log no longer reaches
back to this node's (d) stops it. A voter that is told that it is none (e) takes the records, and
the machine hears that it does not count (`FetchAnswered.counts_us`).
"""

from __future__ import annotations

import copy
from typing import Any, Final

from msgspec import Struct

from fencepost.machines.effects import Effect, Reply, Send, SendAfterPersist
from fencepost.machines.probes import probe
from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.config import MAX_OBSERVERS
from fencepost.machines.quorum.machine import QuorumMachine
from fencepost.machines.quorum.view import LogView
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.wire.api.fetch import FetchRequest, FetchResponse
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

FETCH_VERSION: Final = 17
"""The version of Fetch whose words the draft is translated into; nothing is encoded at it."""

NOT_SPOKEN: Final = -1
"""The version of a node that follows with Fetch."""

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1


class DraftReader(Struct, frozen=True):
    """The token of a Fetch that came as a draft: which replica waits, and how to answer it."""

    token: Any
    version: int
    replica_id: int
    calls_itself_follower: bool

    @property
    def key(self) -> ReplicaKey:
        """The draft does not name directories."""
        return ReplicaKey(self.replica_id)


class DraftAdapter:
    """Steps `machine`, and speaks the draft for it; see the module docstring.

    `follows_with` is the draft's version to follow with, or `NOT_SPOKEN`. Requests of the draft are
    answered in any case: whether they arrive is the shell's business.
    """

    def __init__(
        self, machine: QuorumMachine, log: LogView, follows_with: int = NOT_SPOKEN
    ) -> None:
        self.machine = machine
        self._log = log
        self._follows_with = follows_with
        self._follows = follows_with != NOT_SPOKEN
        self._waiting = 0
        self._asked: dict[int, tuple[FetchQuorumRecordsRequest, FetchRequest]] = {}
        self._told: dict[int, int] = {}
        self._told_in_epoch = -1

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        """As `QuorumMachine.step`, with the inputs and the words of the draft besides."""
        if isinstance(input_, inputs.QuorumRecordsReceived):
            request = self._request_in_words_of_fetch(input_)
            if request is None:
                bounds = inputs.DraftBounds(ErrorCode.INVALID_REQUEST, -1, -1)
                return [Reply(input_.token, bounds)]
            input_ = request
            self._waiting += 1
        elif isinstance(input_, inputs.QuorumRecordsAnswered) and not self._follows:
            return []  # we never asked
        elif self._follows:
            input_ = self._answer_in_words_of_fetch(input_)
        effects = self.machine.step(input_, now_ms, wall_ms)
        if self._waiting or self._follows:
            return [self._in_words_of_draft(effect) for effect in effects]
        return effects

    def _in_words_of_draft(self, effect: Effect) -> Effect:
        if isinstance(effect, Reply) and isinstance(effect.token, DraftReader):
            self._waiting -= 1
            return Reply(effect.token.token, self._draft_bounds(effect.token, effect.value))
        if (
            self._follows
            and isinstance(effect, Send | SendAfterPersist)
            and isinstance(effect.message, FetchRequest)
        ):
            draft = self._draft_request(effect.message)
            self._asked[effect.to] = draft, effect.message
            return type(effect)(effect.to, draft)
        return effect

    # -- the leader's half ---------------------------------------------------------------------

    def _request_in_words_of_fetch(
        self, input_: inputs.QuorumRecordsReceived
    ) -> inputs.FetchReceived | None:
        """The Fetch that asks for the same; None if there is none."""
        draft, version = input_.request, input_.version
        try:
            request = request_to_fetch(draft, draft_version=version, fetch_version=FETCH_VERSION)
        except UnmappableError:
            return None
        calls_itself_follower = version == 0 and draft.is_follower
        reader = DraftReader(input_.token, version, draft.replica_id, calls_itself_follower)
        request.topics[0].partitions[0].high_watermark = self._high_watermark_told(reader)
        return inputs.FetchReceived(reader, request, loads_snapshots=False)

    def _high_watermark_told(self, reader: DraftReader) -> int:
        """What was sent to the reader in this epoch; -1 if nothing, or if another leader did."""
        if self._told_in_epoch != self.machine.epoch:
            self._told.clear()
            self._told_in_epoch = self.machine.epoch
        return self._told.get(reader.replica_id, -1)

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
        elif error is ErrorCode.NONE and self._is_no_follower(reader):
            error = NOT_FOLLOWER
        if bounds.error is ErrorCode.NONE:
            self._note_told(reader, bounds.high_watermark)
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
            last_caught_up_ms=self.machine.last_caught_up_ms(reader.key),
        )

    def _note_told(self, reader: DraftReader, high_watermark: int) -> None:
        """A reader that is no replica has no name to remember it by."""
        if reader.replica_id in self._told or (
            reader.replica_id >= 0 and len(self._told) < MAX_OBSERVERS
        ):
            self._told[reader.replica_id] = high_watermark

    def _is_no_follower(self, reader: DraftReader) -> bool:
        """Whether it takes itself for a follower with a vote, and the voters do not know it."""
        return reader.calls_itself_follower and not self.machine.voter_set.contains(reader.key)

    @property
    def _first_dirty_offset(self) -> int:
        """Where the part of the log begins that no snapshot stands for."""
        latest = self._log.snapshots.latest()
        return self._log.start_offset if latest is None else latest.end_offset

    # -- the follower's half -------------------------------------------------------------------

    def _draft_request(self, request: FetchRequest) -> FetchQuorumRecordsRequest:
        partition = request.topics[0].partitions[0]
        draft = FetchQuorumRecordsRequest(
            replica_id=request.replica_state.replica_id,
            leader_epoch=partition.current_leader_epoch,
            fetch_offset=partition.fetch_offset,
            last_fetched_epoch=partition.last_fetched_epoch,
        )
        cluster_id = request.cluster_id or ""
        if self._follows_with == 0:
            draft.cluster_number = _number_of(cluster_id)
            draft.is_follower = self.machine.is_voter
        else:
            draft.cluster_id = cluster_id
            draft.max_wait_time_ms = request.max_wait_ms
        return draft

    def _answer_in_words_of_fetch(self, input_: Any) -> Any:
        """What became of a request of the draft, said of the Fetch that it stands for."""
        if isinstance(input_, inputs.QuorumRecordsAnswered):
            request = self._fetch_behind(input_.source, input_.request)
            draft = input_.response
            counts_us = draft.error_code != NOT_FOLLOWER
            if not counts_us:
                draft = copy.copy(draft)
                draft.error_code = ErrorCode.NONE
            return inputs.FetchAnswered(
                input_.source, request, self._fetch_response(draft), counts_us
            )
        is_failure = isinstance(input_, inputs.RequestFailed)
        if is_failure and isinstance(input_.request, FetchQuorumRecordsRequest):
            request = self._fetch_behind(input_.source, input_.request)
            return inputs.RequestFailed(input_.source, request, input_.is_refused)
        return input_

    def _fetch_behind(self, peer: int, draft: FetchQuorumRecordsRequest) -> FetchRequest:
        """What the machine has sent as this request; another like it, if that was long ago."""
        asked = self._asked.get(peer)
        if asked is not None and asked[0] is draft:
            del self._asked[peer]
            return asked[1]
        return request_to_fetch(
            draft, draft_version=self._follows_with, fetch_version=FETCH_VERSION
        )

    def _fetch_response(self, draft: FetchQuorumRecordsResponse) -> FetchResponse:
        """The answer; an error of the whole request, if it makes no sense."""
        try:
            return response_to_fetch(
                draft,
                draft_version=self._follows_with,
                fetch_version=FETCH_VERSION,
                dropping=("last_caught_up_time_ms",),
            )
        except UnmappableError:
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)

    @property
    def asked(self) -> dict[int, FetchQuorumRecordsRequest]:
        """The requests of the draft that were sent last, by peer; to look at."""
        return {peer: draft for peer, (draft, _) in self._asked.items()}

    def __repr__(self) -> str:
        return repr(self.machine)


def _number_of(cluster_id: str) -> int:
    """The cluster id as v0 has it; -1, not known, for one that is no number."""
    digits = cluster_id.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 10:
        return -1
    number = int(cluster_id)
    return number if _INT32_MIN <= number <= _INT32_MAX else -1
