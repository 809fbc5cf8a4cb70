"""Who may do what: Kafka's StandardAuthorizer as functions of the ACLs in the metadata."""

from fencepost.machines.authorizer.decision import (
    Decision,
    Policy,
    Why,
)
from fencepost.machines.authorizer.machine import AclAuthorizer

__all__ = ["AclAuthorizer", "Decision", "Policy", "Why"]
