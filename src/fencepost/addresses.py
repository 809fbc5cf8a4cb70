"""Addresses as people write them: HOST:PORT, and NAME://HOST:PORT for a listener.

An IPv6 address has brackets around it, `[::1]:9092`. The host may be empty where that means every
interface, and the port 0 where that means a free one; the caller says where. Clients take what
Kafka's take (`parse_server`).
"""

from __future__ import annotations

import re
from typing import Final

PORT_MAX: Final = (1 << 16) - 1
"""The highest port of TCP."""
_SERVER: Final = re.compile(
    r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII
)
"""As org.apache.kafka.common.utils.Utils has it."""
_DIGITS_MAX: Final = 20


class AddressError(ValueError):
    """A text is no address; the message says what is allowed."""


def address_text(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(
    text: str,
    *,
    least_port: int = 1,
    empty_host: bool = False,
    form: str = "HOST:PORT",
) -> tuple[str, int]:
    """The host, without brackets, and the port of a text of this `form`.

    Raises AddressError.
    """
    host, colon, digits = text.rpartition(":")
    if not colon or not (digits.isascii() and digits.isdecimal()):
        raise AddressError(form)
    if not least_port <= int(digits) <= PORT_MAX:
        raise AddressError(f"{form} with a port from {least_port} to {PORT_MAX}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host or "/" in host or "[" in host:
        raise AddressError(f"{form}, with an IPv6 address in brackets")
    if not host and not empty_host:
        raise AddressError(form)
    return host, int(digits)


def parse_server(text: str) -> tuple[str, int]:
    """The host and port of a server to connect to, as Kafka's clients take it.

    A protocol in front, as listeners have one (`PLAINTEXT://HOST:PORT`), is passed over: it does
    not choose `security.protocol`. An IPv6 address may do without brackets. What Java takes and
    is a mistake is refused: port 0, and no host, which is this machine there. Raises AddressError.
    """
    found = _SERVER.fullmatch(text)
    if found is None:
        raise AddressError("HOST:PORT")
    host, digits = found.groups()
    if not host:
        raise AddressError("HOST:PORT")
    if len(digits) > _DIGITS_MAX or not 1 <= int(digits) <= PORT_MAX:
        raise AddressError(f"HOST:PORT with a port from 1 to {PORT_MAX}")
    return host, int(digits)


def parse_listener(
    text: str, *, least_port: int = 1, empty_host: bool = False
) -> tuple[str, str, int]:
    """The name, in capitals, the host and the port of NAME://HOST:PORT. Raises AddressError."""
    form = "NAME://HOST:PORT"
    name, separator, address = text.partition("://")
    if not separator or not name:
        raise AddressError(form)
    host, port = parse_address(address, least_port=least_port, empty_host=empty_host, form=form)
    return name.upper(), host, port
