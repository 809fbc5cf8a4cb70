"""Keys for one listener, and for one SASL mechanism on it: `listener.name.<listener>.<key>` and
`listener.name.<listener>.<mechanism>.<key>` (KIP-103, KIP-86).

Listener and mechanism are written in lower case. A key with a prefix has the type, the bounds and
the update mode of the key behind it. Kafka ignores a prefixed key that it does not know; here it is
an error, because what is ignored is a listener that is less safe than its operator believes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from msgspec.structs import replace

from fencepost.broker.config.keys import BROKER_CONFIGS, sasl, tls
from fencepost.broker.config.keys.definition import BrokerConfigDef
from fencepost.log.configdef import ConfigError, closest

PREFIX: Final = "listener.name."
MECHANISMS: Final = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""SASL mechanisms that Kafka knows of."""
OTHERS: Final = (
    "connections.max.reauth.ms",
    "max.connection.creation.rate",
    "max.connections",
    "num.network.threads",
    "principal.builder.class",
)
"""What may differ between listeners besides TLS and SASL."""

LISTENER_KEYS: Final[frozenset[str]] = frozenset(
    [*(one.name for area in (sasl, tls) for one in area.KEYS), *OTHERS]
)
"""Keys that may have the prefix of a listener."""
MECHANISM_KEYS: Final[frozenset[str]] = frozenset(
    {
        "connections.max.reauth.ms",
        *(one.name for one in sasl.KEYS if not one.name.startswith("sasl.enabled")),
    }
)
"""Keys that may have the prefix of a mechanism as well."""


def prefixed(key: str, listener: str, mechanism: str | None = None) -> str:
    """The name of `key` for a listener, or for a mechanism on it."""
    middle = "" if mechanism is None else f"{mechanism.lower()}."
    return f"{PREFIX}{listener.lower()}.{middle}{key}"


def listener_of(name: str) -> str:
    """The listener, in capitals, that a prefixed key is for."""
    return name.removeprefix(PREFIX).partition(".")[0].upper()


def base_key(name: str) -> str:
    """A key without the prefix that it may have."""
    split = _split(name)
    return name if split is None else split


def is_dynamic(name: str) -> bool:
    """Whether a broker has the key, with a prefix or without, and it may change while it runs.

    What logs in is never changed by a request: its configuration names a class to be loaded.
    """
    definition = definition_of(name)
    return definition is not None and definition.is_dynamic


def definition_of(name: str) -> BrokerConfigDef | None:
    """What a key of a broker is, with a prefix or without; None for one that no broker has."""
    known = BROKER_CONFIGS.get(name)
    return known if known is not None or not name.startswith(PREFIX) else _of_prefixed(name)


def unknown_prefixed(name: str, text: object) -> ConfigError:
    """What to say of a key that has the prefix and that no broker has."""
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    if listener != listener.lower() or any(rest.startswith(f"{one}.") for one in MECHANISMS):
        return ConfigError(name, text, "listener and mechanism are written in lower case here")
    if rest in BROKER_CONFIGS:
        return ConfigError(name, text, f"{rest} is the same for all listeners")
    near = closest(rest, LISTENER_KEYS)
    hint = f"; did you mean {PREFIX}{listener}.{near}?" if near else ""
    return ConfigError(name, text, f"there is no config {rest!r} for a listener{hint}")


@lru_cache(maxsize=1024)
def _of_prefixed(name: str) -> BrokerConfigDef | None:
    key = _split(name)
    if key is None:
        return None
    changes: dict[str, Any] = {"name": name}
    return replace(BROKER_CONFIGS[key], **changes)


def _split(name: str) -> str | None:
    """The key behind the prefix; None if there is no prefix, or no key that may have it."""
    if not name.startswith(PREFIX):
        return None
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    if not listener or listener != listener.lower():
        return None
    if rest in LISTENER_KEYS:
        return rest
    mechanism, _, key = rest.partition(".")
    is_mechanism = mechanism.upper() in MECHANISMS and mechanism == mechanism.lower()
    return key if is_mechanism and key in MECHANISM_KEYS else None
