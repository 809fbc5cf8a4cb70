"""A member of a share group (KIP-932): it acquires records, and says what became of them.

It does what a share consumer does. It heartbeats to the group's coordinator and fetches what it is
assigned from the leaders, in a share session with each of them. Most of what it acquires it
accepts, later; some it gives back or rejects, of some it renews the lock, and some it forgets,
until the lock is over. A request without an answer ends the session for it: what it has acquired
there it forgets, and opens another session, whatever the leader knows of the old one. Now and then
it loses a connection, or its process ends and another begins, under another id: the leaders may
hear of that or not, and the coordinator does not until its session is over. Dead letters it does
not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fencepost.machines.share.records import AcknowledgeType
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.sim.calls import ANY_VERSION, Versions
from fencepost.sim.clients.coordinated import RETRIABLE, GroupClient
from fencepost.sim.oracle import Violation
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.sim.share_oracle import Returned, Settled
from fencepost.sim.surroundings import Surroundings
from fencepost.sim.workload import DEAD_LETTERS
from fencepost.wire.api import share_acknowledge as acknowledging, share_fetch as fetching
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

GROUP_ID: Final = "sharers"
LEAVES_ONE_IN: Final = 40
HEARTBEAT_ONE_IN: Final = 4
FORGETS_ONE_IN: Final = 10
RENEWS_ONE_IN: Final = 8
LOSES_ONE_IN: Final = 60
MAX_WAIT_MS: Final = 300
MOST_RECORDS: Final = 1_000
KEEPS_US: Final = 2_500_000
"""Its leader locks records for as long, by another clock: some of what it acknowledges is late."""
_IS_OUT: Final = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
_SESSION_IS_OVER: Final = frozenset(
    {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH}
)
_REFUSED: Final = frozenset(
    {
        *RETRIABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""What the rows of leaders say without anything being wrong. The last is what becomes of a share
coordinator that cannot be reached."""
TYPES: Final = (
    *(AcknowledgeType.ACCEPT,) * 7,
    *(AcknowledgeType.RELEASE,) * 2,
    AcknowledgeType.REJECT,
)
_ENDS: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)


class Taken(NamedTuple):
    """Records of one delivery, which was asked for in that leader epoch, as far as is known."""

    partition: PartitionKey
    first: int
    last: int
    at_us: int
    leader_epoch: int


class _Session:
    """What it knows of its share session with one leader."""

    def __init__(self) -> None:
        self.epoch = 0
        self.partitions: set[PartitionKey] = set()
        self.taken: list[Taken] = []


