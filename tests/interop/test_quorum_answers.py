"""What one voter answers to valid, stale and hostile requests of the quorum, one after the other.

The tables say what Apache Kafka's controller answers. Ours is held to the same, word for word;
where it answers something else on purpose, the row says both and the comment says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from fencepost.client.errors import ClientError
from fencepost.wire.message import Message, Request
from fencepost.wire.types import Uuid

from ..waiting import eventually
from .quorum import APACHE, FENCEPOST
from .quorum_subjects import Subject, scripted_quorum
from .quorum_words import (
    adds,
    begins,
    describes,
    ends,
    fetch,
    fetch_snapshot,
    removes,
    shown,
    updates,
    vote,
)

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(120)]

KINDS = pytest.mark.parametrize("kind", [APACHE, FENCEPOST])
MOST = 2**31 - 1
DIES = "its process ends"


@dataclass(frozen=True)
class Row:
    """A request and its answer; `ours` where Fencepost's differs on purpose."""

    what: str
    request: Request[Message]
    version: int
    answer: str
    ours: str | None = None

    def expected(self, kind: str) -> str:
        """The answer of a node of this kind."""
        return self.ours if kind == FENCEPOST and self.ours is not None else self.answer


def directory(number: int) -> Uuid:
    """A directory id that no node has."""
    return Uuid(bytes(15) + bytes((number,)))


def play(subject: Subject, rows: list[Row]) -> None:
    """Ask everything, then compare all of it at once, so that a failure shows the whole story."""
    kind = subject.node.kind
    said = [f"{row.what} v{row.version}: {answer(subject, row)}" for row in rows]
    assert said == [f"{row.what} v{row.version}: {row.expected(kind)}" for row in rows]


def answer(subject: Subject, row: Row) -> str:
    try:
        return shown(subject.ask(row.request, row.version))
    except ClientError:
        eventually(lambda: not subject.node.is_running, "a node that disconnected has ended")
        return DIES


# A node that has heard nothing yet: votes

NO_LEADER = "NOT_LEADER_OR_FOLLOWER 0@0 hw=0"
FRESH = [
    Row("another cluster", vote(1, cluster="x"), 2, "whole: INCONSISTENT_CLUSTER_ID"),
    Row("another topic", vote(1, topic="t"), 2, "whole: INVALID_REQUEST"),
    Row("another partition", vote(1, partition=1), 2, "whole: INVALID_REQUEST"),
    Row("no cluster, epoch 0", vote(0, cluster=None), 2, "INVALID_REQUEST -1@0 no"),
    Row("no candidate", vote(1, candidate=-1), 2, "INVALID_REQUEST -1@0 no"),
    Row("a negative epoch", vote(-1), 2, "INVALID_REQUEST -1@0 no"),
    Row("a record of a later epoch", vote(1, log=(2, 5)), 2, "INVALID_REQUEST -1@0 no"),
    Row("a negative last epoch", vote(1, log=(-1, 0)), 2, "INVALID_REQUEST -1@0 no"),
    Row("a negative end", vote(1, log=(0, -1)), 2, "INVALID_REQUEST -1@0 no"),
    Row("a pre-vote raises the epoch", vote(1, log=(0, 5), pre=True), 2, "NONE -1@1 yes"),
    Row("last epoch is the epoch", vote(1, log=(1, 5)), 2, "INVALID_REQUEST -1@1 no"),
    Row("the same, pre-vote", vote(2, log=(2, 5), pre=True), 2, "NONE -1@2 yes"),
    Row("beyond it, pre-vote", vote(2, log=(3, 5), pre=True), 2, "INVALID_REQUEST -1@2 no"),
    Row("meant for 3", vote(3, voter=3), 2, "INVALID_VOTER_KEY -1@3 no"),
    Row("pre-vote meant for 3", vote(4, voter=3, pre=True), 2, "INVALID_VOTER_KEY -1@4 no"),
    Row(
        "meant for another disk",
        vote(5, voter_directory=directory(7)),
        2,
        "INVALID_VOTER_KEY -1@5 no",
    ),
    Row("pre-vote of 2", vote(5, pre=True), 2, "NONE -1@5 yes"),
    Row("pre-vote of 3", vote(5, 3, pre=True), 2, "NONE -1@5 yes"),
    Row("a fetch", fetch(5), 17, "NOT_LEADER_OR_FOLLOWER -1@5 hw=-1 start=0"),
    # Kafka leaves the leader out; we say what we know.
    Row("described", describes(), 2, NO_LEADER, "NOT_LEADER_OR_FOLLOWER -1@5 hw=-1"),
    Row("vote for 2", vote(5), 2, "NONE -1@5 yes"),
    Row("vote for 2 again", vote(5), 2, "NONE -1@5 yes"),
    Row("with a directory", vote(5, directory=directory(2)), 2, "NONE -1@5 yes"),
    Row("vote for 3", vote(5, 3), 2, "NONE -1@5 no"),
    Row("pre-vote for 3", vote(5, 3, pre=True), 2, "NONE -1@5 yes"),
    Row("an old epoch", vote(4, 3), 2, "FENCED_LEADER_EPOCH -1@5 no"),
    Row("an old epoch, for 3", vote(4, 3, voter=3), 2, "FENCED_LEADER_EPOCH -1@5 no"),
    Row("vote for a disk", vote(6, directory=directory(2)), 2, "NONE -1@6 yes"),
    Row("it does not say which", vote(6), 2, "NONE -1@6 no"),
    Row("another disk", vote(6, directory=directory(3)), 2, "NONE -1@6 no"),
    Row("the same disk", vote(6, directory=directory(2)), 2, "NONE -1@6 yes"),
    Row("of no voter", vote(7, 9), 2, "NONE -1@7 yes"),
    Row("before there were disks", vote(9), 0, "NONE -1@9 yes"),
    Row("before pre-votes", vote(10), 1, "NONE -1@10 yes"),
    # Behind it no election is possible any more, so we do not go there on a stranger's word.
    Row(
        "the last epoch there is",
        vote(MOST),
        2,
        f"NONE -1@{MOST} yes",
        "INVALID_REQUEST -1@10 no",
    ),
]

