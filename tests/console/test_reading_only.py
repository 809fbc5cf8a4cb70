"""A console without writes leaves a fresh cluster as it is, whatever its pages are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.testing import Cluster
from tests.console.forms import change

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


def test_watching_the_lag_of_a_group_has_none_created(fresh: str):
    from fencepost.client.config import ClientConfig
    from fencepost.console.session import Session

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
