"""Group protocols are offered where the cluster has the feature and the broker serves them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.machines.image import ClusterImage
from fencepost.runtime.requests import consumer_group_heartbeat, streams_groups
from fencepost.runtime.requests.consumer_group_describe import topics_of
from fencepost.runtime.requests.share_group_heartbeat import has_share_groups
from fencepost.wire.api.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)


@pytest.mark.parametrize(
    ("is_offered", "protocol", "feature"),
    [
        (consumer_group_heartbeat.is_offered, "consumer", "group.version"),
        (streams_groups.is_offered, "streams", "streams.version"),
    ],
)
def test_a_protocol_needs_its_feature_and_a_broker_that_serves_it(
    is_offered: Any, protocol: str, feature: str
) -> None:
    for features, served, expected in (
        ({}, (protocol,), False),
        ({feature: 0}, (protocol,), False),
        ({feature: 1}, (protocol,), True),
        ({feature: 1}, ("classic",), False),
    ):
        groups: Any = SimpleNamespace(rebalance_protocols=served)
        metadata: Any = SimpleNamespace(image=ClusterImage(features=features))
        assert is_offered(groups, metadata) == expected, (features, served)


def test_share_groups_need_their_feature() -> None:
    levels: list[dict[str, int]] = [{}, {"share.version": 0}, {"share.version": 1}]
    assert [has_share_groups(ClusterImage(features=one)) for one in levels] == [False, False, True]


def test_topics_that_a_member_is_to_have_are_topics_of_its_group() -> None:
    """A client that may not describe one of them does not see the group."""

    def named(*names: str) -> Assignment:
        return Assignment(topic_partitions=[TopicPartitions(topic_name=one) for one in names])

    members = [
        Member(assignment=named("has"), target_assignment=named("is-to-have", "has")),
        Member(assignment=named(), target_assignment=named("other")),
    ]
    assert topics_of(DescribedGroup(members=members)) == {"has", "is-to-have", "other"}
