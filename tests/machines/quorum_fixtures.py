"""One machine on a bench: in every role, with whatever can be said to it, and its effects in short.

The node is 1 of the voters 1, 2, 3, in epoch 5, with a log of two batches of epoch 4 (offsets 0 and
1) and, if it leads, one of epoch 5.
"""

from __future__ import annotations

from typing import Any

from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import (
    Append,
    DiskFailed,
    Effect,
    Fail,
    Persist,
    Reply,
    Send,
    SendAfterPersist,
    TimerFired,
    Truncate,
)
from fencepost.machines.quorum import (
    AppendOutcome,
    AppendRecords,
    DraftAdapter,
    DraftBounds,
    FetchBounds,
    QuorumConfig,
    QuorumMachine,
    QuorumState,
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
from fencepost.machines.quorum.role_changes import SUCCESSION_STEP_MS
from fencepost.machines.quorum.voters import Endpoint, ReplicaKey, Voter
from fencepost.wire.api.add_raft_voter import AddRaftVoterResponse
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
FETCH_TIMEOUT_MS = CONFIG.fetch_timeout_ms + SUCCESSION_STEP_MS
"""How long the node waits for leader 2: it is the second to stand, behind 3."""


class Bench:
    """One machine, whose appends and truncations go to a list."""

    def __init__(self, state: QuorumState, voters: tuple[int, ...] = (1, 2, 3)) -> None:
        self.log = ListLog()
        batches = [RecordBatch.parse(build_batch([(None, b"old")])) for _ in range(2)]
        self.log.append(Append(batches, leader_epoch=4))
        self.log.durable_offset = 2
        self.machine = QuorumMachine(NODE, voters, self.log, state, CONFIG)
        self._adapter = DraftAdapter(self.machine, self.log)
        self.now_ms = -7_000
        self.wall_ahead_ms = 1_700_000_000_000
        self.step(Start([0]))

    @property
    def wall_ms(self) -> int:
        """What the wall clock shows; `wall_ahead_ms` sets it."""
        return self.now_ms + self.wall_ahead_ms

    def step(self, input_: Any, after_ms: int = 0) -> list[Effect]:
        """Step and carry out what concerns the log."""
        self.now_ms += after_ms
        effects = self._adapter.step(input_, self.now_ms, self.wall_ms)
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
    waiting = bench.machine.requests.in_flight.get(2)
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


def reply_to(bench: Bench, request: Any, after_ms: int = 0) -> Any:
    """What a request is answered with at once."""
    effects = bench.step(received("t", request), after_ms)
    replies = [e.value for e in effects if isinstance(e, Reply)]
    assert len(replies) == 1, effects
    return replies[0]
