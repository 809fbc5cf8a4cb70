"""Live tails over a real socket: what they show, where they go on, how many, and when they end."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from fencepost.client.admin import Admin  # noqa: E402
from fencepost.client.cluster import Cluster as Client  # noqa: E402
from fencepost.client.config import ClientConfig  # noqa: E402
from fencepost.client.errors import ClientError  # noqa: E402
from fencepost.client.fetch_core import Fetched  # noqa: E402
from fencepost.client.metadata import TopicPartition  # noqa: E402
from fencepost.client.producer import Producer  # noqa: E402
from fencepost.client.retry import Deadline  # noqa: E402
from fencepost.console.asked import Asked  # noqa: E402
from fencepost.console.html import document  # noqa: E402
from fencepost.console.page import Live, Page, Section  # noqa: E402
from fencepost.console.records import tailing  # noqa: E402
from fencepost.console.records.decoders import Decoder  # noqa: E402
from fencepost.console.records.query import LookQuery  # noqa: E402
from fencepost.console.records.row_maker import RowMaker  # noqa: E402
from fencepost.console.session import Session  # noqa: E402
from fencepost.console.web.application import application  # noqa: E402
from fencepost.console.web.tails import TAILS_MAX  # noqa: E402
from fencepost.testing import Cluster  # noqa: E402
from tests.console.looking import STANDING  # noqa: E402
from tests.ports import address_of, refusing_port  # noqa: E402
from tests.waiting import DEADLINE_S, eventually  # noqa: E402


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


@pytest.fixture(scope="module")
def port(cluster: Cluster) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        bound = listener.getsockname()[1]
        session = Session(ClientConfig(bootstrap_servers=cluster.bootstrap_servers))
        made = application(session, frozenset({f"127.0.0.1:{bound}"}))
        config = uvicorn.Config(made, log_level="warning", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        eventually(lambda: server.started, "the console to answer")
        yield bound
        server.should_exit = True
        thread.join(DEADLINE_S)


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[Producer]:
    with Client(cluster.bootstrap_servers) as client:
        yield Producer(client)


@contextmanager
def tail(port: int, topic: str, query: str = "", last: str = "") -> Iterator[Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    headers = {"Last-Event-ID": last} if last else {}
    connection.request("GET", f"/topics/{topic}/tail/events?{query}", headers=headers)
    response = connection.getresponse()
    try:
        yield response
    finally:
        response.close()
        connection.close()


def events(response: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ids and data of the events that have some."""
    last = ""
    for line in response:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            last = value
        elif name == "data":
            yield last, json.loads(value)


def topic(cluster: Cluster, name: str, partitions: int = 1) -> str:
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topic(name, partitions, 1)
    return name


@pytest.fixture(scope="module")
def single(cluster) -> str:
    """A topic of one partition without records."""
    return topic(cluster, "single")


def values(found: list[dict[str, Any]]) -> list[str]:
    return [row["cells"][-1] for one in found for row in one["rows"]]


def test_a_tail_shows_what_comes_and_resumes_where_it_was(cluster, port, producer):
    name = topic(cluster, "followed")
    producer.send(name, b"before", partition=0)
    producer.flush()
    with tail(port, name, "filter=not%20value%20contains%20%22skip%22") as response:
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        response.readline()  # it has begun
        for value in (b"one", b"skip it", b"two"):
            producer.send(name, value, partition=0)
        producer.flush()
        seen: list[dict[str, Any]] = []
        for at, found in events(response):
            last = at
            seen.append(found)
            if values(seen) == ["one", "two"]:
                break
        assert seen[0]["rows"][0]["link"] == f"/topics/{name}/records/0/1"
    assert last == "0:4"
    producer.send(name, b"three", partition=0)
    producer.flush()
    with tail(port, name, last=last) as response:
        _, found = next(events(response))
        assert values([found]) == ["three"]


def test_a_burst_is_counted(cluster, port, producer):
    name = topic(cluster, "burst")
    for number in range(3_000):
        producer.send(name, b"%d" % number, partition=0)
    producer.flush()
    shown = missed = 0
    with tail(port, name, "from=earliest") as response:
        for at, found in events(response):
            last = at
            assert len(found["rows"]) <= tailing.EVENT_ROWS
            shown += len(found["rows"])
            missed += found["not_shown"]
            if shown + missed >= 3_000:
                break
    assert (shown + missed, last) == (3_000, "0:3000")
    assert missed > 0


