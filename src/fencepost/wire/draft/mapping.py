"""FetchQuorumRecords and Fetch v12+, translated into each other, field by field (KIP-595).

With these four functions a leader that speaks Fetch serves a follower that knows only the draft,
and the other way round. They are pure, and they look at one message at a time: what a field means
for a log is decided elsewhere.

Requests:

| draft | Fetch | |
|---|---|---|
| ClusterId, v0: int32 | ClusterId | in decimal digits; -1 is null. Other text does not fit v0 |
| ClusterId, v1: string | ClusterId | empty or null is null; written as empty |
| ReplicaId | ReplicaId up to v14, then ReplicaState.ReplicaId | |
| LeaderEpoch | CurrentLeaderEpoch | |
| FetchOffset | FetchOffset | |
| FetchEpoch, LastFetchedEpoch | LastFetchedEpoch | |
| IsFollower (v0) | | lost: leaders know the voters; said by the caller on the way back |
| MaxWaitTimeMs (v1) | MaxWaitMs | v0 does not wait: 0 |
| one log | topic `__cluster_metadata`, partition 0 | name at v12, id from v13 on |
| | MinBytes, MaxBytes, PartitionMaxBytes | 1, and no limits: hints |
| | LogStartOffset, RackId, HighWatermark, ReplicaDirectoryId | not set: hints |
| | IsolationLevel, sessions, ReplicaEpoch | not set: have no draft |

Responses:

| draft | Fetch | |
|---|---|---|
| ErrorCode | ErrorCode of the partition | of the whole, where nothing else is said (error 104) |
| LeaderId, LeaderEpoch | CurrentLeader | -1 is unknown |
| NextFetchOffset, -Epoch | DivergingEpoch | both -1: none. 0 is the order to cut all |
| ErrorCode 1 next to them | ErrorCode 0 | see below |
| Records | Records | null becomes empty |
| HighWatermark | HighWatermark | -1 is unknown |
| FirstDirtyOffset | LogStartOffset | -1 is unknown |
| LastCaughtUpTimeMs | | a hint; said by the caller on the way back (DescribeQuorum has it) |
| | SnapshotId | has no draft: its followers cannot fetch snapshots (KIP-630) |
| | ThrottleTimeMs, LastStableOffset, NodeEndpoints | not set: hints |
| | sessions, AbortedTransactions, PreferredReadReplica | not set: have no draft |

The text of the draft reports a divergence as OUT_OF_RANGE, the branch's last code as no error, as
Fetch does. Both are read at both versions; v0 is written as the text has it, v1 as the code did.
OUT_OF_RANGE without an offset to cut at is error 1 on both sides.

What the other side has no field for must not be set, or UnmappableError names it. Hints are fields
that an answer stays right without; a caller may name those it is willing to lose. So draft to Fetch
and back gives an equal message but for IsFollower, LastCaughtUpTimeMs, and the two spellings of a
divergence and of no cluster id; Fetch to draft and back but for hints, null records, null or empty
AbortedTransactions, and whether an error that came alone was the partition's.

Errors the draft names without numbers:

| draft | code |
|---|---|
| MISMATCH_EPOCH | FENCED_LEADER_EPOCH when the request's is older, else UNKNOWN_LEADER_EPOCH |
| OUT_OF_RANGE | OFFSET_OUT_OF_RANGE |
| INVALID_CLUSTER_ID | INCONSISTENT_CLUSTER_ID |
| NOT_QUORUM_LEADER | NOT_LEADER_OR_FOLLOWER |
| NOT_FOLLOWER | INCONSISTENT_VOTER_SET: no code was shipped for it, and this one says that |
| | the sender is not among the voters and is used by no Fetch. Records next to it are valid |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from fencepost.wire.api.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from fencepost.wire.diagnose import check_encodable
from fencepost.wire.draft.fetch_quorum_records import (
    FetchQuorumRecordsRequest,
    FetchQuorumRecordsResponse,
)
from fencepost.wire.errors import EncodeError, ErrorCode, UnsupportedVersionError, shown
from fencepost.wire.layout import layout_of
from fencepost.wire.message import Message, Struct
from fencepost.wire.types import RANGES, Primitive, Uuid

TOPIC: Final = "__cluster_metadata"
PARTITION: Final = 0
FETCH_VERSION_MIN: Final = 12
"""The first Fetch that tells of divergence and of the leader within its answer."""

REPLICA_STATE_VERSION: Final = 15
TOPIC_ID_VERSION: Final = 13

NOT_SET: Final = -1
"""What stands in a field of the draft that has nothing to say; 0 is a value."""

NOT_FOLLOWER: Final = ErrorCode.INCONSISTENT_VOTER_SET
"""To a sender that takes itself for a follower (v0) and is not among the voters."""

_UNLIMITED_BYTES: Final = 0x7FFFFFFF
_SILENT_REQUEST: Final[Mapping[str, Any]] = {
    "min_bytes": 1,
    "max_bytes": _UNLIMITED_BYTES,
    "isolation_level": 0,
    "session_id": 0,
    "session_epoch": -1,
    "forgotten_topics_data": [],
    "rack_id": "",
}
_SILENT_PARTITION: Final[Mapping[str, Any]] = {
    "log_start_offset": -1,
    "partition_max_bytes": _UNLIMITED_BYTES,
    "replica_directory_id": Uuid.ZERO,
    "high_watermark": 0x7FFFFFFFFFFFFFFF,
}
_SILENT_RESPONSE: Final[Mapping[str, Any]] = {
    "throttle_time_ms": 0,
    "session_id": 0,
    "node_endpoints": [],
}
_SILENT_PARTITION_DATA: Final[Mapping[str, Any]] = {
    "last_stable_offset": -1,
    "preferred_read_replica": -1,
}

REQUEST_HINTS: Final = frozenset(
    {
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "rack_id",
        "log_start_offset",
        "partition_max_bytes",
        "replica_directory_id",
        "high_watermark",
    }
)
"""Fields of a FetchRequest that a caller may give up (`max_wait_ms` on the way to v0)."""

RESPONSE_HINTS: Final = frozenset(
    {"throttle_time_ms", "last_stable_offset", "node_endpoints", "last_caught_up_time_ms"}
)
"""Fields of a response that a caller may give up, the last of them on the way to Fetch."""


class UnmappableError(ValueError):
    """The other RPC cannot say what `field` holds; `reason` says why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