class ShareConsumer(GroupClient):
    """See the module docstring."""

    def __init__(self, world: Surroundings, client_id: int) -> None:
        super().__init__(world, client_id, GROUP_ID)
        self.lives = 0
        self.epoch = 0
        self.assigned: frozenset[PartitionKey] = frozenset()
        self.acquired = 0
        """How many records it has got."""
        self.acknowledged = 0
        """How many it has heard to be settled."""
        self.renewed = 0
        """How often it has heard that it has records for longer."""
        self._sessions: dict[int, _Session] = {}
        self._waits = False
        self._leaves = False
        self._subscribed: list[str] = []
        self._says_all = False
        """Whether an answer was lost, which may have had an assignment."""

    @property
    def member_id(self) -> str:
        """Its id, until it has left."""
        return f"s{self.id}-{self.lives}"

    @property
    def is_idle(self) -> bool:
        """Whether it is a member, and not about to leave."""
        return self.epoch > 0 and not self._leaves

    @property
    def unfinished(self) -> str:
        """What it waits for, while it does."""
        return "a member epoch"

    def begin(self) -> None:
        self.later(2 * self.world.options.consume_every_ms, self._turn)

    def _turn(self) -> None:
        self.begin()
        if self._waits or not self.has_offsets_topic():
            return
        if self._leaves:
            self.leave()
        elif not self.is_closing and self.lane.pick(LOSES_ONE_IN) == LOSES_ONE_IN - 1:
            self._lose()
        elif self.epoch == 0 or self.lane.pick(HEARTBEAT_ONE_IN) == 0:
            self.heartbeat()
        elif not self.is_closing and self.lane.pick(LEAVES_ONE_IN) == LEAVES_ONE_IN - 1:
            self._leaves = True
            self.leave()
        else:
            self._work()

    # -- being a member ----------------------------------------------------------------------

    def heartbeat(self) -> None:
        """Join, or say that it is there; hear what it may fetch."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )
        names = {self.name_of(key) or "" for key in self.partitions()}
        topics = sorted(names - {"", DEAD_LETTERS})
        if self.epoch == 0 and not topics:
            return
        if topics and (self.epoch == 0 or self._says_all or topics != self._subscribed):
            request.subscribed_topic_names = topics

        def heard(response: Any) -> None:
            error = ErrorCode(response.error_code)
            self._says_all = error is not ErrorCode.NONE
            if error in _IS_OUT:
                self._is_out()
            elif error is ErrorCode.NONE:
                self.epoch, self._subscribed = response.member_epoch, topics
                if response.assignment is not None:
                    self.assigned = frozenset(
                        (topic.topic_id, index)
                        for topic in response.assignment.topic_partitions
                        for index in topic.partitions
                    )
            elif error not in RETRIABLE:
                raise Violation("unforeseen", f"member {self.id}: heartbeat: {error.name}")

        self._ask_coordinator(request, heard)

    def leave(self) -> None:
        """Leave the group; it is another member once it knows that it has left. Its sessions go
        on, for all that the leaders know."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=-1
        )

        def heard(response: Any) -> None:
            error = ErrorCode(response.error_code)
            if error is ErrorCode.NONE or error in _IS_OUT:
                self._leaves = False
                self.lives += 1
                self._is_out()
            elif error not in RETRIABLE:
                raise Violation("unforeseen", f"member {self.id}: leaving: {error.name}")

        self._ask_coordinator(request, heard)

    def _lose(self) -> None:
        """Lose a connection, or all of them and begin again."""
        brokers = sorted(self._sessions)
        if self.lane.pick(2):
            self.lives += 1
            self._is_out()
            lost = brokers
        else:
            lost = [brokers[self.lane.pick(len(brokers))]] if brokers else []
        for broker_id in lost:
            self._sessions.pop(broker_id, None)
            broker = self.world.brokers[broker_id]
            if broker.accepts and broker.is_up and not broker.is_paused and self.lane.pick(2):
                self._hears_of_loss(broker)

    def _hears_of_loss(self, broker: Any) -> None:
        """A leader whose connection is gone ends the sessions of this consumer, of any life."""
        for life in range(self.lives + 1):
            member_id = f"s{self.id}-{life}"
            returned = Returned(None, self.group_id, member_id, 0, 0, False)
            self.world.observer.share_returned(returned)
        self.world.guard(lambda: broker.shares.sessions.disconnected(self.id), broker)

    def _is_out(self) -> None:
        self.epoch, self.assigned = 0, frozenset()
        self._sessions.clear()

    def _ask_coordinator(self, request: Message, then: Callable[[Any], None]) -> None:
        broker_id = self.coordinator()
        if broker_id is not None:
            self._ask(broker_id, request, then, (1, None))

    # -- reading -----------------------------------------------------------------------------

    def _work(self) -> None:
        """Fetch from one leader, or say what became of what it has from there."""
        leaders: dict[int, set[PartitionKey]] = {}
        for key in sorted(self.assigned):
            broker_id = self.leader_of(key)
            if broker_id is not None:
                leaders.setdefault(broker_id, set()).add(key)
        brokers = sorted({*leaders, *(id_ for id_, one in self._sessions.items() if one.taken)})
        if not brokers:
            return
        broker_id = brokers[self.lane.pick(len(brokers))]
        session = self._sessions.setdefault(broker_id, _Session())
        self._forget_late(session)
        if session.taken and self.lane.pick(3):
            self.acknowledge(broker_id, session)
        else:
            self.fetch(broker_id, session, leaders.get(broker_id, set()))

    def fetch(self, broker_id: int, session: _Session, wanted: set[PartitionKey]) -> None:
        """Acquire records of these partitions."""
        if session.epoch == 0:
            session.partitions, session.taken = set(), []
        request = fetching.ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=MOST_RECORDS if self.is_closing else 1 + self.lane.pick(20),
            batch_size=MOST_RECORDS if self.is_closing else 1 + self.lane.pick(20),
            share_acquire_mode=self.lane.pick(2),
            topics=[
                fetching.FetchTopic(
                    topic_id=topic_id, partitions=[fetching.FetchPartition(partition_index=index)]
                )
                for topic_id, index in sorted(wanted)
            ],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=topic_id, partitions=[index])
                for topic_id, index in sorted(session.partitions - wanted)
            ],
        )
        session.partitions = set(wanted)
        epochs = {key: self._leader_epoch(broker_id, key) for key in wanted}

        def fetched(response: Any) -> None:
            if not self._goes_on(broker_id, session, response):
                return
            for topic in response.responses:
                for row in topic.partitions:
                    self._check(row.error_code)
                    key = topic.topic_id, row.partition_index
                    for one in row.acquired_records:
                        self.acquired += one.last_offset - one.first_offset + 1
                        bounds = one.first_offset, one.last_offset
                        epoch = epochs.get(key, -1)
                        self._take(session, Taken(key, *bounds, self.world.now_us, epoch))

        self._ask(broker_id, request, fetched, (2, None))

    def acknowledge(self, broker_id: int, session: _Session) -> None:
        """Say what became of what it has of one partition: of all of it, or of the first records
        of each delivery."""
        partition = session.taken[self.lane.pick(len(session.taken))].partition
        mine = sorted(one for one in session.taken if one.partition == partition)
        session.taken = [one for one in session.taken if one.partition != partition]
        batches, ends, renewed = [], [], []
        renews = not self.is_closing and self.lane.pick(RENEWS_ONE_IN) == RENEWS_ONE_IN - 1
        for taken in mine:
            type_, last = self._drawn_type(renews), taken.last
            if not self.is_closing:
                last = taken.first + self.lane.pick(taken.last - taken.first + 1)
            if last < taken.last:
                session.taken.append(taken._replace(first=last + 1))
            batch = acknowledging.AcknowledgementBatch(
                first_offset=taken.first, last_offset=last, acknowledge_types=[type_]
            )
            batches.append(batch)
            if type_ in _ENDS:
                ends.append((taken.first, last, type_ is AcknowledgeType.ACCEPT))
            elif type_ is AcknowledgeType.RENEW:
                renewed.append(taken._replace(last=last, at_us=self.world.now_us))
        named = acknowledging.AcknowledgePartition(
            partition_index=partition[1], acknowledgement_batches=batches
        )
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=renews,
            topics=[acknowledging.AcknowledgeTopic(topic_id=partition[0], partitions=[named])],
        )

        def told(response: Any) -> None:
            if not self._goes_on(broker_id, session, response):
                return
            code = response.responses[0].partitions[0].error_code
            if code == ErrorCode.INVALID_REQUEST and self._has_moved(broker_id, mine):
                return  # it is beyond what the leader has read of the state, or has delivered since
            if self._check(code):
                return
            for first, last, is_accepted in ends:
                self.acknowledged += last - first + 1
                key = SharePartitionKey(self.group_id, *partition)
                self.world.observer.share_acknowledged(Settled(key, first, last, is_accepted))
            self.renewed += len(renewed)
            for one in renewed:
                self._take(session, one)

        self._ask(broker_id, request, told, (2, None))

    def _leader_epoch(self, broker_id: int, partition: PartitionKey) -> int:
        """In which epoch a broker leads a partition, as it knows it; -1 if it does not."""
        view = self.world.observer.oracle.partitions.views.get((broker_id, partition))
        return -1 if view is None else view.leader_epoch

    def _has_moved(self, broker_id: int, deliveries: list[Taken]) -> bool:
        """Whether the leader has stopped to lead since one of these, and may lead again."""
        partition = deliveries[0].partition
        epoch = self._leader_epoch(broker_id, partition)
        return self.is_deposed(broker_id, partition) or any(
            one.leader_epoch != epoch for one in deliveries
        )

    def _drawn_type(self, renews: bool) -> AcknowledgeType:
        if self.is_closing:
            return AcknowledgeType.ACCEPT
        if renews:
            return AcknowledgeType.RENEW
        return TYPES[self.lane.pick(len(TYPES))]

    def _take(self, session: _Session, taken: Taken) -> None:
        """Remember a delivery, in place of any before of the same records; now and then forget
        it, so that its lock runs out."""
        session.taken = [
            one
            for one in session.taken
            if one.partition != taken.partition or one.last < taken.first or one.first > taken.last
        ]
        if self.is_closing or self.lane.pick(FORGETS_ONE_IN):
            session.taken.append(taken)

    def _forget_late(self, session: _Session) -> None:
        """What it has had for long is another's by now."""
        since_us = self.world.now_us - KEEPS_US
        session.taken = [one for one in session.taken if one.at_us > since_us]

    def _goes_on(self, broker_id: int, session: _Session, response: Any) -> bool:
        """Whether the session goes on with this answer."""
        error = ErrorCode(response.error_code)
        if error in _SESSION_IS_OVER:
            self._sessions.pop(broker_id, None)
            return False
        if error is not ErrorCode.NONE:
            raise Violation("unforeseen", f"member {self.id}: {error.name}")
        session.epoch += 1
        return self._sessions.get(broker_id) is session

    def _check(self, code: int) -> ErrorCode:
        error = ErrorCode(code)
        if error is not ErrorCode.NONE and error not in _REFUSED:
            raise Violation("unforeseen", f"member {self.id}: a row says {error.name}")
        return error

    def _ask(
        self,
        broker_id: int,
        request: Message,
        then: Callable[[Any], None],
        between: Versions = ANY_VERSION,
    ) -> None:
        self._waits = True

        def answered(response: Any) -> None:
            self._waits = False
            error = None if response is None else ErrorCode(response.error_code)
            self.world.trace.note(f"{type(request).__name__} of {self.id}: {error}")
            if response is not None:
                then(response)
            else:
                self._says_all = True
                self._sessions.pop(broker_id, None)

        self.ask(broker_id, request, answered, between)
