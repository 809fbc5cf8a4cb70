"""SCRAM users and delegation tokens: the same requests to Fencepost and to Apache Kafka.

Kafka's controller looks for tokens among those that are committed and published, so it does not
know one at once; ours does. DescribeUserScramCredentials and DescribeDelegationToken are advertised
by Kafka's controllers, which cannot answer them (-1); ours can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from fencepost.wire.api.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.describe_delegation_token import DescribeDelegationTokenRequest
from fencepost.wire.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from fencepost.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from fencepost.wire.message import Message

from ..broker.conftest import RunningNode
from ..waiting import eventually
from .apache import run_tool
from .forwarded import Node, node_of

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

MAX_MS, EXPIRY_MS, TOLERANCE_MS = 1_000_000, 500_000, 100_000
SECRET = "secret of the test"
TOKENS = {
    "delegation.token.secret.key": SECRET,
    "delegation.token.max.lifetime.ms": str(MAX_MS),
    "delegation.token.expiry.time.ms": str(EXPIRY_MS),
}
Story = list[tuple[str, Any]]


@pytest.fixture(scope="module", params=["fencepost", "apache"])
def kind(request: pytest.FixtureRequest, kafka_jars: object) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def node(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with node_of(kind, tmp_path_factory.mktemp(kind), **TOKENS) as running:
        yield running


def setting(name: str, mechanism: int = 1, iterations: int = 4096, **more: bytes) -> Any:
    keys = {"salt": b"salt", "salted_password": b"p" * 32, **more}
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=iterations, **keys)


def alter(node: Node, *changes: Any) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    answers = [node.broker.request(request)]
    assert len({one.user for one in answers[0].results}) == len(answers[0].results)
    return {one.user: (one.error_code, one.error_message) for one in answers[0].results}


def gone(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


TWICE = (92, "A user credential cannot be altered twice in the same request")
ABSENT = (91, "Attempt to delete a user credential that does not exist")


def test_every_row_of_users(node: Node) -> None:
    assert alter(node) == {}
    assert alter(
        node,
        gone("zoe"),
        gone(""),
        gone("strange", 9),
        gone("x"),
        setting("x"),
        gone("y"),
        gone("y", 2),
        setting("ok"),
        setting("most", 2, 16384, salt=b""),
        setting("two"),
        setting("two", 2),
        setting("two", 2),
        setting("few", 1, 4095),
        setting("many", 2, 16385),
        setting("unknown", 0, 1),
        setting("empty", salted_password=b""),
        setting("short", salted_password=b"x"),
    ) == {
        "zoe": ABSENT,
        "": (93, "Username must not be empty"),
        "strange": (33, "Unknown SCRAM mechanism"),
        "x": ABSENT,
        "y": ABSENT,
        "ok": (0, None),
        "most": (0, None),
        "two": TWICE,
        "few": (93, "Too few iterations"),
        "many": (93, "Too many iterations"),
        "unknown": (33, "Unknown SCRAM mechanism"),
        "empty": (-1, None),
        "short": (0, None),
    }
    assert alter(node, setting("")) == {"": (93, "Username must not be empty")}
    assert alter(node, gone("ok"), setting("ok")) == {"ok": TWICE}
    assert alter(node, gone("short"), setting("ok", 2)) == {"short": (0, None), "ok": (0, None)}

    def described(*users: str) -> dict[str, Any]:
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in users])
        return {
            one.user: (
                one.error_code,
                one.error_message,
                sorted((info.mechanism, info.iterations) for info in one.credential_infos),
            )
            for one in node.broker.request(request).results
        }

    everybody = {"ok": (0, "", [(1, 4096), (2, 4096)]), "most": (0, "", [(2, 16384)])}
    eventually(lambda: described() == everybody, "the broker knows the users")
    assert described("short", "most", "ok", "ok") == {
        "short": (91, "Attempt to describe a user credential that does not exist: short", []),
        "most": everybody["most"],
        "ok": (
            92,
            "Cannot describe SCRAM credentials for the same user twice in a single request: ok",
            [],
        ),
    }
    assert alter(node, gone("ok", 1), gone("most", 2)) == {"ok": (0, None), "most": (0, None)}
    assert alter(node, gone("ok", 2)) == {"ok": (0, None)}
    eventually(lambda: described() == {}, "the users are gone")


def test_javas_tool_manages_users(node: Node) -> None:
    where = ("--bootstrap-server", node.bootstrap_servers, "--entity-type", "users")
    alter_java = (*where, "--entity-name", "java", "--alter")
    for change in ("SCRAM-SHA-256=[iterations=8192,password=pencil]", "SCRAM-SHA-512=[password=p]"):
        run_tool("configs", *alter_java, "--add-config", change)
    described = run_tool("configs", *where, "--entity-name", "java", "--describe").stdout
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        run_tool("configs", *alter_java, "--delete-config", mechanism)
    assert "SCRAM" not in run_tool("configs", *where, "--describe").stdout


def create(node: Node, version: int = 3, *renewers: str, **more: Any) -> Any:
    words = {key: more.pop(key) for key in ("user", "by_token") if key in more}
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="User", principal_name=r) for r in renewers],
        **{"max_lifetime_ms": -1, **more},
    )
    return node.forwarded(request, version, **words)


def renew(node: Node, hmac: bytes, period_ms: int, user: str = "ada") -> Any:
    return node.forwarded(
        RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), user=user
    )


def expire(node: Node, hmac: bytes, period_ms: int, user: str = "ada") -> Any:
    return node.forwarded(
        ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), user=user
    )


def told(answer: CreateDelegationTokenResponse) -> tuple[Any, ...]:
    """What of an answer does not depend on the time and on chance."""
    begun = answer.issue_timestamp_ms
    times = (begun, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
    if begun > 0:
        times = (0, times[1] - begun, times[2] - begun)
    return (
        answer.error_code,
        f"{answer.principal_type}:{answer.principal_name}",
        f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
        times,
        len(answer.token_id),
        len(answer.hmac),
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_is_created(node: Node, version: int) -> None:
    requester = "User:ada" if version == 3 else ":"
    made = (22, 64)
    assert told(create(node, version)) == (
        *(0, "User:ada", requester, (0, EXPIRY_MS, MAX_MS)),
        *made,
    )
    short = create(node, version, "bob", "", max_lifetime_ms=1000)
    assert told(short) == (0, "User:ada", requester, (0, 1000, 1000), *made)
    for lifetime_ms in (0, -(1 << 63), (1 << 63) - 1):
        answer = create(node, version, max_lifetime_ms=lifetime_ms)
        assert answer.max_timestamp_ms - answer.issue_timestamp_ms == MAX_MS


def test_an_owner_is_another_than_the_requester(node: Node) -> None:
    for kind in ("User", "Group", ""):
        answer = create(node, owner_principal_type=kind, owner_principal_name="bob")
        assert told(answer)[:3] == (0, f"{kind}:bob", "User:ada")


def test_tokens_that_are_not_created(node: Node) -> None:
    refused = ("User:ada", "User:ada")
    assert told(create(node, by_token=True)) == (64, *refused, (-1, -1, -1), 0, 0)
    group = [CreatableRenewers(principal_type="Group", principal_name="staff")]
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1, renewers=group)
    assert told(node.forwarded(request)) == (67, *refused, (0, 0, 0), 0, 0)
    answer = create(node, owner_principal_type=None, owner_principal_name="bob")
    assert answer.error_code == (-1 if node.kind == "apache" else 42)


def test_the_life_of_a_token(node: Node) -> None:
    token = create(node, 3, "bob")
    other = create(node, 3)

    def is_near(expiry_ms: int, after_ms: int) -> bool:
        return 0 <= expiry_ms - token.issue_timestamp_ms - after_ms < TOLERANCE_MS

    eventually(lambda: renew(node, other.hmac, -1).error_code == 0, "the token is known")
    for user in ("ada", "bob"):
        for period_ms, wanted_ms in (
            (-1, EXPIRY_MS),
            (0, EXPIRY_MS),
            (200_000, 200_000),
            (1 << 62, EXPIRY_MS),
        ):
            answer = renew(node, token.hmac, period_ms, user)
            assert answer.error_code == 0 and is_near(answer.expiry_timestamp_ms, wanted_ms)
    for action in (renew, expire):
        refused = action(node, token.hmac, -1, "eve")
        assert (refused.error_code, refused.expiry_timestamp_ms) == (63, 0)
        unknown = action(node, b"", 5)
        assert (unknown.error_code, unknown.expiry_timestamp_ms) == (62, 0)
        assert action(node, token.hmac[:-1], 5).error_code == 62
    answer = expire(node, token.hmac, (1 << 63) - 1)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (0, token.max_timestamp_ms)
    answer = expire(node, token.hmac, 0, "bob")
    assert answer.error_code == 0 and is_near(answer.expiry_timestamp_ms, 0)
    eventually(lambda: renew(node, token.hmac, -1, "eve").error_code == 66, "it has expired")
    assert expire(node, token.hmac, 1000).error_code == 66
    assert expire(node, token.hmac, 1000, "eve").error_code == 63
    answer = expire(node, token.hmac, -1)
    assert answer.error_code == 0 and is_near(answer.expiry_timestamp_ms, 0)
    eventually(lambda: expire(node, token.hmac, -1).error_code == 62, "it is gone")


def test_clients_that_have_not_logged_in(node: Node) -> None:
    for connection in (node.broker, node.controller):
        requests: list[Any] = [
            CreateDelegationTokenRequest(max_lifetime_ms=-1),
            RenewDelegationTokenRequest(hmac=b"x"),
            ExpireDelegationTokenRequest(hmac=b"x"),
        ]
        for request in requests:
            assert connection.request(request).error_code == 64
    assert node.broker.request(DescribeDelegationTokenRequest()).error_code == 64


def test_the_secret_is_described_to_no_client(node: Node) -> None:
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    answer = node.broker.request(DescribeConfigsRequest(resources=[resource]))
    found = {one.name: one for one in answer.results[0].configs}
    assert {key: found[key].value for key in TOKENS} == {**TOKENS, next(iter(TOKENS)): None}
    assert found["delegation.token.secret.key"].is_sensitive
    assert SECRET not in repr(answer)


def test_tokens_are_off_without_a_secret(kind: str, tmp_path: Path) -> None:
    with node_of(kind, tmp_path) as plain:
        assert told(create(plain)) == (61, "User:ada", "User:ada", (0, 0, 0), 0, 0)
        asks: list[Callable[[], Message]] = [
            lambda: renew(plain, b"x", -1),
            lambda: expire(plain, b"x", -1),
        ]
        assert [ask().error_code for ask in asks] == [61, 61]  # type: ignore[attr-defined]
        assert create(plain, by_token=True).error_code == 64


MODULES = "org.apache.kafka.common.security"
LOGINS = {
    "listeners": "LOGIN://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.login.plain.sasl.jaas.config": (
        f'{MODULES}.plain.PlainLoginModule required user_ada="pass";'
    ),
    "listener.name.login.scram-sha-512.sasl.jaas.config": (
        f"{MODULES}.scram.ScramLoginModule required;"
    ),
}


def client_file(place: Path, mechanism: str, module: str) -> str:
    file = place / f"{mechanism}.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={MODULES}.{module};\n"
    )
    return str(file)


def test_javas_tool_and_a_java_client_use_tokens_of_fencepost(
    kafka_jars: object, tmp_path: Path
) -> None:
    running = RunningNode(tmp_path / "data", {**LOGINS, **TOKENS})
    try:
        ada = client_file(
            tmp_path, "PLAIN", 'plain.PlainLoginModule required username="ada" password="pass"'
        )
        where = ("--bootstrap-server", running.bootstrap_servers, "--command-config")
        made = run_tool(
            "delegation-tokens",
            *(*where, ada, "--create", "--max-life-time-period", "-1"),
            *("--renewer-principal", "User:bob"),
        ).stdout
        token_id, hmac = made.splitlines()[-1].split()[:2]
        assert running.node.image.tokens[token_id].renewers == ("User:bob",)
        owner = ("--owner-principal", "User:ada")  # without it, Kafka's tool names no owner at all
        shown = run_tool("delegation-tokens", *where, ada, "--describe", *owner).stdout
        assert token_id in shown and hmac in shown
        by_token = client_file(
            tmp_path,
            "SCRAM-SHA-512",
            f'scram.ScramLoginModule required username="{token_id}" password="{hmac}"'
            ' tokenauth="true"',
        )
        run_tool("topics", *where, by_token, "--create", "--topic", "of-ada")
        assert "of-ada" in running.node.image.topics_by_name
        run_tool(
            "delegation-tokens",
            *(*where, ada, "--expire", "--expiry-time-period", "-1", "--hmac", hmac),
        )
        assert not running.node.image.tokens
    finally:
        running.close()
