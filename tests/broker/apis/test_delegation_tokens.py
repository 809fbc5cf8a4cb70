"""Delegation tokens as a client of a broker, or of a controller, asks for them."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.machines.session import ANONYMOUS, Principal, SecurityProtocol
from fencepost.runtime.requests.permissions import (
    CREATE_TOKENS,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_TOKENS,
    Permission,
)
from fencepost.wire.api import response_class
from fencepost.wire.api.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from fencepost.wire.api.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from fencepost.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from fencepost.wire.frame import decode_response
from fencepost.wire.message import Message

from .harness import WALL_MS, Caller, StillNode, register, to_its_end

register("delegation_tokens")

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = SecurityProtocol
ADA, BOB, EVE = (Principal("User", name) for name in ("ada", "bob", "eve"))
REQUESTS: list[Message] = [
    CreateDelegationTokenRequest(max_lifetime_ms=-1),
    RenewDelegationTokenRequest(hmac=b"x"),
    ExpireDelegationTokenRequest(hmac=b"x"),
    DescribeDelegationTokenRequest(),
]


class Denying:
    """An authorizer that refuses the permissions on these names."""

    def __init__(self, *refused: tuple[Permission, str]) -> None:
        self.refused = set(refused)
        self.asked: list[tuple[Permission, str]] = []

    def allows(self, client: Any, permission: Permission, name: str, *, quiet: bool) -> bool:
        self.asked.append((permission, name))
        return (permission, name) not in self.refused

    def allows_any(self, client: Any, permission: Permission) -> bool:
        raise AssertionError("nothing of tokens is about some resource")


@pytest.fixture
def node() -> StillNode:
    return StillNode(BrokerConfig.load(None, {"delegation.token.secret.key": "hush"}))


def ask(
    node: StillNode,
    request: Message,
    by: Principal = ADA,
    protocol: SecurityProtocol = SASL_PLAINTEXT,
    listener: str = "PLAINTEXT",
) -> Any:
    caller = Caller(listener, node.parts)
    caller.principal, caller.security_protocol = by, protocol
    assert request.api_key is not None
    route = caller.routes[request.api_key]
    context = PendingRequest(caller, route, route.max_version, 7, "test")
    answer = to_its_end(route.handler(context, request))
    if answer is None:
        answer = decode_response(
            response_class(request.api_key),
            route.max_version,
            b"".join(context.take_parts())[4:],
        )[1]
    return answer


def create(node: StillNode, by: Principal = ADA, owner: str | None = None, **more: Any) -> Any:
    named = {} if owner is None else {"owner_principal_type": "User", "owner_principal_name": owner}
    return ask(node, CreateDelegationTokenRequest(max_lifetime_ms=-1, **named, **more), by)


def shown(node: StillNode, by: Principal, owners: list[str] | None = None) -> set[str]:
    request = DescribeDelegationTokenRequest(owners=None)
    if owners is not None:
        request.owners = [
            DescribeDelegationTokenOwner(principal_type="User", principal_name=name)
            for name in owners
        ]
    answer = ask(node, request, by)
    assert answer.error_code == 0
    return {one.token_id for one in answer.tokens}


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
@pytest.mark.parametrize(
    ("principal", "protocol", "allowed"),
    [
        (ANONYMOUS, PLAINTEXT, False),
        (ADA, PLAINTEXT, False),
        (ANONYMOUS, SSL, False),
        (ADA, SSL, True),
        (ADA, SASL_PLAINTEXT, True),
        (ADA, SASL_SSL, True),
        (Principal("User", "ada", token_authenticated=True), SASL_SSL, False),
        (Principal("User", "ada", token_authenticated=True), SSL, False),
    ],
)
def test_only_clients_that_have_logged_in_without_a_token_ask_for_tokens(
    node: StillNode,
    request_: Message,
    listener: str,
    principal: Principal,
    protocol: SecurityProtocol,
    allowed: bool,
) -> None:
    answer = ask(node, request_, principal, protocol, listener)
    assert (answer.error_code == 64) is not allowed
    assert bool(node.image.tokens) is (allowed and request_.api_key == 38)


def test_another_owner_needs_a_permission(node: StillNode) -> None:
    node.access.authorizer = authorizer = Denying((CREATE_TOKENS, "User:bob"))
    assert create(node).error_code == create(node, owner="ada").error_code == 0
    assert not authorizer.asked, "a client may always create tokens of its own"
    refused = create(node, owner="bob")
    assert (refused.error_code, refused.principal_name) == (65, "bob")
    assert (refused.token_requester_principal_name, refused.max_timestamp_ms) == ("ada", -1)
    group = [CreatableRenewers(principal_type="Group", principal_name="g")]
    assert create(node, owner="bob", renewers=group).error_code == 65, "before the renewers"
    assert create(node, owner="eve", renewers=group).error_code == 67
    assert create(node, owner="eve").error_code == 0
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    assert ask(node, request, listener="CONTROLLER").error_code == 65


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_an_owner_of_the_same_name_and_another_type_is_another_owner(
    node: StillNode, listener: str
) -> None:
    node.access.authorizer = Denying((CREATE_TOKENS, "Group:ada"))
    request = CreateDelegationTokenRequest(owner_principal_type="Group", owner_principal_name="ada")
    assert ask(node, request, listener=listener).error_code == 65


def test_a_client_sees_its_tokens_and_those_that_it_may_describe(node: StillNode) -> None:
    bob = [CreatableRenewers(principal_type="User", principal_name="bob")]
    first, second = create(node, ADA, renewers=bob), create(node, EVE)
    both = {first.token_id, second.token_id}
    assert shown(node, ADA) == both, "without an authorizer"
    node.access.authorizer = Denying(
        *((DESCRIBE_DELEGATION_TOKEN, token_id) for token_id in both),
        *((DESCRIBE_TOKENS, f"User:{name}") for name in ("ada", "eve")),
    )
    assert shown(node, ADA) == shown(node, BOB) == {first.token_id}
    assert shown(node, Principal("Group", "ada")) == set()
    node.access.authorizer.refused.discard((DESCRIBE_DELEGATION_TOKEN, second.token_id))
    assert shown(node, BOB) == both
    node.access.authorizer.refused.add((DESCRIBE_DELEGATION_TOKEN, second.token_id))
    node.access.authorizer.refused.discard((DESCRIBE_TOKENS, "User:eve"))
    assert shown(node, BOB) == both
    assert shown(node, BOB, ["bob"]) == {first.token_id}, "that bob owns or renews"
    assert shown(node, BOB, ["eve", "zoe"]) == {second.token_id}
    assert shown(node, BOB, []) == set()


def test_a_description_is_whole(node: StillNode) -> None:
    bob = [CreatableRenewers(principal_type="User", principal_name="b:b")]
    made = create(node, ADA, "eve", renewers=bob)
    (token,) = ask(node, DescribeDelegationTokenRequest(owners=None), EVE).tokens
    assert (token.token_id, token.hmac) == (made.token_id, made.hmac)
    assert (token.principal_name, token.token_requester_principal_name) == ("eve", "ada")
    assert [(one.principal_type, one.principal_name) for one in token.renewers] == [("User", "b:b")]
    assert (token.issue_timestamp, token.max_timestamp) == (WALL_MS, made.max_timestamp_ms)


def test_tokens_are_off_without_a_secret() -> None:
    for config in ({}, {"delegation.token.secret.key": ""}):
        node = StillNode(BrokerConfig.load(None, config))
        errors = [ask(node, request).error_code for request in REQUESTS]
        assert errors == [61] * 4