# Leaders come and go

FOLLOWS_2 = "NONE 2@{epoch} nodes=[2]"
LED = [
    Row("another cluster", begins(1, cluster="x"), 1, "whole: INCONSISTENT_CLUSTER_ID"),
    Row("another topic", begins(1, topic="x"), 1, "whole: INVALID_REQUEST"),
    Row("another partition", begins(1, partition=1), 1, "whole: INVALID_REQUEST"),
    Row("a negative epoch", begins(-1), 1, "FENCED_LEADER_EPOCH -1@0"),
    Row("no leader", begins(1, leader=-1), 1, "INVALID_REQUEST -1@0"),
    Row("an end makes it known", ends(0), 1, "NONE 2@0 nodes=[2]"),
    Row("an end of a later epoch", ends(1), 1, "NONE 2@1 nodes=[2]"),
    Row("a vote where one leads", vote(1, 3), 2, "NONE 2@1 no nodes=[2]"),
    # It has not fetched yet, so it may grant a pre-vote.
    Row("a pre-vote where one leads", vote(1, 3, pre=True), 2, "NONE 2@1 yes nodes=[2]"),
    Row("it begins", begins(1), 1, "NONE 2@1 nodes=[2]"),
    Row("it begins, of old", begins(1), 0, "NONE 2@1"),
    Row("meant for 3", begins(1, voter=3), 1, "INVALID_VOTER_KEY 2@1 nodes=[2]"),
    Row("meant for 3, epoch 2", begins(2, voter=3), 1, "INVALID_VOTER_KEY 2@2 nodes=[2]"),
    Row(
        "meant for another disk",
        begins(2, voter_directory=directory(9)),
        1,
        "INVALID_VOTER_KEY 2@2 nodes=[2]",
    ),
    Row("an old epoch", begins(1), 1, "FENCED_LEADER_EPOCH 2@2 nodes=[2]"),
    Row("an old epoch, for 3", begins(1, voter=3), 1, "FENCED_LEADER_EPOCH 2@2 nodes=[2]"),
    Row("a fetch", fetch(2), 17, "NOT_LEADER_OR_FOLLOWER 2@2 hw=-1 start=0 nodes=[2]"),
    Row("an old fetch", fetch(1), 17, "FENCED_LEADER_EPOCH 2@2 hw=-1 start=0 nodes=[2]"),
    Row("a new fetch", fetch(3), 17, "UNKNOWN_LEADER_EPOCH 2@2 hw=-1 start=0 nodes=[2]"),
    Row("described", describes(), 2, NO_LEADER, "NOT_LEADER_OR_FOLLOWER 2@2 hw=-1"),
    # Kafka 4.3.0 trips over its own answer whenever that has an error in the partition.
    Row(
        "a snapshot",
        fetch_snapshot(2, (0, 0)),
        1,
        "whole: UNKNOWN_SERVER_ERROR",
        "NOT_LEADER_OR_FOLLOWER 2@2 snapshot=0@0 size=0 position=0 bytes=0 nodes=[2]",
    ),
    Row("add", adds(4, directory(4), 1), 1, "NOT_LEADER_OR_FOLLOWER"),
    Row("remove", removes(3, directory(3)), 0, "NOT_LEADER_OR_FOLLOWER"),
    Row("update", updates(2, 2, directory(2), 9), 0, "NOT_LEADER_OR_FOLLOWER 2@2"),
    Row("an old end", ends(1), 1, "FENCED_LEADER_EPOCH 2@2 nodes=[2]"),
    Row("another cluster ends", ends(2, cluster="x"), 1, "whole: INCONSISTENT_CLUSTER_ID"),
    Row("another topic ends", ends(2, topic="x"), 1, "whole: INVALID_REQUEST"),
    Row("an end of no leader", ends(2, leader=-1), 1, "INVALID_REQUEST 2@2 nodes=[2]"),
    Row("a leader from elsewhere", begins(3, leader=9, port=1), 1, "NONE 9@3 nodes=[9]"),
    Row("a vote in a later epoch", vote(4), 2, "NONE -1@4 yes"),
]

