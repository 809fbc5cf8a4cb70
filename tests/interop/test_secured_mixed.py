"""Clusters of Apache Kafka's nodes and ours over SASL_SSL, with logins by SCRAM and an authorizer.

Records cross between the kinds in both directions, and so does everything that the metadata say
of users, ACLs, quotas and tokens: what is made at one kind acts at the other, and is still there
when a controller of the other kind leads or has begun with the other kind's snapshot.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.acls import AclBinding, AclBindingFilter
from fencepost.client.admin import Admin
from fencepost.client.client_quotas import ClientQuotaEntity
from fencepost.client.errors import ClientError
from fencepost.client.producer import Producer
from fencepost.client.scram_users import (
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
from . import apache
from .quorum import APACHE, FENCEPOST, Node
from .quorum_images import check_snapshots
from .quorum_mixed import SMALL_SNAPSHOTS, is_caught_up
from .quorum_secured import ADMIN, SecuredQuorum, creates, lets_in, seen

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

TOPIC, PARTITIONS = "shared", 3
BROKERS = {101: APACHE, 102: FENCEPOST, 103: FENCEPOST}
SESSION = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "min.insync.replicas": "2",
}
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(params=[APACHE, FENCEPOST])
def quorum(
    request: pytest.FixtureRequest, kafka_jars: object, tmp_path: Path
) -> Iterator[SecuredQuorum]:
    """A controller of one kind, which lets all in by SCRAM, and brokers of both."""
    brokers = tuple(BROKERS.values())
    with SecuredQuorum(tmp_path / "nodes", (request.param,), brokers, SESSION) as quorum:
        quorum.format_with_users()
        quorum.start()
        quorum.wait_for_leader()
        yield quorum


def admin_of(quorum: SecuredQuorum, node: Node, user: str = ADMIN) -> Admin:
    """For requests that this broker forwards or answers, whichever the client asks first."""
    client = quorum.client(user)
    client.bootstrap = [(apache.HOST, node.port)]
    return Admin(client)


def leaders_and_isrs(quorum: SecuredQuorum) -> list[tuple[int, set[int]]]:
    """Of each partition; nothing while no broker tells."""
    try:
        with quorum.client() as client:
            found = Admin(client).describe_topic(TOPIC).partitions
    except ClientError:
        return []
    return [(found[index].leader_id, set(found[index].isr)) for index in sorted(found)]


def wait_for_isrs(quorum: SecuredQuorum, isr: set[int]) -> None:
    eventually(
        lambda: (
            [(True, isr)] * PARTITIONS
            == [(at in isr, members) for at, members in leaders_and_isrs(quorum)]
        ),
        f"the in-sync sets are {sorted(isr)}",
    )


def write(quorum: SecuredQuorum, prefix: str, user: str = ADMIN, count: int = 30) -> list[str]:
    """Acknowledged by all in sync, in every partition; the values."""
    values = [f"{prefix}-{number}" for number in range(count)]
    with quorum.client(user) as client, Producer(client) as producer:
        for number, value in enumerate(values):
            producer.send(TOPIC, value.encode(), partition=number % PARTITIONS)
    return values


def create_led_by_all(quorum: SecuredQuorum) -> None:
    ids = list(BROKERS)
    assignments = {index: ids[index:] + ids[:index] for index in range(PARTITIONS)}

    def is_created() -> bool:
        try:
            with quorum.client() as client:
                Admin(client).create_topic(TOPIC, assignments=assignments)
        except ClientError:
            return False  # a broker has not registered
        return True

    eventually(is_created, "the topic can be created")
    wait_for_isrs(quorum, set(ids))


def test_each_kind_follows_the_other(quorum: SecuredQuorum, tmp_path: Path) -> None:
    create_led_by_all(quorum)
    everyone = set(BROKERS)
    assert [at for at, _ in leaders_and_isrs(quorum)] == list(BROKERS), "each leads one"
    written = write(quorum, "all")
    for id_ in (101, 102):
        quorum.nodes[id_].kill()
        wait_for_isrs(quorum, everyone - {id_})
        written += write(quorum, f"without-{id_}")
        quorum.nodes[id_].start()
        wait_for_isrs(quorum, everyone)
    login = tmp_path / "login.properties"
    login.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={quorum.ca_file}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="{ADMIN}" password="admin\'s word";\n'
    )
    told = ("--from-beginning", "--command-config", str(login))
    read = apache.consume(quorum.nodes[102].address, TOPIC, len(written), *told)
    assert sorted(read) == sorted(written)


def set_user(admin: Admin, name: str) -> None:
    """A user whose password is its name."""
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(name, ScramMechanism.SHA_512, name, 4096)]
    )


def test_users_and_acls_of_one_kind_act_at_the_other(quorum: SecuredQuorum) -> None:
    create_led_by_all(quorum)
    theirs, ours = quorum.nodes[101], quorum.nodes[102]
    for maker, user in ((theirs, "ada"), (ours, "bob")):
        set_user(admin_of(quorum, maker), user)
        login, wrong = quorum.security(user), quorum.security(user, "another")
        for node in (theirs, ours):
            eventually(lambda node=node, login=login: lets_in(node, login), f"{user} is let in")
            assert not lets_in(node, wrong)
    for maker, user in ((ours, "ada"), (theirs, "bob")):
        login, admin = quorum.security(user), admin_of(quorum, maker)
        # The broker hands the request on: the controller decides, by the client's principal.
        assert [creates(node, login, f"{user}-1") for node in (theirs, ours)] == [DENIED] * 2
        rule = AclBinding(
            ResourceType.TOPIC, f"{user}-", f"User:{user}", AclOperation.CREATE, Pattern.PREFIXED
        )
        writing = AclBinding(ResourceType.TOPIC, TOPIC, f"User:{user}", AclOperation.WRITE)
        admin.create_acls([rule, writing])
        for number, node in enumerate((theirs, ours)):
            topic = f"{user}-{number}"
            eventually(lambda n=node, t=topic, c=login: creates(n, c, t) == ErrorCode.NONE)
            assert creates(node, login, "of-another") == DENIED
        eventually(lambda user=user: write(quorum, user, user), "every leader lets it write")
        denial = writing._replace(permission=PermissionType.DENY)
        admin.create_acls([denial])

        def is_refused(user: str = user) -> bool:
            try:
                write(quorum, user, user)
            except ClientError as error:
                return "AUTHORIZATION" in str(error)
            return False

        eventually(is_refused, "a denial counts before what is allowed")
        admin.delete_acls([AclBindingFilter(principal=f"User:{user}")])
        for node in (theirs, ours):
            eventually(lambda n=node, c=login, u=user: creates(n, c, f"{u}-9") == DENIED)
    for maker, user in ((ours, "ada"), (theirs, "bob")):
        gone = UserScramCredentialDeletion(user, ScramMechanism.SHA_512)
        admin_of(quorum, maker).alter_user_scram_credentials([gone])
        for node in (theirs, ours):
            login = quorum.security(user)
            eventually(lambda n=node, c=login: not lets_in(n, c), f"{user} is let in no more")


def test_tokens_of_one_kind_are_logins_at_the_other(quorum: SecuredQuorum) -> None:
    create_led_by_all(quorum)
    theirs, ours = quorum.nodes[101], quorum.nodes[102]
    for maker, other in ((theirs, ours), (ours, theirs)):
        token = admin_of(quorum, maker).create_delegation_token()
        login = quorum.security(token.token_id, token.password, token_authenticated=True)
        eventually(lambda n=other, c=login: lets_in(n, c), "the token is a login")
        assert creates(other, login, f"by-token-{maker.node_id}") == ErrorCode.NONE, "its owner's"
        admin_of(quorum, other).expire_delegation_token(token.hmac)
        eventually(lambda n=maker, c=login: not lets_in(n, c), "and is none any more")


def fill(quorum: SecuredQuorum, node: Node, prefix: str) -> None:
    """Users, ACLs, quotas and a token, asked for at this broker."""
    admin = admin_of(quorum, node)
    for number in range(5):
        set_user(admin, f"{prefix}-{number}")
    rules = [
        AclBinding(
            ResourceType.TOPIC,
            f"{prefix}-{number}",
            f"User:{prefix}",
            operation,
            host=f"10.0.{number}.0/24",
        )
        for number in range(20)
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    cluster = AclBinding(ResourceType.CLUSTER, CLUSTER_NAME, "User:*", AclOperation.DESCRIBE)
    admin.create_acls([*rules, cluster])
    user = ClientQuotaEntity.of({"user": prefix, "client-id": None})
    admin.alter_client_quotas({user: {"producer_byte_rate": 1e6, "request_percentage": 12.5}})
    admin.create_delegation_token(renewers=[f"User:{prefix}-0"])


def check_same(quorum: SecuredQuorum, count: int) -> None:
    """Whether both kinds' brokers tell the same of everything, after so many `fill`."""
    login = quorum.security(ADMIN)

    # Of tokens there is one more where an answer was lost and the request was sent again.
    expected = {"acls": 40 * count + 1, "users": 5 * count + 2, "quotas": count, "tokens": count}
    found: list[dict[str, list[str]]] = []

    def are_same() -> bool:
        found[:] = [seen(quorum.nodes[id_], login) for id_ in (101, 102)]
        sizes = {what: len(said) for what, said in found[0].items()}
        sizes["tokens"] = min(sizes.get("tokens", 0), count)
        return found[0] == found[1] and sizes == expected

    try:
        eventually(are_same)
    except AssertionError:
        only = [
            [
                f"{what}: {one}"
                for what in expected
                for one in set(a.get(what, ())) - set(b.get(what, ()))
            ]
            for a, b in (found, reversed(found))
        ]
        raise AssertionError(
            f"after {count} times only Kafka tells {only[0]}, only ours {only[1]};"
            f" {[{what: len(said) for what, said in one.items()} for one in found]}"
            f" {[one.get('error') for one in found]}"
        ) from None


