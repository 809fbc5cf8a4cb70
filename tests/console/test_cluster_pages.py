"""Quorum, transactions, configs, brokers and reassignments of three real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.client.admin import Admin, ConfigChange
from fencepost.client.client_quotas import ClientQuotaEntity, altering_client_quotas
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.testing import Cluster

from ..waiting import eventually
from .looking import documents, in_session, look_at, page_of, sentences

from fencepost.console.asked import BadQuery, NotThere  # isort: skip
from fencepost.console.page import Drawing, Matrix, Text  # isort: skip
from fencepost.console.session import Session  # isort: skip

TOPIC, BROKER, GROUP = 2, 4, 32
ID = "pay/<b>ments"
"""A transactional id may be any text."""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(3) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            admin = Admin(client)
            admin.create_topic("orders", assignments={0: [1, 2], 1: [2, 3]})
            admin.wait_for_topic("orders")
            admin.alter_configs(TOPIC, "orders", [ConfigChange("retention.ms", "86400000")])
            admin.alter_configs(BROKER, "2", [ConfigChange("log.cleaner.threads", "2")])
            admin.alter_configs(
                GROUP, "shop", [ConfigChange("consumer.session.timeout.ms", "50000")]
            )
            quotas = {ClientQuotaEntity.of({"user": None}): {"producer_byte_rate": 1e6}}
            client.run(altering_client_quotas(client, quotas))
        yield cluster.bootstrap_servers


def test_quorum_names_leader_voters_and_features(bootstrap: str):
    page = look_at(bootstrap, "quorum")
    assert dict(page.requests) == {"DescribeQuorum": 1, "ApiVersions": 1}
    quorum, elections, features = documents(page)
    roles = sorted(one["role"] for one in quorum["replicas"])
    assert roles == ["leader", "observer", "observer", "observer"]
    assert "There is one voter: without it nothing can be committed." in sentences(page)
    assert elections == []
    version = next(one for one in features if one["name"] == "metadata.version")
    assert version["level"] <= version["max_level"]
    assert f"metadata.version is {version['level']}" in " ".join(sentences(page))


def test_an_open_transaction_is_listed_described_drawn_and_released_by_a_command(bootstrap: str):
    with Client(bootstrap, transactional_id=ID) as client:
        producer = Producer(client)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"open", partition=0)
        producer.flush()
        listed = look_at(bootstrap, "transactions", state="Ongoing", explain="orders")
        *explained, listing = documents(listed)
        assert [one["transactional_id"] for one in listing] == [ID]
        assert explained[0]["verdict"] == "ongoing"
        held = listed.sections[0]
        (drawing,) = (one for one in held.blocks if isinstance(one, Drawing))
        assert "style" not in drawing.svg and "<b>" not in drawing.svg
        assert any("#" in line for line in drawing.lines)
        (release,) = (one for one in held.blocks if isinstance(one, Text))
        assert release.text == f"fencepost transactions force-terminate '{ID}'"
        one = look_at(bootstrap, "transaction", id=ID)
        assert documents(one)[0]["state"] == "Ongoing"
        assert documents(one)[1]["partition"] == "orders:0"
        producer.abort_transaction()

    def is_over() -> bool:
        page = look_at(bootstrap, "transaction", id=ID)
        return bool(documents(page)[0]["state"] == "CompleteAbort") and len(page.sections) == 1

    eventually(is_over, "the transaction is aborted")
    free = look_at(bootstrap, "transactions", explain="orders:0")
    assert "orders-0: nothing is held, readers reach offset 2" in sentences(free)


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("transactions", {"state": "ongoing"}, BadQuery),
        ("transactions", {"explain": "orders:x"}, BadQuery),
        ("transactions", {"explain": "orders:9"}, NotThere),
        ("transactions", {"explain": "absent"}, NotThere),
        ("transaction", {"id": "absent"}, NotThere),
        ("configs", {"topic": "absent"}, NotThere),
        ("configs", {"show": "secrets"}, BadQuery),
        ("broker", {"broker": "9"}, NotThere),
        ("broker", {"broker": "-1"}, BadQuery),
        ("reassignments", {"rows": "0"}, BadQuery),
        ("changes", {"since": "yesterday"}, BadQuery),
        ("overview", {"since": "1s"}, BadQuery),
    ],
)
def test_what_cannot_be_shown_says_why(bootstrap, name, values, error):
    with pytest.raises(error):
        look_at(bootstrap, name, **values)


def test_brokers_configs_are_beside_each_other(bootstrap: str):
    page = look_at(bootstrap, "configs")
    (matrix,) = page.sections[0].blocks
    assert isinstance(matrix, Matrix)
    assert list(matrix.heads) == ["broker 1", "broker 2", "broker 3", "default"]
    shown = {row.name: row for row in matrix.rows}
    threads = [cell and cell.text for cell in shown["log.cleaner.threads"].cells]
    assert threads == ["1", "2", "1", "1"]
    assert shown["log.cleaner.threads"].level == "warning"
    assert shown["node.id"].level is None, "every broker has its own"
    assert "Brokers differ in log.cleaner.threads" in " ".join(sentences(page))
    every = look_at(bootstrap, "configs", show="all", filter="cleaner")
    assert {"log.cleaner.threads", "log.cleaner.enable"} <= {
        one["name"] for one in documents(every)[0]
    }
    assert [one["group"] for one in documents(page)[1]] == ["shop"]


def test_configs_of_a_topic_and_of_a_group_are_held_against_defaults(bootstrap: str):
    page = look_at(bootstrap, "configs", topic="orders")
    (own,) = (one for one in documents(page)[0] if one["source"] == "topic")
    assert own == {
        "name": "retention.ms",
        "value": "86400000",
        "source": "topic",
        "inherited": "log.retention.hours=168",
        "default": "log.retention.hours=168",
        "read_only": False,
        "sensitive": False,
        "is_default": False,
    }
    (text,) = (one for one in page.sections[0].blocks if isinstance(one, Text))
    assert text.text == "retention.ms=86400000"
    group = look_at(bootstrap, "configs", group="shop", filter="session")
    found = {one["name"]: one for one in documents(group)[0]}
    assert found["consumer.session.timeout.ms"]["value"] == "50000"
    assert found["consumer.session.timeout.ms"]["default"].endswith("45000")


def test_brokers_are_listed_of_the_sample_and_shown_one_by_one(bootstrap: str):
    listed = look_at(bootstrap, "brokers", order="leads")
    assert dict(listed.requests) == {}
    assert {one["broker"] for one in documents(listed)[0]} == {1, 2, 3}
    page = look_at(bootstrap, "broker", broker="2")
    assert sum(page.requests.values()) == 3
    about, dirs, features, quotas = documents(page)
    assert about["replicas"] >= 2
    assert dirs["log_dirs"][0]["path"] and dirs["replicas"] >= 2
    assert any(one["name"] == "metadata.version" for one in features)
    assert quotas == {"every other user": {"producer_byte_rate": 1e6}}


def test_a_move_is_shown_with_its_progress_and_as_a_change(bootstrap: str):
    where = TopicPartition("orders", 1)

    async def look(session: Session) -> None:
        await session.sample()
        with Client(bootstrap) as client:
            admin = Admin(client)
            admin.alter_reassignments({where: [2, 1]})
            page = await page_of(session, "reassignments")
            for one in documents(page)[0]:
                assert (one["partition"], one["adding"], one["removing"]) == (1, [1], [3])
            eventually(lambda: not admin.list_reassignments(), "the move is over")
        session.sampler.look()
        page = await page_of(session, "changes", since="start", filter="orders-1")
        assert "orders-1 is on brokers 2, 1 (before: 2, 3)" in [
            one["text"] for one in documents(page)[0]
        ]
        overview = await page_of(session, "overview", since="start")
        assert "orders-1 is on brokers 2, 1 (before: 2, 3)" in sentences(overview)

    in_session(bootstrap, look)
    assert sentences(look_at(bootstrap, "reassignments"))[0] == "Nothing moves."


def test_a_sample_on_disk_is_compared_by_the_command(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    cluster = ["-b", bootstrap]
    assert main(["console", "--once", "sample", "--json", *cluster]) == 0
    old = tmp_path / "old.json"
    old.write_text(capsys.readouterr().out)
    with Client(bootstrap) as client:
        Admin(client).create_topic("later", 1, 1)
    assert main(["console", "--diff", f"{old}", *cluster]) == 0
    assert "topic  later" in capsys.readouterr().out
    old.write_text(old.read_text()[:500])
    assert main(["console", "--diff", f"{old}", *cluster]) == 1
    assert f"{old}: not a page" in capsys.readouterr().err
    assert main(["console", "--diff", f"{old}", "--once", "topics", *cluster]) == 2
