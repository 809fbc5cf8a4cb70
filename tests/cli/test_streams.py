"""Output that cannot be written, closed descriptors, and Ctrl-C, for every sub-command."""

from __future__ import annotations

import argparse
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

from fencepost.arrow.archive.layout import Layout
from fencepost.batch.records import build_batch
from fencepost.cli.commands import COMMANDS
from fencepost.cli.main import build_parser, main
from fencepost.cli.streams import EXIT_FAILED, EXIT_INTERRUPTED, with_standard_streams
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.groups import CommittedOffset
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.spark.archive.query import prepare

from ..ports import address_of, refusing_port
from ..spark.checkpoints import write_checkpoint
from ..spark.tables.worlds import StoredTable
from ..waiting import DEADLINE_S

TOPIC, GROUP = "streams", "streams-group"
RUN = "from fencepost.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"


def leaves() -> Iterator[tuple[str, ...]]:
    """Every command and action there is, as its words."""
    for command in COMMANDS:
        groups = build_parser(command.name)._subparsers
        assert groups is not None
        parser = groups._group_actions[0].choices[command.name]
        yield from _below((command.name,), parser)


def _below(words: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[tuple[str, ...]]:
    if parser._subparsers is None:
        yield words
        return
    choices: Any = parser._subparsers._group_actions[0].choices
    for name, inner in choices.items():
        yield from _below((*words, name), inner)


LEAVES = list(leaves())

PRINTING: dict[tuple[str, ...], list[str]] = {
    ("format",): ["random-uuid"],
    ("topics", "list"): [],
    ("topics", "create"): [TOPIC, "--if-not-exists"],
    ("topics", "describe"): [TOPIC],
    ("topics", "match"): [".*"],
    ("topics", "delete"): ["no-such-topic", "--if-exists", "--json"],
    ("configs", "describe"): ["--topic", TOPIC, "--all"],
    ("configs", "alter"): ["--topic", TOPIC, "--set", "retention.ms=1000", "--validate-only"],
    ("groups", "list"): [],
    ("groups", "describe"): [GROUP],
    ("groups", "explain"): [GROUP],
    ("groups", "offsets"): [GROUP],
    ("brokers", "list"): [],
    ("brokers", "describe"): [],
    ("perf", "produce"): ["perf", "--num-records", "1"],
    ("quorum", "describe"): [],
    ("features", "describe"): [],
    ("features", "upgrade"): ["metadata.version=4.4", "--validate-only"],
    ("produce",): [TOPIC, os.devnull, "--json"],
    ("consume",): [TOPIC],
    ("epochs",): [TOPIC],
    ("offsets",): [TOPIC],
    ("delete-records",): [f"{TOPIC}:0=0"],
    ("reassign", "generate"): [TOPIC, "--brokers", "1"],
    ("reassign", "list"): ["--json"],
    ("reassign", "verify"): ["--move", f"{TOPIC}:0=1"],
    ("elect", "preferred"): [f"{TOPIC}:0"],
    ("log-dirs", "describe"): [TOPIC],
    ("transactions", "list"): ["--json"],
    ("transactions", "describe-producers"): [f"{TOPIC}:0"],
    ("transactions", "find-hanging"): [TOPIC, "--json"],
    ("transactions", "explain"): [TOPIC],
    ("security", "check"): [],
    ("users", "list"): ["--json"],
    ("quotas", "list"): ["--json"],
    ("quotas", "set"): ["--client-id", "a", "producer_byte_rate=1000", "--validate-only"],
    ("spark", "watch"): ["{checkpoint}", "--once"],
    ("spark", "sinks"): ["--json"],
    ("archive", "status"): ["{archive}"],
    ("tables", "status"): ["{table}"],
    ("tables", "verify"): ["{table}"],
    ("tables", "maintain"): ["{table}"],
    ("wire", "apis"): [],
    ("wire", "show"): ["FetchRequest"],
    ("wire", "errors"): [],
    ("wire", "decode"): ["--message", "HeartbeatResponse", "--version", "0", "--hex", "0000"],
    ("wire", "encode"): ["{document}", "--output", "-"],
    ("log", "dump"): ["{segment}"],
    ("log", "verify"): ["{directory}"],
    ("sim", "explore"): ["--epochs", "1", "--timeouts", "1", "--first", "1"],
    ("sim", "explore-partition"): ["--states", "50"],
    ("sim", "play"): ["{scenario}"],
    ("sim", "list"): [],
    ("completion",): ["fish"],
    ("man",): ["topics"],
}
"""Words with which a command prints something; those of the cluster's clients get an address."""
CLIENTS = {
    "brokers", "perf",
    "topics", "configs", "groups", "quorum", "features", "produce", "consume", "epochs", "offsets",
    "delete-records", "reassign", "elect", "log-dirs", "transactions", "spark",
    "security", "users", "quotas",
}  # fmt: skip
NOT_RUN = {
    ("serve",),
    ("console",),
    *(("cluster", action) for action in ("up", "status", "start", "stop", "restart", "kill")),
    ("cluster", "pause"),
    ("cluster", "resume"),
    ("testing", "cluster"),
    ("testing", "proxy"),
    ("testing", "certificates"),
    ("reassign", "execute"),
    ("reassign", "cancel"),
    ("elect", "unclean"),
    ("log-dirs", "move"),
    ("topics", "alter"),
    ("groups", "delete"),
    ("groups", "delete-offsets"),
    ("groups", "share-offsets"),
    ("groups", "delete-share-offsets"),
    ("transactions", "describe"),
    ("transactions", "abort"),
    ("transactions", "force-terminate"),
    ("security", "explain"),
    ("security", "hash-password"),
    *(("acls", action) for action in ("list", "add", "remove")),
    *(("users", action) for action in ("set", "delete")),
    ("quotas", "remove"),
    *(("tokens", action) for action in ("list", "create", "renew", "expire")),
    ("spark", "finish"),
    ("spark", "forget"),
    ("spark", "keep"),
    *(("spark", "checkpoint", action) for action in ("show", "move", "convert", "translate")),
    ("brokers", "decommission"),
    ("brokers", "unregister"),
    ("perf", "consume"),
    ("perf", "end-to-end"),
    ("quorum", "add-voter"),
    ("quorum", "remove-voter"),
    ("features", "downgrade"),
    ("sim", "run"),
    ("sim", "replay"),
    ("sim", "shrink"),
    ("sim", "ablations"),
    ("pipeline", "init"),
    ("audit",),
    *(("archive", action) for action in ("run", "compact", "maintain", "verify", "replay")),
    ("archive", "offsets"),
    ("tables", "run"),
    ("archive", "translate"),
    ("archive", "continue"),
    ("demo",),
}
"""Those that print nothing to standard output, or only after changing what the others need, or
after seconds, or where there is an authorizer or a secret of tokens; their help is printed."""

pytestmark = pytest.mark.usefixtures("served")  # before the first test, which counts processes


@pytest.fixture(scope="module")
def filled(served: str) -> str:
    """The served broker with a topic of some records and a group that has read one."""
    with Cluster(served, api_timeout_ms=60_000) as cluster:
        admin = Admin(cluster)
        if TOPIC not in {topic.name for topic in admin.list_topics()}:
            admin.create_topic(TOPIC, 1)
        with Producer(cluster) as producer:
            producer.send(TOPIC, b"value")
        offsets = {TopicPartition(TOPIC, 0): CommittedOffset(1, -1, "")}
        admin.alter_group_offsets(GROUP, offsets)
    return served


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """What commands that read files are given."""
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    segment = partition / f"{0:020d}.log"
    segment.write_bytes(build_batch([(None, b"value")], timestamp_ms=1))
    document = tmp_path / "document.json"
    document.write_text('{"message": "HeartbeatResponse", "version": 0, "body": {}}')
    scenario = Path(__file__).parents[1] / "transcripts" / "quorum" / "s36_leader_restarts.txt"
    archive = Layout(tmp_path / "archive")
    prepare(archive, "parquet")
    table = StoredTable(tmp_path / "table")
    table.take(0, [])
    return {
        "archive": str(archive.directory),
        "table": str(tmp_path / "table"),
        "segment": str(segment),
        "directory": str(partition.parent),
        "document": str(document),
        "scenario": str(scenario),
        "checkpoint": str(write_checkpoint(tmp_path / "checkpoint", [{TOPIC: {"0": 1}}])),
    }


@pytest.fixture
def run_into(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Runs a command line with this standard output; its exit code and standard error."""

    def run(output: TextIO, words: list[str]) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdout", output)
        try:
            code = main(words)
        except SystemExit as error:
            code = int(error.code or 0)
        finally:
            monkeypatch.undo()
        output.close()  # what is left in it would be written now, as at the end of a process
        return code, capfd.readouterr().err

    return run


def full_disk() -> TextIO:
    return open("/dev/full", "w", encoding="utf-8")


def left_pipe() -> TextIO:
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "w", encoding="utf-8")


def ended_by_full_disk(code: int, err: str) -> bool:
    line = "cannot write to standard output: No space left on device\n"
    return code == 1 and err.endswith(line) and "Traceback" not in err


def test_every_command_is_run_or_named():
    assert {*PRINTING, *NOT_RUN} == set(LEAVES)


@pytest.mark.parametrize("words", [(), *LEAVES], ids=" ".join)
def test_help_into_a_full_disk_and_a_left_pipe(run_into: Any, words: tuple[str, ...]):
    code, err = run_into(full_disk(), [*words, "--help"])
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith(" ".join(("fencepost", *words[:1])))
    assert ended_by_full_disk(code, err)
    assert run_into(left_pipe(), [*words, "--help"]) == (EXIT_FAILED, "")


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_results_into_a_full_disk_and_a_left_pipe(
    run_into: Any, filled: str, files: dict[str, str], words: tuple[str, ...]
):
    line = [*words, *(files.get(option.strip("{}"), option) for option in PRINTING[words])]
    if words[0] in CLIENTS:
        line += ["--bootstrap-server", filled]
    code, err = run_into(full_disk(), line)
    assert ended_by_full_disk(code, err)
    assert err.count("fencepost ") == 1
    code, err = run_into(left_pipe(), line)
    assert code == EXIT_FAILED
    assert "fencepost" not in err


@pytest.mark.parametrize("words", [one for one in PRINTING if one[0] in CLIENTS], ids=" ".join)
def test_a_broker_that_cannot_be_reached_is_one_line_with_its_address(
    capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
):
    with refusing_port() as held:
        address = address_of(held)
        reach = ["--bootstrap-server", address, "--timeout", "0.2"]
        assert main([*words, *PRINTING[words], *reach]) == 1
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert address in err


@pytest.mark.parametrize("words", [("topics", "list"), ("produce", "t"), ("consume", "t")])
def test_an_interrupt_while_a_broker_says_nothing(words: tuple[str, ...]):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)
        address = address_of(server)
        with subprocess.Popen(
            [sys.executable, "-c", RUN, *words, "--bootstrap-server", address, "--timeout", "3600"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                connection, _ = server.accept()
                with connection:
                    process.send_signal(signal.SIGINT)
                    out, err = process.communicate(timeout=DEADLINE_S)
            finally:
                process.kill()
    assert (process.returncode, out, err) == (EXIT_INTERRUPTED, b"", b"")


def run_process(words: list[str], redirection: str, **environment: str) -> tuple[int, str]:
    """A command line in a process of its own, under a shell that redirects."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", RUN, *words],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_S,
        check=False,
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_process_says_no_more_at_its_end(unbuffered: str):
    for words in (["--version"], ["--help"], ["wire", "errors"], ["sim", "list"]):
        code, err = run_process(words, ">/dev/full", PYTHONUNBUFFERED=unbuffered)
        assert err.count("\n") == 1
        assert ended_by_full_disk(code, err)


def test_closed_descriptors():
    assert run_process(["wire", "errors"], ">&-") == (
        1,
        "fencepost wire: cannot write to standard output: Bad file descriptor\n",
    )
    assert run_process(["wire", "errors"], "2>&-") == (0, "")
    assert run_process(["wire", "errors"], ">/dev/full 2>&-") == (1, "")
    assert run_process(["wire", "nonsense"], "2>/dev/full") == (2, "")
    code, err = run_process(["wire", "encode"], "<&-")
    assert (code, err.count("\n")) == (1, 1)
    assert "Bad file descriptor" in err


def test_a_closed_descriptor_is_not_given_to_another_file():
    code = (
        "import os, sys; from fencepost.cli.streams import with_standard_streams;"
        "sys.exit(with_standard_streams(lambda: os.open('/', os.O_RDONLY) < 3, 'x'))"
    )
    line = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code]
    assert subprocess.run(line, check=False, timeout=DEADLINE_S).returncode == 0


@pytest.mark.parametrize(
    "words", [(), *sorted({leaf[:1] for leaf in LEAVES if leaf[1:]})], ids=" ".join
)
def test_a_command_without_an_action_prints_its_help(
    words: tuple[str, ...], capfd: pytest.CaptureFixture[str]
):
    assert main(words) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(" ".join(["usage: fencepost", *words]))
    assert "show this help message" in printed.err


def test_an_interrupt_ends_any_command_with_130(capfd: pytest.CaptureFixture[str]):
    def interrupted() -> int:
        print("what was done before")
        raise KeyboardInterrupt

    assert with_standard_streams(interrupted, "x") == EXIT_INTERRUPTED == 130
    assert tuple(capfd.readouterr()) == ("what was done before\n", "")


def test_text_that_the_output_cannot_encode_is_escaped(monkeypatch: pytest.MonkeyPatch):
    below = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(below, "ascii"))
    assert with_standard_streams(lambda: print("\u00e9 \udcff") or 0, "x") == 0
    assert below.getvalue() == b"\\xe9 \\udcff\n"
