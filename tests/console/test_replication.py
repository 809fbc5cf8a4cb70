"""The matrix of replicas and the lineage of a partition: on real brokers, and logs that differ."""

from __future__ import annotations

import time
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from fencepost.client.admin import Admin, ConfigChange
from fencepost.client.cluster import Cluster as Client
from fencepost.client.lineage import ReplicaLineage
from fencepost.client.offsets import EpochSpan
from fencepost.testing import Cluster
from fencepost.views.quorum import QuorumReplicaView, QuorumView
from fencepost.views.replica_findings import replica_findings, truncation_between
from fencepost.views.replication import replicated_partition
from fencepost.views.sizes import size_text
from fencepost.wire.types import Uuid

from ..client.fake_cluster import FakeCluster, FakePartition
from ..client.records import batch
from ..waiting import eventually
from .looking import (
    STANDING,
    documents,
    in_session,
    look_at,
    page_of,
    partition_info,
    sample_of,
    sentences,
    topic_info,
)

from fencepost.console import html  # isort: skip
from fencepost.console.asked import BadQuery, NotThere  # isort: skip
from fencepost.console.lineages import PARTITIONS_KEPT, LineageMemory  # isort: skip
from fencepost.console.page import (  # isort: skip
    Cell,
    Drawing,
    Matrix,
    MatrixRow,
    Page,
    Section,
    Table,
)
from fencepost.console.pages.quorum import quorum_sentences  # isort: skip
from fencepost.console.session import Session  # isort: skip
from fencepost.console.summary import Summary, TopicHealth  # isort: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, broker_session_timeout_ms=2000) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            admin = Admin(client)
            admin.create_topic("orders", assignments={0: [1, 3], 1: [2, 3]})
            admin.alter_configs(2, "orders", [ConfigChange("min.insync.replicas", "2")])
            eventually(lambda: _in_sync(admin, "orders") == [2, 2], "replicas in sync")
        yield cluster


def _in_sync(admin: Admin, topic: str) -> list[int]:
    return [len(one.isr) for _, one in sorted(admin.describe_topic(topic).partitions.items())]


def test_matrix_has_a_cell_for_each_replica(cluster: Cluster):
    page = look_at(cluster.bootstrap_servers, "replication", details="all", filter="ord")
    (matrix,) = page.sections[0].blocks
    assert isinstance(matrix, Matrix)
    assert list(matrix.heads) == ["1", "2", "3"]
    letters = [
        [None if cell is None else cell.text.partition(" ")[0] for cell in row.cells]
        for row in matrix.rows
    ]
    assert letters == [["L*", None, "S"], [None, "L*", "S"]]
    assert matrix.rows[1].link == "/topics/orders/1"
    places = documents(page)[0][0]["replicas"]
    assert [one["state"] for one in places] == ["leader", "in sync"]
    assert all(one["log_dir"] and one["size_bytes"] is not None for one in places)


def test_details_that_cost_more_than_three_requests_are_asked_for_on_demand(cluster: Cluster):
    page = look_at(cluster.bootstrap_servers, "replication")
    assert dict(page.requests) == {"DescribeTopicPartitions": 1}
    assert any("details=all" in text for text in sentences(page))
    assert dict(look_at(cluster.bootstrap_servers, "replication", details="none").requests) == {}


@pytest.mark.parametrize(
    ("show", "rows"),
    [
        ("all", ["orders-0", "orders-1"]),
        ("at-min-isr", ["orders-0", "orders-1"]),
        ("under-replicated", []),
        ("offline", []),
        ("not-preferred", []),
    ],
)
def test_partitions_are_chosen_by_what_is_wrong(cluster: Cluster, show: str, rows: list[str]):
    page = look_at(cluster.bootstrap_servers, "replication", show=show, details="none")
    (matrix,) = page.sections[0].blocks
    assert isinstance(matrix, Matrix)
    assert [row.name for row in matrix.rows] == rows


