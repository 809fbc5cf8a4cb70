"""What is said of each replica's log beside the leader's: kinds, numbers and epochs."""

from __future__ import annotations

import pytest

from fencepost.client.lineage import ReplicaLineage
from fencepost.client.metadata import PartitionInfo
from fencepost.client.offsets import EpochSpan
from fencepost.views.replica_findings import replica_findings

Span = tuple[int, int, int]
LEADERS: list[Span] = [(0, 0, 3), (2, 3, 9)]


def said_of(leader: list[Span], replica: list[Span], isr: tuple[int, ...] = (1, 2)) -> list[str]:
    """The kind and the sentence of replica 2, behind those of the leader, 1."""
    info = PartitionInfo(0, 1, 2, (1, 2), isr, ())
    lineages = [
        ReplicaLineage(broker, tuple(EpochSpan(*one) for one in spans))
        for broker, spans in ((1, leader), (2, replica))
    ]
    first, second = replica_findings(info, lineages)
    assert (first.broker, first.kind, second.broker) == (1, "leads", 2)
    return [second.kind, second.text]


@pytest.mark.parametrize(
    ("leader", "replica", "kind", "text"),
    [
        (LEADERS, LEADERS, "same", "broker 2, in sync, has the same log up to 9"),
        ([], [], "same", "broker 2, in sync, has the same log up to 0"),
        (LEADERS, [], "empty", "broker 2, in sync, has no records"),
        (
            LEADERS,
            [(0, 0, 3), (2, 3, 8)],
            "behind",
            "broker 2, in sync, has the same log up to 8 and lacks the last 1 offset",
        ),
        (
            LEADERS,
            [(0, 0, 3), (1, 3, 7)],
            "diverges",
            "broker 2 has 4 records of epoch 1 (offsets 3 to 7) that leader 1 does not have; it"
            " cuts them when it follows",
        ),
        (
            LEADERS,
            [(0, 0, 5), (1, 5, 6)],
            "diverges",
            "broker 2 has 3 records of epochs 0 to 1 (offsets 3 to 6) that leader 1 does not have;"
            " it cuts them when it follows",
        ),
    ],
)
def test_a_replica_is_held_against_its_leader(
    leader: list[Span], replica: list[Span], kind: str, text: str
) -> None:
    assert said_of(leader, replica) == [kind, text]


def test_who_is_out_of_sync_is_said_to_be() -> None:
    assert said_of(LEADERS, [(0, 0, 2)], isr=(1,)) == [
        "behind",
        "broker 2, out of sync, has the same log up to 2 and lacks the last 7 offsets",
    ]
