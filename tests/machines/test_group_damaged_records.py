"""Records that make no sense are loaded, and cost at most their own group.

They come of a damaged log, of another implementation, or of a client that may write to
`__consumer_offsets`. A partition that cannot be loaded would take all of its groups with it, and a
timer whose decision fails would be tried again for ever.
"""

from __future__ import annotations

import pytest

from fencepost.machines.group.records import GroupRecord, encode_record
from fencepost.wire.records.group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from fencepost.wire.records.group_streams import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    Subtopology,
)

from .group_world import GroupWorld
from .streams_groups.world import StreamsWorld


def load(world: GroupWorld, *records: GroupRecord) -> None:
    """Have a coordinator that has loaded these records."""
    world.log += [encode_record(record) for record in records]
    world.committed = len(world.log)
    world.restart()


def consumer(
    group_id: str,
    member_id: str,
    *protocols: str,
    is_classic: bool,
    instance_id: str | None = None,
) -> GroupRecord:
    """A member; a classic one offers these protocols."""
    classic = ClassicMemberMetadata(
        session_timeout_ms=60_000,
        supported_protocols=[ClassicProtocol(name=name, metadata=b"?") for name in protocols],
    )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=instance_id,
        rebalance_timeout_ms=60_000,
        classic_member_metadata=classic if is_classic else None,
    )
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value


@pytest.mark.parametrize("others", [(), ("range",)], ids=["none", "no common one"])
def test_classic_members_without_a_common_protocol_are_no_classic_group(
    others: tuple[str, ...],
) -> None:
    world = GroupWorld()
    load(
        world,
        consumer("g", "classic", "roundrobin", is_classic=True),
        consumer("g", "other", *others, is_classic=True),
        consumer("g", "new", is_classic=False),
    )
    world.advance(45_000)  # the session of the one member that keeps the group from going back
    group = world.coordinator.groups["g"]
    assert (group.group_type, group.member_count) == ("consumer", 2)


def test_two_classic_members_of_one_instance_are_no_classic_group() -> None:
    world = GroupWorld()
    load(
        world,
        consumer("g", "one", "range", is_classic=True, instance_id="i"),
        consumer("g", "two", "range", is_classic=True, instance_id="i"),
        consumer("g", "new", is_classic=False),
    )
    world.advance(45_000)
    group = world.coordinator.groups["g"]
    assert (group.group_type, group.member_count) == ("consumer", 2)


def test_an_empty_regular_expression_does_not_keep_a_member() -> None:
    world = GroupWorld()
    key = ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="")
    value = ConsumerGroupRegularExpressionValue(topics=["t"], version=1, timestamp=1)
    load(world, (key, value), consumer("g", "m", is_classic=False))
    world.advance(45_000)
    assert world.coordinator.groups["g"].is_empty


@pytest.mark.parametrize("leader", ["nobody", None])
def test_a_classic_group_without_its_leader_loses_its_members_all_the_same(
    leader: str | None,
) -> None:
    world = GroupWorld()
    members = [
        MemberMetadata(
            member_id=member_id,
            group_instance_id=f"i-{member_id}",
            session_timeout=10_000,
            rebalance_timeout=10_000,
        )
        for member_id in ("a", "b")
    ]
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader=leader, members=members
    )
    load(world, (GroupMetadataKey(group="g"), value))
    world.join(instance="c")  # the others do not
    world.advance(60_000)
    assert world.coordinator.groups["g"].member_count <= 1


def subtopologies(*ids: str, epoch: int = 0) -> GroupRecord:
    """A topology with subtopologies of these ids."""
    value = StreamsGroupTopologyValue(
        epoch=epoch,
        subtopologies=[Subtopology(subtopology_id=one, source_topics=["in"]) for one in ids],
    )
    return StreamsGroupTopologyKey(group_id="g"), value


@pytest.mark.parametrize(
    "topology", [subtopologies("0", "1", "0"), subtopologies("0", epoch=-5)], ids=["ids", "epoch"]
)
def test_a_malformed_topology_is_loaded(topology: GroupRecord) -> None:
    world = StreamsWorld()
    key = StreamsGroupMemberMetadataKey(group_id="g", member_id="a")
    load(world, topology, (key, StreamsGroupMemberMetadataValue()))
    assert world.describe().group_id == "g"
    assert world.beat(group="another").error_code == 0
