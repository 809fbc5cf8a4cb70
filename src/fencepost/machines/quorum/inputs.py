"""The inputs of a quorum machine, and what it answers with.

Requests and answers of the quorum protocol come as the wire's own messages. A shell makes an input
of a message with `received` and `answered`; the `request` of an answer must be the very object
that the machine had sent, because that is how the machine tells the answer it waits for from one
that was late or came twice.

Three inputs are answered with bounds, not with a response: the machine knows what may be read, the
shell reads the bytes and composes the response. `FetchReceived` is answered with `FetchBounds`
(`messages.fetch_response`), `FetchSnapshotReceived` with `SnapshotBounds`
(`messages.fetch_snapshot_response`), `QuorumRecordsReceived` with `DraftBounds`
(`messages.quorum_records_response`). A shell that finds that it cannot read what the bounds say,
because the bytes do not match their checksum, sends none of it: it tells the machine (`LogDamaged`)
and answers with `messages.unreadable(bounds)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import (
    Buffer,
    DiskFailed,
    Persisted,
    TimerFired,
    TruncatedBelow,
)
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import Endpoint
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from fencepost.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.api.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from fencepost.wire.api.describe_quorum import DescribeQuorumRequest
from fencepost.wire.api.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from fencepost.wire.api.fetch import FetchRequest, FetchResponse
from fencepost.wire.api.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from fencepost.wire.api.vote import VoteRequest, VoteResponse
from fencepost.wire.draft.fetch_quorum_records import (
    FetchQuorumRecordsRequest,
    FetchQuorumRecordsResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

# Names of the machine's timers.
ELECTION = "election"
FETCH = "fetch"
RETRY = "retry"
FETCH_WAIT = "fetch-wait"
CHECK_QUORUM = "check-quorum"
BEGIN_QUORUM = "begin-quorum"
CLEAN = "clean"
VOTER_CHANGE = "voter-change"
VOTER_REQUEST = "voter-request"


class Start(Struct, frozen=True):
    """The first input. The log is open, recovered, and durable to its end.

    `jitter` are numbers, at least one, that the shell has drawn at random from a wide range; the
    machine uses them up in turn, over and over, wherever Raft wants a random timeout.
    """

    jitter: Sequence[int]


class VoteReceived(Struct, frozen=True):
    """A candidate asks for a vote; answered with a VoteResponse."""

    token: Any
    request: VoteRequest


class BeginQuorumEpochReceived(Struct, frozen=True):
    """A leader makes itself known; answered with a BeginQuorumEpochResponse."""

    token: Any
    request: BeginQuorumEpochRequest


class EndQuorumEpochReceived(Struct, frozen=True):
    """A leader resigns; answered with an EndQuorumEpochResponse."""

    token: Any
    request: EndQuorumEpochRequest


class FetchReceived(Struct, frozen=True):
    """A voter or observer reads on; answered with FetchBounds, perhaps later.

    One that cannot load snapshots reads the log as long as that reaches back.
    """

    token: Any
    request: FetchRequest
    loads_snapshots: bool = True


class DescribeQuorumReceived(Struct, frozen=True):
    """An operator asks; answered with a DescribeQuorumResponse."""

    token: Any
    request: DescribeQuorumRequest


class FetchSnapshotReceived(Struct, frozen=True):
    """A replica reads a piece of a snapshot; answered with SnapshotBounds."""

    token: Any
    request: FetchSnapshotRequest


class QuorumRecordsReceived(Struct, frozen=True):
    """A replica that speaks the draft reads on; answered with DraftBounds, perhaps later.

    `version` is the draft's version that the request was decoded at: v0 and v1 say some things
    differently (`fencepost.wire.draft`).
    """

    token: Any
    request: FetchQuorumRecordsRequest
    version: int = FetchQuorumRecordsRequest.max_version


class AddVoterReceived(Struct, frozen=True):
    """An operator adds a voter; answered with an AddRaftVoterResponse."""

    token: Any
    request: AddRaftVoterRequest


class RemoveVoterReceived(Struct, frozen=True):
    """An operator removes a voter; answered with a RemoveRaftVoterResponse."""

    token: Any
    request: RemoveRaftVoterRequest


class UpdateVoterReceived(Struct, frozen=True):
    """A voter says where it listens and what it supports; answered with its response."""

    token: Any
    request: UpdateRaftVoterRequest


class VoteAnswered(Struct, frozen=True):
    """`source` has answered our VoteRequest."""

    source: int
    request: VoteRequest
    response: VoteResponse


class BeginQuorumEpochAnswered(Struct, frozen=True):
    """`source` has answered our BeginQuorumEpochRequest."""

    source: int
    request: BeginQuorumEpochRequest
    response: BeginQuorumEpochResponse


class EndQuorumEpochAnswered(Struct, frozen=True):
    """`source` has answered our EndQuorumEpochRequest."""

    source: int
    request: EndQuorumEpochRequest
    response: EndQuorumEpochResponse


class FetchAnswered(Struct, frozen=True):
    """`source` has answered our FetchRequest.

    `counts_us` is False if it said besides that it does not count this node among the voters.
    """

    source: int
    request: FetchRequest
    response: FetchResponse
    counts_us: bool = True


class FetchSnapshotAnswered(Struct, frozen=True):
    """`source` has answered our FetchSnapshotRequest."""

    source: int
    request: FetchSnapshotRequest
    response: FetchSnapshotResponse


class QuorumRecordsAnswered(Struct, frozen=True):
    """`source` has answered our FetchQuorumRecordsRequest."""

    source: int
    request: FetchQuorumRecordsRequest
    response: FetchQuorumRecordsResponse


class AddVoterAnswered(Struct, frozen=True):
    """`source` has answered our AddRaftVoterRequest (auto-join)."""

    source: int
    request: AddRaftVoterRequest
    response: AddRaftVoterResponse


class RemoveVoterAnswered(Struct, frozen=True):
    """`source` has answered our RemoveRaftVoterRequest (auto-join)."""

    source: int
    request: RemoveRaftVoterRequest
    response: RemoveRaftVoterResponse


class UpdateVoterAnswered(Struct, frozen=True):
    """`source` has answered our UpdateRaftVoterRequest."""

    source: int
    request: UpdateRaftVoterRequest
    response: UpdateRaftVoterResponse


class ApiVersionsAnswered(Struct, frozen=True):
    """`source` has answered our ApiVersionsRequest: what a voter to be supports."""

    source: int
    request: ApiVersionsRequest
    response: ApiVersionsResponse


class RequestFailed(Struct, frozen=True):
    """`source` could not be reached, disconnected, timed out, or sent garbage.

    `is_refused` says that its machine is there and nothing listens: its process has ended.
    """

    source: int
    request: Message
    is_refused: bool = False


class AppendRecords(Struct, frozen=True):
    """Batches for the log, one whole batch per element, writable.

    `epoch` is the leader epoch in which they were decided: a leader of another epoch refuses them.
    `base_offset`, if not negative, is where the first must stand, because the records themselves
    say so (a broker epoch is an offset). Answered with AppendOutcome, once committed.
    """

    batches: Sequence[Buffer]
    token: Any
    epoch: int
    base_offset: int = -1


class UpgradeKRaftVersion(Struct, frozen=True):
    """Raise kraft.version to `level`, as UpdateFeatures asks for; answered with AppendOutcome.

    Decided in `epoch` like other records. `is_dry_run` only asks whether it would be possible. The
    base offset is -1 where nothing had to be written. Errors: NOT_LEADER_OR_FOLLOWER,
    INVALID_UPDATE_VERSION (a downgrade, or not every voter can run the level or is known with its
    directory), REQUEST_TIMED_OUT (another change of the voters is under way; try again).
    """

    token: Any
    level: int
    epoch: int
    is_dry_run: bool = False


class Resign(Struct, frozen=True):
    """The node is about to stop: a leader hands over."""


class SnapshotTaken(Struct, frozen=True):
    """The shell has written a snapshot of what is committed; it is durable, and in the view."""

    snapshot_id: SnapshotId


class SnapshotInstalled(Struct, frozen=True):
    """`InstallSnapshot` is done: log and view are the snapshot's, durably.

    `history` is what the snapshot's header says of the voters; None if they are configured.
    """

    snapshot_id: SnapshotId
    history: VoterHistory | None = None


class SnapshotRefused(Struct, frozen=True):
    """`InstallSnapshot` found the partial file not whole or not sound, and removed it.

    Or `StoreSnapshot` did not store a piece: there is no room for so much, or the beginning is none
    of a snapshot.
    """

    snapshot_id: SnapshotId
    reason: str


class LogDamaged(Struct, frozen=True):
    """The batch that holds `offset` cannot be read: its bytes do not match their checksum.

    Found while reading for a fetch or for the image. Nothing of it was sent or applied.
    """

    offset: int
    reason: str


class ImageFailed(Struct, frozen=True):
    """What is committed cannot be applied on this node: it may not go on.

    The image is then not what the log says, and what is decided or answered by it is wrong.
    """

    reason: str


Input = (
    Start
    | TimerFired
    | Persisted
    | TruncatedBelow
    | DiskFailed
    | ImageFailed
    | VoteReceived
    | BeginQuorumEpochReceived
    | EndQuorumEpochReceived
    | FetchReceived
    | DescribeQuorumReceived
    | VoteAnswered
    | BeginQuorumEpochAnswered
    | EndQuorumEpochAnswered
    | FetchAnswered
    | RequestFailed
    | AppendRecords
    | UpgradeKRaftVersion
    | Resign
    | FetchSnapshotReceived
    | FetchSnapshotAnswered
    | QuorumRecordsReceived
    | QuorumRecordsAnswered
    | AddVoterReceived
    | AddVoterAnswered
    | RemoveVoterReceived
    | RemoveVoterAnswered
    | UpdateVoterReceived
    | UpdateVoterAnswered
    | ApiVersionsAnswered
    | SnapshotTaken
    | SnapshotInstalled
    | SnapshotRefused
    | LogDamaged
)


class AppendOutcome(Struct, frozen=True):
    """Where the batches stand, committed; or why not, with a base offset of -1.

    NOT_LEADER_OR_FOLLOWER after the append means that the outcome is unknown: the next leader may
    have the batches and commit them.
    """

    error: ErrorCode
    base_offset: int = -1


class FetchBounds(Struct, frozen=True):
    """What a fetch may read: from `offset`, batches that end at or below `upper_bound_offset`.

    Nothing is to be read if the two are equal, if there is an error, if `diverging` says (epoch,
    end offset) where the logs part, or if `snapshot_id` names the snapshot to fetch instead. The
    rest goes into the response as it is. `is_whole_request` means that the error is about the
    request and not about the partition.
    """

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    offset: int = -1
    upper_bound_offset: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    max_bytes: int = 0
    diverging: tuple[int, int] | None = None
    is_whole_request: bool = False
    snapshot_id: SnapshotId | None = None
    leader_endpoint: Endpoint | None = None


class SnapshotBounds(Struct, frozen=True):
    """What a FetchSnapshot may read: up to `max_bytes` from `position_bytes` of `snapshot_id`.

    Nothing if there is an error. `size_bytes` is the whole snapshot's. `unknown_partition` is the
    (topic, index) that was asked for, if it is not the metadata log.
    """

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    snapshot_id: SnapshotId | None = None
    size_bytes: int = 0
    position_bytes: int = 0
    max_bytes: int = 0
    is_whole_request: bool = False
    unknown_partition: tuple[str, int] | None = None
    leader_endpoint: Endpoint | None = None


class DraftBounds(Struct, frozen=True):
    """What a FetchQuorumRecords may read, as `FetchBounds`, in the words of the draft.

    `error` is the code to answer with. Records may be read next to one (NOT_FOLLOWER), so whether
    any are to be read is said by the two bounds alone: no if they are equal.
    """

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    offset: int = -1
    upper_bound_offset: int = -1
    max_bytes: int = 0
    next_fetch_offset: int = -1
    next_fetch_offset_epoch: int = -1
    high_watermark: int = -1
    first_dirty_offset: int = -1
    last_caught_up_ms: int = -1


_RECEIVED: dict[type[Message], type[Any]] = {
    VoteRequest: VoteReceived,
    BeginQuorumEpochRequest: BeginQuorumEpochReceived,
    EndQuorumEpochRequest: EndQuorumEpochReceived,
    FetchRequest: FetchReceived,
    DescribeQuorumRequest: DescribeQuorumReceived,
    FetchSnapshotRequest: FetchSnapshotReceived,
    FetchQuorumRecordsRequest: QuorumRecordsReceived,
    AddRaftVoterRequest: AddVoterReceived,
    RemoveRaftVoterRequest: RemoveVoterReceived,
    UpdateRaftVoterRequest: UpdateVoterReceived,
}

_ANSWERED: dict[type[Message], type[Any]] = {
    VoteRequest: VoteAnswered,
    BeginQuorumEpochRequest: BeginQuorumEpochAnswered,
    EndQuorumEpochRequest: EndQuorumEpochAnswered,
    FetchRequest: FetchAnswered,
    FetchSnapshotRequest: FetchSnapshotAnswered,
    FetchQuorumRecordsRequest: QuorumRecordsAnswered,
    AddRaftVoterRequest: AddVoterAnswered,
    RemoveRaftVoterRequest: RemoveVoterAnswered,
    UpdateRaftVoterRequest: UpdateVoterAnswered,
    ApiVersionsRequest: ApiVersionsAnswered,
}


def received(token: Any, request: Message) -> Input:
    """The input for a request from another node. KeyError if it is none of the quorum's."""
    made: Input = _RECEIVED[type(request)](token, request)
    return made


def answered(source: int, request: Message, response: Message) -> Input:
    """The input for a response to `request`, which this machine had sent to `source`."""
    made: Input = _ANSWERED[type(request)](source, request, response)
    return made
