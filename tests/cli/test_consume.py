"""`fencepost consume` against a served broker, alone and as a member of a group."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.cli.times import parse_time_ms
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer

from ..waiting import DEADLINE_S, eventually
from .commands import Fencepost

pytestmark = pytest.mark.usefixtures("served")  # before the first test, which counts processes


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def topic_configs() -> dict[str, str]:
    """Records of 1970 stay, however long ago the broker has started."""
    return {"retention.ms": "-1"}


@pytest.fixture
def produce(cluster: Cluster, topic: str) -> Callable[..., None]:
    """Writes values to a partition."""

    def write(*values: bytes | None, partition: int = 0) -> None:
        with Producer(cluster) as producer:
            for value in values:
                producer.send(topic, value, partition=partition, timestamp_ms=5)

    return write


@pytest.fixture
def consume(
    served: str, topic: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., tuple[int, bytes, str]]:
    """Runs the command in this process."""

    def run(*words: str) -> tuple[int, bytes, str]:
        capfdbinary.readouterr()
        code = main(["consume", topic, *words, "--bootstrap-server", served])
        captured = capfdbinary.readouterr()
        return code, captured.out, captured.err.decode()

    return run


@pytest.fixture
def committed(cluster: Cluster, group: str) -> Callable[[], dict[int, int]]:
    """The group's offsets by partition."""

    def read() -> dict[int, int]:
        offsets = Admin(cluster).group_offsets(group)
        return {partition.partition: at.offset for partition, at in offsets.items()}

    return read


def test_formats_and_nulls(produce, consume, topic):
    produce(b"1", None)
    assert consume("--format", "%o %T %s\\n")[1] == b"0 5 1\n1 5 \n"
    assert consume("-f", "%s;", "--null", "NULL")[1] == b"1;NULL;"
    assert consume("--null", "NULL")[1] == b"1\nNULL\n"
    assert consume("--null", "NULL", "--key-separator", "=")[1] == b"NULL=1\nNULL=NULL\n"
    assert consume("--json", "--max-messages", "1")[1].count(b"\n") == 1
    code, out, err = consume("--format", "%z")
    assert (code, out, err.count("\n")) == (2, b"", 1)
    assert err.startswith("fencepost consume: --format: %z is none of")


def test_a_group_reads_every_record_once_when_nothing_goes_wrong(
    produce, consume, group, committed
):
    produce(b"1", b"2", b"3")
    produce(b"4", partition=1)
    code, out, err = consume("--group", group)
    assert (code, sorted(out.split())) == (0, [b"1", b"2", b"3", b"4"])
    assert err.startswith("fencepost consume: assigned ")
    assert committed() == {0: 3, 1: 1}
    assert consume("--group", group)[1] == b""
    produce(b"5")
    assert consume("--group", group)[1] == b"5\n"


def test_a_group_commits_no_more_than_it_has_printed(produce, consume, group, committed):
    produce(b"1", b"2", b"3")
    assert consume("--group", group, "--max-messages", "2")[1] == b"1\n2\n"
    assert committed() == {0: 2}
    assert consume("--group", group)[1] == b"3\n"


def test_nothing_is_committed_of_a_partition_of_which_nothing_was_printed(
    produce, consume, group, committed
):
    produce(b"1")
    produce(b"2", partition=1)
    code, out, _ = consume("--group", group, "--max-messages", "1")
    assert (code, out.count(b"\n")) == (0, 1)
    assert list(committed().values()) == [1]


def test_a_group_starts_where_it_is_told_without_a_committed_offset(
    produce, consume, group, committed
):
    produce(b"1")
    assert consume("--group", group, "--offset", "latest")[1] == b""
    produce(b"2")
    assert consume("--group", group)[1] == b"1\n2\n"  # nothing was committed


@pytest.mark.parametrize(
    "words",
    [
        ("--partition", "0"),
        ("--timestamp", "0"),
        ("--offset", "5"),
        ("-X", "session.timeout.ms=1"),
        ("-X", "partition.assignment.strategy=sticky"),
    ],
)
def test_options_that_a_group_cannot_have(consume, group, words):
    code, out, err = consume("--group", group, *words)
    assert (code, out, err.count("\n")) == (2, b"", 1)


