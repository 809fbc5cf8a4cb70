"""What a cluster without security answers, and that Fencepost answers the same.

Every case runs against both brokers. Texts are compared, too: programs do so.
"""

from __future__ import annotations

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.list_config_resources import ListConfigResourcesRequest
from fencepost.wire.message import Message

from ..broker.not_offered import CASES, by_user
from .apache import run_tool
from .topic_words import create, fresh, new

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.mark.parametrize(
    ("request_", "versions", "answer"),
    CASES,
    ids=[f"{number}-{type(one[0]).__name__}" for number, one in enumerate(CASES)],
)
def test_what_is_not_offered(
    broker: Connection, request_: Message, versions: range, answer: Message
) -> None:
    for version in versions:
        assert by_user(broker.request(request_, version)) == by_user(answer)


def test_the_apis_of_security_are_advertised(broker: Connection) -> None:
    expected = {
        17: (0, 1),
        29: (1, 3),
        30: (1, 3),
        31: (1, 3),
        36: (0, 2),
        38: (1, 3),
        39: (1, 2),
        40: (1, 2),
        41: (1, 3),
        48: (0, 1),
        49: (0, 1),
        50: (0, 0),
        51: (0, 0),
        74: (0, 1),
    }
    told = {
        one.api_key: (one.min_version, one.max_version)
        for one in broker.request(ApiVersionsRequest(), 0).api_keys
    }
    assert {key: told[key] for key in expected} == expected


@pytest.mark.parametrize("types", [[2, 2, 4], [8], [16], [32], []])
def test_resources_with_configs(broker: Connection, types: list[int]) -> None:
    name = fresh()
    create(broker, new(name, 1))
    answer = broker.request(ListConfigResourcesRequest(resource_types=types), 1)
    assert answer.error_code == 0
    listed = {(one.resource_type, one.resource_name) for one in answer.config_resources}
    wanted = set(types) or {2, 4, 8}
    assert {one for one in listed if one[0] != 2} == {(kind, "1") for kind in wanted & {4, 8}}
    assert ((2, name) in listed) == (2 in wanted)


@pytest.mark.parametrize("types", [[0], [1], [2, 99]])
def test_types_that_do_not_exist(broker: Connection, types: list[int]) -> None:
    answer = broker.request(ListConfigResourcesRequest(resource_types=types), 1)
    assert (answer.error_code, answer.config_resources) == (35, [])


def test_tools_are_told_that_there_is_no_security(bootstrap: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    acls = run_tool("acls", *at, "--list", check=False)
    assert "No Authorizer is configured on the broker" in acls.stdout + acls.stderr
    for kind in ("users", "clients", "ips", "client-metrics"):
        assert run_tool("configs", *at, "--describe", "--entity-type", kind).lines == []
