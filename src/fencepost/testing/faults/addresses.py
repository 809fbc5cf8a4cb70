"""Clients of a cluster that does not know of the proxy are sent back through it.

Such a cluster answers with its brokers' own addresses: in Metadata, FindCoordinator,
DescribeCluster, DescribeQuorum, and beside errors in Produce and Fetch. Each address is replaced by
that of a gate in front of it, which is made when an answer first has the address.
Which messages have addresses is read from their declarations: a host with a port beside it.

A client learns from ApiVersions what it may ask. The proxy has to read what passes, so it offers
no more than it can read itself: neither newer versions nor APIs that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from fencepost.wire.api import API_NAMES, request_class, response_class
from fencepost.wire.header import API_VERSIONS_KEY
from fencepost.wire.message import Message, Struct

Address = tuple[str, int]
NOT_BROKERS: Final = frozenset({"user_endpoint"})
"""Fields whose addresses are those of clients."""


class AddressRewriter:
    """Replaces addresses by those of gates; `gate_for` has them, by node id and address."""

    def __init__(self, gate_for: Callable[[int | None, Address], Address]) -> None:
        self._gate_for = gate_for

    def wants(self, api_key: int, version: int) -> bool:
        """Whether answers of this API have what is to be replaced."""
        if api_key not in API_NAMES:
            return False
        return api_key == API_VERSIONS_KEY or _holds_address(response_class(api_key), version)

    def rewrite(self, answer: Message) -> bool:
        """Replace what is to be replaced in an answer; whether anything was."""
        if answer.api_key == API_VERSIONS_KEY:
            return _limit_versions(answer)
        return _holds_address(type(answer)) and self._rewrite(answer)

    def _rewrite(self, struct: Any) -> bool:
        cls = type(struct)
        is_changed = False
        if _is_address(cls) and struct.host and struct.port > 0:
            node = getattr(struct, "node_id", None)
            host, port = self._gate_for(node, (struct.host, struct.port))
            is_changed = (struct.host, struct.port) != (host, port)
            struct.host, struct.port = host, port
        for field in cls.fields:
            if field.struct is None or not _holds_address(field.struct):
                continue
            value = getattr(struct, field.name)
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Struct):
                    is_changed |= self._rewrite(one)
        return is_changed


def _limit_versions(answer: Any) -> bool:
    """Leave what we can read ourselves."""
    if answer.error_code:
        return False
    offered = []
    for one in answer.api_keys:
        if one.api_key in API_NAMES:
            known = request_class(one.api_key)
            low, high = (
                max(one.min_version, known.min_version),
                min(one.max_version, known.max_version),
            )
            if low <= high:
                one.min_version, one.max_version = low, high
                offered.append(one)
    answer.api_keys = offered
    return True


def _is_address(cls: type[Struct]) -> bool:
    return {"host", "port"} <= {field.name for field in cls.fields}


@lru_cache(maxsize=2048)
def _holds_address(cls: type[Struct], version: int | None = None) -> bool:
    """Whether there is an address of a broker in the struct, or in what it holds."""
    fields = [one for one in cls.fields if version is None or one.versions.holds(version)]
    if {"host", "port"} <= {one.name for one in fields}:
        return True
    inner = [one.struct for one in fields if one.struct and one.name not in NOT_BROKERS]
    return any(_holds_address(one, version) for one in inner)
