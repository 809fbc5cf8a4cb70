"""Brokers' own listener keeps its subject when its certificate changes, unless it may change."""

import time
from types import SimpleNamespace

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.settings import Settings
from fencepost.broker.net.listener_security import ListenerSecurity, session_rules
from fencepost.broker.node.tls_reload import TlsReload
from fencepost.broker.security.server_tls import server_tls
from fencepost.log.configdef import ConfigError
from fencepost.testing.certificates import CertificateAuthority

CA = CertificateAuthority()
HOSTS = ("localhost", "127.0.0.1")
LOCATION = "listener.name.ssl.ssl.keystore.location"


class Core:
    """As much of a node as reloads look at."""

    def __init__(self, keys):
        self.config = BrokerConfig.load(None, {"listeners": "SSL://127.0.0.1:0", **keys})
        self.settings = Settings(self.config)

    def wall_ms(self):
        return time.time_ns() // 1_000_000

    def security_of(self, name):
        protocol = self.config.protocol_of(name)
        config = self.settings.for_listener(name)
        rules = session_rules(protocol, lambda one: self.settings.for_listener(name, one))
        return ListenerSecurity(name, rules, {}, server_tls(config, protocol))


def begin(tmp_path, **keys):
    path = CA.issue("one", hosts=HOSTS).write(tmp_path)
    more = {name.replace("_", "."): text for name, text in keys.items()}
    own = {"listener.name.ssl.ssl.keystore.type": "PEM", LOCATION: str(path), **more}
    core = Core(own)
    listener = SimpleNamespace(securities={"SSL": core.security_of("SSL")})
    return path, core, listener, TlsReload(core, [listener])


@pytest.mark.parametrize(
    ("name", "hosts", "allowed", "is_taken"),
    [
        ("one", HOSTS, {}, True),
        ("one", (*HOSTS, "b.example"), {}, True),
        ("one", HOSTS[:1], {}, False),
        ("one", HOSTS[:1], {"ssl_allow_san_changes": "true"}, True),
        ("two", HOSTS, {}, False),
        ("two", HOSTS, {"ssl_allow_dn_changes": "true"}, True),
        ("two", (), {"ssl_allow_dn_changes": "true"}, False),
    ],
)
def test_which_certificate_replaces_another(tmp_path, name, hosts, allowed, is_taken):
    path, core, listener, reload = begin(tmp_path, **allowed)
    before = listener.securities["SSL"]
    CA.issue(name, hosts=hosts).write(tmp_path).replace(path)
    reload.reload()
    assert (listener.securities["SSL"] is not before) == is_taken
    values = {LOCATION: str(path)}
    if is_taken:
        core.settings.check_listeners(values, values)
    else:
        with pytest.raises(ConfigError, match=r"ssl\.allow"):
            core.settings.check_listeners(values, values)


def test_what_cannot_be_read_changes_nothing(tmp_path):
    path, core, listener, reload = begin(tmp_path)
    before = listener.securities["SSL"]
    path.write_text("")
    reload.reload()
    assert listener.securities["SSL"] is before
    with pytest.raises(ConfigError, match="No such file"):
        core.settings.check_listeners([LOCATION], {LOCATION: "/no/such"})
    core.settings.check_listeners(["max.connections"], {"max.connections": 1})
