"""Every API asks the gate, and a client that it refuses is answered as Apache Kafka answers it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.batch.records import BatchBuilder
from fencepost.broker import apis
from fencepost.broker.cluster.controller_access import config_refusal
from fencepost.broker.loop.fault_handler import FaultHandler
from fencepost.broker.net.served import BROKER, CONTROLLER, SERVED, SERVED_BY_KIND
from fencepost.machines.authorizer import AclAuthorizer, Policy
from fencepost.machines.image.acls import CLUSTER_NAME, Acl, ResourceType
from fencepost.machines.image.persistent import PersistentMap
from fencepost.runtime.authorizer import NodeAuthorizer
from fencepost.runtime.combined_appends import CombinedAppends
from fencepost.runtime.end_offsets import EndOffsets
from fencepost.runtime.groups import REBALANCE_PROTOCOLS, GroupCoordinators
from fencepost.runtime.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from fencepost.runtime.markers import MarkerWriter
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.producer_ids import ProducerIds
from fencepost.runtime.requests.access import Access, Client
from fencepost.runtime.requests.parts import InternalTopicCreation, StreamsTopicCreation
from fencepost.runtime.requests.permissions import (
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Permission,
)
from fencepost.runtime.share_persister import SharePersister
from fencepost.runtime.share_sessions import ShareSessionHost
from fencepost.runtime.share_states import ShareStateCoordinators
from fencepost.runtime.transactional_commits import TransactionalCommits
from fencepost.runtime.transactional_writes import TransactionalWrites
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.wire.api import request_class
from fencepost.wire.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from fencepost.wire.api.envelope import EnvelopeRequest
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.list_groups import ListedGroup
from fencepost.wire.api.list_transactions import TransactionState
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_response, encode_request
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import FeatureLevelRecord
from fencepost.wire.records.principal import DefaultPrincipalData, encode_principal
from fencepost.wire.types import Uuid

from ..samples import sample
from .authorizers import Rules, errors_in
from .harness import Caller, answer_of, broker, send, served_versions, to_its_end, topic_id
from .partitions import NOW_MS, PartitionNode

apis.load_all()

UNASKED = {17, 18, 36, 39, 40}
"""Login and versions are for every client; a token's owner and renewers need no permission."""
AFTER_LOGIN = {38, 41}
"""Refused to every client that has not logged in, first of all (`test_delegation_tokens`)."""


class Listed:
    """Coordinators of which one has one group, or transactional id."""

    rebalance_protocols = REBALANCE_PROTOCOLS

    def __init__(self, topic: str, one: Any) -> None:
        self.topic = topic
        self.one = one

    def coordinators(self) -> list[Any]:
        return [self]

    def submit(self, decide: Any, on_reply: Any) -> None:
        on_reply(ErrorCode.NONE, [self.one])


@pytest.fixture
def node(tmp_path: Path) -> PartitionNode:
    offered = [
        FeatureLevelRecord(name=name, feature_level=1)
        for name in ("group.version", "share.version", "streams.version")
    ]
    made = PartitionNode(directory=tmp_path).learn(broker(1), *offered)
    assert isinstance(made, PartitionNode)
    made.host("sample")
    appends = CombinedAppends(made.driver, made.ports, lambda _: None, lambda *_: True)
    made.others = {
        CombinedAppends: appends,
        # No refused request gets as far as to use these, but for listings.
        GroupCoordinators: Listed(OFFSETS_TOPIC, ListedGroup(group_id="group")),
        TransactionCoordinators: Listed(
            TRANSACTIONS_TOPIC, TransactionState(transactional_id="sample")
        ),
        ShareStateCoordinators: Listed(SHARE_STATE_TOPIC, None),
        EndOffsets: None,
        FaultHandler: None,
        InternalTopicCreation: None,
        MarkerWriter: None,
        MetadataHost: None,
        ProducerIds: None,
        SharePersister: None,
        ShareSessionHost: None,
        StreamsTopicCreation: None,
        TransactionalCommits: None,
        TransactionalWrites: None,
    }
    return made


def rules(node: PartitionNode, *refused: Permission, all_refused: bool = False) -> Rules:
    node.access.authorizer = made = Rules(*refused, all_refused=all_refused)
    return made


def ask(
    node: Any, request: Message, version: int | None = None, listener: str = "PLAINTEXT"
) -> Any:
    """The answer, also of a handler that makes it when it is next; None if it disconnects."""
    chosen = served_versions(type(request), listener)[-1] if version is None else version
    context = send(node, request, chosen, listener)
    node.others[CombinedAppends].settle()
    pieces = context.take_pieces()
    if pieces is not None:
        to_its_end(pieces)
    caller: Any = context.connection
    return None if caller.closed_because else answer_of(context)


