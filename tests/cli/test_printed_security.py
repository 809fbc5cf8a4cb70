"""What the commands for users, ACLs, quotas and tokens print of a secured cluster, held against
`printed_security.txt` as in `test_printed`. No secret is in it.

FENCEPOST_REWRITE=1 writes the file again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.testing import Cluster, ClusterSecurity

from .commands import Fencepost
from .test_printed import masked

pytest.importorskip("cryptography")

PRINTED = Path(__file__).parent / "printed_security.txt"
PASSWORD = "n0t-to-be-seen"
COMMANDS = (
    ("acls", "add", "ada", "read,write", "topic:orders", "--prefixed"),
    ("acls", "list"),
    ("acls", "remove", "--principal", "ada", "--operation", "write"),
    ("users", "set", "ada", "--password-file", "{password}"),
    ("users", "list"),
    ("users", "delete", "ada"),
    ("quotas", "set", "--user", "ada", "producer_byte_rate=1000000"),
    ("quotas", "list"),
    ("quotas", "remove", "--user", "ada"),
    ("tokens", "create", "--write", "{token}"),
    ("tokens", "list"),
    ("security", "explain", "ada", "read", "topic:orders-eu"),
    ("security", "explain", "ada", "write", "topic:orders-eu"),
    ("security", "check"),
)
READING = ("list", "explain", "check")


@pytest.fixture(scope="module")
def secured() -> Iterator[ClusterSecurity]:
    with Cluster(security=ClusterSecurity("SASL_PLAINTEXT")) as cluster:
        assert cluster.security is not None
        yield cluster.security


@pytest.fixture
def served(secured: ClusterSecurity) -> str:
    return secured.login().bootstrap_servers


def test_commands_print_what_they_printed(run: Fencepost, secured: ClusterSecurity, tmp_path: Path):
    admin = secured.login("admin").properties_text()
    (tmp_path / "fencepost-admin").write_text(admin)
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    places = {"password": tmp_path / "password", "token": tmp_path / "fencepost-token"}
    said = []
    for words in COMMANDS:
        line = " ".join(words)
        given = [word.format(**places) for word in words]
        given += ["--client-config", str(tmp_path / "fencepost-admin")]
        said.append(f"$ fencepost {line} --json\n{masked(run(*given, '--json').out)}")
        if words[1] in READING:
            text = re.sub(r"\d+", "N", masked(run(*given).out))
            said.append(f"$ fencepost {line}\n{re.sub(' +', ' ', text)}")
    found = re.sub(r"\d{13}", "MS", "\n".join(said))
    if os.environ.get("FENCEPOST_REWRITE"):
        PRINTED.write_text(found)
    assert found == PRINTED.read_text()
    token = (tmp_path / "fencepost-token").read_text()
    assert "tokenauth" in token and PASSWORD not in found
    # The login by the token is one: the command that makes tokens is refused by it.
    ran = run("tokens", "list", "--client-config", str(tmp_path / "fencepost-token"))
    assert ran.code == 1 and "DELEGATION_TOKEN" in ran.err
