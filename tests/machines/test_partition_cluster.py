"""Three replicas of one partition, a controller and a network that delays, doubles and loses.

The machines, the driver, the epoch cache and the producer states are the real ones; the logs forget
what was not flushed when their broker crashes. Checked after every step: what was acknowledged with
acks=all is in the log of every leader to come (I12, I13), what was acknowledged with acks=1 is on
its leader's disk, what a consumer saw stays (I19, I20),
logs that have the same epoch at an offset agree up to there (I03), high watermarks never fall
within a leader epoch (I06) and never pass what is durable on the in-sync set (I17).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.driver import Driver
from fencepost.machines.partition import (
    AlterPartition,
    AlterPartitionAnswered,
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    Diverged,
    FetchBounds,
    Fetched,
    FetchedOutOfRange,
    FollowerFetched,
    Partition,
    PartitionConfig,
    Produce,
    ProduceResult,
)
from fencepost.wire.errors import ErrorCode

from .fakes import MemoryLog, World, batch

BROKERS = (1, 2, 3)
KEY = "t-0"
CONFIG = PartitionConfig(min_insync_replicas=2, replica_lag_time_max_ms=1_000)


@dataclass
class Controller:
    """The metadata of the partition, changed as Kafka's controller would."""

    leader: int = 1
    leader_epoch: int = 1
    partition_epoch: int = 1
    isr: tuple[int, ...] = BROKERS
    broker_epochs: dict[int, int] = field(default_factory=lambda: {b: b for b in BROKERS})
    alive: set[int] = field(default_factory=lambda: set(BROKERS))

    def eligible(self) -> dict[int, int]:
        return {broker: self.broker_epochs[broker] for broker in sorted(self.alive)}

    def alter(self, sender: int, asked: AlterPartition) -> AlterPartitionAnswered:
        if asked.leader_epoch < self.leader_epoch or sender != self.leader:
            return AlterPartitionAnswered(ErrorCode.FENCED_LEADER_EPOCH)
        if asked.partition_epoch < self.partition_epoch:
            return AlterPartitionAnswered(ErrorCode.INVALID_UPDATE_VERSION)
        for broker, broker_epoch in asked.new_isr:
            if broker not in self.alive or broker_epoch not in (-1, self.broker_epochs[broker]):
                return AlterPartitionAnswered(ErrorCode.INELIGIBLE_REPLICA)
        self.isr = tuple(replica.broker_id for replica in asked.new_isr)
        self.partition_epoch += 1
        return AlterPartitionAnswered(0, self.leader_epoch, self.partition_epoch, self.isr)

    def elect(self, pick: int = 0) -> None:
        candidates = [broker for broker in self.isr if broker in self.alive]
        self.leader = candidates[pick % len(candidates)] if candidates else -1
        self.leader_epoch += 1
        self.partition_epoch += 1

    def fence(self, broker: int, pick: int) -> None:
        self.alive.discard(broker)
        if len(self.isr) > 1:
            self.isr = tuple(member for member in self.isr if member != broker)
        if self.leader == broker:
            self.elect(pick)
        else:
            self.partition_epoch += 1

    def register(self, broker: int) -> None:
        self.alive.add(broker)
        self.broker_epochs[broker] += 10
        if self.leader < 0:
            self.elect()


