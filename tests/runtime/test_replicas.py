"""What a broker does when the metadata give it a replica."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fencepost.machines.image import PartitionDelta, PartitionImage
from fencepost.runtime.replicas import is_new_here, is_only_copy
from fencepost.wire.types import Uuid


def partition(replicas: tuple[int, ...], epoch: int) -> PartitionImage:
    return PartitionImage(replicas, replicas, replicas[0], 0, epoch)


@pytest.mark.parametrize(
    ("old", "new", "is_new"),
    [
        (None, partition((1, 2), 0), True),
        (None, partition((1, 2), 3), False),  # as when the broker starts
        (partition((2, 3), 4), partition((1, 2, 3), 5), True),  # a reassignment
        (partition((1, 2), 4), partition((1, 2), 5), False),
    ],
)
def test_whether_a_broker_can_have_had_a_replica(
    old: PartitionImage | None, new: PartitionImage, is_new: bool
) -> None:
    """Only what cannot be in a directory that is offline may be made anew in another one."""
    change = PartitionDelta("t", Uuid(bytes(16)), 0, old, new)
    assert is_new_here(change, 1) is is_new


@pytest.mark.parametrize(
    ("isr", "eligible", "last_known", "is_only"),
    [
        ((1,), (), (), True),
        ((1, 2), (), (), False),
        ((2,), (), (), False),
        ((), (1,), (), True),
        ((), (1, 2), (), False),
        ((), (2,), (1,), False),
        ((), (), (1,), True),
        ((), (), (2,), False),
        ((), (), (), True),
    ],
)
def test_whether_another_replica_has_all_of_the_records(isr, eligible, last_known, is_only):
    image = replace(
        partition((1, 2), 3),
        isr=isr,
        eligible_leader_replicas=eligible,
        last_known_elr=last_known,
    )
    assert is_only_copy(image, 1) is is_only
