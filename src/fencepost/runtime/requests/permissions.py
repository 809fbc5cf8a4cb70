"""The permissions that requests ask for: operations on resources of a type, with Kafka's codes."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from fencepost.wire.errors import ErrorCode

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class Operation(IntEnum):
    """What is done to a resource, with Kafka's codes (`AclOperation`)."""

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
    """What something is done to, with Kafka's codes."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


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

    operation: Operation
    resource_type: ResourceType

    @property
    def refusal(self) -> ErrorCode:
        """The error that a client without it receives."""
        return REFUSALS[self.resource_type]


READ_TOPIC: Final = Permission(Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC: Final = Permission(Operation.WRITE, ResourceType.TOPIC)
CREATE_TOPIC: Final = Permission(Operation.CREATE, ResourceType.TOPIC)
DELETE_TOPIC: Final = Permission(Operation.DELETE, ResourceType.TOPIC)
ALTER_TOPIC: Final = Permission(Operation.ALTER, ResourceType.TOPIC)
DESCRIBE_TOPIC: Final = Permission(Operation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_TOPIC_CONFIGS: Final = Permission(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
ALTER_TOPIC_CONFIGS: Final = Permission(Operation.ALTER_CONFIGS, ResourceType.TOPIC)

READ_GROUP: Final = Permission(Operation.READ, ResourceType.GROUP)
DELETE_GROUP: Final = Permission(Operation.DELETE, ResourceType.GROUP)
DESCRIBE_GROUP: Final = Permission(Operation.DESCRIBE, ResourceType.GROUP)
DESCRIBE_GROUP_CONFIGS: Final = Permission(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP)
ALTER_GROUP_CONFIGS: Final = Permission(Operation.ALTER_CONFIGS, ResourceType.GROUP)

CREATE_CLUSTER: Final = Permission(Operation.CREATE, ResourceType.CLUSTER)
DELETE_CLUSTER: Final = Permission(Operation.DELETE, ResourceType.CLUSTER)
ALTER_CLUSTER: Final = Permission(Operation.ALTER, ResourceType.CLUSTER)
DESCRIBE_CLUSTER: Final = Permission(Operation.DESCRIBE, ResourceType.CLUSTER)
CLUSTER_ACTION: Final = Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS: Final = Permission(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
ALTER_CLUSTER_CONFIGS: Final = Permission(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
IDEMPOTENT_WRITE: Final = Permission(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)

WRITE_TRANSACTIONAL_ID: Final = Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID: Final = Permission(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
TWO_PHASE_COMMIT: Final = Permission(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID)

DESCRIBE_DELEGATION_TOKEN: Final = Permission(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN)
CREATE_TOKENS: Final = Permission(Operation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_TOKENS: Final = Permission(Operation.DESCRIBE_TOKENS, ResourceType.USER)
