"""Requests that only the active controller can serve: which decision each of them is.

Brokers in other processes send these requests to the controller's listener, the broker in this
process asks directly, and clients' requests come forwarded in envelopes. All of them end here, so
what a request means does not depend on how it came. What a controller may not draw for itself is
added here: time, topic ids, and the place where placement begins.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from fencepost.machines.controller import Controller, Decision
from fencepost.machines.controller.decision import FREE, Charge
from fencepost.machines.controller.features import KRAFT_VERSION_FEATURE
from fencepost.machines.image import ClusterImage
from fencepost.machines.quorum import AppendOutcome
from fencepost.machines.session import Principal
from fencepost.runtime.asks_controller import OnReply
from fencepost.runtime.controller_decisions import NODE_DECISIONS, DecideOn
from fencepost.runtime.requests.access import Access, Client
from fencepost.runtime.requests.context import RequestContext
from fencepost.wire.api import API_NAMES, response_class
from fencepost.wire.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from fencepost.wire.errors import ErrorCode, error_name
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

if TYPE_CHECKING:
    from fencepost.broker.cluster.mutation_charges import MutationCharge
    from fencepost.machines.quota import MutationQuota
    from fencepost.wire.api.create_delegation_token import CreateDelegationTokenResponse
    from fencepost.wire.api.create_topics import CreateTopicsRequest, CreateTopicsResponse

FillInConfigs = Callable[["CreateTopicsRequest", "CreateTopicsResponse"], None]

AskQuorum = Callable[[Message, Callable[[Message], None]], None]
"""Takes a request and the callback for its response."""

FIRST_CREATE_TOPICS_WITH_CONFIGS = 5
FIRST_CREATE_TOKEN_WITH_REQUESTER = 3
MAX_BATCH_BYTES = 8 * 1024 * 1024
"""What a user's request may come to in the metadata log, as Kafka has it: it is one batch there,
and the other nodes have to take it as a whole."""
FOREVER_MS = 1 << 31
NEWEST = 1 << 15
"""As an API version: whatever the newest is."""

_PLACEMENT_STARTS = 1 << 30
_WHY_NOT = {
    ErrorCode.INVALID_UPDATE_VERSION: "some voter cannot, or has not said yet that it can, which"
    " the voters of a new leader do within seconds",
    ErrorCode.REQUEST_TIMED_OUT: "another change of the voters is under way",
}
"""Why the quorum refuses another level of kraft.version."""


TIMED: Final = frozenset(
    {
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "AlterPartitionReassignments",
        "ListPartitionReassignments",
        "ElectLeaders",
    }
)
"""The requests whose `timeout_ms` Kafka's controllers heed."""


def new_ids() -> Iterator[Uuid]:
    """Ids that no topic and no ACL has had, without end."""
    while True:
        yield Uuid.random()


def new_token_id() -> str:
    """An id that no delegation token has had."""
    return str(Uuid.random())


def placement_start() -> int:
    """Where to begin placing replicas, so that not every topic begins at the same broker."""
    return random.randrange(_PLACEMENT_STARTS)


def name_of(request: Message) -> str:
    """Kafka's name of the API. Tables have names, so that a start loads no requests for them."""
    assert request.api_key is not None
    return API_NAMES[request.api_key]


def client_timeout_ms(request: Any) -> int:
    """How long a client waits for the answer, in milliseconds."""
    return request.timeout_ms if name_of(request) in TIMED else FOREVER_MS


class Host(Protocol):
    """What is needed of a `ControllerHost`."""

    @property
    def controller(self) -> Controller | None:
        """The controller while it is active."""
        ...

    def submit(
        self,
        decide: Callable[[Controller], Decision],
        on_reply: OnReply,
        max_batch_bytes: int | None = None,
    ) -> None:
        """Decide now, answer when that is committed; POLICY_VIOLATION if it is too much."""
        ...

    def upgrade_kraft_version(
        self, level: int, is_dry_run: bool, on_outcome: Callable[[AppendOutcome], None]
    ) -> None:
        """Have the quorum itself run at another level."""
        ...


class Quorum(Protocol):
    """What is needed of the quorum machine."""

    @property
    def voters(self) -> tuple[int, ...]:
        """The ids of the voters."""
        ...

    @property
    def kraft_version(self) -> int:
        """The level of `kraft.version` in force."""
        ...


