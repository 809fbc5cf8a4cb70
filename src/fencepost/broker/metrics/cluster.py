"""Metrics of the metadata: the quorum, the controller, and how far a broker has read them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from fencepost.broker.loop.distribution import Distribution
from fencepost.broker.metrics.catalogue import CONTROLLER, RAFT
from fencepost.broker.metrics.sheet import Sheet
from fencepost.machines.image import NO_LEADER, ClusterImage
from fencepost.machines.quorum import QuorumMachine, Role
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.metadata.host import MetadataHost

PARTITIONS_PER_PIECE: Final = 500
RATE_WINDOW_S: Final = 30.0
"""Rates are over so long at least, if there was a scrape then; Kafka's are over 30 to 60 s."""
UNCOMMITTED_MAX: Final = 1_000
"""Appends whose commitment is waited for; the latency of others is not measured."""


class QuorumMetrics:
    """The metrics of the quorum, as this node sees it. It follows the steps of the machine."""

    def __init__(
        self, metadata: MetadataHost, now_s: Callable[[], float] = time.perf_counter
    ) -> None:
        self._metadata = metadata
        self._now_s = now_s
        self._uncommitted: deque[tuple[int, float]] = deque()
        self._seen_end = metadata.machine.end_offset
        self._led_epoch = -1
        self._appended = {Role.LEADER: 0, Role.FOLLOWER: 0}
        self._marks: deque[tuple[float, int, int]] = deque()
        self.commit_ms = Distribution()
        """From append to commit, in milliseconds, at a leader."""
        metadata.on_step(self.look)

    def look(self) -> None:
        """After a step of the machine: see what was appended and committed."""
        machine = self._metadata.machine
        role, end = machine.role, machine.end_offset
        if role is not Role.LEADER or machine.epoch != self._led_epoch:
            self._uncommitted.clear()
            self._led_epoch = machine.epoch if role is Role.LEADER else -1
        if end > self._seen_end:
            if role in self._appended:
                self._appended[role] += end - self._seen_end
            if role is Role.LEADER and len(self._uncommitted) < UNCOMMITTED_MAX:
                self._uncommitted.append((end, self._now_s()))
        self._seen_end = end
        uncommitted, committed = self._uncommitted, machine.high_watermark
        while uncommitted and uncommitted[0][0] <= committed:
            _, appended_s = uncommitted.popleft()
            self.commit_ms.add((self._now_s() - appended_s) * 1e3)
            self.commit_ms.count_if_many()

    def collect(self, sheet: Sheet) -> None:
        """Put in what there is now."""
        machine = self._metadata.machine
        state = machine.role.value
        if not machine.is_voter and machine.role in (Role.FOLLOWER, Role.UNATTACHED):
            state = "observer"
        sheet.add(f"{RAFT}current_state", 1, current_state=state)
        sheet.add(f"{RAFT}current_leader", machine.leader_id)
        sheet.add(f"{RAFT}current_epoch", machine.epoch)
        sheet.add(f"{RAFT}current_vote", machine.state.voted_id)
        sheet.add(f"{RAFT}high_watermark", machine.high_watermark)
        sheet.add(f"{RAFT}log_end_offset", machine.end_offset)
        sheet.add(f"{RAFT}log_end_epoch", machine.log.last_epoch)
        sheet.add(f"{RAFT}number_of_voters", len(machine.voters))
        self._rates(sheet)
        sheet.add(f"{RAFT}commit_latency_avg", self.commit_ms.mean)
        sheet.add_summary("fencepost_raft_commit_latency_ms", self.commit_ms)
        _tell_replicas(sheet, machine)

    def _rates(self, sheet: Sheet) -> None:
        now_s, marks = sheet.now_s, self._marks
        led, followed = self._appended[Role.LEADER], self._appended[Role.FOLLOWER]
        while len(marks) > 1 and now_s - marks[1][0] >= RATE_WINDOW_S:
            marks.popleft()
        since_s, led_then, followed_then = marks[0] if marks else (now_s, led, followed)
        seconds = max(now_s - since_s, 1.0)
        sheet.add(f"{RAFT}append_records_rate", (led - led_then) / seconds)
        sheet.add(f"{RAFT}fetch_records_rate", (followed - followed_then) / seconds)
        if not marks or now_s - marks[-1][0] >= RATE_WINDOW_S / 2:
            marks.append((now_s, led, followed))


def _tell_replicas(sheet: Sheet, machine: QuorumMachine) -> None:
    """What a leader knows of the others."""
    tracker = machine.tracker
    sheet.add(f"{RAFT}number_of_observers", 0 if tracker is None else len(tracker.observers))
    for voter_id, progress in tracker.voters.items() if tracker is not None else ():
        if progress.end_offset >= 0:
            lag = max(0, machine.end_offset - progress.end_offset)
            sheet.add("fencepost_raft_replica_lag", lag, replica=str(voter_id))


def collect_controller(sheet: Sheet, metadata: MetadataHost, is_active: bool) -> Pieces[None]:
    """Put in what a controller knows of the cluster; all of them do, and one is active."""
    image = metadata.image
    count = offline = imbalanced = 0
    for topic in image.topics_by_name.values():
        for partition in topic.partitions:
            count += 1
            offline += partition.leader == NO_LEADER
            imbalanced += partition.leader != partition.replicas[0]
            if count % PARTITIONS_PER_PIECE == 0:
                yield None
    sheet.add(f"{CONTROLLER}activecontrollercount", int(is_active))
    sheet.add(f"{CONTROLLER}offlinepartitionscount", offline)
    sheet.add(f"{CONTROLLER}preferredreplicaimbalancecount", imbalanced)
    sheet.add(f"{CONTROLLER}globaltopiccount", len(image.topics_by_name))
    sheet.add(f"{CONTROLLER}globalpartitioncount", count)
    brokers = image.brokers.values()
    sheet.add(f"{CONTROLLER}activebrokercount", sum(not one.fenced for one in brokers))
    sheet.add(f"{CONTROLLER}fencedbrokercount", sum(one.fenced for one in brokers))
    leaving = sum(one.in_controlled_shutdown for one in brokers)
    sheet.add(f"{CONTROLLER}controlledshutdownbrokercount", leaving)
    sheet.add(f"{CONTROLLER}lastappliedrecordoffset", image.offset)
    committed = metadata.machine.high_watermark - 1
    sheet.add(f"{CONTROLLER}lastcommittedrecordoffset", committed)


def collect_metadata(sheet: Sheet, image: ClusterImage, controller_id: int) -> None:
    """Put in how far this node has read the metadata."""
    sheet.add("kafka_server_brokermetadatametrics_last_applied_record_offset", image.offset)
    sheet.add("kafka_server_metadataloader_currentcontrollerid", controller_id)
    sheet.add("kafka_server_metadataloader_currentmetadataversion", image.metadata_version)
