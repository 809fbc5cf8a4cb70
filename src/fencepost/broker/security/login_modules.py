"""The login modules of a listener: what `sasl.jaas.config` says to a broker.

    listener.name.<listener>.<mechanism>.sasl.jaas.config=<class> required key="value" ...;

There are three classes, one for each kind of mechanism, and no other is loaded: what a class of an
attacker's choice does when it is made was CVE-2023-25194. `user_<name>="<password>"` are the users
of PLAIN; `username` and `password` are what the broker itself logs in with at other nodes.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.listener_config import ListenerConfig
from fencepost.broker.config.prefixed_keys import prefixed
from fencepost.client.errors import ConfigError as ClientConfigError
from fencepost.client.jaas import KEY, LoginModule, login_module
from fencepost.log.configdef import ConfigError

HIDDEN: Final = "..."
"""In place of a text that has secrets."""
_PACKAGE: Final = "org.apache.kafka.common.security."
_SCRAM: Final = f"{_PACKAGE}scram.ScramLoginModule"
CLASSES: Final = {
    "PLAIN": f"{_PACKAGE}plain.PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    "OAUTHBEARER": f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule",
}
"""By mechanism; these mechanisms are the ones that are offered."""


def jaas_key(config: ListenerConfig) -> str:
    """The key that holds the login module of a listener's mechanism."""
    return prefixed(KEY, config.listener, config.mechanism)


def server_module(config: ListenerConfig) -> LoginModule | None:
    """The login module of a listener's mechanism; None if none is configured. ConfigError.

    A text for all mechanisms or all listeners is not looked at, as in Kafka.
    """
    key = jaas_key(config)
    if config.name_of(KEY) != key:
        return None
    try:
        module = login_module(config.get(KEY))
    except ClientConfigError as error:
        raise ConfigError(key, HIDDEN, str(error.allowed)) from None
    assert config.mechanism is not None, "a login module is a mechanism's"
    wanted = CLASSES[config.mechanism]
    if module.class_name != wanted:
        shown = module.class_name[:100]
        raise ConfigError(key, HIDDEN, f"the class {wanted}, and not {shown}")
    return module
