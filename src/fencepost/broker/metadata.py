"""The metadata log of this node: the quorum machine at work, and the image of what it committed.

Theory of operation
-------------------
`__cluster_metadata`-0 is a log like any other, with a `QuorumMachine` instead of a partition
machine in front of it. This module hosts that machine and follows it: whenever its high watermark
has moved, the committed batches are read back, decoded and applied to the `ClusterImage`, and
whoever registered with `on_image` is told what changed. Nothing reaches the image in any other way,
so a restarted node, a follower and a leader see the same cluster.

Batches are applied whole: what a controller decided together takes effect together. Control
batches (leader changes) only move the image's offset.

A committed record that does not decode or does not fit the image means a damaged log or a mistake
of ours, and so does whatever else goes wrong here. The node must not go on with an image that
nobody else has, or that some of its parts have not heard of: `on_broken` is called.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader
from fencepost.batch.records import read_records
from fencepost.broker.ports import AsyncPorts
from fencepost.log.errors import describe
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.effects import Buffer
from fencepost.machines.image import ClusterImage, ImageDelta, ReplayError, apply_records, diff
from fencepost.machines.quorum import QuorumConfig, QuorumMachine, QuorumState, Start
from fencepost.wire.errors import WireError
from fencepost.wire.records.metadata import decode_record
from fencepost.wire.records.quorum_state import QuorumStateData, QuorumVoter

log = logging.getLogger(__name__)

METADATA_TOPIC = "__cluster_metadata"
METADATA_KEY = "__cluster_metadata-0"
QUORUM_STATE_VERSION = 0
"""Of the file `quorum-state`: the version for voters that are configured."""

JITTER_NUMBERS = 16
JITTER_BELOW = 1 << 30

OnImage = Callable[[ClusterImage, ImageDelta], None]


class MetadataHost:
    """Hosts the quorum machine and keeps `image`, the cluster as far as it is committed."""

    def __init__(
        self,
        ports: AsyncPorts,
        partition_log: PartitionLog,
        machine: QuorumMachine,
        write_state: Callable[[QuorumState], None],
        on_broken: Callable[[str], None],
    ) -> None:
        self.image = ClusterImage()
        self.machine = machine
        self.log = partition_log
        self._ports = ports
        self._write_state = write_state
        self._on_broken = on_broken
        self._on_image: list[OnImage] = []
        self._on_step: list[Callable[[], None]] = []
        self._applied = partition_log.start_offset
        self._broken = False
        self._catching_up = False

    def on_image(self, callback: OnImage) -> None:
        """Call back with every new image and its difference from the one before."""
        self._on_image.append(callback)

    def on_step(self, callback: Callable[[], None]) -> None:
        """Call back after every step of the machine, when the image is up to date."""
        self._on_step.append(callback)

    def start(self) -> None:
        """Give the machine its first input; a lone voter then elects itself."""
        # A vote and a commitment are promises: the metadata log is fsynced in Kafka, too.
        self._ports.host(
            METADATA_KEY,
            self.machine,
            self.log,
            self._stepped,
            self._write_state,
            always_flush=True,
        )
        jitter = [random.randrange(JITTER_BELOW) for _ in range(JITTER_NUMBERS)]
        self._ports.driver.feed(METADATA_KEY, Start(jitter))

    def close(self) -> None:
        """Stop; the log stays open for whoever opened it."""
        self._ports.unhost(METADATA_KEY)

    def catch_up(self) -> None:
        """Apply what is committed and not yet in the image, and tell everybody."""
        high_watermark = self.machine.high_watermark
        if self._broken or self._catching_up or self._applied >= high_watermark:
            return
        self._catching_up = True
        try:
            old = self.image
            new = self._replay(high_watermark)
            if new is None:
                return
            self.image = new
            self._applied = high_watermark
            delta = diff(old, new)
            for callback in self._on_image:
                callback(new, delta)
        except Exception as error:  # noqa: BLE001 - whatever it is, others would miss the image
            self._break(error)
        finally:
            self._catching_up = False

    def _stepped(self, machine: QuorumMachine) -> None:
        self.catch_up()
        try:
            for callback in self._on_step:
                callback()
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self._break(error)

    def _break(self, error: Exception) -> None:
        """Something that nobody has foreseen: the node cannot go on as if nothing were."""
        self._broken = True
        log.error("following the metadata log failed", exc_info=error)
        self._on_broken(f"the metadata log cannot be followed: {describe(error)}")

    def _replay(self, end_offset: int) -> ClusterImage | None:
        """The image with everything committed up to `end_offset`; None if that is impossible."""
        image = self.image
        try:
            for header, batch in self.log.read_all_batches(self._applied, end_offset):
                image = _apply_batch(image, header, batch)
        except (ReplayError, WireError, BatchError) as error:
            self._broken = True
            log.critical("the metadata log cannot be applied behind %d: %s", image.offset, error)
            self._on_broken(f"the metadata log cannot be applied: {error}")
            return None
        return image


def _apply_batch(image: ClusterImage, header: BatchHeader, batch: Buffer) -> ClusterImage:
    """`image` with one batch of the metadata log. ReplayError, WireError, BatchError."""
    records = []
    if not header.is_control:
        for record in read_records(batch):
            if record.value is None:
                raise ReplayError(f"the record at {record.offset} has no value")
            records.append(decode_record(record.value))
    return apply_records(image, records, header.last_offset, header.partition_leader_epoch)


def quorum_state_of(stored: QuorumStateData | None) -> QuorumState:
    """The machine's state from what the file says; nothing stored is the beginning."""
    if stored is None:
        return QuorumState()
    return QuorumState(
        epoch=stored.leader_epoch,
        leader_id=stored.leader_id,
        voted_id=stored.voted_id,
        voted_directory_id=stored.voted_directory_id,
    )


def stored_quorum_state(state: QuorumState, voters: tuple[int, ...]) -> QuorumStateData:
    """What the file says of the machine's state, at `QUORUM_STATE_VERSION`."""
    return QuorumStateData(
        leader_epoch=state.epoch,
        leader_id=state.leader_id,
        voted_id=state.voted_id,
        current_voters=[QuorumVoter(voter_id=voter) for voter in voters],
    )


def quorum_config(cluster_id: str, directory_id: object, get: Callable[[str], int]) -> QuorumConfig:
    """The machine's settings from the broker's configs."""
    return QuorumConfig(
        cluster_id=cluster_id,
        directory_id=directory_id,  # type: ignore[arg-type]
        election_timeout_ms=get("controller.quorum.election.timeout.ms"),
        fetch_timeout_ms=get("controller.quorum.fetch.timeout.ms"),
        request_timeout_ms=get("controller.quorum.request.timeout.ms"),
    )
