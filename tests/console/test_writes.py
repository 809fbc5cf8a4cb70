"""Changes through the console: absent unless allowed, shown first, confirmed, audited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.config import ClientConfig
from fencepost.client.consumer import Consumer
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.producer import Producer
from fencepost.testing import Cluster
from tests.console.forms import hidden_values, shown

testclient = pytest.importorskip("starlette.testclient")

from fencepost.console.session import Options, Session  # noqa: E402
from fencepost.console.web.application import application  # noqa: E402
from fencepost.console.writes.table import WRITES  # noqa: E402

HOST = "127.0.0.1:8093"


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with Cluster(faults=False) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            Admin(client).create_topic("orders", 2, 1)
            with Producer(client) as producer:
                for number in range(10):
                    producer.send("orders", b"%d" % number, partition=0)
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def browser(served: str) -> Iterator[Any]:
    session = Session(ClientConfig(bootstrap_servers=served), Options(allow_writes=True))
    made = application(session, frozenset({HOST}))
    with testclient.TestClient(made, base_url=f"http://{HOST}") as client:
        yield client


@pytest.fixture
def admin(served: str) -> Iterator[Admin]:
    with Client(served) as client:
        yield Admin(client)


def audit_lines(text: str) -> list[dict[str, Any]]:
    mark = "fencepost console: audit: "
    return [
        json.loads(line.removeprefix(mark)) for line in text.splitlines() if line.startswith(mark)
    ]


def test_without_the_option_there_are_no_routes_of_changes(served):
    session = Session(ClientConfig(bootstrap_servers=served))
    made = application(session, frozenset({HOST}))
    with testclient.TestClient(made, base_url=f"http://{HOST}") as client:
        assert client.get("/writes").status_code == 404
        assert "/writes" not in client.get("/").text
        for kind in WRITES:
            assert client.get(f"/writes/{kind.name}").status_code == 404
            assert client.post(f"/writes/{kind.name}").status_code == 404


def test_with_it_each_is_listed_and_asks_for_its_values(browser):
    listing = browser.get("/writes").text
    for kind in WRITES:
        assert f'href="/writes/{kind.name}"' in listing
        text = browser.get(f"/writes/{kind.name}").text
        assert all(f'name="{field.name}"' in text for field in kind.fields)
        assert "What would change" not in text


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"csrf": "x"}, 403),
        ({"csrf": ""}, 403),
        ({"typed": "order"}, 409),
        ({"typed": ""}, 409),
        ({"digest": "0" * 64}, 409),
        ({"topic": "absent"}, 409),
        ({"configs": "retention.ms=1"}, 409),
    ],
)
def test_what_was_not_confirmed_is_not_done(browser, admin, capsys, change, status):
    _, form = shown(browser, "create-topic", topic="unconfirmed", partitions="2")
    answer = browser.post("/writes/create-topic", data={**form, "typed": "unconfirmed", **change})
    assert answer.status_code == status
    assert "unconfirmed" not in [topic.name for topic in admin.list_topics()]
    (line,) = audit_lines(capsys.readouterr().err)
    assert line["what"] == "create-topic"
    assert line["result"].startswith("refused")


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Content-Type": "application/json"}, b"{}", 403),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x--", 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"\xff=%ff", 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=1&" * 60, 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=1&a=2", 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"a" * 200_000, 413),
        ({"Origin": "http://evil.example"}, b"", 403),
        ({"Sec-Fetch-Site": "same-site"}, b"", 403),
    ],
)
def test_forms_that_are_none_are_refused(browser, headers, body, status):
    answer = browser.post("/writes/delete-topic", content=body, headers=headers)
    assert answer.status_code == status


def test_a_topic_is_created_altered_and_deleted(browser, admin, capsys):
    values = {"topic": "fresh", "partitions": "3", "configs": "retention.ms=60000"}
    text, form = shown(browser, "create-topic", **values)
    assert "+ topic fresh: 3 partitions, 1 replica each" in text
    assert "+ retention.ms=60000" in text
    answer = browser.post("/writes/create-topic", data={**form, "typed": "fresh"})
    assert (answer.status_code, "was created" in answer.text) == (200, True)
    assert len(admin.describe_topic("fresh").partitions) == 3

    text, form = shown(browser, "alter-configs", topic="fresh", set="retention.ms=70000")
    assert "- retention.ms=60000" in text
    assert "+ retention.ms=70000" in text
    assert browser.post("/writes/alter-configs", data={**form, "typed": "fresh"}).status_code == 200
    text, form = shown(browser, "alter-configs", topic="fresh", delete="retention.ms")
    assert "- retention.ms=70000" in text

    text, form = shown(browser, "delete-topic", topic="fresh")
    assert "- topic fresh: 3 partitions, 0 offsets" in text
    answer = browser.post("/writes/delete-topic", data={**form, "typed": "fresh"})
    assert answer.status_code == 200
    assert "fresh" not in [topic.name for topic in admin.list_topics()]
    lines = audit_lines(capsys.readouterr().err)
    assert [(line["what"], line["target"], line["result"]) for line in lines] == [
        ("create-topic", "fresh", "done"),
        ("alter-configs", "fresh", "done"),
        ("delete-topic", "fresh", "done"),
    ]
    assert all(line["who"] == "testclient" for line in lines)


def test_offsets_are_set_of_groups_without_members(browser, admin, served):
    group, where = "billing", TopicPartition("orders", 0)
    admin.alter_group_offsets(group, {where: CommittedOffset(4)})
    values = {"group": group, "topic": "orders", "partition": "0", "to": "7"}
    text, form = shown(browser, "reset-offsets", **values)
    assert "- orders-0: offset 4" in text
    assert "+ orders-0: offset 7" in text
    answer = browser.post("/writes/reset-offsets", data={**form, "typed": group})
    assert answer.status_code == 200
    assert admin.group_offsets(group)[where].offset == 7
    beyond = {**values, "to": "99"}
    assert "+ orders-0: offset 10" in shown(browser, "reset-offsets", **beyond)[0]
    again = browser.get("/writes/reset-offsets", params=values)
    assert (again.status_code, "is where it would be" in again.text) == (409, True)
    bad = browser.get("/writes/reset-offsets", params={**values, "to": "soon"})
    assert (bad.status_code, "must be earliest" in bad.text) == (400, True)


def test_offsets_of_a_group_with_members_are_not_set(browser, served):
    with (
        Client(config=ClientConfig(bootstrap_servers=served, group_id="busy")) as client,
        Consumer(client, ["orders"]) as consumer,
    ):
        consumer.poll(1_000)
        values = {"group": "busy", "topic": "orders", "to": "earliest"}
        answer = browser.get("/writes/reset-offsets", params=values)
    assert (answer.status_code, "has 1 member" in answer.text) == (409, True)


def test_offsets_that_moved_since_they_were_shown_are_not_set(browser, admin):
    group, where = "moving", TopicPartition("orders", 0)
    admin.alter_group_offsets(group, {where: CommittedOffset(1)})
    values = {"group": group, "topic": "orders", "partition": "0", "to": "latest"}
    _, form = shown(browser, "reset-offsets", **values)
    admin.alter_group_offsets(group, {where: CommittedOffset(2)})
    answer = browser.post("/writes/reset-offsets", data={**form, "typed": group})
    assert answer.status_code == 409
    assert "- orders-0: offset 2" in answer.text, "what it would be now is shown"
    assert admin.group_offsets(group)[where].offset == 2
    form = hidden_values(answer.text)
    assert browser.post("/writes/reset-offsets", data={**form, "typed": group}).status_code == 200


def test_a_record_is_produced_and_its_value_is_in_no_log(browser, capsys):
    values = {"topic": "orders", "partition": "1", "key": "k", "value": "se\r\ncret <b>"}
    text, form = shown(browser, "produce", **values)
    assert "&lt;b&gt;" in text
    assert "1 request to the cluster (Metadata 1)" in text, "what the plan cost is said"
    answer = browser.post("/writes/produce", data={**form, "typed": "orders"})
    assert answer.status_code == 200
    assert "The record is in partition 1 of topic orders at offset 0." in answer.text
    (line,) = audit_lines(capsys.readouterr().err)
    assert line["values"] == {"partition": 1, "value_bytes": 11}
    row = browser.get("/api/topics/orders/records/1/0")
    assert row.status_code == 200
    assert "se\\ncret <b>" in row.text


@pytest.mark.parametrize("values", [{"key": "k1"}, {"key": "k2"}, {"key": "k5"}, {}])
def test_where_a_record_went_is_said_and_audited(browser, admin, served, capsys, values):
    topic = f"somewhere-{values.get('key', 'any')}"
    admin.create_topic(topic, 3, 1)
    admin.wait_for_topic(topic)
    _, form = shown(browser, "produce", topic=topic, value="v", **values)
    answer = browser.post("/writes/produce", data={**form, "typed": topic})
    assert answer.status_code == 200, answer.text
    (line,) = audit_lines(capsys.readouterr().err)
    number = line["values"]["partition"]
    said = f"The record is in partition {number} of topic {topic} at offset 0."
    assert said in answer.text
    assert browser.get(f"/api/topics/{topic}/records/{number}/0").status_code == 200


@pytest.mark.parametrize(
    ("name", "values", "status"),
    [
        ("create-topic", {"topic": "no/slash"}, 400),
        ("create-topic", {"topic": "orders"}, 400),
        ("create-topic", {"topic": "wide", "replicas": "9"}, 400),
        ("create-topic", {"topic": "odd", "configs": "no.such.config=1"}, 400),
        ("produce", {"topic": "absent", "value": "v"}, 404),
        ("delete-topic", {"topic": "absent"}, 404),
        ("reset-offsets", {"group": "g", "topic": "absent", "to": "latest"}, 404),
    ],
)
def test_what_brokers_refuse_is_no_failure_of_theirs(browser, name, values, status):
    assert browser.get(f"/writes/{name}", params=values).status_code == status


def test_records_before_an_offset_are_deleted(browser, admin):
    for before, status in (("0", 409), ("11", 409), ("x", 400)):
        values = {"topic": "orders", "partition": "0", "before": before}
        assert browser.get("/writes/delete-records", params=values).status_code == status
    values = {"topic": "orders", "partition": "0", "before": "3"}
    text, form = shown(browser, "delete-records", **values)
    assert "begins at offset 3: 3 offsets less" in text
    answer = browser.post("/writes/delete-records", data={**form, "typed": "orders"})
    assert "begins at offset 3 now" in answer.text
