"""Transactions of the Java client, in both protocols, against our coordinators and leaders.

The client of 4.3 gives every transaction an epoch of its own where `transaction.version` is 2
(KIP-890); where it is 0, it adds partitions itself, as clients always have.
"""

from __future__ import annotations

import uuid

import pytest

from fencepost.client.cluster import Cluster as Client
from fencepost.client.features import FeatureAdmin
from fencepost.testing import Cluster

from .maven import JarSet
from .oracle import PROGRAMS, ask

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COMMITTED = sorted(f"{n}-{k}" for n in (0, 2, 4) for k in range(5))


@pytest.mark.parametrize("level", [2, 0])
def test_a_chain_of_transactions(kafka_jars: JarSet, level: int) -> None:
    with Cluster(faults=False) as cluster:
        if level < 2:
            with Client(cluster.bootstrap_servers) as client:
                FeatureAdmin(client).update({"transaction.version": level}, downgrade=True)
        name = f"x-{uuid.uuid4().hex[:10]}"
        program = PROGRAMS / "TransactionClient.java"
        said = ask(program, cluster.bootstrap_servers, name, jars=kafka_jars)
    assert said.splitlines() == [
        "offsets true",
        f"read {' '.join(COMMITTED)}",
        "state CompleteCommit",
        "listed 1",
        "fenced ProducerFencedException",
        "second committed",
    ]