def test_parts_follow_each_other(cluster: Cluster):
    first = look_at(cluster.bootstrap_servers, "replication", rows="1", details="none")
    assert first.more == "/replication?show=all&first=1&rows=1&details=none"
    last = look_at(cluster.bootstrap_servers, "replication", rows="1", first="1", details="none")
    assert (last.more, documents(last)[0][0]["partition"]) == (None, 1)


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("replication", {"show": "x"}, BadQuery),
        ("replication", {"first": "-1"}, BadQuery),
        ("replication", {"rows": "9" * 30}, BadQuery),
        ("replication", {"details": "<script>"}, BadQuery),
        ("partition", {"topic": "orders", "partition": "9"}, NotThere),
        ("partition", {"topic": "absent", "partition": "0"}, NotThere),
        ("partition", {"topic": "orders", "partition": "0x0"}, BadQuery),
        ("partition", {"topic": "orders", "partition": "0", "epochs": "0"}, BadQuery),
    ],
)
def test_what_cannot_be_shown_says_why(cluster, name, values, error):
    with pytest.raises(error):
        look_at(cluster.bootstrap_servers, name, **values)


def test_a_broker_that_does_not_answer_is_named_and_not_waited_for(cluster: Cluster):
    async def look(session: Session) -> None:
        await session.sample()
        cluster.pause(3)
        begun = time.monotonic()
        page = await page_of(session, "partition", topic="orders", partition="0")
        took_s = time.monotonic() - begun
        assert "broker 3 does not tell: no answer within 3 s" in sentences(page)
        assert any(text.startswith("broker 1 leads in epoch 0") for text in sentences(page))
        assert took_s < session.config.request_timeout_ms / 1000 / 2

    try:
        in_session(cluster.bootstrap_servers, look)
    finally:
        cluster.resume(3)


# -- logs that differ ------------------------------------------------------------------------------


@pytest.fixture
def diverged() -> Iterator[FakeCluster]:
    """Broker 1 leads in epoch 4; 2 lacks the end, 3 has records of an epoch that 1 never saw."""
    with FakeCluster(brokers=3) as fake:
        fake.create_topic("t")
        for node, records in {1: [3, 0, 2, 0, 2], 2: [3, 0, 2], 3: [3, 4]}.items():
            copy = fake.partition("t") if node == 1 else FakePartition(node)
            for epoch, count in enumerate(records):
                if epoch:
                    copy.elect(1)
                for _ in range(count):
                    copy.append(batch(b"x"))
            if node != 1:
                fake.partition("t").followers[node] = copy
        yield fake


def test_a_divergence_is_said_drawn_and_told_as_text(diverged: FakeCluster):
    page = look_at(diverged.bootstrap_servers, "partition", topic="t", partition="0")
    said = [(one.text, one.level) for one in page.sections[0].sentences]
    assert said[:3] == [
        ("broker 1 leads in epoch 4: offsets 0 to 7 in 3 epochs", "note"),
        ("broker 2, in sync, has the same log up to 5 and lacks the last 2 offsets", "note"),
        (
            "broker 3 has 4 records of epoch 1 (offsets 3 to 7) that leader 1 does not have;"
            " it cuts them when it follows",
            "bad",
        ),
    ]
    (drawing,) = page.sections[0].blocks
    assert isinstance(drawing, Drawing)
    assert "3 in sync  |0----|1!!!!!!!!!!|" in drawing.lines
    ElementTree.fromstring(drawing.svg)
    assert "style" not in drawing.svg, "the content security policy forbids inline styles"
    assert documents(page)[0]["epochs"]["replicas"][2]["diverges_at"] == 3


def test_brokers_without_newer_requests_leave_what_they_tell_unknown(diverged: FakeCluster):
    page = look_at(diverged.bootstrap_servers, "partition", topic="t", partition="0")
    text = " ".join(sentences(page))
    assert "Which replicas are eligible to lead is not known" in text
    assert "Where broker 2 has its log is not known" in text
    matrix = look_at(diverged.bootstrap_servers, "replication")
    assert "Which replicas are eligible to lead is not known" in " ".join(sentences(matrix))


