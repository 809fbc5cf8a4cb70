"""What configurations and rules leave open, in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.client.acls import AclBinding
from fencepost.machines.image.acls import AclOperation, PermissionType, ResourceType
from fencepost.views.security_findings import (
    NOTE,
    OPEN,
    finding_of_certificate,
    finding_of_mode,
    finding_of_quotas,
    findings_of_acls,
    findings_of_configs,
    listeners_of,
)

MAP = "listener.security.protocol.map"
SECURED = {
    "listeners": "CLIENTS://0.0.0.0:9093,CONTROLLER://127.0.0.1:9094",
    MAP: "CLIENTS:SASL_SSL,CONTROLLER:SSL",
    "listener.name.controller.ssl.client.auth": "required",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:CN=broker,O=x",
}


def opened(configs: dict[str, str | None]) -> list[str]:
    return [one.sentence for one in findings_of_configs(configs) if one.kind == OPEN]


def test_a_secured_node_leaves_nothing_open():
    assert opened({**SECURED}) == []
    notes = " ".join(one.sentence for one in findings_of_configs({**SECURED}))
    assert "asks for a login by SCRAM-SHA-512" in notes
    assert "asks for a client's certificate" in notes
    assert "User:admin, User:CN=broker,O=x may do everything" in notes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({MAP: "CLIENTS:PLAINTEXT,CONTROLLER:SSL"}, "asks for no login: every client is User:ANON"),
        ({MAP: "CLIENTS:PLAINTEXT,CONTROLLER:SSL"}, "does not encrypt"),
        ({MAP: "CLIENTS:SSL,CONTROLLER:SSL"}, "asks for no login"),
        (
            {MAP: "CLIENTS:SSL,CONTROLLER:SSL", "ssl.client.auth": "requested"},
            "asks for no login",
        ),
        (
            {MAP: "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SSL", "sasl.enabled.mechanisms": "PLAIN"},
            "passwords of PLAIN",
        ),
        ({"authorizer.class.name": ""}, "no authorizer is set"),
        ({"allow.everyone.if.no.acl.found": "TRUE"}, "to what no ACL is about"),
        ({"super.users": "User:admin;User:ANONYMOUS"}, "User:ANONYMOUS is a super user"),
    ],
)
def test_what_is_open_is_said(changes: dict[str, str], words: str):
    assert any(words in sentence for sentence in opened({**SECURED, **changes}))


def test_a_listener_that_only_this_machine_reaches_is_not_open():
    configs: dict[str, str | None] = {
        **SECURED,
        "listeners": "PLAINTEXT://localhost:9092,IPV6://[::1]:9093",
        MAP: "PLAINTEXT:PLAINTEXT,IPV6:PLAINTEXT",
    }
    assert opened(configs) == []
    assert [one.host for one in listeners_of(configs)] == ["localhost", "[::1]"]
    everywhere = {**configs, "listeners": "PLAINTEXT://:9092"}
    assert len(opened(everywhere)) == 2


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({"principal": "User:*"}, [OPEN]),
        ({"principal": "User:ANONYMOUS"}, [OPEN]),
        ({"principal": "User:*", "operation": AclOperation.DESCRIBE}, []),
        ({"principal": "User:*", "permission": PermissionType.DENY}, []),
        ({"operation": AclOperation.ALL, "name": "*"}, [NOTE]),
        ({"operation": AclOperation.ALL}, []),
    ],
)
def test_rules_for_all_users_are_told(changes: dict[str, Any], kinds: list[str]):
    rule = AclBinding(ResourceType.TOPIC, "t", "User:ada", AclOperation.READ)._replace(**changes)
    assert [one.kind for one in findings_of_acls([rule])] == kinds


def test_missing_quotas_old_certificates_and_files_that_others_read():
    assert finding_of_quotas([{"user": "ada"}, {"ip": None}])[0].kind == NOTE
    assert finding_of_quotas([{"user": None}]) == []
    assert finding_of_certificate("h:1", -2)[0].kind == OPEN
    assert "expires in 29 days" in finding_of_certificate("h:1", 29.2)[0].sentence
    assert finding_of_certificate("h:1", 31) == []
    for days, kind, words in (
        (-0.4, OPEN, "expired less than a day ago"),
        (-1e-6, OPEN, "expired less than a day ago"),
        (-1.2, OPEN, "expired 1 day ago"),
        (0.4, NOTE, "expires in less than a day"),
        (1.6, NOTE, "expires in 2 days"),
    ):
        [found] = finding_of_certificate("h:1", days)
        assert found.kind == kind and words in found.sentence
    assert finding_of_mode("f", 0o644)[0].kind == OPEN
    assert finding_of_mode("f", 0o640)[0].kind == NOTE
    assert finding_of_mode("f", 0o600) == []


@pytest.mark.parametrize(("mode", "kind"), [(0o602, OPEN), (0o601, OPEN), (0o620, NOTE)])
def test_a_file_with_secrets_is_its_owners_alone_to_read_write_and_run(mode: int, kind: str):
    assert [one.kind for one in finding_of_mode("f", mode)] == [kind]
