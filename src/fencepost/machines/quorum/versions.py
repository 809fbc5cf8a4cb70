"""What an old version of a quorum API cannot carry is left out of the answer.

The machine answers in full and does not know versions. Addresses of leaders (KIP-853) and directory
ids came later than the answers they are in; a request of an older version does without. Fields that
the schema marks as ignorable are not here: the codec drops those by itself.
"""

from __future__ import annotations

from typing import Any, TypeVar

from fencepost.wire.api.begin_quorum_epoch import BeginQuorumEpochResponse
from fencepost.wire.api.describe_quorum import DescribeQuorumResponse
from fencepost.wire.api.end_quorum_epoch import EndQuorumEpochResponse
from fencepost.wire.api.fetch import EpochEndOffset, FetchResponse, LeaderIdAndEpoch, SnapshotId
from fencepost.wire.api.fetch_snapshot import FetchSnapshotResponse
from fencepost.wire.api.vote import VoteResponse
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

_M = TypeVar("_M", bound=Message)

_ENDPOINTS_SINCE: dict[type[Message], int] = {
    VoteResponse: 1,
    BeginQuorumEpochResponse: 1,
    EndQuorumEpochResponse: 1,
    FetchResponse: 17,
    FetchSnapshotResponse: 1,
}
_DIRECTORIES_SINCE = 2
_RAFT_SINCE = 12
"""The first Fetch that a Raft replica can use. Older ones say no epoch and are answered errors."""


def fit(response: _M, version: int) -> _M:
    """`response`, changed in place so that it can be encoded at `version`."""
    answer: Any = response
    if version < _ENDPOINTS_SINCE.get(type(response), 0):
        answer.node_endpoints = []
    if isinstance(response, FetchResponse) and version < _RAFT_SINCE:
        _forget_epochs(response)
    if isinstance(response, DescribeQuorumResponse) and version < _DIRECTORIES_SINCE:
        _forget_directories(response)
    return response


def _forget_epochs(response: FetchResponse) -> None:
    for topic in response.responses:
        for partition in topic.partitions:
            partition.current_leader = LeaderIdAndEpoch()
            partition.diverging_epoch = EpochEndOffset()
            partition.snapshot_id = SnapshotId()


def _forget_directories(response: DescribeQuorumResponse) -> None:
    response.nodes = []
    for topic in response.topics:
        for partition in topic.partitions:
            for replica in (*partition.current_voters, *partition.observers):
                replica.replica_directory_id = Uuid.ZERO