def request_to_fetch(
    draft: FetchQuorumRecordsRequest, *, draft_version: int, fetch_version: int
) -> FetchRequest:
    """The Fetch that asks for the same records.

    Whether the sender takes itself for a follower is not in it: see to `draft.is_follower` first.
    UnmappableError for undeclared tags and for fields the draft's version does not have.
    """
    _check_versions(FetchQuorumRecordsRequest, draft_version, fetch_version)
    _check_shape(draft, draft_version)
    request = FetchRequest(
        cluster_id=_cluster_id(draft, draft_version),
        max_wait_ms=draft.max_wait_time_ms,
        min_bytes=1,
        topics=[_metadata(FetchTopic(), fetch_version)],
    )
    if fetch_version < REPLICA_STATE_VERSION:
        request.replica_id = draft.replica_id
    else:
        request.replica_state.replica_id = draft.replica_id
    request.topics[0].partitions = [
        FetchPartition(
            partition=PARTITION,
            current_leader_epoch=draft.leader_epoch,
            fetch_offset=draft.fetch_offset,
            last_fetched_epoch=draft.last_fetched_epoch,
            partition_max_bytes=_UNLIMITED_BYTES,
        )
    ]
    return request


def request_from_fetch(
    request: FetchRequest,
    *,
    fetch_version: int,
    draft_version: int,
    is_follower: bool = False,
    dropping: Collection[str] = (),
) -> FetchQuorumRecordsRequest:
    """The draft that asks for what `request` asks for in the metadata log.

    `is_follower` is what v0 wants to know besides. `dropping` names those of REQUEST_HINTS that may
    be lost. UnmappableError for other topics, partitions and numbers of them, for what is set and
    not dropped, and for a cluster id that is no number on the way to v0.
    """
    _check_versions(FetchQuorumRecordsRequest, draft_version, fetch_version)
    _check_hints(dropping, REQUEST_HINTS)
    _check_shape(request, fetch_version)
    _check_silent(request, _SILENT_REQUEST, dropping)
    topic = _only(request.topics, "topics")
    _check_metadata(topic, fetch_version, "topics[0]")
    partition: FetchPartition = _only(topic.partitions, "topics[0].partitions")
    _check_partition(partition, partition.partition, "topics[0].partitions[0]")
    _check_silent(partition, _SILENT_PARTITION, dropping)
    draft = FetchQuorumRecordsRequest(
        replica_id=_replica_id(request, fetch_version),
        leader_epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
    )
    if draft_version == 0:
        _check_silent(request, {"max_wait_ms": 0}, dropping)
        draft.cluster_number = _cluster_number(request.cluster_id)
        draft.is_follower = is_follower
        return draft
    if is_follower:
        raise UnmappableError("is_follower", f"v{draft_version} of the draft has no such field")
    if request.cluster_id == "":
        raise UnmappableError("cluster_id", "empty means not known in the draft")
    draft.cluster_id = request.cluster_id or ""
    draft.max_wait_time_ms = request.max_wait_ms
    return draft


def response_to_fetch(
    draft: FetchQuorumRecordsResponse,
    *,
    draft_version: int,
    fetch_version: int,
    dropping: Collection[str] = (),
) -> FetchResponse:
    """The answer to a Fetch that says the same; records are passed on, not copied.

    `dropping` may name `last_caught_up_time_ms`. UnmappableError when that is set and not dropped,
    for half an order to cut the log, and for one next to an error.
    """
    _check_versions(FetchQuorumRecordsResponse, draft_version, fetch_version)
    _check_hints(dropping, RESPONSE_HINTS)
    _check_shape(draft, draft_version)
    _check_silent(draft, {"last_caught_up_time_ms": NOT_SET}, dropping)
    if _is_bare_error(draft):
        return FetchResponse(error_code=draft.error_code)
    diverging = EpochEndOffset(
        epoch=draft.next_fetch_offset_epoch, end_offset=draft.next_fetch_offset
    )
    error_code = draft.error_code
    if _is_set(diverging, "next_fetch_offset"):
        if error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
            raise UnmappableError("next_fetch_offset", f"is set next to error {error_code}")
        error_code = ErrorCode.NONE
    topic = _metadata(FetchableTopicResponse(), fetch_version)
    topic.partitions = [
        PartitionData(
            partition_index=PARTITION,
            error_code=error_code,
            high_watermark=draft.high_watermark,
            log_start_offset=draft.first_dirty_offset,
            diverging_epoch=diverging,
            current_leader=LeaderIdAndEpoch(
                leader_id=draft.leader_id, leader_epoch=draft.leader_epoch
            ),
            aborted_transactions=None,
            records=draft.records,
        )
    ]
    return FetchResponse(responses=[topic])


