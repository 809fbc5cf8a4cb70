"""Every input in every role: what becomes of the node, and what it does.

The rows are the machine's behaviour as a table, one for each pair of role and input; the test fails
if a pair has no row. The node is 1 of the voters 1, 2, 3, in epoch 5, with a log of two batches of
epoch 4 (offsets 0 and 1) and, if it leads, one of epoch 5.

An expectation reads: role and epoch afterwards, then the effects in short. `state` is a durable
state write, `yes` and `no` are votes, a number after `!` is an error code.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.batch.records import build_batch
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import (
    Append,
    DiskFailed,
    Effect,
    Fail,
    Persist,
    Persisted,
    Reply,
    Send,
    SendAfterPersist,
    SetTimer,
    TimerFired,
    Truncate,
)
from fencepost.machines.quorum import (
    AppendOutcome,
    AppendRecords,
    DraftBounds,
    FetchBounds,
    QuorumConfig,
    QuorumMachine,
    QuorumState,
    RequestFailed,
    Resign,
    Role,
    SnapshotBounds,
    Start,
    answered,
    fetch_response,
    inputs,
    membership,
    messages,
    received,
)
from fencepost.machines.quorum.machine import HANDLERS
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter
from fencepost.wire.api.add_raft_voter import AddRaftVoterResponse
from fencepost.wire.api.api_versions import ApiVersionsResponse
from fencepost.wire.api.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    TopicDataRequest,
)
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterResponse
from fencepost.wire.api.update_raft_voter import UpdateRaftVoterResponse
from fencepost.wire.api.vote import VoteRequest, VoteResponse
from fencepost.wire.draft.fetch_quorum_records import FetchQuorumRecordsRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .quorum_log import ListLog

NODE = 1
EPOCH = 5
LATER = 10_000_000
CONFIG = QuorumConfig(cluster_id="world")


class Bench:
    """One machine, whose appends and truncations go to a list."""

    def __init__(self, state: QuorumState, voters: tuple[int, ...] = (1, 2, 3)) -> None:
        self.log = ListLog()
        batches = [build_batch([(None, b"old")]) for _ in range(2)]
        self.log.append(Append(batches, leader_epoch=4))
        self.log.durable_offset = 2
        self.machine = QuorumMachine(NODE, voters, self.log, state, CONFIG)
        self.now_ms = 0
        self.step(Start([0]))

    def step(self, input_: Any, after_ms: int = 0) -> list[Effect]:
        """Step and carry out what concerns the log."""
        self.now_ms += after_ms
        effects = self.machine.step(input_, self.now_ms)
        for effect in effects:
            if isinstance(effect, Persist) and isinstance(effect.work, Append):
                self.log.append(effect.work)
            elif isinstance(effect, Persist) and isinstance(effect.work, Truncate):
                self.log.cut(effect.work.end_offset)
        return effects

    def sent(self, effects: list[Effect], to: int) -> Any:
        """The message among `effects` that goes to a node."""
        for effect in effects:
            if isinstance(effect, Send | SendAfterPersist) and effect.to == to:
                return effect.message
        raise AssertionError(f"nothing to {to} in {effects}")


def unattached() -> Bench:
    return Bench(QuorumState(EPOCH))


def prospective() -> Bench:
    bench = unattached()
    bench.step(TimerFired(inputs.ELECTION), LATER)
    return bench


def candidate() -> Bench:
    bench = Bench(QuorumState(EPOCH - 1))
    asked = bench.sent(bench.step(TimerFired(inputs.ELECTION), LATER), 2)
    bench.step(answered(2, asked, vote_answer(True, epoch=EPOCH - 1)))
    return bench


def leader() -> Bench:
    bench = Bench(QuorumState(EPOCH - 1))
    asked = bench.sent(bench.step(TimerFired(inputs.ELECTION), LATER), 2)
    asked = bench.sent(bench.step(answered(2, asked, vote_answer(True, epoch=EPOCH - 1))), 2)
    bench.step(answered(2, asked, vote_answer(True)))
    return bench


def follower() -> Bench:
    return Bench(QuorumState(EPOCH, leader_id=2))


def resigned() -> Bench:
    return Bench(QuorumState(EPOCH, leader_id=NODE))


def failed() -> Bench:
    bench = follower()
    bench.step(DiskFailed("no space"))
    return bench


ROLES = {
    "unattached": unattached,
    "prospective": prospective,
    "candidate": candidate,
    "leader": leader,
    "follower": follower,
    "resigned": resigned,
    "failed": failed,
}


# -- inputs ------------------------------------------------------------------------------------


def vote_answer(granted: bool, epoch: int = EPOCH, leader: int = -1) -> VoteResponse:
    return messages.vote_response(ErrorCode.NONE, leader, epoch, granted)


def vote(epoch: int, log: tuple[int, int] = (4, 2), pre_vote: bool = False) -> Any:
    return received("t", messages.vote_request(CONFIG, NODE, 3, epoch, log, pre_vote))


def begin(epoch: int, leader_id: int = 2) -> Any:
    return received("t", messages.begin_request(CONFIG, NODE, QuorumState(epoch, leader_id)))


def end(epoch: int, leader_id: int = 2, first: int = 1) -> Any:
    candidates = (ReplicaKey(first), ReplicaKey(4 - first))
    return received("t", messages.end_request(CONFIG, QuorumState(epoch, leader_id), candidates))


def fetch_request(epoch: int, offset: int = 2, last: int = 4, replica: int = 3) -> FetchRequest:
    return messages.fetch_request(CONFIG, replica, epoch, (last, offset), 0)


def describe() -> Any:
    asked = TopicDataRequest(topic_name=messages.TOPIC, partitions=[PartitionDataRequest()])
    return received("t", DescribeQuorumRequest(topics=[asked]))


def answer_to_vote(bench: Bench, granted: bool, epoch: int = EPOCH, leader_id: int = -1) -> Any:
    """Node 3's answer to a vote that was asked for in this epoch, as a candidate or prospective."""
    pre_vote = bench.machine.role is Role.PROSPECTIVE
    asked = messages.vote_request(CONFIG, 3, NODE, EPOCH, (4, 2), pre_vote)
    return answered(3, asked, vote_answer(granted, epoch, leader_id))


