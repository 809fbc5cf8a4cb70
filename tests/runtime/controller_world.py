"""One controller of one or three voters, on a simulated disk and a clock that is told to move.

With three voters the other two are the test: `elect` gives their votes, `fetch` acknowledges what
is in the log (so that it is committed), `depose` has voter 2 lead a later epoch.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from fencepost.machines.controller import Controller, ControllerConfig
from fencepost.machines.controller.config import TokenSettings
from fencepost.machines.image import ClusterImage
from fencepost.machines.quorum import AppendRecords, answered, messages, received
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.controller_host import ControllerHost, Periods
from fencepost.runtime.metadata.host import METADATA_KEY, MetadataHost
from fencepost.wire.api import begin_quorum_epoch as begin
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.broker_registration import BrokerRegistrationRequest, Feature
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from fencepost.wire.api.vote import VoteRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .metadata.metadata_world import MetadataWorld

SESSION_MS = 9_000
QUIET = Periods(unclean_election_ms=0, preferred_election_ms=0, max_idle_ms=0)


class ControllerWorld(MetadataWorld):
    """See the module; the controller under test is `controller_host`."""

    def __init__(
        self,
        voters: int = 1,
        *,
        periods: Periods = QUIET,
        host_class: type[ControllerHost] = ControllerHost,
        controller_class: type[Controller] = Controller,
        tokens: TokenSettings | None = None,
    ) -> None:
        super().__init__(voters=VoterSet.of_ids(tuple(range(1, voters + 1))))
        self._periods = periods
        self._host_class = host_class
        self._controller_class = controller_class
        self._tokens = TokenSettings() if tokens is None else tokens
        self._ids = (Uuid(n.to_bytes(16, "big")) for n in count(5_000))
        self.controller_host: ControllerHost

    def start(self) -> None:
        """As a node does: the controller is there before the quorum machine begins."""
        begin_machine, MetadataHost.start = MetadataHost.start, lambda host: None
        try:
            super().start()
        finally:
            MetadataHost.start = begin_machine
        self.controller_host = self._host_class(
            self.ports, self.host, self._make_controller, periods=self._periods
        )
        self.host.start()

    def _make_controller(self, image: ClusterImage) -> Controller:
        config = ControllerConfig(
            "c", node_id=1, broker_session_timeout_ms=SESSION_MS, tokens=self._tokens
        )
        return self._controller_class.from_image(image, config, self.timers.now_ms)

    @property
    def machine(self) -> Any:
        return self.host.machine

    # -- the other voters ----------------------------------------------------------------------

    def elect(self) -> None:
        """Have this voter elected, by voter 2, and its epoch committed."""
        for _ in range(10):
            if self.machine.role.value == "leader":
                break
            self.timers.advance(500)
            sent, self.ports.sent = self.ports.sent, []
            for to, message in sent:
                if isinstance(message, VoteRequest):
                    epoch = message.topics[0].partitions[0].replica_epoch
                    granted = messages.vote_response(ErrorCode.NONE, -1, epoch, True)
                    self.ports.driver.feed(METADATA_KEY, answered(to, message, granted))
        self.fetch()

    def fetch(self, voter: int = 2) -> None:
        """`voter` has all that is in the log now, and says so."""
        machine = self.machine
        end = machine.end_offset
        epoch = self.host.log.epochs.epoch_at(end - 1) if end else 0
        request = messages.fetch_request(
            self.config, voter, machine.epoch, (epoch, end), machine.high_watermark
        )
        request.topics[0].partitions[0].replica_directory_id = Uuid.ZERO
        self.ports.driver.feed(METADATA_KEY, received(lambda bounds: None, request))

    def pass_by(self, ms: int) -> None:
        """Time goes by, and voter 2 keeps up."""
        while ms > 0:
            step = min(ms, 500)
            self.timers.advance(step)
            self.commit()
            ms -= step

    def depose(self) -> None:
        """Voter 2 leads the next epoch."""
        partition = begin.PartitionDataRequest(
            partition_index=0, leader_id=2, leader_epoch=self.machine.epoch + 1
        )
        topic = begin.TopicDataRequest(topic_name=messages.TOPIC, partitions=[partition])
        request = begin.BeginQuorumEpochRequest(cluster_id="c", voter_id=1, topics=[topic])
        self.ports.driver.feed(METADATA_KEY, received(lambda response: None, request))
        assert self.machine.leader_id == 2

    def truncate_to_committed(self) -> None:
        """Voter 2 leads and has other records where this log has uncommitted ones."""
        machine = self.machine
        end = machine.high_watermark
        if machine.end_offset == end:
            return
        fetches = [m for _, m in self.ports.sent if isinstance(m, FetchRequest)]
        partition = PartitionData(
            partition_index=0,
            high_watermark=end,
            current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=machine.epoch),
            diverging_epoch=EpochEndOffset(epoch=machine.epoch - 1, end_offset=end),
            records=b"",
        )
        topic = FetchableTopicResponse(
            topic=messages.TOPIC, topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition]
        )
        answer = answered(2, fetches[-1], FetchResponse(responses=[topic]))
        self.ports.driver.feed(METADATA_KEY, answer)
        assert machine.end_offset == end

    def slip_in(self, batch: bytearray) -> None:
        """A batch that the controller knows nothing of, as the quorum's own control records are."""
        machine = self.machine
        self.ports.driver.feed(
            METADATA_KEY, AppendRecords([batch], lambda outcome: None, machine.epoch)
        )

    # -- asking the controller -------------------------------------------------------------------

    def ask(self, decide: Any) -> Asked:
        """Submit a decision."""
        asked = Asked()
        self.controller_host.submit(decide, asked)
        return asked

    def create(self, name: str) -> Asked:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
        )
        return self.ask(lambda c: c.decide_create_topics(request, self._ids))

    def register(self, broker_id: int = 9) -> Asked:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="c",
            incarnation_id=Uuid((7_000 + broker_id).to_bytes(16, "big")),
            features=[
                Feature(name="metadata.version", min_supported_version=7, max_supported_version=33)
            ],
            log_dirs=[Uuid((8_000 + broker_id).to_bytes(16, "big"))],
        )
        return self.ask(lambda c: c.decide_register_broker(request, self.timers.now_ms))

    def beat(self, epoch: int, broker_id: int = 9) -> Asked:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=self.host.image.offset
        )
        return self.ask(lambda c: c.decide_broker_heartbeat(request, self.timers.now_ms))

    def with_broker(self) -> int:
        """A broker that is alive; its epoch. With three voters, all of it is committed."""
        registered = self.register()
        self.commit()
        epoch: int = registered.reply.broker_epoch
        self.beat(epoch)
        self.commit()
        return epoch

    def commit(self) -> None:
        """Whatever is decided is committed."""
        if len(self.machine.voters) > 1:
            for _ in range(4):  # what was decided meanwhile follows
                self.fetch()


class Asked:
    """Who waits for an answer: `told` are (error, reply), at most one."""

    def __init__(self) -> None:
        self.told: list[tuple[ErrorCode, Any]] = []

    def __call__(self, error: ErrorCode, reply: Any) -> None:
        self.told.append((error, reply))
        assert len(self.told) == 1, "answered twice"

    @property
    def error(self) -> ErrorCode | None:
        """The error, or None as long as there is no answer."""
        return self.told[0][0] if self.told else None

    @property
    def reply(self) -> Any:
        assert self.error is ErrorCode.NONE
        return self.told[0][1]

    @property
    def topic_error(self) -> int:
        """The one topic's error of a CreateTopics answer."""
        code: int = self.reply.topics[0].error_code
        return code
