"""`fencepost transactions`: command lines that are refused before anybody is asked."""

from __future__ import annotations

import subprocess

import pytest

from fencepost.cli.main import main
from fencepost.client.cluster import Cluster
from fencepost.client.errors import FatalTransactionError
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.client.transaction_admin import TransactionDescription
from fencepost.views.rendering import document_of
from fencepost.views.transactions import transaction_view

from ..waiting import eventually
from .commands import Fencepost

pytestmark = pytest.mark.usefixtures("served")  # before the first test, which counts processes

UNREACHABLE = ("-b", "127.0.0.1:1", "--timeout", "1")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("abort", "t:0"), "either --start-offset, or --producer-id"),
        (("abort", "t:0", "--start-offset", "1", "--producer-id", "1"), "either --start-offset"),
        (("abort", "t:0", "--producer-id", "1", "--producer-epoch", "1"), "go together"),
        (("abort", "t", "--start-offset", "1"), "must be TOPIC:PARTITION"),
        (("abort", "t:0", "--start-offset", "-1"), "--start-offset -1: allowed is 0"),
        (
            ("abort", "t:0", "--producer-id", "1", "--producer-epoch", "32768")
            + ("--coordinator-epoch", "0"),
            "--producer-epoch 32768: allowed is 0 to 32767",
        ),
        (("describe-producers", "t:x"), "must be TOPIC:PARTITION"),
        (("describe-producers", "t:0", "--broker", "-1"), "--broker -1"),
        (("list", "--running-longer-than-ms", "-1"), "--running-longer-than-ms -1"),
        (("list", "--producer-id", "-2"), "--producer-id -2"),
        (("list", "--state", "ongoing"), "states are written Empty, Ongoing,"),
        (("find-hanging", "--max-transaction-timeout", "-1"), "--max-transaction-timeout -1"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["transactions", *arguments, *UNREACHABLE]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("list",), ("explain", "t"), ("find-hanging",), ("force-terminate", "x")]
)
def test_a_cluster_that_cannot_be_reached_is_said(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert main(["transactions", *arguments, *UNREACHABLE]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_isolation_may_be_given_in_one_way_only(capsys: pytest.CaptureFixture[str]):
    twice = [
        "consume",
        "t",
        "--isolation",
        "read_committed",
        "-X",
        "isolation.level=x",
        *UNREACHABLE,
    ]
    assert main(twice) == 2
    assert "give one of them" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["consume", "t", "--isolation", "serializable", *UNREACHABLE])


def test_an_open_transaction_is_explained_described_and_terminated(
    run: Fencepost, served: str, topic: str
):
    with Cluster(served, transactional_id=topic) as cluster:
        producer = Producer(cluster)
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"first", partition=0)
        assert run("transactions", "explain", f"{topic}:1").out.startswith(f"{topic}-1: nothing")
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0)
        producer.flush()
        said = run("transactions", "explain", topic)
        assert said.code == 0
        assert said.lines[0].startswith(f"{topic}-0: readers wait at offset 2, 1 before")
        assert said.lines[-2].endswith(f"force-terminate {topic}")
        held = run("transactions", "explain", "--json").json  # other tests may leave some, too
        assert [one["verdict"] for one in held if one["partition"] == f"{topic}:0"] == ["ongoing"]
        assert all(one["verdict"] != "nothing" for one in held)
        assert run("consume", topic, "--isolation", "read_committed").out == "first\n"
        (listed,) = run("transactions", "list", "--pattern", topic, "--json").json
        assert listed["state"] == "Ongoing"
        assert f"{topic}  " in run("transactions", "describe", topic).out
        where = f"{topic}:0"
        (writes,) = run("transactions", "describe-producers", where, "--json").json
        assert writes["start_offset"] == 2
        refused = run("transactions", "abort", where, "--start-offset", "2")
        assert (refused.code, "force-terminate" in refused.err) == (1, True)
        assert run("transactions", "find-hanging", topic, "--json").json == []
        assert "began 20" in run("transactions", "describe", topic).out.splitlines()[1]
        assert "is aborted, its" in run("transactions", "force-terminate", topic).out
        assert "had no open" in run("transactions", "force-terminate", topic).out
        eventually(lambda: "nothing is held" in run("transactions", "explain", where).out)
        assert topic not in run("transactions", "explain").out
        with pytest.raises(FatalTransactionError):
            producer.commit_transaction()


def test_what_is_in_ids_does_nothing_to_a_terminal(run: Fencepost, served: str, topic: str):
    hostile = f"{topic}\x1b[31m'\nfake\u202e"
    with Cluster(served, transactional_id=hostile) as cluster:
        producer = Producer(cluster)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0)
        producer.flush()
        said = [
            run("transactions", "list", "--pattern", f"(?s){topic}.*"),
            run("transactions", "describe", hostile),
            run("transactions", "explain", f"{topic}:0"),
            run("transactions", "force-terminate", hostile),
            run("transactions", "describe", hostile + "?"),
        ]
    assert [one.code for one in said] == [0, 0, 0, 0, 1]
    for one in said:
        assert all(line.isprintable() for line in (one.out + one.err).splitlines()), one
        assert r"\x1b[31m" in one.out + one.err
    command = said[2].lines[-1].removeprefix("  to release now: ")
    read = subprocess.run(
        ["bash", "-c", f"printf %s {command.split(' ', 3)[3]}"], capture_output=True, check=True
    )
    assert read.stdout.decode() == hostile


def test_a_marker_for_nothing_is_written_by_force_alone(run: Fencepost, topic: str):
    who = ("--producer-id", "4711", "--producer-epoch", "1", "--coordinator-epoch", "0")
    refused = run("transactions", "abort", f"{topic}:0", *who)
    assert (refused.code, "no open transaction of producer 4711" in refused.err) == (1, True)
    assert run("transactions", "describe-producers", f"{topic}:0", "--json").json == []
    assert run("transactions", "abort", f"{topic}:0", *who, "--force").code == 0
    (there,) = run("transactions", "describe-producers", f"{topic}:0", "--json").json
    assert there["producer_id"] == 4711


def test_a_pattern_that_is_none_is_named(run: Fencepost):
    refused = run("transactions", "list", "--pattern", "(")
    assert (refused.code, "'(' is no pattern" in refused.err) == (1, True)


def test_partitions_are_numbered_in_ascii(run: Fencepost, topic: str):
    assert run("transactions", "describe-producers", f"{topic}:\u0661").code == 2


@pytest.mark.parametrize(("start_ms", "told"), [(-1, None), (0, 0), (7, 7)])
def test_a_transactional_id_without_a_transaction_has_no_start(start_ms: int, told: int | None):
    found = TransactionDescription(
        "x", 1, 2, 3, "Ongoing", 60_000, start_ms, (TopicPartition("t", 4),)
    )
    assert document_of(transaction_view(found)) == {
        "transactional_id": "x",
        "coordinator": 1,
        "producer_id": 2,
        "producer_epoch": 3,
        "state": "Ongoing",
        "timeout_ms": 60_000,
        "start_ms": told,
        "partitions": ["t:4"],
    }
