"""The controller: it decides what goes into the metadata log, and is nothing but what is in it.

Theory of operation
-------------------
A `decide_` method looks at the cluster image and a request, and answers with records and a reply.
It changes nothing. The shell appends the records and gives each to `apply`, in order; that is the
only thing that changes the image, and it is the same function by which brokers and restarted
controllers follow the log. So decisions may be pipelined: the next is made on the image with the
records of those before it, committed or not. If a write fails, everything built on it is void: the
shell throws the controller away and makes another from the last committed image.

What is not in the log is soft state: when brokers were last heard of (`sessions.py`), noted by
`decide_broker_heartbeat`, and where in the log brokers began to shut down, noted by `apply`. A new
controller begins without and gives every broker a session's time.

There is no randomness and no clock: topic ids and the place where placement begins come from the
shell, and so does the time.

Requests and replies are the wire's messages. Rules and error codes are Kafka's; the parts are
`brokers.py` (registration, heartbeats, fencing), `directories.py` (where replicas are),
`topics.py`, `partitions.py` (who leads when brokers come and go), `partition_change.py` (what one
change comes to), `alter_partition.py`, `reassignments.py`, `elections.py`, `configs.py`,
`security.py` (users, tokens, ACLs, quotas).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fencepost.machines.controller import (
    alter_partition,
    brokers,
    configs,
    controllers,
    directories,
    elections,
    features,
    min_isr,
    reassignments,
    topics,
)
from fencepost.machines.controller.brokers import BrokerControl
from fencepost.machines.controller.config import (
    METADATA_VERSION_FEATURE,
    PRODUCER_ID_BLOCK,
    ControllerConfig,
)
from fencepost.machines.controller.decision import (
    FREE,
    MAX_RECORDS,
    TOO_MANY_RECORDS,
    Charge,
    Decision,
    Refused,
)
from fencepost.machines.controller.names import CollidingNames
from fencepost.machines.controller.partition_change import ELR_FEATURE
from fencepost.machines.controller.rules import RULES, ControllerRules
from fencepost.machines.controller.sessions import Sessions
from fencepost.machines.controller.topic_policies import PoliciesInForce
from fencepost.machines.image import ClusterImage, apply_records
from fencepost.wire.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from fencepost.wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from fencepost.wire.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from fencepost.wire.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from fencepost.wire.api.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from fencepost.wire.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from fencepost.wire.api.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from fencepost.wire.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from fencepost.wire.api.elect_leaders import ElectLeadersRequest
from fencepost.wire.api.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from fencepost.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from fencepost.wire.api.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from fencepost.wire.api.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from fencepost.wire.api.update_features import UpdateFeaturesRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
)
from fencepost.wire.types import Uuid

if TYPE_CHECKING:
    from fencepost.machines.controller.security import SecurityDecisions

_PRODUCER_ID_MAX = (1 << 63) - 1


class Controller:
    """Decides over a cluster; see the module docstring. `image` is what it decides on."""

    def __init__(
        self,
        image: ClusterImage,
        config: ControllerConfig,
        now_ms: int,
        rules: ControllerRules = RULES,
    ) -> None:
        self.image = image
        self._rules = rules
        self._config = config
        self._sessions = Sessions(config.broker_session_timeout_ms, now_ms)
        self._shutdown_offsets: dict[int, int] = {}
        self._names: CollidingNames | None = None  # until the first CreateTopics
        self._security: SecurityDecisions | None = None

    @classmethod
    def from_image(
        cls,
        image: ClusterImage,
        config: ControllerConfig,
        now_ms: int,
        rules: ControllerRules = RULES,
    ) -> Controller:
        """A controller that takes over at the end of a committed log."""
        return cls(image, config, now_ms, rules)

    @property
    def security(self) -> SecurityDecisions:
        """Its decisions about users, tokens, ACLs and quotas."""
        if self._security is None:
            # What most clusters never ask for, a start can do without.
            from fencepost.machines.controller.security import SecurityDecisions

            self._security = SecurityDecisions(lambda: self.image, self._config.tokens)
        return self._security

    @property
    def next_offset(self) -> int:
        """Where the next record goes, as far as `apply` was given offsets."""
        return self.image.offset + 1

    def skip_to(self, next_offset: int) -> None:
        """The next record goes to `next_offset`: the quorum has written records of its own."""
        self.image = replace(self.image, offset=next_offset - 1)

    # -- applying ------------------------------------------------------------------------------

    def apply(self, record: Message, offset: int | None = None) -> None:
        """Take one record that goes (or went) into the log at `offset`; None: the next one.

        Raises ReplayError for a record that does not fit.
        """
        self.apply_all([record], offset)

    def apply_all(self, records: Iterable[Message], base_offset: int | None = None) -> None:
        """`apply` of several records that follow each other from `base_offset` on, but quicker."""
        records = list(records)
        start = self.next_offset if base_offset is None else base_offset
        before, self.image = (
            self.image,
            apply_records(self.image, records, start + len(records) - 1),
        )
        if self._names is not None:
            self._names.follow(before, self.image)
        for position, record in enumerate(records):
            if isinstance(record, BrokerRegistrationChangeRecord) and record.in_controlled_shutdown:
                self._shutdown_offsets[record.broker_id] = start + position

    # -- a new cluster -------------------------------------------------------------------------

    def decide_take_over(
        self,
        bootstrap: Sequence[Message] = (),
        levels: Mapping[str, int] | None = None,
    ) -> Decision:
        """What a controller does before anything else; reply: whether there was anything to do.

        A metadata transaction that its predecessor began and did not end is aborted, and an empty
        log gets its first records, `bootstrap` or else `levels` (without them, the configuration's
        `first_levels`), as one transaction (KIP-868).
        """
        records: list[Message] = []
        if self.image.pending is not None:
            records.append(AbortTransactionRecord(reason="the controller that began it is gone"))
        if not self.image.features:
            levels = self._config.first_levels if levels is None else levels
            records += _first_records(bootstrap, levels, self._config)
        return Decision(records, bool(records))

    def unsupported_feature(self) -> str | None:
        """Which finalized feature this controller does not run at its level; None if it may decide.

        Others may, and have finalized it.
        """
        for name, level in sorted(self.image.features.items()):
            low, high = self._config.supported_features.get(name, (0, 0))
            if not low <= level <= high:
                return f"{name} is finalized at level {level}, and it runs {low} to {high}"
        return None

    def decide_no_op(self) -> Decision:
        """A record that says nothing, so that the log goes on while nothing happens (KIP-835)."""
        return Decision([NoOpRecord()], None)

    def decide_update_features(
        self,
        request: UpdateFeaturesRequest,
        api_version: int,
        voter_ids: Iterable[int] = (),
        kraft_version: int = 0,
    ) -> Decision:
        """Finalize features; reply (UpdateFeaturesResponse, the level of kraft.version asked for).

        The level is None if `kraft.version` is not to change: the quorum does that, not a record.
        """
        updater = features.FeatureUpdater(
            self.image, self._config, voter_ids, kraft_version, api_version
        )
        try:
            change = updater.decide(request)
        except Refused as refused:
            return Decision([], (features.not_updated(refused), None))
        records: list[Message] = [] if request.validate_only else [*change.records]
        return Decision(records, (features.updated(request, api_version), change.kraft_version))

    # -- brokers -------------------------------------------------------------------------------

    def decide_register_broker(
        self, request: BrokerRegistrationRequest, now_ms: int, next_offset: int | None = None
    ) -> Decision:
        """Register a broker; reply BrokerRegistrationResponse.

        `next_offset` is where the first of the records will stand, by default `self.next_offset`:
        the broker's epoch is the offset of its registration.
        """
        try:
            self._check_identity(request, now_ms)
            brokers.check_registration(self.image, request)
        except Refused as refused:
            return Decision([], BrokerRegistrationResponse(error_code=refused.error))
        start = self.next_offset if next_offset is None else next_offset
        records, epoch = brokers.registration_records(
            self.image, request, start, self._policies, self._rules
        )
        return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))

    def _check_identity(self, request: BrokerRegistrationRequest, now_ms: int) -> None:
        """Refuse strangers, and a second broker under an id whose first one is alive."""
        if request.cluster_id != self._config.cluster_id:
            raise Refused(
                ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {self._config.cluster_id}"
            )
        existing = self.image.brokers.get(request.broker_id)
        if (
            existing is not None
            and existing.incarnation_id != request.incarnation_id
            and not existing.in_controlled_shutdown  # it is on its way out (KAFKA-19047)
            and self._sessions.has_session(existing, now_ms)
        ):
            raise Refused(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"broker {request.broker_id} is registered and alive",
            )

    def decide_broker_heartbeat(self, request: BrokerHeartbeatRequest, now_ms: int) -> Decision:
        """Fence, unfence or let go a broker; reply BrokerHeartbeatResponse.

        Notes that the broker was heard of, which is soft state.
        """
        image = self.image
        try:
            broker = brokers.check_broker_epoch(image, request.broker_id, request.broker_epoch)
        except Refused as refused:
            return Decision([], BrokerHeartbeatResponse(error_code=refused.error))
        offset = request.current_metadata_offset
        self._sessions.hear(broker.broker_id, broker.epoch, offset, now_ms)
        control = brokers.next_control(
            broker,
            request,
            leads_partitions=lambda: brokers.leads_partitions(image, broker.broker_id),
            others_know=broker.in_controlled_shutdown and self._others_know(broker.broker_id),
            has_read_it=self._rules.has_read_enough(broker.epoch, offset, image.offset),
        )
        policies = self._policies
        records = brokers.control_records(image, broker, control, policies)
        if request.offline_log_dirs:
            after = apply_records(image, records)
            lost = request.offline_log_dirs
            records += brokers.offline_directory_records(after, broker, lost, policies)
        records += directories.cordon_records(image, broker, request.cordoned_log_dirs)
        reply = BrokerHeartbeatResponse(
            is_caught_up=offset >= broker.epoch,
            is_fenced=control in (BrokerControl.FENCED, BrokerControl.SHUTDOWN_NOW),
            should_shut_down=control is BrokerControl.SHUTDOWN_NOW,
        )
        return Decision(records, reply)

    def decide_assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> Decision:
        """Note in which directories a broker keeps its replicas; reply the API's response."""
        try:
            brokers.check_broker_epoch(self.image, request.broker_id, request.broker_epoch)
        except Refused as refused:
            return Decision([], AssignReplicasToDirsResponse(error_code=refused.error))
        if not self.image.has_directories:
            error = ErrorCode.UNSUPPORTED_VERSION
            return Decision([], AssignReplicasToDirsResponse(error_code=error))
        reply, records = directories.assign(self.image, request, self._policies)
        return Decision([*records], reply)

    def _others_know(self, broker_id: int) -> bool:
        """Whether every active broker has read that this one is shutting down."""
        lowest = self._sessions.lowest_active_offset(self.image)
        return lowest is None or self._shutdown_offsets.get(broker_id, -1) <= lowest

    def next_session_look_ms(self, now_ms: int) -> int:
        """When to look for silent brokers next: never later than a session from now, which is soon
        enough for a broker that is unfenced meanwhile."""
        latest_ms = now_ms + self._config.broker_session_timeout_ms
        deadline_ms = self.next_session_deadline_ms()
        return latest_ms if deadline_ms is None else min(deadline_ms, latest_ms)

    def decide_session_expiry(self, now_ms: int) -> Decision:
        """Fence the broker that is silent for the longest, if it is for too long; reply: its id.

        None if there is no such broker. One at a time: with many partitions on each, to fence all
        at once would keep the controller busy for so long that it would seem dead itself.
        """
        deadlines = [
            (self._sessions.deadline_ms(broker), broker.broker_id)
            for broker in self.image.brokers.values()
            if not broker.fenced
        ]
        deadline_ms, broker_id = min(deadlines, default=(now_ms + 1, -1))
        if now_ms < deadline_ms:
            return Decision([], None)
        broker = self.image.brokers[broker_id]
        records = brokers.fence_records(self.image, broker, self._policies)
        return Decision(records, broker_id)

    def decide_fence_refusing(self, broker_id: int, broker_epoch: int, since_ms: int) -> Decision:
        """Fence a broker whose listeners refuse connections; reply: whether that is done.

        Not if it was heard of after `since_ms`, when that was first looked at: it is alive.
        """
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch or broker.fenced:
            return Decision([], False)
        if self._sessions.heard_since(broker, since_ms):
            return Decision([], False)
        return Decision(brokers.fence_records(self.image, broker, self._policies), True)

    def next_session_deadline_ms(self) -> int | None:
        """When `decide_session_expiry` should be asked next; None if no broker is unfenced."""
        return min(
            (
                self._sessions.deadline_ms(broker)
                for broker in self.image.brokers.values()
                if not broker.fenced
            ),
            default=None,
        )

    def decide_register_controller(self, request: ControllerRegistrationRequest) -> Decision:
        """Note what a controller is and runs (KIP-919); reply ControllerRegistrationResponse."""
        try:
            record = controllers.controller_registration_record(self.image, request)
        except Refused as refused:
            return Decision(
                [],
                ControllerRegistrationResponse(
                    error_code=refused.error, error_message=refused.message
                ),
            )
        return Decision([record], ControllerRegistrationResponse(error_message=None))

    def decide_unregister_controller(self, request: UnregisterControllerRequest) -> Decision:
        """Remove a controller's registration; reply UnregisterControllerResponse."""
        try:
            record = controllers.unregister_controller_record(
                self.image, self._config.node_id, request.controller_id
            )
        except Refused as refused:
            response = UnregisterControllerResponse(
                error_code=refused.error, error_message=refused.message
            )
            return Decision([], response)
        return Decision([record], UnregisterControllerResponse(error_message=None))

    def decide_unregister_broker(self, broker_id: int) -> Decision:
        """Remove a broker for good; reply: an ErrorCode.

        POLICY_VIOLATION if too many partitions would change by that: they are to be moved first.
        """
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return Decision([], ErrorCode.BROKER_ID_NOT_REGISTERED)
        records = brokers.unregister_records(self.image, broker, self._policies)
        if len(records) > MAX_RECORDS:
            return Decision([], ErrorCode.POLICY_VIOLATION)
        return Decision(records, ErrorCode.NONE)

    def decide_unregister(self, request: UnregisterBrokerRequest) -> Decision:
        """`decide_unregister_broker`, as the API asks for it; reply UnregisterBrokerResponse."""
        decision = self.decide_unregister_broker(request.broker_id)
        error: ErrorCode = decision.reply
        message = None
        if error == ErrorCode.BROKER_ID_NOT_REGISTERED:
            message = f"Broker ID {request.broker_id} is not currently registered"
        elif error:
            message = TOO_MANY_RECORDS
        reply = UnregisterBrokerResponse(error_code=error, error_message=message)
        return Decision(decision.records, reply)

    # -- topics and configs --------------------------------------------------------------------

    def decide_create_topics(
        self,
        request: CreateTopicsRequest,
        new_ids: Iterator[Uuid],
        start: int = 0,
        charge: Charge = FREE,
    ) -> Decision:
        """Create topics; reply CreateTopicsResponse, its configs left empty for the shell to fill.

        `new_ids` yields fresh topic ids, `start` is where placement begins. Brokers that need the
        internal topics of groups and transactions create them in the same way.
        """
        if self._names is None:
            self._names = CollidingNames(self.image)
        maker = topics.TopicMaker(self.image, self._config, self._names, new_ids, start, charge)
        reply = CreateTopicsResponse(topics=maker.make(request))
        return Decision([] if request.validate_only else maker.records, reply)

    def decide_delete_topics(self, request: DeleteTopicsRequest, charge: Charge = FREE) -> Decision:
        """Delete topics; reply DeleteTopicsResponse."""
        results, records = topics.decide_deletions(self.image, request, charge)
        return Decision(records, DeleteTopicsResponse(responses=results))

    def decide_create_partitions(
        self, request: CreatePartitionsRequest, start: int = 0, charge: Charge = FREE
    ) -> Decision:
        """Add partitions to topics; reply CreatePartitionsResponse."""
        results, records = topics.decide_more_partitions(self.image, request, start, charge)
        reply = CreatePartitionsResponse(results=results)
        return Decision([] if request.validate_only else records, reply)

    def decide_incremental_alter_configs(self, request: IncrementalAlterConfigsRequest) -> Decision:
        """Change dynamic configs; reply IncrementalAlterConfigsResponse."""
        results, records = configs.decide_config_changes(self.image, self._config, request)
        reply = IncrementalAlterConfigsResponse(responses=results)
        return Decision([] if request.validate_only else records, reply)

    def decide_alter_configs(self, request: AlterConfigsRequest) -> Decision:
        """Replace all dynamic configs of resources; reply AlterConfigsResponse."""
        results, records = configs.decide_config_replacements(self.image, self._config, request)
        reply = AlterConfigsResponse(responses=results)
        return Decision([] if request.validate_only else records, reply)

    # -- partitions and producer ids -----------------------------------------------------------

    def decide_alter_partition(self, request: AlterPartitionRequest) -> Decision:
        """Change ISRs as their leaders ask; reply AlterPartitionResponse."""
        try:
            brokers.check_broker_epoch(self.image, request.broker_id, request.broker_epoch)
        except Refused as refused:
            return Decision([], AlterPartitionResponse(error_code=refused.error))
        reply, records = alter_partition.decide_alter_partition(self.image, request, self._policies)
        return Decision([*records], reply)

    def decide_alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> Decision:
        """Begin or cancel reassignments; reply AlterPartitionReassignmentsResponse."""
        reply, records = reassignments.alter_reassignments(self.image, request, self._policies)
        return Decision([*records], reply)

    def decide_list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> Decision:
        """List reassignments in progress; reply ListPartitionReassignmentsResponse."""
        return Decision([], reassignments.list_reassignments(self.image, request))

    def decide_elect_leaders(self, request: ElectLeadersRequest) -> Decision:
        """Elect leaders as a client asks; reply ElectLeadersResponse."""
        reply, records = elections.elect_leaders(self.image, request, self._policies)
        return Decision([*records], reply)

    def decide_preferred_elections(self) -> Decision:
        """Give leadership back to preferred replicas that may lead again; reply: how many.

        As many as `ELECTIONS_PER_ROUND` say that there may be more to do.
        """
        records = elections.preferred_elections(self.image, self._policies)
        return Decision([*records], len(records))

    def decide_unclean_elections(self) -> Decision:
        """Elect leaders at the price of data where topics allow it; reply: how many.

        To be asked after `unclean.leader.election.enable` has changed, and now and then. As many as
        `ELECTIONS_PER_ROUND` say that there may be more to do.
        """
        records = elections.unclean_elections(self.image, self._policies)
        return Decision([*records], len(records))

    def decide_allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> Decision:
        """Give a broker the next block of producer ids; reply AllocateProducerIdsResponse."""
        try:
            brokers.check_broker_epoch(self.image, request.broker_id, request.broker_epoch)
        except Refused as refused:
            return Decision([], AllocateProducerIdsResponse(error_code=refused.error))
        first = self.image.next_producer_id
        if first > _PRODUCER_ID_MAX - PRODUCER_ID_BLOCK:
            error = ErrorCode.UNKNOWN_SERVER_ERROR  # the ids are used up
            return Decision([], AllocateProducerIdsResponse(error_code=error))
        record = ProducerIdsRecord(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            next_producer_id=first + PRODUCER_ID_BLOCK,
        )
        reply = AllocateProducerIdsResponse(
            producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK
        )
        return Decision([record], reply)

    @property
    def _policies(self) -> PoliciesInForce:
        """What the configs in force say of topics."""
        return PoliciesInForce(self.image, self._config, self._rules)


