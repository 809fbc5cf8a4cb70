"""From this broker's fetchers to the brokers that lead, over connections of their own.

A leader is reached where it advertises the listener that brokers use among themselves. Fetchers of
one number share a client id, `broker-ID-fetcher-N`, as in Kafka, and each has its own connection to
its leader, on which one request is under way at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fencepost.broker.cluster.peer_connection import PeerRequest, Unsupported
from fencepost.broker.cluster.peers import Peers
from fencepost.client.protocol.versions import VersionRange
from fencepost.machines.fetcher import LeaderAnswered, LeaderFailed, LeaderRequest
from fencepost.machines.image import ClusterImage
from fencepost.runtime.fetchers import OnOutcome
from fencepost.runtime.requests.leader_hints import endpoint_of

if TYPE_CHECKING:
    from fencepost.client.security import Security


class FetchChannel:
    """`runtime.fetchers.Leaders` of a broker process; see the module."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        broker_id: int,
        listener_name: str,
        image: Callable[[], ClusterImage],
        *,
        max_response_bytes: int,
        backoff_ms: int,
        security: Callable[[], Security | None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._broker_id = broker_id
        self._listener_name = listener_name
        self._image = image
        self._max_response_bytes = max_response_bytes
        self._backoff_ms = backoff_ms
        self._security = security
        self._peers: dict[int, Peers] = {}
        self._under_way: dict[tuple[int, int], PeerRequest] = {}

    def ask(
        self, leader_id: int, fetcher: int, asked: LeaderRequest, on_outcome: OnOutcome
    ) -> None:
        """Ask the leader; `on_outcome` is called once, never before this returns."""

        def on_response(response: Any) -> None:
            on_outcome(LeaderAnswered(asked.number, response))

        def on_failure(reason: str) -> None:
            on_outcome(LeaderFailed(asked.number, reason, isinstance(reason, Unsupported)))

        before = self._under_way.pop((leader_id, fetcher), None)
        if asked.abandons and before is not None:
            before.cancel()
        endpoint = endpoint_of(self._image().brokers.get(leader_id), self._listener_name)
        if endpoint is None:
            reason = f"broker {leader_id} has no listener {self._listener_name}"
            self._loop.call_soon(on_failure, reason)
            return
        self._under_way[leader_id, fetcher] = self._peers_of(fetcher).send(
            (endpoint.host, endpoint.port),
            asked.request,
            on_response,
            on_failure,
            asked.timeout_ms,
            versions=VersionRange(asked.lowest, asked.highest),
        )

    def close(self) -> None:
        """Disconnect everywhere."""
        for peers in self._peers.values():
            peers.close()

    def _peers_of(self, fetcher: int) -> Peers:
        peers = self._peers.get(fetcher)
        if peers is None:
            peers = self._peers[fetcher] = Peers(
                self._loop,
                f"broker-{self._broker_id}-fetcher-{fetcher}",
                max_response_bytes=self._max_response_bytes,
                backoff_ms=self._backoff_ms,
                security=self._security,
            )
        return peers
