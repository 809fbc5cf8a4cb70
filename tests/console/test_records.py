"""Pages of records on a real cluster: which records, in which order, from exactly which offsets."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")

from fencepost.client.config import ClientConfig
from fencepost.console.asked import Asked, BadQuery, NotThere
from fencepost.console.html import document
from fencepost.console.page import Page, document_of
from fencepost.console.pages.table import make_page, page_named
from fencepost.console.records import filter_subject, one, query
from fencepost.console.session import Session
from fencepost.console.text import text_of
from fencepost.console.web.application import application
from tests.console.looking import STANDING
from tests.console.record_topics import HOSTILE, LARGE_BYTES, record_topics
from tests.waiting import DEADLINE_S


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with record_topics() as servers:
        yield servers


@pytest.fixture(autouse=True)
def a_look_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the seconds of a look may be over before its first Fetch is answered."""
    for module in (query, one):
        monkeypatch.setattr(module, "BUDGET_S", DEADLINE_S)


def page_of(served: str, name: str, **values: str) -> Page:
    async def make() -> Page:
        session = Session(ClientConfig(bootstrap_servers=served))
        try:
            return await make_page(page_named(name), session, Asked(values))
        finally:
            await session.close()

    return asyncio.run(make())


def records_of(served: str, topic: str, **values: str) -> dict[str, Any]:
    asked = {key.rstrip("_"): value for key, value in values.items()}
    page = page_of(served, "records", topic=topic, **asked)
    return document_of(page)["sections"][0]["document"]


def offsets(found: dict[str, Any]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in found["records"]]


def test_newest_records_of_all_partitions_are_merged_by_time(served):
    found = records_of(served, "orders", limit="5")
    assert offsets(found) == [(2, 19), (1, 19), (0, 19), (2, 18), (1, 18)]
    assert [one["end_offset"] for one in found["scanned"]] == [20, 20, 20]
    assert [one["start_offset"] for one in found["scanned"]] == [19, 18, 18]
    assert not found["is_complete"]


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_continue_shows_every_record_once(served, order: str):
    seen, at, looks = [], "", 0
    while looks == 0 or at:
        found = records_of(served, "orders", order=order, limit="7", at=at)
        seen += [row["timestamp_ms"] for row in found["records"]]
        at, looks = found["continue_at"], looks + 1
    assert seen == sorted(set(seen), reverse=order == "newest")
    assert len(seen) == 60
    assert looks <= 10


def test_states_of_transactions(served):
    found = records_of(served, "transactions", order="oldest")
    assert [(row["offset"], row["state"]) for row in found["records"]] == [
        (0, "outside"),
        (1, "committed"),
        (3, "aborted"),
        (5, "outside"),
        (6, "open"),
        (7, "committed"),
    ]
    backwards = records_of(served, "transactions")
    assert backwards["records"] == found["records"][::-1]


def test_read_committed_shows_what_such_a_consumer_reads(served):
    found = records_of(served, "transactions", order="oldest", isolation="read_committed")
    assert [row["offset"] for row in found["records"]] == [0, 1, 5]
    assert found["is_complete"]
    newest = records_of(served, "transactions", isolation="read_committed")
    assert newest["records"] == found["records"][::-1]


def test_a_marker_that_is_far_away_leaves_only_that_a_transaction_has_ended(served):
    states = {}
    for offset in ("0", "1"):
        page = page_of(served, "record", topic="ended", partition="0", offset=offset)
        states[offset] = page.sections[0].document.state
        assert page.requests["DescribeProducers"] == 1
    assert states == {"0": "open", "1": "ended"}
    batches = page_of(served, "batches", topic="ended", partition="0", limit="2")
    assert [row.state for row in batches.sections[0].document["batches"]] == ["open", "committed"]


