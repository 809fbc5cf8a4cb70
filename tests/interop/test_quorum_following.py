"""What a follower asks of its leader, and what it makes of the answers: valid, stale and damaged.

The leader is a script; the follower is a controller of either kind. No answer says that anything is
committed, because Kafka's controller ends on records it cannot make an image of.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.batch.control import build_leader_change
from fencepost.batch.header import stamp
from fencepost.batch.records import build_batch
from fencepost.machines.quorum.messages import TOPIC as METADATA_TOPIC
from fencepost.wire.api import fetch as f
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .apache import CLUSTER_ID
from .quorum import APACHE, FENCEPOST
from .quorum_peers import Heard
from .quorum_subjects import Subject, scripted_quorum
from .quorum_words import begins, shown, vote

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(120)]

EPOCH = 1
NO_OP = b"\x01\x14\x00\x00"  # frame version, id and version of NoOpRecord, no tags


class Follower:
    """A controller that follows voter 2 in epoch 1."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        not_here = answer(epoch=0, leader=-1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        subject.peers.turn_away(lambda request: not_here)
        begun = subject.ask(begins(EPOCH, port=subject.peers.ports[2]))
        assert shown(begun) == "NONE 2@1 nodes=[2]"

    def asks(self, leader: int = 2, epoch: int = EPOCH) -> tuple[f.FetchPartition, Heard]:
        """The next fetch from this leader; those from others are passed over."""
        while True:
            request, heard = self.subject.peers.hear(FetchRequest)
            partition = request.topics[0].partitions[0]
            if (heard.voter_id, partition.current_leader_epoch) == (leader, epoch):
                return partition, heard

    def has(self, leader: int = 2, epoch: int = EPOCH) -> tuple[int, int]:
        """(last epoch, end offset), which its next fetch says; that is answered with nothing."""
        partition, heard = self.asks(leader, epoch)
        heard.answer(answer(epoch, leader))
        return partition.last_fetched_epoch, partition.fetch_offset

    def is_told(self, response: f.FetchResponse) -> None:
        """Answer its next fetch."""
        self.asks()[1].answer(response)


@pytest.fixture(params=[APACHE, FENCEPOST])
def follower(request: pytest.FixtureRequest, kafka_jars, tmp_path: Path) -> Iterator[Follower]:
    """Of either kind."""
    with scripted_quorum(request.param, tmp_path) as subject:
        yield Follower(subject)


def answer(
    epoch: int = EPOCH,
    leader: int = 2,
    error: ErrorCode = ErrorCode.NONE,
    records: bytes | None = None,
    **more: Any,
) -> f.FetchResponse:
    """An answer to a fetch, in which nothing is committed."""
    partition = f.PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=-1,
        log_start_offset=0,
        current_leader=f.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        records=records,
        **more,
    )
    topic = f.FetchableTopicResponse(
        topic=METADATA_TOPIC, topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition]
    )
    return f.FetchResponse(responses=[topic])


def first_batch() -> bytes:
    """Offset 0: voter 2 leads."""
    return bytes(
        build_leader_change(
            leader_id=2,
            voters=(1, 2, 3),
            granting_voters=[2, 3],
            base_offset=0,
            leader_epoch=EPOCH,
            timestamp_ms=1_000,
        )
    )


def no_op(offset: int, epoch: int = EPOCH) -> bytes:
    """A record that says nothing."""
    batch = build_batch([(None, NO_OP)], timestamp_ms=1_000)
    stamp(batch, 0, base_offset=offset, leader_epoch=epoch)
    return bytes(batch)


def test_what_a_fetch_says(follower: Follower) -> None:
    partition, heard = follower.asks()
    request = heard.request
    assert isinstance(request, FetchRequest)
    assert heard.version == 18
    assert (request.cluster_id, request.replica_state.replica_id) == (CLUSTER_ID, 1)
    assert (request.max_wait_ms, request.max_bytes) == (500, 1 << 20)
    assert request.topics[0].topic_id == Uuid.METADATA_TOPIC_ID
    assert (partition.partition, partition.fetch_offset, partition.last_fetched_epoch) == (0, 0, 0)
    assert partition.high_watermark <= 0, "nothing is known to be committed"
    assert str(partition.replica_directory_id) == follower.subject.node.stored_directory_id()


def test_records_are_taken_as_far_as_they_are_sound(follower: Follower) -> None:
    assert follower.has() == (0, 0)
    follower.is_told(answer(records=first_batch() + no_op(1)))
    assert follower.has() == (1, 2)
    follower.is_told(answer(records=no_op(2) + no_op(3)[:-3]))
    assert follower.has() == (1, 3), "the rest comes with the next fetch"
    follower.is_told(answer(records=no_op(3)[:-1] + b"\xff"))
    assert follower.has() == (1, 3), "damage on the way"
    follower.is_told(answer(records=no_op(3, epoch=7)))
    assert follower.has() == (1, 3), "of an epoch that is not yet"


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ],
)
def test_errors_are_asked_about_again(follower: Follower, error: ErrorCode) -> None:
    follower.is_told(answer(error=error))
    assert follower.has() == (0, 0)


def test_a_log_that_went_astray_is_cut(follower: Follower) -> None:
    follower.is_told(answer(records=first_batch() + no_op(1) + no_op(2)))
    assert follower.has() == (1, 3)
    follower.is_told(answer(diverging_epoch=f.EpochEndOffset(epoch=1, end_offset=2)))
    assert follower.has() == (1, 2)
    follower.is_told(answer(diverging_epoch=f.EpochEndOffset(epoch=0, end_offset=0)))
    assert follower.has() == (0, 0), "down to nothing"


def test_an_answer_names_another_leader(follower: Follower) -> None:
    follower.is_told(answer(epoch=2, leader=3, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert follower.has(leader=3, epoch=2) == (0, 0)


def test_a_voter_that_has_fetched_grants_no_pre_vote(follower: Follower) -> None:
    assert shown(follower.subject.ask(vote(EPOCH, 3, pre=True))) == "NONE 2@1 yes nodes=[2]"
    follower.is_told(answer(records=first_batch()))
    assert follower.has() == (1, 1)
    ahead = vote(EPOCH, 3, (1, 9), pre=True)
    assert shown(follower.subject.ask(ahead)) == "NONE 2@1 no nodes=[2]"


def test_a_snapshot_that_is_refused_is_given_up(follower: Follower) -> None:
    offered = f.SnapshotId(end_offset=10, epoch=1)
    follower.is_told(answer(snapshot_id=offered))
    request, heard = follower.subject.peers.hear(FetchSnapshotRequest)
    assert (request.cluster_id, request.replica_id, heard.voter_id) == (CLUSTER_ID, 1, 2)
    asked = request.topics[0].partitions[0]
    assert (asked.snapshot_id.end_offset, asked.snapshot_id.epoch, asked.position) == (10, 1, 0)
    # What Kafka 4.3.0 says whenever the partition has an error.
    refusal = FetchSnapshotResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    heard.answer(refusal)
    again: FetchRequest | FetchSnapshotRequest
    again, heard = follower.subject.peers.hear(FetchRequest, FetchSnapshotRequest)
    # Kafka asks again after a pause, and fetches from another voter if it gets a turn before then.
    while isinstance(again, FetchSnapshotRequest) and follower.subject.node.kind == APACHE:
        heard.answer(refusal)
        again, heard = follower.subject.peers.hear(FetchRequest, FetchSnapshotRequest)
    assert isinstance(again, FetchRequest)
    assert again.topics[0].partitions[0].fetch_offset == 0
    assert follower.subject.node.is_running