def test_every_api_says_what_it_asks_for():
    assert {row.api_key for row in SERVED if not row.asks} == UNASKED


DENIED: dict[tuple[str, int], set[int]] = {
    **{(BROKER, key): {31} for key in (29, 30, 31, 34, 35, 43, 45, 46, 48, 49, 50, 51, 55, 57, 64)},
    **{(BROKER, key): {31} for key in (22, 27, 74, 80, 81, 94)},
    **{(BROKER, key): {31} for key in (83, 84, 85, 86, 87)},
    **{(BROKER, key): {29} for key in (0, 1, 2, 3, 19, 20, 21, 23, 32, 33, 37, 44, 61)},
    **{(CONTROLLER, key): {31} for key in (1, 29, 30, 31, 43, 45, 46, 49, 50, 51, 52, 53, 54, 55)},
    **{
        (CONTROLLER, key): {31}
        for key in (56, 57, 58, 59, 60, 62, 63, 64, 67, 70, 73, 80, 81, 82, 94)
    },
    **{(CONTROLLER, key): {29} for key in (19, 20, 32, 33, 37, 44)},
    (BROKER, 75): {29},
    **{(BROKER, key): {30} for key in (8, 9, 10, 11, 12, 13, 14, 15, 42, 47, 68, 69)},
    **{(BROKER, key): {30} for key in (76, 77, 78, 79, 90, 91, 92)},
    **{(BROKER, key): {30} for key in (88, 89, 93)},
    **{(BROKER, key): {53} for key in (25, 26, 28, 65)},
    (BROKER, 24): {53},
    **{(BROKER, key): set() for key in (16, 60, 66)},
}
"""The errors that a client without any permission is answered with, at every version. Listings
leave out what it may not see, and DescribeCluster of a broker is for every client."""
FROM_BROKERS = {(BROKER, 24): range(4, 6)}
"""Versions that are for brokers alone: CLUSTER_AUTHORIZATION_FAILED."""


def test_the_table_of_refusals_has_every_api_that_asks():
    asking = {
        (kind, row.api_key)
        for kind in (BROKER, CONTROLLER)
        for row in SERVED_BY_KIND[kind].values()
        if row.asks and row.api_key not in AFTER_LOGIN
    }
    assert asking == DENIED.keys()


WITHOUT_ERROR = {(BROKER, 35): range(1, 3), (CONTROLLER, 1): range(4, 7)}
"""Versions whose response has no place for the error: there is nothing in it, or no response."""


@pytest.mark.parametrize(("kind", "api_key"), sorted(DENIED))
def test_a_client_without_permissions_is_refused(node: PartitionNode, kind: str, api_key: int):
    row = SERVED_BY_KIND[kind][api_key]
    listener = "PLAINTEXT" if kind == BROKER else "CONTROLLER"
    before = node.image
    for version in range(row.min_version, row.max_version + 1):
        authorizer = rules(node, all_refused=True)
        request: Any = sample(request_class(api_key), version, "sample", topic_id("sample"))
        if isinstance(request, MetadataRequest | DeleteTopicsRequest) and request.topics:
            request.topics[0].topic_id = Uuid.ZERO
        answer = ask(node, request, version, listener)
        is_told = version not in WITHOUT_ERROR.get((kind, api_key), ())
        errors = set() if answer is None else set(errors_in(answer))
        denied = {31} if version in FROM_BROKERS.get((kind, api_key), ()) else DENIED[kind, api_key]
        assert errors == (denied if is_told else set()), f"v{version}: {answer}"
        assert authorizer.asked <= set(row.asks), f"v{version} asks for more than its row says"
        assert authorizer.asked or (kind, api_key) == (BROKER, 60), f"v{version} asks for nothing"
    assert node.image is before


# -- what is told, and what is not -----------------------------------------------------------------


