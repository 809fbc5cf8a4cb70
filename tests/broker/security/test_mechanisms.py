"""What a listener's configuration makes of its mechanisms, and what is refused at the start."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
from fencepost.broker.config.settings import Settings
from fencepost.broker.security.mechanisms import sasl_mechanisms
from fencepost.broker.security.peer_login import check_peer_mechanism, peer_login
from fencepost.client.security import Security
from fencepost.machines.sasl import Challenge, ScramLookups

from ...machines.sasl.lookups import Users
from ..conftest import RunningNode

PACKAGE = "org.apache.kafka.common.security"
PLAIN_KEY = "listener.name.in.plain.sasl.jaas.config"
PLAIN = f'{PACKAGE}.plain.PlainLoginModule required user_ada="planted-secret";'
OAUTH = "listener.name.in.oauthbearer.sasl.oauthbearer"
MAP = "listener.security.protocol.map"
BASE = {
    "node.id": "1",
    "listeners": "IN://127.0.0.1:0",
    MAP: "IN:SASL_PLAINTEXT",
}


def config(**more: str) -> BrokerConfig:
    return BrokerConfig.load(None, {**BASE, **more})


def mechanisms(texts: dict[str, str]) -> dict[str, Any]:
    of = partial(config(**texts).for_listener, "IN")
    return sasl_mechanisms(of, ScramLookups(Users({})))


def test_each_login_by_scram_has_a_nonce_that_cannot_be_guessed():
    new_server = mechanisms({"sasl.enabled.mechanisms": "SCRAM-SHA-256"})["SCRAM-SHA-256"]
    nonces = set()
    for _ in range(10):
        challenge = new_server().step(b"n,,n=user,r=abc")
        assert isinstance(challenge, Challenge)
        nonces.add(challenge.token.removeprefix(b"r=abc").partition(b",")[0])
    assert len(nonces) == 10
    assert min(map(len, nonces)) >= 24, "of 64 letters: more than 128 bits"


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({}, "sasl.enabled.mechanisms='GSSAPI' .*GSSAPI .Kerberos. is not offered"),
        ({"sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}, "PLAIN, SCRAM-SHA-256"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, f"{PLAIN_KEY}=None is not allowed: a login module"),
        ({"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": PLAIN}, "a login module with"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", PLAIN_KEY: PLAIN.replace("Plain", "Evil")},
            "the class .*PlainLoginModule, and not .*EvilLoginModule",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                PLAIN_KEY: "com.sun.security.auth.module.JndiLoginModule required"
                ' user.provider.url="ldap://evil" user_a="b";',
            },
            "and not com.sun.security.auth.module.JndiLoginModule",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", PLAIN_KEY: PLAIN + PLAIN},
            "one login module",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "fencepost.sasl.plain.users.file": "/nowhere",
            },
            "users.file='/nowhere' is not allowed: a file of users: it cannot be read",
        ),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "jwks.endpoint.url=None"),
    ],
)
def test_what_cannot_be_is_refused_by_key(texts: dict[str, str], said: str):
    with pytest.raises(ConfigError, match=said) as caught:
        mechanisms(texts)
    assert "planted-secret" not in str(caught.value)


def oauth(url: str, **more: str) -> dict[str, str]:
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{OAUTH}.jwks.endpoint.url": url,
        "fencepost.sasl.oauthbearer.allowed.urls": "file:///keys,http://elsewhere/keys",
        **more,
    }


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (oauth("http://elsewhere/keys"), "https or file"),
        (oauth("file:///other"), "allowed.urls"),
        (oauth("file:///keys"), "expected.audience.*allow.unverified.audience=true"),
        (
            oauth("file:///keys", **{f"{OAUTH}.expected.audience": "kafka"}),
            "expected.issuer.*allow.unverified.issuer=true",
        ),
    ],
)
def test_tokens_need_keys_and_what_they_are_held_against(texts: dict[str, str], said: str):
    pytest.importorskip("joserfc")
    with pytest.raises(ConfigError, match=said):
        mechanisms(texts)


def test_claims_may_be_left_unchecked_if_that_is_said():
    pytest.importorskip("joserfc")
    opted_out = {f"{OAUTH}.allow.unverified.{one}": "true" for one in ("audience", "issuer")}
    assert list(mechanisms(oauth("file:///keys", **opted_out))) == ["OAUTHBEARER"]


def test_a_module_of_a_mechanism_is_looked_at_alone(caplog: pytest.LogCaptureFixture):
    texts = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        PLAIN_KEY: PLAIN,
        "sasl.jaas.config": "anything",
    }
    assert list(mechanisms(texts)) == ["PLAIN", "SCRAM-SHA-512"]
    assert "sasl.jaas.config is not looked at" in caplog.text
    assert "anything" not in caplog.text


# -- this node's own login -----------------------------------------------------------------


def own_login(**more: str) -> Security:
    settings = Settings(config(**more))
    return peer_login(Security("SASL_PLAINTEXT"), settings, "IN")


def test_a_node_logs_in_as_its_login_module_says():
    module = f'{PACKAGE}.scram.ScramLoginModule required username="n" password="p;\\"";'
    security = own_login(
        **{
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.in.scram-sha-512.sasl.jaas.config": module,
        }
    )
    assert (security.mechanism, security.username, security.password) == (
        *("SCRAM-SHA-512", "n", 'p;"'),
    )
    assert "p;" not in repr(security)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({}, "sasl.mechanism.inter.broker.protocol='GSSAPI'.*not offered"),
        (
            {"sasl.mechanism.inter.broker.protocol": "PLAIN", PLAIN_KEY: PLAIN},
            f"{PLAIN_KEY}.*username=.*because sasl.mechanism.inter.broker.protocol says so",
        ),
        (
            {"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"},
            "sasl.oauthbearer.token.endpoint.url",
        ),
    ],
)
def test_a_login_of_its_own_that_cannot_be(texts: dict[str, str], said: str):
    with pytest.raises(ConfigError, match=said) as caught:
        own_login(**texts)
    assert "planted-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "option", ["unsecuredLoginStringClaim_sub", "unsecuredLoginPrincipalClaimName"]
)
def test_a_node_logs_in_by_signed_tokens_alone(option: str):
    """Though it has a source of tokens, too: which of both counts is not for us to choose."""
    key = "listener.name.in.oauthbearer.sasl.jaas.config"
    module = f'{PACKAGE}.oauthbearer.OAuthBearerLoginModule required {option}="planted-secret";'
    source = {
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "file:///tmp/token",
    }
    assert own_login(**source).mechanism == "OAUTHBEARER"
    with pytest.raises(ConfigError, match="a source of signed tokens") as caught:
        own_login(**source, **{key: module})
    assert "planted-secret" not in str(caught.value)


def test_what_peers_log_in_by_is_enabled():
    texts = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    }
    with pytest.raises(ConfigError, match=r"one of sasl\.enabled\.mechanisms=PLAIN of listener IN"):
        check_peer_mechanism(Settings(config(**texts)), "IN")


def test_a_node_that_cannot_let_anybody_in_does_not_start(tmp_path: Path):
    from fencepost.broker.node.node import StartError

    with pytest.raises(StartError, match="GSSAPI"):
        RunningNode(tmp_path / "data", {**BASE, "inter.broker.listener.name": "IN"})


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "SCRAM-SHA-256"),
        ({"inter.broker.listener.name": "IN"}, "GSSAPI"),
        ({"security.inter.broker.protocol": "SASL_PLAINTEXT"}, "GSSAPI"),
        (
            {
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.in.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            },
            "PLAIN",
        ),
    ],
)
def test_a_lone_node_says_nothing_false_of_brokers_logins(
    tmp_path: Path, texts: dict[str, str], said: str
):
    """As Kafka: a cluster that grows from it would not let its own brokers in."""
    from fencepost.broker.node.node import StartError

    own = {"listeners": "IN://127.0.0.1:0"}
    if "security.inter.broker.protocol" in texts:
        own = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", MAP: "SASL_PLAINTEXT:SASL_PLAINTEXT"}
    enabled = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    key = "sasl.mechanism.inter.broker.protocol"
    with pytest.raises(StartError, match=f"{key}='{said}'.*=SCRAM-SHA-512 of listener"):
        RunningNode(tmp_path / "data", {**BASE, **own, **enabled, **texts}).close()


def test_a_lone_node_that_says_nothing_of_brokers_logins_starts(tmp_path: Path):
    running = RunningNode(tmp_path / "data", {**BASE, "sasl.enabled.mechanisms": "SCRAM-SHA-512"})
    running.close()


def test_a_lone_node_logs_in_nowhere_and_needs_no_password_for_it(tmp_path: Path):
    enabled = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    }
    running = RunningNode(tmp_path / "data", {**BASE, **enabled})
    running.close()