class ControllerService:
    """Serves controller requests by their class; `now_ms` is the node's clock, `wall_ms` that of
    the world, in milliseconds since 1970.

    `fill_in_configs` completes the answer to CreateTopics with the configs in force. `ask_quorum`
    has the quorum machine answer what is about the quorum itself. Clients are charged `mutations`
    for partitions that change, if there are such quotas.
    """

    def __init__(
        self,
        host: Host,
        now_ms: Callable[[], int],
        fill_in_configs: FillInConfigs,
        ask_quorum: AskQuorum,
        quorum: Quorum,
        access: Access,
        wall_ms: Callable[[], int],
        mutations: Callable[[], MutationQuota | None] = lambda: None,
    ) -> None:
        self._mutations = mutations
        self._host = host
        self._wall_ms = wall_ms
        self._access = access
        self._now_ms = now_ms
        self._fill_in_configs = fill_in_configs
        self._ask_quorum = ask_quorum
        self._quorum = quorum

    @property
    def is_active(self) -> bool:
        """Whether the active controller is in this process."""
        return self._host.controller is not None

    @property
    def image(self) -> ClusterImage | None:
        """What the active controller of this process decides by; None if it is another's."""
        controller = self._host.controller
        return None if controller is None else controller.image

    def serve(
        self,
        request: Message,
        on_reply: OnReply,
        api_version: int = NEWEST,
        client: RequestContext | None = None,
    ) -> None:
        """Decide over `request`; call back when that is committed, perhaps at once.

        `api_version` is the one the response will have. Only what `client` may ask for is decided;
        None is this node itself. The error is NOT_CONTROLLER if another node is the active
        controller. It is REQUEST_TIMED_OUT, and nothing happens, if a client gave the request no
        time. Raises KeyError for a request that no controller serves.
        """
        charge: Charge = FREE
        mutations = self._mutations()
        if client is not None and mutations:
            charged = self._charge_of(request, client, mutations)
            if charged is not None:
                charge, on_reply = charged, _throttling(charged, on_reply)
        is_open = self._access.authorizer is None
        if is_open and name_of(request) in OF_ACLS:
            # What clusters without an authorizer are hardly asked for, a start can do without.
            from fencepost.broker.cluster.acl_requests import without_authorizer

            on_reply(ErrorCode.NONE, without_authorizer(request))
        elif client is not None and not is_open:
            self._serve_permitted(request, on_reply, api_version, client, charge)
        else:
            self._decide(request, on_reply, api_version, client, charge)

    def _charge_of(
        self, request: Message, client: RequestContext, mutations: MutationQuota
    ) -> MutationCharge | None:
        """What charges the client of the request; None if it is none that clients pay for."""
        from fencepost.broker.cluster.mutation_charges import STRICT_FROM, MutationCharge

        strict_from = STRICT_FROM.get(name_of(request))
        if strict_from is None:
            return None
        is_strict = client.api_version >= strict_from
        return MutationCharge(mutations, client, self._now_ms, is_strict=is_strict)

    def _serve_permitted(
        self,
        request: Message,
        on_reply: OnReply,
        api_version: int,
        client: Client,
        charge: Charge,
    ) -> None:
        # What a node without an authorizer never needs, its start can do without.
        from fencepost.broker.cluster.controller_access import permitted_part, without_configs

        controller = self._host.controller
        if controller is None:
            on_reply(ErrorCode.NOT_CONTROLLER, None)
            return
        permitted = permitted_part(self._access, client, controller.image, request)
        if isinstance(permitted, ErrorCode):
            on_reply(permitted, None)
            return
        if permitted.is_empty:
            assert request.api_key is not None
            on_reply(ErrorCode.NONE, permitted.complete(response_class(request.api_key)()))
            return

        def on_decided(error: ErrorCode, response: Any) -> None:
            if response is not None:
                if name_of(request) == "CreateTopics":
                    without_configs(self._access, client, response)
                permitted.complete(response)
            on_reply(error, response)

        self._decide(permitted.request, on_decided, api_version, client, charge)

    def _decide(
        self,
        request: Message,
        on_reply: OnReply,
        api_version: int,
        client: Client | None,
        charge: Charge,
    ) -> None:
        if client_timeout_ms(request) <= 0:
            on_reply(ErrorCode.REQUEST_TIMED_OUT, None)
            return
        name = name_of(request)
        if name in OF_THE_QUORUM:
            self._ask_quorum(request, lambda response: on_reply(ErrorCode.NONE, response))
            return
        if isinstance(request, UpdateFeaturesRequest):
            FeatureUpdate(self._host, self._quorum, request, on_reply, api_version).begin()
            return
        decide_for = _DECISIONS_FOR_CLIENTS.get(name)
        if decide_for is not None:
            assert client is not None, "tokens belong to clients"
            requester, wall_ms = client.principal, self._wall_ms()
            if name == "CreateDelegationToken" and api_version < FIRST_CREATE_TOKEN_WITH_REQUESTER:
                on_reply = _without_requester(on_reply)
            self._host.submit(lambda c: decide_for(c, request, requester, wall_ms), on_reply)
            return
        if name == "CreateTopics" and api_version >= FIRST_CREATE_TOPICS_WITH_CONFIGS:
            on_reply = self._with_configs(request, on_reply)
        decide = self._decision_for(request, charge)
        self._host.submit(
            lambda controller: decide(controller, request, self._now_ms()),
            on_reply,
            MAX_BATCH_BYTES if name in OF_USERS else None,
        )

    def _decision_for(self, request: Message, charge: Charge) -> DecideOn:
        of_node = NODE_DECISIONS.get(type(request))
        if of_node is not None:
            return of_node
        name = name_of(request)
        charged = _CHARGED.get(name)
        return _DECISIONS[name] if charged is None else charged(charge)

    def _with_configs(self, request: Any, on_reply: OnReply) -> OnReply:
        def filled(error: ErrorCode, response: CreateTopicsResponse | None) -> None:
            if response is not None:
                self._fill_in_configs(request, response)
            on_reply(error, response)

        return filled