def response_from_fetch(
    response: FetchResponse,
    *,
    fetch_version: int,
    draft_version: int,
    last_caught_up_time_ms: int = NOT_SET,
    dropping: Collection[str] = (),
) -> FetchQuorumRecordsResponse:
    """The draft's answer that says the same; records are passed on, not copied.

    `last_caught_up_time_ms` (since 1970) is what the draft tells besides. `dropping` names those of
    RESPONSE_HINTS that may be lost. UnmappableError for a snapshot to fetch, for other topics,
    partitions and numbers of them, and for what is set and not dropped.
    """
    _check_versions(FetchQuorumRecordsResponse, draft_version, fetch_version)
    _check_hints(dropping, RESPONSE_HINTS)
    _check_shape(response, fetch_version)
    _check_silent(response, _SILENT_RESPONSE, dropping)
    if response.error_code != ErrorCode.NONE:
        if response.responses:
            raise UnmappableError("responses", f"not empty under error {response.error_code}")
        return FetchQuorumRecordsResponse(
            error_code=response.error_code, last_caught_up_time_ms=last_caught_up_time_ms
        )
    topic = _only(response.responses, "responses")
    _check_metadata(topic, fetch_version, "responses[0]")
    partition: PartitionData = _only(topic.partitions, "responses[0].partitions")
    _check_partition_data(partition, dropping)
    diverging, error_code = partition.diverging_epoch, partition.error_code
    if _is_set(diverging, "diverging_epoch"):
        if error_code != ErrorCode.NONE:
            raise UnmappableError("diverging_epoch", f"is set next to error {error_code}")
        error_code = ErrorCode.OFFSET_OUT_OF_RANGE if draft_version == 0 else ErrorCode.NONE
    return FetchQuorumRecordsResponse(
        error_code=error_code,
        leader_id=partition.current_leader.leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        next_fetch_offset=diverging.end_offset,
        next_fetch_offset_epoch=diverging.epoch,
        records=b"" if partition.records is None else partition.records,
        high_watermark=partition.high_watermark,
        first_dirty_offset=partition.log_start_offset,
        last_caught_up_time_ms=last_caught_up_time_ms,
    )


# Parts of the translation


def _cluster_id(draft: FetchQuorumRecordsRequest, draft_version: int) -> str | None:
    if draft_version > 0:
        return draft.cluster_id or None
    return None if draft.cluster_number == NOT_SET else str(draft.cluster_number)


def _cluster_number(text: str | None) -> int:
    if text is None:
        return NOT_SET
    low, high = RANGES[Primitive.INT32]
    # One spelling per number, or the way back would find another one.
    if len(text) <= len(str(low)) and text.removeprefix("-").isdecimal():
        number = int(text)
        if str(number) == text and low <= number <= high and number != NOT_SET:
            return number
    raise UnmappableError("cluster_id", f"{text!r} is not a number that v0 of the draft can hold")


def _replica_id(request: FetchRequest, fetch_version: int) -> int:
    if fetch_version < REPLICA_STATE_VERSION:
        return request.replica_id
    state: ReplicaState = request.replica_state
    _check_tags(state, "replica_state")
    if state.replica_epoch != -1:
        raise UnmappableError("replica_state.replica_epoch", "has no counterpart in the draft")
    return state.replica_id


T = TypeVar("T", FetchTopic, FetchableTopicResponse)


def _metadata(topic: T, fetch_version: int) -> T:
    """`topic`, named as this version of Fetch names topics."""
    if fetch_version < TOPIC_ID_VERSION:
        topic.topic = TOPIC
    else:
        topic.topic_id = Uuid.METADATA_TOPIC_ID
    return topic


def _is_bare_error(draft: FetchQuorumRecordsResponse) -> bool:
    """Whether an error is all that was said: Raft leaders tell epoch and id with all others."""
    return draft.error_code != ErrorCode.NONE and all(
        field.is_default(getattr(draft, field.name))
        for field in type(draft).fields
        if field.name not in ("error_code", "last_caught_up_time_ms")
    )


def _is_set(diverging: EpochEndOffset, field: str) -> bool:
    """Whether there is a place to cut the log at; it takes an offset and an epoch."""
    if (diverging.end_offset, diverging.epoch) == (NOT_SET, NOT_SET):
        return False
    if diverging.end_offset < 0 or diverging.epoch < 0:
        raise UnmappableError(
            field, f"offset {diverging.end_offset} with epoch {diverging.epoch} is half an order"
        )
    return True