def test_records_that_were_deleted_are_skipped(cluster, port, producer):
    name = topic(cluster, "deleted")
    for number in range(10):
        producer.send(name, b"%d" % number, partition=0)
    producer.flush()
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).delete_records({TopicPartition(name, 0): 7})
    with tail(port, name, last="0:2") as response:
        _, found = next(events(response))
        assert values([found]) == ["7", "8", "9"]


def test_so_many_tails_may_be_open(cluster, port):
    name = topic(cluster, "many")
    with ExitStack() as stack:
        for _ in range(TAILS_MAX):
            assert stack.enter_context(tail(port, name)).status == 200
        with tail(port, name) as refused:
            assert refused.status == 503
            assert b"8 tails are open" in refused.read()

    def is_accepted() -> bool:
        with tail(port, name) as response:
            return response.status == 200

    eventually(is_accepted, "the tails to end with their browsers")


def test_a_tail_that_falls_behind_goes_on_at_the_end(cluster, producer, monkeypatch):
    name = topic(cluster, "faster")
    for number in range(20):
        producer.send(name, b"%d" % number, partition=0)
        producer.flush()
    monkeypatch.setattr(tailing, "FETCH_BYTES_MAX", 1)
    monkeypatch.setattr(tailing, "BEHIND_S", 0.0)
    config = ClientConfig(bootstrap_servers=cluster.bootstrap_servers)
    as_is = Decoder("auto")

    async def first_skip() -> tailing.TailEvent:
        query = LookQuery.of(Asked({"topic": name}))
        followed = tailing.Tail(config, query, {0: 0}, RowMaker(as_is, as_is), is_live=True)
        async with aclosing(followed.events()) as found:
            async for event in found:
                if event.skipped:
                    return event
        raise AssertionError("it ended")

    event = asyncio.run(first_skip())
    assert event.positions == {0: 20}
    assert 0 < event.skipped < 20


def test_a_record_is_shown_while_another_leader_does_not_answer():
    """Not one that answers with nothing after a while: one whose answer does not come at all."""
    as_is = Decoder("auto")

    async def follow(cluster: Cluster, client: Client) -> None:
        patient = ClientConfig(
            bootstrap_servers=cluster.bootstrap_servers,
            request_timeout_ms=int(10 * DEADLINE_S * 1000),
        )
        query = LookQuery.of(Asked({"topic": "spread"}))
        begin = dict.fromkeys(range(3), 0)
        followed = tailing.Tail(patient, query, begin, RowMaker(as_is, as_is), is_live=True)
        seen: set[str | None] = set()
        async with asyncio.timeout(DEADLINE_S), aclosing(followed.events()) as found:
            producer = Producer(client)
            for one in range(3):
                producer.send("spread", b"from %d" % one, partition=one)
            producer.flush()
            while seen != {"from 0", "from 1", "from 2"}:
                seen |= {row.value_text for row in (await anext(found)).rows}
            of = [client.leader("spread", one, Deadline(0))[0].node_id for one in range(3)]
            assert len(set(of)) == 3
            cluster.pause(of[2])
            producer.send("spread", b"shown", partition=0)
            producer.flush()
            while "shown" not in seen:
                seen |= {row.value_text for row in (await anext(found)).rows}
            producer.send("spread", b"shown, too", partition=1)
            producer.flush()
            while "shown, too" not in seen:
                seen |= {row.value_text for row in (await anext(found)).rows}
            cluster.resume(of[2])
            producer.send("spread", b"resumed", partition=2)
            producer.flush()
            while "resumed" not in seen:
                seen |= {row.value_text for row in (await anext(found)).rows}

    with Cluster(3) as cluster, Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topic("spread", 3, 1)
        asyncio.run(follow(cluster, client))


def test_a_tail_of_what_is_committed_shows_nothing_that_is_aborted(cluster, port, producer):
    name = topic(cluster, "committed")
    producer.send(name, b"before", partition=0)
    producer.flush()
    with (
        Client(cluster.bootstrap_servers, transactional_id="tailed") as client,
        tail(port, name, "from=earliest&isolation=read_committed") as response,
    ):
        transactional = Producer(client)
        transactional.init_transactions()
        transactional.begin_transaction()
        transactional.send(name, b"aborted", partition=0)
        transactional.flush()
        found, seen = events(response), list[str]()
        while not seen:
            seen += values([next(found)[1]])
        transactional.abort_transaction()
        producer.send(name, b"after", partition=0)
        producer.flush()
        while "after" not in seen:
            seen += values([next(found)[1]])
    assert seen == ["before", "after"]


