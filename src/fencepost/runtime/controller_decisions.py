"""Which decision of the controller each request of a broker or a controller is.

Nothing but the time is added to them, so a node's listener and a simulated network serve them
alike. Other decisions of the controller need random numbers (ids of topics, where placement begins)
and are made in `broker/cluster/controller_service.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.machines.controller import Controller, Decision
from fencepost.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from fencepost.wire.api.alter_partition import AlterPartitionRequest
from fencepost.wire.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.broker_registration import BrokerRegistrationRequest
from fencepost.wire.api.controller_registration import ControllerRegistrationRequest
from fencepost.wire.message import Message

DecideOn = Callable[[Controller, Any, int], Decision]
"""Decides on a request at a time, in milliseconds of the monotonic clock."""

NODE_DECISIONS: Final[Mapping[type[Message], DecideOn]] = {
    BrokerRegistrationRequest: Controller.decide_register_broker,
    BrokerHeartbeatRequest: Controller.decide_broker_heartbeat,
    ControllerRegistrationRequest: lambda c, request, _: c.decide_register_controller(request),
    AlterPartitionRequest: lambda c, request, _: c.decide_alter_partition(request),
    AllocateProducerIdsRequest: lambda c, request, _: c.decide_allocate_producer_ids(request),
    AssignReplicasToDirsRequest: lambda c, request, _: c.decide_assign_replicas_to_dirs(request),
}
