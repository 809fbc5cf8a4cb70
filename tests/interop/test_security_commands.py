"""`fencepost acls`, `users`, `quotas` and `tokens` on Apache Kafka with an authorizer."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.log.properties import decode_properties

from ..cli.commands import Fencepost, Ran
from ..waiting import eventually
from .apache import apache_broker
from .maven import JarSet
from .test_security_admin import LISTENERS, PASSWORD

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def servers(kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that asks for a login, has an authorizer and makes tokens."""
    with apache_broker(tmp_path_factory.mktemp("secured"), **LISTENERS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def login(tmp_path: Path) -> Path:
    """Client properties of a super user."""
    path = tmp_path / "admin.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.username=admin\nsasl.password={PASSWORD}\n"
    )
    return path


@pytest.fixture
def run(servers: str, login: Path, capsys: pytest.CaptureFixture[str]) -> Fencepost:
    """Runs a command line as the super user, or with other properties."""

    def run_command(*words: str, config: Path = login) -> Ran:
        capsys.readouterr()
        code = main([*words, "-b", servers, "--client-config", str(config)])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run_command


def test_acls(run: Fencepost):
    added = run("acls", "add", "ada", "read,describe-configs", "topic:orders", "--json").json
    acl = {
        "principal": "User:ada",
        "permission": "ALLOW",
        "operation": "READ",
        "resource_type": "TOPIC",
        "name": "orders",
        "pattern": "LITERAL",
        "host": "*",
    }
    configs = {**acl, "operation": "DESCRIBE_CONFIGS"}
    assert added == {"acls": [acl, configs], "done": "added"}
    denied = run("acls", "add", "*", "all", "topic:ord", "--prefixed", "--deny", "--host", "::1")
    words = "User:* may not do anything to each topic whose name begins with ord from ::1"
    assert (denied.code, denied.out) == (0, f"added: {words}\n")
    eventually(lambda: len(run("acls", "list", "--json").json) == 3)
    assert run("acls", "list", "--principal", "ada", "--json").json == [acl, configs]
    about = ("--resource", "topic:orders")
    assert len(run("acls", "list", *about, "--json").json) == 2
    assert len(run("acls", "list", *about, "--matching", "--json").json) == 3
    assert "topic:orders" in run("acls", "list").out
    assert run("acls", "remove").code == 2
    trial = run("acls", "remove", "--principal", "*", "--dry-run")
    assert trial.out == f"would be removed: {words}\n"
    assert run("acls", "remove", "--deny").out == f"removed: {words}\n"
    assert run("acls", "remove", "--all").code == 0
    eventually(lambda: run("acls", "list", "--json").json == [])
    assert run("acls", "remove", "--principal", "eve").out == "no rule removed\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("add", "ada", "reed", "topic:t"), "did you mean READ?"),
        (("add", "ada", "read", "topics:t"), "did you mean topic?"),
        (("add", "ada", "read", "topic"), "must be topic:NAME"),
        (("add", "ada", "read", "cluster:mine"), "no other name than kafka-cluster"),
        (("add", "User:", "read", "topic:t"), "is no principal"),
        (("list", "--matching"), "--matching goes with --resource"),
    ],
)
def test_words_that_are_none(run: Fencepost, words: tuple[str, ...], complaint: str):
    ran = run("acls", *words)
    assert ran.code == 2 and complaint in ran.err


def test_users(run: Fencepost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    secret = tmp_path / "ada.password"
    secret.write_text("of ada\nmore\n")
    setting = ("users", "set", "ada", "--password-file")
    done = run(*setting, str(secret), "--json")
    assert done.json == {"user": "ada", "mechanisms": ["SCRAM-SHA-512"], "done": "set"}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"of ada\n")))
    assert run(*setting, "-", "--mechanism", "scram-sha-256", "--iterations", "4096").code == 0
    expected = [
        {"user": "ada", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": "ada", "mechanism": "SCRAM-SHA-512", "iterations": 8192},
    ]
    eventually(lambda: run("users", "list", "--json").json == expected)
    login = tmp_path / "ada.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.username=ada\nsasl.password=of ada\n"
    )
    assert run("topics", "list", config=login).code == 0
    refused = run("users", "list", "ada", config=login)
    assert refused.code == 1 and "CLUSTER_AUTHORIZATION_FAILED" in refused.err
    assert run("users", "delete", "ada").out.endswith("SCRAM-SHA-256 and SCRAM-SHA-512\n")
    eventually(lambda: run("users", "list", "--json").json == [])
    assert run("users", "delete", "ada").code == 1
    assert run("users", "set", "ünal", "--password-file", str(secret)).code == 2
    assert run("users", "set", "ada", "--iterations", "1", "--password-file", "x").code == 2
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert "--password-file" in run("users", "set", "ada").err


