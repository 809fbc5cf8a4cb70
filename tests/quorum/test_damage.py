"""S53 in real processes: a controller repairs its log, which became corrupt while it was down."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.batch.header import iter_headers
from fencepost.log.disk import OsDisk
from fencepost.log.durable_end import decode_durable_end
from fencepost.log.quorum_state import QuorumStateFile
from fencepost.testing.node_process import NodeProcess
from fencepost.testing.quorum_cluster import QuorumCluster

from ..waiting import eventually
from .conftest import TopicWriter, wait_for_topics

pytestmark = pytest.mark.slow


def log_directory(node: NodeProcess) -> Path:
    return node.directory / "data" / "__cluster_metadata-0"


def segment(node: NodeProcess) -> Path:
    """The only one there is."""
    (path,) = log_directory(node).glob("*.log")
    return path


def corrupt(node: NodeProcess, share: float) -> int:
    """Flip a bit in the batch that is so far into what is known to be durable; its offset."""
    directory = log_directory(node)
    durable = (directory.parent / f"{directory.name}.durable-end").read_bytes()
    durable_end = decode_durable_end("", durable)
    content = bytearray(segment(node).read_bytes())
    batches = [one for one in iter_headers(content) if one[1].next_offset <= durable_end]
    position, header = batches[int((len(batches) - 1) * share)]
    content[position + header.size_bytes - 1] ^= 1
    segment(node).write_bytes(content)
    return header.base_offset


@pytest.mark.parametrize("share", [0.3, 1.0], ids=["in the middle", "at its end"])
def test_a_follower_fetches_again_what_is_corrupt(
    cluster: QuorumCluster, writer: TopicWriter, share: float
):
    """There is no recovery point checkpoint yet: the last batch could pass for a torn one."""
    leader = cluster.leader_id()
    follower = next(id_ for id_ in cluster.controllers if id_ != leader)
    node = cluster.controllers[follower]
    writer.wait_for_more()
    node.kill()
    size_before = segment(node).stat().st_size
    offset = corrupt(node, share)
    node.start()
    node.wait_until_ready()
    said = node.log_path.read_text()
    assert f"truncating the log to offset {offset} and fetching it again" in said

    def is_whole_again() -> bool:
        """Not byte for byte what it was: elections may have cut off what was not committed."""
        copies = [segment(cluster.controllers[one]).read_bytes() for one in (follower, leader)]
        shared = min(map(len, copies))
        return shared >= size_before and copies[0][:shared] == copies[1][:shared]

    eventually(is_whole_again, "the follower has fetched what was cut off")
    state_file = QuorumStateFile(OsDisk(), str(log_directory(node)))

    def is_promise_kept() -> bool:
        stored = state_file.read()
        return stored is not None and stored.acknowledged_end == (0, 0)

    eventually(is_promise_kept, "it may stand for election again")
    cluster.controllers[leader].kill()
    assert cluster.leader_id(but=leader) != leader
    writer.wait_for_more()
    acknowledged = writer.stop()
    cluster.start()
    wait_for_topics(cluster, acknowledged)
