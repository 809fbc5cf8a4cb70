"""pytest plugin: the fixtures `fencepost_cluster`, one cluster for the whole test session, and
`fencepost_registry`, an empty schema registry for each test.

The cluster has one broker, or as many as `fencepost_brokers` says in pytest's configuration. Tests
share it, so they should use topics of their own. What a test does to it is undone when the test has
ended: faults are lifted, links healed, nodes resumed and started (`Cluster.reset`). A test that
configures the broker should make a `Cluster` of its own instead.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fencepost.testing.cluster import Cluster
    from fencepost.testing.registry import SchemaRegistry

BROKERS = "fencepost_brokers"
_CLUSTER = pytest.StashKey["Cluster"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many brokers the fixture has."""
    parser.addini(BROKERS, "brokers of the fixture fencepost_cluster", default="1")


@pytest.fixture(scope="session")
def fencepost_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A running cluster; `fencepost_cluster.bootstrap_servers` is its address."""
    # Imported here so that pytest sessions that never ask for a broker do not pay for one.
    from fencepost.testing.cluster import Cluster

    with Cluster(int(pytestconfig.getini(BROKERS))) as cluster:
        pytestconfig.stash[_CLUSTER] = cluster
        yield cluster
        del pytestconfig.stash[_CLUSTER]


@pytest.fixture
def fencepost_registry() -> Iterator[SchemaRegistry]:
    """A schema registry without schemas; `fencepost_registry.url` is its address. Needs the extra
    `registry`."""
    from fencepost.testing.registry import SchemaRegistry

    with SchemaRegistry() as registry:
        yield registry


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """No fault outlives its test."""
    try:
        return (yield)
    finally:
        cluster = item.config.stash.get(_CLUSTER, None)
        if cluster is not None:
            cluster.reset()
