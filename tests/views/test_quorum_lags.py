"""How far nodes of the quorum are behind, as its leader sees them."""

from __future__ import annotations

from fencepost.client.quorum import QuorumDescription, QuorumReplica
from fencepost.views.quorum import quorum_rows, quorum_view
from fencepost.wire.types import Uuid


def replica(node_id: int, end_offset: int, fetched_ms: int = -1) -> QuorumReplica:
    return QuorumReplica(node_id, Uuid.ZERO, end_offset, fetched_ms, -1)


def quorum(voters: list[QuorumReplica], observers: list[QuorumReplica]) -> QuorumDescription:
    return QuorumDescription(1, 4, 90, voters, observers, {})


def test_a_lag_is_up_to_the_end_of_the_leaders_log():
    view = quorum_view(quorum([replica(1, 100), replica(2, 97)], [replica(3, -1)]))
    assert [(one.node_id, one.role, one.lag) for one in view.replicas] == [
        (1, "leader", 0),
        (2, "follower", 3),
        (3, "observer", None),
    ]


def test_of_a_leader_that_is_no_voter_the_high_watermark_is_known_and_no_lag_is_negative():
    view = quorum_view(quorum([replica(2, 97), replica(3, 85)], []))
    assert [one.lag for one in view.replicas] == [0, 5]


def test_times_are_ages_and_never_of_the_future():
    view = quorum_view(quorum([replica(1, 9, 1_000), replica(2, 9, 5_000), replica(3, 9)], []))
    assert [row.fetched for row in quorum_rows(view, 3_500)] == ["2.5 s ago", "0.0 s ago", None]
