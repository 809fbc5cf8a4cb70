"""Administrative messages, sent to Apache Kafka alone, at every version it takes.

What our classes say of these requests (numbers of enumerations, special values, error codes) is
checked by a broker that does not share them: ours would agree with a mistake of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.connection import Connection
from fencepost.client.errors import ConnectionFailed
from fencepost.client.security import Security
from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntryDataRequest,
)
from fencepost.wire.api.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from fencepost.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from fencepost.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from fencepost.wire.api.create_acls import AclCreation, CreateAclsRequest
from fencepost.wire.api.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from fencepost.wire.api.describe_acls import DescribeAclsRequest
from fencepost.wire.api.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from fencepost.wire.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from fencepost.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from fencepost.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from fencepost.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from fencepost.wire.message import Message

from ..waiting import DEADLINE_MS, eventually
from .apache import ApacheBroker, apache_broker
from .maven import JarSet
from .user_words import PASSWORD, credential, quota

pytestmark = [pytest.mark.interop, pytest.mark.slow]

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="admin" password="{PASSWORD}" user_admin="{PASSWORD}" user_eve="{PASSWORD}";'
)
HOUR_MS = 3_600_000


def versions(request_class: type[Message], oldest_served: int) -> list[Any]:
    """The versions that 4.x serves, as parameters."""
    return list(range(oldest_served, request_class.max_version + 1))


@pytest.fixture(scope="module")
def kafka(kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheBroker]:
    """A broker that authenticates with SASL/PLAIN, has an authorizer and signs tokens."""
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "delegation.token.secret.key": "secret of the test",
    }
    with apache_broker(tmp_path_factory.mktemp("secured"), **properties) as broker:
        yield broker


def connected(kafka: ApacheBroker, user: str) -> Connection:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    security = Security(protocol="SASL_PLAINTEXT", username=user, password=PASSWORD)
    return Connection(host, int(port), timeout_ms=DEADLINE_MS, security=security)


@pytest.fixture
def admin(kafka: ApacheBroker) -> Iterator[Connection]:
    """A connection of a user who may do everything."""
    with connected(kafka, "admin") as connection:
        yield connection


@pytest.fixture
def eve(kafka: ApacheBroker) -> Iterator[Connection]:
    """A connection of a user who may do nothing."""
    with connected(kafka, "eve") as connection:
        yield connection


@pytest.fixture(scope="module")
def topic(kafka: ApacheBroker) -> str:
    """A topic with one partition that its broker knows of."""
    with connected(kafka, "admin") as connection:
        new = CreatableTopic(name="moving", num_partitions=1, replication_factor=1)
        (made,) = connection.request(CreateTopicsRequest(topics=[new])).topics
        assert made.error_code == 0
        election = ElectLeadersRequest(
            topic_partitions=[TopicPartitions(topic="moving", partitions=[0])]
        )
        connection.request(election)
    return "moving"


# Access control lists

ANY, TOPIC, GROUP, CLUSTER = 1, 2, 3, 4
MATCH, LITERAL, PREFIXED = 2, 3, 4
READ, WRITE, TWO_PHASE_COMMIT = 3, 4, 15
DENY, ALLOW = 2, 3


def rule(**changes: Any) -> AclCreation:
    values: dict[str, Any] = {
        "resource_type": TOPIC,
        "resource_name": "orders",
        "principal": "User:eve",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclCreation(**{**values, **changes})


@pytest.mark.parametrize("version", versions(CreateAclsRequest, 1))
def test_rules_are_added_found_and_removed(admin: Connection, version: int) -> None:
    rules = [
        rule(),
        rule(),
        rule(resource_name="ord", resource_pattern_type=PREFIXED, operation=WRITE),
        rule(resource_name="*", permission_type=DENY),
        rule(resource_name="orders2"),
        rule(resource_name=""),
        rule(resource_type=CLUSTER, resource_name="mine"),
    ]
    results = admin.request(CreateAclsRequest(creations=rules), version).results
    assert [result.error_code for result in results] == [0, 0, 0, 0, 0, 42, 42]

    def found(pattern_type: int, **changes: Any) -> set[tuple[int, str]]:
        values: dict[str, Any] = {
            "resource_type_filter": TOPIC,
            "resource_name_filter": None if pattern_type == ANY else "orders",
            "pattern_type_filter": pattern_type,
            "principal_filter": "User:eve",
            "host_filter": None,
            "operation": ANY,
            "permission_type": ANY,
        }
        request = DescribeAclsRequest(**{**values, **changes})
        answer = admin.request(request, version)
        assert answer.error_code == 0
        return {(one.pattern_type, one.resource_name) for one in answer.resources}

    everything = {(3, "orders"), (4, "ord"), (3, "*"), (3, "orders2")}
    eventually(lambda: found(ANY) == everything)
    assert found(ANY, principal_filter="") == found(ANY, host_filter="") == set()
    assert {kind: found(kind) for kind in (ANY, MATCH, LITERAL, PREFIXED)} == {
        ANY: everything,
        MATCH: everything - {(3, "orders2")},
        LITERAL: {(3, "orders")},
        PREFIXED: set(),
    }

    filters = [
        DeleteAclsFilter(
            resource_type_filter=kind,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        for kind in (TOPIC, GROUP)
    ]
    removed, nothing = admin.request(DeleteAclsRequest(filters=filters), version).filter_results
    assert (removed.error_code, nothing.error_code, nothing.matching_acls) == (0, 0, [])
    assert {(one.pattern_type, one.resource_name) for one in removed.matching_acls} == everything
    assert {one.error_code for one in removed.matching_acls} == {0}


def test_rules_need_rights(eve: Connection) -> None:
    everything = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    assert eve.request(everything).error_code == 31
    results = eve.request(CreateAclsRequest(creations=[rule(), rule()])).results
    assert [result.error_code for result in results] == [31, 31]


@pytest.mark.parametrize(
    "changes",
    [{"resource_type": ANY}, {"operation": ANY}, {"resource_pattern_type": MATCH}],
    ids=lambda changes: next(iter(changes)),
)
def test_one_rule_about_any_spoils_the_request(admin: Connection, changes: dict[str, Any]) -> None:
    results = admin.request(CreateAclsRequest(creations=[rule(), rule(**changes)])).results
    assert [result.error_code for result in results] == [-1, -1]


@pytest.mark.parametrize(
    "request_", [DescribeAclsRequest(), CreateAclsRequest(creations=[AclCreation()])]
)
def test_fields_left_at_zero_cost_the_connection(admin: Connection, request_: Message) -> None:
    with pytest.raises(ConnectionFailed):
        admin.request(request_)


def test_the_newest_operation_has_its_number(admin: Connection) -> None:
    two_phase = rule(resource_type=5, resource_name="pay", operation=TWO_PHASE_COMMIT)
    beyond = rule(resource_type=5, resource_name="pay", operation=TWO_PHASE_COMMIT + 1)
    for asked, code in ((two_phase, 0), (beyond, 42)):
        results = admin.request(CreateAclsRequest(creations=[asked])).results
        assert [result.error_code for result in results] == [code]


# Configs and log directories


@pytest.mark.parametrize("version", versions(AlterConfigsRequest, 0))
def test_configs_are_replaced(admin: Connection, topic: str, version: int) -> None:
    def alter(configs: dict[str, str | None], **changes: Any) -> int:
        resource = AlterConfigsResource(
            resource_type=2,
            resource_name=topic,
            configs=[AlterableConfig(name=name, value=value) for name, value in configs.items()],
        )
        request = AlterConfigsRequest(resources=[resource], **changes)
        (answer,) = admin.request(request, version).responses
        assert (answer.resource_type, answer.resource_name) == (2, topic)
        return int(answer.error_code)

    def own_configs() -> dict[str, str | None]:
        resource = DescribeConfigsResource(
            resource_type=2, resource_name=topic, configuration_keys=None
        )
        (answer,) = admin.request(DescribeConfigsRequest(resources=[resource])).results
        return {one.name: one.value for one in answer.configs if one.config_source == 1}

    assert alter({"retention.ms": "1000", "segment.bytes": "2000000"}) == 0
    assert alter({"retention.ms": "2000"}, validate_only=True) == 0
    assert alter({"retention.ms": None}) == 42
    assert alter({"retention.ms": "tomorrow"}) == 40
    assert alter({"retention.ms": "3000"}) == 0
    eventually(lambda: own_configs() == {"retention.ms": "3000"})
    assert alter({}) == 0


@pytest.mark.parametrize("version", versions(AlterReplicaLogDirsRequest, 1))
def test_log_directories(kafka: ApacheBroker, admin: Connection, topic: str, version: int) -> None:
    def move(path: str, name: str) -> int:
        partitions = AlterReplicaLogDirTopic(name=name, partitions=[0])
        request = AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path=path, topics=[partitions])]
        )
        (answer,) = admin.request(request, version).results
        assert answer.topic_name == name
        return int(answer.partitions[0].error_code)

    assert move(str(kafka.data_dir), topic) == 0
    assert move(str(kafka.data_dir), "not-here") == 3
    assert move("/no/such/directory", topic) == 57


# Delegation tokens


@pytest.mark.parametrize("version", versions(CreateDelegationTokenRequest, 1))
def test_the_life_of_a_token(admin: Connection, version: int) -> None:
    old = min(version, RenewDelegationTokenRequest.max_version)
    renewer = CreatableRenewers(principal_type="User", principal_name="eve")
    create = CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=HOUR_MS)
    token = admin.request(create, version)
    assert (token.error_code, token.principal_name) == (0, "admin")
    assert token.token_requester_principal_name == ("admin" if version >= 3 else "")
    assert token.max_timestamp_ms == token.issue_timestamp_ms + HOUR_MS
    assert token.expiry_timestamp_ms == token.max_timestamp_ms

    def listed(owner: str) -> list[str]:
        owners = [DescribeDelegationTokenOwner(principal_type="User", principal_name=owner)]
        answer = admin.request(DescribeDelegationTokenRequest(owners=owners), version)
        assert answer.error_code == 0
        return [one.token_id for one in answer.tokens]

    eventually(lambda: token.token_id in listed("admin"))
    assert token.token_id in listed("eve")
    assert listed("mallory") == []
    assert admin.request(DescribeDelegationTokenRequest(owners=[]), version).tokens == []
    (seen,) = [
        one
        for one in admin.request(DescribeDelegationTokenRequest(owners=None), version).tokens
        if one.token_id == token.token_id
    ]
    assert seen.hmac == token.hmac

    renew = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
    renewed = admin.request(renew, old)
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, token.max_timestamp_ms)
    unknown = RenewDelegationTokenRequest(hmac=b"unknown", renew_period_ms=-1)
    assert admin.request(unknown, old).error_code == 62

    shorten = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=HOUR_MS // 2)
    shortened = admin.request(shorten, old)
    assert shortened.error_code == 0
    assert shortened.expiry_timestamp_ms < token.max_timestamp_ms
    end = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    assert admin.request(end, old).error_code == 0


def test_tokens_that_are_refused(admin: Connection, eve: Connection) -> None:
    group = CreatableRenewers(principal_type="Group", principal_name="staff")
    assert admin.request(CreateDelegationTokenRequest(renewers=[group])).error_code == 67
    for_admin = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="admin"
    )
    assert eve.request(for_admin).error_code == 65
    for_eve = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="eve")
    token = admin.request(for_eve)
    assert (token.principal_name, token.token_requester_principal_name) == ("eve", "admin")
    mine = admin.request(
        CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None)
    )
    assert (mine.error_code, mine.principal_name) == (0, "admin")
    everybodys = DescribeDelegationTokenRequest(owners=None)
    eventually(lambda: mine.token_id in [t.token_id for t in admin.request(everybodys).tokens])
    taken = ExpireDelegationTokenRequest(hmac=mine.hmac, expiry_time_period_ms=-1)
    assert eve.request(taken).error_code == 63


# Elections and moves


@pytest.mark.parametrize("version", versions(ElectLeadersRequest, 0))
def test_elections(admin: Connection, topic: str, version: int) -> None:
    wanted = [
        TopicPartitions(topic=topic, partitions=[0, 7]),
        TopicPartitions(topic="not-here", partitions=[0]),
    ]
    answer = admin.request(ElectLeadersRequest(topic_partitions=wanted), version)
    codes = {
        (one.topic, partition.partition_id): partition.error_code
        for one in answer.replica_election_results
        for partition in one.partition_result
    }
    assert codes == {(topic, 0): 84, (topic, 7): 3, ("not-here", 0): 3}
    everywhere = admin.request(ElectLeadersRequest(topic_partitions=None), version)
    assert everywhere.error_code == 0
    assert not any(one.partition_result for one in everywhere.replica_election_results)
    if version >= 1:
        unclean = ElectLeadersRequest(election_type=1, topic_partitions=wanted[:1])
        (one,) = admin.request(unclean, version).replica_election_results
        assert one.partition_result[0].error_code == 84


def test_elections_need_rights(eve: Connection, topic: str) -> None:
    wanted = [TopicPartitions(topic=topic, partitions=[0])]
    assert eve.request(ElectLeadersRequest(topic_partitions=wanted), 2).error_code == 31
    (one,) = eve.request(ElectLeadersRequest(topic_partitions=wanted), 0).replica_election_results
    assert one.partition_result[0].error_code == 31
    assert eve.request(ElectLeadersRequest(topic_partitions=None)).replica_election_results == []


@pytest.mark.parametrize("version", versions(AlterPartitionReassignmentsRequest, 0))
def test_moves(admin: Connection, topic: str, version: int) -> None:
    def move(replicas: list[int] | None, partition: int = 0, **changes: Any) -> int:
        target = ReassignablePartition(partition_index=partition, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[target])], **changes
        )
        answer = admin.request(request, version)
        assert answer.error_code == 0
        return int(answer.responses[0].partitions[0].error_code)

    assert move([1]) == 0
    assert move([2]) == 39
    assert move([1], partition=7) == 3
    assert move(None) == 85
    if version >= 1:
        assert move([1], allow_replication_factor_change=False) == 0


def test_moves_are_listed(admin: Connection, eve: Connection, topic: str) -> None:
    everything = admin.request(ListPartitionReassignmentsRequest())
    assert (everything.error_code, everything.topics) == (0, [])
    named = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=[0])
        for name in (topic, "not-here")
    ]
    answer = admin.request(ListPartitionReassignmentsRequest(topics=named))
    assert (answer.error_code, [one.partitions for one in answer.topics if one.partitions]) == (
        0,
        [],
    )
    assert eve.request(ListPartitionReassignmentsRequest()).error_code == 31


# Quotas


def parts(entry: Any) -> frozenset[tuple[str, str | None]]:
    """An entity, whose parts come in any order."""
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


@pytest.mark.parametrize("version", versions(AlterClientQuotasRequest, 0))
def test_quotas(admin: Connection, eve: Connection, version: int) -> None:
    def alter(*entries: EntryDataRequest) -> list[int]:
        request = AlterClientQuotasRequest(entries=list(entries))
        codes = {parts(one): one.error_code for one in admin.request(request, version).entries}
        return [codes[parts(entry)] for entry in entries]

    def described(strict: bool, *components: ComponentData) -> list[tuple[int, float]]:
        """(number of parts, value) of every entity that matches."""
        request = DescribeClientQuotasRequest(components=list(components), strict=strict)
        answer = admin.request(request, version)
        assert answer.error_code == 0
        return sorted((len(one.entity), one.values[0].value) for one in answer.entries)

    assert alter(
        quota("producer_byte_rate", 1000.0, user="eve"),
        quota("producer_byte_rate", 2000.0, user="eve", client_id=None),
        quota("request_percentage", 12.5, user=None),
        quota("controller_mutation_rate", 0.5, client_id="c"),
        quota("connection_creation_rate", 7.0, ip="10.0.0.1"),
        quota("producer_byte_rate", 0.0, user="zero"),
        quota("producer_byte_rate", 1.5, user="broken"),
        quota("producer_byte_rate", 5.0, user="both", ip="10.0.0.1"),
        quota("connection_creation_rate", 5.0, user="wrong"),
    ) == [0, 0, 0, 0, 0, 42, 42, 42, 42]
    exact = ComponentData(entity_type="user", match_type=0, match="eve")
    default = ComponentData(entity_type="user", match_type=1, match=None)
    any_user = ComponentData(entity_type="user", match_type=2, match=None)
    eventually(lambda: len(described(False)) == 5)
    assert described(False, exact) == [(1, 1000.0), (2, 2000.0)]
    assert described(True, exact) == [(1, 1000.0)]
    assert described(False, default) == [(1, 12.5)]
    assert described(False, any_user) == [(1, 12.5), (1, 1000.0), (2, 2000.0)]
    assert described(True) == []

    wrong = ComponentData(entity_type="planet", match_type=2, match=None)
    no_name = ComponentData(entity_type="user", match_type=0, match=None)
    a_name = ComponentData(entity_type="user", match_type=2, match="")
    for component, code in ((wrong, 35), (no_name, 42), (a_name, 42)):
        answer = admin.request(DescribeClientQuotasRequest(components=[component]), version)
        assert (answer.error_code, answer.entries) == (code, None)
    refused = eve.request(DescribeClientQuotasRequest(), version)
    assert (refused.error_code, refused.entries) == (31, None)

    assert (
        alter(
            quota("producer_byte_rate", 0.0, remove=True, user="eve"),
            quota("producer_byte_rate", 0.0, remove=True, user="eve", client_id=None),
            quota("request_percentage", 0.0, remove=True, user=None),
            quota("controller_mutation_rate", 0.0, remove=True, client_id="c"),
            quota("connection_creation_rate", 0.0, remove=True, ip="10.0.0.1"),
            quota("producer_byte_rate", 0.0, remove=True, user="never set"),
        )
        == [0] * 6
    )


# SCRAM


def test_scram_credentials(admin: Connection) -> None:
    def alter(deletions: list[tuple[str, int]], *upsertions: Any) -> dict[str, int]:
        request = AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=n, mechanism=m) for n, m in deletions],
            upsertions=list(upsertions),
        )
        return {one.user: one.error_code for one in admin.request(request).results}

    assert alter(
        [("unknown", 1)],
        credential("fine", 1),
        credential("most", 2, 16384),
        credential("two", 1),
        credential("two", 2),
        credential("weak", 1, 4095),
        credential("slow", 1, 16385),
        credential("strange", 3),
        credential("", 1),
    ) == {
        "unknown": 91,
        "fine": 0,
        "most": 0,
        "two": 92,
        "weak": 93,
        "slow": 93,
        "strange": 33,
        "": 93,
    }
    assert alter([], credential("fine", 2)) == {"fine": 0}

    def described(users: list[str] | None) -> dict[str, tuple[int, list[tuple[int, int]]]]:
        wanted = None if users is None else [UserName(name=name) for name in users]
        answer = admin.request(DescribeUserScramCredentialsRequest(users=wanted))
        assert answer.error_code == 0
        return {
            one.user: (
                one.error_code,
                sorted((info.mechanism, info.iterations) for info in one.credential_infos),
            )
            for one in answer.results
        }

    everybody = {"fine": (0, [(1, 4096), (2, 4096)]), "most": (0, [(2, 16384)])}
    eventually(lambda: described(None) == everybody)
    assert described(None) == described([]) == everybody
    assert described(["unknown", "most", "fine", "fine"]) == {
        "unknown": (91, []),
        "most": everybody["most"],
        "fine": (92, []),
    }
    assert alter([("fine", 1), ("most", 2)]) == {"fine": 0, "most": 0}


def test_scram_credentials_need_rights(eve: Connection) -> None:
    assert eve.request(DescribeUserScramCredentialsRequest(users=[])).error_code == 31
    request = AlterUserScramCredentialsRequest(upsertions=[credential("eve", 1)])
    assert [one.error_code for one in eve.request(request).results] == [31]
