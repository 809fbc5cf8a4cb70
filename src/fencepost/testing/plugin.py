"""pytest plugin: the fixture `fencepost_cluster`, one broker for the whole test session.

Tests share it, so they should use topics of their own. A test that kills its broker or configures
it should make a `Cluster` of its own instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fencepost.testing.cluster import Cluster


@pytest.fixture(scope="session")
def fencepost_cluster() -> Iterator[Cluster]:
    """A running one-node cluster; `fencepost_cluster.bootstrap_servers` is its address."""
    # Imported here so that pytest sessions that never ask for a broker do not pay for one.
    from fencepost.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster
