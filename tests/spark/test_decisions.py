"""Decisions of the exactly-once sink, as commit metadata of groups."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.open_transactions import OpenTransaction
from fencepost.client.produce_queue import Identity
from fencepost.spark import decisions
from fencepost.spark.decisions import (
    TOPICS_MAX,
    Decision,
    decode,
    encode,
    groups_of,
    read_decision,
    revoked_after,
)
from fencepost.spark.memory import KEYS_MAX, NOTHING, key_of
from fencepost.spark.sink_errors import DecisionError, ExactlyOnceError

SINK = "orders-sink"
DECISION = Decision(
    number=7,
    query="b5a6",
    batch=3,
    topics=("orders",),
    maker=Identity(90, 4),
    transactions=(
        OpenTransaction(f"{SINK}-0-a", 91, 5, True),
        OpenTransaction(f"{SINK}-1-b", 92, 6, False),
    ),
    spare=(f"{SINK}-0-c",),
)
ORDERS = TopicPartition("orders", 0)
Groups = dict[str, dict[TopicPartition, CommittedOffset]]


def packed(content: Any, *, cut: int = 0) -> list[str]:
    """What stands for one of those, whatever it is."""
    raw = zlib.compress(json.dumps(content).encode())
    return ["1:" + base64.b64encode(raw[: len(raw) - cut]).decode()]


def content_of(decision: Decision) -> dict[str, Any]:
    return content_of_parts(encode(decision, SINK))


def content_of_parts(parts: list[str]) -> dict[str, Any]:
    raw = base64.b64decode("".join(part.partition(":")[2] for part in parts))
    content: dict[str, Any] = json.loads(zlib.decompress(raw))
    return content


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads a decision from groups that are made up."""

    def reading(groups: Groups) -> Decision | None:
        class Admin:
            def __init__(self, cluster: Any) -> None:
                pass

            def group_offsets(
                self,
                group: str,
                partitions: Iterable[TopicPartition] | None = None,
                *,
                require_stable: bool = False,
            ) -> dict[TopicPartition, CommittedOffset]:
                assert require_stable, "offsets of a transaction that is not ended are left out"
                found = groups.get(group, {})
                return {
                    where: offset
                    for where, offset in found.items()
                    if partitions is None or where in partitions
                }

        monkeypatch.setattr(decisions, "GroupAdmin", Admin)
        cluster: Any = None
        return read_decision(cluster, SINK)

    return reading


def test_a_decision_in_one_part_and_in_many(monkeypatch: pytest.MonkeyPatch, read: Any):
    assert len(encode(DECISION, SINK)) == 1
    assert read(groups_of(DECISION, SINK)) == DECISION
    monkeypatch.setattr(decisions, "PART_CHARS", 40)
    groups = groups_of(DECISION, SINK)
    assert list(groups)[:3] == [SINK, f"{SINK}.1", f"{SINK}.2"]
    assert {offset.offset for one in groups.values() for offset in one.values()} == {7}
    assert read(groups) == DECISION


def test_its_format(read: Any):
    """What other versions of Fencepost read: to be changed with FORMAT only."""
    assert content_of(DECISION) == {
        "format": 1,
        "number": 7,
        "query": "b5a6",
        "batch": 3,
        "topic": "orders",
        "maker": [90, 4],
        "transactions": [["0-a", 91, 5, True], ["1-b", 92, 6, False]],
        "spare": ["0-c"],
        "topics": ["orders"],
        "application": "",
        "name": "",
        "time": 0,
        "run": "",
        "memory": [],
    }


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({"memory": NOTHING.with_key("b5a6", 2, 1)}, 1, id="what it decided before"),
        pytest.param({"memory": NOTHING.with_key("other", 2, 1)}, 2, id="another query"),
        pytest.param({"query": key_of("app", "orders")}, 2, id="a write with a key"),
        pytest.param({"query": ""}, 1, id="a write without"),
    ],
)
def test_older_versions_refuse_what_they_would_forget(changed: dict[str, Any], expected: int):
    decision = replace(DECISION, **changed)
    assert content_of(decision)["format"] == expected
    assert decode(encode(decision, SINK), SINK) == decision


def test_a_decision_of_an_older_version_is_read():
    content = content_of(DECISION)
    for name in ("topics", "application", "name", "time", "run", "memory"):
        del content[name]
    assert decode(packed(content), SINK) == DECISION