def metadata_of(node: PartitionNode, *names: str, version: int | None = None, **fields: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return ask(node, MetadataRequest(topics=topics, **fields), version)


def test_a_topic_that_may_not_be_described_looks_like_one_that_is_missing(node: PartitionNode):
    rules(node, DESCRIBE_TOPIC)
    there, missing = metadata_of(node, "sample", "missing").topics
    assert (there.error_code, there.topic_id, there.partitions) == (29, Uuid.ZERO, [])
    there.name = missing.name
    assert there == missing
    topics = [MetadataRequestTopic(name=None, topic_id=topic_id("sample"))]
    (by_id,) = ask(node, MetadataRequest(topics=topics)).topics
    assert (by_id.error_code, by_id.name, by_id.topic_id) == (29, None, topic_id("sample"))
    topics = [MetadataRequestTopic(name=None, topic_id=topic_id("missing"))]
    (by_id,) = ask(node, MetadataRequest(topics=topics)).topics
    assert by_id.error_code == 100
    assert ask(node, MetadataRequest(topics=None)).topics == []


def test_a_missing_topic_is_created_with_either_permission(node: PartitionNode):
    rules(node, CREATE_CLUSTER, CREATE_TOPIC)
    (answer,) = metadata_of(node, "missing").topics
    assert answer.error_code == 29 and "missing" not in node.image.topics_by_name
    (answer,) = metadata_of(node, "missing", allow_auto_topic_creation=False).topics
    assert answer.error_code == 3
    for refused in (CREATE_CLUSTER, CREATE_TOPIC):
        rules(node, refused)
        name = f"missing-{refused.resource_type.name.lower()}"
        (answer,) = metadata_of(node, name).topics
        assert answer.error_code == 3 and name in node.image.topics_by_name


def test_authorized_operations_are_those_of_the_client(node: PartitionNode):
    asked = {"include_topic_authorized_operations": True}
    answer = metadata_of(node, "sample", **asked)
    assert answer.topics[0].topic_authorized_operations == 3576
    rules(node, WRITE_TOPIC)
    answer = metadata_of(node, "sample", **asked)
    assert answer.topics[0].topic_authorized_operations == 3576 - (1 << 4)
    request = MetadataRequest(topics=[], include_cluster_authorized_operations=True)
    assert ask(node, request, 10).cluster_authorized_operations == 8096
    rules(node, DESCRIBE_CLUSTER)
    assert ask(node, request, 10).cluster_authorized_operations == 0
    assert node.access.operations(Caller(), ResourceType.GROUP, "group") == 3400


def test_describing_topics_leaves_out_what_was_not_named(node: PartitionNode):
    authorizer = rules(node, DESCRIBE_TOPIC)
    assert ask(node, DescribeTopicPartitionsRequest(response_partition_limit=9)).topics == []
    assert DESCRIBE_TOPIC in authorizer.asked - authorizer.logged, "no refusal is logged"


def create(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    )


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_each_topic_is_created_or_refused(node: PartitionNode, listener: str):
    rules(node, CREATE_CLUSTER)
    made = ask(node, create("a", "b"), listener=listener)
    assert [one.error_code for one in made.topics] == [0, 0]
    rules(node, CREATE_CLUSTER, CREATE_TOPIC)
    made = ask(node, create("c", "d", "d"), listener=listener)
    assert sorted((one.name, one.error_code) for one in made.topics) == [("c", 29), ("d", 42)]
    rules(node, DESCRIBE_TOPIC_CONFIGS)
    (made,) = ask(node, create("e"), listener=listener).topics
    assert (made.error_code, made.topic_config_error_code, made.num_partitions) == (0, 29, -1)
    assert (made.replication_factor, made.configs) == (-1, [])
    assert node.image.topics_by_name.keys() == {"sample", "a", "b", "e"}


@pytest.mark.parametrize("refused", [DESCRIBE_TOPIC, DELETE_TOPIC])
def test_a_topic_is_deleted_by_a_client_that_may_describe_and_delete(
    node: PartitionNode, refused: Permission
):
    rules(node, DELETE_CLUSTER, refused)
    by_name = [DeleteTopicState(name=name) for name in ("sample", "missing")]
    by_id = [DeleteTopicState(topic_id=topic_id(name)) for name in ("sample", "missing")]
    told = [
        (one.name, one.topic_id, one.error_code)
        for topics in (by_name, by_id)
        for one in ask(node, DeleteTopicsRequest(topics=topics, timeout_ms=1000)).responses
    ]
    sees = refused is DELETE_TOPIC
    assert told == [
        ("sample", Uuid.ZERO, 29),
        ("missing", Uuid.ZERO, 3 if sees else 29),
        ("sample" if sees else None, topic_id("sample"), 29),
        (None, topic_id("missing"), 100),
    ]
    assert "sample" in node.image.topics_by_name
    rules(node, DELETE_CLUSTER)
    request = DeleteTopicsRequest(topics=by_name[:1], timeout_ms=1000)
    assert ask(node, request).responses[0].error_code == 0


def test_configs_are_refused_by_the_type_of_their_resource(node: PartitionNode):
    rules(node, all_refused=True)
    kinds = {2: "sample", 4: "1", 8: "1", 16: "metrics", 32: "group"}
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in kinds.items()
    ]
    described = ask(node, DescribeConfigsRequest(resources=resources)).results
    assert [one.error_code for one in described] == [29, 31, 31, 31, 30]
    level = AlterableConfig(name="root", config_operation=0, value="INFO")
    changed = AlterableConfig(name="retention.ms", config_operation=0, value="1")
    changes = [
        AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[level if kind == 8 else changed]
        )
        for kind, name in kinds.items()
        if kind != 4
    ]
    for listener in ("PLAINTEXT", "CONTROLLER"):
        answer = ask(node, IncrementalAlterConfigsRequest(resources=changes), listener=listener)
        assert [one.error_code for one in answer.responses] == [29, 31, 31, 30]
    rules(node, ALTER_GROUP_CONFIGS, ALTER_CLUSTER_CONFIGS)
    for is_tried in (True, False):
        request = IncrementalAlterConfigsRequest(
            resources=[changes[3], changes[0]], validate_only=is_tried
        )
        answers = ask(node, request, listener="CONTROLLER").responses
        assert [(one.resource_type, one.error_code) for one in answers] == [(32, 30), (2, 0)]
        assert len(node.image.configs) == (0 if is_tried else 1)
    permitted = {
        refused: config_refusal(Access(Rules(refused)), Caller(), changes[1])
        for refused in (CLUSTER_ACTION, ALTER_CLUSTER_CONFIGS)
    }
    assert permitted == {CLUSTER_ACTION: 31, ALTER_CLUSTER_CONFIGS: 0}, "of a controller's loggers"


