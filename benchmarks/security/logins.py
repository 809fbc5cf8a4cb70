"""What logins cost: how many a second, the broker's CPU for each, and the first after its start.

    python benchmarks/security/logins.py [--seconds S] [--rounds R] [--only MECHANISM]

Beside Apache Kafka in one run, with the same users, certificate (P-256) and tokens (ES256, whose
keys are in a file). One client, ours, opens a connection, logs in, and closes it, and again, from
one thread; brokers and mechanisms take turns. What a client computes itself (SCRAM's 4,096
iterations) is in its milliseconds, not in the broker's CPU. "Connect" is a connection without a
login. A first login comes from a client that has logged in by the mechanism elsewhere.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.broker.pipes import cpu_s
from fencepost.client import Admin, ClientConfig, Cluster
from fencepost.client.connection import Connection
from fencepost.client.scram_users import UserScramCredentialUpsertion
from fencepost.machines.image.scram import ScramMechanism
from fencepost.testing.access_tokens import AUDIENCE, ISSUER, AccessTokenIssuer
from fencepost.testing.certificates import CertificateAuthority
from fencepost.testing.client_logins import ClientLogin

SASL: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MTLS: Final = "mTLS"
CONNECT: Final = "connect"
MECHANISMS: Final = (CONNECT, *SASL, MTLS)
USER, PASSWORD = "ada", "correct horse"
MODULES: Final = "org.apache.kafka.common.security"
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


class Door(NamedTuple):
    """A broker's listener for some mechanisms."""

    broker: str
    peer: peers.Peer
    mechanisms: tuple[str, ...]
    directory: Path


class Figures(NamedTuple):
    """Of one mechanism of one broker in one round."""

    per_second: float
    cpu_ms: float
    latency_ms: float


def sasl_configs(keys: Path, *, is_apache: bool) -> dict[str, str]:
    """Keys of a broker whose clients log in by SASL without TLS, and it at itself by PLAIN."""
    users = f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}"'
    prefix = "listener.name.plaintext"
    scram = f'{MODULES}.scram.ScramLoginModule required username="x" password="x";'
    oauth = f"{prefix}.oauthbearer.sasl"
    configs = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(SASL),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {users};",
        f"{oauth}.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        f"{oauth}.oauthbearer.expected.audience": AUDIENCE,
        f"{oauth}.oauthbearer.expected.issuer": ISSUER,
    }
    if not is_apache:
        return {**configs, "fencepost.sasl.oauthbearer.allowed.urls": f"file://{keys}"}
    bearer = f"{MODULES}.oauthbearer.OAuthBearer"
    return {
        **configs,
        f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
        f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
        f"{oauth}.jaas.config": f"{bearer}LoginModule required;",
        f"{oauth}.server.callback.handler.class": f"{bearer}ValidatorCallbackHandler",
    }


