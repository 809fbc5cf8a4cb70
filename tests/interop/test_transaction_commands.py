"""`fencepost transactions` on transactions that are open, ended, timed out, and that hang.

What hangs is written as a broken client writes it: a transactional batch for a partition that its
coordinator was never told of, to a broker that does not verify (KIP-890).
"""

from __future__ import annotations

import contextlib
import json
import shlex
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.batch.header import stamp_producer
from fencepost.batch.records import BatchBuilder
from fencepost.cli.main import main
from fencepost.client.admin import Admin
from fencepost.client.cluster import TRANSACTION_KEY, Cluster
from fencepost.client.errors import BrokerError, FatalTransactionError
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.wire.errors import ErrorCode

from ..waiting import eventually
from . import apache
from .conftest import one_node
from .maven import JarSet

pytestmark = pytest.mark.interop

SETTINGS = {
    "transaction.state.log.num.partitions": "4",
    "transaction.partition.verification.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
HOUR_MS = 3_600_000
Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture(scope="module", params=["fencepost", "apache"])
def servers(
    request: pytest.FixtureRequest, kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Bootstrap address of one node that does not verify partitions."""
    with one_node(request.param, tmp_path_factory.mktemp(request.param), **SETTINGS) as address:
        yield address


@pytest.fixture
def connect(servers: str) -> Iterator[Callable[..., Cluster]]:
    with contextlib.ExitStack() as opened:
        yield lambda **properties: opened.enter_context(Cluster(servers, **properties))


@pytest.fixture
def topic(connect: Callable[..., Cluster]) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    admin = Admin(connect())
    admin.create_topic(name, partitions=1)
    admin.wait_for_topic(name)
    return name


@pytest.fixture
def run(servers: str, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `fencepost transactions ...`: exit code, output (parsed, with --json), errors."""

    def command(*arguments: str) -> tuple[int, Any, str]:
        code = main(["transactions", *arguments, "-b", servers])
        out, err = capfd.readouterr()
        is_json = "--json" in arguments and code == 0
        return code, json.loads(out) if is_json else out, err

    return command


def hanging(cluster: Cluster, transactional_id: str, topic: str) -> tuple[int, int]:
    """Have a transaction hang in partition 0, since an hour ago; its producer id and epoch."""
    asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    found = cluster.request_coordinator(
        transactional_id, asked, lambda r: r.error_code, what="init", key_type=TRANSACTION_KEY
    )
    builder = BatchBuilder()
    builder.append(None, b"hangs", (), timestamp_ms=time.time_ns() // 1_000_000 - HOUR_MS)
    batch = bytearray(builder.build())
    stamp_producer(batch, found.producer_id, found.producer_epoch, 0, transactional=True)
    node, _ = cluster.leader(topic, 0, cluster.deadline())
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    request = ProduceRequest(
        transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=[data]
    )
    answer = cluster.connection(node).request(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return found.producer_id, found.producer_epoch


def test_a_transaction_that_hangs_is_explained_found_and_released(
    connect: Callable[..., Cluster], servers: str, topic: str, run: Run
):
    cluster = connect()
    with Producer(cluster) as plain:
        plain.send(topic, b"before")
    producer_id, epoch = hanging(cluster, "careless", topic)
    with Producer(cluster) as plain:
        plain.send(topic, b"behind")

    code, out, _ = run("explain", topic)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"{topic}-0: readers wait at offset 1, 2 before the high watermark 3"
    assert f"producer {producer_id} epoch {epoch} has a transaction open from offset 1" in lines[1]
    assert "(36" in lines[1]  # 3600 and some seconds
    assert "transactional id careless, Empty" in lines[2]
    assert lines[3] == "  it hangs: no coordinator will ever end it"
    release = f"fencepost transactions abort {topic}:0 --start-offset 1"
    assert lines[4] == f"  to release: {release}"

    code, found, _ = run("find-hanging", "--json")
    assert [(one["partition"], one["producer_id"]) for one in found] == [
        (f"{topic}:0", producer_id)
    ]
    tool = apache.run_tool(
        "transactions", "--bootstrap-server", servers, "find-hanging", "--broker-id", "1"
    )
    assert topic in tool.stdout and str(producer_id) in tool.stdout
    assert run("find-hanging", "--max-transaction-timeout", "70", "--json")[1] == []

    code, found, _ = run("describe-producers", f"{topic}:0", "--json")
    assert [one["start_offset"] for one in found if one["producer_id"] == producer_id] == [1]
    assert run("describe-producers", f"{topic}:0", "--broker", "1", "--json")[1] == found

    assert run(*shlex.split(release)[2:])[0] == 0
    code, out, _ = run("explain", topic)
    assert out == f"{topic}-0: nothing is held, readers reach offset 4\n"
    code, _, err = run(*shlex.split(release)[2:])
    assert (code, "no open transaction from offset 1" in err) == (1, True)


def test_kafkas_tool_aborts_a_transaction_that_hangs(
    connect: Callable[..., Cluster], servers: str, topic: str, run: Run
):
    hanging(connect(), "careless-3", topic)
    where = ("--bootstrap-server", servers, "abort", "--topic", topic, "--partition", "0")
    wrong = apache.run_tool("transactions", *where, "--start-offset", "1", check=False)
    assert "Could not find any open transactions" in wrong.stdout + wrong.stderr
    apache.run_tool("transactions", *where, "--start-offset", "0")
    assert run("explain", topic)[1] == f"{topic}-0: nothing is held, readers reach offset 2\n"


def test_a_transaction_that_goes_on_is_not_taken_for_one_that_hangs(
    connect: Callable[..., Cluster], topic: str, run: Run
):
    name = f"busy {uuid.uuid4().hex[:6]}"
    producer = Producer(connect(transactional_id=name))
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"open")
    producer.flush()
    code, found, _ = run("explain", f"{topic}:0", "--json")
    assert code == 0
    (one,) = found
    assert (one["verdict"], one["last_stable_offset"], one["high_watermark"]) == ("ongoing", 0, 1)
    assert one["open"][0]["transaction"]["transactional_id"] == name
    assert one["release"] == f"fencepost transactions force-terminate '{name}'"
    assert "its producer ends it, or its timeout at" in run("explain", topic)[1]
    # As records of another time: still not hanging.
    assert run("find-hanging", topic, "--max-transaction-timeout", "0", "--json")[1] == []

    code, _, err = run("abort", f"{topic}:0", "--start-offset", "0")
    assert (code, f"{name} has this transaction and is Ongoing" in err) == (1, True)
    assert run(*shlex.split(one["release"])[2:])[0] == 0
    eventually(lambda: run("explain", topic, "--json")[1][0]["verdict"] == "nothing")
    with pytest.raises(FatalTransactionError):
        producer.commit_transaction()


def test_a_timed_out_transaction_is_ended_by_its_coordinator(
    connect: Callable[..., Cluster], topic: str, run: Run
):
    name = f"slow-{uuid.uuid4().hex[:6]}"
    producer = Producer(connect(transactional_id=name, transaction_timeout_ms=1000))
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"slow")
    producer.flush()
    eventually(lambda: run("describe", name, "--json")[1]["state"] == "CompleteAbort")
    assert run("explain", topic, "--json")[1][0]["verdict"] == "nothing"


def test_transactional_ids_are_listed_and_described(
    connect: Callable[..., Cluster], topic: str, run: Run
):
    prefix = f"list-{uuid.uuid4().hex[:6]}"
    names = [f"{prefix}-{n}" for n in range(3)]
    producers = []
    for name in names:
        producers.append(Producer(connect(transactional_id=name)))
        producers[-1].init_transactions()
    producers[1].begin_transaction()
    producers[1].send(topic, b"x")
    producers[1].flush()

    def listed(*filters: str) -> list[str]:
        code, found, err = run("list", *filters, "--json")
        assert code == 0, err
        return [one["transactional_id"] for one in found if prefix in one["transactional_id"]]

    assert listed() == names
    assert listed("--state", "Ongoing") == names[1:2]
    assert listed("--pattern", f"{prefix}-[02]") == [names[0], names[2]]
    assert listed("--state", "Ongoing", "--running-longer-than-ms", "3600000") == []
    code, described, _ = run("describe", names[1], "--json")
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}:0"])
    assert described["timeout_ms"] == 60_000
    assert listed("--producer-id", str(described["producer_id"])) == names[1:2]
    assert run("describe", names[1])[1].startswith(f"transactional id {names[1]}  state Ongoing")
    producers[1].abort_transaction()

    for arguments, text in (
        (("describe", "unknown"), "TRANSACTIONAL_ID_NOT_FOUND"),
        (("force-terminate", "unknown"), "TRANSACTIONAL_ID_NOT_FOUND"),
        (("list", "--state", "Tired"), "no such transaction state: Tired"),
        (("list", "--pattern", "("), "INVALID_REGULAR_EXPRESSION"),
        (("describe-producers", "nothing:0"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("describe-producers", f"{topic}:0", "--broker", "99"), "no broker 99"),
    ):
        code, _, err = run(*arguments)
        assert (code, text in err) == (1, True), (arguments, err)


def test_a_partition_refuses_markers_of_the_past(
    connect: Callable[..., Cluster], topic: str, run: Run
):
    producer_id, epoch = hanging(connect(), "careless-2", topic)
    admin = Admin(connect())
    part = TopicPartition(topic, 0)
    producer = Producer(connect(transactional_id="careless-2"))
    producer.init_transactions()  # the next epoch; it does not know of what hangs
    with producer.transaction():
        producer.send(topic, b"x")
    (held,) = run("explain", topic, "--json")[1]
    if held["verdict"] != "nothing":
        assert run("abort", f"{topic}:0", "--start-offset", "0", "--force")[0] == 0
    with pytest.raises(BrokerError) as caught:
        admin.abort_in_partition(part, producer_id, epoch)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
