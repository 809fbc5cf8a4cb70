"""Which rule decides, in words."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.client.acls import AclBinding
from fencepost.machines.authorizer.decision import Policy
from fencepost.machines.image.acls import AclOperation, Pattern, PermissionType, ResourceType
from fencepost.views import acl_explanation
from fencepost.views.acl_explanation import AclExplanation, KnownPolicy, explain, reading_policy

ORDERS = (ResourceType.TOPIC, "orders")
READS = AclBinding(ResourceType.TOPIC, "ord", "User:ada", AclOperation.READ, Pattern.PREFIXED)
DENIED = AclBinding(
    *ORDERS, "User:*", AclOperation.ALL, host="10.0.0.9", permission=PermissionType.DENY
)
INSIDE = AclBinding(*ORDERS, "User:bob", AclOperation.WRITE, host="10.0.0.0/8")


def asked(
    principal: str, operation: AclOperation, host: str | None = None, policy: Policy | None = None
) -> AclExplanation:
    rules = [READS, DENIED, INSIDE]
    return explain(rules, principal, operation, ORDERS, host=host, policy=policy)


def test_the_rule_that_allows_is_named():
    found = asked("User:ada", AclOperation.DESCRIBE)
    assert found.allowed and found.rule == "MatchingAcl"
    assert found.sentence == (
        "User:ada may DESCRIBE topic orders: a rule says that User:ada may READ each topic whose"
        " name begins with ord"
    )


def test_rules_for_other_addresses_are_told():
    found = asked("User:bob", AclOperation.WRITE)
    assert not found.allowed and found.sentence.endswith("no rule allows it")
    assert [one.host for one in found.other_hosts] == ["10.0.0.9", "10.0.0.0/8"]
    inside = asked("User:bob", AclOperation.WRITE, host="10.1.2.3")
    assert inside.allowed and inside.other_hosts == []
    assert inside.sentence.startswith("User:bob may WRITE topic orders from 10.1.2.3: ")


def test_a_rule_that_denies_decides():
    found = asked("User:ada", AclOperation.READ, host="10.0.0.9")
    assert not found.allowed and found.acl is not None and found.acl.permission == "DENY"


@pytest.mark.parametrize(
    ("policy", "rule", "words"),
    [
        (Policy(frozenset({"User:root"})), "SuperUser", "super.users names it"),
        (Policy(), "DefaultDeny", "no rule allows it"),
        (Policy(allows_if_no_acl=True), "DefaultDeny", "no rule allows it"),
    ],
)
def test_what_is_configured_decides(policy: Policy, rule: str, words: str):
    found = asked("User:root", AclOperation.READ, policy=policy)
    assert (found.rule, found.allowed) == (rule, rule == "SuperUser")
    assert found.sentence.endswith(words)


def test_what_no_rule_is_about_may_be_open():
    found = explain(
        [READS],
        "User:eve",
        AclOperation.READ,
        (ResourceType.GROUP, "billing"),
        policy=Policy(allows_if_no_acl=True),
    )
    assert found.allowed and "allow.everyone.if.no.acl.found is true" in found.sentence


def answering(value: Any) -> Callable[..., Any]:
    """A conversation that is over at once."""

    def conversation(*_: Any) -> Any:
        yield from ()
        return value

    return conversation


@pytest.mark.parametrize(
    ("configs", "known"),
    [
        (
            {"super.users": "User:a; User:b;", "allow.everyone.if.no.acl.found": "True"},
            KnownPolicy(Policy(frozenset({"User:a", "User:b"}), True), None),
        ),
        (
            {"super.users": "", "allow.everyone.if.no.acl.found": "false"},
            KnownPolicy(Policy(), None),
        ),
        (
            {"super.users": None, "allow.everyone.if.no.acl.found": "true"},
            KnownPolicy(Policy(frozenset(), True), "the broker does not show super.users"),
        ),
    ],
)
def test_what_a_brokers_configs_say_of_its_authorizer_counts(
    configs: dict[str, str | None], known: KnownPolicy, monkeypatch: pytest.MonkeyPatch
):
    cluster = SimpleNamespace(brokers=[SimpleNamespace(node_id=1)])
    entries = [SimpleNamespace(name=name, value=value) for name, value in configs.items()]
    monkeypatch.setattr(acl_explanation, "describing_cluster", answering(cluster))
    monkeypatch.setattr(acl_explanation, "describing_configs", answering(entries))
    asking: Any = reading_policy(SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(StopIteration) as over:
        next(asking)
    assert over.value.value == known