def _without_requester(on_reply: OnReply) -> OnReply:
    """An older answer to CreateDelegationToken does not say who has asked."""

    def answered(error: ErrorCode, response: CreateDelegationTokenResponse | None) -> None:
        if response is not None:
            response.token_requester_principal_type = ""
            response.token_requester_principal_name = ""
        on_reply(error, response)

    return answered


def _throttling(charge: MutationCharge, on_reply: OnReply) -> OnReply:
    def replied(error: ErrorCode, response: Any) -> None:
        charge.throttle()
        on_reply(error, response)

    return replied


class FeatureUpdate:
    """One UpdateFeatures request: checked, then `kraft.version`, then the records of the others.

    The quorum keeps `kraft.version` in records of its own, so it cannot change in one step with the
    rest. It goes first: it is the one that can still be refused, by voters that are not known well
    enough, and then nothing at all has changed.
    """

    def __init__(
        self,
        host: Host,
        quorum: Quorum,
        request: UpdateFeaturesRequest,
        on_reply: OnReply,
        api_version: int,
    ) -> None:
        self._host = host
        self._quorum = quorum
        self._request = request
        self._on_reply = on_reply
        self._api_version = api_version

    def begin(self) -> None:
        """Decide, with whatever it takes; `on_reply` when all is committed."""
        names = [update.feature for update in self._request.feature_updates]
        if KRAFT_VERSION_FEATURE not in names:
            self._decide(self._request, self._finish)
            return
        check = UpdateFeaturesRequest(
            feature_updates=self._request.feature_updates, validate_only=True
        )
        self._decide(check, self._checked)

    def _decide(self, request: UpdateFeaturesRequest, on_reply: OnReply) -> None:
        self._host.submit(
            lambda controller: controller.decide_update_features(
                request, self._api_version, self._quorum.voters, self._quorum.kraft_version
            ),
            on_reply,
        )

    def _checked(self, error: ErrorCode, reply: Any) -> None:
        if error is not ErrorCode.NONE or reply[0].error_code or reply[1] is None:
            self._finish(error, reply)
            return
        response, level = reply

        def on_outcome(outcome: AppendOutcome) -> None:
            self._upgraded(outcome, response, level)

        self._host.upgrade_kraft_version(level, self._request.validate_only, on_outcome)

    def _upgraded(
        self, outcome: AppendOutcome, response: UpdateFeaturesResponse, level: int
    ) -> None:
        if outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._on_reply(ErrorCode.NOT_CONTROLLER, None)
            return
        others = [
            one for one in self._request.feature_updates if one.feature != KRAFT_VERSION_FEATURE
        ]
        if outcome.error is not ErrorCode.NONE:
            self._on_reply(
                ErrorCode.NONE,
                UpdateFeaturesResponse(
                    error_code=outcome.error,
                    error_message=f"The quorum cannot run at kraft.version {level} now:"
                    f" {_WHY_NOT.get(outcome.error, error_name(outcome.error))}.",
                ),
            )
        elif self._request.validate_only or not others:
            self._on_reply(ErrorCode.NONE, response)
        else:
            rest = UpdateFeaturesRequest(feature_updates=others)
            self._decide(
                rest,
                lambda error, reply: self._finish(
                    error, reply if reply is None or reply[0].error_code else (response, None)
                ),
            )

    def _finish(self, error: ErrorCode, reply: Any) -> None:
        self._on_reply(error, None if reply is None else reply[0])


