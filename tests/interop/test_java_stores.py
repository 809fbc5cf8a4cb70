"""Kafka's own command-line tools with PKCS#12 stores, against a listener of ours that wants
certificates: what an operator of a cluster with Java's tools has at hand.

The client's store is made by OpenSSL and the trust store by keytool, as Kafka's documentation does.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.testing import Cluster, ClusterSecurity
from fencepost.testing.client_logins import ClientLogin

from ..waiting import DEADLINE_S
from .apache import ToolOutput, run_tool
from .maven import JarSet

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("keytool") is None or shutil.which("openssl") is None,
        reason="needs keytool and openssl",
    ),
]

PASSWORD = "of the stores"
ONE_REPLICA = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@pytest.fixture(scope="module")
def cluster(kafka_jars: JarSet) -> Iterator[Cluster]:
    """One broker whose listeners are SSL, where clients have to show a certificate."""
    with Cluster(security=ClusterSecurity("SSL"), config=ONE_REPLICA, faults=False) as made:
        with made.security.client() as client:
            Admin(client).create_topic("words", 2)
            Admin(client).wait_for_topic("words")
        yield made


def made_by(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S)


def stores(login: ClientLogin, directory: Path) -> dict[str, str]:
    """The properties of a client whose certificate and authority are in PKCS#12 stores."""
    key_store, trust_store = directory / "client.p12", directory / "trust.p12"
    made_by(
        *("openssl", "pkcs12", "-export", "-in", str(login.certificate_file)),
        *("-out", str(key_store), "-name", "client", "-passout", f"pass:{PASSWORD}"),
    )
    made_by(
        *("keytool", "-importcert", "-noprompt", "-alias", "authority", "-file"),
        *(str(login.ca_file), "-keystore", str(trust_store), "-storetype", "PKCS12"),
        *("-storepass", PASSWORD),
    )
    return {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(key_store),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(trust_store),
        "ssl.truststore.password": PASSWORD,
        "default.api.timeout.ms": "20000",
        "request.timeout.ms": "15000",
    }


class Tools:
    """Kafka's tools, as a user of the cluster."""

    def __init__(self, login: ClientLogin, directory: Path, **changed: str) -> None:
        directory.mkdir()
        self._servers = login.bootstrap_servers
        props = stores(login, directory) | {
            key.replace("_", "."): text for key, text in changed.items()
        }
        self._config = directory / "client.properties"
        self._config.write_text("".join(f"{key}={text}\n" for key, text in props.items()))

    def run(
        self, tool: str, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> ToolOutput:
        where = ("--bootstrap-server", self._servers, "--command-config", str(self._config))
        return run_tool(tool, *where, *arguments, stdin=stdin, check=check)


@pytest.fixture(scope="module")
def app(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return Tools(cluster.security.login("app"), tmp_path_factory.mktemp("app") / "stores")


@pytest.fixture(scope="module")
def admin(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return Tools(cluster.security.login("admin"), tmp_path_factory.mktemp("admin") / "stores")


def test_topics_configs_and_offsets(admin: Tools):
    admin.run("topics", "--create", "--topic", "made", "--partitions", "3")
    assert {"made", "words"} <= set(admin.run("topics", "--list").lines)
    described = admin.run("topics", "--describe", "--topic", "made").stdout
    assert "PartitionCount: 3" in described
    admin.run("topics", "--alter", "--topic", "made", "--partitions", "5")
    of_topic = ("--entity-type", "topics", "--entity-name", "made")
    admin.run("configs", "--alter", *of_topic, "--add-config", "retention.ms=1000000")
    assert "retention.ms=1000000" in admin.run("configs", "--describe", *of_topic).stdout
    offsets = admin.run("get-offsets", "--topic", "made").lines
    assert offsets == [f"made:{index}:0" for index in range(5)]
    admin.run("topics", "--delete", "--topic", "made")


def test_the_console_producer_and_consumer(app: Tools):
    app.run("console-producer", "--topic", "words", stdin="one\ntwo\nthree\n")
    limits = ("--from-beginning", "--max-messages", "3", "--group", "readers")
    assert sorted(app.run("console-consumer", "--topic", "words", *limits).lines) == [
        "one",
        "three",
        "two",
    ]
    group = app.run("consumer-groups", "--describe", "--group", "readers").stdout
    assert "words" in group and "readers" in group


def test_the_console_share_consumer(app: Tools, admin: Tools):
    of_group = ("--entity-type", "groups", "--entity-name", "sharers")
    earliest = ("--add-config", "share.auto.offset.reset=earliest")
    admin.run("configs", "--alter", *of_group, *earliest)
    app.run("console-producer", "--topic", "words", stdin="four\n")
    limits = ("--max-messages", "1", "--group", "sharers")
    read = app.run("console-share-consumer", "--topic", "words", *limits)
    assert set(read.lines) <= {"one", "two", "three", "four"} and read.lines
    assert "sharers" in app.run("share-groups", "--list").lines


def test_acls_and_what_a_user_may_not_do(app: Tools, admin: Tools):
    added = ("--allow-principal", "User:guest", "--operation", "Read", "--topic", "words")
    admin.run("acls", "--add", *added)
    assert "User:guest" in admin.run("acls", "--list", "--topic", "words").stdout
    refused = app.run("acls", "--list", check=False)
    assert "ClusterAuthorizationException" in refused.stdout + refused.stderr


def test_a_certificate_of_another_authority_is_refused(cluster: Cluster, tmp_path: Path):
    stranger = Tools(cluster.security.stranger(), tmp_path / "stores")
    told = stranger.run("topics", "--list", check=False)
    assert "words" not in told.lines
    assert "SslAuthenticationException" in told.stdout + told.stderr


def test_a_client_without_a_certificate_is_refused(cluster: Cluster, tmp_path: Path):
    bare = Tools(cluster.security.login("app"), tmp_path / "stores", ssl_keystore_location="")
    told = bare.run("topics", "--list", check=False)
    assert "words" not in told.lines
