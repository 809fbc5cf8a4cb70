"""Pages of groups: of every type, who waits, epochs, lag, and what a lag consists of."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.consumer import Consumer
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.producer import Producer
from fencepost.client.share_consumer import ShareConsumer
from fencepost.client.share_records import AcknowledgeType, ShareRecord
from fencepost.client.unread import Unread, finding_unread
from fencepost.testing import Cluster

from ..waiting import eventually

pytestmark = pytest.mark.slow


# A member hears of its group's changes with the next heartbeat.
QUICK = {
    f"group.{kind}.{bound}heartbeat.interval.ms": 100
    for kind in ("consumer", "share")
    for bound in ("min.", "")
}


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with Cluster(config=QUICK) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def topic(served: str) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Client(served) as client:
        Admin(client).create_topic(name, 2, 1)
        Admin(client).wait_for_topic(name)
    return name


def produce(served: str, topic: str, records: int) -> None:
    with Client(served) as client, Producer(client) as producer:
        for number in range(records):
            producer.send(topic, b"%d" % number, partition=0)


def produce_in_transaction(served: str, topic: str, records: int) -> None:
    settings: dict[str, Any] = {"transactional_id": f"x-{topic}"}
    with Client(served, **settings) as client, Producer(client) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(records):
            producer.send(topic, b"%d" % number, partition=0)
        producer.commit_transaction()


def commit(served: str, group: str, topic: str, offset: int) -> None:
    with Client(served) as client:
        where = TopicPartition(topic, 0)
        Admin(client).alter_group_offsets(group, {where: CommittedOffset(offset)})


def section(document, heading: str):
    return next(one for one in document["sections"] if one["heading"] == heading)


def test_an_empty_group_with_a_lag_is_worth_a_warning(served: str, topic: str, browse):
    produce(served, topic, 5)
    commit(served, "behind", topic, 2)
    document = browse(served).get("/api/groups/behind").json()
    lag = section(document, "Lag")
    assert lag["sentences"][0]["text"] == (
        "The group is 3 offsets behind in 1 partition, and has no members."
    )
    assert lag["sentences"][0]["level"] == "warning"
    (row,) = lag["document"]["partitions"]
    assert (row["offset"], row["end"], row["lag"]) == (2, 5, 3)
    assert row["behind"].endswith(" s")
    page = browse(served).get("/groups/behind").text
    (link,) = re.findall(r'href="(/topics/[^"]*/records[^"]*)"', page)
    records = browse(served).get("/api" + unescape(link)).json()
    offsets = [int(number) for number in re.findall(r'"offset": ?(\d+)', json.dumps(records))]
    assert min(offsets) == 2, "the link leads to the first unread record"


def test_behind_control_batches_alone_every_record_is_read(served: str, topic: str, browse):
    produce_in_transaction(served, topic, 3)
    commit(served, f"g-{topic}", topic, 3)
    document = browse(served).get(f"/api/groups/g-{topic}").json()
    (sentence,) = section(document, "Lag")["sentences"]
    assert "has read every record" in sentence["text"]
    assert sentence["level"] == "good"
    assert section(document, "Lag")["document"]["partitions"][0]["lag"] == 1
    commit(served, f"g-{topic}", topic, 2)
    behind = browse(served).get(f"/api/groups/g-{topic}").json()
    assert section(behind, "Lag")["sentences"][0]["level"] == "warning"


def test_unread_records_and_control_batches_are_told_apart(served: str, topic: str):
    produce_in_transaction(served, topic, 3)
    where = TopicPartition(topic, 0)
    with Client(served) as client:
        first = client.run(finding_unread(client, {where: 0}))[where]
        assert first.timestamp_ms is not None and first.timestamp_ms > 1_600_000_000_000
        assert client.run(finding_unread(client, {where: 2}))[where] == first
        for offset in (3, 4):
            assert client.run(finding_unread(client, {where: offset}))[where] == Unread(None)


def test_members_of_a_consumer_group_stand_on_its_epochs(served: str, topic: str, browse):
    produce(served, topic, 2)
    group = f"g-{topic}"
    with (
        Client(served, group_id=group, group_protocol="consumer") as client,
        Consumer(client, [topic]) as consumer,
    ):
        eventually(lambda: consumer.poll(100) is not None and len(consumer.assignment) == 2)
        page = browse(served).get(f"/api/groups/{group}").json()
        text = browse(served).get(f"/groups/{group}").text
    epochs = section(page, "Epochs")
    assert len(epochs["document"]) == 1
    assert epochs["sentences"][0]["level"] == "good"
    (member,) = section(page, "Members")["document"]
    assert sorted(member["partitions"]) == [f"{topic}-0", f"{topic}-1"]
    assert "no member waits" in " ".join(one["text"] for one in section(page, "State")["sentences"])
    assert "<svg" in text and "style=" not in text, "the content security policy lets no styles in"


def test_a_group_without_offsets_is_not_said_to_have_read(served: str, topic: str, browse):
    group = f"g-{topic}"
    settings: dict[str, Any] = {"group_id": group, "auto_offset_reset": "earliest"}
    with Client(served, **settings) as client, Consumer(client, [topic]) as consumer:
        eventually(lambda: consumer.poll(100) is not None and len(consumer.assignment) == 2)
        page = browse(served).get(f"/api/groups/{group}").json()
    (sentence,) = section(page, "Lag")["sentences"]
    assert sentence["text"] == "Of 2 partitions the group has committed no offset yet."
    assert sentence["level"] == "note"


def test_a_share_group_has_its_members_and_offsets(served: str, topic: str, browse):
    group = f"s-{topic}"
    console = browse(served)
    with Client(served, group_id=group) as client, ShareConsumer(client, [topic]) as consumer:

        def described() -> dict[str, object]:
            consumer.poll(100)
            document = console.get(f"/api/groups/{group}").json()
            members = section(document, "Members")["document"] if "sections" in document else []
            return document if members and len(members[0]["partitions"]) == 2 else {}

        document = eventually(described, "the member has its partitions")
    assert "type share" in section(document, "State")["sentences"][0]["text"]
    rows = section(document, "Lag")["document"]["partitions"]
    assert [row["partition"] for row in rows] == [0, 1]


def test_a_share_group_is_drawn_from_its_start_to_the_end_of_the_log(
    served: str, topic: str, browse
):
    """Of five records the second and third are acknowledged: they are settled behind the start."""
    group = f"s-{topic}"
    produce(served, topic, 5)
    console = browse(served)
    settings: dict[str, Any] = {"group_id": group, "share_acknowledgement_mode": "explicit"}
    with Client(served, **settings) as client:
        Admin(client).alter_share_group_offsets(group, {TopicPartition(topic, 0): 0})
        with ShareConsumer(client, [topic]) as consumer:
            polled: list[ShareRecord] = []

            def is_polled() -> bool:
                polled.extend(consumer.poll(100))
                return len(polled) == 5

            eventually(is_polled, "all records are handed out")
            for record in polled:
                is_read = record.offset in (1, 2)
                kind = AcknowledgeType.ACCEPT if is_read else AcknowledgeType.RELEASE
                consumer.acknowledge(record, kind)
            consumer.commit_sync()

            def row() -> Any:
                document = console.get(f"/api/groups/{group}").json()
                (found,) = (
                    one
                    for one in section(document, "Lag")["document"]["partitions"]
                    if one["partition"] == 0
                )
                return found

            eventually(lambda: row()["settled"] == 2, "what is acknowledged is settled")
            assert (row()["start_offset"], row()["end"], row()["lag"]) == (0, 5, 3)
            text = console.get(f"/groups/{group}").text
    assert "start 0, end 5: 2 settled, 3 not" in text
    assert 'class="settled"' in text and "style=" not in text


def test_a_page_of_a_group_costs_few_requests(served: str, topic: str, browse):
    """Once the sample has the group's type and its coordinator is known."""
    produce(served, topic, 3)
    group = f"g-{topic}"
    settings: dict[str, Any] = {"group_id": group, "group_protocol": "consumer"}
    console = browse(served, interval_s=0.05)
    with Client(served, **settings) as client, Consumer(client, [topic]) as consumer:
        eventually(lambda: consumer.poll(100) is not None and len(consumer.assignment) == 2)
        consumer.commit({TopicPartition(topic, 0): CommittedOffset(1)})
        listed = f"/api/groups?filter={topic}&type=consumer"
        eventually(
            lambda: console.get(listed).json()["sections"][0]["document"], "the sample has it"
        )
        assert console.get(listed).json()["requests"] == {}
        console.get(f"/api/groups/{group}")
        document = console.get(f"/api/groups/{group}").json()
    assert document["requests"] == {
        "ConsumerGroupDescribe": 1,
        "OffsetFetch": 1,
        "Metadata": 1,
        "ListOffsets": 1,
        "Fetch": 1,
    }


