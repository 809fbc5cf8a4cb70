"""What the parts of a node share: configs, clocks, ports, metadata, and how they end the node."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final

from fencepost.broker.cluster.controller_channel import ControllerChannel
from fencepost.broker.cluster.peers import Peers
from fencepost.broker.cluster.quorum_channel import QuorumChannel
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.file_limit import FileShares, file_limit, share_files
from fencepost.broker.config.listener_config import ListenerConfig
from fencepost.broker.config.settings import Settings
from fencepost.broker.loop.ports import AsyncPorts
from fencepost.broker.net.listener_security import ListenerSecurity, session_rules
from fencepost.broker.net.log_limit import ClientWarnings
from fencepost.broker.storage.storage import Storage
from fencepost.log.errors import with_advice
from fencepost.machines.driver import Driver
from fencepost.machines.image import ClusterImage
from fencepost.runtime.credentials import ImageScramCredentials
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.registrations import Registrations
from fencepost.runtime.requests.access import Access

log = logging.getLogger(__name__)

FAILURE_NOTICE_S: Final = 0.5
"""How long clients have to read that the storage failed, before the node stops."""


class NodeCore:
    """See the module; what is only annotated is there once the node has opened its directories."""

    storage: Storage
    metadata: MetadataHost
    channel: ControllerChannel
    quorum: QuorumChannel
    registrations: Registrations

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        files: FileShares | None,
        *,
        on_disk_failed: Callable[[Hashable, str], None],
        on_machine_failed: Callable[[Hashable, str], None],
    ) -> None:
        self.config = config
        self.settings = Settings(config)
        """The configs in force; `config` is what the node was started with."""
        self.loop = loop
        self.access = Access()
        """What clients may do."""
        self.client_warnings = ClientWarnings()
        """Tells once of each client that wants what is not offered."""
        self._login_secret = secrets.token_bytes(32)
        """What salts of users that do not exist are made of."""
        self.files = share_files(config, file_limit()) if files is None else files
        self.connection_count = self.files.connection_count()
        self.failure: str | None = None
        """Why the node cannot go on; None as long as it can."""
        self.is_started = False
        self._stop_reason: asyncio.Future[tuple[str, int]] = loop.create_future()
        self.ports = AsyncPorts(
            loop,
            flush_before_ack=config.flush_before_ack,
            on_disk_failed=on_disk_failed,
            on_machine_failed=on_machine_failed,
        )
        self.peers = Peers(
            loop,
            f"fencepost-node-{config.node_id}",
            max_response_bytes=config.get("socket.request.max.bytes"),
            backoff_ms=config.get("controller.quorum.retry.backoff.ms"),
        )

    @property
    def image(self) -> ClusterImage:
        """The cluster as far as it is committed."""
        return self.metadata.image

    @property
    def driver(self) -> Driver:
        """Steps the machines."""
        return self.ports.driver

    @property
    def cluster_id(self) -> str:
        """The cluster this node belongs to."""
        return self.storage.cluster_id

    def now_ms(self) -> int:
        """Milliseconds of the monotonic clock: for whatever is waited for."""
        return self.ports.now_ms()

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch: for timestamps and their age."""
        return self.ports.wall_ms()

    def security_of(self, listener: str) -> ListenerSecurity:
        """How the connections of one of this node's listeners are secured. ConfigError."""
        protocol = self.config.protocol_of(listener)
        of = partial(self.settings.for_listener, listener)
        mechanisms = self._mechanisms(of) if protocol.has_sasl else {}
        return ListenerSecurity(listener, session_rules(protocol, of), mechanisms)

    def _mechanisms(self, of: Callable[[str | None], ListenerConfig]) -> dict[str, Any]:
        """What begins logins by SASL. ConfigError."""
        # What a node without SASL never needs, its start can do without.
        from fencepost.broker.security.mechanisms import sasl_mechanisms
        from fencepost.machines.sasl import ScramLookups
        from fencepost.runtime.token_credentials import ImageTokenCredentials

        users, tokens = ImageScramCredentials(lambda: self.image), None
        if (secret := self.config.token_secret) is not None:
            tokens = ImageTokenCredentials(lambda: self.image, secret, self.wall_ms)
        return dict(sasl_mechanisms(of, ScramLookups(users, tokens, self._login_secret)))

    def fail(self, reason: str) -> None:
        """The node cannot go on: it stops in order, with exit code 1."""
        if self.failure is None:
            self.failure = reason = with_advice(reason)
            log.critical("%s", reason)
            notice_s = FAILURE_NOTICE_S if self.is_started else 0
            self.loop.call_later(notice_s, self._end, reason, 1)

    def request_stop(self, reason: str) -> None:
        """Ask for an orderly stop."""
        self._end(reason, 0)

    async def stop_requested(self) -> tuple[str, int]:
        """Wait until somebody wants the node to stop; the reason and the exit code."""
        return await self._stop_reason

    @property
    def is_stopping(self) -> bool:
        """Whether somebody wants the node to stop."""
        return self._stop_reason.done()

    def _end(self, reason: str, code: int) -> None:
        if not self._stop_reason.done():
            self._stop_reason.set_result((reason, code))
