"""From this node's quorum machine to other controllers, and their answers back.

The machine names its peers by node id. Where they are is in the voter set, or a leader has said it;
a machine that knows no other node asks the pseudo ids -2, -3, ..., which are the addresses of
`controller.quorum.bootstrap.servers` in their order. Every request is followed by one input: the
answer, or `RequestFailed`.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Any, Final

from fencepost.broker.cluster.peer_connection import Unsupported
from fencepost.broker.cluster.peers import Address, ConnectionRefused, Peers
from fencepost.broker.config.quorum_config import Server
from fencepost.client.protocol.versions import KeyedApi
from fencepost.machines.driver import Driver
from fencepost.machines.quorum import QuorumMachine, RequestFailed, answered
from fencepost.machines.quorum.state import NO_NODE
from fencepost.wire.api.vote import VoteRequest, VoteResponse
from fencepost.wire.draft.fetch_quorum_records import FetchQuorumRecordsRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

log = logging.getLogger(__name__)

PURPOSE: Final = "quorum"
FIRST_SERVER_ID: Final = -2
OTHER_CLUSTER_ADVICE: Final = (
    "compare cluster.id in the meta.properties of both nodes, and the addresses of the controllers"
)


class QuorumChannel:
    """Carries what the quorum machine sends; `send` is the driver's port for it.

    `draft` is at which key FetchQuorumRecords is asked for, where the machine's adapter speaks it.
    """

    def __init__(
        self,
        peers: Peers,
        driver: Driver,
        machine: QuorumMachine,
        servers: tuple[Server, ...],
        request_timeout_ms: int,
        draft: KeyedApi | None = None,
    ) -> None:
        self._peers = peers
        self._draft = draft
        self._driver = driver
        self._machine = machine
        self._servers = servers
        # The machine asks the same peer again when its own time is up, and would not hear any more
        # that the peer is silent: an observer would never go on to the next.
        self._timeout_ms = max(1, request_timeout_ms * 9 // 10)
        self._unsupported: set[tuple[int, type[Message]]] = set()
        self._told = (0, NO_NODE)
        self.of_other_clusters: set[Address] = set()
        """Controllers whose last answer was that this node belongs to another cluster."""

    def address_of(self, node_id: int) -> Address | None:
        """Where the node is reached, as far as that is known."""
        if node_id <= FIRST_SERVER_ID:
            place = FIRST_SERVER_ID - node_id
            return self._servers[place] if place < len(self._servers) else None
        known = self._machine.address_of(node_id)
        return None if known is None else (known.host, known.port)

    def send(self, key: Hashable, to: int, request: Message) -> None:
        """Send the machine's request; the answer or the failure is fed to it."""

        def on_response(response: Any) -> None:
            assert address is not None, "it was asked there"
            self._note_cluster(address, response)
            self._driver.feed(key, answered(to, request, response))

        def on_failure(reason: str) -> None:
            if isinstance(reason, Unsupported):
                self._report_unsupported(to, request, reason)
                if isinstance(request, VoteRequest):
                    refusal = VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
                    self._driver.feed(key, answered(to, request, refusal))
                    return
            self._driver.feed(
                key, RequestFailed(to, request, isinstance(reason, ConnectionRefused))
            )

        address = self.address_of(to)
        if address is None:
            self._peers.loop.call_soon(on_failure, f"the address of node {to} is unknown")
            return
        self._peers.send(
            address,
            request,
            on_response,
            on_failure,
            self._timeout_ms,
            purpose=PURPOSE,
            keyed=self._draft if isinstance(request, FetchQuorumRecordsRequest) else None,
        )

    def note_leader(self) -> None:
        """Called after every step of the machine: a line in the log for every leader there is."""
        machine = self._machine
        seen = machine.epoch, machine.leader_id
        if seen[1] != NO_NODE and seen != self._told:
            self._told = seen
            log.info("controller %d leads the quorum, epoch %d", machine.leader_id, machine.epoch)

    def _note_cluster(self, address: Address, response: Any) -> None:
        """A controller of another cluster always refuses this node: log it once, until it
        answers."""
        if getattr(response, "error_code", 0) != ErrorCode.INCONSISTENT_CLUSTER_ID:
            self.of_other_clusters.discard(address)
        elif address not in self.of_other_clusters:
            self.of_other_clusters.add(address)
            log.error(
                "the controller at %s:%d belongs to another cluster (INCONSISTENT_CLUSTER_ID): %s",
                *address,
                OTHER_CLUSTER_ADVICE,
            )

    def _report_unsupported(self, to: int, request: Message, reason: str) -> None:
        """Once for each peer and request: it will not be otherwise the next time."""
        what = to, type(request)
        if what not in self._unsupported:
            self._unsupported.add(what)
            log.warning("node %d: %s", to, reason)
