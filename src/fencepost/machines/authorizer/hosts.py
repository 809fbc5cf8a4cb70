"""Clients' addresses as ACLs name them: one as Java writes it, a range, or all.

An IPv6 address is written in eight groups without leading zeros, as Java's `getHostAddress` does;
an IPv4 address that came over an IPv6 socket is that IPv4 address. A range (KIP-1276) is parsed
once, where its ACL is indexed. An IPv4 range has no IPv6 address in it, and the other way round.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from fencepost.machines.image.acls import WILDCARD

RANGE: Final = "/"
_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_IPV4_BITS: Final = 32
_IPV6_BITS: Final = 128
_OCTET_MAX: Final = 255
_HOSTS_REMEMBERED: Final = 4_096


class Range(NamedTuple):
    """The addresses that share their first bits with one."""

    bits: int
    """Of an address: 32 or 128."""
    shift: int
    """How many bits are the addresses' own."""
    prefix: int

    def has(self, bits: int, address: int) -> bool:
        """Whether the address is in the range. 0.0.0.0 is in none, as in Kafka."""
        if bits != self.bits or (not address and bits == _IPV4_BITS):
            return False
        return address >> self.shift == self.prefix


class ClientHost(NamedTuple):
    """A client's address, ready to be compared."""

    text: str
    """As Java writes it."""
    bits: int
    """32 or 128; 0 for a text that is no address."""
    number: int

    def is_in(self, host: str | Range) -> bool:
        """Whether an ACL for that host, which is no wildcard, is for this client."""
        if isinstance(host, Range):
            return host.has(self.bits, self.number)
        return host == self.text


@lru_cache(_HOSTS_REMEMBERED)
def client_host(text: str) -> ClientHost:
    """What the operating system says of a peer, as ACLs are compared with it; a zone is left out,
    and what is no address stays as it is."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return ClientHost(text, 0, 0)
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            groups = address.exploded.split(":")
            long_form = ":".join(group.lstrip("0") or "0" for group in groups)
            return ClientHost(long_form, _IPV6_BITS, int(address))
        address = address.ipv4_mapped
    return ClientHost(str(address), _IPV4_BITS, int(address))


def parsed_range(text: str) -> Range:
    """The range of an ACL's host that has a slash. ValueError, with what is wrong with it in the
    words that Kafka's answer has."""
    if ":" in text:
        return _parsed_ipv6(text)
    match = _IPV4.fullmatch(text)
    if match is None:
        raise ValueError(f"Could not parse [{text}]")
    *octets, length = map(int, match.groups())
    for value, most in [(octet, _OCTET_MAX) for octet in octets] + [(length, _IPV4_BITS)]:
        if value > most:
            raise ValueError(f"Value [{value}] not in range [0,{most}]")
    shift = _IPV4_BITS - length
    return Range(_IPV4_BITS, shift, int(IPv4Address(bytes(octets))) >> shift)


def _parsed_ipv6(text: str) -> Range:
    address, _, written = text.partition(RANGE)
    if _INTEGER.fullmatch(written) is None:
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    length = int(written)
    if not 0 <= length <= _IPV6_BITS:
        raise ValueError(
            f"Could not parse [{text}] - prefix length must be between 0 and {_IPV6_BITS}"
        )
    try:
        parsed = IPv6Address(address)
    except AddressValueError:
        raise ValueError(f"Could not parse [{address}]") from None
    if parsed.scope_id is not None:
        raise ValueError(f"Could not parse [{address}] - a range has no zone")
    if parsed.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{address}] - not an IPv6 address")
    shift = _IPV6_BITS - length
    return Range(_IPV6_BITS, shift, int(parsed) >> shift)


def host_of_acl(text: str) -> str | Range | None:
    """What an ACL's host is compared as; None for the wildcard. A range that cannot be parsed has
    no address in it: its text alone counts, which no client's address is."""
    if text == WILDCARD:
        return None
    if RANGE in text:
        try:
            return parsed_range(text)
        except ValueError:
            return text
    return text