class Replicas(RuleBasedStateMachine):
    """Whatever may happen, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.controller = Controller()
        self.worlds: dict[int, World] = {}
        self.machines: dict[int, Partition] = {}
        self.acknowledged: dict[int, bytes] = {}
        self.seen: dict[int, bytes] = {}
        self.requests: list[tuple[int, AlterPartition]] = []
        self.answers: list[tuple[int, AlterPartitionAnswered]] = []
        self.tokens: dict[int, bytes] = {}
        self.of_acks_one: set[int] = set()
        self.last_token = 0
        self.high_watermarks: dict[tuple[int, int], int] = {}
        self.incarnation = dict.fromkeys(BROKERS, 0)
        for broker in BROKERS:
            self.start(broker, MemoryLog())
        self.tell_all()

    # The network and the brokers

    def start(self, broker: int, log: MemoryLog) -> None:
        world = World()
        world.logs[KEY] = log
        world.driver = Driver(world)
        self.incarnation[broker] += 1
        machine = Partition(
            broker, log, high_watermark=0, durable_offset=log.durable_offset, config=CONFIG
        )
        world.driver.add(KEY, machine)
        self.worlds[broker], self.machines[broker] = world, machine

    def feed(self, broker: int, input_: Any) -> None:
        self.worlds[broker].driver.feed(KEY, input_)
        self.collect(broker)

    def collect(self, broker: int) -> None:
        world = self.worlds[broker]
        self.requests += [(broker, message) for _, _, message in world.take_sent()]
        for token, result in list(world.replies.items()):
            del world.replies[token]
            value = self.tokens.pop(token)
            assert isinstance(result, ProduceResult)
            if token in self.of_acks_one:
                is_durable = result.base_offset < world.logs[KEY].durable_offset
                assert is_durable or result.error_code != ErrorCode.NONE
            elif result.error_code == ErrorCode.NONE:
                previous = self.acknowledged.setdefault(result.base_offset, value)
                assert previous == value, "two records acknowledged at one offset"

    def tell(self, broker: int) -> None:
        controller = self.controller
        if broker == controller.leader:
            metadata: Any = BecomeLeader(
                controller.leader_epoch,
                controller.partition_epoch,
                BROKERS,
                controller.isr,
                controller.eligible(),
            )
        else:
            metadata = BecomeFollower(
                controller.leader,
                controller.leader_epoch,
                controller.partition_epoch,
                BROKERS,
                controller.isr,
            )
        self.feed(broker, metadata)
        self.feed(broker, BrokersChanged(controller.eligible()))

    def tell_all(self) -> None:
        for broker in sorted(self.controller.alive):
            self.tell(broker)

    # Rules

    @rule(
        broker=st.sampled_from(BROKERS),
        to_leader=st.sampled_from([True, True, True, False]),
        acks=st.sampled_from([-1, -1, 1]),
    )
    def produce(self, broker: int, to_leader: bool, acks: int) -> None:
        broker = self.controller.leader if to_leader else broker
        if broker not in self.controller.alive:
            return
        self.last_token += 1
        token = self.last_token
        value = f"{broker}/{self.incarnation[broker]}/{token}".encode()
        data = batch(value=value)
        self.tokens[token] = value
        if acks == 1:
            self.of_acks_one.add(token)
        deadline_ms = self.worlds[broker].now + 5_000
        self.feed(broker, Produce(RecordBatch.parse(data), acks, token, deadline_ms))

    @rule(broker=st.sampled_from(BROKERS))
    def flush(self, broker: int) -> None:
        if broker in self.controller.alive:
            self.worlds[broker].flush(KEY)
            self.collect(broker)

    @rule(
        follower=st.sampled_from(BROKERS),
        lose_answer=st.sampled_from([False, False, False, True]),
        double=st.booleans(),
    )
    def fetch(self, follower: int, lose_answer: bool, double: bool) -> None:
        """A follower asks whom it believes to be its leader, from its durable end on."""
        machine = self.machines[follower]
        log = self.worlds[follower].logs[KEY]
        leader = machine.leader_id
        alive = self.controller.alive
        if follower not in alive or leader not in alive or leader in (-1, follower):
            return
        if machine.durable_offset < log.end_offset:
            return  # it flushes before it asks again
        epoch = machine.leader_epoch
        offset, last_epoch = machine.fetch_position()
        broker_epoch = self.controller.broker_epochs[follower]
        bounds = self.machines[leader].check_fetch(
            fetch_offset=offset,
            current_leader_epoch=epoch,
            last_fetched_epoch=last_epoch,
            replica_id=follower,
            broker_epoch=broker_epoch,
        )
        answer = self.answer_fetch(leader, epoch, offset, bounds)
        if isinstance(bounds, FetchBounds) and bounds.diverging is None:
            self.feed(leader, FollowerFetched(follower, offset, broker_epoch, epoch))
        for _ in range(0 if lose_answer or answer is None else 1 + double):
            self.feed(follower, answer)

    def answer_fetch(
        self, leader: int, epoch: int, offset: int, bounds: FetchBounds | ErrorCode
    ) -> Fetched | Diverged | FetchedOutOfRange | None:
        log = self.worlds[leader].logs[KEY]
        if bounds is ErrorCode.OFFSET_OUT_OF_RANGE:
            return FetchedOutOfRange(epoch, log.start_offset, log.end_offset)
        if isinstance(bounds, ErrorCode):
            return None
        if bounds.diverging is not None:
            return Diverged(epoch, *bounds.diverging)
        found = [RecordBatch(*each) for each in log.read(offset, bounds.upper_bound)[:3]]
        return Fetched(epoch, offset, found, bounds.high_watermark)

    @rule(index=st.integers(0, 5), keep=st.booleans())
    def controller_hears(self, index: int, keep: bool) -> None:
        """A request arrives, late and perhaps twice."""
        if self.requests:
            at = index % len(self.requests)
            sender, asked = self.requests[at] if keep else self.requests.pop(at)
            self.answers.append((sender, self.controller.alter(sender, asked)))

    @rule(index=st.integers(0, 5), lose=st.booleans())
    def leader_hears(self, index: int, lose: bool) -> None:
        if self.answers:
            sender, answer = self.answers.pop(index % len(self.answers))
            if not lose and sender in self.controller.alive:
                self.feed(sender, answer)

    @rule(broker=st.sampled_from(BROKERS))
    def metadata_arrives(self, broker: int) -> None:
        if broker in self.controller.alive:
            self.tell(broker)

    @rule(broker=st.sampled_from(BROKERS), of_leader=st.booleans(), pick=st.integers(0, 1))
    def crash(self, broker: int, of_leader: bool, pick: int) -> None:
        """Power loss; the controller notices and elects."""
        controller = self.controller
        broker = controller.leader if of_leader else broker
        if broker not in controller.alive or len(controller.alive) == 1:
            return
        self.worlds[broker].logs[KEY].crash()
        self.tokens = {
            token: value
            for token, value in self.tokens.items()
            if not value.startswith(b"%d/" % broker)
        }
        controller.fence(broker, pick)

    @rule()
    def restart(self) -> None:
        for broker in BROKERS:
            if broker not in self.controller.alive:
                self.controller.register(broker)
                self.start(broker, self.worlds[broker].logs[KEY])
                self.tell(broker)
                return

    @rule(pick=st.integers(0, 2), told=st.booleans())
    def move_leadership(self, pick: int, told: bool) -> None:
        """A clean election of any member of the in-sync set."""
        self.controller.elect(pick)
        if told:
            self.tell_all()

    @rule(broker=st.sampled_from(BROKERS), by_ms=st.sampled_from([10, 600, 6_000]))
    def time_passes(self, broker: int, by_ms: int) -> None:
        if broker in self.controller.alive:
            self.worlds[broker].advance(by_ms)
            self.collect(broker)

    # What must hold

    @invariant()
    def logs_agree_where_their_epochs_do(self) -> None:
        logs = [self.worlds[broker].logs[KEY] for broker in BROKERS]
        contents = [
            {h.base_offset: (h.partition_leader_epoch, data) for h, data in log.batches}
            for log in logs
        ]
        for one in contents:
            for other in contents:
                common = [o for o in one if o in other and one[o][0] == other[o][0]]
                for offset in range(max(common, default=-1) + 1):
                    assert one[offset] == other[offset]

    @invariant()
    def what_consumers_see_stays(self) -> None:
        for broker in sorted(self.controller.alive):
            machine, log = self.machines[broker], self.worlds[broker].logs[KEY]
            assert log.start_offset <= machine.high_watermark <= log.end_offset
            if not machine.is_leader:
                continue
            assert machine.high_watermark <= log.durable_offset
            epoch = (broker * 1_000 + self.incarnation[broker], machine.leader_epoch)
            assert machine.high_watermark >= self.high_watermarks.get(epoch, 0)
            self.high_watermarks[epoch] = machine.high_watermark
            for header, data in log.read(0, machine.high_watermark):
                assert self.seen.setdefault(header.base_offset, data[61:]) == data[61:]

    @invariant()
    def what_was_acknowledged_is_with_every_new_leader(self) -> None:
        controller = self.controller
        if controller.leader < 0:
            return
        machine = self.machines[controller.leader]
        log = self.worlds[controller.leader].logs[KEY]
        if machine.leader_epoch == controller.leader_epoch:
            stored = {header.base_offset: data for header, data in log.batches}
            for offset, value in self.acknowledged.items():
                assert offset in stored and stored[offset].find(value) > 0, offset

    def teardown(self) -> None:
        """Heal: everybody is told, fetches and flushes; the logs become one (L3)."""
        for _ in BROKERS:
            self.restart()
        for _ in range(60):
            self.tell_all()
            for broker in BROKERS:
                self.flush(broker)
                self.fetch(broker, False, False)
                self.flush(broker)
            self.requests = self.requests[-3:]
            self.controller_hears(len(self.requests) - 1, False)
            self.leader_hears(len(self.answers) - 1, False)
        logs = [self.worlds[broker].logs[KEY] for broker in BROKERS]
        assert logs[0].batches == logs[1].batches == logs[2].batches
        assert {self.machines[broker].high_watermark for broker in BROKERS} == {logs[0].end_offset}
        self.what_was_acknowledged_is_with_every_new_leader()
        self.what_consumers_see_stays()


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
