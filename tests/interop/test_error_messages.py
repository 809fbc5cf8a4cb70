"""The texts of errors: Fencepost's are Apache Kafka's, fact by fact.

Every case of `tests/error_messages.py` runs against both.
"""

from __future__ import annotations

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api.describe_cluster import DescribeClusterRequest

from ..error_messages import CASES, TOPICS, Case, check
from ..waiting import DEADLINE_MS
from .topic_words import create, new

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster_id(bootstrap: str) -> str:
    """The id of a cluster with the topics of the table."""
    host, _, port = bootstrap.rpartition(":")
    with Connection(host, int(port), timeout_ms=DEADLINE_MS) as connection:
        for name, configs in TOPICS.items():
            create(connection, new(name, 2, configs=dict(configs)))
        return connection.request(DescribeClusterRequest()).cluster_id


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_errors_are_told_by_both_brokers_alike(
    broker: Connection, cluster_id: str, case: Case
) -> None:
    check(case, broker.request(case.request, case.version), cluster_id)
