"""Java's clients log in to a secured cluster of ours, on every listener by every mechanism."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.testing import Cluster, ClusterSecurity
from fencepost.testing.access_tokens import AccessTokenIssuer
from fencepost.testing.client_logins import ClientLogin

from .apache import ToolOutput, run_tool
from .maven import JarSet

pytestmark = [pytest.mark.interop, pytest.mark.slow]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
KINDS = [(protocol, one) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for one in MECHANISMS]
LISTENERS: list[tuple[str, str | None]] = [*KINDS, ("SSL", None)]
Clusters = Callable[[str], Cluster]


@pytest.fixture(scope="module")
def clusters(kafka_jars: JarSet) -> Iterator[Clusters]:
    """A secured cluster per protocol, made when it is first asked for."""
    made: dict[str, Cluster] = {}

    def of(protocol: str) -> Cluster:
        if protocol not in made:
            config = {"delegation.token.secret.key": "of the test"}
            security = ClusterSecurity(protocol, mechanisms=MECHANISMS)
            cluster = made[protocol] = Cluster(security=security, config=config)
            cluster.start()
            with cluster.security.client() as client:
                Admin(client).create_topic("words", 1)
        return made[protocol]

    yield of
    for cluster in made.values():
        cluster.close()


def run_as(
    login: ClientLogin, directory: Path, tool: str, *arguments: str, stdin: str | None = None
) -> ToolOutput:
    """What one of Kafka's tools prints that logs in like this."""
    path = directory / f"{tool}.properties"
    limits = "default.api.timeout.ms=8000\nrequest.timeout.ms=5000\n"
    path.write_text(login.properties_text() + limits)
    # Java reads a token from a file only if its own command line allows that file.
    file = login.token_file
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}" if file else ""
    where = ("--bootstrap-server", login.bootstrap_servers, "--command-config", str(path))
    options = (allowed,) if allowed else ()
    return run_tool(tool, *where, *arguments, stdin=stdin, check=False, jvm=options)


def topics_by_java(login: ClientLogin, directory: Path) -> tuple[list[str], str]:
    """What Kafka's own tool lists, and what it complains of."""
    told = run_as(login, directory, "topics", "--list", "--exclude-internal")
    return told.lines, told.stdout + told.stderr


@pytest.mark.parametrize(("protocol", "mechanism"), LISTENERS)
def test_java_logs_in(clusters: Clusters, tmp_path: Path, protocol: str, mechanism: str | None):
    login = clusters(protocol).security.login("app", mechanism)
    topics, told = topics_by_java(login, tmp_path)
    assert topics == ["words"], told


@pytest.mark.parametrize(("protocol", "mechanism"), LISTENERS)
def test_java_is_refused(clusters: Clusters, tmp_path: Path, protocol: str, mechanism: str | None):
    security = clusters(protocol).security
    login = security.stranger()
    if mechanism is not None:
        # Java looks at a token before it sends it: it has to be one, of an issuer that is not ours.
        forged = AccessTokenIssuer().token(sub="app") if mechanism == "OAUTHBEARER" else "wrong"
        login = security.login("app", mechanism, password=forged)
    topics, told = topics_by_java(login, tmp_path)
    assert "words" not in topics
    expected = "SaslAuthenticationException" if mechanism else "Exception"
    assert expected in told and "words" not in told


def test_java_writes_and_reads_by_access_tokens(clusters: Clusters, tmp_path: Path):
    login = clusters("SASL_SSL").security.login("app", "OAUTHBEARER")
    sent = run_as(login, tmp_path, "console-producer", "--topic", "words", stdin="a\nb\n")
    limits = ("--from-beginning", "--max-messages", "2", "--group", "by-token")
    read = run_as(login, tmp_path, "console-consumer", "--topic", "words", *limits)
    assert read.lines == ["a", "b"], sent.stderr + read.stderr


def test_an_access_token_that_is_over_is_refused(clusters: Clusters, tmp_path: Path):
    security = clusters("SASL_SSL").security
    expired = security.issuer.token(sub="app", iat=1, exp=2)
    topics, told = topics_by_java(security.login("app", "OAUTHBEARER", password=expired), tmp_path)
    assert "words" not in topics and "SaslAuthenticationException" in told, told


def test_java_logs_in_by_a_delegation_token(clusters: Clusters, tmp_path: Path):
    security = clusters("SASL_SSL").security
    with security.client("app") as client:
        token = Admin(client).create_delegation_token()
    login = ClientLogin(
        security.login().bootstrap_servers,
        "SASL_SSL",
        "SCRAM-SHA-256",
        token.token_id,
        token.password,
        is_delegation_token=True,
        ca_file=security.ca_file,
    )
    topics, told = topics_by_java(login, tmp_path)
    assert topics == ["words"], told


def test_javas_tool_for_acls_sees_and_changes_ours(clusters: Clusters, tmp_path: Path):
    security = clusters("SASL_SSL").security
    path = tmp_path / "admin.properties"
    path.write_text(security.login("admin").properties_text())
    where = ("--bootstrap-server", security.login().bootstrap_servers)
    where += ("--command-config", str(path))
    adding = ("--add", "--allow-principal", "User:guest", "--operation", "Read", "--topic", "words")
    run_tool("acls", *where, *adding)
    listed = run_tool("acls", *where, "--list", "--topic", "words").stdout
    assert "User:guest" in listed and "READ" in listed
    with security.client() as client:
        found = Admin(client).describe_acls()
    assert any((one.principal, one.name) == ("User:guest", "words") for one in found)