def test_an_open_transaction_is_told_of(served):
    text = text_of(page_of(served, "records", topic="transactions"))
    assert "consumers of read_committed stop at offset 6 of 9" in text
    assert "scanned transactions-0 0 to 8" in text


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("topic", ["empty", "trimmed"])
def test_empty_and_trimmed_topics_answer_at_once(served, topic: str, order: str):
    began = time.monotonic()
    found = records_of(served, topic, order=order, seconds="20")
    assert time.monotonic() - began < 20, "it waited for records that are not there"
    expected = {"empty": [], "trimmed": [15, 16, 17, 18, 19]}[topic]
    assert sorted(row["offset"] for row in found["records"]) == expected
    assert found["is_complete"]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"from_": "18"}, {18, 19}),
        ({"from_": "latest-3"}, {17, 18, 19}),
        ({"to": "2"}, {0, 1}),
        ({"from_": "5", "to": "7"}, {5, 6}),
        ({"from_": "99"}, set()),
        ({"from_": "7", "to": "5"}, set()),
        ({"from_": "2023-11-14T22:14:11Z"}, {17, 18, 19}),
        ({"from_": "2023-11-14T22:14:11+00:00", "to": "2023-11-14 22:14:16"}, {17, 18}),
        ({"from_": "2999-01-01"}, set()),
    ],
)
@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_bounds(served, bounds: dict[str, str], expected: set[int], order: str):
    found = records_of(served, "orders", partitions="0", order=order, **bounds)
    assert {row["offset"] for row in found["records"]} == expected
    (scanned,) = found["scanned"]
    assert (scanned["end_offset"] - scanned["start_offset"]) == len(expected)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("from", "yesterday", "ISO 8601"),
        ("from", "latest+1", "ISO 8601"),
        ("from", "9" * 20, "ISO 8601"),
        ("to", "-1", "ISO 8601"),
        ("partitions", "3", "partitions 0 to 2"),
        ("partitions", "1-", "0,2,5-7"),
        ("partitions", "2-1", "0,2,5-7"),
        ("partitions", "0-999999999", "0,2,5-7"),
        ("limit", "1001", "1 to 1000"),
        ("order", "sideways", "newest, oldest"),
        ("at", "0:1,x", "PARTITION:OFFSET"),
        ("key", "rot13", "utf-8"),
        ("seconds", "21", "1 to 20"),
    ],
)
def test_what_cannot_be_asked_for_says_what_can(served, key: str, value: str, allowed: str):
    with pytest.raises(BadQuery, match=f"^{key}=.*{re.escape(allowed)}"):
        records_of(served, "orders", **{key: value})


def test_a_small_budget_ends_a_look_and_goes_on(served):
    found = records_of(served, "orders", order="oldest", limit="1000", bytes="1", partitions="0,1")
    assert found["continue_at"]
    assert 0 < len(found["records"]) < 40
    page = page_of(served, "records", topic="orders", order="oldest", bytes="1", partitions="0,1")
    assert page.more is not None and "bytes=1" in page.more
    sentences = [one.text for one in page.sections[0].sentences]
    assert any("limit of bytes or time" in one for one in sentences)


def test_hostile_records_are_text(served):
    page = page_of(served, "records", topic="odd")
    shown = document(page, "/topics/odd/records", STANDING)
    assert "<script>alert" not in shown and "<b>" not in shown
    assert "\x1b" not in text_of(page)
    rows = document_of(page)["sections"][0]["document"]["records"]
    assert rows[0]["value"]["text"] is None, "a tombstone"
    assert (rows[1]["value"]["as_"], rows[1]["value"]["text"]) == ("hex", "00000100")
    assert rows[3]["value"]["is_cut"] and len(rows[3]["value"]["text"]) == 4096
    assert len(shown) < 60_000, "a large value is cut in a list"


def test_one_record_is_shown_whole(served):
    page = page_of(served, "record", topic="odd", partition="0", offset="0")
    text = text_of(page)
    assert f"{LARGE_BYTES} bytes, shown as utf-8" in text
    assert "x" * LARGE_BYTES in text
    found = page_of(served, "record", topic="orders", partition="1", offset="2")
    assert '"customer": {\n    "name"' in text_of(found)
    assert found.sections[0].document.headers[0].name == "source"


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "why"),
    [
        ("orders", "0", "20", "its offsets are 0 to 19"),
        ("trimmed", "0", "3", "its offsets are 15 to 19"),
        ("empty", "0", "0", "its offsets are none"),
        ("transactions", "0", "2", "a marker of a transaction"),
        ("orders", "3", "0", "no partition 3"),
        ("absent", "0", "0", "no topic 'absent'"),
    ],
)
def test_a_record_that_is_not_there(served, topic: str, partition: str, offset: str, why: str):
    with pytest.raises(NotThere, match=why):
        page_of(served, "record", topic=topic, partition=partition, offset=offset)