def test_an_empty_group_name_is_refused(consume, topic):
    code, out, err = consume("--group", "")
    assert (code, out, err.count("\n")) == (2, b"", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_member_leaves_what_it_has_printed_committed(
    served, produce, cluster, topic, group, committed, number
):
    produce(b"1", b"2")
    command = ["-m", "fencepost.cli.main", "consume", topic, "--group", group, "--follow", "--json"]
    with subprocess.Popen(
        [sys.executable, *command, "--bootstrap-server", served],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            values = [json.loads(process.stdout.readline())["value"] for _ in range(2)]
            produce(b"3", partition=1)
            values.append(json.loads(process.stdout.readline())["value"])
            eventually(lambda: committed() == {0: 2, 1: 1}, "the commit")
            process.send_signal(number)
            out, err = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert (process.returncode, out, values) == (130, b"", ["1", "2", "3"])
    assert b"Traceback" not in err
    assert Admin(cluster).describe_group(group).members == ()


def test_a_reader_that_leaves_is_not_committed_for(served, produce, topic, group, committed):
    reader, writer = os.pipe()
    os.close(reader)
    produce(b"1")
    command = ["-m", "fencepost.cli.main", "consume", topic, "--group", group]
    done = subprocess.run(
        [sys.executable, *command, "--bootstrap-server", served],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=DEADLINE_S,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert committed() == {}


def test_times_are_milliseconds_or_iso_8601():
    assert parse_time_ms("1700000000123", "--timestamp") == 1700000000123
    assert parse_time_ms("2023-11-14T22:13:20", "--timestamp") == 1700000000000
    assert parse_time_ms("2023-11-14T23:13:20+01:00", "--timestamp") == 1700000000000


def test_times_out_of_range_are_refused(run: Fencepost, topic: str, tmp_path: Path):
    for words in (
        ("consume", topic, "--timestamp", "99999999999999999999999"),
        ("consume", topic, "--timestamp", "1900-01-01T00:00:00"),
        ("groups", "offsets", "g", "--topic", topic, "--to", "@99999999999999999999"),
    ):
        ran = run(*words)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "allowed is 0 to 9223372036854775807" in ran.err
    latin = tmp_path / "latin.properties"
    latin.write_bytes(b"client.id=\xe9\n")
    ran = run("topics", "list", "--client-config", str(latin))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


# -- several topics --------------------------------------------------------------------------------


@pytest.fixture
def prefix(cluster: Cluster) -> str:
    """Of two topics, each with its own name as its only record, and of one that matches no more."""
    prefix = f"p-{uuid.uuid4().hex[:10]}"
    with Producer(cluster) as producer:
        for name in (f"{prefix}-1", f"{prefix}-2", f"x-{prefix}-1"):
            add_topic(cluster, producer, name)
    return prefix


def add_topic(cluster: Cluster, producer: Producer, name: str) -> None:
    Admin(cluster).create_topic(name, 1)
    Admin(cluster).wait_for_topic(name)
    producer.send(name, name.encode(), timestamp_ms=5)


def test_several_topics_are_read_and_a_name_that_is_wrong_is_told(run: Fencepost, prefix: str):
    ran = run("consume", f"{prefix}-2", f"{prefix}-1", f"{prefix}-2", "--format", r"%t %s\n")
    assert ran.code == 0
    assert sorted(ran.lines) == [f"{prefix}-{n} {prefix}-{n}" for n in (1, 2)]
    missing = run("consume", f"{prefix}-1", f"{prefix}-9")
    assert (missing.code, missing.out) == (1, "")
    assert f"{prefix}-9: no such topic" in missing.err
    refused = run("consume", "bad/name")
    assert (refused.code, refused.out) == (1, "")
    assert "bad/name: Topic name is invalid: 'bad/name' contains" in refused.err


def test_topics_are_chosen_by_a_regular_expression(run: Fencepost, prefix: str, group: str):
    expected = [f"{prefix}-1", f"{prefix}-2"]
    assert sorted(run("consume", "--include", f"{prefix}-[0-9]").lines) == expected
    assert run("consume", "--include", f"{prefix}-").code == 1
    member = run("consume", "--include", f"{prefix}-.", "--group", group)
    assert (member.code, sorted(member.lines)) == (0, expected)
    nothing = run("consume", "--include", "no-such-name", "--group", group, "--follow")
    assert (nothing.code, "no topic has such a name" in nothing.err) == (1, True)
    for words, why in (
        ((), "name topics, or --include some"),
        ((expected[0], "--include", "x"), "name topics, or --include some"),
        (("--include", "("), "--include '(': "),
    ):
        refused = run("consume", *words)
        assert (refused.code, refused.out) == (2, "")
        assert why in refused.err


def test_a_topic_that_is_created_meanwhile_is_followed(served: str, cluster: Cluster, prefix: str):
    command = [sys.executable, "-m", "fencepost.cli.main", "consume", "-b", served, "--follow"]
    command += ["--include", f"{prefix}-.", "--max-messages", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        try:
            assert following.stdout is not None
            first = [following.stdout.readline() for _ in range(2)]
            assert sorted(first) == [f"{prefix}-1\n", f"{prefix}-2\n"]
            with Producer(cluster) as producer:
                add_topic(cluster, producer, f"{prefix}-3")
            out, _ = following.communicate(timeout=DEADLINE_S)
        finally:
            following.kill()
    assert (following.returncode, out) == (0, f"{prefix}-3\n")