def test_a_tail_says_soon_that_no_broker_answers(monkeypatch):
    monkeypatch.setattr(tailing, "GIVES_UP_MS", 100)
    as_is = Decoder("auto")

    async def first_event(servers: str) -> tailing.TailEvent:
        patient = ClientConfig(bootstrap_servers=servers, api_timeout_ms=int(1e7))
        query = LookQuery.of(Asked({"topic": "t"}))
        followed = tailing.Tail(patient, query, {0: 0}, RowMaker(as_is, as_is), is_live=True)
        async with asyncio.timeout(DEADLINE_S), aclosing(followed.events()) as found:
            return await anext(found)

    with refusing_port() as held:
        event = asyncio.run(first_event(address_of(held)))
    assert event.problem and not event.rows


class OnAClock:
    """A tail of two partitions that takes answers without a broker, and its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_live: bool) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(tailing, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        as_is = Decoder("auto")
        query = LookQuery.of(Asked({"topic": "t"}))
        maker = RowMaker(as_is, as_is)
        config = ClientConfig(bootstrap_servers="127.0.0.1:9")  # nothing is asked
        self.tail = tailing.Tail(config, query, {0: 0, 1: 0}, maker, is_live)

    def answered(self, partition: int, end: int) -> dict[int, int]:
        """The positions after an answer without records of a log that ends there."""
        at, start = TopicPartition("t", partition), self.tail._positions[partition]
        answer = Fetched(at, memoryview(b""), start, 0, end, end, 0, (), None, start)
        self.tail._catch_up([answer])
        return dict(self.tail._positions)


def test_what_another_partition_answers_does_not_end_that_one_is_behind(monkeypatch):
    one = OnAClock(monkeypatch, is_live=True)
    assert one.answered(1, 9) == {0: 0, 1: 0}
    one.now_s = tailing.BEHIND_S / 2
    assert one.answered(0, 0) == {0: 0, 1: 0}
    one.now_s = tailing.BEHIND_S + 1
    assert one.answered(0, 0) == {0: 0, 1: 9}


def test_a_log_that_was_cut_is_not_skipped_to_where_it_ended_before(monkeypatch):
    one = OnAClock(monkeypatch, is_live=True)
    one.answered(1, 9)

    async def run(_: object) -> dict[int, SimpleNamespace]:
        return {1: SimpleNamespace(log_start=0, log_end=5)}

    monkeypatch.setattr(one.tail, "_cluster", SimpleNamespace(run=run))
    monkeypatch.setattr(tailing, "finding_ranges", lambda *given: None)
    asyncio.run(one.tail._find_positions(ClientError("the log was cut")))
    one.now_s = 2 * tailing.BEHIND_S
    assert one.answered(0, 0) == {0: 0, 1: 0}


def test_a_tail_from_an_offset_skips_nothing_before_all_partitions_were_at_their_ends(monkeypatch):
    one = OnAClock(monkeypatch, is_live=False)
    assert one.answered(0, 0) == {0: 0, 1: 0}
    for now_s in (1.0, 2 * tailing.BEHIND_S):
        one.now_s = now_s
        assert one.answered(1, 9) == {0: 0, 1: 0}
    one.tail._positions[1] = 9
    one.answered(1, 9)
    for now_s in (one.now_s, one.now_s + tailing.BEHIND_S):
        one.now_s = now_s
        assert one.answered(1, 12) == {0: 0, 1: 9}, "it has been behind for no longer than it may"
    one.now_s += 1
    assert one.answered(1, 12) == {0: 0, 1: 12}


@pytest.mark.parametrize(
    ("name", "query", "last", "status", "words"),
    [
        ("absent", "", "", 404, b"no topic 'absent'"),
        ("single", "filter=offset", "", 400, b"filter="),
        ("single", "partitions=9", "", 400, b"partitions 0 to 0"),
        ("single", "", "x:1", 400, b"Last-Event-ID="),
    ],
)
def test_what_cannot_be_followed(single, port, name, query, last, status, words):
    assert name in (single, "absent")
    with tail(port, name, query, last) as response:
        assert response.status == status
        assert words in response.read()


def test_the_page_of_a_tail_has_buttons_and_no_rows(single, port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    connection.request("GET", f"/topics/{single}/tail?filter=offset%20%3E%201")
    text = connection.getresponse().read().decode()
    connection.close()
    assert f'data-tail="/topics/{single}/tail/events?filter=offset+%3E+1"' in text
    assert "<button" in text and "disabled" in text


def test_a_live_tables_path_is_escaped():
    block = Live("c", '/x?"><script>', ["<b>"])
    shown = document(Page("t", [Section("", [], [block])], 0), "/", STANDING)
    assert "<script>" not in shown.replace('<script src="/static', "")
    assert "<b>" not in shown
