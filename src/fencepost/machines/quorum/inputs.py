"""What a quorum machine can be told, and what it answers with.

Requests and answers of the quorum protocol come as the wire's own messages. A shell makes an input
of a message with `received` and `answered`; the `request` of an answer must be the very object
that the machine had sent, because that is how the machine tells the answer it waits for from one
that was late or came twice.

`FetchReceived` is answered with `FetchBounds`, not with a response: the machine knows what may be
read, the shell reads the bytes and composes the response (`messages.fetch_response`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.machines.effects import Buffer, DiskFailed, Persisted, TimerFired
from fencepost.wire.api.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from fencepost.wire.api.describe_quorum import DescribeQuorumRequest
from fencepost.wire.api.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from fencepost.wire.api.fetch import FetchRequest, FetchResponse
from fencepost.wire.api.vote import VoteRequest, VoteResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

# Names of the machine's timers.
ELECTION = "election"
FETCH = "fetch"
RETRY = "retry"
FETCH_WAIT = "fetch-wait"
CHECK_QUORUM = "check-quorum"
BEGIN_QUORUM = "begin-quorum"


@dataclass(frozen=True, slots=True)
class Start:
    """The first input. The log is open, recovered, and durable to its end.

    `jitter` are numbers, at least one, that the shell has drawn at random from a wide range; the
    machine uses them up in turn, over and over, wherever Raft wants a random timeout.
    """

    jitter: Sequence[int]


@dataclass(frozen=True, slots=True)
class VoteReceived:
    """A candidate asks for a vote; answered with a VoteResponse."""

    token: Any
    request: VoteRequest


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochReceived:
    """A leader makes itself known; answered with a BeginQuorumEpochResponse."""

    token: Any
    request: BeginQuorumEpochRequest


@dataclass(frozen=True, slots=True)
class EndQuorumEpochReceived:
    """A leader resigns; answered with an EndQuorumEpochResponse."""

    token: Any
    request: EndQuorumEpochRequest


@dataclass(frozen=True, slots=True)
class FetchReceived:
    """A voter or observer reads on; answered with FetchBounds, perhaps later."""

    token: Any
    request: FetchRequest


@dataclass(frozen=True, slots=True)
class DescribeQuorumReceived:
    """An operator asks; answered with a DescribeQuorumResponse."""

    token: Any
    request: DescribeQuorumRequest


@dataclass(frozen=True, slots=True)
class VoteAnswered:
    """`source` has answered our VoteRequest."""

    source: int
    request: VoteRequest
    response: VoteResponse


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochAnswered:
    """`source` has answered our BeginQuorumEpochRequest."""

    source: int
    request: BeginQuorumEpochRequest
    response: BeginQuorumEpochResponse


@dataclass(frozen=True, slots=True)
class EndQuorumEpochAnswered:
    """`source` has answered our EndQuorumEpochRequest."""

    source: int
    request: EndQuorumEpochRequest
    response: EndQuorumEpochResponse


@dataclass(frozen=True, slots=True)
class FetchAnswered:
    """`source` has answered our FetchRequest."""

    source: int
    request: FetchRequest
    response: FetchResponse


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """`source` could not be reached, hung up, timed out, or sent rubbish."""

    source: int
    request: Message


@dataclass(frozen=True, slots=True)
class AppendRecords:
    """Batches for the log, one whole batch per element, writable.

    `epoch` is the leader epoch in which they were decided: a leader of another epoch refuses them.
    `base_offset`, if not negative, is where the first must stand, because the records themselves
    say so (a broker epoch is an offset). Answered with AppendOutcome, once committed.
    """

    batches: Sequence[Buffer]
    token: Any
    epoch: int
    base_offset: int = -1


@dataclass(frozen=True, slots=True)
class Resign:
    """The node is about to stop: a leader hands over."""


Input = (
    Start
    | TimerFired
    | Persisted
    | DiskFailed
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
    | Resign
)


@dataclass(frozen=True, slots=True)
class AppendOutcome:
    """Where the batches stand, committed; or why not, with a base offset of -1.

    NOT_LEADER_OR_FOLLOWER after the append means that the outcome is unknown: the next leader may
    have the batches and commit them.
    """

    error: ErrorCode
    base_offset: int = -1


@dataclass(frozen=True, slots=True)
class FetchBounds:
    """What a fetch may read: from `offset`, batches that end at or below `upper_bound_offset`.

    Nothing is to be read if the two are equal, if there is an error, or if `diverging` says (epoch,
    end offset) where the logs part. The rest goes into the response as it is. `is_whole_request`
    means that the error is about the request and not about the partition.
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


_RECEIVED: dict[type[Message], type[Any]] = {
    VoteRequest: VoteReceived,
    BeginQuorumEpochRequest: BeginQuorumEpochReceived,
    EndQuorumEpochRequest: EndQuorumEpochReceived,
    FetchRequest: FetchReceived,
    DescribeQuorumRequest: DescribeQuorumReceived,
}

_ANSWERED: dict[type[Message], type[Any]] = {
    VoteRequest: VoteAnswered,
    BeginQuorumEpochRequest: BeginQuorumEpochAnswered,
    EndQuorumEpochRequest: EndQuorumEpochAnswered,
    FetchRequest: FetchAnswered,
}


def received(token: Any, request: Message) -> Input:
    """The input for a request from another node. KeyError if it is none of the quorum's."""
    made: Input = _RECEIVED[type(request)](token, request)
    return made


def answered(source: int, request: Message, response: Message) -> Input:
    """The input for a response to `request`, which this machine had sent to `source`."""
    made: Input = _ANSWERED[type(request)](source, request, response)
    return made
