"""Brokers' own listener keeps its subject when its certificate changes, unless it may change."""

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.settings import Settings
from fencepost.broker.net.listener_security import ListenerSecurity, session_rules
from fencepost.broker.node.tls_reload import TlsReload
from fencepost.broker.security.server_tls import check_own_trust, server_tls
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


def begin(tmp_path, certificate=None, **keys):
    path = (certificate or CA.issue("one", hosts=HOSTS)).write(tmp_path)
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


# -- trust between nodes ---------------------------------------------------------------------------

OTHER = CertificateAuthority("another authority")
TRUST = "listener.name.ssl.ssl.truststore.location"
OF_SEVERAL = {
    "process.roles": "broker",
    "node.id": "2",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
}


def begin_with_trust(tmp_path, *authorities, certificate=None, **keys):
    """A node of several, that trusts these."""
    trust = tmp_path / "trusted.pem"
    trust.write_text("".join(one.certificate_pem for one in authorities))
    several = {name.replace(".", "_"): text for name, text in OF_SEVERAL.items()}
    of_trust = {"listener_name_ssl_ssl_truststore_type": "PEM", TRUST.replace(".", "_"): str(trust)}
    return trust, *begin(tmp_path, certificate, **several, **of_trust, **keys)


def expired(authority, name="one"):
    start = datetime.now(UTC) - timedelta(days=3)
    return authority.issue(name, hosts=HOSTS, valid_from=start, valid_for=timedelta(days=1))


@pytest.mark.parametrize("client_auth", ["none", "required"])
@pytest.mark.parametrize("protocols", ["TLSv1.2", "TLSv1.3", "TLSv1.2,TLSv1.3"])
def test_a_certificate_that_other_nodes_would_refuse_is_not_taken(tmp_path, client_auth, protocols):
    settings = {"ssl_client_auth": client_auth, "ssl_enabled_protocols": protocols}
    _, path, core, listener, reload = begin_with_trust(tmp_path, CA, **settings)
    before = listener.securities["SSL"]
    for refused in (OTHER.issue("one", hosts=HOSTS), expired(CA)):
        refused.write(tmp_path)
        reload.reload()
        assert listener.securities["SSL"] is before
        with pytest.raises(ConfigError, match=r"keystore\.location.*trust store verifies"):
            core.settings.check_listeners([LOCATION], {LOCATION: str(path)})
    CA.issue("one", hosts=HOSTS).write(tmp_path)
    reload.reload()
    assert listener.securities["SSL"] is not before


def test_an_authority_is_replaced_in_three_steps(tmp_path):
    trust, _, _, listener, reload = begin_with_trust(tmp_path, CA)

    def is_taken():
        before = listener.securities["SSL"]
        reload.reload()
        return listener.securities["SSL"] is not before

    trust.write_text(OTHER.certificate_pem)
    assert not is_taken(), "nodes with the certificate in use would be refused"
    trust.write_text(CA.certificate_pem + OTHER.certificate_pem)
    assert is_taken()
    OTHER.issue("one", hosts=HOSTS).write(tmp_path)
    assert is_taken()
    trust.write_text(OTHER.certificate_pem)
    assert is_taken()


def test_an_expired_certificate_can_be_replaced(tmp_path):
    _, _, _, listener, reload = begin_with_trust(tmp_path, CA, certificate=expired(CA))
    before = listener.securities["SSL"]
    CA.issue("one", hosts=HOSTS).write(tmp_path)
    reload.reload()
    assert listener.securities["SSL"] is not before


def test_a_certificate_that_the_own_trust_store_does_not_verify_is_refused_at_the_start(tmp_path):
    for certificate, is_refused in (
        (OTHER.issue("one", hosts=HOSTS), True),
        (CA.issue("one", hosts=HOSTS), False),
        (expired(CA), False),
    ):
        _, _, core, listener, _ = begin_with_trust(tmp_path, CA, certificate=certificate)
        config, made = core.settings.for_listener("SSL"), listener.securities["SSL"].tls
        if is_refused:
            with pytest.raises(ConfigError, match=r"keystore\.location.*self|issuer"):
                check_own_trust(config, made)
        else:
            check_own_trust(config, made)
