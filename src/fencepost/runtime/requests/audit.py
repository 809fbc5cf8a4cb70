"""What the authorizer decided, recorded in a sink: the material of an audit log.

An event carries what Kafka's audit line does. Checks that only choose what an answer contains (a
topic left out of a listing, `authorized_operations`) are no events.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol


class Tally:
    """Counts what is more of the same, in place of events, as long as it is not over."""

    __slots__ = ("count", "is_over")

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self.is_over = False


UNTOLD: Final = Tally()
"""Of what is told nowhere: never over, and its count says nothing."""


class AuditEvent(NamedTuple):
    """One decision: what a client wanted to do to a resource, and whether it may."""

    time_ms: int
    """The wall clock, in milliseconds since 1970."""
    principal: str
    """`Type:name` of the client; for a forwarded request that of the client, not the broker's."""
    host: str
    """The client's address, without port."""
    listener: str
    """The name of the listener that the request came in by."""
    api: str
    """The request's API by its name in Kafka: `Produce`."""
    operation: str
    """The operation by its name in Kafka: `READ`."""
    resource_type: str
    """The type by its name in Kafka's tools: `TOPIC`."""
    resource_name: str
    """The resource's name; `kafka-cluster` for the cluster."""
    allowed: bool
    """Whether the client may do it."""
    rule: str
    """Why, as Kafka's audit line says it: `DefaultDeny`, `SuperUser`, `MatchingAcl(acl=...)`."""


class LoginEvent(NamedTuple):
    """A login that has ended, well or not."""

    time_ms: int
    """The wall clock, in milliseconds since 1970."""
    principal: str | None
    """`Type:name`; None where the login failed, for a name that a stranger gives shows nothing."""
    host: str
    listener: str
    mechanism: str
    """Of SASL; `TLS` for a client's certificate."""
    succeeded: bool
    reason: str = ""
    """Why it failed, as the broker's own log says it: without a password or a token."""


class AuditSink(Protocol):
    """Where events go. It is called while a request is decided: it must not block or raise."""

    def record(self, event: AuditEvent) -> Tally | None:
        """Take one decision. If further ones that differ in no more than time and rule need only be
        counted: where."""
        ...

    def record_login(self, event: LoginEvent) -> None:
        """Take one login."""
        ...
