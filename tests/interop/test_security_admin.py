"""`Admin` on Apache Kafka with an authorizer: ACLs, users who log in by SCRAM, quotas, tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.client.acls import AclBinding, AclBindingFilter
from fencepost.client.admin import Admin
from fencepost.client.aio import AsyncAdmin, AsyncCluster
from fencepost.client.client_quotas import ClientQuotaEntity, ClientQuotaFilter, QuotaMatch
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.errors import AuthenticationFailed, BrokerError
from fencepost.client.scram_users import (
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from fencepost.machines.image.acls import (
    CLUSTER_NAME,
    AclOperation,
    Pattern,
    PermissionType,
    ResourceType,
)
from fencepost.machines.image.scram import ScramMechanism
from fencepost.wire.errors import ErrorCode

from ..waiting import eventually
from .apache import apache_broker
from .maven import JarSet

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PASSWORD = "of the test"
MODULES = "org.apache.kafka.common.security"
PLAIN = (
    f"{MODULES}.plain.PlainLoginModule required "
    f'username="admin" password="{PASSWORD}" user_admin="{PASSWORD}" user_eve="{PASSWORD}";'
)
LISTENERS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": PLAIN,
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": (
        f"{MODULES}.scram.ScramLoginModule required;"
    ),
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": (
        f"{MODULES}.scram.ScramLoginModule required;"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "secret of the test",
}


@pytest.fixture(scope="module")
def servers(kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that asks for a login, has an authorizer and makes tokens."""
    with apache_broker(tmp_path_factory.mktemp("secured"), **LISTENERS) as broker:
        yield broker.bootstrap_servers


def config(servers: str, user: str = "admin", **more: str) -> ClientConfig:
    """Of a client that logs in by PLAIN, unless told otherwise."""
    props = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }
    return ClientConfig.from_props({**props, **more})


@pytest.fixture
def admin(servers: str) -> Iterator[Admin]:
    with Cluster(config=config(servers)) as cluster:
        yield Admin(cluster)


@pytest.fixture
def eve(servers: str) -> Iterator[Admin]:
    """A user without a permission."""
    with Cluster(config=config(servers, "eve")) as cluster:
        yield Admin(cluster)


def logs_in(servers: str, **more: str) -> bool:
    """Whether a client with these properties can ask for the cluster's description."""
    try:
        with Cluster(config=config(servers, **more)) as cluster:
            Admin(cluster).describe_cluster()
    except AuthenticationFailed:
        return False
    return True


def test_acls_are_added_found_and_removed(admin: Admin):
    literal = AclBinding(ResourceType.TOPIC, "orders", "User:ada", AclOperation.READ)
    prefixed = AclBinding(
        ResourceType.TOPIC,
        "ord",
        "User:*",
        AclOperation.ALL,
        Pattern.PREFIXED,
        "10.0.0.1",
        PermissionType.DENY,
    )
    cluster = AclBinding(ResourceType.CLUSTER, CLUSTER_NAME, "User:ada", AclOperation.DESCRIBE)
    admin.create_acls([literal, prefixed, cluster])
    admin.create_acls([literal])  # once more is no mistake
    eventually(lambda: admin.describe_acls() == sorted([literal, prefixed, cluster]))
    matching = AclBindingFilter(ResourceType.TOPIC, "orders", pattern_type=Pattern.MATCH)
    assert admin.describe_acls(matching) == sorted([literal, prefixed])
    assert admin.describe_acls(AclBindingFilter(principal="User:unknown")) == []
    removed = admin.delete_acls([matching, AclBindingFilter.of(literal)])
    assert removed == sorted([literal, prefixed])
    eventually(lambda: admin.describe_acls() == [cluster])
    assert admin.delete_acls([AclBindingFilter()]) == [cluster]


def test_a_refused_acl_is_named_and_the_others_are_added(admin: Admin):
    good = AclBinding(ResourceType.GROUP, "billing", "User:ada", AclOperation.READ)
    bad = good._replace(principal="ada")
    with pytest.raises(BrokerError, match=r"ada may READ group billing.*") as refused:
        admin.create_acls([bad, good])
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    eventually(lambda: admin.describe_acls() == [good])
    assert admin.delete_acls([AclBindingFilter.of(good)]) == [good]


def test_without_permission_everything_is_refused(eve: Admin):
    acl = AclBinding(ResourceType.GROUP, "billing", "User:ada", AclOperation.READ)
    user = UserScramCredentialDeletion("ada", ScramMechanism.SHA_256)
    quota = {ClientQuotaEntity.of({"user": "eve"}): {"producer_byte_rate": None}}
    asks: list[Callable[[], Any]] = [
        eve.describe_acls,
        lambda: eve.create_acls([acl]),
        lambda: eve.delete_acls([AclBindingFilter.of(acl)]),
        # Of all users: Kafka 4.4.0 fails over its own refusal, and never answers.
        lambda: eve.describe_user_scram_credentials(["ada"]),
        lambda: eve.alter_user_scram_credentials([user]),
        eve.describe_client_quotas,
        lambda: eve.alter_client_quotas(quota),
    ]
    for ask in asks:
        with pytest.raises(BrokerError) as refused:
            ask()
        assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("mechanism", [ScramMechanism.SHA_256, ScramMechanism.SHA_512])
