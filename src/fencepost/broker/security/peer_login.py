"""What this node logs in with at other nodes: the login module of the mechanism that it uses there.

    sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256
    listener.name.<listener>.scram-sha-256.sasl.jaas.config=<class> required username="..."
        password="...";

It is the login module that the listener itself has, which every node configures alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fencepost.broker.config.listener_config import ListenerConfig
from fencepost.broker.config.security_protocols import INTER_BROKER_MECHANISM_KEY
from fencepost.broker.config.settings import Settings
from fencepost.broker.security.login_modules import CLASSES, HIDDEN, jaas_key, server_module
from fencepost.client.jaas import LoginModule
from fencepost.client.protocol.oauthbearer import MECHANISM as OAUTHBEARER, TokenSource
from fencepost.client.security import Security
from fencepost.log.configdef import ConfigError

CONTROLLER_KEY: Final = "sasl.mechanism.controller.protocol"
ENABLED_KEY: Final = "sasl.enabled.mechanisms"
OAUTH: Final = "sasl.oauthbearer."
UNSECURED: Final = "unsecuredLogin"


def peer_login(security: Security, settings: Settings, listener: str) -> Security:
    """`security` with what logs in at other nodes' listeners of this name. ConfigError."""
    if not security.uses_sasl:
        return security
    key = mechanism_key(settings, listener)
    mechanism = settings.get(key)
    if mechanism not in CLASSES:
        why = "; GSSAPI (Kerberos) is not offered" if mechanism == "GSSAPI" else ""
        raise ConfigError(key, mechanism, f"one of {', '.join(CLASSES)}{why}")
    config = settings.for_listener(listener, mechanism)
    module = server_module(config)
    if mechanism == OAUTHBEARER:
        return replace(security, mechanism=mechanism, tokens=_token_source(config, module))
    options = {} if module is None else module.options
    if not options.get("username") or not options.get("password"):
        allowed = f'a login module with username="..." and password="...", because {key} says so'
        raise ConfigError(jaas_key(config), HIDDEN if options else None, allowed)
    return replace(
        security,
        mechanism=mechanism,
        username=options["username"],
        password=options["password"],
    )


def unsafe_quorum_login(settings: Settings) -> str | None:
    """Why the quorum of this controller may be without a leader for ever; None if it may not.

    Users of SCRAM are in the metadata, which controllers know once they have a leader: those of a
    quorum that start together cannot log in at each other to elect one. So it is with Apache Kafka.
    """
    part = settings.startup.quorum
    mechanism = settings.get(CONTROLLER_KEY)
    if part.is_lone or not part.is_controller or not part.listener_names:
        return None
    protocol = settings.startup.protocol_of(part.listener_names[0])
    if not protocol.has_sasl or not mechanism.startswith("SCRAM"):
        return None
    return (
        f"{CONTROLLER_KEY}={mechanism}: controllers that start together cannot log in at each other"
        " by SCRAM, as they know its users only once they have elected a leader; PLAIN, OAUTHBEARER"
        " and client certificates (SSL) do"
    )


def mechanism_key(settings: Settings, listener: str) -> str:
    """The key that says by which mechanism this node logs in at a listener."""
    is_controllers = listener in settings.startup.quorum.listener_names
    return CONTROLLER_KEY if is_controllers else INTER_BROKER_MECHANISM_KEY


def check_peer_mechanism(settings: Settings, listener: str) -> None:
    """Whether this node's own listener lets in what its peers log in by. ConfigError."""
    key = mechanism_key(settings, listener)
    enabled = settings.for_listener(listener).get(ENABLED_KEY)
    if settings.get(key) not in enabled:
        allowed = f"one of {ENABLED_KEY}={','.join(enabled)} of listener {listener}"
        raise ConfigError(key, settings.get(key), allowed)


def _token_source(config: ListenerConfig, module: LoginModule | None) -> TokenSource:
    options = {} if module is None else module.options
    if any(name.startswith(UNSECURED) for name in options):
        raise ConfigError(jaas_key(config), HIDDEN, "a source of signed tokens")
    secret = config.get(f"{OAUTH}client.credentials.client.secret")
    source = TokenSource(
        endpoint_url=config.get(f"{OAUTH}token.endpoint.url"),
        oauth_client_id=config.get(f"{OAUTH}client.credentials.client.id")
        or options.get("clientId"),
        client_secret=secret or options.get("clientSecret"),
        scope=config.get(f"{OAUTH}scope") or options.get("scope"),
        login_backoff_ms=config.get("sasl.login.retry.backoff.ms"),
        login_backoff_max_ms=config.get("sasl.login.retry.backoff.max.ms"),
    )
    missing = source.missing()
    if missing is not None:
        raise ConfigError(config.name_of(f"{OAUTH}token.endpoint.url"), None, f"given: {missing}")
    return source
