"""The secured node of docs/MIGRATING.md is configured as the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.settings import Settings
from fencepost.broker.security.peer_login import unsafe_quorum_login
from fencepost.broker.security.peer_security import peer_security
from fencepost.log.properties import parse_properties
from fencepost.testing.certificates import CertificateAuthority

PAGE = Path(__file__).resolve().parents[3] / "docs" / "MIGRATING.md"
STORES = ("server.keystore.jks", "server.truststore.jks")


def test_kafkas_own_configuration_is_taken_unchanged(tmp_path: Path):
    block = PAGE.read_text().partition("```properties\n")[2].partition("```")[0]
    authority = CertificateAuthority()
    made = authority.issue("node").write_pkcs12(tmp_path, "test1234", authority.certificate_pem)
    for name in STORES:
        assert f"/var/private/ssl/{name}" in block
        (tmp_path / name).write_bytes(made.read_bytes())
        (tmp_path / name).chmod(0o600)
    text = block.replace("/var/private/ssl", str(tmp_path)).replace("host.name", "127.0.0.1")
    keys = {key: value for _, key, value in parse_properties("page", text)}
    settings = Settings(BrokerConfig.load(None, keys))
    security = peer_security(settings, "SASL_SSL")
    assert (security.protocol, security.mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (security.username, security.password) == ("admin", "admin-secret")
    assert authority.certificate_pem in (security.ca_pem or "")


@pytest.mark.parametrize(
    ("protocol", "mechanism", "is_told"),
    [
        ("SASL_SSL", "SCRAM-SHA-512", True),
        ("SASL_SSL", "PLAIN", False),
        ("SSL", "SCRAM-SHA-512", False),
    ],
)
def test_controllers_that_would_log_in_by_scram_are_told_of(
    protocol: str, mechanism: str, is_told: bool
):
    keys = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095",
        "listener.security.protocol.map": f"CONTROLLER:{protocol}",
        "sasl.mechanism.controller.protocol": mechanism,
    }
    told = unsafe_quorum_login(Settings(BrokerConfig.load(None, keys)))
    assert (told is not None) == is_told
    assert not is_told or mechanism in str(told)