def answer_to_fetch(bench: Bench, bounds: FetchBounds) -> Any:
    """The leader's answer to the fetch that the node has sent last, if it has sent one."""
    waiting = bench.machine._in_flight.get(2)
    asked = waiting[0] if waiting else None
    if not isinstance(asked, FetchRequest):
        asked = fetch_request(EPOCH, replica=NODE)
    return answered(2, asked, fetch_response(bounds))


def fetched(bench: Bench, epoch: int = EPOCH, high_watermark: int = 1) -> Any:
    bounds = FetchBounds(ErrorCode.NONE, 2, epoch, 2, 2, high_watermark, 0)
    return answer_to_fetch(bench, bounds)


def answer_to(make: Any, answer: Any, epoch: int = EPOCH, leader_id: int = NODE) -> Any:
    asked = make(QuorumState(EPOCH, NODE))
    return answered(3, asked, answer(ErrorCode.NONE, leader_id, epoch))


def begin_answer(epoch: int = EPOCH, leader_id: int = NODE) -> Any:
    return answer_to(
        lambda state: messages.begin_request(CONFIG, 3, state),
        messages.begin_response,
        epoch,
        leader_id,
    )


def end_answer(epoch: int = EPOCH, leader_id: int = -1) -> Any:
    return answer_to(
        lambda state: messages.end_request(CONFIG, state, (ReplicaKey(2), ReplicaKey(3))),
        messages.end_response,
        epoch,
        leader_id,
    )


def snapshot_fetch(epoch: int) -> Any:
    asked = messages.fetch_snapshot_request(CONFIG, 3, epoch, SnapshotId(1, 4), 0)
    return received("t", asked)


def snapshot_answer(epoch: int = EPOCH) -> Any:
    asked = messages.fetch_snapshot_request(CONFIG, NODE, EPOCH, SnapshotId(9, 4), 0)
    bounds = SnapshotBounds(ErrorCode.NONE, 2, epoch, SnapshotId(9, 4), 10, 0, 5)
    return answered(2, asked, messages.fetch_snapshot_response(bounds, b"12345"))


def draft_fetch(epoch: int) -> Any:
    return received(
        "t",
        FetchQuorumRecordsRequest(
            cluster_id=CONFIG.cluster_id,
            replica_id=3,
            leader_epoch=epoch,
            fetch_offset=2,
            last_fetched_epoch=4,
        ),
    )


def draft_answer(epoch: int) -> Any:
    said = messages.quorum_records_response(DraftBounds(ErrorCode.NONE, 2, epoch, 2, 2))
    return answered(2, draft_fetch(EPOCH).request, said)


