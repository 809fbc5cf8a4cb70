"""What shows a message to people hides the secrets in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencepost.broker.config.keys import BROKER_CONFIGS
from fencepost.log.config import TOPIC_CONFIGS
from fencepost.log.configdef import ConfigType
from fencepost.wire import api
from fencepost.wire.api.alter_configs import AlterableConfig as OldConfig
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from fencepost.wire.api.create_delegation_token import CreateDelegationTokenResponse
from fencepost.wire.api.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from fencepost.wire.api.envelope import EnvelopeRequest, EnvelopeResponse
from fencepost.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from fencepost.wire.json_form import JsonFormError, from_json, to_json
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import ConfigRecord, UserScramCredentialRecord
from fencepost.wire.secrets import has_secrets, is_secret_config

SECRET = b"hush-hush"
MESSAGES: list[Message] = [
    AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(
                name="ada", mechanism=1, iterations=4096, salt=SECRET, salted_password=SECRET
            )
        ]
    ),
    CreateDelegationTokenResponse(hmac=SECRET),
    DescribeDelegationTokenResponse(tokens=[DescribedDelegationToken(hmac=SECRET)]),
    RenewDelegationTokenRequest(hmac=SECRET),
    ExpireDelegationTokenRequest(hmac=SECRET),
    SaslAuthenticateRequest(auth_bytes=SECRET),
    SaslAuthenticateResponse(auth_bytes=SECRET),
    EnvelopeRequest(request_data=SECRET),
    EnvelopeResponse(response_data=SECRET),
    UserScramCredentialRecord(name="ada", salt=SECRET, stored_key=SECRET, server_key=SECRET),
    ConfigRecord(name="listener.name.a.ssl.key.password", value=SECRET.decode()),
    IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                configs=[AlterableConfig(name="a.sasl.jaas.config", value=SECRET.decode())]
            )
        ]
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_repr_and_json_hide_secrets(message: Message) -> None:
    """CVE-2026-33558: what a log shows of a request are its `repr` and its JSON form."""
    version = type(message).max_version
    assert "hush" not in repr(message) and "[hidden]" in repr(message)
    hidden = json.dumps(to_json(message, version, hide_secrets=True))
    plain = json.dumps(to_json(message, version))
    assert "[hidden]" in hidden and "[hidden]" not in plain
    for text in ("hush-hush", "aHVzaC1odXNo"):
        assert text not in hidden
    assert has_secrets(type(message))
    assert from_json(type(message), version, json.loads(plain)) == message


def test_bytes_that_are_hidden_are_not_read_back() -> None:
    message = SaslAuthenticateRequest(auth_bytes=SECRET)
    with pytest.raises(JsonFormError, match="base64"):
        from_json(SaslAuthenticateRequest, 2, to_json(message, 2, hide_secrets=True))


def test_what_is_no_secret_is_shown() -> None:
    plain = OldConfig(name="retention.ms", value="1000")
    assert "1000" in repr(plain)
    assert "hush" not in repr(OldConfig(name="ssl.keystore.password", value="hush"))
    assert "hidden" not in repr(SaslAuthenticateRequest()), "there is none"
    assert "hidden" not in repr(ConfigRecord(name="ssl.key.password", value=None))
    assert not has_secrets(api.request_class(3))
    shown = to_json(ConfigRecord(name="retention.ms", value="1000"), 0, hide_secrets=True)
    assert shown["value"] == "1000"


def test_a_config_without_a_name_of_its_own_is_hidden() -> None:
    config: Any = AlterableConfig(value="hush")
    config.name = None
    assert "hush" not in repr(config)


def test_the_names_of_secret_configs_are_known() -> None:
    """All keys of brokers and topics: those of the type PASSWORD, and no others."""
    keys = {**BROKER_CONFIGS, **TOPIC_CONFIGS}
    secret = {name for name, key in keys.items() if key.type is ConfigType.PASSWORD}
    assert secret == {name for name in keys if is_secret_config(name)}
    for name in secret:
        assert is_secret_config(f"listener.name.external.{name}"), name


@pytest.mark.parametrize("name", ["my.plugin.password", "s3.secret.access", "API_TOKEN"])
def test_keys_of_others_that_sound_secret_are(name: str) -> None:
    assert is_secret_config(name)
