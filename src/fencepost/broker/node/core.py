"""What the parts of a node share: configs, clocks, ports, metadata, and how they end the node."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fencepost.broker.cluster.controller_channel import ControllerChannel
from fencepost.broker.cluster.peers import Peers
from fencepost.broker.cluster.quorum_channel import QuorumChannel
from fencepost.broker.config.authorizer import authorizer_policy
from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
from fencepost.broker.config.file_limit import FileShares, file_limit, share_files
from fencepost.broker.config.listener_config import ListenerConfig
from fencepost.broker.config.security_protocols import PROTOCOLS_KEY
from fencepost.broker.config.settings import Settings
from fencepost.broker.loop.ports import AsyncPorts
from fencepost.broker.net.listener_security import ListenerSecurity, session_rules
from fencepost.broker.net.log_limit import ClientWarnings, LogLimit
from fencepost.broker.storage.storage import Storage
from fencepost.log.errors import with_advice
from fencepost.machines.driver import Driver
from fencepost.machines.image import ClusterImage
from fencepost.machines.session import SecurityProtocol
from fencepost.runtime.clock import Clocks
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.registrations import Registrations
from fencepost.runtime.requests.access import Access

if TYPE_CHECKING:
    from fencepost.broker.security.server_tls import ServerTls
    from fencepost.client.security import Security
    from fencepost.runtime.authorizer import NodeAuthorizer

log = logging.getLogger(__name__)

FAILURE_NOTICE_S: Final = 0.5
"""How long clients have to read that the storage failed, before the node stops."""


def make_authorizer(config: BrokerConfig, clocks: Clocks) -> NodeAuthorizer | None:
    """The authorizer that the node is configured to have."""
    policy = authorizer_policy(config.get)
    if policy is None:
        return None
    # What a node without an authorizer never needs, its start can do without.
    from fencepost.machines.authorizer import AclAuthorizer
    from fencepost.runtime.authorizer import NodeAuthorizer

    return NodeAuthorizer(AclAuthorizer(policy), clocks, LogLimit().admit)


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
        self.client_warnings = ClientWarnings()
        """Tells once of each client that wants what is not offered."""
        self._login_secret = os.urandom(32)
        """What salts of users that do not exist are made of, where nodes share no secret."""
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
        self.authorizer = make_authorizer(config, self.ports)
        """What decides what clients may do; None: they may do everything."""
        self._access_loaded = asyncio.Event()
        if self.authorizer is not None:
            self.authorizer.on_loaded = self._access_loaded.set
        self.access = Access(self.authorizer)
        """What clients may do."""
        names = config.quorum.listener_names
        self.controllers = self._peers_at(names[0] if names else None)
        """The way to controllers, by their first listener."""
        self.brokers = self._peers_at(config.inter_broker_listener)
        """The way to brokers, by the listener that they use among themselves."""

    def _peers_at(self, listener: str | None) -> Peers:
        return Peers(
            self.loop,
            f"fencepost-node-{self.config.node_id}",
            max_response_bytes=self.config.get("socket.request.max.bytes"),
            backoff_ms=self.config.get("controller.quorum.retry.backoff.ms"),
            security=partial(self.peer_security, listener),
        )

    @property
    def access_ready(self) -> Callable[[], Awaitable[object]] | None:
        """Waits until the ACLs are loaded; None where nothing has to wait for them. Listeners that
        are not `early.start.listeners` serve no client before (KIP-801)."""
        if self.authorizer is None or self._access_loaded.is_set():
            return None
        return self._access_loaded.wait

    def _check_own_login(self, listener: str, protocol: SecurityProtocol) -> None:
        """Where nodes connect to this listener: by what they all log in. ConfigError.

        To a lone node none connects. What it says of brokers' logins has to fit all the same, as in
        Kafka, so that it can be trusted when there are more.
        """
        config = self.config
        is_brokers = listener == config.inter_broker_listener
        is_lone = config.quorum.is_lone
        if not protocol.has_sasl or (is_lone and not (is_brokers and config.names_inter_broker)):
            return
        if is_brokers or listener in config.quorum.listener_names[:1]:
            from fencepost.broker.security.peer_login import check_peer_mechanism

            check_peer_mechanism(self.settings, listener)
            if not is_lone:
                self.peer_security(listener)

    def close_peers(self) -> None:
        """Disconnect from the other nodes."""
        self.controllers.close()
        self.brokers.close()

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
        """How the connections of one of this node's listeners are secured; its files are read.

        ConfigError if they cannot be used.
        """
        protocol = self.config.protocol_of(listener)
        of = partial(self.settings.for_listener, listener)
        mechanisms = self._mechanisms(of) if protocol.has_sasl else {}
        self._check_own_login(listener, protocol)
        tls = self._tls(of(None), protocol) if protocol.has_tls else None
        timeout_ms = of(None).get("fencepost.sasl.login.timeout.ms")
        return ListenerSecurity(listener, session_rules(protocol, of), mechanisms, tls, timeout_ms)

    def _tls(self, config: ListenerConfig, protocol: SecurityProtocol) -> ServerTls:
        from fencepost.broker.security.server_tls import check_own_trust, server_tls

        tls = server_tls(config, protocol)
        if config.listener == self.config.inter_broker_listener and not self.config.quorum.is_lone:
            check_own_trust(config, tls)
        return tls

    def peer_security(self, listener: str | None) -> Security | None:
        """How connections to other nodes' listeners of this name are secured; None for not at
        all. ConfigError."""
        try:
            protocol = SecurityProtocol.PLAINTEXT
            if listener is not None:
                protocol = self.config.protocol_of(listener)
        except KeyError:
            allowed = f"a map with {listener}:PROTOCOL in it"
            raise ConfigError(PROTOCOLS_KEY, self.config.get(PROTOCOLS_KEY), allowed) from None
        if listener is None or protocol is SecurityProtocol.PLAINTEXT:
            return None
        # What a node without SASL and TLS never needs, its start can do without.
        from fencepost.broker.security.peer_security import peer_security

        return peer_security(self.settings, listener)

    def _mechanisms(self, of: Callable[[str | None], ListenerConfig]) -> dict[str, Any]:
        """What begins logins by SASL. ConfigError."""
        # What a node without SASL never needs, its start can do without.
        from fencepost.broker.security.mechanisms import sasl_mechanisms
        from fencepost.machines.sasl import ScramLookups
        from fencepost.runtime.credentials import ImageScramCredentials
        from fencepost.runtime.token_credentials import ImageTokenCredentials

        users, tokens = ImageScramCredentials(lambda: self.image), None
        salts = self._login_secret
        if (secret := self.config.token_secret) is not None:
            tokens = ImageTokenCredentials(lambda: self.image, secret, self.wall_ms)
            salts = secret.key_of_salts
        return dict(sasl_mechanisms(of, ScramLookups(users, tokens, salts, users.iterations)))

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
        """Wait until the node is to stop; the reason and the exit code."""
        return await self._stop_reason

    @property
    def is_stopping(self) -> bool:
        """Whether the node is to stop."""
        return self._stop_reason.done()

    def _end(self, reason: str, code: int) -> None:
        if not self._stop_reason.done():
            self._stop_reason.set_result((reason, code))