def test_the_controller_changes_its_kind(kafka_jars: object, tmp_path: Path) -> None:
    kinds = (FENCEPOST, APACHE, APACHE)
    config = {**SESSION, **SMALL_SNAPSHOTS, "min.insync.replicas": "1"}
    with SecuredQuorum(tmp_path / "nodes", kinds, (APACHE, FENCEPOST), config) as quorum:
        quorum.format_with_users()
        ours = quorum.voters[0]
        quorum.start(2, 3)
        led = quorum.wait_for_leader()  # before that no user of SCRAM is known
        quorum.start(101, 102)
        admin = quorum.security(ADMIN)

        def is_there(topic: str) -> bool:
            try:
                told = creates(quorum.nodes[101], admin, topic)
            except ClientError:
                return False  # no controller has led for a while
            return told in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

        def create(topic: str) -> None:
            eventually(lambda: is_there(topic), f"{topic} is created")

        create("first")
        fill(quorum, quorum.nodes[101], "a")
        fill(quorum, quorum.nodes[102], "b")
        eventually(lambda: led.snapshots(), "Kafka's controllers have taken a snapshot")
        ours.start()
        eventually(lambda: is_caught_up(quorum, ours), "ours has everything")
        quorum.kill_leader(ours, create)
        check_same(quorum, 2)
        fill(quorum, quorum.nodes[101], "c")
        fill(quorum, quorum.nodes[102], "d")
        check_same(quorum, 4)
        eventually(lambda: len(ours.snapshots()) > 1, "ours has taken snapshots")
        shutil.rmtree(led.data_dir)
        led.format()
        led.start()
        eventually(lambda: is_caught_up(quorum, led), "it has begun with a snapshot of ours")
        quorum.kill_leader(led, create)
        check_same(quorum, 4)
        fill(quorum, quorum.nodes[102], "e")
        check_same(quorum, 5)
        for user in ("a-0", "c-0", "e-0"):
            login = quorum.security(user)
            for id_ in (101, 102):
                eventually(lambda n=quorum.nodes[id_], c=login: lets_in(n, c), f"{user} logs in")
        ours.start()
        eventually(lambda: is_caught_up(quorum, ours), "ours is back")
        assert check_snapshots(quorum)[ours.node_id] > 0
