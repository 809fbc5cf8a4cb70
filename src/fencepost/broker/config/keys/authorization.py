"""Who clients are and what they may do.

`super.users` and `allow.everyone.if.no.acl.found` are keys of Kafka's authorizer, not of its
brokers; here they are checked where they are written. Without an authorizer they ask for what is
not there, so a node that has them alone is refused: no operator is to believe it safer than it is.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLASS,
    PER_BROKER,
    STRING,
    BrokerConfigDef,
    default_only,
    honoured,
)
from fencepost.log.configdef import Validator

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The class whose rules the authorizer here has."""
AUTHORIZER_KEY: Final = "authorizer.class.name"
SUPER_USERS_KEY: Final = "super.users"
ALLOW_EVERYONE_KEY: Final = "allow.everyone.if.no.acl.found"
OF_THE_AUTHORIZER: Final = (SUPER_USERS_KEY, ALLOW_EVERYONE_KEY)
"""The keys that Kafka's brokers leave to their authorizer."""


def super_users(text: str) -> frozenset[str]:
    """The principals of `super.users`, as `Type:name`. ValueError names one that is none."""
    found = [one.strip() for one in text.split(";")]
    for one in found:
        if one and ":" not in one:
            raise ValueError(one)
    return frozenset(one for one in found if one)


def _are_principals(text: str) -> bool:
    try:
        super_users(text)
    except ValueError:
        return False
    return True


_SECURITY = "classes of Java's are not loaded"

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    honoured(
        AUTHORIZER_KEY,
        STRING,
        "",
        Validator(
            f"{STANDARD_AUTHORIZER}, or left out: no other authorizer is offered",
            lambda name: name in ("", STANDARD_AUTHORIZER),
            names_type=True,
        ),
        "What decides what clients may do: Kafka's StandardAuthorizer by its class name, whose ACLs"
        " are in the metadata. Empty: every client may do everything.",
    ),
    honoured(
        SUPER_USERS_KEY,
        STRING,
        "",
        Validator("principals as Type:name, separated by semicolons", _are_principals),
        "Principals that may do everything, as Type:name, separated by semicolons. The principals"
        " of brokers and controllers belong here.",
    ),
    honoured(
        ALLOW_EVERYONE_KEY,
        BOOLEAN,
        False,
        None,
        "Whether every client may do everything to a resource that no ACL is about.",
    ),
    default_only(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        _SECURITY,
        PER_BROKER,
    ),
    default_only("security.providers", STRING, None, _SECURITY),
)
"""See the module."""
