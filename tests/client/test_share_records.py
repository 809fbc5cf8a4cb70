"""Share consumers without I/O: acquired records, acknowledgements, sessions, membership."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.batch.records import build_batch
from fencepost.client.consumer_membership import IdPartition
from fencepost.client.errors import BrokerError
from fencepost.client.metadata import Node, TopicPartition
from fencepost.client.share_membership import ShareMembership
from fencepost.client.share_records import (
    GAP,
    AcknowledgeType,
    Delivered,
    Range,
    read_acquired,
)
from fencepost.client.share_session import EPOCH_MAX, FetchLimits, ShareSession
from fencepost.wire.api.share_fetch import AcquiredRecords
from fencepost.wire.api.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
WHERE = TopicPartition("t", 0)
TOPIC = Uuid(bytes(range(16)))
LIMITS = FetchLimits(100, 1, 1 << 20, 500, False)


def batch(first: int, count: int) -> bytes:
    values = [(None, b"%d" % (first + index)) for index in range(count)]
    return build_batch(values, base_offset=first)


def acquired(first: int, last: int, count: int = 1) -> AcquiredRecords:
    return AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)


def read(blob: bytes, *ranges: AcquiredRecords) -> Any:
    return read_acquired(WHERE, memoryview(blob), ranges)


# -- what was acquired -----------------------------------------------------------------------------


def test_only_what_was_acquired_is_handed_out_with_its_delivery_count():
    found = read(batch(10, 5) + batch(15, 5), acquired(17, 17, 3), acquired(12, 13))
    assert [(one.offset, one.value, one.delivery_count) for one in found.records] == [
        (12, b"12", 1),
        (13, b"13", 1),
        (17, b"17", 3),
    ]
    assert (found.unread, found.error) == ([], None)


def test_offsets_without_a_record_are_gaps():
    found = read(batch(11, 2) + batch(15, 1), acquired(10, 17))
    assert [one.offset for one in found.records] == [11, 12, 15]
    gaps = [Range(10, 10), Range(13, 14), Range(16, 17)]
    assert found.unread == [(gap, GAP) for gap in gaps]


def test_a_range_that_no_memory_could_hold_is_one_gap():
    found = read(b"", acquired(0, 2**62))
    assert found.unread == [(Range(0, 2**62), GAP)]


def test_from_a_corrupt_batch_on_records_are_rejected():
    corrupt = bytearray(batch(12, 2))
    corrupt[-1] ^= 1
    found = read(batch(10, 2) + bytes(corrupt), acquired(10, 13))
    assert [one.offset for one in found.records] == [10, 11]
    assert found.unread == [(Range(12, 13), REJECT)]
    assert found.error is not None


# -- what becomes of records -----------------------------------------------------------------------


def delivered(*offsets: int) -> Delivered:
    found = Delivered(TOPIC)
    for offset in offsets:
        found.hand_out(offset)
    return found


def test_acknowledgements_are_stretches_of_offsets():
    found = delivered(1, 2, 3, 5, 6)
    for offset, kind in ((2, RELEASE), (1, ACCEPT), (3, ACCEPT), (5, REJECT), (6, REJECT)):
        assert found.say(offset, kind)
    found.unread.append((Range(4, 4), GAP))
    assert found.take().batches() == [
        (Range(1, 3), [ACCEPT, RELEASE, ACCEPT]),
        (Range(4, 4), [GAP]),
        (Range(5, 6), [REJECT]),
    ]
    assert not found.is_to_be_sent


def test_what_is_said_can_be_said_otherwise_until_it_is_sent():
    found = delivered(1)
    assert found.say(1, ACCEPT)
    assert found.say(1, REJECT)
    assert found.take().types == {1: REJECT}
    assert not found.say(1, ACCEPT)
    assert not found.say(2, ACCEPT)


def test_a_renewed_record_can_be_acknowledged_again():
    found = delivered(1)
    found.say(1, RENEW)
    assert found.renews
    said = found.take()
    assert not found.say(1, ACCEPT)  # it may not be locked any more
    found.on_renewed(said)
    assert found.say(1, ACCEPT)


def test_a_record_that_comes_again_is_to_be_acknowledged_again():
    found = delivered(1)
    found.say(1, ACCEPT)
    found.hand_out(1)
    assert (list(found.unsaid), found.said) == ([1], {})


@given(st.dictionaries(st.integers(0, 40), st.sampled_from([ACCEPT, RELEASE, REJECT])))
def test_batches_say_of_every_offset_what_was_said(kinds: dict[int, AcknowledgeType]):
    found = delivered(*sorted(kinds))
    for offset, kind in kinds.items():
        found.say(offset, kind)
    told: dict[int, int] = {}
    last = -1
    for at, types in found.take().batches():
        assert last < at.first <= at.last  # in order, as brokers want them
        assert len(types) in (1, at.last - at.first + 1)
        last = at.last
        for index, offset in enumerate(range(at.first, at.last + 1)):
            told[offset] = types[index] if len(types) > 1 else types[0]
    assert told == kinds


# -- sessions --------------------------------------------------------------------------------------


def session() -> ShareSession:
    connection: Any = SimpleNamespace(is_open=True)
    return ShareSession("g", "me", Node(1, "h", 9), connection)


def wanted(*numbers: int) -> dict[IdPartition, TopicPartition]:
    return {IdPartition(TOPIC, number): TopicPartition("t", number) for number in numbers}


def test_a_session_opens_with_all_partitions_and_goes_on_with_changes():
    one = session()
    first = one.fetch_request(wanted(0, 1), LIMITS, {})
    assert (first.share_session_epoch, len(first.topics[0].partitions)) == (0, 2)
    assert not one.is_open
    one.on_answered(is_fetch=True)
    second = one.fetch_request(wanted(1, 2), LIMITS, {})
    assert second.share_session_epoch == 1
    assert [part.partition_index for part in second.topics[0].partitions] == [2]
    assert second.forgotten_topics_data[0].partitions == [0]
    one.on_answered(is_fetch=True)
    assert one.is_open
    assert one.fetch_request(wanted(1, 2), LIMITS, {}).topics == []


def test_a_fetch_carries_acknowledgements_of_what_it_fetches():
    one = session()
    one.fetch_request(wanted(0), LIMITS, {})
    one.on_answered(is_fetch=True)
    one.deliver(WHERE, TOPIC).hand_out(7)
    one.say(WHERE, 7, ACCEPT)
    request = one.fetch_request(wanted(0), LIMITS, one.take([WHERE]))
    (part,) = request.topics[0].partitions
    (acknowledged,) = part.acknowledgement_batches
    assert (acknowledged.first_offset, acknowledged.acknowledge_types) == (7, [ACCEPT])


def test_a_renewal_is_marked_and_the_end_has_epoch_minus_one():
    one = session()
    one.fetch_request(wanted(0), LIMITS, {})
    one.on_answered(is_fetch=True)
    one.deliver(WHERE, TOPIC).hand_out(7)
    one.say(WHERE, 7, RENEW)
    request = one.acknowledge_request(one.take())
    assert (request.is_renew_ack, request.share_session_epoch) == (True, 1)
    assert one.acknowledge_request({}, closes=True).share_session_epoch == -1


def test_the_epoch_wraps_to_one():
    one = session()
    one.epoch = EPOCH_MAX
    one.on_answered(is_fetch=False)
    assert one.epoch == 1


def test_another_topic_of_the_name_has_nothing_handed_out():
    one = session()
    one.deliver(WHERE, TOPIC).hand_out(1)
    assert one.deliver(WHERE, Uuid.METADATA_TOPIC_ID).unsaid == {}


# -- membership ------------------------------------------------------------------------------------


def test_topics_are_said_when_joining_when_changed_and_after_a_lost_answer():
    member = ShareMembership("g", "me")
    member.subscribe(("t",))
    first = member.heartbeat()
    assert (first.member_epoch, first.subscribed_topic_names) == (0, ["t"])
    parts = [TopicPartitions(topic_id=TOPIC, partitions=[0])]
    joined = ShareGroupHeartbeatResponse(
        member_epoch=2, heartbeat_interval_ms=500, assignment=Assignment(topic_partitions=parts)
    )
    member.on_response(first, joined, 0)
    assert (member.assignment, member.wait_ms(0)) == (frozenset(wanted(0)), 500)
    quiet = member.heartbeat()
    assert (quiet.member_epoch, quiet.subscribed_topic_names) == (2, None)
    assert member.heartbeat().subscribed_topic_names == ["t"]  # nothing was answered
    kept = ShareGroupHeartbeatResponse(member_epoch=3, heartbeat_interval_ms=500)
    member.on_response(quiet, kept, 0)
    assert member.assignment == frozenset(wanted(0))
    member.subscribe(("t", "u"))
    assert (member.wait_ms(0), member.heartbeat().subscribed_topic_names) == (0, ["t", "u"])
    request = member.heartbeat()
    member.subscribe(("v",))
    member.on_response(request, kept, 10)
    assert member.wait_ms(10) == 0  # the topics have changed since


@pytest.mark.parametrize(
    "code",
    [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND],
)
def test_a_member_that_was_put_out_joins_again(code: ErrorCode):
    member = ShareMembership("g", "me", topics=("t",), member_epoch=4)
    member.on_response(member.heartbeat(), ShareGroupHeartbeatResponse(error_code=code), 0)
    again = member.heartbeat()
    assert (again.member_id, again.member_epoch, again.subscribed_topic_names) == ("me", 0, ["t"])


def test_what_joining_again_cannot_help_is_raised():
    member = ShareMembership("g", "me", topics=("t",))
    refused = ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
    with pytest.raises(BrokerError, match="GROUP_MAX_SIZE_REACHED"):
        member.on_response(member.heartbeat(), refused, 0)
    assert member.wait_ms(0) == 100
