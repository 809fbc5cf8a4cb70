"""`Cluster(security=...)`: who is let in, who may do what, and faults on demand."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from fencepost.client import Admin, ClientConfig, ClientError, Cluster as Client, Producer
from fencepost.client.acls import AclBinding
from fencepost.client.errors import AuthenticationFailed, BrokerError
from fencepost.machines.image.acls import AclOperation, ResourceType
from fencepost.testing import Cluster, ClusterError, ClusterSecurity
from fencepost.testing.access_tokens import AccessTokenIssuer
from fencepost.testing.client_logins import ClientLogin
from fencepost.wire.errors import ErrorCode

from ..waiting import eventually

REFUSAL_MS = 2_000


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def secured(audit_log: Path) -> Iterator[Cluster]:
    """A broker with a user of the test's own."""
    orders = AclBinding(ResourceType.TOPIC, "orders", "User:ada", AclOperation.WRITE)
    security = ClusterSecurity(users={"ada": "of ada"}, acls=[orders])
    with Cluster(security=security, config={"fencepost.audit.log.path": audit_log}) as cluster:
        with cluster.security.client() as client:
            Admin(client).create_topic("orders", 1)
            Admin(client).create_topic("secrets", 1)
        yield cluster


def connected(login: ClientLogin) -> Client:
    props = {**login.properties(), "default.api.timeout.ms": str(REFUSAL_MS)}
    return Client(config=ClientConfig.from_props(props))


def _write(producer: Producer) -> None:
    producer.send("orders", b"x")
    producer.flush()


def writes(login: ClientLogin, topic: str = "orders") -> bool:
    with connected(login) as client, Producer(client) as producer:
        try:
            delivery = producer.send(topic, b"x")
            producer.flush()
            return delivery.result() >= 0
        except ClientError:
            return False


def test_each_user_may_do_what_the_acls_say(secured: Cluster):
    login = secured.security.login
    assert login("ada").password == "of ada"
    assert writes(login("ada")) and not writes(login("ada"), "secrets")
    assert writes(login("app"), "secrets")
    assert not writes(login("guest"))
    with connected(login("ada")) as client:
        assert [one.name for one in Admin(client).list_topics()] == ["orders"]
        with pytest.raises(BrokerError) as refused:
            Admin(client).describe_acls()
        assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_strangers_and_wrong_passwords_are_refused(secured: Cluster):
    security = secured.security
    for login in (security.stranger(), security.login("app", password="guessed")):
        with pytest.raises(AuthenticationFailed), connected(login) as client:
            Admin(client).describe_cluster()
    untrusting = {**security.login("app").properties()}
    del untrusting["ssl.truststore.location"], untrusting["ssl.truststore.type"]
    with pytest.raises(ClientError, match="not trusted"):
        Admin(Client(config=ClientConfig.from_props(untrusting))).describe_cluster()


def test_a_user_is_added_and_revoked_while_it_runs(secured: Cluster):
    security = secured.security
    security.add_user("bob")
    security.allow(AclBinding(ResourceType.TOPIC, "orders", "User:bob", AclOperation.WRITE))
    eventually(lambda: writes(security.login("bob", "SCRAM-SHA-256")), "bob writes")
    with connected(security.login("bob")) as client, Producer(client) as producer:
        producer.send("orders", b"x")
        producer.flush()
        security.revoke_user("bob")
        # The connection is still there, and its next request may do nothing.
        with pytest.raises(ClientError, match="TOPIC_AUTHORIZATION_FAILED"):
            _write(producer)
    with pytest.raises(AuthenticationFailed), connected(security.login("bob")) as client:
        Admin(client).describe_cluster()


def test_a_token_is_a_login_until_it_ends(secured: Cluster):
    assert writes(secured.security.token("ada"))
    ending = secured.security.token("ada", good_for_ms=1)
    assert ending.password is not None and ending.password not in repr(ending)

    def is_refused() -> bool:
        try:
            with connected(ending) as client:
                client.any_connection()
        except AuthenticationFailed:
            return True
        return False

    assert eventually(is_refused, "the token ends")


