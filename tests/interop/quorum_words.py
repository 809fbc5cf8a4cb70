"""The quorum's requests in few words, and its answers as one line, for tables of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fencepost.batch.header import iter_headers
from fencepost.machines.quorum.messages import TOPIC as METADATA_TOPIC
from fencepost.wire.api import (
    add_raft_voter as add,
    begin_quorum_epoch as begin,
    describe_quorum as describe,
    end_quorum_epoch as end,
    fetch as f,
    fetch_snapshot as snapshot,
    remove_raft_voter as remove,
    update_raft_voter as update,
    vote as v,
)
from fencepost.wire.errors import error_name
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

from .apache import CLUSTER_ID, HOST

L = TypeVar("L")


def vote(
    epoch: int,
    candidate: int = 2,
    log: tuple[int, int] = (0, 0),
    *,
    pre: bool = False,
    cluster: str | None = CLUSTER_ID,
    voter: int = 1,
    voter_directory: Uuid = Uuid.ZERO,
    directory: Uuid = Uuid.ZERO,
    topic: str = METADATA_TOPIC,
    partition: int = 0,
) -> v.VoteRequest:
    """`log` is (last epoch, end offset)."""
    asked = v.PartitionDataRequest(
        partition_index=partition,
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=directory,
        voter_directory_id=voter_directory,
        last_offset_epoch=log[0],
        last_offset=log[1],
        pre_vote=pre,
    )
    topics = [v.TopicDataRequest(topic_name=topic, partitions=[asked])]
    return v.VoteRequest(cluster_id=cluster, voter_id=voter, topics=topics)


def begins(
    epoch: int,
    leader: int = 2,
    *,
    cluster: str | None = CLUSTER_ID,
    voter: int = 1,
    voter_directory: Uuid = Uuid.ZERO,
    topic: str = METADATA_TOPIC,
    partition: int = 0,
    port: int = 0,
) -> begin.BeginQuorumEpochRequest:
    """With a `port` the leader says where its listener is."""
    said = begin.PartitionDataRequest(
        partition_index=partition,
        leader_id=leader,
        leader_epoch=epoch,
        voter_directory_id=voter_directory,
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=cluster,
        voter_id=voter,
        topics=[begin.TopicDataRequest(topic_name=topic, partitions=[said])],
        leader_endpoints=_listeners(begin.LeaderEndpoint, "CONTROLLER" if port else "", port),
    )


def ends(
    epoch: int,
    leader: int = 2,
    candidates: tuple[int, ...] = (),
    *,
    cluster: str | None = CLUSTER_ID,
    topic: str = METADATA_TOPIC,
    partition: int = 0,
) -> end.EndQuorumEpochRequest:
    """`candidates` had better stand next, in this order."""
    said = end.PartitionDataRequest(
        partition_index=partition,
        leader_id=leader,
        leader_epoch=epoch,
        preferred_successors=list(candidates),
        preferred_candidates=[end.ReplicaInfo(candidate_id=id_) for id_ in candidates],
    )
    topics = [end.TopicDataRequest(topic_name=topic, partitions=[said])]
    return end.EndQuorumEpochRequest(cluster_id=cluster, topics=topics)


def fetch(
    epoch: int,
    offset: int = 0,
    last_epoch: int = 0,
    *,
    replica: int = 2,
    cluster: str | None = CLUSTER_ID,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
    directory: Uuid = Uuid.ZERO,
    high_watermark: int = (1 << 63) - 1,
    topic_id: Uuid = Uuid.METADATA_TOPIC_ID,
    partition: int = 0,
    partitions: int = 1,
) -> f.FetchRequest:
    """Read on at `offset`, behind a record of `last_epoch`."""
    wanted = [
        f.FetchPartition(
            partition=partition + number,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            replica_directory_id=directory,
            high_watermark=high_watermark,
            partition_max_bytes=0,
        )
        for number in range(partitions)
    ]
    return f.FetchRequest(
        cluster_id=cluster,
        replica_state=f.ReplicaState(replica_id=replica),
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        topics=[f.FetchTopic(topic=METADATA_TOPIC, topic_id=topic_id, partitions=wanted)],
    )


def fetch_snapshot(
    epoch: int,
    snapshot_id: tuple[int, int],
    position: int = 0,
    *,
    replica: int = 2,
    cluster: str | None = CLUSTER_ID,
    max_bytes: int = 1 << 20,
    directory: Uuid = Uuid.ZERO,
    topic: str = METADATA_TOPIC,
    partition: int = 0,
) -> snapshot.FetchSnapshotRequest:
    """`snapshot_id` is (end offset, epoch)."""
    wanted = snapshot.PartitionSnapshotRequest(
        partition=partition,
        current_leader_epoch=epoch,
        snapshot_id=snapshot.SnapshotId(end_offset=snapshot_id[0], epoch=snapshot_id[1]),
        position=position,
        replica_directory_id=directory,
    )
    topics = [snapshot.TopicSnapshotRequest(name=topic, partitions=[wanted])]
    return snapshot.FetchSnapshotRequest(
        cluster_id=cluster, replica_id=replica, max_bytes=max_bytes, topics=topics
    )


def describes(topic: str = METADATA_TOPIC, partition: int = 0) -> describe.DescribeQuorumRequest:
    """About one partition."""
    asked = describe.PartitionDataRequest(partition_index=partition)
    topics = [describe.TopicDataRequest(topic_name=topic, partitions=[asked])]
    return describe.DescribeQuorumRequest(topics=topics)


def adds(
    voter: int,
    directory: Uuid,
    port: int,
    *,
    cluster: str | None = CLUSTER_ID,
    listener: str = "CONTROLLER",
    timeout_ms: int = 1_000,
    at_once: bool = False,
) -> add.AddRaftVoterRequest:
    """A voter on a port of this machine; `at_once` does not wait for the commit."""
    return add.AddRaftVoterRequest(
        cluster_id=cluster,
        timeout_ms=timeout_ms,
        voter_id=voter,
        voter_directory_id=directory,
        listeners=_listeners(add.Listener, listener, port),
        ack_when_committed=not at_once,
    )


def removes(
    voter: int, directory: Uuid, *, cluster: str | None = CLUSTER_ID
) -> remove.RemoveRaftVoterRequest:
    """This voter."""
    return remove.RemoveRaftVoterRequest(
        cluster_id=cluster, voter_id=voter, voter_directory_id=directory
    )


def updates(
    epoch: int,
    voter: int,
    directory: Uuid,
    port: int,
    *,
    cluster: str | None = CLUSTER_ID,
    listener: str = "CONTROLLER",
    versions: tuple[int, int] = (0, 1),
) -> update.UpdateRaftVoterRequest:
    """A voter's new port; `versions` are those of kraft.version that it can."""
    low, high = versions
    return update.UpdateRaftVoterRequest(
        cluster_id=cluster,
        current_leader_epoch=epoch,
        voter_id=voter,
        voter_directory_id=directory,
        listeners=_listeners(update.Listener, listener, port),
        k_raft_version_feature=update.KRaftVersionFeature(
            min_supported_version=low, max_supported_version=high
        ),
    )


