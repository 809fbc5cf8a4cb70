"""A client whose certificate the brokers do not trust is told so at once, as Java's is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from fencepost.client import Admin, AsyncCluster, ClientConfig, Cluster as Client
from fencepost.client.errors import AuthenticationFailed
from fencepost.testing import Cluster, ClusterSecurity
from fencepost.testing.certificates import CertificateAuthority
from fencepost.testing.client_logins import ClientLogin

REFUSED = "refused this client's TLS: .*alert"


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    with Cluster(security=ClusterSecurity("SSL"), faults=False) as cluster:
        yield cluster


@pytest.fixture
def stranger(secured: Cluster, tmp_path: Path) -> ClientLogin:
    """With a certificate of another authority."""
    other = CertificateAuthority("another authority")
    certificate = other.issue("app", hosts=()).write(tmp_path)
    return replace(secured.security.login("app"), certificate_file=certificate)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_blocking_client_does_not_try_again(stranger: ClientLogin, version: str):
    config = ClientConfig.from_props({**stranger.properties(), "ssl.enabled.protocols": version})
    with Client(config=config) as client, pytest.raises(AuthenticationFailed, match=REFUSED):
        Admin(client).list_topics()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_an_asyncio_client_does_not_try_again(stranger: ClientLogin, version: str):
    config = ClientConfig.from_props({**stranger.properties(), "ssl.enabled.protocols": version})

    async def ask() -> None:
        async with AsyncCluster(config=config) as client:
            await client.describe(["t"])

    with pytest.raises(AuthenticationFailed, match=REFUSED):
        asyncio.run(ask())
