"""A fetcher and leaders that lose sessions, are old, have topics without ids, or lie."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fencepost.machines.fetcher import NoticeKind, Unfollow
from fencepost.machines.partition import Diverged, Fetched
from fencepost.wire.api import fetch, offset_for_leader_epoch as epochs
from fencepost.wire.errors import ErrorCode

from .fetcher_fixtures import BROKER, CONFIG, EPOCH, TOPIC_IDS, Hand, part, partition, records

T0, T1, U0 = partition(0), partition(1), partition(0, "u")


def started(*offsets: int) -> Hand:
    """Partitions of topic t at these offsets, in a session; the next Fetch is under way."""
    hand = Hand()
    for number, offset in enumerate(offsets):
        hand.follow(partition(number), offset, 4)
    hand.answer_fetch(part(0), session_id=0)
    hand.progress(T0, offsets[0], 4)
    if len(offsets) > 1:
        hand.answer_fetch(*(part(number) for number in range(len(offsets))))
        for number in range(1, len(offsets)):
            hand.progress(partition(number), offsets[number], 4)
    else:
        hand.answer_fetch(part(0))
    assert hand.is_asking
    hand.told.clear()
    return hand


# -- sessions --------------------------------------------------------------------------------------


def test_epochs_of_a_session_count_up_and_a_lost_one_is_begun_anew() -> None:
    hand = started(20)
    assert [(one.request.session_id, one.request.session_epoch) for one in hand.asked] == [
        (0, 0),
        (0, 0),
        (5, 1),
    ]
    hand.answer_fetch()
    assert (hand.last.session_id, hand.last.session_epoch) == (5, 2)
    hand.answer_fetch(session_id=0, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert (hand.last.session_id, hand.last.session_epoch) == (0, 0)
    assert hand.fetched() == {("t", 0): (20, EPOCH, 4)}


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR]
)
def test_a_session_in_disorder_is_closed_for_another_one(error: ErrorCode) -> None:
    hand = started(20)
    hand.answer_fetch(error=error)
    assert (hand.last.session_id, hand.last.session_epoch) == (5, 0)
    assert hand.fetched() == {("t", 0): (20, EPOCH, 4)}


def test_a_leader_that_refuses_every_session_is_asked_seldom() -> None:
    hand = started(20)
    for _ in range(2):
        hand.answer_fetch(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert not hand.is_asking
    began_ms = hand.now_ms
    hand.wait()
    assert hand.now_ms == began_ms + CONFIG.backoff_ms


def test_a_leader_without_sessions_is_told_everything_and_partitions_take_turns() -> None:
    hand = Hand()
    hand.follow(T0, 20, 4)
    hand.answer_fetch(part(0), session_id=0)
    hand.follow(T1, 7, 4)
    hand.progress(T0, 20, 4)
    hand.answer_fetch(part(0, records=records(20)), part(1), session_id=0)
    hand.progress(T1, 7, 4)
    hand.progress(T0, 21, EPOCH)
    assert list(hand.fetched()) == [("t", 1), ("t", 0)], "who had records is named last"
    assert hand.last.session_epoch == 0
    hand.told.clear()
    hand.answer_fetch(part(1), part(0), session_id=0)
    assert hand.told == [], "nothing new for anybody"
    assert hand.is_asking


@pytest.mark.parametrize("parts", [(part(0), part(7)), (part(7),)])
def test_an_answer_about_strangers_is_not_used(parts: tuple[fetch.PartitionData, ...]) -> None:
    hand = started(20)
    hand.answer_fetch(*parts, part(0, records=records(20)))
    assert hand.told == []
    assert (hand.last.session_id, hand.last.session_epoch) == (5, 0)


def test_a_full_answer_that_lacks_a_partition_is_not_used() -> None:
    hand = started(20, 7)
    hand.fail()
    hand.wait()
    hand.answer_fetch(part(0, records=records(20)))
    assert hand.told == []
    assert sorted(hand.fetched()) == [("t", 0), ("t", 1)]
    assert hand.last.session_epoch == 0


def test_a_topic_made_anew_is_another_partition() -> None:
    hand = started(20)
    anew = T0._replace(topic_id=TOPIC_IDS["u"])
    hand.feed(Unfollow(T0))
    hand.follow(anew, 0, -1)
    hand.answer_fetch(part(0, records=records(20)))  # of the old one
    assert hand.told == []
    assert [topic.topic_id for topic in hand.last.topics] == [TOPIC_IDS["u"]]
    assert [topic.topic_id for topic in hand.last.forgotten_topics_data] == [TOPIC_IDS["t"]]


# -- topics without ids ----------------------------------------------------------------------------


def test_names_are_used_where_a_topic_has_no_id() -> None:
    hand = started(20)
    nameless = partition(0, "without")
    hand.follow(nameless, 3, 1)
    hand.answer_fetch()
    asked = hand.asked[-1]
    assert (asked.lowest, asked.highest) == (12, 12)
    assert hand.last.replica_id == BROKER
    assert hand.last.session_epoch == 0, "a session has ids or names"
    assert sorted(hand.fetched()) == [("t", 0), ("without", 0)]
    response = fetch.FetchResponse(
        session_id=6,
        responses=[
            fetch.FetchableTopicResponse(topic="t", partitions=[part(0)]),
            fetch.FetchableTopicResponse(topic="without", partitions=[part(0, high_watermark=9)]),
        ],
    )
    hand.answer(response)
    assert [told for told, _ in hand.told] == [nameless]
    hand.progress(nameless, 3, 1)
    hand.feed(Unfollow(nameless))
    hand.answer(fetch.FetchResponse(session_id=6))
    assert (hand.asked[-1].lowest, hand.asked[-1].highest) == (15, 18)


# -- old leaders -----------------------------------------------------------------------------------


def old(offset: int, last_epoch: int) -> Hand:
    """A leader below Fetch v12, and a follower that has not asked it anything yet."""
    hand = Hand()
    hand.follow(T0, offset, last_epoch)
    hand.fail(is_unsupported=True)
    assert (hand.asked[-1].lowest, hand.asked[-1].highest) == (12, 14)
    assert hand.last.replica_id == BROKER
    assert hand.last.replica_state.replica_id == -1
    hand.fail(is_unsupported=True)
    return hand


def asked_epoch(hand: Hand) -> tuple[int, int]:
    """The epoch whose end is asked for, and the current one."""
    assert isinstance(hand.last, epochs.OffsetForLeaderEpochRequest)
    assert hand.last.replica_id == BROKER
    (asked,) = hand.last.topics[0].partitions
    return asked.leader_epoch, asked.current_leader_epoch


def answer_epoch(hand: Hand, epoch: int, end_offset: int, error: int = 0) -> None:
    end = epochs.EpochEndOffset(
        partition=0, leader_epoch=epoch, end_offset=end_offset, error_code=int(error)
    )
    topic = epochs.OffsetForLeaderTopicResult(topic="t", partitions=[end])
    hand.answer(epochs.OffsetForLeaderEpochResponse(topics=[topic]))


def test_an_old_leader_is_asked_where_epochs_end_until_they_agree() -> None:
    """KIP-279: several rounds, when the leader lacks our epoch."""
    hand = old(40, 7)
    assert asked_epoch(hand) == (7, EPOCH)
    answer_epoch(hand, 5, 30)
    assert hand.told == [(T0, Diverged(EPOCH, 5, 30))]
    hand.progress(T0, 20, 3)  # ours had 3 in front of 7
    assert asked_epoch(hand) == (3, EPOCH)
    answer_epoch(hand, 3, 12)
    hand.progress(T0, 12, 3)
    assert isinstance(hand.last, fetch.FetchRequest)
    assert (hand.asked[-1].lowest, hand.asked[-1].highest) == (9, 11)
    assert hand.fetched() == {("t", 0): (12, EPOCH, -1)}, "v11 has no field for it"
    assert hand.last.replica_id == BROKER


def test_an_old_leader_that_agrees_is_fetched_from_at_once() -> None:
    hand = old(40, 7)
    answer_epoch(hand, 7, 50)
    hand.progress(T0, 40, 7)
    assert hand.fetched() == {("t", 0): (40, EPOCH, -1)}
    hand.answer_fetch(part(0, records=records(40)))
    hand.progress(T0, 41, EPOCH)
    assert hand.fetched() == {("t", 0): (41, EPOCH, -1)}, "not compared again in this epoch"


def test_an_old_leader_that_knows_no_epoch_leaves_us_our_high_watermark() -> None:
    hand = old(40, 7)
    answer_epoch(hand, -1, -1)
    assert hand.told == [(T0, Diverged(EPOCH, -1, -1))]
    hand.progress(T0, 33, 7)
    assert hand.fetched() == {("t", 0): (33, EPOCH, -1)}


def test_an_old_leader_of_another_epoch_is_asked_again_later() -> None:
    hand = old(40, 7)
    answer_epoch(hand, -1, -1, ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert hand.told == []
    hand.wait()
    assert asked_epoch(hand) == (7, EPOCH)
    answer_epoch(hand, -1, -1, ErrorCode.FENCED_LEADER_EPOCH)
    assert hand.fetcher.stopped == 1
    assert hand.fetcher.notices[-1].kind is NoticeKind.STOPPED


def test_a_leader_that_fails_may_be_a_newer_one_when_it_is_back() -> None:
    hand = old(40, 7)
    answer_epoch(hand, 7, 50)
    hand.progress(T0, 40, 7)
    hand.fail()
    hand.wait()
    assert (hand.asked[-1].lowest, hand.asked[-1].highest) == (15, 18)
    assert hand.fetched() == {("t", 0): (40, EPOCH, 7)}


def test_a_leader_that_is_too_old_is_asked_seldom() -> None:
    hand = old(40, 7)
    hand.fail(is_unsupported=True)
    assert not hand.is_asking
    assert hand.fetcher.notices[-1].kind is NoticeKind.UNREACHABLE


# -- liars -----------------------------------------------------------------------------------------


def lie(draw: random.Random) -> Any:
    """An answer of somebody who says anything."""
    numbers = [-(1 << 31), -1, 0, 1, 7, 20, (1 << 31) - 1]
    offsets = [-(1 << 63), -1, 0, 3, 20, 21, (1 << 63) - 1]
    pick = draw.choice
    kind = draw.randrange(6)
    if kind == 0:
        return epochs.OffsetForLeaderEpochResponse(
            topics=[
                epochs.OffsetForLeaderTopicResult(
                    topic=pick(["t", "u", ""]),
                    partitions=[
                        epochs.EpochEndOffset(
                            partition=pick(numbers),
                            leader_epoch=pick(numbers),
                            end_offset=pick(offsets),
                            error_code=pick([0, 0, 1, 74, 75, 999]),
                        )
                    ],
                )
            ]
        )
    data = bytearray(records(pick([0, 20, 21]), pick([3, EPOCH, EPOCH + 1]), 2) * draw.randrange(4))
    if data and draw.randrange(2):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    parts = [
        part(
            pick([0, 0, 1, 5]),
            pick([0, 0, 0, 1, 6, 74, 75, 76, 109, 999, -2]),
            records=pick([bytes(data), None, b"", [bytes(data)], bytes(data)[:-1]]),
            high_watermark=pick(offsets),
            log_start_offset=pick(offsets),
            diverging_epoch=fetch.EpochEndOffset(
                epoch=pick([-1, -1, *numbers]), end_offset=pick([-1, -1, *offsets])
            ),
        )
        for _ in range(draw.randrange(4))
    ]
    topic = fetch.FetchableTopicResponse(
        topic=pick(["", "t"]), topic_id=pick([TOPIC_IDS["t"], TOPIC_IDS["u"]]), partitions=parts
    )
    return fetch.FetchResponse(
        session_id=pick([0, 5, -1]),
        error_code=pick([0, 0, 0, 0, 70, 71, 106, 31]),
        responses=[topic] if parts else [],
    )


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_leader_says_the_fetcher_goes_on_and_does_not_spin(seed: int) -> None:
    draw = random.Random(seed)
    hand = Hand()
    hand.follow(T0, 20, 4)
    hand.follow(T1, 0, -1)
    for step in range(60):
        told, before = len(hand.told), len(hand.asked)
        if hand.is_asking:
            hand.answer(lie(draw)) if draw.randrange(8) else hand.fail()
        for one, order in hand.told[told:]:
            moved = isinstance(order, Fetched) and order.batches
            offset = order.batches[-1].header.next_offset if moved else draw.choice([0, 20])
            hand.progress(one, offset, draw.choice([-1, 3, EPOCH]))
        assert len(hand.asked) - before <= 1 + len(hand.told) - told
        hand.wait()
        if draw.randrange(10) == 0:
            hand.follow(T0, 20, 4, epoch=EPOCH + 1 + step)
    hand.follow(T0, 20, 4, epoch=EPOCH + 1_000)
    hand.follow(T1, 0, 2, epoch=EPOCH + 1_000)
    hand.fail()
    hand.wait()
    wanted = {("t", 0): (20, EPOCH + 1_000, 4), ("t", 1): (0, EPOCH + 1_000, 2)}
    assert hand.is_asking
    assert hand.fetched() == wanted
