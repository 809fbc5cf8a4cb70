"""How a simulated node opens its directory: the product's steps, over a simulated disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.broker.metadata import (
    JITTER_BELOW,
    JITTER_NUMBERS,
    METADATA_KEY,
    METADATA_TOPIC,
    MetadataHost,
    quorum_state_of,
    stored_quorum_state,
)
from fencepost.log.config import LogConfig
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.log.quorum_state import QuorumStateFile
from fencepost.machines.quorum import QuorumConfig, QuorumState, Start
from fencepost.sim.ports import entry_of
from fencepost.wire.types import Uuid

if TYPE_CHECKING:
    from fencepost.sim.node import SimNode

CLUSTER_ID = "simulated"
DATA = "/data"

LOG_CONFIG = LogConfig.from_props(
    {"retention.ms": "-1", "retention.bytes": "-1", "segment.bytes": str(1 << 20)}
)


class SimMetadataHost(MetadataHost):
    """The product's, with the numbers that decide election timeouts drawn by the world."""

    node: SimNode

    def start(self) -> None:
        """Give the machine its first input."""
        self._ports.host(
            METADATA_KEY,
            self.machine,
            self.log,
            self._stepped,
            self._write_state,
            always_flush=True,
        )
        jitter = [self.node.draw(JITTER_BELOW) for _ in range(JITTER_NUMBERS)]
        self._ports.driver.feed(METADATA_KEY, Start(jitter))


def open_node(node: SimNode) -> MetadataHost:
    """Format the directory if it is new, recover the log, make the machine. LogError, OSError."""
    world, disk = node.world, node.disk
    options = world.options
    format_log_dir(
        disk,
        DATA,
        cluster_id=CLUSTER_ID,
        node_id=node.id,
        directory_id=node.directory_id,
        ignore_formatted=True,
    )
    log_dir = LogDir.open(disk, DATA)
    metadata_log = log_dir.create(
        METADATA_TOPIC, 0, Uuid.METADATA_TOPIC_ID, LOG_CONFIG, now_ms=node.now_ms()
    )
    if metadata_log.recovery_point < metadata_log.end_offset:
        metadata_log.flush()
    start_offset, end_offset = metadata_log.start_offset, metadata_log.end_offset
    found = []
    if start_offset < end_offset:
        found = [
            entry_of(batch) for _, batch in metadata_log.read_all_batches(start_offset, end_offset)
        ]
    world.watch.recovered(node.id, found, start_offset)
    state_file = QuorumStateFile(disk, metadata_log.directory)
    state = quorum_state_of(state_file.read())
    world.watch.state_read(node.id, state)
    config = QuorumConfig(
        cluster_id=CLUSTER_ID,
        directory_id=node.directory_id,
        election_timeout_ms=options.election_timeout_ms,
        fetch_timeout_ms=options.fetch_timeout_ms,
        request_timeout_ms=options.request_timeout_ms,
        fetch_max_bytes=options.fetch_max_bytes,
    )
    machine = world.machine_class(node.id, options.voter_ids, metadata_log, state, config)
    written = state

    def write_state(new: QuorumState) -> None:
        nonlocal written
        state_file.write(stored_quorum_state(new, options.voter_ids), 0)
        world.watch.state_written(node.id, written, new)
        written = new

    host = SimMetadataHost(node.ports, metadata_log, machine, write_state, node.broken)
    host.node = node
    return host
