"""The headers of a connection's requests: a client says the same about itself in every one.

A client id that is not UTF-8 has U+FFFD for what could not be decoded, as in Kafka.

What follows the correlation id is remembered by API and version, and read again only when it
differs. Routes bound how much is remembered, and `REMEMBERED_BYTES` how long each may be.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fencepost.broker.net.registry import Route
from fencepost.broker.net.run_taker import RunTaker
from fencepost.wire.frame import read_request_header

REMEMBERED_BYTES: Final = 256
_START: Final = 8
"""Where the header goes on behind api key, version and correlation id."""


class Run(NamedTuple):
    """What a taker is offered."""

    taker: RunTaker
    head: bytes
    """How the requests begin: API key, version, and what follows behind the correlation id."""
    name: str
    """Of their API."""


class RememberedHeaders:
    """Those of one connection."""

    __slots__ = ("_known", "runs")

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[bytes, str | None]] = {}
        self.runs: dict[int, Run] = {}
        """By the four bytes of API key and version, for routes that have a taker: requests whose
        header is the one that is remembered."""

    def client_id(self, api_key: int, version: int) -> str | None:
        """What the client has called itself in the latest of such requests."""
        known = self._known.get((api_key, version))
        return None if known is None else known[1]

    def read(self, frame: memoryview, route: Route, version: int) -> tuple[str | None, int]:
        """The client id, and where the body starts. DecodeError."""
        known = self._known.get((route.api_key, version))
        if known is not None and frame[_START : (body_start := len(known[0]) + _START)] == known[0]:
            return known[1], body_start
        header, body_start = read_request_header(frame, cls=route.request_class, replaces_text=True)
        if body_start - _START <= REMEMBERED_BYTES:
            start = bytes(frame[_START:body_start])
            self._known[route.api_key, version] = start, header.client_id
            if route.run_taker is not None:
                head = bytes(frame[:4]) + start
                self.runs[int.from_bytes(head[:4])] = Run(route.run_taker, head, route.name)
        return header.client_id, body_start
