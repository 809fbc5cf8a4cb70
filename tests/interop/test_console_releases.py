"""The console and the clients with the oldest and the newest Kafka 2, and with the newest of all:
every page, in each of its forms, and what such a broker cannot tell said in a sentence."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.consumer import Consumer
from fencepost.client.producer import Producer

from ..waiting import DEADLINE_S, eventually
from .apache import KAFKA, KAFKA_VERSION, apache_broker
from .conftest import jars_or_skip
from .maven import JarSet
from .zookeeper import NEWEST, OLDEST, kafka_with_zookeeper

pytest.importorskip("starlette")
testclient = pytest.importorskip("starlette.testclient")

from fencepost.client.config import ClientConfig  # noqa: E402
from fencepost.console.pages.table import PAGES  # noqa: E402
from fencepost.console.session import Session  # noqa: E402
from fencepost.console.web.application import application  # noqa: E402

pytestmark = pytest.mark.interop
HOST = "127.0.0.1:8093"
PARTS = {
    "topic": "orders",
    "partition": "0",
    "offset": "1",
    "broker": "1",
    "id:path": "payments",
    "group:path": "readers",
}
"""What pages are asked for; those of files that a console was given are not a cluster's."""
LOOKS = (
    "/topics/orders?show=contents",
    "/replication?show=at-min-isr&details=all",
    "/transactions?explain=orders",
    "/transactions?state=Ongoing",
    "/configs?topic=orders&show=all",
    "/topics/orders/records?isolation=read_committed&order=oldest",
    "/topics/orders/records?filter=value+contains+%22v1%22",
)
NOT_TOLD = {
    "2.0.1": {
        "/reassignments": "Before Kafka 2.4 brokers do not tell",
        "/transactions/payments": "Before Kafka 3.0 brokers do not tell",
        "/transactions": "0 transactional ids that brokers tell of",
        "/quorum": "Before Kafka 3.3 brokers do not tell",
        "/topics/orders": "brokers before Kafka 2.8 give topics none",
        "/topics/orders/0": "before Kafka 2.1 brokers do not tell in which epoch they lead",
        "/access": "the broker has no DescribeClientQuotas API",
    },
    "2.8.2": {
        "/transactions/payments": "Before Kafka 3.0 brokers do not tell",
        "/quorum": "Before Kafka 3.3 brokers do not tell",
        "/replication": "Which replicas are eligible to lead is not known",
    },
    KAFKA_VERSION: {},
}
"""What pages say to releases that have no API for it."""


@pytest.fixture(scope="module", params=[OLDEST, NEWEST, KAFKA], ids=lambda jars: jars.name)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[tuple[str, str]]:
    """A broker with two topics, a transaction and a group, by our clients: version and address."""
    jars: JarSet = jars_or_skip(request.param)
    directory = tmp_path_factory.mktemp(jars.name)
    with contextlib.ExitStack() as stack:
        if jars == KAFKA:
            servers = stack.enter_context(apache_broker(directory)).bootstrap_servers
        else:
            servers = stack.enter_context(kafka_with_zookeeper(directory, jars))
        _fill(servers)
        yield jars.name.removeprefix("kafka-"), servers


def _fill(servers: str) -> None:
    with Cluster(servers, transactional_id="payments") as client:
        admin = Admin(client)
        admin.create_topic("orders", 2, 1, configs={"retention.ms": "86400000"})
        admin.create_topic("letters", 1, 1)
        admin.wait_for_topic("orders")
        producer = Producer(client)
        producer.init_transactions()
        for is_kept in (True, False):
            producer.begin_transaction()
            for number in range(10):
                producer.send("orders", b"v%d" % number, b"k", partition=0, headers=[("h", b"x")])
            producer.flush()
            producer.commit_transaction() if is_kept else producer.abort_transaction()
    config = ClientConfig.from_props(
        {
            "bootstrap.servers": servers,
            "group.id": "readers",
            "group.protocol": "classic",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    values: list[bytes | None] = []
    with Cluster(config=config) as client, Consumer(client, ["orders"]) as consumer:

        def read() -> bool:
            for fetched in consumer.poll():
                values.extend(record.value for record in fetched.read_records())
                consumer.store(fetched.partition, fetched.next_offset, fetched.last_epoch)
            return len(values) >= 10

        eventually(read, "what was committed to be read")
        consumer.commit()
    assert values == [b"v%d" % number for number in range(10)]


@pytest.fixture
def browser(kafka: tuple[str, str]) -> Iterator[Any]:
    session = Session(ClientConfig(bootstrap_servers=kafka[1]))
    with testclient.TestClient(
        application(session, frozenset({HOST})), base_url=f"http://{HOST}"
    ) as client:
        yield client


def _paths() -> list[str]:
    paths = [kind.path for kind in PAGES]
    for part, value in PARTS.items():
        paths = [path.replace(f"{{{part}}}", value) for path in paths]
    return [*(path for path in paths if "{" not in path), *LOOKS]


@pytest.mark.parametrize("path", _paths())
def test_every_page_is_made_as_html_and_json(browser: Any, path: str):
    page = browser.get(path)
    assert page.status_code == 200, page.text
    assert browser.get("/api" + path).json()["sections"]


def test_what_it_cannot_tell_is_said(kafka: tuple[str, str], browser: Any):
    for path, words in NOT_TOLD[kafka[0]].items():
        assert words in browser.get(path).text, path


def test_pages_show_what_there_is(browser: Any):
    def documents(path: str) -> list[Any]:
        return [one["document"] for one in browser.get("/api" + path).json()["sections"]]

    partitions = documents("/topics/orders?show=contents")[0]["partitions"]
    assert [one["latest"] for one in partitions] == [22, 0]
    rows = documents("/topics/orders/records?limit=50")[0]["records"]
    assert [row["state"] for row in rows] == ["aborted"] * 10 + ["committed"] * 10
    configs = {one["name"]: one["value"] for one in documents("/configs?topic=orders")[0]}
    assert configs["retention.ms"] == "86400000"
    group = browser.get("/api/groups/readers").text
    assert '"orders"' in group and "Empty" in group
    assert [row["name"] for row in documents("/topics?filter=e")[0]][-2:] == ["letters", "orders"]


def test_requests_that_no_broker_knows_are_not_counted(kafka: tuple[str, str], browser: Any):
    requests = browser.get("/api/topics/orders").json()["requests"]
    assert ("DescribeTopicPartitions" in requests) == (kafka[0] == KAFKA_VERSION)
    assert requests["DescribeConfigs"] == requests["Metadata"] == 1


@pytest.mark.parametrize(
    "words", [["overview"], ["topic", "topic=orders"], ["group", "group=readers"]]
)
def test_a_page_is_printed(kafka: tuple[str, str], words: list[str]):
    command = [sys.executable, "-m", "fencepost.cli.main", "console", "-b", kafka[1]]
    done = subprocess.run(
        [*command, "--once", *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert words[-1].rpartition("=")[2] in done.stdout.lower() or "Health" in done.stdout
