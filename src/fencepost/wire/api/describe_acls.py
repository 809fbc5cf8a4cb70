"""DescribeAcls (key 29): the access control lists that match a filter, which any broker knows.

KIP-140. v1 adds pattern types (KIP-290) and throttles after the answer (KIP-219), v2 is flexible
(KIP-482), v3 knows the resource type user (KIP-373); fields are those of v1. KRaft controllers
answer too (KIP-919). Since 4.0 brokers read v1 and up (KIP-896).

The caller must be allowed to describe the cluster. For everything there is, take 1 and null.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, String


class DescribeAclsRequest(
    Request["DescribeAclsResponse"], api_key=29, versions="0-3", flexible="2+"
):
    """Asks for the rules in the access control lists that match every field.

    Every field must be set: over a number left at 0, for unknown, Kafka closes the connection, and
    an empty text matches nothing, where null matches anything.
    """

    resource_type_filter: Int8 = field(
        doc=(
            "1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user "
            "(v3+)."
        ),
    )
    resource_name_filter: String | None = field(
        doc="Name of the resource, used as `pattern_type_filter` says; null for any.",
    )
    pattern_type_filter: Int8 = field(
        "1+",
        default=3,
        doc=(
            "1 any; 2 all that apply to a resource of that name: literal, prefixed and `*`; 3 "
            "literal with that name; 4 prefixed with that name. v0 has literal ones only."
        ),
    )
    principal_filter: String | None = field(
        doc="Principal as `User:name`, compared letter by letter; null for any.",
    )
    host_filter: String | None = field(
        doc="Host, compared letter by letter, so `*` is only the rule for all hosts; null for any.",
    )
    operation: Int8 = field(
        doc=(
            "1 any, 2 all (the rule for all, not every rule), 3 read, 4 write, 5 create, 6 delete, "
            "7 alter, 8 describe, 9 cluster action, 10 describe configs, 11 alter configs, 12 "
            "idempotent write, 13 create tokens, 14 describe tokens, 15 two-phase commit."
        ),
    )
    permission_type: Int8 = field(doc="1 any, 2 deny, 3 allow.")


class AclDescription(Struct):
    """A rule for a resource."""

    principal: String = field(doc="Whom it is about, as `User:name`; `User:*` is all users.")
    host: String = field(doc="Address the principal connects from; `*` is any.")
    operation: Int8 = field(
        doc=(
            "2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 "
            "describe configs, 11 alter configs, 12 idempotent write, 13 create tokens, 14 "
            "describe tokens, 15 two-phase commit."
        ),
    )
    permission_type: Int8 = field(doc="2 deny, 3 allow; a deny wins over any allow.")


class DescribeAclsResource(Struct):
    """The rules of one pattern of resources."""

    resource_type: Int8 = field(
        doc="2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user (v3+).",
    )
    resource_name: String = field(
        doc="Name, or start of the names for a prefixed pattern; a literal `*` is every name.",
    )
    pattern_type: Int8 = field(
        "1+",
        default=3,
        doc="3 literal, 4 prefixed; v0 has no prefixed ones.",
    )
    acls: list[AclDescription] = field(doc="The rules.")


class DescribeAclsResponse(Message, api_key=29, kind="response", versions="0-3", flexible="2+"):
    """The rules that match, by the pattern of resources they are for."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="0; 31 when the caller may not ask, 54 when the broker has no authorizer.",
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    resources: list[DescribeAclsResource] = field(
        doc="One entry per pattern with a rule that matches; empty when none does.",
    )
