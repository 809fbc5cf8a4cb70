"""A controller and a broker that follow the metadata log with FetchQuorumRecords, and nothing else.

Real nodes over real sockets in one event loop; what each one asks the controllers for is counted at
the controllers' listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.broker.cluster.draft_route import FOLLOW_KEY, KEY as DRAFT_KEY
from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
from fencepost.broker.config.metadata_settings import metadata_log_settings
from fencepost.log.disk import OsDisk
from fencepost.log.log_dir import LogDir
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.quorum import Resign, Role
from fencepost.runtime.metadata.host import METADATA_KEY, METADATA_TOPIC
from fencepost.runtime.metadata.log import MetadataLogSettings
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.fetch_snapshot import FetchSnapshotRequest
from fencepost.wire.types import Uuid

from ..node.quorum_node_fixtures import CONFIG, Nodes, create

pytestmark = pytest.mark.slow

API_KEY = 4711
VOTER, BROKER = 3, 4
VERSIONS = {VOTER: 1, BROKER: 0}
SPOKEN = {
    **CONFIG,
    DRAFT_KEY: API_KEY,
    "controller.quorum.fetch.timeout.ms": 1_000,
    "metadata.max.idle.interval.ms": 0,
}
"""A leader that wrote NoOpRecords would write one where `append_behind_its_back` does."""


class DraftNodes(Nodes):
    """Three static voters and a broker, two of which follow with the draft; counts who asks what.

    `asked` has, by node id, the names of the APIs that the node has read the metadata log with.
    """

    def __init__(self, directory: Path) -> None:
        self.asked: dict[int, set[str]] = {}
        overrides = {id_: {FOLLOW_KEY: str(version)} for id_, version in VERSIONS.items()}
        super().__init__(directory, 3, 1, static_voters=True, config=SPOKEN, overrides=overrides)

    async def start(self, id_: int) -> None:
        await super().start(id_)
        part = self.nodes[id_].controller
        if part is None:
            return
        routes = part.listener.routes
        for key in (FetchRequest.api_key, FetchSnapshotRequest.api_key, API_KEY):
            assert key is not None
            routes[key] = replace(routes[key], handler=self._counting(routes[key]))

    def _counting(self, route: Any) -> Callable[[Any, Any], None]:
        def handle(context: Any, request: Any) -> None:
            id_ = request.replica_state.replica_id if route.name == "Fetch" else request.replica_id
            self.asked.setdefault(id_, set()).add(route.name)
            route.handler(context, request)

        return handle

    def leader(self) -> int:
        """The id of the leader that the others follow, once there is one."""
        found: list[int] = []

        def is_followed() -> bool:
            machines = [node.metadata.machine for node in self.nodes.values()]
            found[:] = [m.node_id for m in machines if m.is_active_leader]
            return len(found) == 1 and all(
                m.leader_id == found[0] and m.epoch == machines[0].epoch for m in machines
            )

        self.wait_until(is_followed)
        return found[0]

    def move_leadership(self, to: tuple[int, ...]) -> int:
        """Have the leader resign until one of these leads."""
        while (leader := self.leader()) not in to:
            epoch = self.nodes[leader].metadata.machine.epoch
            self.call(self.nodes[leader].driver.feed, METADATA_KEY, Resign())
            self.wait_until(
                lambda before=epoch: all(  # type: ignore[misc]
                    n.metadata.machine.epoch > before for n in self.nodes.values()
                )
            )
        return leader

    def wait_until_replicated(self) -> None:
        """Everybody has all of the leader's log, and knows that it is committed."""
        leader = self.nodes[self.leader()].metadata

        def is_replicated() -> bool:
            end = leader.machine.end_offset
            return all(
                node.metadata.log.end_offset == node.metadata.machine.high_watermark == end
                for node in self.nodes.values()
            )

        self.wait_until(is_replicated)

    def batches(self, id_: int) -> list[bytes]:
        """The metadata log of a node."""
        log = self.nodes[id_].metadata.log
        return [bytes(b) for _, b in log.read_all_batches(log.start_offset, log.end_offset)]

    def append_behind_its_back(self, id_: int, epoch: int) -> None:
        """A stopped node's log ends with a batch of `epoch` that nobody else has."""
        config = BrokerConfig.load(self.plan.nodes[id_].config_path, {})
        settings: MetadataLogSettings = metadata_log_settings(config)
        log_dir = LogDir.open(OsDisk(), str(config.metadata_log_dir))
        what = METADATA_TOPIC, 0, Uuid.METADATA_TOPIC_ID, settings.log
        log: PartitionLog = log_dir.create(*what, wall_ms=0, is_gapless=True)
        batch = build_batch([(None, b"lost")], base_offset=log.end_offset, leader_epoch=epoch)
        log.append_as_follower(RecordBatch.parse(batch), 0)
        log.flush()
        log_dir.close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[DraftNodes]:
    made = DraftNodes(tmp_path)
    yield made
    made.close()


def make_topics(nodes: DraftNodes, *names: str) -> None:
    with nodes.client(BROKER) as client:
        assert create(client, *names) == [0] * len(names)


def test_followers_keep_up_by_the_draft_alone(nodes: DraftNodes) -> None:
    first = nodes.move_leadership(to=(1, 2))
    make_topics(nodes, "first")
    nodes.wait_until_replicated()
    assert {"first"} <= set(nodes.nodes[BROKER].image.topics_by_name)

    second = nodes.move_leadership(to=(3 - first,))
    make_topics(nodes, "second")
    nodes.wait_until_replicated()
    epoch = nodes.nodes[VOTER].metadata.machine.epoch

    nodes.stop(VOTER)
    nodes.append_behind_its_back(VOTER, epoch)
    nodes.move_leadership(to=(first,))
    make_topics(nodes, "third")
    nodes.call(nodes.start, VOTER)
    nodes.wait_until_replicated()
    assert nodes.nodes[VOTER].metadata.machine.role is Role.FOLLOWER
    # Controllers that start register, so the log may have moved on between two looks at it.
    nodes.wait_until(lambda: nodes.batches(VOTER) == nodes.batches(first) == nodes.batches(BROKER))
    assert not any(b"lost" in batch for batch in nodes.batches(VOTER))

    assert nodes.asked[VOTER] == nodes.asked[BROKER] == {"FetchQuorumRecords"}
    assert nodes.asked[second] == {"Fetch"}, "the others use Fetch"


def test_a_voter_of_the_draft_is_one_of_the_majority(nodes: DraftNodes) -> None:
    leader = nodes.move_leadership(to=(1, 2))
    nodes.stop(3 - leader)
    make_topics(nodes, "needs-the-draft")
    nodes.wait_until_replicated()
    assert nodes.asked[VOTER] == {"FetchQuorumRecords"}


def test_who_follows_with_the_draft_must_know_its_key(tmp_path: Path) -> None:
    keys = {"log.dirs": str(tmp_path), FOLLOW_KEY: "1"}
    with pytest.raises(ConfigError, match=r"follow\.version"):
        BrokerConfig.load(None, keys)
    assert BrokerConfig.load(None, {**keys, DRAFT_KEY: str(API_KEY)}).get(FOLLOW_KEY) == 1
    with pytest.raises(ConfigError, match=r"-1 \(use Fetch\), 0 or 1"):
        BrokerConfig.load(None, {**keys, FOLLOW_KEY: "2"})
