"""CreateAcls (key 30): add rules to the access control lists.

Handled by the controller; a broker forwards it. Every rule succeeds or fails alone; a rule that is
there already succeeds.

KIP-140. v1 adds pattern types (KIP-290) and throttles after the answer (KIP-219), v2 is flexible
(KIP-482), v3 knows the resource type user (KIP-373); fields are those of v1. Since 4.0 brokers read
v1 and up (KIP-896).

The caller must be allowed to alter the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, String


class AclCreation(Struct):
    """A rule to add.

    Numbers meant for filters spoil the whole request: Kafka closes the connection over a 0, for
    unknown, and answers error -1 to every rule over a 1, for any, or pattern type 2.
    """

    resource_type: Int8 = field(
        doc="2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user (v3+).",
    )
    resource_name: String = field(
        doc=(
            "Name, or start of the names for a prefixed pattern; a literal `*` is every name. "
            "`kafka-cluster` for the cluster; empty is refused."
        ),
    )
    resource_pattern_type: Int8 = field(
        "1+",
        default=3,
        doc="3 literal, 4 prefixed; v0 has no prefixed ones.",
    )
    principal: String = field(
        doc="Whom it is about, as `User:name`; `User:*` is all users.",
    )
    host: String = field(doc="Address the principal connects from, no host name; `*` is any.")
    operation: Int8 = field(
        doc=(
            "2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 "
            "describe configs, 11 alter configs, 12 idempotent write, 13 create tokens, 14 "
            "describe tokens, 15 two-phase commit."
        ),
    )
    permission_type: Int8 = field(doc="2 deny, 3 allow; a deny wins over any allow.")


class CreateAclsRequest(Request["CreateAclsResponse"], api_key=30, versions="0-3", flexible="2+"):
    """Adds rules to the access control lists; any broker forwards it to the controller."""

    creations: list[AclCreation] = field(doc="The rules.")


class AclCreationResult(Struct):
    """What became of one rule."""

    error_code: Int16 = field(
        doc=(
            "0, also when the rule was there; -1 when some rule of the request is about any, 31 "
            "when the caller may not do this, 42 for a name or number that cannot be, 54 when "
            "there is no authorizer."
        ),
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )


class CreateAclsResponse(Message, api_key=30, kind="response", versions="0-3", flexible="2+"):
    """What became of the rules; each is added or refused for itself."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    results: list[AclCreationResult] = field(
        doc="One entry per rule, in the order of the request; nothing else says which is which.",
    )
