"""Leaders of share partitions are killed while consumers read: nothing accepted comes again.

One member reads a topic from whichever broker leads it, accepts every other record and leaves the
rest locked; the leader is killed. The next leader delivers everything that was not accepted, and
nothing that was.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import ClientError
from fencepost.client.producer import Producer
from fencepost.testing import Cluster
from fencepost.wire.api import (
    initialize_share_group_state as initializing,
    share_acknowledge as acknowledging,
    share_fetch as fetching,
)
from fencepost.wire.errors import ErrorCode

from ..waiting import DEADLINE_S
from .test_share_states import CONFIG, SHARE, Coordinators, topic_of

pytestmark = [pytest.mark.long]

ACCEPT = 1
RECORDS = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config=CONFIG) as made:
        yield made


def leader_of(cluster: Cluster, topic: str) -> int:
    with Client(cluster.bootstrap_servers) as client:
        leader: int = Admin(client).describe_topic(topic).partitions[0].leader_id
    return leader


class Reader:
    """A member that opens a session with whichever broker leads."""

    def __init__(self, cluster: Cluster, group_id: str, topic: str, topic_id: Any) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self.topic = topic
        self.topic_id = topic_id
        self.accepted: set[int] = set()
        self.leader = -1

    def turn(self) -> int:
        """Fetch, and accept the even offsets of what was acquired; how many were acquired. A member
        that is disconnected does not know whether its acknowledgements count."""
        self.leader = leader_of(self.cluster, self.topic)
        if self.leader < 0:
            return 0
        with contextlib.suppress(ClientError, OSError), self.cluster.connect(self.leader) as link:
            partition = fetching.FetchPartition(partition_index=0)
            fields = {"group_id": self.group_id, "member_id": "m"}
            answer = link.request(
                fetching.ShareFetchRequest(
                    **fields,
                    share_session_epoch=0,
                    max_wait_ms=500,
                    min_bytes=1,
                    max_records=20,
                    batch_size=20,
                    topics=[fetching.FetchTopic(topic_id=self.topic_id, partitions=[partition])],
                ),
                2,
            )
            got = [
                offset
                for topic in answer.responses
                for row in topic.partitions
                for one in row.acquired_records
                for offset in range(one.first_offset, one.last_offset + 1)
            ]
            assert self.accepted.isdisjoint(got), "what was accepted does not come again"
            wanted = [offset for offset in got if offset % 2 == 0]
            batches = [
                acknowledging.AcknowledgementBatch(
                    first_offset=offset, last_offset=offset, acknowledge_types=[ACCEPT]
                )
                for offset in wanted
            ]
            if not batches:
                return len(got)
            said = acknowledging.AcknowledgePartition(
                partition_index=0, acknowledgement_batches=batches
            )
            answer = link.request(
                acknowledging.ShareAcknowledgeRequest(
                    **fields,
                    share_session_epoch=1,
                    topics=[
                        acknowledging.AcknowledgeTopic(topic_id=self.topic_id, partitions=[said])
                    ],
                ),
                2,
            )
            if answer.responses[0].partitions[0].error_code == 0:
                self.accepted.update(wanted)
            return len(got)
        return 0


def test_accepted_records_do_not_come_again_from_the_next_leader(cluster: Cluster) -> None:
    name, topic_id = topic_of(cluster)
    group_id = f"g{uuid.uuid4().hex[:8]}"
    data = initializing.PartitionData(partition=0, state_epoch=1, start_offset=0)
    topic = initializing.InitializeStateData(topic_id=topic_id, partitions=[data])
    request = initializing.InitializeShareGroupStateRequest(group_id=group_id, topics=[topic])
    answer = Coordinators(cluster).ask(f"{group_id}:{topic_id}:0", SHARE, request, 0)
    assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
    with Client(cluster.bootstrap_servers) as client:
        producer = Producer(client)
        for number in range(RECORDS):
            producer.send(name, b"%d" % number, partition=0)
        producer.flush()
    reader = Reader(cluster, group_id, name, topic_id)
    evens = {offset for offset in range(RECORDS) if offset % 2 == 0}
    leaders, killed = set(), -1
    deadline = time.monotonic() + 2 * DEADLINE_S
    while (reader.accepted < evens or len(leaders) < 2) and time.monotonic() < deadline:
        acquired = reader.turn()
        if acquired and killed < 0:
            leaders.add(reader.leader)
            killed = reader.leader
            cluster.kill(killed)
        elif acquired:
            leaders.add(reader.leader)
    assert reader.accepted == evens and len(leaders) > 1
    cluster.start(killed)
