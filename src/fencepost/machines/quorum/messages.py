"""The quorum's wire messages, each for its one partition: how they are composed and taken apart.

Every quorum request is made for many topics and partitions and is only ever used for one,
`__cluster_metadata`-0. This module is where that is known. What it takes apart is foreign: the
functions that end in `_of` return None when the message is not about that one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import Buffer
from fencepost.machines.quorum.config import QuorumConfig
from fencepost.machines.quorum.endpoints import add_leader, listeners
from fencepost.machines.quorum.inputs import DraftBounds, FetchBounds, SnapshotBounds
from fencepost.machines.quorum.state import NO_NODE, QuorumState
from fencepost.machines.quorum.voters import ReplicaKey, Voter
from fencepost.wire.api import (
    begin_quorum_epoch as begin,
    describe_quorum as describe,
    end_quorum_epoch as end,
    fetch,
    fetch_snapshot,
    vote,
)
from fencepost.wire.draft import fetch_quorum_records as draft
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

TOPIC = "__cluster_metadata"
PARTITION = 0


def _only_partition(topics: Sequence[Any], index: str) -> Any:
    """The one partition of the one topic, if these are the metadata log's."""
    if len(topics) != 1 or topics[0].topic_name != TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if getattr(partition, index) == PARTITION else None


# -- Vote --------------------------------------------------------------------------------------


def vote_request(
    config: QuorumConfig,
    voter_id: int,
    candidate_id: int,
    epoch: int,
    log_end: tuple[int, int],
    pre_vote: bool,
    voter_directory_id: Uuid = Uuid.ZERO,
) -> vote.VoteRequest:
    """Ask `voter_id` for a vote; `log_end` is (epoch of the last record, end offset)."""
    partition = vote.PartitionDataRequest(
        partition_index=PARTITION,
        replica_epoch=epoch,
        replica_id=candidate_id,
        replica_directory_id=config.directory_id,
        voter_directory_id=voter_directory_id,
        last_offset_epoch=log_end[0],
        last_offset=log_end[1],
        pre_vote=pre_vote,
    )
    return vote.VoteRequest(
        cluster_id=config.cluster_id,
        voter_id=voter_id,
        topics=[vote.TopicDataRequest(topic_name=TOPIC, partitions=[partition])],
    )


def vote_request_of(request: vote.VoteRequest) -> vote.PartitionDataRequest | None:
    """What the candidate says."""
    partition: vote.PartitionDataRequest | None = _only_partition(request.topics, "partition_index")
    return partition


def vote_response(error: ErrorCode, leader_id: int, epoch: int, granted: bool) -> vote.VoteResponse:
    """An answer about the partition."""
    partition = vote.PartitionDataResponse(
        partition_index=PARTITION,
        error_code=error,
        leader_id=leader_id,
        leader_epoch=epoch,
        vote_granted=granted,
    )
    return vote.VoteResponse(
        topics=[vote.TopicDataResponse(topic_name=TOPIC, partitions=[partition])]
    )


def vote_response_of(response: vote.VoteResponse) -> vote.PartitionDataResponse | None:
    """What the voter says, unless the whole request was refused."""
    if response.error_code:
        return None
    partition: vote.PartitionDataResponse | None = _only_partition(
        response.topics, "partition_index"
    )
    return partition


# -- BeginQuorumEpoch and EndQuorumEpoch -------------------------------------------------------


