"""How every command finds its cluster, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from fencepost.cli.cluster_options import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP,
    bootstrap_servers,
    client_config,
)
from fencepost.cli.failures import UsageError
from fencepost.cli.main import main

from ..ports import address_of, refusing_port
from ..waiting import DEADLINE_S
from .commands import Fencepost


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "create", "x", "--config", "nonsense"),
        ("topics", "create", "x", "--assignment", "1:a"),
        ("topics", "create", "x", "--assignment", "1", "--partitions", "2"),
        ("configs", "alter", "--topic", "x"),
        ("configs", "alter", "--topic", "x", "--set", "nonsense"),
        ("groups", "offsets", "g", "--to", "earliest"),
        ("topics", "list", "-X", "no.such.property=1"),
        ("topics", "list", "-X", "nonsense"),
        ("topics", "list", "--client-config", "surely/not/there"),
        ("produce", "x", "surely/not/there"),
        ("produce", "x", "--lines-json", "--key-separator", ":"),
        ("consume", "x", "--max-messages", "0"),
        ("topics", "create", "x", "--partitions", "0"),
        ("topics", "create", "x", "--partitions", "-1"),
        ("topics", "create", "x", "--partitions", "99999999999"),
        ("topics", "create", "x", "--replication-factor", "0"),
        ("topics", "create", "x", "--replication-factor", "32768"),
        ("topics", "create", "x", "--assignment", "1:99999999999"),
        ("topics", "create", "not-utf-8-\udcff"),
        ("topics", "create", "x" * 40_000),
        ("topics", "alter", "x", "--partitions", "0"),
        ("topics", "describe", "\udcff"),
        ("topics", "delete", "\udcff"),
        ("topics", "list", "-X", f"client.id={'x' * 40_000}"),
        ("configs", "alter", "--topic", "x", "--set", f"k={'v' * 70_000}"),
        ("configs", "describe", "--topic", "\udcff"),
        ("groups", "describe", "\udcff"),
        ("groups", "delete", "\udcff"),
        ("groups", "offsets", "g", "--topic", "\udcff", "--to", "1"),
        ("features", "upgrade", "\udcff=1"),
        ("consume", "\udcff"),
        ("epochs", "\udcff"),
    ],
    ids=lambda words: " ".join(words)[:60].encode("ascii", "backslashreplace").decode(),
)
def test_wrong_command_lines_exit_with_2(run: Fencepost, words: tuple[str, ...]):
    ran = run(*words)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith(f"fencepost {words[0]}: ")
    assert ran.err.count("\n") == 1


def test_a_port_without_a_listener_exits_with_1(run: Fencepost):
    with refusing_port() as held:
        address = address_of(held)
        ran = run("topics", "list", "-X", "default.api.timeout.ms=200", bootstrap=address)
    assert ran.code == 1
    assert address in ran.err
    assert ran.err.count("\n") == 1


def test_mistakes_are_not_tried_until_time_is_up(run: Fencepost, topic: str):
    patient = ("-X", "default.api.timeout.ms=2000000000")  # longer than any test may take
    assert run("topics", "describe", f"{topic}-not", *patient).code == 1
    assert run("consume", f"{topic}-not", *patient).code == 1


def test_properties_come_from_a_file_and_the_command_line_wins(run: Fencepost, tmp_path: Path):
    path = tmp_path / "client.properties"
    path.write_text("# a comment\n\nclient.id = me\nrequest.timeout.ms=nonsense\n")
    assert "request.timeout.ms" in run("topics", "list", "--client-config", str(path)).err
    ran = run("topics", "list", "--client-config", str(path), "-X", "request.timeout.ms=5000")
    assert ran.code == 0


def test_client_properties_are_read_as_java_reads_them(tmp_path: Path):
    """Kafka's own examples write sasl.jaas.config over several lines."""
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol : SASL_PLAINTEXT\n"
        "sasl.mechanism SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '    username="ad\\u0061" \\\n'
        '    password="a = b";\n',
        encoding="utf-8",
    )
    arguments = Namespace(timeout=None, client_config=path, properties=["client.id=me"])
    config = client_config(arguments, "kafka:9092")
    security = config.security
    assert (security.protocol, security.mechanism) == ("SASL_PLAINTEXT", "SCRAM-SHA-512")
    assert (security.username, security.password) == ("ada", "a = b")
    assert (config.client_id, config.bootstrap_servers) == ("me", "kafka:9092")


@pytest.mark.parametrize(("seconds", "setup_ms"), [(0.5, 500), (3, 3_000), (60, 10_000)])
def test_a_connection_takes_no_longer_to_set_up_than_there_is_time(
    seconds: float, setup_ms: int
) -> None:
    given = Namespace(timeout=seconds, client_config=None, properties=[])
    config = client_config(given, "kafka:9092")
    assert (config.connect_timeout_ms, config.api_timeout_ms) == (setup_ms, seconds * 1000)
    given.properties = ["socket.connection.setup.timeout.ms=250"]
    assert client_config(given, "kafka:9092").connect_timeout_ms == 250


def test_client_properties_that_cannot_be_read_name_the_line(tmp_path: Path):
    path = tmp_path / "client.properties"
    path.write_text("client.id=me\ngroup.id=\\u00zz\n")
    arguments = Namespace(timeout=None, client_config=path, properties=[])
    with pytest.raises(UsageError, match=r"client.properties.* in line 2"):
        client_config(arguments, "kafka:9092")


def test_the_first_that_names_brokers_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:9092\n")
    given = Namespace(
        bootstrap_server="option:9092",
        timeout=None,
        client_config=path,
        properties=["bootstrap.servers=property:9092"],
    )
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, "environment:9092")
    asked = [bootstrap_servers(given)]
    given.bootstrap_server = None
    asked.append(bootstrap_servers(given))
    given.properties = []
    asked.append(bootstrap_servers(given))
    given.client_config = None
    asked.append(bootstrap_servers(given))
    monkeypatch.delenv(BOOTSTRAP_VARIABLE)
    assert [*asked, bootstrap_servers(given)] == [
        "option:9092",
        "property:9092",
        "file:9092",
        "environment:9092",
        DEFAULT_BOOTSTRAP,
    ]


def test_a_file_that_names_brokers_is_enough(served: str, tmp_path: Path):
    path = tmp_path / "client.properties"
    path.write_text(f"bootstrap.servers={served}\n")
    assert main(["topics", "list", "--client-config", str(path)]) == 0


def test_the_environment_names_the_cluster(served: str):
    done = subprocess.run(
        [sys.executable, "-m", "fencepost.cli.main", "topics", "list", "--json"],
        env={**os.environ, BOOTSTRAP_VARIABLE: served},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), list)


@pytest.mark.parametrize("name", ["topics", "configs", "groups", "produce", "consume", "epochs"])
def test_help_has_examples(name: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert f"fencepost {name} " in capsys.readouterr().out.split("examples:")[1]
