"""All clients of a world's brokers, and what must be true for them when all is well again."""

from __future__ import annotations

from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.sim.clients.client import Client
from fencepost.sim.clients.committer import Committer
from fencepost.sim.clients.consumer import Consumer
from fencepost.sim.clients.deleter import Deleter
from fencepost.sim.clients.epoch_member import EpochMember
from fencepost.sim.clients.guest import Guest
from fencepost.sim.clients.member import Member
from fencepost.sim.clients.mixed_member import MixedMember
from fencepost.sim.clients.producer import Producer
from fencepost.sim.clients.share_consumer import ShareConsumer
from fencepost.sim.clients.streams_member import SOURCE_PARTITIONS, StreamsMember
from fencepost.sim.clients.transactor import SHARES_ONE_IN, Transactor
from fencepost.sim.oracle import Violation
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.sim.surroundings import Surroundings
from fencepost.sim.workload import DEAD_LETTERS, INTERNAL

ALL_IN_SYNC = -1
LEADER_ONLY = 1
STATIC_ONE_IN = 3


class BrokerClients:
    """Producers first, the odd ones idempotent; then consumers; then those that commit offsets
    without a group's members, then the members of a group, then who deletes; then those that
    produce in transactions, and the members of a consumer group (KIP-848), classic ones last;
    guests at the end."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.committers: list[Committer] = []
        self.members: list[Member] = []
        self.deleters: list[Deleter] = []
        self.transactors: list[Transactor] = []
        self.epoch_members: list[EpochMember] = []
        self.mixed_members: list[MixedMember] = []
        self.share_consumers: list[ShareConsumer] = []
        self.streams_members: list[StreamsMember] = []
        self.guests: list[Guest] = []
        options = world.options
        for number, id_ in enumerate(options.client_ids):
            if number < options.producers:
                is_idempotent = number % 2 == 0
                acks = LEADER_ONLY if number % 4 == 3 else ALL_IN_SYNC
                self.producers.append(Producer(world, id_, acks=acks, is_idempotent=is_idempotent))
            elif number < options.producers + options.consumers:
                is_odd = len(self.consumers) % 2 == 1
                reads_committed = is_odd and options.transactors > 0
                self.consumers.append(Consumer(world, id_, reads_committed=reads_committed))
            elif len(self.committers) < options.committers:
                self.committers.append(Committer(world, id_))
            elif len(self.members) < options.members:
                self.members.append(Member(world, id_, instance_id=self._instance_id(id_)))
            elif len(self.deleters) < options.deleters:
                self.deleters.append(Deleter(world, id_))
            elif len(self.transactors) < options.transactors:
                self.transactors.append(self._transactor(id_))
            elif len(self.epoch_members) < options.epoch_members:
                self.epoch_members.append(EpochMember(world, id_, self._instance_id(id_)))
            elif len(self.mixed_members) < options.mixed_members:
                self.mixed_members.append(MixedMember(world, id_))
            elif len(self.share_consumers) < options.share_consumers:
                self.share_consumers.append(ShareConsumer(world, id_))
            elif len(self.streams_members) < options.streams_members:
                one = StreamsMember(world, id_, self._instance_id(id_))
                self.streams_members.append(one)
            else:
                self.guests.append(Guest(world, id_))

    def _instance_id(self, client_id: int) -> str | None:
        """Of one in so many members of groups, which is static."""
        drawn = self._world.tape.lane("static_members").pick(STATIC_ONE_IN)
        return f"i{client_id}" if drawn == STATIC_ONE_IN - 1 else None

    def _transactor(self, client_id: int) -> Transactor:
        """The even ones know KIP-890; one of them may have the transactional id of another."""
        number = len(self.transactors)
        shares = number and self._world.tape.lane("transactors").pick(SHARES_ONE_IN) == 1
        own = f"x{client_id}"
        transactional_id = self.transactors[-1].transactional_id if shares else own
        return Transactor(
            self._world,
            client_id,
            transactional_id,
            knows_kip_890=number % 2 == 0,
            groups=[committer.group_id for committer in self.committers],
        )

    def all(self) -> list[Client]:
        """Every client."""
        groups = [*self.committers, *self.members]
        others = [*self.deleters, *self.transactors, *self.epoch_members]
        others += [*self.mixed_members, *self.share_consumers, *self.streams_members, *self.guests]
        return [*self.producers, *self.consumers, *groups, *others]

    def begin(self) -> None:
        """Have all of them begin."""
        for client in self.all():
            client.begin()

    def close(self) -> None:
        """Have them finish what they have begun, and begin nothing new."""
        for client in self.all():
            client.is_closing = True

    # -- when all is well again ----------------------------------------------------------------

    def partitions(self) -> list[PartitionKey]:
        """The partitions that there are by the newest committed image."""
        image = self._world.observer.committed_image
        return [
            (topic.topic_id, index)
            for name, topic in sorted(image.topics_by_name.items())
            for index in range(len(topic.partitions))
            if not name.startswith("__")
        ]

    def internal_partitions(self) -> list[PartitionKey]:
        """The partitions of coordinators, which no consumer reads."""
        topics = self._world.observer.committed_image.topics_by_name
        return [
            (topic.topic_id, index)
            for topic in (topics.get(name) for name in INTERNAL)
            if topic is not None
            for index in range(len(topic.partitions))
        ]

    def trouble(self) -> str | None:
        """Why the brokers and their clients are not well yet; None if they are."""
        world = self._world
        image = world.observer.committed_image
        for id_ in world.brokers:
            registered = image.brokers.get(id_)
            if registered is None or not registered.is_active:
                return f"broker {id_} is not unfenced"
        busy: list[Producer | Committer | Member | Transactor | EpochMember | ShareConsumer]
        busy = [*self.producers, *self.committers, *self.members, *self.transactors]
        busy += [*self.epoch_members, *self.mixed_members, *self.share_consumers]
        busy += self.streams_members
        for client in busy:
            if not client.is_idle:
                return f"client {client.id} waits for {client.unfinished}"
        generations = {member.generation for member in self.members}
        if len(generations) > 1:
            return f"members believe in generations {sorted(generations)}"
        wrong = self._trouble_of_epoch_members() or self._trouble_of_streams_members()
        if wrong is not None:
            return wrong
        for key in world.observer.oracle.transactions.undecided():
            if key not in world.observer.oracle.partitions.deleted:
                return f"a transaction is open in partition {key[1]} of {key[0]}"
        for key in (*self.partitions(), *self.internal_partitions()):
            wrong = self._trouble_of(key)
            if wrong is not None:
                return f"partition {key[1]} of {image.topics_by_id[key[0]].name}: {wrong}"
        return None

    def _trouble_of_epoch_members(self) -> str | None:
        """The members of the consumer group own all partitions, each one of them."""
        if not self.epoch_members:
            return None
        epochs = {member.epoch for member in self.epoch_members}
        epochs |= {member.generation for member in self.mixed_members}
        if len(epochs) > 1:
            return f"members of the consumer group are in epochs {sorted(epochs)}"
        owned = [key for member in self.epoch_members for key in member.owned]
        owned += [key for member in self.mixed_members for key in member.owned_keys()]
        if sorted(owned) != sorted(self.partitions()):
            return f"members of the consumer group own {len(owned)} of {len(self.partitions())}"
        return None

    def _trouble_of_streams_members(self) -> str | None:
        """The members of the streams group have all tasks, each one of them as active, and another
        as standby."""
        members = self.streams_members
        if not members:
            return None
        epochs = {member.epoch for member in members}
        if len(epochs) > 1:
            return f"members of the streams group are in epochs {sorted(epochs)}"
        active = sorted(index for member in members for _, index in member.owned)
        standby = sorted(index for member in members for index in member.standby)
        if not active == standby == list(range(SOURCE_PARTITIONS)):
            return f"members of the streams group have {active}, and {standby} as standby"
        return None

    def _trouble_of_share_group(self, key: PartitionKey, end_offset: int) -> str | None:
        """The share group is done with all records."""
        topic = self._world.observer.committed_image.topics_by_id[key[0]]
        if not self.share_consumers or topic.name == DEAD_LETTERS:
            return None
        image = topic.partitions[key[1]]
        shares = self._world.brokers[image.leader].shares.partitions
        share = shares.find(SharePartitionKey(self.share_consumers[0].group_id, *key))
        machine = None if share is None else share.machine
        start_offset = 0 if machine is None else machine.start_offset
        if start_offset < end_offset:
            return f"the share group is done with {start_offset} of {end_offset}"
        return None

    def _trouble_of(self, key: PartitionKey) -> str | None:
        partitions = self._world.observer.oracle.partitions
        image = self._world.observer.committed_image.topics_by_id[key[0]].partitions[key[1]]
        leader = partitions.views.get((image.leader, key))
        if leader is None or not leader.is_leader or leader.leader_epoch != image.leader_epoch:
            return f"leader {image.leader} of epoch {image.leader_epoch} does not lead"
        if set(image.isr) != set(image.replicas):
            return f"ISR {image.isr} of {image.replicas}"
        for broker_id in image.replicas:
            view = partitions.views.get((broker_id, key))
            if view is None or view.end_offset != leader.end_offset:
                return f"{broker_id} has not all of {leader.end_offset} offsets"
            if view.high_watermark != leader.end_offset:
                return f"the high watermark on {broker_id} is {view.high_watermark}"
        for consumer in self.consumers if key in self.partitions() else ():
            position = consumer.positions.get(key)
            read = 0 if position is None else position.offset
            if read != leader.high_watermark:
                return f"client {consumer.id} has read to {read} of {leader.high_watermark}"
        if key in self.partitions():
            return self._trouble_of_share_group(key, leader.high_watermark)
        return None

    def check_promises(self) -> None:
        """What was acknowledged is with every replica. Raises Violation."""
        partitions = self._world.observer.oracle.partitions
        there = set(self.partitions())
        for key, batches in sorted(partitions.acknowledged.items()):
            if key in partitions.deleted:
                continue
            if key not in there:
                raise Violation("I13", f"partition {key} was written to, and is gone")
            for broker_id, log in sorted(partitions.replicas_of(key).items()):
                held = set(log.entries)
                for batch in batches.values():
                    if batch not in held and batch.next_offset > log.start_offset:
                        raise Violation(
                            "I13",
                            f"{broker_id} has not what was acknowledged at {batch.base_offset} of"
                            f" partition {key[1]}",
                        )