# What must hold


def _check_versions(draft: type[Message], draft_version: int, fetch_version: int) -> None:
    for version in (draft_version, fetch_version):
        if isinstance(version, bool) or not isinstance(version, int):
            raise TypeError(f"a version is a number, not {version!r}")
    if not draft.min_version <= draft_version <= draft.max_version:
        raise UnsupportedVersionError(
            draft.__name__, draft_version, draft.min_version, draft.max_version
        )
    if not FETCH_VERSION_MIN <= fetch_version <= FetchRequest.max_version:
        raise UnmappableError(
            "version",
            f"Fetch v{fetch_version} is not among v{FETCH_VERSION_MIN}-{FetchRequest.max_version}",
        )


def _check_hints(dropping: Collection[str], hints: frozenset[str]) -> None:
    for name in dropping:
        if name not in hints:
            raise ValueError(f"{name} cannot be dropped, only {', '.join(sorted(hints))}")


def _check_shape(message: Message, version: int) -> None:
    """All of it can be encoded, and it has no undeclared tags. UnmappableError."""
    cls = type(message)
    _check_tags(message, cls.__name__)
    try:
        check_encodable(layout_of(cls, version, cls.is_flexible(version)), message)
    except EncodeError as error:
        raise UnmappableError(error.path, error.reason) from None
    for field in cls.fields:  # those that an encoder drops among them
        if not field.versions.holds(version) and not field.is_default(getattr(message, field.name)):
            raise UnmappableError(field.name, f"v{version} has no such field")


def _check_tags(struct: Struct, path: str) -> None:
    if struct.unknown_tags:
        raise UnmappableError(path, f"has unknown tags {sorted(map(shown, struct.unknown_tags))}")


def _check_silent(struct: Struct, silent: Mapping[str, Any], dropping: Collection[str]) -> None:
    for name, expected in silent.items():
        value = getattr(struct, name)
        if value != expected and name not in dropping:
            raise UnmappableError(name, f"{shown(value)} has no counterpart")


def _only(elements: list[Any], path: str) -> Any:
    if len(elements) != 1:
        raise UnmappableError(path, f"one element is expected, not {len(elements)}")
    return elements[0]


def _check_metadata(
    topic: FetchTopic | FetchableTopicResponse, fetch_version: int, path: str
) -> None:
    _check_tags(topic, path)
    named = (topic.topic, topic.topic_id)
    if fetch_version < TOPIC_ID_VERSION:
        expected = (TOPIC, Uuid.ZERO), (TOPIC, Uuid.METADATA_TOPIC_ID)
    else:
        expected = ("", Uuid.METADATA_TOPIC_ID), (TOPIC, Uuid.METADATA_TOPIC_ID)
    if named not in expected:
        raise UnmappableError(path, f"is topic {named[0]!r} {named[1]}, not {TOPIC}")


def _check_partition(partition: Struct, index: int, path: str) -> None:
    _check_tags(partition, path)
    if index != PARTITION:
        raise UnmappableError(path, f"is partition {index}, not {PARTITION}")


def _check_partition_data(partition: PartitionData, dropping: Collection[str]) -> None:
    path = "responses[0].partitions[0]"
    _check_partition(partition, partition.partition_index, path)
    for name in ("diverging_epoch", "current_leader", "snapshot_id"):
        _check_tags(getattr(partition, name), f"{path}.{name}")
    _check_silent(partition, _SILENT_PARTITION_DATA, dropping)
    snapshot = partition.snapshot_id
    if (snapshot.end_offset, snapshot.epoch) != (NOT_SET, NOT_SET):
        raise UnmappableError(
            "snapshot_id",
            f"a follower of the draft cannot fetch snapshot {snapshot.end_offset}-{snapshot.epoch}",
        )
    if partition.aborted_transactions:
        raise UnmappableError("aborted_transactions", "Raft has no transactions")