class BrokersOnly(Rules):
    """Brokers may do everything, and other clients nothing."""

    def allows(self, client: Client, permission: Permission, name: str, *, quiet: bool) -> bool:
        return client.principal.name == "ANONYMOUS"


def test_what_an_envelope_may_do_is_what_its_client_may_do(node: PartitionNode):
    node.access.authorizer = BrokersOnly()
    inside = encode_request(create("made"), 7, 3, "client")
    for name, error in (("alice", 29), ("ANONYMOUS", 0)):
        who = DefaultPrincipalData(type="User", name=name)
        request = EnvelopeRequest(
            request_data=inside[4:],
            request_principal=encode_principal(who),
            client_host_address=bytes(4),
        )
        answer = ask(node, request, listener="CONTROLLER")
        assert answer.error_code == 0
        _, made = decode_response(CreateTopicsResponse, 7, answer.response_data)
        assert [one.error_code for one in made.topics] == [error]


# -- partitions ------------------------------------------------------------------------------------


def test_a_partition_is_found_by_name_and_by_id_and_its_topic_asked_about_once(node: PartitionNode):
    client, names = Caller(), ("sample", "missing")
    hosted = node.replicas.hosted["sample", 0]
    for find in (
        lambda topic: node.partitions.find(client, READ_TOPIC, topic, 0),
        lambda topic: node.partitions.finder(client, READ_TOPIC, by_id=isinstance(topic, Uuid))(
            topic, 0
        ),
    ):
        node.access.authorizer = None
        assert [find(name) for name in names] == [hosted, 3]
        assert [find(topic_id(name)) for name in names] == [hosted, 100]
        rules(node, WRITE_TOPIC)
        assert [find(name) for name in names] == [hosted, 3]
        rules(node, READ_TOPIC)
        assert [find(name) for name in names] == [29, 29]
        assert [find(topic_id(name)) for name in names] == [29, 100]
        rules(node)
        assert node.partitions.topic_refusal(client, READ_TOPIC, topic_id("missing")) == 100


def test_a_finder_asks_once_per_topic(node: PartitionNode):
    asked: list[str] = []

    class Noting(Rules):
        def allows(self, client: Client, permission: Permission, name: str, *, quiet: bool) -> bool:
            asked.append(name)
            return True

    node.access.authorizer = Noting()
    find = node.partitions.finder(Caller(), READ_TOPIC, by_id=False)
    assert [find("sample", index) for index in (0, 0, 1)][-1] == 3 and find("other", 0) == 3
    assert asked == ["sample", "other"]


def test_a_follower_needs_cluster_action_and_no_right_to_a_topic(node: PartitionNode):
    def fetch() -> set[int]:
        request = sample(request_class(1), 12, "sample", topic_id("sample"))
        request.replica_id = 2  # type: ignore[attr-defined]
        return set(errors_in(ask(node, request, 12)))

    rules(node, READ_TOPIC)
    assert 29 not in fetch()
    rules(node, CLUSTER_ACTION)
    assert fetch() == {29}


