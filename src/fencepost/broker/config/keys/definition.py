"""What a broker's configuration key is: a `ConfigDef`, when it may change, and what it does here.

Names, types, bounds and update modes are those of Apache Kafka 4.4; an interop test compares them
with Kafka's own classes. A key is one of three kinds:

* `honoured`: it does here what it does in Kafka; also the keys that only Fencepost has.
* `unused`: it is checked, stored and shown, and changes nothing; a node that has such keys set says
  so in one log line.
* `default_only`: another value than Kafka's default would promise something that is not offered
  (security first of all), and is refused with the reason.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from fencepost.log.configdef import ConfigDef, ConfigType, Validator

BOOLEAN: Final = ConfigType.BOOLEAN
CLASS: Final = ConfigType.CLASS
DOUBLE: Final = ConfigType.DOUBLE
INT: Final = ConfigType.INT
LIST: Final = ConfigType.LIST
LONG: Final = ConfigType.LONG
PASSWORD: Final = ConfigType.PASSWORD
SHORT: Final = ConfigType.SHORT
STRING: Final = ConfigType.STRING


class UpdateMode(Enum):
    """When a broker config may change (KIP-226); the values are what Kafka calls them."""

    READ_ONLY = "read-only"
    """At a start of the broker only."""
    PER_BROKER = "per-broker"
    """While it runs, for each broker by itself."""
    CLUSTER_WIDE = "cluster-wide"
    """While it runs, for one broker or for all of them."""


READ_ONLY: Final = UpdateMode.READ_ONLY
PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE


class BrokerConfigDef(ConfigDef, frozen=True):
    """One configuration key of a broker."""

    mode: UpdateMode = READ_ONLY
    has_effect: bool = True
    """Whether a value changes anything here; false for `unused` and `default_only` keys."""
    refusal: str | None = None
    """Why no value but the default is allowed, of a `default_only` key."""

    @property
    def is_dynamic(self) -> bool:
        """Whether the config may change while the broker runs."""
        return self.mode is not READ_ONLY


def honoured(
    name: str,
    kind: ConfigType,
    default: Any,
    validator: Validator | None,
    doc: str,
    mode: UpdateMode = READ_ONLY,
    *,
    internal: bool = False,
) -> BrokerConfigDef:
    """A key that does here what it does in Kafka, or one that only Fencepost has."""
    return BrokerConfigDef(name, kind, default, doc, validator, (), internal, mode)


def unused(
    name: str,
    kind: ConfigType,
    default: Any,
    validator: Validator | None,
    doc: str,
    mode: UpdateMode = READ_ONLY,
    *,
    internal: bool = False,
) -> BrokerConfigDef:
    """A key that changes nothing here."""
    text = f"{doc} Without effect here."
    return BrokerConfigDef(name, kind, default, text, validator, (), internal, mode, False)


def default_only(
    name: str,
    kind: ConfigType,
    default: Any,
    reason: str,
    mode: UpdateMode = READ_ONLY,
    *,
    internal: bool = False,
) -> BrokerConfigDef:
    """A key that must be Kafka's default, or left out where there is none; `reason` says why."""
    allowed = "left out" if default in (None, "", ()) else _text(kind, default)
    validator = Validator(
        f"{allowed}: {reason}",
        lambda value: default is not None and value == default,
        names_most=True,
        names_type=True,
    )
    text = f"Only the default is allowed: {reason}."
    return BrokerConfigDef(name, kind, default, text, validator, (), internal, mode, False, reason)


def _text(kind: ConfigType, default: Any) -> str:
    return ConfigDef("", kind, default, "").format(default) or ""
