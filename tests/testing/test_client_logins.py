"""The same login in the words of each client library."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fencepost.client.config import ClientConfig
from fencepost.testing.client_logins import ClientLogin

SCRAM = "SCRAM-SHA-512"
PASSWORD = 'say "x"; \\ =#'


def test_our_client_reads_the_properties_of_javas():
    login = ClientLogin("h:9092", "SASL_SSL", SCRAM, "ada", PASSWORD, ca_file=Path("ca.pem"))
    security = ClientConfig.from_props(login.properties()).security
    assert (security.protocol, security.mechanism) == ("SASL_SSL", SCRAM)
    assert (security.username, security.password) == ("ada", PASSWORD)
    assert (security.ca_file, security.token_authenticated) == ("ca.pem", False)
    assert PASSWORD not in repr(login)


def test_a_properties_file_is_read_back(tmp_path: Path):
    from fencepost.log.properties import parse_properties

    login = ClientLogin("h:9092", "SASL_PLAINTEXT", "PLAIN", "ada", PASSWORD)
    text = login.properties_text()
    read = {key: value for _, key, value in parse_properties("client", text)}
    assert read == login.properties()
    assert ClientConfig.from_props(read).security.password == PASSWORD


def test_a_delegation_token_is_said_to_be_one():
    login = ClientLogin("h:1", "SASL_PLAINTEXT", SCRAM, "id", "x", is_delegation_token=True)
    assert ClientConfig.from_props(login.properties()).security.token_authenticated


def test_a_client_without_login_says_nothing_about_one():
    login = ClientLogin("h:1", "PLAINTEXT")
    assert login.properties() == {"bootstrap.servers": "h:1", "security.protocol": "PLAINTEXT"}
    assert login.confluent() == login.properties()
    assert login.aiokafka() == {"bootstrap_servers": "h:1", "security_protocol": "PLAINTEXT"}
    assert login.spark_options()["kafka.security.protocol"] == "PLAINTEXT"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", SCRAM, "OAUTHBEARER"])
def test_other_clients_take_their_configurations(mechanism: str, tmp_path: Path):
    pytest.importorskip("cryptography")
    confluent_kafka = pytest.importorskip("confluent_kafka")
    from fencepost.testing.certificates import CertificateAuthority

    authority = CertificateAuthority()
    shown = {"username": "ada", "password": PASSWORD}
    if mechanism == "OAUTHBEARER":
        pytest.importorskip("aiokafka")
        pytest.importorskip("kafka")
        shown = {"token": "a.b.c"}
    login = ClientLogin(
        "127.0.0.1:1",
        "SASL_SSL",
        mechanism,
        **shown,
        ca_file=authority.write(tmp_path),
        certificate_file=authority.issue("ada").write(tmp_path),
    )
    confluent_kafka.Producer(login.confluent())  # it refuses what it does not know
    arguments = login.kafka_python()
    assert arguments["sasl_mechanism"] == mechanism
    assert arguments["ssl_context"].get_ca_certs()[0]["subject"]
    if mechanism == "OAUTHBEARER":
        assert arguments["sasl_oauth_token_provider"].token() == "a.b.c"
        assert asyncio.run(login.aiokafka()["sasl_oauth_token_provider"].token()) == "a.b.c"
        assert login.confluent()["oauth_cb"]("")[0] == "a.b.c"


def test_an_access_token_is_read_from_its_file_by_clients_that_read_properties(tmp_path: Path):
    path = tmp_path / "ada.jwt"
    path.write_text("a.b.c")
    login = ClientLogin("h:1", "SASL_SSL", "OAUTHBEARER", token="a.b.c", token_file=path)
    tokens = ClientConfig.from_props(login.properties()).security.tokens
    assert tokens is not None and tokens.endpoint_url == path.as_uri()
    handler = login.properties()["sasl.login.callback.handler.class"]
    assert handler.endswith(".OAuthBearerLoginCallbackHandler"), "Java's default makes up tokens"
    assert "a.b.c" not in repr(login)
    with pytest.raises(ValueError, match="a file or an endpoint"):
        ClientLogin("h:1", "SASL_SSL", "OAUTHBEARER", token="a.b.c").properties()
