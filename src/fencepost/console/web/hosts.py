"""Which hosts the console answers for: a page elsewhere whose name is made to resolve to this
machine (DNS rebinding) sends its own name as the host, and is refused."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import Final, NamedTuple

from fencepost.addresses import PORT_MAX

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


class BadAddress(ValueError):
    """An address or the name of a host that cannot be one; the text says what is allowed."""


class Address(NamedTuple):
    """Where to listen: an IP address without brackets, or a name, and a port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        ip = _ip(self.host)
        return self.host == "localhost" if ip is None else ip.is_loopback

    @property
    def is_wildcard(self) -> bool:
        """Whether it is every address of the machine."""
        ip = _ip(self.host)
        return ip is not None and ip.is_unspecified

    @property
    def url_host(self) -> str:
        """The host as a URL has it; for a wildcard, the machine's name."""
        if self.is_wildcard:
            return socket.gethostname()
        return f"[{self.host}]" if ":" in self.host else self.host


def address_of(text: str) -> Address:
    """ "10.0.0.7:8093" or "[::]:8093" as an address. Raises BadAddress."""
    host, colon, digits = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    name = host[1:-1] if bracketed else host
    is_port = digits.isascii() and digits.isdecimal() and len(digits) <= 5
    if not colon or not name or not is_port or int(digits) > PORT_MAX:
        raise BadAddress(f"{text!r}: HOST:PORT is allowed, with a port from 0 to {PORT_MAX}")
    if (":" in name) != bracketed or (bracketed and _ip(name) is None):
        raise BadAddress(f"{text!r}: an IPv6 address is allowed in brackets, as [::1]:8093")
    return Address(name, int(digits))


class Hosts:
    """The values of `Host` that are answered. Where the console listens on every address, any
    literal IP address is one of them: rebinding needs a name."""

    def __init__(self, address: Address, allowed: Iterable[str] = ()) -> None:
        """`address` is where the console listens, with its port; `allowed` are other names, each
        with a port, or without one for any. Raises BadAddress."""
        names = [address.url_host.lower()]
        if address.is_loopback or address.is_wildcard:
            names += LOOPBACK_NAMES
        self._exact = {f"{name}:{address.port}" for name in names}
        self._any_port: set[str] = set()
        self._literals_port = address.port if address.is_wildcard else None
        for name in allowed:
            _check_name(name)
            whole = name.lower()
            (self._exact if _has_port(whole) else self._any_port).add(whole)

    def __contains__(self, host: object) -> bool:
        if not isinstance(host, str) or not host:
            return False
        host = host.lower()
        if host in self._exact or _without_port(host) in self._any_port:
            return True
        if self._literals_port is None or not host.endswith(f":{self._literals_port}"):
            return False
        return _ip(_without_port(host).strip("[]")) is not None


def _check_name(name: str) -> None:
    bare = _without_port(name)
    literal = bare.startswith("[") and bare.endswith("]") and _ip(bare[1:-1]) is not None
    plain = bare.isascii() and bare.replace("-", "").replace(".", "").replace("_", "").isalnum()
    if not (literal or plain) or len(name) > 255:
        raise BadAddress(f"{name[:80]!r}: NAME or NAME:PORT is allowed")


def _has_port(host: str) -> bool:
    name, _, port = host.rpartition(":")
    return bool(name) and port.isascii() and port.isdecimal() and not name.endswith(":")


def _without_port(host: str) -> str:
    return host.rpartition(":")[0] if _has_port(host) else host


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
