"""Clients that may do what ACLs say: permissions change under way, and brokers go by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fencepost.machines.controller import Controller, Decision
from fencepost.machines.image.acls import Acl, AclOperation
from fencepost.machines.session import Principal
from fencepost.sim.checks.i55_permissions import Permissions
from fencepost.sim.options import draw_options
from fencepost.sim.permission_oracle import Question, is_allowed
from fencepost.sim.run import Plan, Run
from fencepost.sim.tape import Tape
from fencepost.wire.api import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from fencepost.wire.errors import ErrorCode

from .permission_histories import ADA, NONE, ONE, acl, tell
from .test_brokers import SMALL

EVERYONE = "User:*"
BOB = "User:bob"


def test_what_guests_may_do_changes_while_a_world_runs() -> None:
    run = Run(Tape(1), Plan(base=replace(SMALL, guests=3, safety_ms=8_000), draws_options=False))
    run.go()
    guests = run.world.clients.guests
    assert len(guests) == 3
    assert sum(guest.allowed for guest in guests) > 5
    assert sum(guest.refused for guest in guests) > 5
    promised = run.world.administrator.promised
    assert {type(what) for what in promised} == {Acl, str}
    assert set(promised.values()) == {True, False}
    assert {broker.authorizer is None for broker in run.world.brokers.values()} == {False}


def test_brokers_without_guests_have_no_authorizer() -> None:
    run = Run(Tape(1), Plan(base=replace(SMALL, warm_up_ms=1_500), draws_options=False))
    for node in run.world.nodes.values():
        node.start()
    run.world.run_until(1_000_000)
    assert {broker.authorizer for broker in run.world.brokers.values()} == {None}


def test_delegation_tokens_are_disabled_in_a_world() -> None:
    """No simulated node has a secret key for them, and each says so as a node without one does."""
    run = Run(Tape(1), Plan(base=replace(SMALL, warm_up_ms=1_500), draws_options=False))
    for node in run.world.nodes.values():
        node.start()
    run.world.run_until(2_000_000)
    ada = Principal("User", "ada")
    create, renew = CreateDelegationTokenRequest(), RenewDelegationTokenRequest(hmac=b"x")
    expire = ExpireDelegationTokenRequest(hmac=b"x")
    decisions: list[Callable[[Controller], Decision]] = [
        lambda controller: controller.security.decide_create_token(create, ada, "id", 1),
        lambda controller: controller.security.decide_renew_token(renew, ada, 1),
        lambda controller: controller.security.decide_expire_token(expire, ada, 1),
    ]
    asked = [
        run.world.workload.submit(node, "token", decide)
        for node in run.world.nodes.values()
        if node not in run.world.brokers.values()
        for decide in decisions
    ]
    run.world.run_until(4_000_000)
    replies = [one.reply.error_code for one in asked if one.error is ErrorCode.NONE]
    assert replies == [ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED] * 3, "one of them leads"


def test_guests_are_drawn_in_some_worlds_with_brokers() -> None:
    drawn = [draw_options(Tape(seed)) for seed in range(300)]
    assert {options.guests for options in drawn if not options.brokers} == {0}
    having = [options for options in drawn if options.guests]
    assert 12 < len(having) < 40, "about every fourth world of those with brokers"
    assert {options.guests for options in having} == {1, 2, 3}
    assert all(len(options.guest_ids) == options.guests for options in having)


@pytest.mark.parametrize(
    ("acls", "may"),
    [
        ([], False),
        ([acl()], True),
        ([acl(AclOperation.ALL)], True),
        ([acl(AclOperation.WRITE)], False),
        ([acl(name="t")], False),
        ([acl(name="t", prefixed=True)], True),
        ([acl(name="*")], True),
        ([acl(name="*", prefixed=True)], False),
        ([acl(principal=EVERYONE)], True),
        ([acl(principal=BOB)], False),
        ([acl(), acl(denies=True)], False),
        ([acl(), acl(AclOperation.ALL, "*", principal=EVERYONE, denies=True)], False),
        ([acl(), acl(AclOperation.DESCRIBE, denies=True)], True),
        ([acl(), acl(principal=BOB, denies=True)], True),
    ],
)
def test_what_acls_say_of_reading(acls: list[Acl], may: bool) -> None:
    assert is_allowed(Question(ADA, "host", AclOperation.READ, "t1"), acls) is may


def test_who_may_read_may_describe_and_not_the_other_way() -> None:
    describe = Question(ADA, "host", AclOperation.DESCRIBE, "t1")
    assert is_allowed(describe, [acl()])
    assert is_allowed(describe, [acl(AclOperation.DESCRIBE)])
    assert is_allowed(describe, [acl(), acl(denies=True)]) is True, "a DENY implies nothing"
    assert not is_allowed(describe, [acl(), acl(AclOperation.DESCRIBE, denies=True)])


def test_an_answer_may_go_by_the_acls_when_its_request_came() -> None:
    check = Permissions()
    tell(check, True, ONE, NONE)
    tell(check, False, ONE, NONE)
    tell(check, False, ONE, NONE, may_be_old=False)
