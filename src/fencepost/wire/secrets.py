"""Which fields of messages hold secrets: what shows a message to people hides them.

A field says so where it is declared, `field(secret=ALWAYS)`. The value of a config is one if the
config's name says so (`field(secret=IF_CONFIG)`, beside a field `name`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fencepost.wire.message import Struct
    from fencepost.wire.schema import Field

ALWAYS: Final = "always"
IF_CONFIG: Final = "config"
HIDDEN: Final = "[hidden]"
"""What is shown in a secret's place."""

_WORDS: Final = ("password", "passphrase", "secret", "jaas.config", "token", "credential")
_ENDS: Final = ("keystore.key", "certificate.chain", "truststore.certificates", "private.key")
_PLAIN: Final = ("delegation.token.", "token.endpoint")
_PLAIN_ENDS: Final = (".class", ".file", ".id", ".ms", ".url")
_PLAIN_EXCEPT: Final = "delegation.token.secret.key"


def is_secret_config(name: str) -> bool:
    """Whether a config of that name holds a secret, as far as its name tells."""
    plain = name.lower()
    if plain.endswith(_PLAIN_EXCEPT):
        return True
    if any(part in plain for part in _PLAIN) or plain.endswith(_PLAIN_ENDS):
        return False
    return any(word in plain for word in _WORDS) or plain.endswith(_ENDS)


def is_hidden(field: Field, struct: Struct) -> bool:
    """Whether the struct's field holds a secret."""
    if not field.secret:
        return False
    if field.secret == ALWAYS:
        return True
    name: Any = getattr(struct, "name", "")
    return not isinstance(name, str) or is_secret_config(name)


@cache
def has_secrets(cls: type[Struct]) -> bool:
    """Whether messages of the class can hold secrets, in whatever depth."""
    return any(
        bool(field.secret) or (field.struct is not None and has_secrets(field.struct))
        for field in cls.fields
    )
