"""Dead letters produced again, through the console."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

pytest.importorskip("htpy")

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.producer import Producer
from fencepost.testing import Cluster
from tests.console.forms import change, hidden_values, shown

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with Cluster(faults=False) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def client(served: str) -> Iterator[Client]:
    with Client(served) as made:
        yield made


@pytest.fixture
def topics(client: Client) -> tuple[str, str]:
    """A topic of two partitions with ten records in the second, and one for its letters."""
    admin, tail = Admin(client), uuid.uuid4().hex[:8]
    for name in (f"orders-{tail}", f"letters-{tail}"):
        admin.create_topic(name, 2, 1)
        admin.wait_for_topic(name)
    with Producer(client) as producer:
        for number in range(10):
            value = b"value %d" % number
            producer.send(f"orders-{tail}", value, b"key", partition=1, headers=[("h", b"1")])
    return f"orders-{tail}", f"letters-{tail}"


def letter_headers(topic: str, partition: int, offset: int) -> list[tuple[str, bytes]]:
    """As a share group's broker writes them."""
    values = {"topic": topic, "partition": partition, "offset": offset, "group": "g"}
    return [(f"__dlq.errors.{name}", str(value).encode()) for name, value in values.items()]


def send_letter(client: Client, to: str, value: bytes | None, headers: Any, **how: Any) -> None:
    with Producer(client) as producer:
        producer.send(to, value, headers=headers, partition=0, **how)


def records_of(console: Any, topic: str, partition: int, first: int) -> list[Any]:
    """The committed records of a partition from an offset on, the oldest first."""
    asked = {"isolation": "read_committed", "partitions": partition, "from": first}
    answer = console.get(f"/api/topics/{topic}/records", params={**asked, "order": "oldest"})
    found: list[Any] = answer.json()["sections"][0]["document"]["records"]
    return found


def test_letters_go_to_where_they_came_from(browse, served: str, client: Client, topics):
    orders, letters = topics
    send_letter(client, letters, b"copy", letter_headers(orders, 1, 3), key=b"k")
    send_letter(client, letters, None, letter_headers(orders, 1, 7))
    send_letter(client, letters, b"copied", letter_headers(orders, 9, 0))
    console = browse(served, allow_writes=True)
    assert f"/writes/redrive?topic={letters}" in console.get(f"/topics/{letters}/records").text
    text, _ = shown(console, "redrive", topic=letters)
    assert f"+ {orders}-1: 5 bytes, of letter {letters}-0 at 0" in text
    assert f"+ {orders}-1: 10 bytes, of letter {letters}-0 at 1" in text
    assert f"+ {orders}: 6 bytes, of letter {letters}-0 at 2" in text, "its key decides"
    status, text = change(console, "redrive", topic=letters)
    assert (status, "Produced 3 records again" in text) == (200, True)
    found = {one["value"]["text"]: one for one in records_of(console, orders, 1, 10)}
    assert found.keys() >= {"copy", "value 7"}, "read again where it came from"
    assert [found[one]["key"]["text"] for one in ("copy", "value 7")] == ["k", "key"]
    headers = {one["name"]: one["value"]["text"] for one in found["copy"]["headers"]}
    assert headers["__dlq.errors.offset"] == "3", "the origin is kept"
    assert headers["__redrive.letter"] == f"{letters}-0:0"


def test_letters_that_cannot_be_produced_are_left_out_and_named(
    browse, served: str, client: Client, topics
):
    orders, letters = topics
    send_letter(client, letters, b"x", letter_headers(orders, 1, 3))
    send_letter(client, letters, b"no letter", [])
    send_letter(client, letters, b"x", letter_headers("absent", 0, 3))
    send_letter(client, letters, b"x", letter_headers(letters, 0, 3))
    send_letter(client, letters, None, letter_headers(orders, 1, 10**9))
    send_letter(client, letters, None, letter_headers(orders, 77, 0))
    send_letter(client, letters, b"x", letter_headers("__consumer_offsets", 0, 3))
    page, _ = shown(browse(served, allow_writes=True), "redrive", topic=letters)
    text = unescape(page)
    assert text.count(f"+ {orders}") == 1
    for words in (
        f"no header names their origin: {letters}-0 at 1.",
        f"there is no topic absent: {letters}-0 at 2.",
        f"their origin is {letters} itself: {letters}-0 at 3.",
        f"a topic of Kafka's own: {letters}-0 at 6.",
        f"whose logs have them no more: {letters}-0 at 4, {letters}-0 at 5.",
    ):
        assert words in text


def test_a_redrive_is_bounded_and_chosen(browse, served: str, client: Client, topics):
    orders, letters = topics
    for number in range(12):
        send_letter(client, letters, b"letter %d" % number, letter_headers(orders, 0, number))
    console = browse(served, allow_writes=True)

    def lines(**values: Any) -> int:
        text, _ = shown(console, "redrive", topic=letters, **values)
        assert ("More letters follow" in text) == ("limit" in values)
        return text.count(f"+ {orders}-0: ")

    assert lines() == 12
    assert lines(limit="5") == 5
    assert lines(filter='value contains "letter 1"') == 3
    assert lines(**{"from": "4", "to": "6", "partitions": "0"}) == 2


def test_nothing_is_produced_where_letters_came_since_they_were_shown(
    browse, served: str, client: Client, topics
):
    orders, letters = topics
    send_letter(client, letters, b"1", letter_headers(orders, 0, 0))
    console = browse(served, allow_writes=True)
    _, form = shown(console, "redrive", topic=letters)
    send_letter(client, letters, b"2", letter_headers(orders, 0, 0))
    answer = console.post("/writes/redrive", data={**form, "typed": letters})
    assert (answer.status_code, f"{letters}-0 at 1" in answer.text) == (409, True)
    form = hidden_values(answer.text)
    assert console.post("/writes/redrive", data={**form, "typed": orders}).status_code == 409
    assert records_of(console, orders, 0, 0) == []


def test_either_all_are_produced_or_none(browse, served: str, client: Client, topics, capsys):
    """The second topic takes no record as large as its letter."""
    orders, letters = topics
    small = f"small-{letters}"
    Admin(client).create_topic(small, 1, 1, configs={"max.message.bytes": "200"})
    Admin(client).wait_for_topic(small)
    send_letter(client, letters, b"fits", letter_headers(orders, 0, 0))
    send_letter(client, letters, b"x" * 2_000, letter_headers(small, 0, 0))
    console = browse(served, allow_writes=True)
    assert change(console, "redrive", topic=letters)[0] == 502
    assert records_of(console, orders, 0, 0) == []
    lines = [line for line in capsys.readouterr().err.splitlines() if "audit: " in line]
    told = json.loads(lines[-1].partition("audit: ")[2])
    assert told["values"] == {"records": 2, "topics": sorted([orders, small])}
    assert told["result"].startswith("failed: ")


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"topic": ""}, 400),
        ({"topic": "absent-topic"}, 409),
        ({"topic": "<b>"}, 409),
        ({"limit": "0"}, 400),
        ({"limit": "201"}, 400),
        ({"from": "soon"}, 400),
        ({"filter": "offset =="}, 400),
        ({"partitions": "7"}, 400),
        ({}, 409),
    ],
)
def test_redrives_that_cannot_be_are_refused(
    browse, served: str, topics, values: dict[str, str], status: int
):
    console = browse(served, allow_writes=True)
    answer = console.get("/writes/redrive", params={"topic": topics[1], **values})
    assert answer.status_code == status, answer.text
