"""What differs between two samples, samples that are kept, and the file that has one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.client.groups import ListedGroup
from fencepost.client.quorum import QuorumDescription, QuorumReplica
from fencepost.wire.types import Uuid

from .looking import documents, partition_info, sample_of, sentences, topic_info

from fencepost.console import kept_samples  # isort: skip
from fencepost.console.asked import Asked  # isort: skip
from fencepost.console.changes import changes_between  # isort: skip
from fencepost.console.events import events_between  # isort: skip
from fencepost.console.kept_samples import KEPT, START, KeptSamples  # isort: skip
from fencepost.console.page import document_of  # isort: skip
from fencepost.console.pages.changes import changes_page  # isort: skip
from fencepost.console.sample_document import (  # isort: skip
    BadSample,
    SampleDocument,
    parsed_sample,
    read_sample,
)
from fencepost.console.sampling import sharing_topics  # isort: skip


def quorum(leader: int, epoch: int, *voters: int) -> QuorumDescription:
    nodes = [QuorumReplica(id_, Uuid.ZERO, 5, -1, -1) for id_ in voters]
    return QuorumDescription(leader, epoch, 5, nodes, [], {})


def orders(*partitions: Any, id_: int = 1) -> Any:
    return topic_info("orders", partitions, id_)


BEFORE = orders(partition_info(0, 1, [1, 2], [1, 2]), partition_info(1, 2, [2, 3], [2, 3]))


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        ({}, {}, []),
        (
            {},
            {"fenced": [2]},
            ["broker 2 stopped, or was fenced"],
        ),
        ({"brokers": [1]}, {"brokers": [1, 4]}, ["broker 4 is in the cluster"]),
        (
            {"topics": [BEFORE]},
            {
                "topics": [
                    orders(
                        partition_info(0, 2, [1, 2], [2], epoch=1),
                        partition_info(1, 2, [2, 1], [2, 1]),
                    )
                ]
            },
            [
                "broker 2 leads orders-0 in epoch 1",
                "broker 1 left the ISR of orders-0",
                "orders-1 is on brokers 2, 1 (before: 2, 3)",
                "broker 3 left the ISR of orders-1",
                "broker 1 joined the ISR of orders-1",
            ],
        ),
        (
            {"topics": [BEFORE]},
            {"topics": [orders(partition_info(0, -1, [1, 2], [1, 2], 2), id_=1)]},
            ["topic orders has 1 partitions (before: 2)", "no broker leads orders-0 in epoch 2"],
        ),
        (
            {"topics": [BEFORE]},
            {"topics": [orders(id_=2), topic_info("new", [])]},
            ["topic new was created", "topic orders was deleted and created again"],
        ),
        ({"topics": [BEFORE]}, {}, ["topic orders was deleted"]),
        (
            {"quorum": quorum(1, 3, 1, 2)},
            {"quorum": quorum(2, 4, 1, 2, 3)},
            [
                "controller 2 was elected in epoch 4 (before: 1 in epoch 3)",
                "the quorum's voters are 1, 2, 3 (before: 1, 2)",
            ],
        ),
        (
            {"groups": [ListedGroup("a", "Stable", "classic", "consumer")]},
            {"groups": [ListedGroup("a", "Empty", "consumer", "consumer")]},
            [
                "group a: state Empty (before: Stable)",
                "group a: type consumer (before: classic)",
            ],
        ),
        ({"groups": None}, {"groups": [ListedGroup("a", "Stable", "", "")]}, []),
    ],
)
def test_each_difference_is_a_sentence(before, after, texts):
    found = changes_between(sample_of(**before), sample_of(**after, taken_at_ms=2_000))
    assert [one.text for one in found] == texts


def test_many_events_of_a_kind_are_one_with_their_number():
    topics = [topic_info(f"t{number}", []) for number in range(9)]
    (event,) = events_between(sample_of(), sample_of(topics))
    assert event.text == "topic t0 was created; and 8 more changes of this kind"
    (one,) = events_between(sample_of(), sample_of(topics[:1]))
    assert (one.text, one.name) == ("topic t0 was created", "t0")


def test_a_page_counts_changes_and_says_where_clusters_differ():
    before = sample_of([BEFORE])
    after = msgspec.structs.replace(sample_of(fenced=[1], taken_at_ms=61_000), cluster_id="other")
    page = changes_page(before, after, Asked({"order": "level"}))
    assert sentences(page)[0].startswith("These are samples of two clusters")
    assert "(60 s): id of topics (1), state of brokers (1)." in sentences(page)[1]
    assert [row["kind"] for row in documents(page)[0]] == ["broker", "topic"], "the worst first"


def test_topics_that_did_not_change_are_shared():
    before = sample_of([BEFORE, topic_info("x", [])])
    again = sample_of(
        [orders(*BEFORE.partitions.values()), topic_info("x", [partition_info(0, 1, [1], [1])])]
    )
    shared = sharing_topics(before, again)
    assert shared.topics["orders"] is before.topics["orders"]
    assert shared.topics["x"] == again.topics["x"] != before.topics["x"]
    moved = sample_of([orders(BEFORE.partitions[0], partition_info(1, 3, [2, 3], [3], 1))])
    found = sharing_topics(before, moved).topics["orders"].partitions
    assert found[0] is BEFORE.partitions[0]
    assert found[1] == moved.topics["orders"].partitions[1]


def test_samples_are_kept_dense_of_late_and_sparse_of_long_ago():
    kept = KeptSamples()
    assert kept.since(START, 0) is None
    last = 5 * 3_600_000
    for at_ms in range(0, last + 1, 5_000):
        kept.keep(sample_of(taken_at_ms=at_ms))
    times = kept.times_ms
    assert len(times) == KEPT
    assert (times[0], times[-1]) == (0, last)
    for name, age_ms in (("1m", 60_000), ("15m", 900_000), ("1h", 3_600_000)):
        found = kept.since(name, last)
        assert found is not None
        assert abs((last - found.taken_at_ms) - age_ms) <= age_ms * 0.3, name
    first = kept.since(START, last)
    assert first is not None and first.taken_at_ms == 0


def test_fewer_samples_of_a_large_cluster_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_samples, "PARTITIONS_KEPT", 10)
    kept = KeptSamples()
    for at_ms in range(20):
        kept.keep(sample_of([BEFORE], taken_at_ms=at_ms))
    assert len(kept.times_ms) == 5
    monkeypatch.setattr(kept_samples, "PARTITIONS_KEPT", 0)
    kept.keep(sample_of([BEFORE], taken_at_ms=20))
    assert len(kept.times_ms) == kept_samples.KEPT_LEAST
    assert (kept.times_ms[0], kept.times_ms[-1]) == (0, 20)


# -- files -----------------------------------------------------------------------------------------

SAMPLE = sample_of(
    [BEFORE],
    fenced=[3],
    groups=[ListedGroup("g", "Stable", "classic", "consumer")],
    quorum=quorum(1, 3, 1, 2),
)


def written(document: Any) -> bytes:
    return msgspec.json.encode({"title": "Sample", "sections": [{"document": document}]})


DOCUMENT = msgspec.to_builtins(SampleDocument.of(SAMPLE))


def test_a_sample_comes_back_from_its_document():
    found = parsed_sample(written(DOCUMENT), "old.json")
    assert list(changes_between(SAMPLE, found)) == []
    assert (found.topics, found.fenced) == (SAMPLE.topics, SAMPLE.fenced)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "truncated"),
        (b"\xff\xfe", "old.json"),
        (b"[]", "Expected `object`"),
        (b"{}", "it has no sections"),
        (b'{"sections": [{}]}', "Expected `object`, got `null`"),
        (b'{"sections": ' + b"[" * 100_000, "old.json"),
        (written({}), "missing required field `format`"),
        (written(DOCUMENT | {"format": "other"}), "format"),
        (written(DOCUMENT | {"version": 2}), "version"),
        (written(DOCUMENT | {"topics": [{"name": 1}]}), "topics[0].name"),
        (written(DOCUMENT | {"taken_at_ms": "1"}), "taken_at_ms"),
        (
            written(DOCUMENT | {"topics": [DOCUMENT["topics"][0] | {"id": "short"}]}),
            "Uuid",
        ),
    ],
)
def test_what_is_no_sample_is_refused_with_the_file_and_the_place(data: bytes, words: str):
    with pytest.raises(BadSample) as caught:
        parsed_sample(data, "old.json")
    assert str(caught.value).startswith("old.json: ")
    assert words in str(caught.value)


def test_every_truncation_of_a_file_is_refused():
    data = written(DOCUMENT)
    for size in range(len(data)):
        with pytest.raises(BadSample):
            parsed_sample(data[:size], "old.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(BadSample, match=r"absent\.json: No such file"):
        read_sample(tmp_path / "absent.json")
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document_of(changes_page(SAMPLE, SAMPLE, Asked()))))
    with pytest.raises(BadSample, match=r"old\.json"):
        read_sample(path)
