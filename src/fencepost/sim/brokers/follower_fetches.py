"""Followers fetch from their leaders: a stand-in for the fetcher machine, and the seam for it.

Nothing is decided here that replication will have to decide: for each partition that this broker
follows, one Fetch at a time goes to the leader that its machine names, from the position its
machine gives, and the answer becomes an input of the machine. Only what is durable is asked for
behind, because the position that a follower names counts for the leader's high watermark.

Once `machines/fetcher` is there, it goes into the place of `FollowerFetches`: `looked_at` is called
after every step of a partition's machine, `stop` when the partition is hosted here no longer, and
what it sends goes through `send`. What is left out until then: sessions, several partitions in one
request, and the answer to OFFSET_OUT_OF_RANGE, which no leader gives while nothing is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fencepost.batch.record_batch import iter_batches
from fencepost.machines.partition import Diverged, Fetched
from fencepost.machines.probes import probe
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

if TYPE_CHECKING:
    from fencepost.runtime.ports import ArmedTimer
    from fencepost.runtime.replicas import HostedPartition

WAIT_MS: Final = 100
"""How long a follower waits that has everything."""
BACKOFF_MS: Final = 200


class FollowerFetches:
    """The fetches of one broker in one of its incarnations."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._under_way: set[str] = set()
        self._timers: dict[str, ArmedTimer] = {}

    def looked_at(self, hosted: HostedPartition) -> None:
        """The partition's machine has made a step: fetch, if it follows and is ready to."""
        machine = hosted.machine
        if machine.is_leader or machine.is_offline or hosted.key in self._timers:
            return
        if machine.leader_id < 0 or hosted.key in self._under_way:
            return
        if machine.durable_offset < machine.log_end_offset:
            return  # the flush that is under way will say when
        self._fetch(hosted)

    def stop(self, hosted: HostedPartition) -> None:
        """The partition is hosted here no longer."""
        timer = self._timers.pop(hosted.key, None)
        if timer is not None:
            timer.cancel()

    def _fetch(self, hosted: HostedPartition) -> None:
        machine, broker = hosted.machine, self._broker
        offset, last_epoch = machine.fetch_position()
        epoch = machine.leader_epoch
        asked = FetchPartition(
            partition=hosted.index,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=machine.log_start_offset,
            partition_max_bytes=broker.world.options.replica_fetch_bytes,
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=broker.id, replica_epoch=broker.broker_epoch),
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=broker.world.options.replica_fetch_bytes,
            session_epoch=-1,
            topics=[FetchTopic(topic=hosted.topic, topic_id=hosted.topic_id, partitions=[asked])],
        )
        self._under_way.add(hosted.key)
        self.send(
            machine.leader_id, request, lambda answer: self._answered(hosted, epoch, offset, answer)
        )

    def send(self, leader_id: int, request: FetchRequest, then: Any) -> None:
        """Send a fetch to a broker; `then` hears of the answer, or None."""
        broker = self._broker
        broker.world.network.request(
            broker, leader_id, request, lambda response, is_refused: then(response)
        )

    def _answered(self, hosted: HostedPartition, epoch: int, offset: int, response: Any) -> None:
        self._under_way.discard(hosted.key)
        if not self._broker.hosts(hosted):
            return
        part = response.responses[0].partitions[0] if response and response.responses else None
        if part is None or part.error_code:
            if part is not None:
                probe("sim.follower.refused")
            self._wait(hosted, BACKOFF_MS)
            return
        feed = self._broker.ports.driver.feed
        diverging = part.diverging_epoch
        if diverging.end_offset >= 0:
            probe("sim.follower.diverges")
            self._wait(hosted, 1)
            feed(hosted.key, Diverged(epoch, diverging.epoch, diverging.end_offset))
            return
        records = part.records or b""
        data = b"".join(records) if isinstance(records, list | tuple) else bytes(records)
        batches = tuple(iter_batches(data))
        if not batches:
            self._wait(hosted, WAIT_MS)
        feed(hosted.key, Fetched(epoch, offset, batches, part.high_watermark))

    def _wait(self, hosted: HostedPartition, delay_ms: int) -> None:
        """Fetch again after a while, and not before."""
        if hosted.key in self._timers:
            return

        def go_on() -> None:
            self._timers.pop(hosted.key, None)
            if self._broker.hosts(hosted):
                self.looked_at(hosted)

        self._timers[hosted.key] = self._broker.timers.after(delay_ms, go_on)