# What ends Apache Kafka's process must not end ours: each of these can be sent by anybody.

FATAL = {
    "a second leader": [
        Row("2 leads", begins(1), 1, "NONE 2@1 nodes=[2]"),
        Row("3 leads too", begins(1, leader=3), 1, DIES, "INVALID_REQUEST 2@1 nodes=[2]"),
    ],
    "a second leader ends": [
        Row("2 leads", begins(1), 1, "NONE 2@1 nodes=[2]"),
        Row("3 ends", ends(1, leader=3), 1, DIES, "INVALID_REQUEST 2@1 nodes=[2]"),
    ],
    "itself a leader": [Row("1 leads", begins(1, leader=1), 1, DIES, "INVALID_REQUEST -1@0")],
    "itself a candidate": [Row("1 stands", vote(1, 1), 2, DIES, "INVALID_REQUEST -1@0 no")],
    "a leader without an address": [Row("9 leads", begins(1, leader=9), 1, DIES, "NONE 9@1")],
}

# A leader from which no follower has fetched yet: no high watermark

I_LEAD = "1@1 hw=-1 start=0"
SNAPSHOT_ERROR = "whole: UNKNOWN_SERVER_ERROR"
NOTHING = "size=0 position=0 bytes=0 nodes=[1]"
NEW_LEADER = [
    Row("described", describes(), 2, "NONE 1@1 hw=-1 1:1 2:-1 3:-1 nodes=[1, 2, 3]"),
    Row("described of old", describes(), 0, "NONE 1@1 hw=-1 1:1 2:-1 3:-1"),
    Row(
        "another topic described",
        describes("x"),
        2,
        "UNKNOWN_TOPIC_OR_PARTITION 0@0 hw=0",
        "UNKNOWN_TOPIC_OR_PARTITION -1@0 hw=-1",
    ),
    Row("an old leader begins", begins(0), 1, "FENCED_LEADER_EPOCH 1@1 nodes=[1]"),
    Row("an old leader ends", ends(0), 1, "FENCED_LEADER_EPOCH 1@1 nodes=[1]"),
    Row("pre-vote, no log", vote(1, 3, pre=True), 2, "NONE 1@1 no nodes=[1]"),
    Row("pre-vote, long log", vote(1, 3, (1, 50), pre=True), 2, "NONE 1@1 no nodes=[1]"),
    Row("vote, long log", vote(1, 3, (0, 50)), 2, "NONE 1@1 no nodes=[1]"),
    Row("another cluster", fetch(1, cluster="x"), 17, "whole: INCONSISTENT_CLUSTER_ID"),
    Row("another topic", fetch(1, topic_id=directory(9)), 17, "whole: INVALID_REQUEST"),
    Row("another partition", fetch(1, partition=1), 17, "whole: INVALID_REQUEST"),
    Row("two partitions", fetch(1, partitions=2), 17, "whole: INVALID_REQUEST"),
    Row("a negative offset", fetch(1, -1), 17, f"INVALID_REQUEST {I_LEAD} nodes=[1]"),
    Row("a later record", fetch(1, 0, 2), 17, f"INVALID_REQUEST {I_LEAD} nodes=[1]"),
    Row("a negative epoch", fetch(1, 0, -1), 17, f"INVALID_REQUEST {I_LEAD} nodes=[1]"),
    Row("a negative wait", fetch(1, max_wait_ms=-1), 17, f"INVALID_REQUEST {I_LEAD} nodes=[1]"),
    # Kafka runs into an exception for these two.
    Row(
        "its own fetch",
        fetch(1, replica=1),
        17,
        f"UNKNOWN_SERVER_ERROR {I_LEAD} nodes=[1]",
        f"INVALID_REQUEST {I_LEAD} nodes=[1]",
    ),
    Row(
        "negative bytes",
        fetch(1, replica=9, max_bytes=-1),
        17,
        f"UNKNOWN_SERVER_ERROR {I_LEAD} nodes=[1]",
        f"NONE {I_LEAD} records=0..0 nodes=[1]",
    ),
    Row("an old epoch", fetch(0), 17, f"FENCED_LEADER_EPOCH {I_LEAD} nodes=[1]"),
    Row("a later epoch", fetch(2, 0, 1), 17, f"UNKNOWN_LEADER_EPOCH {I_LEAD} nodes=[1]"),
    # We send a client that is no replica what is committed.
    Row(
        "no replica",
        fetch(1, replica=-1),
        17,
        f"NONE {I_LEAD} records=0..0 nodes=[1]",
        f"NONE {I_LEAD} nodes=[1]",
    ),
    Row("an observer", fetch(1, replica=9), 17, f"NONE {I_LEAD} records=0..0 nodes=[1]"),
    Row("it is ahead", fetch(1, 5, 1, replica=9), 17, f"NONE {I_LEAD} diverging=1@1 nodes=[1]"),
    Row("it is astray", fetch(1, 5, replica=9), 17, f"NONE {I_LEAD} diverging=0@0 nodes=[1]"),
    Row("a wrong epoch", fetch(1, 1, replica=9), 17, f"NONE {I_LEAD} diverging=0@0 nodes=[1]"),
    Row(
        "it waits",
        fetch(1, 1, 1, replica=9, max_wait_ms=100),
        17,
        f"NONE {I_LEAD} nodes=[1]",
    ),
    Row(
        "one byte",
        fetch(1, replica=9, max_bytes=1),
        17,
        f"NONE {I_LEAD} records=0..0 nodes=[1]",
    ),
    Row("described", describes(), 2, "NONE 1@1 hw=-1 1:1 2:-1 3:-1 (9:0) nodes=[1, 2, 3]"),
    Row(
        "the bootstrap snapshot",
        fetch_snapshot(1, (0, 0)),
        1,
        SNAPSHOT_ERROR,
        f"SNAPSHOT_NOT_FOUND 1@1 snapshot=0@0 {NOTHING}",
    ),
    Row(
        "no snapshot",
        fetch_snapshot(1, (100, 1)),
        1,
        SNAPSHOT_ERROR,
        f"SNAPSHOT_NOT_FOUND 1@1 snapshot=0@0 {NOTHING}",
    ),
    Row(
        "another cluster's",
        fetch_snapshot(1, (0, 0), cluster="x"),
        1,
        "whole: INCONSISTENT_CLUSTER_ID",
    ),
    Row("add", adds(4, directory(4), 1), 1, "REQUEST_TIMED_OUT"),
    Row("remove", removes(3, directory(3)), 0, "REQUEST_TIMED_OUT"),
    Row("update", updates(1, 2, directory(2), 9), 0, "REQUEST_TIMED_OUT 1@1"),
    Row(
        "another cluster's update",
        updates(1, 2, directory(2), 9, cluster="x"),
        0,
        "INCONSISTENT_CLUSTER_ID 1@1",
    ),
    Row("an old update", updates(0, 2, directory(2), 9), 0, "FENCED_LEADER_EPOCH 1@1"),
    Row("a later update", updates(2, 2, directory(2), 9), 0, "UNKNOWN_LEADER_EPOCH 1@1"),
    Row("a voter", fetch(1), 17, f"NONE {I_LEAD} records=0..0 nodes=[1]"),
    Row("before endpoints", fetch(1), 16, f"NONE {I_LEAD} records=0..0"),
    Row("described", describes(), 2, "NONE 1@1 hw=-1 1:1 2:0 3:-1 (9:0) nodes=[1, 2, 3]"),
]

