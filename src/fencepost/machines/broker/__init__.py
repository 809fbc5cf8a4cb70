"""What a broker, or a controller, says of itself to the active controller (KIP-631, 858, 919).

`BrokerLifecycle` registers the broker, sends its heartbeats and takes it through its shutdown; its
module docstring says how to drive it. `DirectoryAssignments` tells in which log directories
replicas are. `ControllerRegistration` registers a controller.
"""

from fencepost.machines.broker.assignments import DirectoryAssignments
from fencepost.machines.broker.controller_registration import ControllerRegistration
from fencepost.machines.broker.inputs import (
    BeginControlledShutdown,
    ControllerAnswered,
    ControllerChanged,
    ControllerRequest,
    CordonLogDirs,
    LifecycleConfig,
    LogDirFailed,
    MetadataApplied,
    Outcome,
    ReadyToUnfence,
    Registration,
    ReplicasPlaced,
    Start,
)
from fencepost.machines.broker.lifecycle import BrokerLifecycle
from fencepost.machines.broker.reactions import BrokerState

__all__ = [
    "BeginControlledShutdown",
    "BrokerLifecycle",
    "BrokerState",
    "ControllerAnswered",
    "ControllerChanged",
    "ControllerRegistration",
    "ControllerRequest",
    "CordonLogDirs",
    "DirectoryAssignments",
    "LifecycleConfig",
    "LogDirFailed",
    "MetadataApplied",
    "Outcome",
    "ReadyToUnfence",
    "Registration",
    "ReplicasPlaced",
    "Start",
]
