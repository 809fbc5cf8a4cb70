"""Versions are asked for until a broker names them, each time in an older way."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.client.errors import BrokerError
from fencepost.client.protocol.negotiation import API_VERSIONS_NEWEST, negotiate
from fencepost.wire.api.api_versions import ApiVersion, ApiVersionsResponse
from fencepost.wire.errors import ErrorCode

API_VERSIONS, METADATA = 18, 3


def offer(*entries: tuple[int, int, int], error: int = ErrorCode.NONE) -> ApiVersionsResponse:
    keys = [
        ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in entries
    ]
    return ApiVersionsResponse(error_code=error, api_keys=keys)


def refusal(*entries: tuple[int, int, int]) -> ApiVersionsResponse:
    return offer(*entries, error=ErrorCode.UNSUPPORTED_VERSION)


def run(*responses: ApiVersionsResponse, first_version: int = API_VERSIONS_NEWEST) -> Any:
    """The versions asked in, and what the negotiation returns (None if it goes on)."""
    requests = negotiate(first_version)
    asked = [next(requests)[1]]
    for response in responses:
        try:
            asked.append(requests.send(response)[1])
        except StopIteration as ended:
            return asked, ended.value
    return asked, None


def test_the_newest_version_is_asked_first_and_names_all_ranges():
    assert run(offer((METADATA, 1, 9), (API_VERSIONS, 0, 4))) == (
        [4],
        {METADATA: (1, 9), API_VERSIONS: (0, 4)},
    )


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        ([], 0),  # brokers before KIP-511 name nothing
        ([(METADATA, 0, 9)], 0),
        ([(API_VERSIONS, 0, 2)], 2),
        ([(API_VERSIONS, 0, 3)], 3),
        ([(API_VERSIONS, 0, 4)], 3),  # what was refused already
        ([(API_VERSIONS, 0, 32767)], 3),
        ([(API_VERSIONS, 0, -5)], 0),
    ],
)
def test_a_refused_version_is_followed_by_an_older_one(named: list[Any], asked: int):
    assert run(refusal(*named))[0] == [4, asked]


def test_a_broker_that_refuses_again_and_again_is_asked_once_per_version():
    lie = refusal((API_VERSIONS, 0, 4))
    assert run(lie, lie, lie, lie)[0] == [4, 3, 2, 1, 0]
    with pytest.raises(BrokerError, match="UNSUPPORTED_VERSION"):
        run(lie, lie, lie, lie, lie)


def test_a_second_connection_may_begin_with_version_0():
    assert run(offer((METADATA, 0, 5)), first_version=0) == ([0], {METADATA: (0, 5)})


def test_any_other_error_ends_it_and_names_the_broker():
    requests = negotiate(host="kafka:9092")
    next(requests)
    with pytest.raises(BrokerError, match=r"kafka:9092: .*CLUSTER_AUTHORIZATION_FAILED"):
        requests.send(offer(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
