"""Requests that only the active controller can serve: which decision each of them is.

Brokers in other processes send these requests to the controller's listener, the broker in this
process asks directly, and clients' requests come forwarded in envelopes. All of them end here, so
what a request means does not depend on how it came. What a controller may not draw for itself is
added here: time, topic ids, and the place where placement begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fencepost.broker.topic_creation import new_topic_ids, placement_start
from fencepost.machines.controller import Controller, Decision
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest
from fencepost.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from fencepost.wire.api.alter_partition import AlterPartitionRequest
from fencepost.wire.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.broker_registration import BrokerRegistrationRequest
from fencepost.wire.api.create_partitions import CreatePartitionsRequest
from fencepost.wire.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from fencepost.wire.api.delete_topics import DeleteTopicsRequest
from fencepost.wire.api.describe_quorum import DescribeQuorumRequest
from fencepost.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

OnReply = Callable[[ErrorCode, Any], None]
"""Told (NONE, the response) or (an error, None). The response may hold errors of its own."""

FillInConfigs = Callable[[CreateTopicsRequest, CreateTopicsResponse], None]

AskQuorum = Callable[[Message, Callable[[Message], None]], None]
"""Takes a request and whom to tell the response."""

FIRST_CREATE_TOPICS_WITH_CONFIGS = 5
NEWEST = 1 << 15
"""As an API version: whatever the newest is."""


class Host(Protocol):
    """What is needed of a `ControllerHost`."""

    @property
    def controller(self) -> Controller | None:
        """The controller while it is active."""
        ...

    def submit(self, decide: Callable[[Controller], Decision], on_reply: OnReply) -> None:
        """Decide now, answer when that is committed."""
        ...


class ControllerService:
    """Serves controller requests by their class; `now_ms` is the node's clock.

    `fill_in_configs` completes the answer to CreateTopics with the configs in force. `ask_quorum`
    has the quorum machine answer what is about the quorum itself.
    """

    def __init__(
        self,
        host: Host,
        now_ms: Callable[[], int],
        fill_in_configs: FillInConfigs,
        ask_quorum: AskQuorum,
    ) -> None:
        self._host = host
        self._now_ms = now_ms
        self._fill_in_configs = fill_in_configs
        self._ask_quorum = ask_quorum

    @property
    def is_active(self) -> bool:
        """Whether the active controller is in this process."""
        return self._host.controller is not None

    def serve(self, request: Message, on_reply: OnReply, api_version: int = NEWEST) -> None:
        """Decide over `request`; call back when that is committed, perhaps at once.

        `api_version` is the one the response will have. The error is NOT_CONTROLLER if another node
        is the active controller. Raises KeyError for a request that no controller serves.
        """
        if type(request) in OF_THE_QUORUM:
            self._ask_quorum(request, lambda response: on_reply(ErrorCode.NONE, response))
            return
        make = _DECISIONS[type(request)]
        if (
            isinstance(request, CreateTopicsRequest)
            and api_version >= FIRST_CREATE_TOPICS_WITH_CONFIGS
        ):
            on_reply = self._with_configs(request, on_reply)
        self._host.submit(lambda controller: make(controller, request, self._now_ms()), on_reply)

    def _with_configs(self, request: CreateTopicsRequest, on_reply: OnReply) -> OnReply:
        def filled(error: ErrorCode, response: CreateTopicsResponse | None) -> None:
            if response is not None:
                self._fill_in_configs(request, response)
            on_reply(error, response)

        return filled


_Make = Callable[[Controller, Any, int], Decision]

_DECISIONS: dict[type[Message], _Make] = {
    BrokerRegistrationRequest: Controller.decide_register_broker,
    BrokerHeartbeatRequest: Controller.decide_broker_heartbeat,
    AlterPartitionRequest: lambda c, request, _: c.decide_alter_partition(request),
    AllocateProducerIdsRequest: lambda c, request, _: c.decide_allocate_producer_ids(request),
    AssignReplicasToDirsRequest: lambda c, request, _: c.decide_assign_replicas_to_dirs(request),
    CreateTopicsRequest: lambda c, request, _: c.decide_create_topics(
        request, new_topic_ids(), placement_start()
    ),
    DeleteTopicsRequest: lambda c, request, _: c.decide_delete_topics(request),
    CreatePartitionsRequest: lambda c, request, _: c.decide_create_partitions(
        request, placement_start()
    ),
    IncrementalAlterConfigsRequest: lambda c, request, _: c.decide_incremental_alter_configs(
        request
    ),
}

OF_THE_QUORUM: frozenset[type[Message]] = frozenset(
    {DescribeQuorumRequest, AddRaftVoterRequest, RemoveRaftVoterRequest}
)
"""Those that the quorum machine answers by itself."""

SERVED: frozenset[type[Message]] = frozenset(_DECISIONS) | OF_THE_QUORUM
"""The requests that `serve` knows."""
