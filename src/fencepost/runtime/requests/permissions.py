"""The permissions that requests ask for: operations on resources of a type, with Kafka's codes."""

from __future__ import annotations

from typing import Final, NamedTuple

from fencepost.machines.image.acls import AclOperation, ResourceType
from fencepost.wire.errors import ErrorCode

REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error that a client receives without the permission, by the type of the resource."""

OPERATIONS: Final = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
}
"""The operations that `authorized_operations` of answers can tell of."""

OPERATIONS_NOT_ASKED_FOR: Final = -0x80000000
"""As `authorized_operations`: the client has not asked for them."""


class Permission(NamedTuple):
    """The right to an operation on resources of a type."""

    operation: AclOperation
    resource_type: ResourceType

    @property
    def refusal(self) -> ErrorCode:
        """The error that a client without it receives."""
        return REFUSALS[self.resource_type]


READ_TOPIC: Final = Permission(AclOperation.READ, ResourceType.TOPIC)
WRITE_TOPIC: Final = Permission(AclOperation.WRITE, ResourceType.TOPIC)
CREATE_TOPIC: Final = Permission(AclOperation.CREATE, ResourceType.TOPIC)
DELETE_TOPIC: Final = Permission(AclOperation.DELETE, ResourceType.TOPIC)
ALTER_TOPIC: Final = Permission(AclOperation.ALTER, ResourceType.TOPIC)
DESCRIBE_TOPIC: Final = Permission(AclOperation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_TOPIC_CONFIGS: Final = Permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
ALTER_TOPIC_CONFIGS: Final = Permission(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC)

READ_GROUP: Final = Permission(AclOperation.READ, ResourceType.GROUP)
DELETE_GROUP: Final = Permission(AclOperation.DELETE, ResourceType.GROUP)
DESCRIBE_GROUP: Final = Permission(AclOperation.DESCRIBE, ResourceType.GROUP)
DESCRIBE_GROUP_CONFIGS: Final = Permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP)
ALTER_GROUP_CONFIGS: Final = Permission(AclOperation.ALTER_CONFIGS, ResourceType.GROUP)

CREATE_CLUSTER: Final = Permission(AclOperation.CREATE, ResourceType.CLUSTER)
DELETE_CLUSTER: Final = Permission(AclOperation.DELETE, ResourceType.CLUSTER)
ALTER_CLUSTER: Final = Permission(AclOperation.ALTER, ResourceType.CLUSTER)
DESCRIBE_CLUSTER: Final = Permission(AclOperation.DESCRIBE, ResourceType.CLUSTER)
CLUSTER_ACTION: Final = Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS: Final = Permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
ALTER_CLUSTER_CONFIGS: Final = Permission(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)
IDEMPOTENT_WRITE: Final = Permission(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)

WRITE_TRANSACTIONAL_ID: Final = Permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID: Final = Permission(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
TWO_PHASE_COMMIT: Final = Permission(AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID)

DESCRIBE_DELEGATION_TOKEN: Final = Permission(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
CREATE_TOKENS: Final = Permission(AclOperation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_TOKENS: Final = Permission(AclOperation.DESCRIBE_TOKENS, ResourceType.USER)
