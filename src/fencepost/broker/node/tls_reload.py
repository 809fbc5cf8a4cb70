"""New certificates without a restart: on SIGHUP, and when a broker's configs are altered.

The key files of each TLS listener are read again, also under the same path, and hold for new
connections; those that are open stay as they are. What cannot be used is an error in the log and
changes nothing. On the listener that brokers use among themselves a new certificate has to be the
same node's, as in Kafka: its subject is the same and its alternative names are there, unless
`ssl.allow.dn.changes` or `ssl.allow.san.changes` says otherwise. And it has to be one that the
other nodes take, as far as the trust stores of this one tell: the one in use verifies the new
certificate, and the new one that in use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from fencepost.broker.config.keys import tls
from fencepost.broker.config.listener_config import ListenerConfig
from fencepost.broker.config.prefixed_keys import PREFIX, base_key
from fencepost.broker.net.listener import Listener
from fencepost.broker.net.listener_security import ListenerSecurity
from fencepost.broker.node.core import NodeCore
from fencepost.broker.security.server_tls import ServerTls, check_own_trust, server_tls
from fencepost.log.configdef import ConfigError
from fencepost.machines.image import ClusterImage, ImageDelta

log = logging.getLogger(__name__)

_TLS_KEYS: Final = frozenset(definition.name for definition in tls.KEYS)


class TlsReload:
    """See the module."""

    def __init__(self, core: NodeCore, listeners: Iterable[Listener]) -> None:
        self._core = core
        self._listeners = tuple(listeners)
        core.settings.add_check(_TLS_KEYS, self._check)

    def warn_of_expired(self) -> None:
        """A line in the log for each listener whose certificate has expired."""
        for listener in self._listeners:
            for name, present in listener.securities.items():
                self._warn_of_expiry(name, present)

    def reload(self) -> None:
        """Read the files of all TLS listeners again."""
        for listener in self._listeners:
            for name, present in list(listener.securities.items()):
                if present.tls is not None:
                    self._reload_one(listener, name, present)

    def image_changed(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Reload if a record of this broker's own configs was written, of whatever value, and a
        listener has TLS keys there. Images share the configs that nothing was written of."""
        own_id = self._core.config.node_id
        before, now = delta.old.broker_configs(own_id), image.broker_configs(own_id)
        if before is not now and any(
            key.startswith(PREFIX) and base_key(key) in _TLS_KEYS for key in {**before, **now}
        ):
            self.reload()

    def _reload_one(self, listener: Listener, name: str, present: ListenerSecurity) -> None:
        assert present.tls is not None
        try:
            made = self._core.security_of(name)
            assert made.tls is not None, "a listener does not change its protocol"
            self._check_subject(self._core.settings.for_listener(name), present.tls, made.tls)
        except ConfigError as error:
            log.error("listener %s keeps its certificate: %s", name, error)
            return
        listener.securities[name] = made
        log.info(
            "listener %s has read its key files again; new connections are shown the certificate"
            " of %s, good until %s",
            name,
            made.tls.subject.distinguished_name or "an empty subject",
            made.tls.subject.good_until.date(),
        )
        self._warn_of_expiry(name, made)

    def _warn_of_expiry(self, name: str, security: ListenerSecurity) -> None:
        if security.tls is None:
            return
        until = security.tls.subject.good_until
        if until.timestamp() * 1000 < self._core.wall_ms():
            log.warning(
                "the certificate of listener %s expired at %s: clients refuse it", name, until
            )

    def _check(self, of: Callable[[str], ListenerConfig]) -> None:
        """Refuse configs that a TLS listener could not use. ConfigError."""
        for listener in self._listeners:
            for name, present in listener.securities.items():
                if present.tls is not None:
                    made = server_tls(of(name), present.rules.protocol)
                    self._check_subject(of(name), present.tls, made)

    def _check_subject(self, config: ListenerConfig, old: ServerTls, new: ServerTls) -> None:
        if config.listener.upper() != self._core.config.inter_broker_listener:
            return
        if not self._core.config.quorum.is_lone:
            check_own_trust(config, new, old)
        key = config.name_of("ssl.keystore.location")
        before, after = old.subject, new.subject
        if before.distinguished_name != after.distinguished_name and not config.get(
            "ssl.allow.dn.changes"
        ):
            raise ConfigError(
                key,
                after.distinguished_name,
                f"a certificate of {before.distinguished_name!r}, or ssl.allow.dn.changes=true",
            )
        if not before.alternative_names <= after.alternative_names and not config.get(
            "ssl.allow.san.changes"
        ):
            raise ConfigError(
                key,
                after.distinguished_name,
                "a certificate with the alternative names of the present one, or"
                " ssl.allow.san.changes=true",
            )
