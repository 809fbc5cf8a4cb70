"""Raft for the metadata log, as Kafka speaks it (KIP-595): `QuorumMachine` and its inputs."""

from fencepost.machines.quorum.config import QuorumConfig
from fencepost.machines.quorum.inputs import (
    AppendOutcome,
    AppendRecords,
    BeginQuorumEpochAnswered,
    BeginQuorumEpochReceived,
    DescribeQuorumReceived,
    EndQuorumEpochAnswered,
    EndQuorumEpochReceived,
    FetchAnswered,
    FetchBounds,
    FetchReceived,
    Input,
    RequestFailed,
    Resign,
    Start,
    VoteAnswered,
    VoteReceived,
    answered,
    received,
)
from fencepost.machines.quorum.machine import QuorumMachine
from fencepost.machines.quorum.messages import fetch_response
from fencepost.machines.quorum.roles import Role
from fencepost.machines.quorum.state import QuorumState
from fencepost.machines.quorum.view import EpochView, LogView

__all__ = [
    "AppendOutcome",
    "AppendRecords",
    "BeginQuorumEpochAnswered",
    "BeginQuorumEpochReceived",
    "DescribeQuorumReceived",
    "EndQuorumEpochAnswered",
    "EndQuorumEpochReceived",
    "EpochView",
    "FetchAnswered",
    "FetchBounds",
    "FetchReceived",
    "Input",
    "LogView",
    "QuorumConfig",
    "QuorumMachine",
    "QuorumState",
    "RequestFailed",
    "Resign",
    "Role",
    "Start",
    "VoteAnswered",
    "VoteReceived",
    "answered",
    "fetch_response",
    "received",
]