_DECISIONS: Final[Mapping[str, DecideOn]] = {
    "UnregisterBroker": lambda c, request, _: c.decide_unregister(request),
    "UnregisterController": lambda c, request, _: c.decide_unregister_controller(request),
    "CreateAcls": lambda c, request, _: c.security.decide_create_acls(request, new_ids()),
    "DeleteAcls": lambda c, request, _: c.security.decide_delete_acls(request),
    "AlterPartitionReassignments": lambda c, request, _: c.decide_alter_partition_reassignments(
        request
    ),
    "ListPartitionReassignments": lambda c, request, _: c.decide_list_partition_reassignments(
        request
    ),
    "AlterUserScramCredentials": lambda c, request, _: c.security.decide_alter_scram_credentials(
        request
    ),
    "ElectLeaders": lambda c, request, _: c.decide_elect_leaders(request),
    "AlterClientQuotas": lambda c, request, _: c.security.decide_alter_client_quotas(request),
    "AlterConfigs": lambda c, request, _: c.decide_alter_configs(request),
    "IncrementalAlterConfigs": lambda c, request, _: c.decide_incremental_alter_configs(request),
}
"""Decisions of the request alone, by the names of the APIs."""

_DECISIONS_FOR_CLIENTS: Final[
    Mapping[str, Callable[[Controller, Any, Principal, int], Decision]]
] = {
    "CreateDelegationToken": lambda c, request, requester, wall_ms: c.security.decide_create_token(
        request, requester, new_token_id(), wall_ms
    ),
    "RenewDelegationToken": lambda c, *rest: c.security.decide_renew_token(*rest),
    "ExpireDelegationToken": lambda c, *rest: c.security.decide_expire_token(*rest),
}
"""Decisions that depend on who the client is, and on the time of the world."""
_CHARGED: Final[Mapping[str, Callable[[Charge], DecideOn]]] = {
    "CreateTopics": lambda charge: (
        lambda c, request, _: c.decide_create_topics(request, new_ids(), placement_start(), charge)
    ),
    "DeleteTopics": lambda charge: lambda c, request, _: c.decide_delete_topics(request, charge),
    "CreatePartitions": lambda charge: (
        lambda c, request, _: c.decide_create_partitions(request, placement_start(), charge)
    ),
}
"""Those that clients are charged for, with what charges them."""

OF_ACLS: Final = frozenset({"CreateAcls", "DeleteAcls"})
"""Those that are refused where there is no authorizer."""

OF_USERS: Final = frozenset(
    {
        "CreateAcls",
        "CreateTopics",
        "DeleteAcls",
        "DeleteTopics",
        "CreatePartitions",
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "ElectLeaders",
        "AlterClientQuotas",
        "AlterConfigs",
        "IncrementalAlterConfigs",
    }
)
"""Those that may ask for as much as they like, and get no more than MAX_BATCH_BYTES."""

OF_THE_QUORUM: Final = frozenset({"DescribeQuorum", "AddRaftVoter", "RemoveRaftVoter"})
"""Those that the quorum machine answers by itself."""
