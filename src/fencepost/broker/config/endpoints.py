"""Addresses: where a node listens, what it tells clients, and binding the sockets.

A listener is written `NAME://HOST:PORT`. A host name may stand for several addresses (`localhost`
for ::1 and 127.0.0.1), which then share one port; port 0 picks a free one; an empty host means
every interface.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from fencepost.addresses import address_text
from fencepost.log.configdef import ConfigError

WILDCARDS = ("", "0.0.0.0", "::")
"""Hosts that stand for every interface."""
LISTEN_BACKLOG = 512
FREE_PORT_ATTEMPTS = 16
_HINTS = {
    errno.EADDRINUSE: "another process listens on this port: stop it, or give another port in"
    " --listen HOST:PORT or `listeners`; port 0 picks a free one",
    errno.EADDRNOTAVAIL: "this machine has no such address: give one of its own, or 0.0.0.0 for all"
    " of them",
    errno.EACCES: "a port below 1024 takes a privilege that this process lacks: give another port"
    " in --listen HOST:PORT or `listeners`",
}
"""What to do about an address that cannot be had."""


class Endpoint(Struct, frozen=True):
    """A named place to listen at or to be reached at."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return address_text(self.host or "*", self.port)

    @property
    def local(self) -> str:
        """HOST:PORT to reach the listener at from this machine."""
        reached = "127.0.0.1" if self.host in WILDCARDS else self.host
        return str(Endpoint(self.name, reached, self.port))


class ConnectionLimits(Struct, frozen=True):
    """The configured bounds of the front door."""

    max_frame_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_idle_ms: int
    backlog: int = LISTEN_BACKLOG
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    max_connections_of: Mapping[str, int] = field(default_factory=dict)
    """In place of `max_connections_per_ip`, by address."""
    max_created_per_s: int = (1 << 31) - 1
    """New connections per second that are served at once; others wait for their turn."""
    max_connections_by_listener: Mapping[str, int] = field(default_factory=dict)
    """The most on each listener, by its name."""
    max_created_per_s_by_listener: Mapping[str, int] = field(default_factory=dict)
    """`max_created_per_s` of each listener."""


def check_names(key: str, endpoints: Sequence[Endpoint]) -> None:
    """Whether each listener has a name of its own. ConfigError."""
    if len({one.name for one in endpoints}) != len(endpoints):
        raise ConfigError(key, _list(endpoints), "a different name for each listener")


def check_ports(key: str, endpoints: Sequence[Endpoint]) -> None:
    """Whether each listener has a port of its own, as Kafka asks, which does not look at the hosts;
    one at an IPv4 and one at an IPv6 address may share one. ConfigError."""
    sharing: dict[int, list[str]] = {}
    for one in endpoints:
        if one.port:
            sharing.setdefault(one.port, []).append(one.host)
    for port, hosts in sharing.items():
        if len(hosts) > 1 and sorted(map(_ip_version, hosts)) != [4, 6]:
            allowed = (
                "a different port for each listener, unless exactly one has an IPv4 address and the"
                f" other an IPv6 address: {len(hosts)} have port {port}"
            )
            raise ConfigError(key, _list(endpoints), allowed)


def _ip_version(host: str) -> int:
    """4 or 6; 0 for a host that is no address, or every interface."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _list(endpoints: Iterable[Endpoint]) -> str:
    return ",".join(f"{one.name}://{one}" for one in endpoints)


def parse_host_limits(text: str) -> dict[str, int]:
    """Numbers by IP address out of "ADDRESS:NUMBER,ADDRESS:NUMBER". ValueError."""
    limits: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, _, number = (part.strip() for part in pair.rpartition(":"))
        if not (number.isascii() and number.isdigit() and int(number) < 1 << 31):
            raise ValueError(f"{pair!r} is not ADDRESS:NUMBER")
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        limits[str(address)] = int(number)
    return limits


class BindError(OSError):
    """A listener's address cannot be had."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        found = socket.getaddrinfo(_for_lookup(host), None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    addresses = [str(info[4][0]) for info in found]
    return bool(host) and all(a == "::1" or a.startswith("127.") for a in addresses)


def _for_lookup(host: str) -> str | bytes | None:
    """What `getaddrinfo` is asked for; None for every address. For text it loads the codec of
    international names, which others need not: a millisecond of a start."""
    return (host.encode() if host.isascii() else host) or None


def bind(endpoint: Endpoint, limits: ConnectionLimits) -> list[socket.socket]:
    """Listening sockets for every address of the endpoint's host, all on one port.

    Raises BindError, naming the address and what is wrong with it.
    """
    try:
        found = socket.getaddrinfo(
            _for_lookup(endpoint.host),
            endpoint.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
    except OSError as error:
        raise BindError(f"listener {endpoint.name}: {endpoint.host!r}: {error}") from error
    addresses = list(dict.fromkeys((int(info[0]), str(info[4][0])) for info in found))
    for attempt in range(FREE_PORT_ATTEMPTS):
        try:
            return _bind_all(addresses, endpoint.port, limits)
        except OSError as error:
            # With port 0 the port found free for the first address may be taken for the next.
            if endpoint.port or attempt == FREE_PORT_ATTEMPTS - 1:
                what = f"listener {endpoint.name}: cannot listen on {endpoint}: {error.strerror}"
                hint = _HINTS.get(error.errno or 0)
                raise BindError(what + (f" ({hint})" if hint else "")) from error
    raise AssertionError("unreachable")


def _bind_all(
    addresses: list[tuple[int, str]], port: int, limits: ConnectionLimits
) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses:
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue  # the family is switched off on this machine
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if limits.receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
            if limits.send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
            try:
                sock.bind((address, port))
            except OSError:
                if len(addresses) == 1 or family != socket.AF_INET6:
                    raise
                sockets.pop().close()  # no IPv6 address here, as in many containers
                continue
            port = sock.getsockname()[1]
            sock.listen(limits.backlog)
            sock.setblocking(False)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    if not sockets:
        raise OSError(0, "no usable address")
    return sockets
