"""Values of sasl.jaas.config."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, strategies as st

from fencepost.client.config import ClientConfig
from fencepost.client.errors import ConfigError
from fencepost.client.jaas import login_module

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="ada" password="x";', {"username": "ada", "password": "x"}),
        (f"{PLAIN} required\n  username='a b'\n  c = \"\" ;", {"username": "a b", "c": ""}),
        (f'{PLAIN} REQUIRED password="say \\"x\\"; \\\\";', {"password": 'say "x"; \\'}),
        (f"{PLAIN} required debug=true;", {"debug": "true"}),
        (f"{PLAIN} required", {}),
    ],
)  # fmt: skip
def test_options_of_a_module(text: str, options: dict[str, str]):
    module = login_module(text)
    assert (module.name, module.options) == ("PlainLoginModule", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "Module;",
        "Module perhaps;",
        'Module required username="ada',
        "Module required; Another required;",
        'Module required ="x";',
        "Module required one two;",
    ],
)
def test_what_is_no_module_is_refused_without_its_text(text: str):
    with pytest.raises(ConfigError, match=r"^sasl\.jaas\.config='\.\.\.'"):
        login_module(text)


@given(st.text(max_size=200))
def test_any_text_is_a_module_or_a_config_error(text: str):
    with contextlib.suppress(ConfigError):
        assert login_module(text).name is not None


def test_what_oauth_login_options_become():
    config = ClientConfig.from_props(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
            "OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.scope": "of the property",
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer."
            'OAuthBearerLoginModule required clientId="me" clientSecret="hush" scope="s" '
            'extension_cluster="lkc-1";',
        }
    )
    tokens = config.security.tokens
    assert (tokens.oauth_client_id, tokens.client_secret) == ("me", "hush")
    assert tokens.scope == "of the property"  # properties beat JAAS options
    assert tokens.extensions == (("cluster", "lkc-1"),)
    assert "hush" not in repr(config)


@pytest.mark.parametrize(
    ("module", "option", "is_token"),
    [
        ("ScramLoginModule", ' tokenauth="true"', True),
        ("ScramLoginModule", ' tokenauth="false"', False),
        ("ScramLoginModule", "", False),
        ("PlainLoginModule", ' tokenauth="true"', False),
    ],
)
def test_a_delegation_token_is_given_as_a_user_of_scram(module: str, option: str, is_token: bool):
    jaas = f'{module} required username="id" password="x"{option};'
    props = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": jaas}
    mechanism = "PLAIN" if module.startswith("Plain") else "SCRAM-SHA-256"
    security = ClientConfig.from_props({**props, "sasl.mechanism": mechanism}).security
    assert security.token_authenticated is is_token