def test_a_user_logs_in_with_the_password_that_was_set(
    admin: Admin, servers: str, mechanism: ScramMechanism
):
    name = f"ada-{mechanism.hash_name}"
    user = UserScramCredentialUpsertion(name, mechanism, "of ada, ünicode", 4096)
    assert "of ada" not in repr(user)
    admin.alter_user_scram_credentials([user])
    found = [ScramCredentialInfo(mechanism, 4096)]
    eventually(lambda: admin.describe_user_scram_credentials([name]) == {name: found})
    by_scram = {"sasl.mechanism": mechanism.mechanism_name, "sasl.username": name}
    assert logs_in(servers, **by_scram, **{"sasl.password": "of ada, ünicode"})
    assert not logs_in(servers, **by_scram, **{"sasl.password": "of eve"})
    gone = UserScramCredentialDeletion(name, mechanism)
    admin.alter_user_scram_credentials([gone])
    eventually(lambda: admin.describe_user_scram_credentials([name]) == {})
    with pytest.raises(BrokerError, match=name) as refused:
        admin.alter_user_scram_credentials([gone])
    assert refused.value.code == ErrorCode.RESOURCE_NOT_FOUND


def test_quotas_are_set_found_and_removed(admin: Admin):
    both = ClientQuotaEntity.of({"client-id": None, "user": "ada"})
    address = ClientQuotaEntity.of({"ip": "10.0.0.1"})
    wanted = {
        both: {"consumer_byte_rate": 2048.0, "request_percentage": 12.5},
        address: {"connection_creation_rate": 10.0},
    }
    admin.alter_client_quotas(wanted, validate_only=True)
    assert admin.describe_client_quotas() == {}
    admin.alter_client_quotas(wanted)
    eventually(lambda: admin.describe_client_quotas() == wanted)
    of_ada = ClientQuotaFilter("user", QuotaMatch.EXACT, "ada")
    assert admin.describe_client_quotas([of_ada]) == {both: wanted[both]}
    assert admin.describe_client_quotas([of_ada], strict=True) == {}
    assert str(both) == "user ada, every other client-id"
    admin.alter_client_quotas({one: dict.fromkeys(keys) for one, keys in wanted.items()})
    eventually(lambda: admin.describe_client_quotas() == {})
    with pytest.raises(BrokerError, match="user ada") as refused:
        admin.alter_client_quotas({both: {"no_such_rate": 1.0}})
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_a_token_is_made_logs_in_is_renewed_and_ends(admin: Admin, servers: str):
    token = admin.create_delegation_token(renewers=["User:eve"], max_lifetime_ms=3_600_000)
    assert (token.owner, token.requester, token.renewers) == (
        "User:admin",
        "User:admin",
        ("User:eve",),
    )
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 3_600_000
    eventually(lambda: admin.describe_delegation_token() == [token])
    assert admin.describe_delegation_token(["User:eve"]) == [token]
    assert admin.describe_delegation_token(["User:bob"]) == []
    jaas = (
        f'ScramLoginModule required username="{token.token_id}" password="{token.password}"'
        ' tokenauth="true";'
    )
    by_token = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": jaas,
    }
    with Cluster(config=ClientConfig.from_props(by_token)) as cluster:
        assert Admin(cluster).describe_cluster().brokers
        with pytest.raises(BrokerError) as refused:
            Admin(cluster).create_delegation_token()
        assert refused.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert token.password not in repr(token) and repr(token.hmac) not in repr(token)
    until = admin.renew_delegation_token(token.hmac, period_ms=60_000)
    assert token.issue_timestamp_ms < until <= token.max_timestamp_ms
    admin.expire_delegation_token(token.hmac)
    eventually(lambda: admin.describe_delegation_token() == [])


def test_the_asyncio_face_says_the_same(servers: str):
    acl = AclBinding(ResourceType.USER, "ada", "User:bob", AclOperation.CREATE_TOKENS)

    async def look() -> None:
        async with AsyncCluster(config=config(servers)) as cluster:
            admin = AsyncAdmin(cluster)
            await admin.create_acls([acl])
            assert await admin.delete_acls([AclBindingFilter.of(acl)]) == [acl]
            assert await admin.describe_user_scram_credentials() == {}
            assert await admin.describe_client_quotas() == {}
            assert await admin.describe_delegation_token() == []

    asyncio.run(look())