def test_only_the_newest_epochs_are_asked_for_where_there_are_many(diverged: FakeCluster):
    page = look_at(diverged.bootstrap_servers, "partition", topic="t", partition="0", epochs="2")
    assert sentences(page)[0].endswith(
        "offsets 3 to 7 in 2 epochs, and older ones that are not shown"
    )


def test_a_truncation_between_two_looks_is_a_notch_and_a_sentence(diverged: FakeCluster):
    async def look(session: Session) -> None:
        first = await page_of(session, "partition", topic="t", partition="0")
        assert "This is the first look at it" in " ".join(sentences(first))
        copy = diverged.partition("t").followers[3]
        copy.batches[3:] = []
        copy.epochs[1:] = []
        page = await page_of(session, "partition", topic="t", partition="0")
        (cut,) = documents(page)[1]
        assert (cut["broker"], cut["offset"], cut["former_end"]) == (3, 3, 7)
        (drawing,) = page.sections[0].blocks
        assert isinstance(drawing, Drawing) and "had cut its log at offset 3" in drawing.svg
        again = await page_of(session, "partition", topic="t", partition="0")
        assert documents(again)[1] == [cut]

    in_session(diverged.bootstrap_servers, look)


# -- rules -----------------------------------------------------------------------------------------


def lineage(broker: int, *spans: tuple[int, int, int]) -> ReplicaLineage:
    return ReplicaLineage(broker, tuple(EpochSpan(*one) for one in spans))


@pytest.mark.parametrize(
    ("before", "after", "cut"),
    [
        ([(0, 0, 5)], [(0, 0, 8)], None),
        ([(0, 0, 5)], [(0, 3, 8)], None),
        ([(0, 0, 5), (1, 5, 9)], [(0, 0, 5), (1, 5, 7)], (7, 9)),
        ([(0, 0, 5), (1, 5, 9)], [(0, 0, 5), (2, 5, 9)], (5, 9)),
        ([(0, 0, 5)], [], (0, 5)),
        ([], [(0, 0, 5)], None),
    ],
)
def test_truncations_are_told_from_growth_and_retention(before, after, cut):
    found = truncation_between(lineage(1, *before), lineage(1, *after), 1_000)
    assert (None if found is None else (found.offset, found.former_end)) == cut


def test_replicas_without_a_leader_are_compared_with_the_newest_log():
    info = partition_info(0, -1, [1, 2, 3], [2])
    found = replica_findings(
        info,
        [lineage(1, (0, 0, 5)), lineage(2, (0, 0, 4), (1, 4, 6)), ReplicaLineage(3, error="no")],
    )
    assert [one.kind for one in found] == ["diverges", "leads", "unknown"]
    assert found[0].text.endswith("that broker 2 does not have"), "nothing says that it cuts them"


def test_memory_of_lineages_is_bounded():
    memory = LineageMemory()
    for number in range(PARTITIONS_KEPT + 1):
        memory.note(Uuid.ZERO, "t", number, [lineage(1, (0, 0, 5))], 1)
    assert memory.note(Uuid.ZERO, "t", 0, [], 2).looked_at_ms is None
    assert memory.note(Uuid.ZERO, "t", PARTITIONS_KEPT, [], 2).looked_at_ms == 1