def test_refusals_are_in_the_audit_log_and_secrets_are_nowhere(secured: Cluster, audit_log: Path):
    assert not writes(secured.security.login("guest"), "secrets")
    with pytest.raises(AuthenticationFailed):
        Admin(connected(secured.security.stranger())).describe_cluster()

    def events() -> list[dict[str, object]]:
        return [json.loads(line) for line in audit_log.read_text().splitlines()]

    eventually(lambda: any(one["event"] == "login" and not one["succeeded"] for one in events()))
    assert "User:guest" in [one["principal"] for one in events() if one.get("succeeded")]
    refusals = [one for one in events() if one.get("allowed") is False]
    assert ("User:guest", "secrets") in [
        (one["principal"], one["resource_name"]) for one in refusals
    ]
    texts = audit_log.read_text() + secured.log_text
    passwords = [secured.security.login(user).password for user in ("admin", "app", "ada")]
    assert not [one for one in passwords if one is not None and one in texts]
    for path in (secured.directory / "security").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_faults_are_to_be_had_where_nothing_is_encrypted():
    with Cluster(security=ClusterSecurity("SASL_PLAINTEXT")) as cluster:
        cluster.fail_next("CreateTopics", "POLICY_VIOLATION")
        with cluster.security.client() as client:
            with pytest.raises(BrokerError) as failed:
                Admin(client).create_topic("t", 1)
            assert failed.value.code == ErrorCode.POLICY_VIOLATION
            assert Admin(client).create_topic("t", 1).partitions == 1


def test_with_scram_alone_plain_is_for_nodes_and_the_super_user():
    security = ClusterSecurity("SASL_PLAINTEXT", mechanisms=["SCRAM-SHA-512"])
    with Cluster(security=security, faults=False) as cluster:
        with cluster.security.client() as client:
            Admin(client).create_topic("orders", 1)
        assert security.login().mechanism == "SCRAM-SHA-512" and writes(security.login())
        assert not writes(security.login("app", "PLAIN"))
        assert writes(security.login("admin", "PLAIN"))
        assert not writes(security.login("app", "SCRAM-SHA-256"))


def test_an_expired_certificate_is_noticed_by_clients_and_replaced():
    with Cluster(security=True) as cluster:
        security = cluster.security
        security.replace_certificate(1, security.authority.issue_expired("node"))
        cluster.restart()
        with pytest.raises(ClientError, match="expired"), connected(security.login()) as client:
            Admin(client).describe_cluster()
        security.replace_certificate(1, security.authority.issue("node", hosts=["else.example"]))
        cluster.restart()
        with pytest.raises(ClientError, match="mismatch"), connected(security.login()) as client:
            Admin(client).describe_cluster()
        security.replace_certificate(1)
        cluster.restart()
        assert not writes(security.login("guest")) and security.login("guest").uses_tls


@pytest.mark.slow  # four processes
def test_nodes_of_a_cluster_log_in_to_each_other():
    with Cluster(brokers=3, security=ClusterSecurity("SSL")) as cluster:
        with cluster.security.client() as client:
            Admin(client).create_topic("orders", 1, 3)
            Admin(client).wait_for_topic("orders")
        assert writes(cluster.security.login("app"))
        cluster.kill(1)
        eventually(lambda: writes(cluster.security.login("app")), "another broker leads")


def test_what_cannot_be_secured_is_refused():
    with pytest.raises(ValueError, match="PLAINTEXT"):
        ClusterSecurity("PLAINTEXT")
    with pytest.raises(ValueError, match="user 'a b'"):
        ClusterSecurity(users=["a b"])
    with pytest.raises(ValueError, match="listeners of its own"):
        Cluster(security=True, config={"listeners": "PLAINTEXT://127.0.0.1:0"})
    with pytest.raises(ValueError, match="give it to Cluster"):
        ClusterSecurity().login()
    cluster = Cluster(faults=False)
    with pytest.raises(ClusterError, match="asks for no login"):
        _ = cluster.security
    cluster.close()


def test_access_tokens_of_the_kits_issuer_log_in_and_others_do_not():
    pytest.importorskip("joserfc")
    security = ClusterSecurity("SASL_PLAINTEXT", mechanisms=("OAUTHBEARER",), users={"ada": None})
    with Cluster(security=security, faults=False):
        path = security.login("ada").token_file
        assert path is not None and path.stat().st_mode & 0o077 == 0

        def topics_of(**how: str) -> list[str]:
            config = ClientConfig.from_props(security.login("ada", **how).properties())
            with Client(config=config) as client:
                return [one.name for one in Admin(client).list_topics()]

        assert topics_of() == []
        for refused in (
            AccessTokenIssuer().token(sub="ada"),
            security.issuer.token(sub="ada", aud="another"),
            security.issuer.token(sub="ada", exp=1),
        ):
            with pytest.raises(ClientError):
                topics_of(password=refused)
        with pytest.raises(KeyError):
            security.login("stranger")