def test_what_a_decision_says_of_keys():
    memory = NOTHING.with_key("other", 9, 1).with_key("b5a6", 2, 1)
    decision = replace(DECISION, memory=memory, time_ms=86_400_000 * 5 + 3, run="0a1b2c3d")
    assert (decision.decided("b5a6"), decision.decided("other")) == (3, 9)
    assert (decision.decided("new"), decision.decided("")) == (None, None)
    found = decision.known().find("b5a6")
    assert found is not None
    assert (found.version, found.day, found.run) == (3, 5, "0a1b2c3d")
    revoked = revoked_after(decision)
    assert (revoked.decided("b5a6"), revoked.decided("other"), revoked.number) == (2, 9, 8)


def test_a_full_memory_fits_and_a_larger_one_is_none():
    memory = NOTHING
    for number in range(KEYS_MAX):
        memory = memory.with_key(key_of(f"app-{number}", "orders"), number, 20_000, "0a1b2c3d")
    assert not memory.has_room_for("new")
    assert memory.has_room_for(key_of("app-0", "orders"))
    decision = replace(DECISION, memory=memory)
    assert decode(encode(decision, SINK), SINK) == decision
    assert len(encode(decision, SINK)) <= 6
    larger = encode(replace(DECISION, memory=memory.with_key("one more", 1, 1)), SINK)
    with pytest.raises(DecisionError, match=f"memory is no list of at most {KEYS_MAX}"):
        decode(larger, SINK)


def test_keys_that_were_decided_long_ago_are_forgotten():
    memory = NOTHING.with_key("a", 1, 10).with_key("b", 1, 11).with_key("a", 2, 12)
    assert [one.version for one in memory.entries] == [1, 2]
    assert memory.since(12).find("b") is None
    assert memory.since(12).find("a") == memory.find("a")
    assert memory.since(11) == memory
    assert memory.knows_others("a")
    assert not memory.since(12).knows_others("a")


def test_a_decision_is_there_for_each_of_its_topics(read: Any):
    topics = tuple(f"t-{number}" for number in range(TOPICS_MAX + 3))
    groups = groups_of(replace(DECISION, topics=topics), SINK)
    assert [where.topic for where in groups[SINK]] == list(topics[:TOPICS_MAX])
    for gone in range(TOPICS_MAX):
        left = {
            group: {where: one for where, one in offsets.items() if where.topic == f"t-{gone}"}
            for group, offsets in groups.items()
        }
        assert read(left) == replace(DECISION, topics=topics)


def test_there_is_none(read: Any):
    assert read({}) is None


def test_the_last_one_counts_where_topics_changed(read: Any):
    older = groups_of(replace(DECISION, number=6, topics=("before",)), SINK)
    newer = groups_of(DECISION, SINK)
    assert read({SINK: older[SINK] | newer[SINK]}) == DECISION
    assert read({SINK: newer[SINK] | older[SINK]}) == DECISION


def test_a_copy_that_would_hide_all_decisions_to_come(read: Any):
    (part,) = encode(DECISION, SINK)
    copies = {TopicPartition("orders", 1): CommittedOffset(10**6, -1, part)}
    with pytest.raises(DecisionError, match="offset 1000000 is of number 7"):
        read({SINK: {**groups_of(DECISION, SINK)[SINK], **copies}})


def test_a_part_that_is_missing_or_of_another_decision(monkeypatch: pytest.MonkeyPatch, read: Any):
    monkeypatch.setattr(decisions, "PART_CHARS", 40)
    groups = groups_of(DECISION, SINK)
    older = groups_of(replace(DECISION, number=6), SINK)
    for wrong in ({}, older[f"{SINK}.1"]):
        with pytest.raises(DecisionError, match=f"number 7 lacks its part in {SINK}.1"):
            read({**groups, f"{SINK}.1": wrong})


