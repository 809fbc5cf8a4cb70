"""Messages and nodes in words, for transcripts and for people who read a replay."""

from __future__ import annotations

from fencepost.sim.calls import Call
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from fencepost.wire.api.fetch import FetchRequest, FetchResponse
from fencepost.wire.api.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshotRequest,
)
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from fencepost.wire.api.vote import VoteRequest, VoteResponse
from fencepost.wire.draft.fetch_quorum_records import (
    FetchQuorumRecordsRequest,
    FetchQuorumRecordsResponse,
)
from fencepost.wire.errors import error_name
from fencepost.wire.message import Message

SUFFIXES = {"request": "", "response": "Answer", "failure": "Failure"}


def kind_of(call: Call, kind: str) -> str:
    """Vote, PreVote, Fetch, ...: the name of the API, with `Answer` or `Failure` behind it."""
    request = call.request
    name = type(request).__name__.removesuffix("Request")
    if isinstance(request, VoteRequest) and request.topics[0].partitions[0].pre_vote:
        name = "PreVote"
    return name + SUFFIXES[kind]


def ends_of(call: Call, kind: str) -> tuple[int, int]:
    """Who sends and who receives."""
    if kind == "request":
        return call.source.id, call.target.id
    return call.target.id, call.source.id


def describe(call: Call, kind: str) -> str:
    """A message as one line."""
    source, target = ends_of(call, kind)
    message = {"request": call.request, "response": call.response, "failure": None}[kind]
    return f"{source}->{target} {kind_of(call, kind)}{details_of(message)}"


def details_of(message: Message | None) -> str:
    """What a message says, behind its name."""
    if message is None:
        return ""
    if isinstance(message, VoteRequest):
        asked = message.topics[0].partitions[0]
        return f" e{asked.replica_epoch}, log e{asked.last_offset_epoch} to {asked.last_offset}"
    if getattr(message, "error_code", 0):
        return f" {_error(message)}"
    if isinstance(message, VoteResponse):
        said = message.topics[0].partitions[0]
        verdict = "yes" if said.vote_granted else "no"
        return f" e{said.leader_epoch} {verdict if not said.error_code else _error(said)}"
    if isinstance(message, FetchRequest):
        return _fetching(message)
    if isinstance(message, FetchResponse):
        return _fetched(message)
    if isinstance(message, FetchSnapshotRequest | FetchSnapshotResponse):
        return _snapshot(message)
    if isinstance(message, FetchQuorumRecordsRequest):
        return (
            f" e{message.leader_epoch} from {message.fetch_offset},"
            f" last e{message.last_fetched_epoch}"
        )
    if isinstance(message, FetchQuorumRecordsResponse):
        cut = f", cut to {message.next_fetch_offset}" if message.next_fetch_offset >= 0 else ""
        return f" hw {message.high_watermark}, {len(message.records)} bytes{cut}"
    if isinstance(message, AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest):
        return f" {message.voter_id}/{message.voter_directory_id[-2]}"
    if isinstance(
        message, AddRaftVoterResponse | RemoveRaftVoterResponse | UpdateRaftVoterResponse
    ):
        return f" {_error(message)}"
    topics = getattr(message, "topics", None)
    if not topics:
        return ""
    partition = topics[0].partitions[0]
    error = _error(partition) + " " if getattr(partition, "error_code", 0) else ""
    epoch = getattr(partition, "leader_epoch", None)
    if epoch is None or not hasattr(partition, "leader_id"):
        return f" {error}".rstrip()
    return f" {error}e{epoch} of {partition.leader_id}"


def _fetching(message: FetchRequest) -> str:
    if not message.topics:
        return " as before"  # of a session that names nothing new
    asked_of = message.topics[0].partitions[0]
    return (
        f" e{asked_of.current_leader_epoch} from {asked_of.fetch_offset},"
        f" last e{asked_of.last_fetched_epoch}"
    )


def _fetched(message: FetchResponse) -> str:
    if not message.responses:
        return " nothing new"
    got = message.responses[0].partitions[0]
    if got.error_code:
        return f" {_error(got)}"
    if got.diverging_epoch.epoch >= 0:
        return f" diverges at e{got.diverging_epoch.epoch} to {got.diverging_epoch.end_offset}"
    if got.snapshot_id.epoch >= 0:
        return f" snapshot {got.snapshot_id.end_offset}-e{got.snapshot_id.epoch}"
    size = (
        sum(len(part) for part in got.records)
        if isinstance(got.records, list)
        else (len(got.records or b""))
    )
    return f" hw {got.high_watermark}, {size} bytes"


def _snapshot(message: FetchSnapshotRequest | FetchSnapshotResponse) -> str:
    partition = message.topics[0].partitions[0]
    id_ = f"{partition.snapshot_id.end_offset}-e{partition.snapshot_id.epoch}"
    if isinstance(partition, PartitionSnapshotRequest):
        return f" e{partition.current_leader_epoch}, {id_} from {partition.position}"
    if partition.error_code:
        return f" {_error(partition)}"
    size = len(partition.unaligned_records or b"")
    return f" {id_} {partition.position}+{size} of {partition.size}"


def _error(partition: object) -> str:
    return error_name(partition.error_code)  # type: ignore[attr-defined]
