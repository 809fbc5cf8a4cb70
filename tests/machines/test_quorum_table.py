"""Every input in every role: what becomes of the node, and what it does.

The rows are the machine's behaviour as a table, one for each pair of role and input; the test fails
if a pair has no row. The node is that of `quorum_fixtures.py`.

An expectation reads: role and epoch afterwards, then the effects in short. `state` is a durable
state write, `yes` and `no` are votes, a number after `!` is an error code.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import DiskFailed, Persisted, SetTimer, TimerFired, TruncatedBelow
from fencepost.machines.quorum import (
    QuorumState,
    RequestFailed,
    Resign,
    Role,
    Start,
    answered,
    inputs,
    membership,
    received,
)
from fencepost.machines.quorum.machine import HANDLERS
from fencepost.wire.api.add_raft_voter import AddRaftVoterResponse
from fencepost.wire.api.api_versions import ApiVersionsResponse
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterResponse

from ..in_turn import in_turn
from .quorum_fixtures import (
    CONFIG,
    EPOCH,
    FOUR,
    LATER,
    NODE,
    ROLES,
    Bench,
    add_voter,
    answer_to_vote,
    append,
    begin,
    begin_answer,
    describe,
    draft_answer,
    draft_fetch,
    due,
    end,
    end_answer,
    fetch_request,
    fetched,
    leader,
    remove_voter,
    short,
    snapshot_answer,
    snapshot_fetch,
    unattached,
    update_answer,
    update_voter,
    vote,
)

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
    "truncated below": (
        lambda bench: TruncatedBelow(bench.machine.log.end_offset),
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
    "image failed": (
        lambda _: inputs.ImageFailed("no such topic"),
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
    "no vote, and another is said to lead this epoch": (
        lambda bench: answer_to_vote(bench, False, leader_id=2),
        {
            "unattached": "follower e5: state Fetch>2",
            "prospective": "follower e5: state Fetch>2",
            "candidate": "follower e5: state Fetch>2",
            "leader": "leader e5:",
            "follower": "follower e5:",
            "resigned": "resigned e5:",
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
    "a snapshot was installed that the machine did not ask for": (
        lambda _: inputs.SnapshotInstalled(SnapshotId(7, 4)),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "a snapshot was refused that the machine did not ask for": (
        lambda _: inputs.SnapshotRefused(SnapshotId(7, 4), "it is short"),
        {role: f"{role} e5:" for role in ROLES},
    ),
    "the last batch is damaged, and may be uncommitted": (
        lambda _: inputs.LogDamaged(1, "crc"),
        {
            "unattached": "unattached e5: state truncate",
            "prospective": "unattached e5: state truncate",
            "candidate": "unattached e5: state truncate",
            "leader": "resigned e5: state truncate EndQuorumEpoch>2 EndQuorumEpoch>3",
            "follower": "follower e5: state truncate Fetch>2",
            "resigned": "resigned e5: state truncate",
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
    "voter-change and voter-request timers": (
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
    "resign": (
        lambda _: Resign(),
        {role: f"{role} e5:" for role in ROLES if role != "leader"}
        | {"leader": "resigned e5: EndQuorumEpoch>2 EndQuorumEpoch>3"},
    ),
}


@pytest.mark.parametrize("role", ROLES)
@in_turn("name", TABLE)
def test_every_input_in_every_role(name: str, role: str) -> None:
    make, expected = TABLE[name]
    bench = ROLES[role]()
    assert bench.machine.role.value == role and bench.machine.epoch == EPOCH
    input_ = make(bench)
    after_ms = LATER if isinstance(input_, TimerFired) else 0
    effects = bench.step(input_, after_ms)
    machine = bench.machine
    told = f"{machine.role.value} e{machine.epoch}: {short(effects)}".strip()
    assert told == expected[role]


def test_the_table_is_complete() -> None:
    for name, (_, expected) in TABLE.items():
        assert set(expected) == set(ROLES), name
    bench = leader()
    kinds = {type(make(bench)) for make, _ in TABLE.values()}
    of_the_draft = {inputs.QuorumRecordsReceived, inputs.QuorumRecordsAnswered}
    assert kinds == (set(HANDLERS) - {Start}) | of_the_draft, "every kind of input has a row"


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
    deadline_ms = bench.now_ms + CONFIG.election_timeout_ms
    effects = bench.step(TimerFired(inputs.ELECTION), after_ms=1)
    assert effects == [SetTimer(inputs.ELECTION, deadline_ms)]
    assert bench.machine.role is Role.UNATTACHED
