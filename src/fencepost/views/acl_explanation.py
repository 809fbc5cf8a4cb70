"""Which ACL decides whether a user may do something: the authorizer's own rules, asked aside.

The ACLs may be those of any cluster, as DescribeAcls tells them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from fencepost.client.acls import AclBinding, AclBindingFilter, describing_acls
from fencepost.client.admin import BROKER_RESOURCE, describing_cluster, describing_configs
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError
from fencepost.machines.authorizer.decision import Asker, Decision, Policy, Why, decide
from fencepost.machines.authorizer.hosts import client_host
from fencepost.machines.authorizer.index import AclIndex
from fencepost.machines.image.acls import (
    WILDCARD,
    Acl,
    AclOperation,
    Pattern,
    PermissionType,
    ResourceType,
)
from fencepost.machines.session import Principal
from fencepost.views.security import AclView
from fencepost.views.view import View
from fencepost.wire.types import Uuid

SUPER_USERS: Final = "super.users"
DEFAULT_ALLOW: Final = "allow.everyone.if.no.acl.found"
POLICY_KEYS: Final = (SUPER_USERS, DEFAULT_ALLOW)
NO_HOST = "an address that no rule names"
"""As a client's address: only rules for every host count."""


class AclExplanation(View, frozen=True):
    """Whether a principal may do something to a resource, and the rule by which that is so."""

    principal: str
    operation: str
    resource_type: str
    name: str
    host: str | None
    """None: any that no rule names."""
    allowed: bool
    rule: str
    """SuperUser, MatchingAcl, DefaultAllow or DefaultDeny, as in Kafka's audit line."""
    acl: AclView | None
    """The one that decides, if one does."""
    other_hosts: list[AclView]
    """What would count for clients at other addresses."""

    @property
    def sentence(self) -> str:
        """The same in words."""
        may = "may" if self.allowed else "may not"
        kind = self.resource_type.lower().replace("_", " ")
        what = "the cluster" if kind == "cluster" else f"{kind} {self.name}"
        place = "" if self.host is None else f" from {self.host}"
        return f"{self.principal} {may} {self.operation} {what}{place}: {self._because}"

    @property
    def _because(self) -> str:
        if self.acl is not None:
            return f"a rule says that {sentence_of(self.acl)}"
        return {
            Why.SUPER_USER.value: "super.users names it",
            Why.DEFAULT_ALLOW.value: "no rule is about the resource, and"
            " allow.everyone.if.no.acl.found is true",
        }.get(self.rule, "no rule allows it")


def sentence_of(view: AclView) -> str:
    """A rule in words."""
    return str(binding_of(view))


def binding_of(view: AclView) -> AclBinding:
    """The rule of a view."""
    return AclBinding(
        ResourceType[view.resource_type],
        view.name,
        view.principal,
        AclOperation[view.operation],
        Pattern[view.pattern],
        view.host,
        PermissionType[view.permission],
    )


def explain(
    bindings: Iterable[AclBinding],
    principal: str,
    operation: AclOperation,
    resource: tuple[ResourceType, str],
    *,
    host: str | None = None,
    policy: Policy | None = None,
) -> AclExplanation:
    """Whether `principal` (`Type:name`) at `host` may do the operation to the resource, by these
    rules; without a host, at an address that no rule names."""
    rules = list(bindings)
    kind, name = resource
    index = AclIndex()
    index.update((Uuid.random(), None, _acl(one)) for one in rules)
    asker = Asker.of(Principal.parse(principal), client_host(host if host is not None else NO_HOST))
    decision = decide(index, policy or Policy(), asker, operation, kind, name)
    return AclExplanation(
        principal,
        operation.name,
        kind.name,
        name,
        host,
        decision.allowed,
        decision.why.value,
        _view(decision),
        [] if host is not None else _for_other_hosts(rules, principal, operation, resource),
    )


class KnownPolicy(NamedTuple):
    """Super users and the default of a cluster's authorizer. `unknown` says why super users could
    not be had, None where they could."""

    policy: Policy
    unknown: str | None


def reading_policy(view: ClusterView[Any]) -> Conversation[KnownPolicy]:
    """What one broker's configs say of its authorizer."""
    try:
        described = yield from describing_cluster(view)
        broker = str(described.brokers[0].node_id)
        entries = yield from describing_configs(view, BROKER_RESOURCE, broker, POLICY_KEYS)
    except BrokerError as error:
        return KnownPolicy(Policy(), str(error))
    configs = {one.name: one.value for one in entries}
    supers = configs.get(SUPER_USERS, "")
    policy = Policy(
        frozenset(one.strip() for one in (supers or "").split(";") if one.strip()),
        (configs.get(DEFAULT_ALLOW) or "").lower() == "true",
    )
    return KnownPolicy(policy, "the broker does not show super.users" if supers is None else None)


def explaining(
    view: ClusterView[Any],
    principal: str,
    operation: AclOperation,
    resource: tuple[ResourceType, str],
    host: str | None = None,
) -> Conversation[tuple[AclExplanation, str | None]]:
    """`explain` by the cluster's own rules and policy; and why super users are not known, if they
    are not. BrokerError, SECURITY_DISABLED where the cluster has no authorizer among others."""
    wanted = AclBindingFilter(*resource, pattern_type=Pattern.MATCH)
    rules = yield from describing_acls(view, wanted)
    known = yield from reading_policy(view)
    found = explain(rules, principal, operation, resource, host=host, policy=known.policy)
    return found, known.unknown


def _for_other_hosts(
    rules: Iterable[AclBinding],
    principal: str,
    operation: AclOperation,
    resource: tuple[ResourceType, str],
) -> list[AclView]:
    """Rules that name hosts and would decide at one of them, by themselves."""
    found = []
    for one in rules:
        if one.host == WILDCARD:
            continue
        alone = one._replace(host=WILDCARD)
        if explain([alone], principal, operation, resource, host=NO_HOST).acl is not None:
            found.append(AclView.of(one))
    return found


def _acl(one: AclBinding) -> Acl:
    return Acl(
        one.resource_type,
        one.name,
        one.pattern_type,
        one.operation,
        one.principal,
        one.host,
        one.permission,
    )


def _view(decision: Decision) -> AclView | None:
    acl = decision.acl
    if acl is None:
        return None
    return AclView(
        acl.principal,
        PermissionType(acl.permission).name,
        AclOperation(acl.operation).name,
        ResourceType(acl.resource_type).name,
        acl.resource_name,
        Pattern(acl.pattern_type).name,
        acl.host,
    )