def append() -> AppendRecords:
    return AppendRecords([build_batch([(None, b"new")])], "t", EPOCH)


FOUR = Voter(ReplicaKey(4, Uuid(bytes(15) + b"\4")), (Endpoint("CONTROLLER", "four", 4),), 0, 1)


def add_voter() -> Any:
    return received("t", membership.add_request(CONFIG, FOUR))


def remove_voter() -> Any:
    return received("t", membership.remove_request(CONFIG, FOUR.key))


def update_voter(epoch: int) -> Any:
    return received("t", membership.update_request(CONFIG, epoch, FOUR))


def update_answer(epoch: int = EPOCH, leader_id: int = 2) -> Any:
    asked = membership.update_request(CONFIG, EPOCH, FOUR)
    response = membership.update_response(ErrorCode.NONE, leader_id, epoch, None)
    return answered(2, asked, response)


def due(name: str) -> TimerFired:
    return TimerFired(name)


# -- effects in short --------------------------------------------------------------------------


def short(effects: list[Effect]) -> str:
    return " ".join(word for word in map(_word, effects) if word)


def _word(effect: Effect) -> str:
    if isinstance(effect, Persist):
        kind = type(effect.work).__name__
        return {
            "WriteState": "state",
            "Append": "append",
            "Truncate": "truncate",
            "DropPrefix": "drop",
        }[kind]
    if isinstance(effect, Send | SendAfterPersist):
        name = type(effect.message).__name__.removesuffix("Request")
        if isinstance(effect.message, VoteRequest):
            name = "PreVote" if effect.message.topics[0].partitions[0].pre_vote else "Vote"
        return f"{name}>{effect.to}"
    if isinstance(effect, Reply):
        return _reply(effect.value)
    return "fail" if isinstance(effect, Fail) else ""


def _reply(value: Any) -> str:
    if isinstance(value, AppendOutcome):
        return f"append!{int(value.error)}"
    if isinstance(value, FetchBounds):
        if value.error:
            return f"fetch!{int(value.error)}"
        if value.diverging:
            return f"diverging{value.diverging}"
        return f"fetch:{value.offset}-{value.upper_bound_offset}"
    if isinstance(value, SnapshotBounds):
        return f"snapshot!{int(value.error)}"
    if isinstance(value, DraftBounds):
        if value.error:
            return f"records!{int(value.error)}"
        return f"records:{value.offset}-{value.upper_bound_offset}"
    if isinstance(value, AddRaftVoterResponse | RemoveRaftVoterResponse | UpdateRaftVoterResponse):
        return f"!{value.error_code}" if value.error_code else "ok"
    partition = value.topics[0].partitions[0]
    if isinstance(value, VoteResponse) and not partition.error_code:
        return "yes" if partition.vote_granted else "no"
    if isinstance(value, DescribeQuorumResponse) and not partition.error_code:
        return f"described:{partition.leader_id}"
    return "ok" if not partition.error_code else f"!{partition.error_code}"


