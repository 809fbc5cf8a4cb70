"""Which replica a consumer is sent to: racks, and who has come furthest."""

from __future__ import annotations

import pytest

from fencepost.machines.fetch import ReadReplica, choose_by_rack
from fencepost.machines.partition import FollowerFetched

from .test_partition_produce import Leader

FAR, NEAR = "east", "west"


@pytest.mark.parametrize(
    ("rack", "leader_rack", "others", "chosen"),
    [
        pytest.param("", FAR, [ReadReplica(2, "", 9, 0)], -1, id="no-rack"),
        pytest.param(NEAR, FAR, [], -1, id="nobody"),
        pytest.param(NEAR, FAR, [ReadReplica(2, FAR, 9, 0)], -1, id="nobody-near"),
        pytest.param(NEAR, FAR, [ReadReplica(2, None, 9, 0)], -1, id="rack-unknown"),
        pytest.param(NEAR, NEAR, [ReadReplica(2, NEAR, 9, 0)], -1, id="leader-is-near"),
        pytest.param(NEAR, None, [ReadReplica(2, NEAR, 9, 0)], 2, id="one-is-near"),
        pytest.param(
            NEAR,
            FAR,
            [ReadReplica(2, NEAR, 8, 0), ReadReplica(3, NEAR, 9, 50), ReadReplica(4, FAR, 99, 0)],
            3,
            id="the-furthest-of-the-near",
        ),
        pytest.param(
            NEAR,
            FAR,
            [ReadReplica(2, NEAR, 9, 10), ReadReplica(3, NEAR, 9, 50)],
            2,
            id="then-who-was-caught-up-last",
        ),
        pytest.param(
            NEAR, FAR, [ReadReplica(3, NEAR, 9, 1), ReadReplica(2, NEAR, 9, 1)], 3, id="then-by-id"
        ),
    ],
)
def test_the_nearest_that_has_come_furthest(
    rack: str, leader_rack: str | None, others: list[ReadReplica], chosen: int
) -> None:
    assert choose_by_rack(rack, leader_rack, others) == chosen


def test_only_who_is_in_sync_and_holds_the_offset_comes_into_question() -> None:
    leader = Leader((1, 2, 3), isr=(1, 2))
    leader.produce(count=5)

    def holding(offset: int) -> list[int]:
        return [broker_id for broker_id, _ in leader.machine.in_sync_holding(offset)]

    assert holding(0) == [], "it has not fetched yet"
    leader.feed(fetched(2, 4, 1))
    leader.feed(fetched(3, 0, 0))
    assert [holding(offset) for offset in range(6)] == [[], [2], [2], [2], [2], []]


def fetched(replica_id: int, offset: int, log_start_offset: int) -> FollowerFetched:
    return FollowerFetched(replica_id, offset, 100 + replica_id, 1, log_start_offset)
