"""The metadata log of this node: the quorum machine at work, and the image of what it committed.

Theory of operation
-------------------
`__cluster_metadata`-0 is a log like any other, with a `QuorumMachine` instead of a partition
machine in front of it. This module hosts that machine and follows it: whenever its high watermark
has moved, what is committed is read back, decoded and applied to the `ClusterImage`, and the
callbacks of `on_image` are called with what changed. Nothing reaches the image in any other way, so
a restarted node, a follower and a leader see the same cluster.

The newest snapshot stands for everything below its end (KIP-630). It is loaded when it ends behind
the image: at the start, and after one was fetched from a leader. Then the image is made again and
the callbacks are called with what differs from the old one. A snapshot counts, like a batch, once
the high watermark says that it is committed.

Batches are applied whole: what a controller decided together takes effect together. Control
batches (leader changes) only move the image's offset. A follower that has much to catch up with
gives others a turn after each `PIECE_BYTES`; what it has until then is the image of a prefix, as it
is at any time. A leader catches up at once: it decides by its image.

A committed record that does not decode or does not fit the image means a damaged log or a mistake
of ours, and so does any other error here. The node must not go on with an image that no other node
has, or that some of its parts have not applied: the quorum machine gets `ImageFailed` and fails.
From then on it does not lead, vote or answer requests, and the driver reports the failure, which
ends the node.

Everything here runs over `MachinePorts`: a simulator hosts this very class.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from fencepost.batch.errors import BatchError
from fencepost.batch.header import iter_headers
from fencepost.log.errors import OffsetOutOfRange, describe
from fencepost.log.partition_log import PartitionLog
from fencepost.log.snapshots import SnapshotError, SnapshotStore
from fencepost.machines.effects import Buffer
from fencepost.machines.image import ClusterImage, ImageDelta, ReplayError, apply_records, diff
from fencepost.machines.probes import probe
from fencepost.machines.quorum import DraftAdapter, QuorumState, Role, Start
from fencepost.machines.quorum.inputs import (
    DraftBounds,
    FetchBounds,
    ImageFailed,
    LogDamaged,
    SnapshotBounds,
)
from fencepost.runtime.metadata.replay import Replay, newer_snapshot, no_collections
from fencepost.runtime.metadata.rules import RULES, MetadataRules
from fencepost.runtime.metadata.snapshot_fetching import SnapshotKeeper
from fencepost.runtime.metadata.snapshot_generation import SnapshotRules, SnapshotTaker, header_at
from fencepost.runtime.ports import MachinePorts
from fencepost.wire.errors import WireError
from fencepost.wire.message import Message

log = logging.getLogger(__name__)

METADATA_TOPIC = "__cluster_metadata"
METADATA_KEY = "__cluster_metadata-0"

PIECE_BYTES = 512 * 1024
"""Of the log, some five thousand records: tens of milliseconds."""
JITTER_NUMBERS = 16
JITTER_BELOW = 1 << 30

OnImage = Callable[[ClusterImage, ImageDelta], None]


class MetadataHost:
    """Hosts the quorum machine and keeps `image`, the cluster as far as it is committed.

    Made by `metadata_log.open_metadata`.
    """

    def __init__(
        self,
        ports: MachinePorts,
        partition_log: PartitionLog,
        store: SnapshotStore,
        adapter: DraftAdapter,
        write_state: Callable[[QuorumState], None],
        *,
        write_starts: Callable[[], None],
        snapshot_rules: SnapshotRules,
        rules: MetadataRules = RULES,
        bootstrap_records: Sequence[Message] = (),
        draw: Callable[[int], int] = random.randrange,
    ) -> None:
        self.image = ClusterImage()
        self._adapter = adapter
        self.machine = machine = adapter.machine
        self.log = partition_log
        self.snapshots = store
        """Those that there are; `read_snapshot` serves them."""
        self.bootstrap_records = bootstrap_records
        """What the first active controller is to write, as formatting left it; none: defaults."""
        self._ports = ports
        self._write_state = write_state
        self._rules = rules
        self._draw = draw
        self._keeper = SnapshotKeeper(
            ports,
            partition_log,
            store,
            machine.voter_history.static,
            self._feed,
            image_now=lambda: self.image,
            on_disk_failed=lambda reason: ports.driver.disk_failed(METADATA_KEY, reason),
            write_starts=write_starts,
            rules=rules,
        )
        self._taker = SnapshotTaker(ports, store, snapshot_rules, self._feed, rules.snapshot_id_of)
        self._on_image: list[OnImage] = []
        self._on_step: list[Callable[[], None]] = []
        self._applied = 0
        self._unread_at: int | None = None
        self._repaired_at: int | None = None
        self._invalid_reported = -1
        self._broken = False
        self._catching_up = False
        self._work = ports.scheduler.lane()
        self._waits_for_turn = False  # a piece is replayed, and others come first now
        self._closed = False

    def on_image(self, callback: OnImage) -> None:
        """Call back with every new image and its difference from the one before."""
        self._on_image.append(callback)

    def on_step(self, callback: Callable[[], None]) -> None:
        """Call back after every step of the machine, when the image is up to date."""
        self._on_step.append(callback)

    def start(self) -> None:
        """Give the machine its first input; a lone voter then elects itself."""
        self._keeper.load_ahead()
        # A vote and a commitment are promises: the metadata log is fsynced in Kafka, too.
        self._ports.host(
            METADATA_KEY,
            self._adapter,
            self.log,
            self._stepped,
            self._write_state,
            always_flush=True,
            snapshots=self._keeper,
        )
        jitter = [self._draw(JITTER_BELOW) for _ in range(JITTER_NUMBERS)]
        self._ports.driver.feed(METADATA_KEY, Start(jitter))

    def close(self) -> None:
        """Stop; the log stays open: the caller, who opened it, closes it."""
        self._closed = True
        self._taker.close()
        self._keeper.close()
        self._ports.unhost(METADATA_KEY)
        self.snapshots.close()

    def take_snapshot(self) -> None:
        """Take a snapshot of the image as it is, although it is not time yet."""
        self._taker.take_soon()

    def catch_up(self) -> None:
        """Apply what is committed and not yet in the image, and call the callbacks.

        A leader's image is up to date after it; a follower may go on in a turn of its own.
        """
        high_watermark = self.machine.high_watermark
        if self._broken or self._catching_up or self._applied >= high_watermark:
            return
        leads = self.machine.role is Role.LEADER
        if self._waits_for_repair() or (self._waits_for_turn and not leads):
            return
        snapshot = newer_snapshot(self.snapshots, self._applied)
        if snapshot is not None and snapshot.end_offset > high_watermark:
            return
        self._catching_up = True
        try:
            piece = None if leads else PIECE_BYTES
            replay = Replay(self.log, self.snapshots, self._applied, high_watermark, piece)
            self._apply(replay)
            if replay.is_cut:
                self._waits_for_turn = True
                self._work.later(self._go_on)
        except Exception as error:  # noqa: BLE001 - whatever it is, others would miss the image
            self._break(error)
        finally:
            self._catching_up = False

    def _go_on(self) -> None:
        """Others have had their turn."""
        self._waits_for_turn = False
        if not self._closed:
            self.catch_up()

    def _apply(self, replay: Replay) -> None:
        """Take over what is committed, and call the callbacks."""
        replayed = self._replayed(replay)
        if replayed is None:
            return
        if replay.next_offset > self._applied:
            self._take_over(replay, *replayed)
        if replay.damage is not None:
            self._on_damage(replay)

    def _take_over(self, replay: Replay, new: ClusterImage, delta: ImageDelta | None) -> None:
        """There is a new image; `delta` is its difference from the old one, if that is known."""
        old = self.image
        self.image = new
        self._applied = replay.next_offset
        if replay.snapshot is not None:
            self._taker.loaded()
        if delta is None:
            delta = diff(old, new)
        for callback in self._on_image:
            callback(new, delta)
        header = header_at(self.machine.voter_history, new.offset, replay.timestamp_ms)
        self._taker.note(new, header, replay.log_bytes)

    def _replayed(self, replay: Replay) -> tuple[ClusterImage, ImageDelta | None] | None:
        """The image with everything that is replayed, and its difference if that is known already.

        None if it is impossible.
        """
        try:
            image, ahead = self.image, None
            if replay.snapshot is not None:
                image, ahead = self._keeper.take_loaded(replay.snapshot)
            with no_collections():
                draft = apply_records(image, replay)
                new = draft.standing_at(replay.next_offset - 1, replay.epoch)
        except (ReplayError, WireError, BatchError, SnapshotError) as error:
            log.critical(
                "cannot apply the metadata after offset %d: %s", replay.next_offset - 1, error
            )
            self._fail(f"the metadata log cannot be applied: {error}")
            return None
        if ahead is None or ahead.old is not self.image or replay.log_bytes:
            return new, None
        return new, replace(ahead, new=new)

    def _on_damage(self, replay: Replay) -> None:
        """Committed metadata cannot be read: the machine has it repaired by a node that can."""
        probe("metadata.damage.committed")
        damaged_at = self.log.first_damaged(replay.next_offset)
        self._unread_at = replay.next_offset if damaged_at is None else damaged_at
        self._feed(LogDamaged(self._unread_at, str(replay.damage)))
        if self.machine.voter_set.ids == (self.machine.key.id,):
            end = "and there is no other voter to repair it from"
        elif self._unread_at == self._repaired_at:
            end = "nor repaired in its place; the next start cuts it there and fetches it again"
        else:
            log.error("cannot read the metadata log; repairing it: %s", replay.damage)
            return
        log.critical("cannot read the metadata log, %s: %s", end, replay.damage)
        self._fail(f"the metadata log cannot be read, {end}: {replay.damage}")

    def _waits_for_repair(self) -> bool:
        """Whether what is to be read next is known to be damaged, and is not repaired yet."""
        if self._unread_at is None:
            return False
        if self.machine.role is Role.FAILED or self._unread_at == self.machine.damaged_at:
            return True
        self._repaired_at, self._unread_at = self._unread_at, None
        return False

    def read(self, bounds: FetchBounds | DraftBounds) -> list[Buffer] | None:
        """The batches that the machine lets a follower read; None if one of them is corrupt.

        Every checksum is looked at, because a follower would have to refuse the batch, and ask for
        it again for ever: the machine gets `LogDamaged` instead, and another node may lead. Nothing
        if the log begins behind them by now, because a snapshot has taken their place while the
        answer waited for its connection: the follower asks again, and is sent to the snapshot.
        Raises other LogErrors and OSError, as reading the log does.
        """
        try:
            found = self.log.read(bounds.offset, bounds.max_bytes, bounds.upper_bound_offset)
        except OffsetOutOfRange:
            return []
        damaged_at = self._first_refused(found.buffers, bounds.offset)
        if damaged_at is not None:
            probe("metadata.damage.served")
            log.error("corrupt batch at offset %d of the metadata log", damaged_at)
            self._feed(LogDamaged(damaged_at, "it is missing, or no valid batch"))
            return None
        return found.buffers

    def _first_refused(self, buffers: Iterable[Buffer], expected: int) -> int | None:
        """Where the first batch begins that a follower which fetches from `expected` would refuse;
        None if there is no such."""
        try:
            for buffer in buffers:
                view = memoryview(buffer)
                for position, header in iter_headers(view):
                    is_next = header.base_offset <= expected
                    if not is_next or not self._rules.is_intact(view, position, header):
                        return header.base_offset if is_next else expected
                    expected = header.next_offset
        except BatchError:
            return expected
        return None

    def read_snapshot(self, bounds: SnapshotBounds) -> bytes | None:
        """A piece of a snapshot that the machine lets a follower read; None if there is no such.

        A corrupt one is as good as none, and another is generated: followers would refuse it for
        ever. Raises OSError.
        """
        snapshot_id = bounds.snapshot_id
        assert snapshot_id is not None, "the machine says which"
        try:
            return self.snapshots.read(snapshot_id, bounds.position_bytes, bounds.max_bytes)
        except SnapshotError as error:
            probe("metadata.snapshot.corrupt")
            log.error("a metadata snapshot is corrupt; generating another: %s", error)
            self._taker.take_soon()
            return None

    def _stepped(self, _: DraftAdapter) -> None:
        machine = self.machine
        self.catch_up()
        if machine.damaged_at is not None and self._applied > machine.damaged_at:
            self._taker.take_soon()  # a snapshot stands for what cannot be read any more
        if machine.invalid_batch_epoch > self._invalid_reported:
            self._invalid_reported = machine.invalid_batch_epoch
            log.error(
                "the leader of epoch %d sends invalid metadata batches; rejecting them and"
                " fetching again from offset %d",
                machine.invalid_batch_epoch,
                machine.end_offset,
            )
        for callback in self._on_step:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - it must end the node
                self._break(error)

    def _feed(self, input_: Any) -> None:
        self._ports.driver.feed(METADATA_KEY, input_)

    def _break(self, error: Exception) -> None:
        """After an unexpected error the node cannot go on as if nothing had happened."""
        log.error("following the metadata log failed", exc_info=error)
        self._fail(f"the metadata log cannot be followed: {describe(error)}")

    def _fail(self, reason: str) -> None:
        """This node goes by the image no further; the machine fails, and ends the node."""
        if not self._broken:
            self._broken = True
            self._feed(ImageFailed(reason))
