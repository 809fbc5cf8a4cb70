"""A console without writes leaves a fresh cluster as it is, whatever its pages are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client import asking
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.config import ClientConfig
from fencepost.client.conversation import Exchange
from fencepost.client.errors import BrokerError
from fencepost.client.metadata import TopicPartition
from fencepost.client.share_consumer import ShareConsumer
from fencepost.client.share_groups import describing_share_offsets
from fencepost.testing import Cluster
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from tests.console.forms import change
from tests.console.looking import in_session

from fencepost.console.coordinators import SHARE_KEY  # isort: skip
from fencepost.console.session import Session  # isort: skip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fresh() -> Iterator[str]:
    """A cluster with one topic, which no group and no transaction has ever used."""
    with Cluster(faults=False) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            Admin(client).create_topic("orders", 2, 1)
            Admin(client).wait_for_topic("orders")
        yield cluster.bootstrap_servers


def topics_of(served: str) -> list[str]:
    with Client(served) as client:
        return sorted(topic.name for topic in client.describe())


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/groups/none", 404, "no group &#39;none&#39; in this cluster"),
        ("/transactions/foo", 404, "no coordinator knows the transactional id &#39;foo&#39;"),
        ("/transactions?explain=orders", 200, "0 transactional ids"),
        ("/configs?group=none", 200, "none"),
        ("/writes/reset-offsets?group=none&topic=orders&to=earliest", 200, "nothing committed"),
    ],
)
def test_a_page_has_no_internal_topic_created(fresh: str, browse: Any, path, status, words):
    console = browse(fresh, allow_writes=path.startswith("/writes"))
    answer = console.get(path)
    assert (answer.status_code, words in answer.text) == (status, True), answer.text
    assert topics_of(fresh) == ["orders"]


def test_a_client_that_creates_topics_has_a_console_that_does_not(fresh: str, browse: Any):
    config = ClientConfig(bootstrap_servers=fresh, allow_auto_create_topics=True)
    console = browse(config)
    for path in ("/topics/absent", "/topics/absent/records", "/topics/absent/tail"):
        assert console.get(path).status_code == 404
    assert topics_of(fresh) == ["orders"]


def test_no_state_of_share_groups_is_created():
    with (
        Cluster(faults=False) as cluster,
        Client(cluster.bootstrap_servers, group_id="shared") as client,
        ShareConsumer(client, ["nowhere"]) as member,
    ):
        served = cluster.bootstrap_servers
        Admin(client).create_topic("orders", 1, 1)
        member.poll(0)

        async def look(session: Session) -> None:
            named = [TopicPartition("orders", 0)]
            for conversation in (
                finding_share_coordinator(session.cluster),
                describing_share_offsets(session.cluster, "shared", named),
            ):
                with pytest.raises(BrokerError, match="has no topic __share_group_state"):
                    await session.run(conversation)

        in_session(served, look)
        assert topics_of(served) == ["__consumer_offsets", "orders"]


def finding_share_coordinator(view: Any) -> Any:
    connection = yield from asking.any_connection(view)
    key = "shared:00000000-0000-0000-0000-000000000001:0"
    request = FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=[key])
    return (yield from Exchange(connection, request))


def test_watching_the_lag_of_a_group_has_none_created(fresh: str):
    session = Session(ClientConfig(bootstrap_servers=fresh))
    session.lag.watch("none")
    session.sampler.look()
    assert topics_of(fresh) == ["orders"]


def test_a_confirmed_change_still_makes_a_group(browse: Any):
    with Cluster(faults=False) as cluster:
        served = cluster.bootstrap_servers
        with Client(served) as client:
            Admin(client).create_topic("orders", 1, 1)
            Admin(client).wait_for_topic("orders")
        console = browse(served, allow_writes=True)
        values = {"group": "new", "topic": "orders", "to": "earliest"}
        status, text = change(console, "reset-offsets", **values)
        assert (status, "Set 1 offset of group new" in text) == (200, True), text
        assert "__consumer_offsets" in topics_of(served)
        assert console.get("/groups/new").status_code == 200