def tls_configs(authority: CertificateAuthority, directory: Path) -> dict[str, str]:
    """Keys of a broker that asks its clients for certificates, and has one."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").write(directory)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write(directory)),
    }


def security_of(door: Door, mechanism: str) -> dict[str, str]:
    """Properties of a client."""
    servers, directory = door.peer.bootstrap, door.directory
    if mechanism == MTLS:
        return ClientLogin(
            servers,
            "SSL",
            ca_file=directory / "ca.pem",
            certificate_file=directory / f"{USER}.pem",
        ).properties()
    if mechanism == "OAUTHBEARER":
        return {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.oauthbearer.token.endpoint.url": f"file://{directory / 'token'}",
        }
    if mechanism == CONNECT:
        return {"bootstrap.servers": servers}
    return ClientLogin(servers, "SASL_PLAINTEXT", mechanism, USER, PASSWORD).properties()


def log_in(config: ClientConfig, bootstrap: str) -> float:
    """Connect, log in, and leave; the seconds until the login was over."""
    host, _, port = bootstrap.rpartition(":")
    began = time.perf_counter()
    connection = Connection.configured(config, host, int(port))
    took = time.perf_counter() - began
    connection.close()
    return took


def measure(door: Door, mechanism: str, seconds: float) -> Figures:
    """Log in again and again for so long."""
    config = ClientConfig.from_props(security_of(door, mechanism))
    assert door.peer.pid is not None
    log_in(config, door.peer.bootstrap)
    cpu, began = cpu_s(door.peer.pid), time.perf_counter()
    took: list[float] = []
    while time.perf_counter() - began < seconds or not took:
        took.append(log_in(config, door.peer.bootstrap))
    spent, cpu = time.perf_counter() - began, cpu_s(door.peer.pid) - cpu
    return Figures(len(took) / spent, 1000 * cpu / len(took), 1000 * statistics.median(took))


@contextlib.contextmanager
def doors(name: str, wanted: list[str]) -> Iterator[list[Door]]:
    """The broker of this name twice: for SASL, and for clients with certificates."""
    start = getattr(peers, name)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        issuer, authority = AccessTokenIssuer(), CertificateAuthority()
        keys = directory / "keys.json"
        keys.write_bytes(issuer.key_set())
        (directory / "token").write_text(issuer.token(sub=USER, exp=int(time.time()) + 86_400))
        authority.issue(USER).write(directory)
        found = []
        by_sasl = tuple(one for one in wanted if one != MTLS)
        if by_sasl:
            with environment("JAVA_TOOL_OPTIONS", f"-D{ALLOWED_URLS}=file://{keys}"):
                configs = sasl_configs(keys, is_apache=name == "apache")
                peer = stack.enter_context(start(**configs))
            found.append(Door(peer.name, peer, by_sasl, directory))
        if MTLS in wanted:
            peer = stack.enter_context(start(**tls_configs(authority, directory)))
            found.append(Door(peer.name, peer, (MTLS,), directory))
        yield found


@contextlib.contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """A variable of the environment, for what is started meanwhile."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def add_user(door: Door, mechanism: str) -> None:
    """The user's credential for a mechanism of SCRAM."""
    kind = ScramMechanism.named(mechanism)
    assert kind is not None, mechanism
    config = ClientConfig.from_props(security_of(door, "PLAIN"))
    with Cluster(config=config) as cluster:
        credential = UserScramCredentialUpsertion(USER, kind, PASSWORD, 4096)
        Admin(cluster).alter_user_scram_credentials([credential])


def first_logins(all_doors: list[Door]) -> dict[tuple[str, str], float]:
    """Milliseconds of the first login by each mechanism, by broker and mechanism."""
    found: dict[tuple[str, str], float] = {}
    for door in all_doors:
        for mechanism in door.mechanisms:
            if mechanism.startswith("SCRAM"):
                add_user(door, mechanism)
            config = ClientConfig.from_props(security_of(door, mechanism))
            found[door.broker, mechanism] = 1000 * log_in(config, door.peer.bootstrap)
    return found


def table(found: dict[tuple[str, str], list[Figures]], firsts: dict[tuple[str, str], float]) -> str:
    """The medians of the rounds."""
    headings = ["login", "broker", "logins/s", "CPU ms", "median ms", "first ms"]
    rows = []
    for mechanism in MECHANISMS:
        for (broker, one), rounds in found.items():
            if one == mechanism:
                medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
                first = firsts[broker, mechanism]
                rows.append(
                    [mechanism, broker, f"{medians[0]:.0f}"]
                    + [f"{value:.2f}" for value in (*medians[1:], first)]
                )
    return peers.table(headings, rows)


def run(brokers: list[str], wanted: list[str], rounds: int, seconds: float) -> str:
    """Start them, measure, and make the table."""
    with doors("fencepost", wanted) as elsewhere:
        first_logins(elsewhere)
    found: dict[tuple[str, str], list[Figures]] = {}
    with contextlib.ExitStack() as stack:
        all_doors: list[Door] = []
        for name in brokers:
            all_doors += stack.enter_context(doors(name, wanted))
        firsts = first_logins(all_doors)
        for number in range(rounds + 1):
            print(f"round {number} of {rounds}", file=sys.stderr)
            for mechanism in wanted:
                for door in all_doors:
                    if mechanism in door.mechanisms:
                        figures = measure(door, mechanism, seconds)
                        if number or not rounds:  # the first round warms everybody up
                            found.setdefault((door.broker, mechanism), []).append(figures)
    return table(found, firsts)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="of a mechanism in a round")
    parser.add_argument("--rounds", type=int, default=3, help="behind one that warms; 0: that one")
    parser.add_argument("--only", action="append", choices=MECHANISMS)
    parser.add_argument("--peer", action="append", choices=("fencepost", "apache"))
    arguments = parser.parse_args()
    brokers = [one for one in peers.available() if one in (arguments.peer or [one])]
    brokers = [one for one in brokers if one != "mock"]
    wanted = arguments.only or list(MECHANISMS)
    print(run(brokers, wanted, arguments.rounds, arguments.seconds))
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
