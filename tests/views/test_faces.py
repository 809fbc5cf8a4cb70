"""A view is the same value whichever client its conversation is carried out by."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.aio import AsyncCluster
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.views.brokers import viewing_brokers, viewing_details
from fencepost.views.epochs import viewing_epochs
from fencepost.views.groups import viewing_group
from fencepost.views.topics import viewing_topic

GROUP = f"g-{uuid.uuid4().hex[:10]}"


def viewing_all_details(view: ClusterView[Any], topic: str) -> Conversation[Any]:
    found = []
    for broker in (yield from viewing_brokers(view, None)):
        found.append((yield from viewing_details(view, broker, None, None)))
    return [(one.broker, one.state, one.features, one.error) for one in found]


@pytest.mark.parametrize(
    "viewing",
    [
        viewing_topic,
        lambda view, topic: viewing_epochs(view, topic, [0, 1]),
        lambda view, topic: viewing_group(view, GROUP),
        viewing_all_details,
    ],
    ids=["topic", "epochs", "group", "brokers"],
)
def test_blocking_and_asyncio_clients_make_the_same_views(
    served: str, topic: str, viewing: Callable[[ClusterView[Any], str], Conversation[Any]]
):
    async def view() -> Any:
        async with AsyncCluster(served) as cluster:
            return await cluster.run(viewing(cluster, topic))

    with Cluster(served) as cluster:
        admin = Admin(cluster)
        admin.create_topic(topic, 2)
        admin.wait_for_topic(topic)
        committed = CommittedOffset(0, -1, "")
        admin.alter_group_offsets(GROUP, {TopicPartition(topic, 1): committed})
        found = cluster.run(viewing(cluster, topic))
        assert found and found == asyncio.run(view())
