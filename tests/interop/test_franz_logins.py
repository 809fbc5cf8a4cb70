"""franz-go (Go) logs in to a secured cluster of ours, on every listener by every mechanism."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from fencepost.client.admin import Admin
from fencepost.testing import Cluster, ClusterSecurity
from fencepost.testing.access_tokens import AccessTokenIssuer
from fencepost.testing.client_logins import ClientLogin

from .group_readers import go_program

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOPIC = "words"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TIMEOUT_S = 120


@pytest.fixture(scope="module", params=["SASL_SSL", "SASL_PLAINTEXT", "SSL"])
def security(request: pytest.FixtureRequest) -> Iterator[ClusterSecurity]:
    """Of a cluster with a topic."""
    with Cluster(security=ClusterSecurity(request.param, mechanisms=MECHANISMS)) as cluster:
        with cluster.security.client() as client:
            Admin(client).create_topic(TOPIC, 1)
        yield cluster.security


def told_by_franz(login: ClientLogin, value: str) -> str:
    """What the program prints."""
    words = [login.mechanism or "", login.username or "", login.password or ""]
    if login.token is not None:
        words = ["OAUTHBEARER", login.token]
    elif login.mechanism is None:
        words = ["certificate", str(login.certificate_file)]
    authority = login.ca_file or "none"
    command = [go_program("secured"), login.bootstrap_servers, TOPIC, value, authority, *words]
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.stdout


def mechanisms_of(security: ClusterSecurity) -> tuple[str | None, ...]:
    return (None,) if security.protocol == "SSL" else MECHANISMS


def test_franz_go_writes_and_reads(security: ClusterSecurity) -> None:
    for mechanism in mechanisms_of(security):
        value = f"by {mechanism}"
        assert told_by_franz(security.login("app", mechanism), value) == f"read {value}\n"


def test_franz_go_is_refused(security: ClusterSecurity) -> None:
    for mechanism in mechanisms_of(security):
        login, expected = security.stranger(), "tls: "
        if mechanism is not None:
            forged = AccessTokenIssuer().token(sub="app") if mechanism == "OAUTHBEARER" else "wrong"
            login = security.login("app", mechanism, password=forged)
            is_token = mechanism == "OAUTHBEARER"  # franz-go does not repeat what it is told then
            expected = "oauth response" if is_token else "SASL Authentication failed"
        told = told_by_franz(login, "never")
        assert told.startswith("error ") and expected in told, f"{mechanism}: {told}"


def test_what_is_forbidden_to_franz_go(security: ClusterSecurity) -> None:
    told = told_by_franz(security.login("guest"), "never")
    assert "Not authorized to access topics" in told or "UNKNOWN_TOPIC" in told, told
