"""The SASL mechanisms of a listener, made of its configuration.

GSSAPI is Kafka's default and is not offered, so a listener with SASL needs
`sasl.enabled.mechanisms`. PLAIN needs users: those of its login module, or a file of them. The
users of SCRAM are in the metadata. OAUTHBEARER needs the keys that tokens are signed with; there is
no way to take unsigned ones.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fencepost.broker.config.listener_config import ListenerConfig
from fencepost.broker.security.jwks import JwksRules, KeySetSource, check_url
from fencepost.broker.security.login_modules import CLASSES, jaas_key, server_module
from fencepost.broker.security.plain_users import (
    FILE_KEY,
    FileUsers,
    JaasUsers,
    PlainUsers,
    UsersFileError,
)
from fencepost.client.jaas import KEY as JAAS_KEY
from fencepost.log.configdef import ConfigError
from fencepost.machines.image import ScramMechanism
from fencepost.machines.sasl import (
    OAUTHBEARER,
    PLAIN,
    ClaimRules,
    OAuthBearerServer,
    PlainServer,
    SaslServer,
    ScramLookups,
    ScramServer,
)

log = logging.getLogger(__name__)

ENABLED_KEY: Final = "sasl.enabled.mechanisms"
OAUTH: Final = "sasl.oauthbearer."
JWKS_KEY: Final = f"{OAUTH}jwks.endpoint.url"
ALLOWED_URLS_KEY: Final = f"fencepost.{OAUTH}allowed.urls"
NONCE_BYTES: Final = 24

ConfigOf = Callable[[str | None], ListenerConfig]
"""Gives the configs of a listener: of one of its mechanisms, or of none."""
NewServer = Callable[[], SaslServer]


def sasl_mechanisms(of: ConfigOf, lookups: ScramLookups) -> dict[str, NewServer]:
    """What begins a login, by mechanism, of a listener with SASL. ConfigError."""
    plain = of(None)
    key = plain.name_of(ENABLED_KEY)
    names = plain.get(ENABLED_KEY)
    if not names:
        raise ConfigError(key, "", f"at least one of {', '.join(CLASSES)}")
    for name in names:
        if name not in CLASSES:
            why = "; GSSAPI (Kerberos) is not offered" if name == "GSSAPI" else ""
            raise ConfigError(key, ",".join(names), f"of {', '.join(CLASSES)}{why}")
    if plain.is_set(JAAS_KEY):
        log.warning(
            "%s is not looked at: login modules are a mechanism's (%s)",
            plain.name_of(JAAS_KEY),
            ", ".join(jaas_key(of(name)) for name in names),
        )
    return {name: _mechanism(name, of(name), lookups) for name in names}


def _mechanism(name: str, config: ListenerConfig, lookups: ScramLookups) -> NewServer:
    module = server_module(config)
    if name == PLAIN:
        users = _plain_users(config, {} if module is None else module.options)
        return lambda: PlainServer(users)
    if name == OAUTHBEARER:
        return _oauthbearer(config)
    mechanism = ScramMechanism.named(name)
    assert mechanism is not None, "the others are SCRAM"
    return lambda: ScramServer(mechanism, lookups, secrets.token_urlsafe(NONCE_BYTES))


def _plain_users(config: ListenerConfig, options: Mapping[str, str]) -> PlainUsers:
    named, path = JaasUsers(options), config.get(FILE_KEY)
    if path is None and not len(named):
        allowed = f'a login module with users (user_NAME="PASSWORD"), or {FILE_KEY}'
        raise ConfigError(jaas_key(config), None, allowed)
    try:
        in_file = None if path is None else FileUsers(Path(path))
    except UsersFileError as error:
        allowed = f"a file of users: {error}"
        raise ConfigError(config.name_of(FILE_KEY), path, allowed) from None
    return PlainUsers(named, in_file)


def _oauthbearer(config: ListenerConfig) -> NewServer:
    rules = ClaimRules(
        audiences=tuple(config.get(f"{OAUTH}expected.audience")),
        issuer=config.get(f"{OAUTH}expected.issuer"),
        clock_skew_s=config.get(f"{OAUTH}clock.skew.seconds"),
        subject_claim=config.get(f"{OAUTH}sub.claim.name"),
        scope_claim=config.get(f"{OAUTH}scope.claim.name"),
    )
    keys = KeySetSource(_jwks_rules(config))
    _check_claim_rules(config, rules)
    try:
        from fencepost.broker.security.access_tokens import TokenValidator

        validator = TokenValidator(keys, rules, lambda: time.time_ns() // 1_000_000)
    except ImportError:
        allowed = "without OAUTHBEARER, or pip install 'fencepost[security]'"
        raise ConfigError(config.name_of(ENABLED_KEY), OAUTHBEARER, allowed) from None
    return lambda: OAuthBearerServer(validator.validate)


def _jwks_rules(config: ListenerConfig) -> JwksRules:
    url, key = config.get(JWKS_KEY), config.name_of(JWKS_KEY)
    if not url:
        raise ConfigError(key, url, "where the keys are that access tokens are signed with")
    wrong = check_url(url)
    if wrong is not None:
        raise ConfigError(key, url, wrong)
    if url not in config.get(ALLOWED_URLS_KEY):
        raise ConfigError(key, url, f"a URL that {ALLOWED_URLS_KEY} has")
    prefix = f"{OAUTH}jwks.endpoint."
    return JwksRules(
        url,
        refresh_ms=config.get(f"{prefix}refresh.ms"),
        retry_ms=config.get(f"{prefix}retry.backoff.ms"),
        retry_max_ms=config.get(f"{prefix}retry.backoff.max.ms"),
    )


def _check_claim_rules(config: ListenerConfig, rules: ClaimRules) -> None:
    """Audience and issuer are checked, unless it is said that they are not to be (as in 4.4)."""
    for is_given, what in ((rules.audiences, "audience"), (rules.issuer, "issuer")):
        opt_out = f"{OAUTH}allow.unverified.{what}"
        if not is_given and not config.get(opt_out):
            key = config.name_of(f"{OAUTH}expected.{what}")
            raise ConfigError(key, None, f"the {what} of tokens, or {opt_out}=true")