def test_downloads_are_files_of_the_bytes(served):
    testclient = pytest.importorskip("starlette.testclient")
    host = "127.0.0.1:8093"
    session = Session(ClientConfig(bootstrap_servers=served))
    with testclient.TestClient(
        application(session, frozenset({host})), base_url=f"http://{host}"
    ) as client:
        answer = client.get("/topics/odd/records/0/1/value")
        assert answer.content == HOSTILE
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"] == 'attachment; filename="odd-0-1.value"'
        for path, status in (("0/3/value", 404), ("0/9/key", 404), ("0/1/other", 400)):
            assert client.get(f"/topics/odd/records/{path}").status_code == status
        assert client.get("/topics/orders/records?limit=1").status_code == 200


def test_batches_say_how_records_came_into_the_log(served):
    page = page_of(served, "batches", topic="transactions", partition="0")
    rows = page.sections[0].document["batches"]
    assert [(row.base_offset, row.state, row.control) for row in rows] == [
        (0, "outside", None),
        (1, "committed", None),
        (2, "control", "COMMIT (coordinator epoch 0)"),
        (3, "aborted", None),
        (4, "control", "ABORT (coordinator epoch 0)"),
        (5, "outside", None),
        (6, "open", None),
        (7, "committed", None),
        (8, "control", "COMMIT (coordinator epoch 0)"),
    ]
    assert all(row.is_crc_right and row.partition_leader_epoch == 0 for row in rows)
    assert rows[1].producer_id == rows[3].producer_id != rows[6].producer_id


def test_batches_come_in_parts_and_as_bytes(served):
    page = page_of(served, "batches", topic="transactions", partition="0", limit="2", hex="100")
    assert page.more == "/topics/transactions/batches/0?offset=2&limit=2"
    assert "00000000  00 00 00 00 00 00 00 00 " in text_of(page), "the base offset is 0"
    none = page_of(served, "batches", topic="empty", partition="1")
    assert "No batch from offset 0 on: empty-1 ends at 0." in text_of(none)
    with pytest.raises(NotThere, match="no partition 7"):
        page_of(served, "batches", topic="empty", partition="7")


def test_a_filter_is_searched_for_in_all_partitions(served):
    found = records_of(served, "orders", filter='value.customer.name = "c3"', order="oldest")
    ids = [json.loads(row["value"]["text"])["id"] for row in found["records"]]
    assert ids == [number for number in range(60) if number % 7 == 3]
    assert found["is_complete"]
    newest = records_of(served, "orders", filter="offset = 0 and partition = 1")
    assert offsets(newest) == [(1, 0)]
    with pytest.raises(BadQuery, match=r"filter=.*at character 9"):
        records_of(served, "orders", filter="offset == 1")


def test_a_search_that_costs_too_much_goes_on_later(served, monkeypatch):
    monkeypatch.setattr(filter_subject.Steps.__init__, "__defaults__", (25,))
    seen, at = [], "0:0"
    for _ in range(100):
        asked = {"filter": 'value contains "c3"', "order": "oldest", "partitions": "0", "at": at}
        found = records_of(served, "orders", **asked)
        seen += [row["offset"] for row in found["records"]]
        at = found["continue_at"]
        if not at:
            break
    assert seen == [number // 3 for number in range(0, 60, 3) if number % 7 == 3]
    assert at is None


def test_a_dead_letter_links_to_its_origin(served):
    page = page_of(served, "records", topic="letters")
    shown = document(page, "/topics/letters/records", STANDING)
    assert '<a href="/topics/orders/records/1/7">orders-1 at 7</a>' in shown
    one = page_of(served, "record", topic="letters", partition="0", offset="0")
    assert "A dead letter (share group) of orders-1 at 7: rejected" in text_of(one)
    assert "dead letter of" not in text_of(page_of(served, "records", topic="orders", limit="1"))


def test_every_page_of_records_costs_few_requests(served):
    asked = {"topic": "orders"}
    for name, more in (
        ("records", {}),
        ("batches", {"partition": "0"}),
        ("record", {"offset": "3"}),
    ):
        asked |= more
        page = page_of(served, name, **asked)
        assert page.requests["ListOffsets"] == 2, "where the logs begin, and where they end"
        assert page.requests["Fetch"] == 1
        assert sum(page.requests.values()) == 4, "and Metadata, at first"