def _listeners(kind: Callable[..., L], name: str, port: int) -> list[L]:
    """One on this machine, or none without a name."""
    return [kind(name=name, host=HOST, port=port)] if name else []


def shown(response: Message) -> str:
    """An answer as one line: the error of the whole, or what it says about the partition."""
    if isinstance(response, f.FetchResponse):
        return _shown_fetch(response)
    if isinstance(response, describe.DescribeQuorumResponse):
        return _shown_describe(response)
    if isinstance(response, snapshot.FetchSnapshotResponse):
        return _shown_snapshot(response)
    if isinstance(response, update.UpdateRaftVoterResponse):
        leader = response.current_leader
        return f"{error_name(response.error_code)} {leader.leader_id}@{leader.leader_epoch}"
    if isinstance(response, add.AddRaftVoterResponse | remove.RemoveRaftVoterResponse):
        return error_name(response.error_code)
    if response.error_code or not response.topics:  # type: ignore[attr-defined]
        return f"whole: {error_name(response.error_code)}"  # type: ignore[attr-defined]
    partition = response.topics[0].partitions[0]  # type: ignore[attr-defined]
    line = f"{error_name(partition.error_code)} {partition.leader_id}@{partition.leader_epoch}"
    if isinstance(response, v.VoteResponse):
        line += " yes" if partition.vote_granted else " no"
    return line + _endpoints(response)


def _endpoints(response: Message) -> str:
    """ids of the nodes whose addresses came along."""
    nodes = sorted(node.node_id for node in getattr(response, "node_endpoints", ()))
    return f" nodes={nodes}" if nodes else ""


def _shown_fetch(response: f.FetchResponse) -> str:
    if response.error_code or not response.responses:
        return f"whole: {error_name(response.error_code)}"
    said = response.responses[0].partitions[0]
    leader = said.current_leader
    line = f"{error_name(said.error_code)} {leader.leader_id}@{leader.leader_epoch}"
    line += f" hw={said.high_watermark} start={said.log_start_offset}"
    if said.diverging_epoch.epoch >= 0 or said.diverging_epoch.end_offset >= 0:
        line += f" diverging={said.diverging_epoch.end_offset}@{said.diverging_epoch.epoch}"
    if said.snapshot_id.epoch >= 0 or said.snapshot_id.end_offset >= 0:
        line += f" snapshot={said.snapshot_id.end_offset}@{said.snapshot_id.epoch}"
    if said.records:
        headers = [header for _, header in iter_headers(memoryview(said.records))]
        line += f" records={headers[0].base_offset}..{headers[-1].next_offset - 1}"
    return line + _endpoints(response)


def _shown_snapshot(response: snapshot.FetchSnapshotResponse) -> str:
    if response.error_code or not response.topics:
        return f"whole: {error_name(response.error_code)}"
    said = response.topics[0].partitions[0]
    leader, id_ = said.current_leader, said.snapshot_id
    line = f"{error_name(said.error_code)} {leader.leader_id}@{leader.leader_epoch}"
    line += f" snapshot={id_.end_offset}@{id_.epoch} size={said.size} position={said.position}"
    line += f" bytes={len(said.unaligned_records or b'')}"
    return line + _endpoints(response)


def _shown_describe(response: describe.DescribeQuorumResponse) -> str:
    if response.error_code or not response.topics:
        return f"whole: {error_name(response.error_code)}"
    said = response.topics[0].partitions[0]
    line = f"{error_name(said.error_code)} {said.leader_id}@{said.leader_epoch}"
    line += f" hw={said.high_watermark}"
    line += "".join(f" {r.replica_id}:{r.log_end_offset}" for r in said.current_voters)
    line += "".join(f" ({r.replica_id}:{r.log_end_offset})" for r in said.observers)
    nodes = sorted(node.node_id for node in response.nodes)
    return line + (f" nodes={nodes}" if nodes else "")
