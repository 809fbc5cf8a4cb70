"""Share consumers of the Java client read from our broker (KIP-932, KIP-1206, KIP-1191).

Two members, one with whole batches and one with the exact limit, accept, release and reject: every
record is accepted once or rejected, what was released comes again with its delivery count, and what
was rejected is in the dead letter topic.
"""

from __future__ import annotations

import uuid

import pytest

from fencepost.testing import Cluster

from .maven import JarSet
from .oracle import PROGRAMS, ask

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ONE_REPLICA = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def test_two_share_consumers_settle_every_record(kafka_jars: JarSet) -> None:
    with Cluster(faults=False, config=ONE_REPLICA) as cluster:
        name = f"s-{uuid.uuid4().hex[:10]}"
        said = ask(PROGRAMS / "ShareClient.java", cluster.bootstrap_servers, name, jars=kafka_jars)
    assert said.splitlines() == [
        "accepted 270 once true",
        "rejected 30",
        "released 38 came again true",
        "limit kept true",
        "letters 30 [1, Offset rejected by client.]",
    ]
