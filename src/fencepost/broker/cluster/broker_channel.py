"""Requests from this broker to others, by their ids: a transaction's markers, a leader's questions.

A broker is reached where it advertises the listener that brokers use among themselves. Nothing here
retries (`peers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.broker.cluster.peers import Peers
from fencepost.client.protocol.versions import VersionRange
from fencepost.machines.image import ClusterImage
from fencepost.runtime.requests.leader_hints import endpoint_of
from fencepost.wire.message import Message

REQUEST_TIMEOUT_MS: Final = 30_000


class BrokerChannel:
    """See the module docstring."""

    def __init__(self, peers: Peers, listener_name: str, image: Callable[[], ClusterImage]) -> None:
        self._peers = peers
        self._listener_name = listener_name
        self._image = image

    def ask(
        self,
        node_id: int,
        request: Message,
        on_response: Callable[[Any], None],
        on_failure: Callable[[str], None],
        *,
        purpose: str,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        versions: VersionRange | None = None,
    ) -> None:
        """Ask; one of the two is called, never before this returns.

        Requests of one `purpose` share connections; `versions` are those that can say it.
        """
        endpoint = endpoint_of(self._image().brokers.get(node_id), self._listener_name)
        if endpoint is None:
            reason = f"broker {node_id} has no listener {self._listener_name}"
            self._peers.loop.call_soon(on_failure, reason)
            return
        self._peers.send(
            (endpoint.host, endpoint.port),
            request,
            on_response,
            on_failure,
            timeout_ms,
            purpose=purpose,
            versions=versions,
        )