def _first_records(
    bootstrap: Sequence[Message], levels: Mapping[str, int], config: ControllerConfig
) -> list[Message]:
    """The first records of a cluster, in a transaction if its `metadata.version` has those."""
    given = [*bootstrap]
    if not any(isinstance(r, FeatureLevelRecord) and _is_metadata_version(r) for r in given):
        assert METADATA_VERSION_FEATURE in levels, "a cluster has a metadata.version"
        others = sorted(name for name in levels if name != METADATA_VERSION_FEATURE)
        given = [
            FeatureLevelRecord(name=name, feature_level=levels[name])
            for name in (METADATA_VERSION_FEATURE, *others)
        ] + given
    level = next(
        r.feature_level
        for r in given
        if isinstance(r, FeatureLevelRecord) and _is_metadata_version(r)
    )
    if any(
        isinstance(r, FeatureLevelRecord) and r.name == ELR_FEATURE and r.feature_level > 0
        for r in given
    ):
        given += min_isr.records_before_elr(apply_records(ClusterImage(), given), config)
    if level < features.TRANSACTIONS_LEVEL:
        return given
    return [BeginTransactionRecord(name="bootstrap"), *given, EndTransactionRecord()]


def _is_metadata_version(record: FeatureLevelRecord) -> bool:
    return record.name == METADATA_VERSION_FEATURE