def begin_request(
    config: QuorumConfig,
    voter_id: int,
    state: QuorumState,
    voter_directory_id: Uuid = Uuid.ZERO,
) -> begin.BeginQuorumEpochRequest:
    """Tell `voter_id` who leads the state's epoch, and where it is reached."""
    partition = begin.PartitionDataRequest(
        partition_index=PARTITION,
        voter_directory_id=voter_directory_id,
        leader_id=state.leader_id,
        leader_epoch=state.epoch,
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=config.cluster_id,
        voter_id=voter_id,
        topics=[begin.TopicDataRequest(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=listeners(begin.LeaderEndpoint, config.endpoints),
    )


def begin_request_of(
    request: begin.BeginQuorumEpochRequest,
) -> begin.PartitionDataRequest | None:
    """What the leader says."""
    partition: begin.PartitionDataRequest | None = _only_partition(
        request.topics, "partition_index"
    )
    return partition


def begin_response(error: ErrorCode, leader_id: int, epoch: int) -> begin.BeginQuorumEpochResponse:
    """An answer about the partition."""
    partition = begin.PartitionDataResponse(
        partition_index=PARTITION, error_code=error, leader_id=leader_id, leader_epoch=epoch
    )
    return begin.BeginQuorumEpochResponse(
        topics=[begin.TopicDataResponse(topic_name=TOPIC, partitions=[partition])]
    )


def begin_response_of(
    response: begin.BeginQuorumEpochResponse,
) -> begin.PartitionDataResponse | None:
    """What the voter says, unless the whole request was refused."""
    if response.error_code:
        return None
    partition: begin.PartitionDataResponse | None = _only_partition(
        response.topics, "partition_index"
    )
    return partition


def end_request(
    config: QuorumConfig, state: QuorumState, candidates: Iterable[ReplicaKey]
) -> end.EndQuorumEpochRequest:
    """Say that this node no longer leads the state's epoch, and who had better stand next.

    Both forms of the candidates are filled in, v0's ids and v1's keys; the codec drops one.
    """
    preferred = list(candidates)
    partition = end.PartitionDataRequest(
        partition_index=PARTITION,
        leader_id=state.leader_id,
        leader_epoch=state.epoch,
        preferred_successors=[key.id for key in preferred],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in preferred
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=config.cluster_id,
        topics=[end.TopicDataRequest(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=listeners(end.LeaderEndpoint, config.endpoints),
    )


def end_request_of(request: end.EndQuorumEpochRequest) -> end.PartitionDataRequest | None:
    """What the leader says."""
    partition: end.PartitionDataRequest | None = _only_partition(request.topics, "partition_index")
    return partition


def preferred_candidates_of(partition: end.PartitionDataRequest) -> list[ReplicaKey]:
    """The keys of the preferred candidates, best first, from either form."""
    if partition.preferred_candidates:
        return [
            ReplicaKey(candidate.candidate_id, candidate.candidate_directory_id)
            for candidate in partition.preferred_candidates
        ]
    return [ReplicaKey(id_) for id_ in partition.preferred_successors]


def end_response(error: ErrorCode, leader_id: int, epoch: int) -> end.EndQuorumEpochResponse:
    """An answer about the partition."""
    partition = end.PartitionDataResponse(
        partition_index=PARTITION, error_code=error, leader_id=leader_id, leader_epoch=epoch
    )
    return end.EndQuorumEpochResponse(
        topics=[end.TopicDataResponse(topic_name=TOPIC, partitions=[partition])]
    )


def end_response_of(response: end.EndQuorumEpochResponse) -> end.PartitionDataResponse | None:
    """What the voter says, unless the whole request was refused."""
    if response.error_code:
        return None
    partition: end.PartitionDataResponse | None = _only_partition(
        response.topics, "partition_index"
    )
    return partition


# -- Fetch -------------------------------------------------------------------------------------


def fetch_request(
    config: QuorumConfig, node_id: int, epoch: int, log_end: tuple[int, int], high_watermark: int
) -> fetch.FetchRequest:
    """Ask a leader for what follows `log_end`: (epoch of the last record, end offset)."""
    partition = fetch.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=log_end[1],
        last_fetched_epoch=log_end[0],
        replica_directory_id=config.directory_id,
        high_watermark=high_watermark,
    )
    topic = fetch.FetchTopic(topic=TOPIC, topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition])
    return fetch.FetchRequest(
        cluster_id=config.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=node_id),
        max_wait_ms=config.fetch_max_wait_ms,
        max_bytes=config.fetch_max_bytes,
        topics=[topic],
    )


def fetch_request_of(request: fetch.FetchRequest) -> fetch.FetchPartition | None:
    """Where the reader is; the topic goes by its id or, in old versions, by its name."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    if topic.topic_id != Uuid.METADATA_TOPIC_ID and topic.topic != TOPIC:
        return None
    partition = topic.partitions[0]
    return partition if partition.partition == PARTITION else None


def replica_id_of(request: fetch.FetchRequest) -> int:
    """Who reads: a node id, or -1 for something that is no replica."""
    if request.replica_state.replica_id != NO_NODE:
        return request.replica_state.replica_id
    return request.replica_id


def fetch_response(
    bounds: FetchBounds, records: Buffer | Sequence[Buffer] = b""
) -> fetch.FetchResponse:
    """The response that goes with a machine's bounds and the bytes read within them."""
    if bounds.is_whole_request:
        return fetch.FetchResponse(error_code=bounds.error)
    partition = fetch.PartitionData(
        partition_index=PARTITION,
        error_code=bounds.error,
        high_watermark=bounds.high_watermark,
        log_start_offset=bounds.log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=bounds.leader_id, leader_epoch=bounds.leader_epoch
        ),
        records=records,
    )
    if bounds.diverging is not None:
        partition.diverging_epoch = fetch.EpochEndOffset(
            epoch=bounds.diverging[0], end_offset=bounds.diverging[1]
        )
    if bounds.snapshot_id is not None:
        partition.snapshot_id = fetch.SnapshotId(
            end_offset=bounds.snapshot_id.end_offset, epoch=bounds.snapshot_id.epoch
        )
    topic = fetch.FetchableTopicResponse(
        topic=TOPIC, topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition]
    )
    response = fetch.FetchResponse(responses=[topic])
    add_leader(response, bounds.leader_id, bounds.leader_endpoint)
    return response


