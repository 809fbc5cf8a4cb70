"""The messages and records by which voters come, change and go (KIP-853, KIP-1186).

How they are composed and taken apart; what is made of them is decided in `reconfiguration.py`.
"""

from __future__ import annotations

from fencepost.machines.quorum.config import QuorumConfig
from fencepost.machines.quorum.endpoints import endpoints_of, listeners
from fencepost.machines.quorum.pending_change import PendingChange
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from fencepost.wire.api import add_raft_voter as add, update_raft_voter as update
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from fencepost.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.control import ControlType, KRaftVersionRecord
from fencepost.wire.types import Uuid

FEATURE = "kraft.version"
"""Raft's own level, as features go by name."""

DYNAMIC = 1
"""The level of kraft.version from which on voters can change."""


def voter_records(level: int, voters: VoterSet) -> list[tuple[ControlType, Message]]:
    """A level and the voters in force with it, as control records."""
    return [
        (ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=level)),
        (ControlType.KRAFT_VOTERS, voters.to_record()),
    ]


def change_response(
    change: PendingChange, error: ErrorCode, message: str | None = None
) -> AddRaftVoterResponse | RemoveRaftVoterResponse:
    """The answer to the client of this change."""
    if change.added is not None:
        return AddRaftVoterResponse(error_code=error, error_message=message)
    return RemoveRaftVoterResponse(error_code=error, error_message=message)


def refusal_message(
    request: AddRaftVoterRequest | RemoveRaftVoterRequest,
    error: ErrorCode,
    cluster_id: str | None,
    level: int,
) -> str | None:
    """Why a voter is not added or removed, in the shape of Kafka's messages.

    `level` is that of kraft.version. None where the code says all there is to say.
    """
    is_added = isinstance(request, AddRaftVoterRequest)
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"'
    if error is ErrorCode.UNSUPPORTED_VERSION:
        doing = "adding" if is_added else "removing"
        return f"Cluster doesn't support {doing} voter because the {FEATURE} feature is {level}"
    if error is ErrorCode.INVALID_REQUEST:
        return f"{'Add' if is_added else 'Remove'} voter request didn't include a valid voter"
    return None


# -- asking ------------------------------------------------------------------------------------


def add_request(config: QuorumConfig, voter: Voter) -> AddRaftVoterRequest:
    """Ask the leader to make this node a voter.

    The answer must not wait for the commit: that may need the fetches that this node puts off as
    long as it waits for the answer (KIP-1186). Nor must it wait so long, for a leader that cannot
    reach this node, that the node takes its leader for silent.
    """
    return AddRaftVoterRequest(
        cluster_id=config.cluster_id,
        timeout_ms=min(config.request_timeout_ms, config.fetch_timeout_ms) // 2,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=listeners(add.Listener, voter.endpoints),
        ack_when_committed=False,
    )


def remove_request(config: QuorumConfig, key: ReplicaKey) -> RemoveRaftVoterRequest:
    """Ask the leader to remove a voter."""
    return RemoveRaftVoterRequest(
        cluster_id=config.cluster_id, voter_id=key.id, voter_directory_id=key.directory_id
    )


def update_request(config: QuorumConfig, epoch: int, voter: Voter) -> UpdateRaftVoterRequest:
    """Tell the leader of `epoch` where this voter is reached and what it can run."""
    return UpdateRaftVoterRequest(
        cluster_id=config.cluster_id,
        current_leader_epoch=epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=listeners(update.Listener, voter.endpoints),
        k_raft_version_feature=update.KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version,
            max_supported_version=voter.max_kraft_version,
        ),
    )


def versions_request() -> ApiVersionsRequest:
    """Ask a node what it can run."""
    return ApiVersionsRequest(client_software_name="fencepost", client_software_version="1")


# -- being asked -------------------------------------------------------------------------------


def added_voter(request: AddRaftVoterRequest) -> Voter | None:
    """The voter to be added; None unless it has an id and a directory id."""
    if request.voter_id < 0 or request.voter_directory_id == Uuid.ZERO:
        return None
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    return Voter(key, endpoints_of(request.listeners))


def removed_key(request: RemoveRaftVoterRequest) -> ReplicaKey | None:
    """The voter to be removed; None unless it has an id and a directory id."""
    if request.voter_id < 0 or request.voter_directory_id == Uuid.ZERO:
        return None
    return ReplicaKey(request.voter_id, request.voter_directory_id)


def updated_voter(request: UpdateRaftVoterRequest) -> Voter | None:
    """What a voter says of itself; None unless it has ids and a range of versions."""
    versions = request.k_raft_version_feature
    low, high = versions.min_supported_version, versions.max_supported_version
    if request.voter_id < 0 or request.voter_directory_id == Uuid.ZERO or not 0 <= low <= high:
        return None
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    return Voter(key, endpoints_of(request.listeners), low, high)


def update_response(
    error: ErrorCode, leader_id: int, epoch: int, endpoint: Endpoint | None
) -> UpdateRaftVoterResponse:
    """The answer to an update; who leads is said with errors too."""
    current = update.CurrentLeader(leader_id=leader_id, leader_epoch=epoch)
    if leader_id >= 0 and endpoint is not None:
        current.host, current.port = endpoint.host, endpoint.port
    return UpdateRaftVoterResponse(error_code=error, current_leader=current)


def versions_in(response: ApiVersionsResponse) -> tuple[int, int]:
    """The levels of kraft.version that a node says it can run; (0, 0) if it does not name them."""
    for feature in response.supported_features:
        if feature.name == FEATURE:
            return feature.min_version, feature.max_version
    return 0, 0
