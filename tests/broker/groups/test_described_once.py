"""A group that a request names over and over is described once, whatever its type.

A description is as large as the group, so that a request of some thousand bytes could otherwise
ask for gigabytes, and hold the event loop while they are put together.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from fencepost.wire.api.describe_groups import DescribeGroupsRequest
from fencepost.wire.api.share_group_describe import ShareGroupDescribeRequest
from fencepost.wire.api.streams_group_describe import StreamsGroupDescribeRequest

from ..conftest import RunningNode
from .group_requests import coordinated


@pytest.mark.parametrize(
    ("request_class", "named"),
    [
        (DescribeGroupsRequest, "groups"),
        (ConsumerGroupDescribeRequest, "group_ids"),
        (ShareGroupDescribeRequest, "group_ids"),
        (StreamsGroupDescribeRequest, "group_ids"),
    ],
)
def test_a_group_is_described_once(node: RunningNode, request_class: Any, named: str) -> None:
    group_ids = ["b", "a", *["b"] * 1_000, "c", "a"]
    with node.connect() as client:
        coordinated(client)
        request = request_class(**{named: group_ids})
        answer = client.ask(request, request_class.max_version)
    assert [one.group_id for one in answer.groups] == ["b", "a", "c"]