@pytest.mark.parametrize("count", ["0", "1001", "", "\u0661", "\u00b2", "-1", "x"])
def test_metadata_that_does_not_begin_with_a_number_of_parts(count: str, read: Any):
    part = CommittedOffset(7, -1, encode(DECISION, SINK)[0].replace("1:", f"{count}:", 1))
    with pytest.raises(DecisionError, match="do not begin with a number of parts"):
        read({SINK: {ORDERS: part}})


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(["1:@" + encode(DECISION, SINK)[0][2:]], id="not in base 64"),
        pytest.param(["1:" + base64.b64encode(b"plain").decode()], id="not compressed"),
        pytest.param(packed(content_of(DECISION), cut=4), id="cut short"),
        pytest.param(packed({**content_of(DECISION), "format": 3}), id="of a later format"),
        pytest.param(packed({"format": 1}), id="nothing in it"),
        pytest.param(packed({**content_of(DECISION), "memory": [[1]]}), id="half a key"),
        pytest.param(packed({**content_of(DECISION), "memory": 7}), id="no memory"),
        pytest.param(packed({**content_of(DECISION), "topics": 7}), id="no topics"),
        pytest.param(packed({**content_of(DECISION), "transactions": 1}), id="of other types"),
        pytest.param(packed([]), id="a list"),
        pytest.param(packed({**content_of(DECISION), "batch": float("inf")}), id="no number"),
        pytest.param(packed({**content_of(DECISION), "number": "9" * 5_000}), id="a long number"),
        *(
            pytest.param(packed({**content_of(DECISION), name: value}), id=f"{name} out of range")
            for name, value in (
                ("number", 2**63),
                ("number", -1),
                ("batch", 2**63),
                ("maker", [2**63, 0]),
                ("maker", [1, 2**15]),
                ("maker", [1, 2, 3]),
                ("transactions", [["0-a", 2**63, 0, True]]),
                ("transactions", [["0-a", 1, 2**15, True]]),
                ("transactions", [["\ud800", 1, 2, True]]),
                ("topics", ["\ud800"]),
                ("spare", ["\ud800"]),
                ("query", "\ud800"),
            )
        ),
        pytest.param(
            ["1:" + base64.b64encode(zlib.compress(b"[" * 100_000)).decode()], id="deeply nested"
        ),
    ],
)
def test_what_is_no_decision(parts: list[str]):
    with pytest.raises(DecisionError):
        decode(parts, SINK)


def test_a_decision_is_decompressed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch):
    parts = encode(DECISION, SINK)
    monkeypatch.setattr(decisions, "DECISION_BYTES_MAX", 100)
    with pytest.raises(DecisionError, match="cut short, or too long"):
        decode(parts, SINK)
    with pytest.raises(ExactlyOnceError, match="more than can be decided at once"):
        encode(DECISION, SINK)  # what could not be read again


@pytest.mark.parametrize("name", ["transactions", "spare", "topics", "memory"])
def test_lists_are_counted_before_they_are_looked_at(name: str, monkeypatch: pytest.MonkeyPatch):
    """A few kilobytes, compressed, can be lists of millions, which take seconds to look through."""
    for function in ("_identity", "_within"):
        monkeypatch.setattr(decisions, function, lambda *_: pytest.fail("was looked at"))
    most = max(decisions.TRANSACTIONS_MAX, decisions.TOPICS_READ_MAX, KEYS_MAX)
    parts = packed({**content_of(DECISION), name: [0] * (most + 1)})
    assert len(parts[0]) < 2_000
    with pytest.raises(DecisionError, match=f"{name} is no list of at most"):
        decode(parts, SINK)


def test_the_most_transactions_of_a_decision_are_read_and_one_more_is_not_written():
    one = DECISION.transactions[0]
    many = tuple(
        one._replace(transactional_id=f"{SINK}-0a1b2c3d-{number}-{number}-0", producer_id=number)
        for number in range(decisions.TRANSACTIONS_MAX)
    )
    largest = replace(
        DECISION, transactions=many, spare=tuple(each.transactional_id for each in many)
    )
    assert decode(encode(largest, SINK), SINK) == largest
    with pytest.raises(ExactlyOnceError, match="more than can be decided at once"):
        encode(replace(largest, transactions=(*many, one)), SINK)


def test_more_transactions_than_can_be_decided_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(decisions, "PART_CHARS", 40)
    monkeypatch.setattr(decisions, "PARTS_MAX", len(encode(DECISION, SINK)))
    assert encode(DECISION, SINK)
    monkeypatch.setattr(decisions, "PARTS_MAX", decisions.PARTS_MAX - 1)
    with pytest.raises(ExactlyOnceError, match="has 2 transactions"):
        encode(DECISION, SINK)