def fetch_response_of(response: fetch.FetchResponse) -> fetch.PartitionData | None:
    """What the leader says, unless the whole request was refused."""
    if response.error_code or len(response.responses) != 1:
        return None
    topic = response.responses[0]
    if topic.topic_id != Uuid.METADATA_TOPIC_ID and topic.topic != TOPIC:
        return None
    if len(topic.partitions) != 1 or topic.partitions[0].partition_index != PARTITION:
        return None
    return topic.partitions[0]


AnyBounds = TypeVar("AnyBounds", FetchBounds, DraftBounds, SnapshotBounds)


def unreadable(bounds: AnyBounds) -> AnyBounds:
    """The bounds to answer with when there is nothing to be read within `bounds` after all.

    Of a log that is an unforeseen error; a snapshot has just been deleted.
    """
    if isinstance(bounds, SnapshotBounds):
        return replace(bounds, error=ErrorCode.SNAPSHOT_NOT_FOUND, snapshot_id=None)
    return replace(bounds, error=ErrorCode.UNKNOWN_SERVER_ERROR, upper_bound_offset=bounds.offset)


# -- FetchSnapshot -----------------------------------------------------------------------------


def fetch_snapshot_request(
    config: QuorumConfig,
    node_id: int,
    epoch: int,
    snapshot_id: SnapshotId,
    position_bytes: int,
) -> fetch_snapshot.FetchSnapshotRequest:
    """Ask a leader for the piece of a snapshot that begins at `position_bytes`."""
    partition = fetch_snapshot.PartitionSnapshotRequest(
        partition=PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        position=position_bytes,
        replica_directory_id=config.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=config.cluster_id,
        replica_id=node_id,
        max_bytes=config.fetch_snapshot_max_bytes,
        topics=[fetch_snapshot.TopicSnapshotRequest(name=TOPIC, partitions=[partition])],
    )


