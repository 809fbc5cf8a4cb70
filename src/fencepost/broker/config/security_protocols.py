"""Which security protocol each listener has, and which listener brokers use among themselves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fencepost.log.configdef import ConfigError
from fencepost.machines.session import SecurityProtocol

PROTOCOLS_KEY: Final = "listener.security.protocol.map"
INTER_BROKER_KEY: Final = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL_KEY: Final = "security.inter.broker.protocol"
INTER_BROKER_MECHANISM_KEY: Final = "sasl.mechanism.inter.broker.protocol"
_NAMES: Final = tuple(one.name for one in SecurityProtocol)


def parse_protocols(text: str) -> dict[str, SecurityProtocol]:
    """The protocols by the names of listeners, in capitals. ConfigError."""
    protocols: dict[str, SecurityProtocol] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, colon, protocol = (part.strip() for part in pair.rpartition(":"))
        if not colon or not name:
            raise ConfigError(PROTOCOLS_KEY, pair, "NAME:PROTOCOL,NAME:PROTOCOL")
        if protocol.upper() not in _NAMES:
            raise ConfigError(PROTOCOLS_KEY, pair, f"NAME:PROTOCOL, with one of {_list(_NAMES)}")
        if name.upper() in protocols:
            raise ConfigError(PROTOCOLS_KEY, pair, "each listener once")
        protocols[name.upper()] = SecurityProtocol[protocol.upper()]
    return protocols


def listener_protocols(
    text: str, is_written: bool, used: Collection[str], controllers: Collection[str]
) -> dict[str, SecurityProtocol]:
    """The protocols of the listeners that are `used`, by name; `controllers` are names of
    controllers' listeners, which a broker does not open and connects to. ConfigError.

    `is_written`: the operator has written the map. Where there is none, controllers' listeners are
    PLAINTEXT, unless a listener is named after another protocol: then nothing is left to a guess.
    """
    protocols = parse_protocols(text)
    if not is_written and not any(
        name in _NAMES and name != "PLAINTEXT" for name in {*used, *controllers}
    ):
        protocols = {**dict.fromkeys(controllers, SecurityProtocol.PLAINTEXT), **protocols}
    for name in {**dict.fromkeys(used), **dict.fromkeys(controllers)}:
        if name not in protocols:
            allowed = f"a map with {name}:PROTOCOL in it, with one of {_list(_NAMES)}"
            raise ConfigError(PROTOCOLS_KEY, text, allowed)
    return protocols


def inter_broker_listener(name: str | None, protocol: str | None, brokers: Collection[str]) -> str:
    """The listener that brokers use among themselves; `brokers` are the names of brokers' own.

    None for what is not set. Where neither is, that is PLAINTEXT, as in Kafka, or the first
    listener if none has this name. ConfigError.
    """
    if name is not None and protocol is not None:
        allowed = f"left out, because {INTER_BROKER_KEY}={name} is set"
        raise ConfigError(INTER_BROKER_PROTOCOL_KEY, protocol, allowed)
    key, text = (INTER_BROKER_KEY, name) if name else (INTER_BROKER_PROTOCOL_KEY, protocol)
    if text is None:
        return next(iter(brokers)) if brokers and "PLAINTEXT" not in brokers else "PLAINTEXT"
    if brokers and text.upper() not in brokers:
        raise ConfigError(key, text, f"one of the listeners {_list(sorted(brokers))}")
    return text.upper()


def _list(names: Collection[str]) -> str:
    return ", ".join(names)
