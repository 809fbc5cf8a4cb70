"""Certificates, passwords and the mechanism between nodes are replaced while clients go on."""

from __future__ import annotations

import os
import signal
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from fencepost.client import Admin, ClientConfig, Cluster as Client, Producer
from fencepost.client.errors import AuthenticationFailed, ClientError
from fencepost.testing import Cluster, ClusterSecurity
from fencepost.testing.certificates import CertificateAuthority

from ..waiting import eventually


def shown(cluster: Cluster) -> str:
    """The certificate that a new connection is shown."""
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def write(producer: Producer) -> int:
    delivery = producer.send("orders", b"x")
    producer.flush()
    return delivery.result()


def test_a_certificate_is_replaced_and_no_connection_is_lost():
    with Cluster(security=True) as cluster:
        security = cluster.security
        with security.client("app") as client, Producer(client) as producer:
            Admin(client).create_topic("orders", 1)
            assert write(producer) == 0
            before = shown(cluster)
            security.replace_certificate(1)
            os.kill(cluster.pid, signal.SIGHUP)
            eventually(lambda: shown(cluster) != before, "the new certificate is shown")
            assert write(producer) == 1
            after = shown(cluster)
            security.replace_certificate(1, security.authority.issue("node"))
            assert shown(cluster) == after, "the node was not told yet"
        assert "Traceback" not in cluster.log_text


def test_a_password_is_replaced_and_sessions_go_on():
    with Cluster(security=ClusterSecurity("SASL_PLAINTEXT"), faults=False) as cluster:
        security = cluster.security
        old = security.login("app")
        with security.client("app") as client, Producer(client) as producer:
            Admin(client).create_topic("orders", 1)
            write(producer)
            security.add_user("app", "the new one")
            eventually(lambda: logs_in(security.client("app")), "the new password is good")
            assert write(producer) == 1, "a session goes on"
        assert old.password is not None
        guessed = security.login("app", password=old.password)
        assert not logs_in(Client(config=ClientConfig.from_props(guessed.properties())))


def logs_in(client: Client) -> bool:
    with client:
        try:
            Admin(client).describe_cluster()
        except AuthenticationFailed:
            return False
    return True


@pytest.mark.slow  # three processes, each started twice
def test_the_mechanism_between_nodes_is_changed_node_by_node():
    security = ClusterSecurity("SASL_PLAINTEXT")
    with (
        Cluster(brokers=2, security=security, faults=False) as cluster,
        security.client("app") as client,
        Producer(client) as producer,
    ):
        Admin(client).create_topic("orders", 1, 2, configs={"min.insync.replicas": "2"})
        Admin(client).wait_for_topic("orders")
        written = write(producer)
        for node in (1, 2):
            changed = {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"}
            cluster.configure(changed, node)
            cluster.restart(node)
            # Acknowledged by both: the one that was restarted follows, or is followed.
            written += 1
            assert write(producer) == written


def test_the_authority_is_replaced_and_no_connection_is_lost():
    """Trust both, then change the certificates, then trust the new one alone."""
    with Cluster(security=ClusterSecurity("SSL")) as cluster:
        security = cluster.security
        old, new = security.authority, CertificateAuthority("the next authority")

        def trust(*authorities: CertificateAuthority) -> None:
            made = security.ca_file.with_suffix(".new")
            made.write_text("".join(one.certificate_pem for one in authorities))
            made.replace(security.ca_file)
            reload_keys(cluster)

        def login_by(authority: CertificateAuthority, name: str) -> ClientConfig:
            login = security.login("app")
            certificate = authority.issue("app", hosts=()).write(made_by(security.ca_file, name))
            return ClientConfig.from_props(
                replace(login, certificate_file=certificate).properties()
            )

        with security.client("app") as client, Producer(client) as producer:
            Admin(client).create_topic("orders", 1)
            assert write(producer) == 0
            trust(old, new)
            security.replace_certificate(1, new.issue("node"))
            reload_keys(cluster)
            for authority, name in ((old, "old"), (new, "new")):
                assert may_list(login_by(authority, name)), "both are trusted, both ways"
            trust(new)
            assert may_list(login_by(new, "last"))
            with pytest.raises(AuthenticationFailed), Client(config=login_by(old, "late")) as late:
                Admin(late).list_topics()
            assert write(producer) == 1, "an open connection stays"
        assert "Traceback" not in cluster.log_text


def made_by(beside: Path, name: str) -> Path:
    directory = beside.parent / name
    directory.mkdir()
    return directory


def reload_keys(cluster: Cluster) -> None:
    """Send SIGHUP, and wait until all listeners have read their files."""
    told = "has read its key files again"
    before = cluster.log_text.count(told)
    os.kill(cluster.pid, signal.SIGHUP)
    eventually(lambda: cluster.log_text.count(told) > before, "the files are read")


def may_list(config: ClientConfig) -> bool:
    try:
        with Client(config=config) as client:
            return bool(Admin(client).list_topics())
    except (ClientError, OSError):
        return False