def produced(node: PartitionNode, version: int, *, transactional: bool) -> list[int]:
    request: Any = sample(request_class(0), version, "sample", topic_id("sample"))
    batch = BatchBuilder()
    batch.append(b"key", b"value", timestamp_ms=NOW_MS)
    ids = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    records = batch.build(transactional=transactional, **ids)
    request.transactional_id = "mine"
    request.topic_data[0].partition_data[0].records = records
    return list(errors_in(ask(node, request, version)))


def test_writing_needs_the_topic_and_in_a_transaction_its_id_as_well(node: PartitionNode):
    rules(node, WRITE_TRANSACTIONAL_ID)
    assert produced(node, 13, transactional=False) == []
    assert produced(node, 13, transactional=True) == [53]
    rules(node, WRITE_TOPIC)
    assert produced(node, 13, transactional=False) == [29]


# -- with ACLs -------------------------------------------------------------------------------------


def acls_for(node: PartitionNode, *rules: tuple[int, int, bool]) -> NodeAuthorizer:
    """Has the node's authorizer decide by ACLs about all resources of a type: (operation, type,
    whether it is allowed)."""
    acls: dict[Uuid, Acl] = {}
    for number, (operation, kind, is_allowed) in enumerate(rules, 1):
        name = CLUSTER_NAME if kind == ResourceType.CLUSTER else "*"
        acl = Acl(kind, name, 3, operation, "User:ANONYMOUS", "127.0.0.1", 3 if is_allowed else 2)
        acls[Uuid(number.to_bytes(16, "big"))] = acl
    authorizer = NodeAuthorizer(AclAuthorizer(Policy()), node.ports)
    authorizer.machine.learn(PersistentMap(acls))
    authorizer.machine.loaded()
    node.access.authorizer = authorizer
    return authorizer


REFUSED = {29, 30, 31, 53, 65}
ALL = 2


@pytest.mark.parametrize(("kind", "api_key"), sorted(DENIED))
def test_acls_let_a_client_do_what_the_api_asks_for_and_nothing_less(
    node: PartitionNode, kind: str, api_key: int
):
    row = SERVED_BY_KIND[kind][api_key]
    listener = "PLAINTEXT" if kind == BROKER else "CONTROLLER"
    asks = [(int(one.operation), int(one.resource_type)) for one in row.asks]

    def refused(version: int) -> set[int]:
        request: Any = sample(request_class(api_key), version, "sample", topic_id("sample"))
        if isinstance(request, MetadataRequest | DeleteTopicsRequest) and request.topics:
            request.topics[0].topic_id = Uuid.ZERO
        try:
            answer = ask(node, request, version, listener)
        except Exception:  # noqa: BLE001 - it went past the gate, to what is not there
            return set()
        return set() if answer is None else set(errors_in(answer)) & REFUSED

    for version in {row.min_version, row.max_version}:
        is_told = version not in WITHOUT_ERROR.get((kind, api_key), ())
        denied = {31} if version in FROM_BROKERS.get((kind, api_key), ()) else DENIED[kind, api_key]
        expected = denied if is_told else set()
        before = node.image
        acls_for(node)
        assert refused(version) == expected, f"v{version} without an ACL"
        others = [
            (operation, kind_)
            for kind_ in {kind_ for _, kind_ in asks}
            for operation in (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15)
            if not any(operation in (one, *IMPLIES.get(one, ())) for one, of in asks if of == kind_)
        ]
        acls_for(node, *((*one, True) for one in others))
        assert refused(version) == expected, f"v{version} with every right that is not asked for"
        everything = [(ALL, kind_, True) for kind_ in ResourceType if kind_ > ResourceType.ANY]
        acls_for(node, *everything, *((*one, False) for one in asks))
        assert refused(version) == expected, f"v{version} with everything but what is denied"
        assert node.image is before, f"v{version} has changed something"
        acls_for(node, *((*one, True) for one in asks))
        assert refused(version) == set(), f"v{version} with what it asks for"


IMPLIES = {8: (3, 4, 6, 7), 10: (11,)}
"""Operations that imply one, by that."""


def test_what_is_forbidden_looks_like_what_is_missing(node: PartitionNode):
    """By name, byte for byte."""
    acls_for(node)
    for api_key, versions in ((0, (3, 12)), (1, (4, 12)), (2, (1, 11)), (3, (0, 13)), (21, (0, 2))):
        for version in versions:
            told = []
            for name in ("sample", "missin"):
                request: Any = sample(request_class(api_key), version, name, Uuid.ZERO)
                answer = ask(node, request, version)
                told.append(repr(answer).replace("missin", "sample"))
            assert told[0] == told[1], f"key {api_key} v{version}"