def test_summary_counts_each_kind_of_trouble():
    sample = sample_of(
        [
            topic_info(
                "t",
                [
                    partition_info(0, 1, [1, 2], [1, 2]),
                    partition_info(1, 2, [1, 2], [2]),
                    partition_info(2, -1, [1, 2], []),
                    partition_info(3, -1, [], []),
                ],
            )
        ]
    )
    found = Summary.of(sample)
    assert found.troubled == {
        "under-replicated": (("t", 1), ("t", 2)),
        "offline": (("t", 2), ("t", 3)),
        "not-preferred": (("t", 1),),
    }
    assert (found.leads[1], found.replicas[2], found.out_of_sync[1]) == (1, 3, 2)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 30, "1.0 GiB"), (1 << 63, "8.0 EiB")],
)
def test_sizes_in_words(size: int, text: str):
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("lags", "ages_ms", "last"),
    [
        ([0, 0], [100, 100], "3 of 3 voters follow; 2 are needed: 1 may fail."),
        ([0, 0], [100, 60_000], "2 of 3 voters follow; 2 are needed: none may fail."),
        ([0, None], [100, 100], "2 of 3 voters follow; 2 are needed: none may fail."),
        ([0, 0], [9_000, 9_000], "1 of 3 voters follow; 2 are needed: nothing can be committed."),
        ([500, 0], [100, 100], "3 of 3 voters follow; 2 are needed: 1 may fail."),
    ],
)
def test_voters_that_are_silent_do_not_count(lags, ages_ms, last):
    now = 1_000_000
    voters = [QuorumReplicaView(1, None, "leader", 1000, 0, -1, -1, [])]
    for place, (lag, age_ms) in enumerate(zip(lags, ages_ms, strict=True)):
        voters.append(QuorumReplicaView(2 + place, None, "follower", 1, lag, now - age_ms, -1, []))
    observer = QuorumReplicaView(9, None, "observer", 1, 9_999, -1, -1, [])
    said = [one.text for one in quorum_sentences(QuorumView(1, 4, 9, [*voters, observer]), now)]
    assert said[-1] == last
    both = zip(lags, ages_ms, strict=True)
    named = sum(lag is None or lag > 100 or age_ms > 5_000 for lag, age_ms in both)
    assert len(said) == 1 + named


def test_hostile_text_in_a_table_is_escaped():
    health = TopicHealth('<img src=x onerror="x">', 1, 1, 0, 0, False)
    table = Table("t", TopicHealth, [health], {"topic": ['/x"><script>']}, ["bad"])
    page = Page("<b>", [Section("", [], [table])], 0)
    text = html.document(page, "/", STANDING)
    assert "<img" not in text and "<script>" not in text.partition("<body>")[2]
    assert "&lt;img src=x onerror=&#34;x&#34;&gt;" in text
    cell = Cell("<i>", '"><i>', "bad")
    matrix = Matrix("<i>", "<i>", ["<i>"], [MatrixRow("<i>", [cell, None], '"<i>', "<i>")])
    assert "<i>" not in html.document(Page("p", [Section("", [], [matrix])], 0), "/", STANDING)


def test_contents_of_a_topic_are_asked_for_when_they_are_shown(cluster: Cluster):
    def costs() -> int:
        return sum(look_at(cluster.bootstrap_servers, "topic", topic="orders").requests.values())

    eventually(lambda: costs() <= 3, "while replicas are not in sync, brokers are asked why")
    page = look_at(cluster.bootstrap_servers, "topic", topic="orders", show="contents", rows="1")
    (row,) = documents(page)[0]["partitions"]
    assert (row["earliest"], row["latest"], row["size_bytes"]) == (0, 0, 0)
    assert page.more == "/topics/orders?first=1&rows=1&show=contents"


def test_each_replica_has_the_state_that_metadata_and_eligibility_give_it():
    info = partition_info(0, 2, [1, 2, 3, 4, 5], [1, 2])
    found = replicated_partition("t", info, frozenset({4}), eligible=(3,), last_known=(5,))
    assert [one.letters for one in found.replicas] == ["S*", "L", "E", "x", "o"]
    assert (found.eligible, found.last_known) == ([3], [5])
    leaderless = partition_info(0, -1, [1, 2], [])
    unknown = replicated_partition("t", leaderless, frozenset({1}))
    assert [one.letters for one in unknown.replicas] == ["x*", "o"]
    assert unknown.eligible is None