# A leader of static voters that has committed its first record

STATIC = [
    # Ours may still be syncing; with a wait, and the high watermark that it knows, 2 is told.
    Row(
        "commit",
        fetch(1, 1, 1, max_wait_ms=10_000, high_watermark=-1),
        18,
        "NONE 1@1 hw=1 start=0 nodes=[1]",
    ),
    Row("add", adds(4, directory(4), 1), 1, "UNSUPPORTED_VERSION"),
    Row("add no disk", adds(4, Uuid.ZERO, 1), 1, "INVALID_REQUEST"),
    Row("add elsewhere", adds(4, directory(4), 1, cluster="x"), 1, "INCONSISTENT_CLUSTER_ID"),
    Row("add a negative id", adds(-4, directory(4), 1), 1, "INVALID_REQUEST"),
    Row("add nowhere", adds(4, directory(4), 1, listener=""), 1, "INVALID_REQUEST"),
    Row("add a voter", adds(2, directory(4), 1), 1, "UNSUPPORTED_VERSION"),
    Row("remove", removes(3, directory(3)), 0, "UNSUPPORTED_VERSION"),
    Row("remove elsewhere", removes(3, directory(3), cluster="x"), 0, "INCONSISTENT_CLUSTER_ID"),
    Row("remove a stranger", removes(8, directory(3)), 0, "UNSUPPORTED_VERSION"),
    Row("remove a negative id", removes(-8, directory(3)), 0, "INVALID_REQUEST"),
    Row("update nowhere", updates(1, 2, directory(2), 9, listener=""), 0, "INVALID_REQUEST 1@1"),
    Row("update a negative id", updates(1, -2, directory(2), 9), 0, "INVALID_REQUEST 1@1"),
    Row("update a stranger", updates(1, 8, directory(2), 9), 0, "VOTER_NOT_FOUND 1@1"),
    Row("update no disk", updates(1, 2, Uuid.ZERO, 9), 0, "INVALID_REQUEST 1@1"),
    Row(
        "update to a level that is not in force",
        updates(1, 2, directory(2), 9, versions=(1, 1)),
        0,
        "INVALID_REQUEST 1@1",
    ),
    Row("update", updates(1, 2, directory(2), 9), 0, "NONE 1@1"),
]


@KINDS
@pytest.mark.parametrize("rows", [FRESH, LED], ids=["votes", "leaders"])
def test_a_voter_without_a_leader(kafka_jars, kind: str, tmp_path: Path, rows: list[Row]) -> None:
    with scripted_quorum(kind, tmp_path) as subject:
        play(subject, rows)


@KINDS
@pytest.mark.parametrize("story", FATAL)
def test_requests_that_end_kafka(kafka_jars, kind: str, tmp_path: Path, story: str) -> None:
    with scripted_quorum(kind, tmp_path) as subject:
        play(subject, FATAL[story])


@KINDS
@pytest.mark.parametrize("rows", [NEW_LEADER, STATIC], ids=["new", "committed"])
def test_a_leader_of_static_voters(kafka_jars, kind: str, tmp_path: Path, rows: list[Row]) -> None:
    with scripted_quorum(kind, tmp_path, is_hasty=True) as subject:
        eventually(lambda: shown(subject.ask(describes())).startswith("NONE"), "it leads")
        play(subject, rows)
