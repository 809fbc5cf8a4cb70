"""`fencepost transactions`: command lines that are refused before anybody is asked."""

from __future__ import annotations

import pytest

from fencepost.cli.main import main
from fencepost.client.cluster import Cluster
from fencepost.client.errors import FatalTransactionError
from fencepost.client.producer import Producer

from ..waiting import eventually
from .commands import Fencepost

pytestmark = pytest.mark.usefixtures("served")  # before the first test, which counts processes

NOBODY = ("-b", "127.0.0.1:1", "--timeout", "1")


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
    assert main(["transactions", *arguments, *NOBODY]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("list",), ("explain", "t"), ("find-hanging",), ("force-terminate", "x")]
)
def test_a_cluster_that_cannot_be_reached_is_said(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert main(["transactions", *arguments, *NOBODY]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_isolation_may_be_given_in_one_way_only(capsys: pytest.CaptureFixture[str]):
    twice = ["consume", "t", "--isolation", "read_committed", "-X", "isolation.level=x", *NOBODY]
    assert main(twice) == 2
    assert "give one of them" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["consume", "t", "--isolation", "serializable", *NOBODY])


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