def test_quotas(run: Fencepost):
    of_ada = ("--user", "ada", "--default-client-id")
    given = ("producer_byte_rate=1024", "request_percentage=12.5")
    assert run("quotas", "set", *of_ada, *given, "--validate-only").out == (
        "producer_byte_rate=1024, request_percentage=12.5 could be set for user ada,"
        " every other client-id\n"
    )
    assert run("quotas", "list", "--json").json == []
    assert run("quotas", "set", *of_ada, *given).code == 0
    entity = {"user": "ada", "client-id": None}
    expected = [
        {"entity": entity, "quota": "producer_byte_rate", "value": 1024.0},
        {"entity": entity, "quota": "request_percentage", "value": 12.5},
    ]
    eventually(lambda: run("quotas", "list", "--json").json == expected)
    assert run("quotas", "list", "--ip", "10.0.0.1", "--json").json == []
    assert "did you mean producer_byte_rate?" in run("quotas", "set", *of_ada, "produce_rate=1").err
    assert run("quotas", "set", *of_ada, "producer_byte_rate=-1").code == 2
    assert run("quotas", "set", "producer_byte_rate=1").code == 2
    removed = run("quotas", "remove", *of_ada, "--json").json
    assert removed == {
        "entity": entity,
        "quotas": {"producer_byte_rate": None, "request_percentage": None},
        "done": "removed",
    }
    eventually(lambda: run("quotas", "list", "--json").json == [])


def test_tokens(run: Fencepost, tmp_path: Path):
    written = tmp_path / "job.properties"
    made = run("tokens", "create", "--write", str(written), "--renewer", "eve", "--json")
    token = made.json["token"]
    assert (token["owner"], token["renewers"]) == ("User:admin", ["User:eve"])
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    eventually(lambda: len(run("tokens", "list", "--json").json) == 1)
    assert run("topics", "list", config=written).code == 0
    jaas = decode_properties(str(written), written.read_bytes())["sasl.jaas.config"]
    secret = jaas.split('password="')[1].split('"')[0]
    assert secret not in made.out + run("tokens", "list", "--json").out + run("tokens", "list").out
    assert run("tokens", "create", "--write", str(written)).code == 1, "it is there already"
    other = tmp_path / "other.properties"
    refused = run("tokens", "create", "--write", str(other), config=written)
    assert refused.code == 1 and "NOT_ALLOWED" in refused.err and not other.exists()
    assert run("tokens", "renew", token["token_id"], "--period", "60").code == 0
    assert run("tokens", "expire", "no-such").code == 1
    assert run("tokens", "expire", token["token_id"]).out.endswith("is removed\n")
    eventually(lambda: run("tokens", "list", "--json").json == [])


def test_the_rule_that_decides_is_told(run: Fencepost):
    assert run("acls", "add", "ada", "read", "topic:ord", "--prefixed").code == 0
    asking = ("security", "explain", "ada", "describe", "topic:orders")
    eventually(lambda: run(*asking, "--json").json["allowed"])
    told = run(*asking)
    assert "may READ each topic whose name begins with ord" in told.out
    assert "the broker does not show super.users" in told.out
    assert not run("security", "explain", "eve", "read", "topic:orders", "--json").json["allowed"]
    assert run("acls", "remove", "--all").code == 0


def test_a_cluster_is_checked(run: Fencepost):
    checked = run("security", "check")
    assert "asks for a login by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512" in checked.out
    assert "note: no default quota is set" in checked.out
