"""A controller node: the product's log, quorum machine, metadata host and controller, in one world.

A node has a disk, a clock and incarnations. One begins with `start`, which opens what the disk
holds as a process does, and ends with a kill (the page cache survives), a loss of power (the disk
draws what is left of what was not synced), or with the product itself giving up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from fencepost.log.errors import LogError
from fencepost.log.log_dir import LogDir
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.controller import Controller, ControllerConfig
from fencepost.machines.image import ClusterImage, apply_records
from fencepost.machines.quorum import QuorumMachine, QuorumRecordsReceived, Role, received
from fencepost.runtime.controller_decisions import NODE_DECISIONS, DecideOn
from fencepost.runtime.controller_host import ControllerHost, Periods
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.runtime.metadata.replay import snapshot_records
from fencepost.sim.answers import compose, of_the_shell
from fencepost.sim.boot import CLUSTER_ID, directory_of, open_node
from fencepost.sim.calls import Call
from fencepost.sim.clock import NodeClocks
from fencepost.sim.disk import SimDisk
from fencepost.sim.oracle import NodeView, Violation
from fencepost.sim.ports import NodeTimers, SimPorts
from fencepost.sim.product_log import FORESEEN
from fencepost.sim.surroundings import Surroundings
from fencepost.wire.api import response_class
from fencepost.wire.api.vote import VoteResponse
from fencepost.wire.draft.fetch_quorum_records import FetchQuorumRecordsRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

if TYPE_CHECKING:
    from fencepost.sim.queue import Event


_SPREAD = 161_803_398
BACKGROUND_US = (1_000, 20_000, 200_000, 2_000_000)


class SimNode:
    """See the module docstring."""

    ports_class: type[SimPorts] = SimPorts

    def __init__(self, world: Surroundings, node_id: int) -> None:
        self.world = world
        self.id = node_id
        self.incarnation = 0
        self.is_up = False
        self.is_paused = False
        self.parked: list[Event] = []
        """What is to happen when the pause is over."""
        self.is_powered = True
        """Whether its machine runs, and refuses connections while its process does not."""
        self.gave_up: str | None = None
        """Why the product ended its last incarnation itself; None if it did not."""
        self.is_excused = False
        """Whether its disk was made to refuse or is damaged, so that it may give up."""
        self.is_old = False
        """Whether its software speaks the lowest versions only."""
        self.stuck_until_us = 0
        """Until then no sync of its disk ends."""
        self.silent_until_us = 0
        """Until then its process waits for a sync, and nothing leaves it."""
        self.sync_base_us = 0 if world.options.by_hand else 500
        self.sync_jitter_us = 0 if world.options.by_hand else 2_000
        self.clocks = NodeClocks(node_id, lambda: world.now_us)
        self._lane = world.tape.lane(f"node.{node_id}")
        self._disk_lane = world.tape.lane(f"disk.{node_id}")
        self._background_lane = world.tape.lane(f"aside.{node_id}")
        self._disks = 0
        self.disk: SimDisk
        self.directory_id: Uuid
        self.timers = NodeTimers(self)
        self.ports: SimPorts
        self.log_dir: LogDir
        self.metadata: MetadataHost
        self.controller: ControllerHost
        self._snapshot_shown: SnapshotId | None = None
        self.new_disk()

    # -- start and stop ------------------------------------------------------------------------

    def new_disk(self) -> None:
        """Put in an empty disk, with a directory id of its own."""
        assert not self.is_up, "disks are changed while the node is down"
        self._disks += 1
        self.disk = SimDisk(draw=self._disk_lane.pick)
        self.disk.keeps_operations = False
        self.directory_id = directory_of(self.id, self._disks)
        self.world.observer.oracle.new_disk(self.id, self.directory_id)

    def start(self) -> None:
        """Boot on what the disk holds. A disk that is damaged may keep the node from it."""
        assert not self.is_up, f"node {self.id} runs already"
        self.incarnation += 1
        self.is_paused, self.gave_up, self.is_powered = False, None, True
        self.is_excused = self._has_an_excuse
        self.silent_until_us = 0
        self.parked.clear()
        self.clocks.reboot(self.incarnation)
        self.timers = NodeTimers(self)
        self.ports = self.ports_class(self)
        self.disk.now_ms = self.clocks.wall_ms()
        self.is_up = True
        try:
            self.metadata = open_node(self)
        except (LogError, OSError) as error:
            self._give_up(f"cannot start: {error}")
            return
        self.begin_parts()
        self.metadata.on_image(lambda image, _: self.world.observer.image_moved(self.id, image))
        self.world.tell(lambda: f"{self.id} starts")
        self._snapshot_shown = None
        self.look_at_snapshots()
        self.metadata.start()
        self.look()

    def begin_parts(self) -> None:
        """Make what a node has besides its metadata log: here a controller."""
        if self.world.options.has_controller:
            self.controller = ControllerHost(
                self.ports,
                self.metadata,
                self._make_controller,
                periods=Periods(max_idle_ms=self.world.options.max_idle_ms),
            )

    @property
    def _has_an_excuse(self) -> bool:
        """Whether something is wrong with the disk that a new incarnation finds."""
        return self.disk.fault is not None or self.world.observer.oracle.disks[self.id].is_damaged

    def stop(self) -> None:
        """The process ends in an orderly way: it flushes, and leaves a note that it has."""
        if self.gave_up is None:
            try:
                end_offset = self.metadata.log.end_offset
                self.metadata.close()
                self.log_dir.close()
                self.world.observer.oracle.flushed(self.id, end_offset)
            except (LogError, OSError) as error:
                self.disk_refused(str(error))
        self.kill()

    def kill(self) -> None:
        """The process is gone; the machine, with its page cache, is not."""
        if self.is_up:
            self._die(is_told=True)
        self.disk.process_death()

    def lose_power(self) -> None:
        """The machine is gone; the disk draws what is left."""
        if self.is_up:
            self._die(is_told=False)
        self.is_powered = False
        self.disk.power_loss()

    def lose_power_keeping(self, changes: int, torn_bytes: int | None = None) -> None:
        """The machine is gone, and it is known what is left; see the disk."""
        if self.is_up:
            self._die(is_told=False)
        self.is_powered = False
        self.disk.lose_power_keeping(changes, torn_bytes)

    def _die(self, is_told: bool) -> None:
        self.is_up, self.is_paused = False, False
        self.parked.clear()
        self.world.node_died(self, is_told)

    def pause(self) -> None:
        """Stop the process for a while: it hears nothing and does nothing."""
        self.is_paused = True

    def resume(self) -> None:
        """Go on, with everything that was to happen meanwhile."""
        if not self.is_paused or self.world.now_us < self.silent_until_us:
            return
        self.is_paused = False
        parked, self.parked = self.parked, []
        for event in parked:
            event.at_us = self.world.now_us
            self.world.queue.push(event)

    def sync_done(self) -> None:
        """It has synced something, and could not go on before that had ended.

        What leaves the node in the step that waits leaves it when the sync is over.
        """
        if self.world.now_us >= self.stuck_until_us or not self.is_up:
            return
        self.silent_until_us = self.stuck_until_us
        self.pause()
        incarnation = self.incarnation
        self.world.schedule(
            self.stuck_until_us,
            "synced",
            lambda: self.resume() if self.incarnation == incarnation else None,
        )

    def unstick(self) -> None:
        """Syncs end again, those that have begun at once."""
        self.stuck_until_us = 0
        if self.silent_until_us > self.world.now_us:
            self.silent_until_us = 0
            self.resume()

    def machine_failed(self, key: Hashable, reason: str) -> None:
        """The machine said that it cannot go on: the process ends, as a broker's does.

        If the step ended in an error other than `FORESEEN`, that error is raised again: the run
        fails by it.
        """
        error = sys.exc_info()[1] if self.ports.driver.is_broken(key) else None
        if error is None or isinstance(error, FORESEEN):
            self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        if not self.is_excused:
            raise Violation("gave-up", f"node {self.id}: {reason}")
        self.gave_up = reason
        self.world.trace.note(f"{self.id} gives up")
        self.world.tell(lambda: f"{self.id} gives up: {reason}")
        # Its process ends when the present step is over: ports are still in use.
        incarnation = self.incarnation
        self.world.schedule_in(
            0, "exit", lambda: self.kill() if self.incarnation == incarnation else None, self
        )

    def disk_refused(self, reason: str) -> None:
        """A sync failed; only a fault can have brought that about."""
        if not self.is_excused:
            raise Violation("gave-up", f"the disk of node {self.id} refused by itself: {reason}")

    # -- its parts -----------------------------------------------------------------------------

    @property
    def machine(self) -> QuorumMachine:
        """The quorum machine of the present incarnation."""
        return self.metadata.machine

    def take_snapshot(self) -> None:
        """Take a snapshot of the image as it is, as the product does when it is time."""
        self.metadata.take_snapshot()

    def receive(
        self, request: Message, reply: Callable[[Any], None], source_id: int, api_version: int
    ) -> bool:
        """A request has arrived; `reply` is called with its answer, now or later.

        Whether it is taken; if not, its sender's connection is refused.
        """
        own = of_the_shell(request)
        decide = NODE_DECISIONS.get(type(request))
        if own is not None:
            reply(own)
        elif isinstance(request, FetchQuorumRecordsRequest):
            version = self.world.rules.draft_versions[source_id]
            self.feed(QuorumRecordsReceived(reply, request, version))
        elif decide is None:
            self.feed(received(reply, request))
        else:
            self._decide(decide, request, reply)
        return True

    def _decide(self, decide: DecideOn, request: Any, reply: Callable[[Any], None]) -> None:
        def told(error: ErrorCode, response: Any) -> None:
            failure: Any = response_class(type(request).api_key)()
            failure.error_code = int(error)
            reply(response if error is ErrorCode.NONE else failure)

        self.controller.submit(lambda c: decide(c, request, self.clocks.now_ms()), told)

    def feed(self, input_: Any) -> None:
        """Step the machine."""
        self.ports.driver.feed(METADATA_KEY, input_)

    def draw(self, below: int) -> int:
        """A number in [0, below) for whatever the node leaves to chance."""
        if self.world.options.by_hand:
            return self.id * 100 % below
        # Nodes differ also where nothing was drawn, or all would stand for election at one time.
        return (self._lane.pick(below) + self.id * _SPREAD) % below

    def flush_delay_us(self) -> int:
        """How long it takes until a flush that was asked for begins."""
        return 0

    def sync_us(self) -> int:
        """How long the flush that now begins takes."""
        stuck_us = max(0, self.stuck_until_us - self.world.now_us)
        if self.sync_jitter_us == 0:
            return self.sync_base_us + stuck_us
        return self.sync_base_us + stuck_us + self._disk_lane.pick(self.sync_jitter_us)

    def background_us(self) -> int:
        """How long a thread takes for work of the node in the background."""
        return BACKGROUND_US[self._background_lane.pick(len(BACKGROUND_US))]

    def change_clocks(
        self, *, rate: int | None = None, wall_rate: int | None = None, jump_ms: int = 0
    ) -> None:
        """Have both clocks run at another pace, or the wall clock alone, or set the wall clock."""
        if rate is not None:
            self.clocks.set_rate(rate)
        if wall_rate is not None:
            self.clocks.set_wall_rate(wall_rate)
        if jump_ms:
            self.clocks.set_wall(jump_ms)
        if self.is_up and rate is not None:
            self.timers.clock_changed()

    @property
    def can_become_voter(self) -> bool:
        """Whether it may ever vote."""
        return self.world.options.is_dynamic or self.id in self.world.options.voter_ids

    def _make_controller(self, image: ClusterImage) -> Controller:
        config = ControllerConfig(
            cluster_id=CLUSTER_ID,
            default_replication_factor=1,
            broker_session_timeout_ms=self.world.options.session_timeout_ms,
        )
        rules = self.world.rules.controller
        return Controller.from_image(image, config, self.clocks.now_ms(), rules)

    # -- what it says --------------------------------------------------------------------------

    def compose(self, value: Any) -> Message | None:
        """The response that goes with a machine's answer; None if the disk refuses to be read."""
        try:
            return compose(self.metadata, value)
        except (LogError, OSError) as error:
            self.ports.driver.disk_failed(METADATA_KEY, str(error))
            return None

    def note_answer(self, call: Call, response: Message) -> None:
        """An answer is about to leave: the observer hears of votes."""
        if isinstance(response, VoteResponse) and response.topics:
            asked = call.request.topics[0].partitions[0]  # type: ignore[attr-defined]
            if response.topics[0].partitions[0].vote_granted and not asked.pre_vote:
                self.world.observer.vote_told(self.id, asked.replica_id, asked.replica_epoch)

    def told_committed(self, base_offset: int) -> None:
        """The node has answered that the batch at this offset is committed."""
        disk = self.world.observer.oracle.disks[self.id]
        self.look()
        if base_offset < disk.start_offset:
            return  # it is in a snapshot by now
        entry = disk.entries[disk.position(base_offset)]
        self.world.observer.told_committed(base_offset, entry.crc)

    def look_at_snapshots(self) -> None:
        """Show the observer where the log starts, and the newest snapshot if it is a new one."""
        observer, store = self.world.observer, self.metadata.snapshots
        latest = store.latest()
        observer.log_starts(self.id, self.metadata.log.start_offset, latest)
        if latest is None or latest == self._snapshot_shown:
            return
        self._snapshot_shown = latest
        header = store.header(latest)
        assert header is not None, "the newest snapshot is in place"
        path = store.path(latest)
        try:
            records = snapshot_records(self.disk.seen_from_outside(path), path)
            image = apply_records(ClusterImage(), records)
        except LogError as error:
            if observer.oracle.disks[self.id].is_damaged:
                return
            raise Violation("I27", f"snapshot {latest} of {self.id}: {error}") from error
        image = image.standing_at(latest.end_offset - 1, latest.epoch)
        observer.snapshot_there(self.id, latest, header, image)

    def look(self) -> None:
        """Show the observer what has changed."""
        machine = self.machine
        state = machine.state
        before = self.world.observer.oracle.views.get(self.id)
        role, end_offset = machine.role, machine.end_offset
        if (
            before is not None
            and before.high_watermark == machine.high_watermark
            and before.end_offset == end_offset
            and before.role == role.value
            and before.epoch == state.epoch
            and before.leader_id == machine.leader_id
            and before.voted_id == state.voted_id
            and before.voters is machine.voter_set.keys
        ):
            return
        view = NodeView(
            self.id,
            role.value,
            state.epoch,
            machine.leader_id,
            state.voted_id,
            machine.high_watermark,
            end_offset,
            machine.voter_set.keys,
            machine.voter_history.latest_offset,
            machine.is_active_leader,
        )
        self.world.observer.stepped(view)
        self.world.tell(self.describe)

    def describe_parts(self) -> str:
        """What it is besides a node of the quorum, in one line."""
        return self.describe()

    def describe(self) -> str:
        """The node in one line."""
        if not self.is_up:
            reason = f" ({self.gave_up})" if self.gave_up else ""
            return f"{self.id} is down{reason}"
        if not hasattr(self, "metadata"):
            return f"{self.id} starts"
        machine = self.machine
        leader = f"of {machine.leader_id}" if machine.leader_id >= 0 else "of ?"
        paused = ", paused" if self.is_paused else ""
        return (
            f"{self.id} {machine.role.value.ljust(11)} e{machine.epoch} {leader}"
            f"   hw {machine.high_watermark}, end {machine.end_offset}{paused}"
        )

    @property
    def leads(self) -> bool:
        """Whether it is up and leads."""
        return self.is_up and self.gave_up is None and self.machine.role is Role.LEADER