def fetch_snapshot_request_of(
    request: fetch_snapshot.FetchSnapshotRequest,
) -> tuple[str, fetch_snapshot.PartitionSnapshotRequest] | None:
    """The topic and what is asked of it, whichever it is; None unless it is just one partition."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    return request.topics[0].name, request.topics[0].partitions[0]


def fetch_snapshot_response(
    bounds: SnapshotBounds, data: Buffer = b""
) -> fetch_snapshot.FetchSnapshotResponse:
    """The response that goes with a machine's bounds and the bytes read within them."""
    if bounds.is_whole_request:
        return fetch_snapshot.FetchSnapshotResponse(error_code=bounds.error)
    topic, index = bounds.unknown_partition or (TOPIC, PARTITION)
    partition = fetch_snapshot.PartitionSnapshotResponse(index=index, error_code=bounds.error)
    if bounds.unknown_partition is None:
        partition.current_leader = fetch_snapshot.LeaderIdAndEpoch(
            leader_id=bounds.leader_id, leader_epoch=bounds.leader_epoch
        )
    if bounds.snapshot_id is not None:
        partition.snapshot_id = fetch_snapshot.SnapshotId(
            end_offset=bounds.snapshot_id.end_offset, epoch=bounds.snapshot_id.epoch
        )
        partition.size = bounds.size_bytes
        partition.position = bounds.position_bytes
        partition.unaligned_records = data
    response = fetch_snapshot.FetchSnapshotResponse(
        topics=[fetch_snapshot.TopicSnapshotResponse(name=topic, partitions=[partition])]
    )
    add_leader(response, bounds.leader_id, bounds.leader_endpoint)
    return response


def fetch_snapshot_response_of(
    response: fetch_snapshot.FetchSnapshotResponse,
) -> fetch_snapshot.PartitionSnapshotResponse | None:
    """What the leader says, unless the whole request was refused."""
    if response.error_code or len(response.topics) != 1:
        return None
    topic = response.topics[0]
    if topic.name != TOPIC or len(topic.partitions) != 1 or topic.partitions[0].index != PARTITION:
        return None
    return topic.partitions[0]


# -- FetchQuorumRecords, the draft -------------------------------------------------------------


def quorum_records_response(
    bounds: DraftBounds, records: Buffer | Sequence[Buffer] = b""
) -> draft.FetchQuorumRecordsResponse:
    """The response that goes with a machine's bounds and the bytes read within them."""
    return draft.FetchQuorumRecordsResponse(
        error_code=bounds.error,
        leader_id=bounds.leader_id,
        leader_epoch=bounds.leader_epoch,
        next_fetch_offset=bounds.next_fetch_offset,
        next_fetch_offset_epoch=bounds.next_fetch_offset_epoch,
        records=records,
        high_watermark=bounds.high_watermark,
        first_dirty_offset=bounds.first_dirty_offset,
        last_caught_up_time_ms=bounds.last_caught_up_ms,
    )


# -- DescribeQuorum ----------------------------------------------------------------------------


def describe_request_of(
    request: describe.DescribeQuorumRequest,
) -> describe.PartitionDataRequest | None:
    """The one partition that can be asked about."""
    partition: describe.PartitionDataRequest | None = _only_partition(
        request.topics, "partition_index"
    )
    return partition


def describe_response(
    partition: describe.PartitionDataResponse, voters: Iterable[Voter] = ()
) -> describe.DescribeQuorumResponse:
    """An answer about the partition, and where the voters are reached."""
    partition.partition_index = PARTITION
    nodes = [
        describe.Node(node_id=voter.id, listeners=listeners(describe.Listener, voter.endpoints))
        for voter in voters
    ]
    return describe.DescribeQuorumResponse(
        topics=[describe.TopicDataResponse(topic_name=TOPIC, partitions=[partition])],
        nodes=nodes,
    )