def test_lag_is_kept_from_the_first_look_on(served: str, topic: str, browse):
    commit(served, f"g-{topic}", topic, 0)
    console = browse(served, interval_s=0.05)
    path = f"/api/groups/g-{topic}"

    def points() -> list[int]:
        return [one["value"] for one in section(console.get(path).json(), "Lag")["document"]["lag"]]

    eventually(lambda: len(points()) > 3, "looks are kept")
    produce(served, topic, 4)
    eventually(lambda: 4 in points()[:-1], "a look in the background saw the lag")
    assert "over time" in console.get(f"/groups/g-{topic}").text


@pytest.mark.parametrize("name", ["absent", "%00", "a%20b", "%3Cscript%3E", "x" * 300])
def test_a_group_that_is_not_there(served: str, name: str, browse):
    assert browse(served).get(f"/api/groups/{name}").status_code == 404


def test_groups_are_listed_by_type_and_state(served: str, topic: str, browse):
    commit(served, f"g-{topic}", topic, 0)
    console = browse(served, interval_s=0.05)

    def names(query: str) -> list[str]:
        document = console.get(f"/api/groups?filter={topic}&{query}").json()
        return [row["group_id"] for row in document["sections"][0]["document"]]

    eventually(lambda: names("type=any") == [f"g-{topic}"], "the sample has the group")
    assert names("type=share") == []
    assert names("state=Empty") == [f"g-{topic}"]
    assert names("state=Stable") == []
    assert console.get("/api/groups?type=<b>").status_code == 400