# Each input with what comes of it in each role. `lambda bench:` where it depends on what was sent.
TABLE: dict[str, tuple[Any, dict[str, str]]] = {
    "election timer": (
        lambda _: due(inputs.ELECTION),
        {
            "unattached": "prospective e5: PreVote>2 PreVote>3",
            "prospective": "unattached e5:",
            "candidate": "prospective e5: PreVote>2 PreVote>3",
            "leader": "leader e5: BeginQuorumEpoch>2 BeginQuorumEpoch>3",
            "follower": "follower e5: Fetch>2",
            "resigned": "prospective e5: PreVote>2 PreVote>3",
            "failed": "failed e5:",
        },
    ),
    "fetch timer": (
        lambda _: due(inputs.FETCH),
        {
            "unattached": "unattached e5:",
            "prospective": "prospective e5: PreVote>2 PreVote>3",
            "candidate": "candidate e5: Vote>2 Vote>3",
            "leader": "leader e5: BeginQuorumEpoch>2 BeginQuorumEpoch>3",
            "follower": "prospective e5: PreVote>2 PreVote>3",
            "resigned": "resigned e5:",
            "failed": "failed e5:",
        },
    ),
    "check-quorum timer": (
        lambda _: due(inputs.CHECK_QUORUM),
        {
            "unattached": "unattached e5:",
            "prospective": "prospective e5: PreVote>2 PreVote>3",
            "candidate": "candidate e5: Vote>2 Vote>3",
            "leader": "resigned e5: EndQuorumEpoch>2 EndQuorumEpoch>3",
            "follower": "follower e5: Fetch>2",
            "resigned": "resigned e5:",
            "failed": "failed e5:",
        },
    ),
    "begin-quorum timer": (
        lambda _: due(inputs.BEGIN_QUORUM),
        {
            "unattached": "unattached e5:",
            "prospective": "prospective e5: PreVote>2 PreVote>3",
            "candidate": "candidate e5: Vote>2 Vote>3",
            "leader": "leader e5: BeginQuorumEpoch>2 BeginQuorumEpoch>3",
            "follower": "follower e5: Fetch>2",
            "resigned": "resigned e5:",
            "failed": "failed e5:",
        },
    ),
    "retry and fetch-wait timers": (
        lambda _: due(inputs.RETRY),
        {
            "unattached": "unattached e5:",
            "prospective": "prospective e5: PreVote>2 PreVote>3",
            "candidate": "candidate e5: Vote>2 Vote>3",
            "leader": "leader e5: BeginQuorumEpoch>2 BeginQuorumEpoch>3",
            "follower": "follower e5: Fetch>2",
            "resigned": "resigned e5:",
            "failed": "failed e5:",
        },
    ),
    "persisted": (
        lambda _: Persisted(99),
        {
            "unattached": "unattached e5:",
            "prospective": "prospective e5:",
            "candidate": "candidate e5:",
            "leader": "leader e5:",
            "follower": "follower e5:",
            "resigned": "resigned e5:",
            "failed": "failed e5:",
        },
    ),
    "disk failed": (
        lambda _: DiskFailed("gone"),
        {role: "failed e5: fail" for role in ROLES if role != "failed"} | {"failed": "failed e5:"},
    ),
    "vote asked in an older epoch": (
        lambda _: vote(EPOCH - 1, log=(3, 9)),
        {role: f"{role} e5: !74" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: !8"},
    ),
    "vote asked in this epoch": (
        lambda _: vote(EPOCH),
        {
            "unattached": "unattached e5: state yes",
            "prospective": "prospective e5: state yes",
            "candidate": "candidate e5: no",
            "leader": "leader e5: no",
            "follower": "follower e5: no",
            "resigned": "resigned e5: no",
            "failed": "failed e5: !8",
        },
    ),
    "vote asked in this epoch, with a log behind ours": (
        lambda _: vote(EPOCH, log=(4, 1)),
        {role: f"{role} e5: no" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: !8"},
    ),
    "vote asked in a later epoch": (
        lambda _: vote(EPOCH + 2, log=(6, 1)),
        {role: "unattached e7: state yes" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: !8"},
    ),
    "vote asked in a later epoch, with a log behind ours": (
        lambda _: vote(EPOCH + 2, log=(4, 1)),
        {role: "unattached e7: state no" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: !8"},
    ),
    "pre-vote asked": (
        lambda _: vote(EPOCH, log=(5, 3), pre_vote=True),
        {
            "unattached": "unattached e5: yes",
            "prospective": "prospective e5: yes",
            "candidate": "candidate e5: yes",
            "leader": "leader e5: no",
            "follower": "follower e5: yes",
            "resigned": "resigned e5: yes",
            "failed": "failed e5: !8",
        },
    ),
    "pre-vote asked, with a log behind ours": (
        lambda _: vote(EPOCH, log=(4, 1), pre_vote=True),
        {role: f"{role} e5: no" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: !8"},
    ),
    "a leader of an older epoch": (
        lambda _: begin(EPOCH - 1),
        {role: f"{role} e5: !74" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: !8"},
    ),
    "the leader of this epoch": (
        lambda _: begin(EPOCH),
        {
            "unattached": "follower e5: state ok Fetch>2",
            "prospective": "follower e5: state ok Fetch>2",
            "candidate": "follower e5: state ok Fetch>2",
            "leader": "leader e5: !42",
            "follower": "follower e5: ok",
            "resigned": "resigned e5: !42",
            "failed": "failed e5: !8",
        },
    ),
    "a leader of a later epoch": (
        lambda _: begin(EPOCH + 1, leader_id=3),
        {role: "follower e6: state ok Fetch>3" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: !8"},
    ),
    "the leader resigns, we are first": (
        lambda _: end(EPOCH),
        {
            "unattached": "prospective e5: state ok PreVote>2 PreVote>3",
            "prospective": "prospective e5: state ok PreVote>2 PreVote>3",
            "candidate": "prospective e5: state ok PreVote>2 PreVote>3",
            "leader": "leader e5: !42",
            "follower": "prospective e5: ok PreVote>2 PreVote>3",
            "resigned": "resigned e5: !42",
            "failed": "failed e5: !8",
        },
    ),
    "the leader resigns, we are not first": (
        lambda _: end(EPOCH, first=3),
        {
            "unattached": "follower e5: state ok Fetch>2",
            "prospective": "follower e5: state ok Fetch>2",
            "candidate": "follower e5: state ok Fetch>2",
            "leader": "leader e5: !42",
            "follower": "follower e5: ok",
            "resigned": "resigned e5: !42",
            "failed": "failed e5: !8",
        },
    ),
    "fetch of this epoch": (
        lambda _: received("t", fetch_request(EPOCH)),
        {role: f"{role} e5: fetch!6" for role in ROLES if role not in ("leader", "failed")}
        | {"leader": "leader e5: fetch:2-3", "failed": "failed e5: fetch!8"},
    ),
    "fetch of an older epoch": (
        lambda _: received("t", fetch_request(EPOCH - 1)),
        {role: f"{role} e5: fetch!74" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: fetch!8"},
    ),
    "fetch of a later epoch": (
        lambda _: received("t", fetch_request(EPOCH + 1)),
        {role: f"{role} e5: fetch!75" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: fetch!8"},
    ),
    "snapshot fetch of this epoch": (
        lambda _: snapshot_fetch(EPOCH),
        {role: f"{role} e5: snapshot!6" for role in ROLES if role not in ("leader", "failed")}
        | {"leader": "leader e5: snapshot!98", "failed": "failed e5: snapshot!8"},
    ),
    "snapshot fetch of an older epoch": (
        lambda _: snapshot_fetch(EPOCH - 1),
        {role: f"{role} e5: snapshot!74" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: snapshot!8"},
    ),
    "snapshot fetch of a later epoch": (
        lambda _: snapshot_fetch(EPOCH + 1),
        {role: f"{role} e5: snapshot!75" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: snapshot!8"},
    ),
    "fetch of this epoch, in the draft's words": (
        lambda _: draft_fetch(EPOCH),
        {role: f"{role} e5: records!6" for role in ROLES if role not in ("leader", "failed")}
        | {"leader": "leader e5: records:2-3", "failed": "failed e5: records!8"},
    ),
    "fetch of an older epoch, in the draft's words": (
        lambda _: draft_fetch(EPOCH - 1),
        {role: f"{role} e5: records!74" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: records!8"},
    ),
    "fetch of a later epoch, in the draft's words": (
        lambda _: draft_fetch(EPOCH + 1),
        {role: f"{role} e5: records!75" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: records!8"},
    ),
    "describe": (
        lambda _: describe(),
        {role: f"{role} e5: !6" for role in ROLES if role != "leader"}
        | {"leader": "leader e5: described:1"},
    ),
    "a vote": (
        lambda bench: answer_to_vote(bench, True),
        {
            "unattached": "unattached e5:",
            "prospective": "candidate e6: state Vote>2 Vote>3",
            "candidate": "leader e5: state append BeginQuorumEpoch>2 BeginQuorumEpoch>3",
            "leader": "leader e5:",
            "follower": "follower e5:",
            "resigned": "resigned e5:",
            "failed": "failed e5:",
        },
    ),
    "no vote": (
        lambda bench: answer_to_vote(bench, False),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "no vote, there is a leader of this epoch": (
        lambda bench: answer_to_vote(bench, False, leader_id=2),
        {
            "unattached": "follower e5: state Fetch>2",
            "prospective": "follower e5: state Fetch>2",
            "candidate": "follower e5: state Fetch>2",
            "leader": "failed e5: fail",
            "follower": "follower e5:",
            "resigned": "failed e5: fail",
            "failed": "failed e5:",
        },
    ),
    "no vote, there is a later epoch": (
        lambda bench: answer_to_vote(bench, False, epoch=EPOCH + 1),
        {role: "unattached e6: state" for role in ROLES if role != "failed"}
        | {"failed": "failed e5:"},
    ),
    "no vote, and we are said to lead a later epoch": (
        lambda bench: answer_to_vote(bench, False, EPOCH + 1, NODE),
        {role: "unattached e6: state" for role in ROLES if role != "failed"}
        | {"failed": "failed e5:"},
    ),
    "begin answered": (
        lambda _: begin_answer(),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "begin answered with a later epoch": (
        lambda _: begin_answer(EPOCH + 1, 2),
        {role: "follower e6: state Fetch>2" for role in ROLES if role != "failed"}
        | {"failed": "failed e5:"},
    ),
    "end answered": (
        lambda _: end_answer(),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "end answered with a later epoch": (
        lambda _: end_answer(EPOCH + 1),
        {role: "unattached e6: state" for role in ROLES if role != "failed"}
        | {"failed": "failed e5:"},
    ),
    "fetch answered": (
        fetched,
        {
            "unattached": "follower e5: state Fetch>2",
            "prospective": "follower e5: state Fetch>2",
            "candidate": "follower e5: state Fetch>2",
            "leader": "failed e5: fail",
            "follower": "follower e5: Fetch>2",
            "resigned": "failed e5: fail",
            "failed": "failed e5:",
        },
    ),
    "fetch answered in a later epoch": (
        lambda bench: fetched(bench, EPOCH + 1),
        {role: "follower e6: state Fetch>2" for role in ROLES if role != "failed"}
        | {"failed": "failed e5:"},
    ),
    "snapshot fetch answered, there is a leader of this epoch": (
        lambda _: snapshot_answer(),
        {
            "unattached": "follower e5: state Fetch>2",
            "prospective": "follower e5: state Fetch>2",
            "candidate": "follower e5: state Fetch>2",
            "leader": "failed e5: fail",
            "follower": "follower e5:",
            "resigned": "failed e5: fail",
            "failed": "failed e5:",
        },
    ),
    "snapshot fetch answered in a later epoch": (
        lambda _: snapshot_answer(EPOCH + 1),
        {role: "follower e6: state Fetch>2" for role in ROLES if role != "failed"}
        | {"failed": "failed e5:"},
    ),
    "fetch answered in the draft's words, which we do not speak": (
        lambda _: draft_answer(EPOCH + 1),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "a snapshot was taken": (
        lambda _: inputs.SnapshotTaken(SnapshotId(0, 0)),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "a snapshot was installed that nobody waits for": (
        lambda _: inputs.SnapshotInstalled(SnapshotId(7, 4)),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "a snapshot was refused that nobody waits for": (
        lambda _: inputs.SnapshotRefused(SnapshotId(7, 4), "it is short"),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "the last batch is damaged, and may be uncommitted": (
        lambda _: inputs.LogDamaged(1, "crc"),
        {
            "unattached": "unattached e5: truncate",
            "prospective": "unattached e5: truncate",
            "candidate": "unattached e5: truncate",
            "leader": "resigned e5: truncate EndQuorumEpoch>2 EndQuorumEpoch>3",
            "follower": "follower e5: truncate",
            "resigned": "resigned e5: truncate",
            "failed": "failed e5:",
        },
    ),
    "a request failed": (
        lambda bench: RequestFailed(2, fetch_request(EPOCH)),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "append": (
        lambda _: append(),
        {role: f"{role} e5: append!6" for role in ROLES if role not in ("leader", "failed")}
        | {"leader": "leader e5: append", "failed": "failed e5: append!56"},
    ),
    "a voter is to be added": (
        lambda _: add_voter(),
        {role: f"{role} e5: !6" for role in ROLES if role not in ("leader", "failed")}
        | {"leader": "leader e5: !7", "failed": "failed e5: !8"},
    ),
    "a voter is to be removed": (
        lambda _: remove_voter(),
        {role: f"{role} e5: !6" for role in ROLES if role not in ("leader", "failed")}
        | {"leader": "leader e5: !7", "failed": "failed e5: !8"},
    ),
    "a voter has something to say of itself": (
        lambda _: update_voter(EPOCH),
        {role: f"{role} e5: !6" for role in ROLES if role not in ("leader", "failed")}
        | {"leader": "leader e5: !7", "failed": "failed e5: !8"},
    ),
    "a voter of an older epoch has something to say": (
        lambda _: update_voter(EPOCH - 1),
        {role: f"{role} e5: !74" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: !8"},
    ),
    "a voter of a later epoch has something to say": (
        lambda _: update_voter(EPOCH + 1),
        {role: f"{role} e5: !75" for role in ROLES if role != "failed"}
        | {"failed": "failed e5: !8"},
    ),
    "versions answered": (
        lambda _: answered(4, membership.versions_request(), ApiVersionsResponse()),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "add answered": (
        lambda _: answered(2, membership.add_request(CONFIG, FOUR), AddRaftVoterResponse()),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "remove answered": (
        lambda _: answered(
            2, membership.remove_request(CONFIG, FOUR.key), RemoveRaftVoterResponse()
        ),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "update answered": (
        lambda _: update_answer(),
        {
            "unattached": "follower e5: state Fetch>2",
            "prospective": "follower e5: state Fetch>2",
            "candidate": "follower e5: state Fetch>2",
            "leader": "failed e5: fail",
            "follower": "follower e5:",
            "resigned": "failed e5: fail",
            "failed": "failed e5:",
        },
    ),
    "update answered with a later epoch": (
        lambda _: update_answer(EPOCH + 1, 3),
        {role: "follower e6: state Fetch>3" for role in ROLES if role != "failed"}
        | {"failed": "failed e5:"},
    ),
    "kraft.version is to be raised": (
        lambda _: inputs.UpgradeKRaftVersion("t", 1, EPOCH),
        {role: f"{role} e5: append!6" for role in ROLES if role != "leader"}
        | {"leader": "leader e5: append!7"},
    ),
    "voter-change and introduction timers": (
        lambda _: due(inputs.VOTER_CHANGE),
        {
            "unattached": "unattached e5:",
            "prospective": "prospective e5: PreVote>2 PreVote>3",
            "candidate": "candidate e5: Vote>2 Vote>3",
            "leader": "leader e5: BeginQuorumEpoch>2 BeginQuorumEpoch>3",
            "follower": "follower e5: Fetch>2",
            "resigned": "resigned e5:",
            "failed": "failed e5:",
        },
    ),
    "the clock is set": (
        lambda _: inputs.ClockSet(LATER),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "resign": (
        lambda _: Resign(),
        {role: f"{role} e5:" for role in ROLES if role != "leader"}
        | {"leader": "resigned e5: EndQuorumEpoch>2 EndQuorumEpoch>3"},
    ),
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", TABLE)
def test_every_input_in_every_role(name: str, role: str) -> None:
    make, expected = TABLE[name]
    bench = ROLES[role]()
    assert bench.machine.role.value == role and bench.machine.epoch == EPOCH
    input_ = make(bench)
    after_ms = LATER if isinstance(input_, TimerFired | inputs.ClockSet) else 0
    effects = bench.step(input_, after_ms)
    machine = bench.machine
    told = f"{machine.role.value} e{machine.epoch}: {short(effects)}".strip()
    assert told == expected[role]


def test_the_table_is_complete() -> None:
    for name, (_, expected) in TABLE.items():
        assert set(expected) == set(ROLES), name
    bench = leader()
    kinds = {type(make(bench)) for make, _ in TABLE.values()}
    assert kinds == set(HANDLERS) - {Start}, "every kind of input has a row"


def test_start_takes_up_the_role_that_the_state_stands_for() -> None:
    cases = [
        (QuorumState(), (1, 2, 3), "unattached", 4),
        (QuorumState(5), (1, 2, 3), "unattached", 5),
        (QuorumState(5, voted_id=3), (1, 2, 3), "unattached", 5),
        (QuorumState(5, voted_id=1), (1, 2, 3), "unattached", 5),
        (QuorumState(5, leader_id=2), (1, 2, 3), "follower", 5),
        (QuorumState(5, leader_id=1, voted_id=1), (1, 2, 3), "resigned", 5),
        (QuorumState(5, leader_id=1), (1,), "leader", 6),
        (QuorumState(5, leader_id=2), (1,), "leader", 6),
        (QuorumState(), (1,), "leader", 5),
        (QuorumState(5, leader_id=2), (2, 3), "follower", 5),
        (QuorumState(5, leader_id=9), (2, 3), "unattached", 5),
    ]
    for state, voters, role, epoch in cases:
        machine = Bench(state, voters).machine
        assert (machine.role.value, machine.epoch) == (role, epoch), (state, voters)


def test_timers_that_fire_early_are_armed_again() -> None:
    bench = unattached()
    effects = bench.step(TimerFired(inputs.ELECTION), after_ms=1)
    assert effects == [SetTimer(inputs.ELECTION, CONFIG.election_timeout_ms)]
    assert bench.machine.role is Role.UNATTACHED
