"""Access control lists as they are in the metadata log: values with Kafka's codes.

What they mean is decided in `machines.authorizer`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from msgspec import Struct

from fencepost.wire.records.metadata import AccessControlEntryRecord
from fencepost.wire.types import Uuid

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
WILDCARD: Final = "*"
"""As a literal resource name: all resources of the type. As a host: every client's."""


class AuthorizerNotReadyError(Exception):
    """The ACLs are not loaded yet, and the client is no super user."""


class Pattern(IntEnum):
    """How an ACL, or a filter of ACLs, names resources (`PatternType`)."""

    UNKNOWN = 0
    ANY = 1
    """Of a filter alone: ACLs of whatever pattern."""
    MATCH = 2
    """Of a filter alone: all ACLs that count for the resource of that name."""
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """What an ACL does (`AclPermissionType`)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclOperation(IntEnum):
    """What an ACL is about (`AclOperation`)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """The type of the resources that an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


UNKNOWN: Final = "UNKNOWN"
"""The name of a code that means nothing."""


def is_known(codes: type[IntEnum], code: int) -> bool:
    """Whether the code means something."""
    return code > 0 and code in codes._value2member_map_


def name_of(codes: type[IntEnum], code: int) -> str:
    """The code's name in Kafka's tools and logs."""
    return codes(code).name if is_known(codes, code) else UNKNOWN


class Acl(Struct, frozen=True, order=True):
    """One access control list entry (a "binding"): who may, or may not, do what to which resources.

    The order is that in which Kafka looks at the ACLs of one resource name.
    """

    resource_type: int
    resource_name: str
    pattern_type: int
    operation: int
    principal: str
    """`Type:name`; `User:*` is every principal."""
    host: str
    """An address as Java writes it, a range (`10.0.0.0/8`), or `*`."""
    permission: int

    @classmethod
    def from_record(cls, record: AccessControlEntryRecord) -> Acl:
        """The ACL of a record."""
        return cls(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.operation,
            record.principal,
            record.host,
            record.permission_type,
        )

    def to_record(self, acl_id: Uuid) -> AccessControlEntryRecord:
        """The record that adds the ACL under that id."""
        return AccessControlEntryRecord(
            id=acl_id,
            resource_type=self.resource_type,
            resource_name=self.resource_name,
            pattern_type=self.pattern_type,
            principal=self.principal,
            host=self.host,
            operation=self.operation,
            permission_type=self.permission,
        )

    def __str__(self) -> str:
        """As in Kafka's audit line."""
        return (
            f"StandardAcl(resourceType={name_of(ResourceType, self.resource_type)},"
            f" resourceName={self.resource_name},"
            f" patternType={name_of(Pattern, self.pattern_type)},"
            f" principal={self.principal}, host={self.host},"
            f" operation={name_of(AclOperation, self.operation)},"
            f" permissionType={name_of(PermissionType, self.permission)})"
        )
