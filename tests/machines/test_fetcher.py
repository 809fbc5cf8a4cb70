"""A fetcher's rounds: what is asked, what partitions are told, and what follows each error."""

from __future__ import annotations

import pytest

from fencepost.machines.fetcher import LeaderAnswered, LeaderFailed, NoticeKind, Unfollow
from fencepost.machines.fetcher.machine import (
    ABANDON_EVERY_MS,
    DOES_NOT_MOVE,
    GATHER_MS,
    NO_ANSWER,
    SHORT_ROUNDS,
    STRAGGLER_WAIT_MS,
    SYNC_WAIT_MS,
)
from fencepost.machines.fetcher.reactions import Reaction, reaction_to
from fencepost.machines.partition import Diverged, Fetched, FetchedOutOfRange
from fencepost.wire.api import fetch, list_offsets
from fencepost.wire.errors import ErrorCode

from .fetcher_fixtures import (
    BROKER,
    BROKER_EPOCH,
    CONFIG,
    EPOCH,
    Hand,
    diverging,
    part,
    partition,
    records,
)

T0, T1 = partition(0), partition(1)


def fetching(*stands: tuple[int, int]) -> Hand:
    """A session of partitions that stand at (offset, last epoch), and a Fetch that waits long."""
    hand = Hand()
    for number, (offset, last_epoch) in enumerate(stands):
        hand.follow(partition(number), offset, last_epoch)
    hand.answer_fetch(part(0))
    if len(stands) > 1:  # the first was asked for alone
        hand.progress(T0, *stands[0])
        hand.answer_fetch(*(part(number) for number in range(1, len(stands))))
        for number in range(1, len(stands)):
            hand.progress(partition(number), *stands[number])
    else:
        hand.progress(T0, *stands[0])
    assert hand.is_asking
    wait_shortly(hand)
    hand.told.clear()
    return hand


def wait_shortly(hand: Hand) -> int:
    """Have the leader answer with nothing until a fetch waits for long; how many did not."""
    count = 0
    while hand.last.max_wait_ms == STRAGGLER_WAIT_MS:
        hand.answer_fetch()
        count += 1
    assert hand.last.max_wait_ms == CONFIG.wait_max_ms
    return count


# -- rounds --------------------------------------------------------------------------------------


def test_the_first_fetch_says_who_asks_and_where_it_stands() -> None:
    hand = Hand()
    hand.follow(T0, 20, 4)
    (asked,) = hand.asked
    request = asked.request
    assert isinstance(request, fetch.FetchRequest)
    assert (asked.lowest, asked.highest, asked.timeout_ms) == (15, 18, CONFIG.timeout_ms)
    state = request.replica_state
    assert (state.replica_id, state.replica_epoch) == (BROKER, BROKER_EPOCH)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (20, 1, 10_485_760)
    assert hand.fetched() == {("t", 0): (20, EPOCH, 4)}
    assert request.topics[0].partitions[0].partition_max_bytes == 1_048_576


def test_records_are_given_to_the_partition_and_nothing_is_asked_before_they_are_durable() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(part(records=records(20, count=3), high_watermark=21, log_start_offset=2))
    ((told, order),) = hand.told
    assert told == T0
    assert isinstance(order, Fetched)
    assert (order.leader_epoch, order.fetch_offset) == (EPOCH, 20)
    assert [batch.header.base_offset for batch in order.batches] == [20]
    assert (order.leader_high_watermark, order.leader_log_start_offset) == (21, 2)
    assert not hand.is_asking
    hand.progress(T0, 23, EPOCH)
    assert hand.fetched() == {("t", 0): (23, EPOCH, EPOCH)}
    assert hand.fetcher.max_lag == 0


def test_to_follow_in_the_same_epoch_again_changes_nothing() -> None:
    hand = fetching((20, 4))
    asked = list(hand.asked)
    hand.follow(T0, 3, 1)
    hand.answer_fetch(part(records=records(20), high_watermark=21))
    ((_, order),) = hand.told
    assert isinstance(order, Fetched) and order.fetch_offset == 20
    assert hand.asked == asked


def test_an_idle_round_names_nothing_and_tells_nobody() -> None:
    hand = fetching((20, 4), (7, 4))
    for _ in range(3):
        hand.answer_fetch()
        assert hand.is_asking
        assert hand.fetched() == {}
        assert hand.forgotten() == []
    assert hand.told == []


def test_a_report_that_crossed_an_order_is_not_its_fulfilment() -> None:
    hand = fetching((20, 4))
    stale = hand._taken.get(T0, 0)
    hand.answer_fetch(part(records=records(20)))
    hand._taken[T0], taken = stale, hand._taken[T0]
    hand.progress(T0, 20, 4)
    assert not hand.is_asking, "what was appended is not durable yet"
    hand._taken[T0] = taken
    hand.progress(T0, 21, EPOCH)
    assert hand.fetched() == {("t", 0): (21, EPOCH, EPOCH)}


def test_a_slow_disk_is_waited_for_and_then_left_out() -> None:
    hand = fetching((20, 4), (7, 4))
    hand.answer_fetch(part(0, records=records(20)), part(1, records=records(7)))
    hand.progress(T1, 8, EPOCH)
    assert not hand.is_asking
    hand.wait(hand.now_ms + SYNC_WAIT_MS - 1)
    assert not hand.is_asking
    hand.wait(hand.now_ms + 1)
    assert hand.fetched() == {("t", 1): (8, EPOCH, EPOCH)}
    assert hand.forgotten() == [("t", 0)]
    hand.answer_fetch()
    hand.progress(T0, 21, EPOCH)
    hand.answer_fetch()
    assert hand.fetched() == {("t", 0): (21, EPOCH, EPOCH)}


def test_no_fetch_waits_long_while_a_disk_is_behind() -> None:
    """The leader hears how far that partition is with the next fetch; writers wait for it."""
    hand = fetching((20, 4), (7, 4))
    assert hand.asked[-1].request.max_wait_ms == CONFIG.wait_max_ms
    hand.answer_fetch(part(0, records=records(20)))
    hand.wait(hand.now_ms + SYNC_WAIT_MS)
    assert hand.forgotten() == [("t", 0)]
    for _ in range(3):
        assert hand.asked[-1].request.max_wait_ms == STRAGGLER_WAIT_MS
        hand.answer_fetch()
    hand.progress(T0, 21, EPOCH)
    hand.answer_fetch()
    assert hand.fetched() == {("t", 0): (21, EPOCH, EPOCH)}
    assert hand.asked[-1].request.max_wait_ms == CONFIG.wait_max_ms


def test_one_request_is_under_way_whatever_happens_meanwhile() -> None:
    hand = fetching((20, 4))
    count = len(hand.asked)
    hand.follow(T1, 3, 1)
    hand.progress(T0, 20, 4, start=6)  # its own retention
    assert len(hand.asked) == count
    hand.answer_fetch()
    assert hand.fetched() == {("t", 1): (3, EPOCH, 1), ("t", 0): (20, EPOCH, 4)}


def test_an_idle_fetch_is_given_up_for_partitions_that_are_followed_from_now_on() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch()
    hand.follow(T1, 3, 1)
    hand.follow(partition(2), 5, 1)
    count = len(hand.asked)
    hand.fire(GATHER_MS - 1)
    assert len(hand.asked) == count
    hand.fire(1)
    assert len(hand.asked) == count + 1
    assert hand.asked[-1].abandons
    assert sorted(hand.fetched()) == [("t", 0), ("t", 1), ("t", 2)]
    assert (hand.last.session_id, hand.last.session_epoch) == (5, 0)
    hand.feed(LeaderAnswered(hand.asked[-2].number, fetch.FetchResponse(session_id=5)))
    assert len(hand.asked) == count + 1, "an answer that nobody waits for"


def test_a_fetch_is_given_up_once_in_a_second_at_most() -> None:
    hand = fetching((20, 4))
    hand.follow(T1, 3, 1)
    hand.fire(GATHER_MS)
    hand.answer_fetch(part(0), part(1))
    hand.progress(T0, 20, 4)
    hand.progress(T1, 3, 1)
    wait_shortly(hand)
    count = len(hand.asked)
    hand.follow(partition(2), 5, 1)
    hand.fire(ABANDON_EVERY_MS - 1)
    assert len(hand.asked) == count
    hand.fire(1)
    assert hand.asked[-1].abandons
    hand.answer_fetch(part(0), part(1), part(2))
    for number, (offset, epoch) in enumerate(((20, 4), (3, 1), (5, 1))):
        hand.progress(partition(number), offset, epoch)
    assert not hand.asked[-1].abandons


def test_who_comes_behind_newcomers_is_in_the_next_incremental_fetch() -> None:
    hand = fetching((20, 4))
    hand.follow(T1, 3, 1)
    hand.fire(GATHER_MS)
    assert hand.asked[-1].abandons
    hand.answer_fetch(part(0), part(1))
    hand.progress(T0, 20, 4)
    hand.progress(T1, 3, 1)
    for number in range(2, 20):
        hand.follow(partition(number), 5, 1)
        hand.fire(ABANDON_EVERY_MS)
        assert ("t", number) not in hand.fetched(), "it is under way, and answered soon"
        hand.answer_fetch()
        assert hand.fetched() == {("t", number): (5, EPOCH, 1)}
        assert hand.last.session_epoch > 0
        assert not hand.asked[-1].abandons
    assert wait_shortly(hand) == SHORT_ROUNDS


def test_a_fetch_that_brings_records_is_not_given_up() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(part(records=records(20)))
    hand.progress(T0, 21, EPOCH)
    count = len(hand.asked)
    hand.follow(T1, 3, 1)
    hand.fire(10 * ABANDON_EVERY_MS)
    assert len(hand.asked) == count
    hand.answer_fetch(part(records=records(21)))
    hand.progress(T0, 22, EPOCH)
    assert ("t", 1) in hand.fetched()


def test_a_fetch_is_not_given_up_for_what_it_names_or_nobody_wants() -> None:
    hand = fetching((20, 4))
    count = len(hand.asked)
    hand.follow(T0, 20, 4, epoch=EPOCH + 1)
    hand.follow(T1, 3, 1)
    hand.feed(Unfollow(T1))
    hand.fire(GATHER_MS)
    assert len(hand.asked) == count


def test_an_answer_of_an_older_leader_epoch_is_not_used() -> None:
    """KAFKA-18991: the same offset, and another epoch."""
    hand = fetching((20, 4))
    hand.follow(T0, 20, 4, epoch=EPOCH + 1)
    hand.answer_fetch(part(records=records(20)))
    assert hand.told == []
    assert hand.fetched() == {("t", 0): (20, EPOCH + 1, 4)}


def test_an_answer_to_another_offset_is_not_used() -> None:
    hand = fetching((20, 4))
    hand.progress(T0, 10, 4)  # it was cut meanwhile
    hand.answer_fetch(part(records=records(20)))
    assert hand.told == []
    assert hand.fetched() == {("t", 0): (10, EPOCH, 4)}


def test_what_is_followed_no_longer_is_forgotten_and_its_answer_dropped() -> None:
    hand = fetching((20, 4), (7, 4))
    hand.feed(Unfollow(T0))
    hand.answer_fetch(part(0, records=records(20)), part(1, records=records(7)))
    assert [told for told, _ in hand.told] == [T1]
    hand.progress(T1, 8, EPOCH)
    assert hand.forgotten() == [("t", 0)]
    assert hand.last.session_epoch > 0, "the session goes on"


def test_a_busy_partition_that_is_followed_no_longer_is_not_waited_for() -> None:
    hand = fetching((20, 4), (7, 4))
    hand.answer_fetch(part(0, records=records(20)))
    assert not hand.is_asking
    hand.feed(Unfollow(T0))
    assert hand.forgotten() == [("t", 0)]


def test_an_answer_from_before_it_was_followed_anew_is_not_used_while_it_is_busy() -> None:
    hand = fetching((20, 4))
    hand.feed(Unfollow(T0))
    hand.follow(T0, 20, -1)  # cut to its high watermark, and not done
    hand.told.clear()
    hand.answer_fetch(part(0, records=records(20)))
    assert hand.told == []


def test_an_answer_from_before_it_was_followed_anew_is_not_used_while_it_is_held_back() -> None:
    hand = fetching((20, 4))
    hand.feed(Unfollow(T0))
    hand.held_back.add(T0)
    hand.follow(T0, 20, 4)
    hand.answer_fetch(part(0, records=records(20)))
    assert hand.told == []


def test_a_partition_in_sync_is_never_held_back() -> None:
    hand = fetching((20, 4))
    hand.held_back.add(T0)
    hand.answer_fetch(part(0, records=records(20), high_watermark=21))
    hand.progress(T0, 21, EPOCH)
    assert hand.fetched() == {("t", 0): (21, EPOCH, EPOCH)}
    hand.answer_fetch(part(0, records=records(21), high_watermark=30))
    hand.progress(T0, 22, EPOCH)
    assert hand.forgotten() == [("t", 0)]


def test_an_older_epoch_does_not_replace_a_newer_one() -> None:
    hand = fetching((20, 4))
    hand.follow(T0, 1, 1, epoch=EPOCH - 1)
    hand.answer_fetch()
    assert hand.fetched() == {}


def test_a_log_without_epochs_is_cut_to_its_high_watermark_first() -> None:
    hand = Hand()
    hand.follow(T0, 20, -1)
    assert hand.told == [(T0, Diverged(EPOCH, -1, -1))]
    assert hand.asked == []
    hand.progress(T0, 20, -1)
    assert hand.fetched() == {("t", 0): (20, EPOCH, -1)}


# -- reactions -----------------------------------------------------------------------------------

DELAYED = (
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


def test_every_error_has_a_reaction() -> None:
    assert reaction_to(ErrorCode.NONE) is Reaction.APPEND
    assert reaction_to(ErrorCode.NONE, diverges=True) is Reaction.TRUNCATE
    assert reaction_to(ErrorCode.NOT_LEADER_OR_FOLLOWER, diverges=True) is Reaction.DELAY
    assert reaction_to(ErrorCode.OFFSET_OUT_OF_RANGE) is Reaction.LOOK_UP
    assert reaction_to(ErrorCode.FENCED_LEADER_EPOCH) is Reaction.STOP
    assert reaction_to(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE) is Reaction.STOP
    assert reaction_to(9_999) is Reaction.DELAY
    named = {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.FENCED_LEADER_EPOCH}
    named.add(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
    assert {reaction_to(error) for error in ErrorCode if error not in named} == {Reaction.DELAY}


@pytest.mark.parametrize("error", DELAYED)
def test_a_refused_partition_is_left_out_for_a_while(error: ErrorCode) -> None:
    hand = fetching((20, 4), (7, 4))
    hand.answer_fetch(part(0, error, high_watermark=-1, log_start_offset=-1))
    assert hand.told == []
    assert hand.forgotten() == [("t", 0)]
    began_ms = hand.now_ms
    hand.now_ms += CONFIG.backoff_ms - 1
    hand.answer_fetch()
    assert hand.fetched() == {}
    hand.now_ms = began_ms + CONFIG.backoff_ms
    hand.answer_fetch()
    assert hand.fetched() == {("t", 0): (20, EPOCH, 4)}


def test_a_fetcher_whose_only_partition_is_refused_wakes_up_for_it() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(part(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    hand.answer_fetch(session_id=0)  # the leader drops the empty session
    assert not hand.is_asking
    hand.wait()
    assert hand.fetched() == {("t", 0): (20, EPOCH, 4)}
    assert (hand.last.session_id, hand.last.session_epoch) == (0, 0)


def test_a_fenced_partition_waits_for_another_epoch() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(part(0, ErrorCode.FENCED_LEADER_EPOCH))
    assert hand.fetcher.stopped == 1
    assert hand.fetcher.notices[-1].kind is NoticeKind.STOPPED
    hand.answer_fetch(session_id=0)
    hand.now_ms += 100 * CONFIG.backoff_ms
    hand.progress(T0, 20, 4)
    assert not hand.is_asking
    hand.follow(T0, 20, 4, epoch=EPOCH + 1)
    assert hand.fetched() == {("t", 0): (20, EPOCH + 1, 4)}
    assert hand.fetcher.stopped == 0


def test_a_diverging_log_is_cut_and_nothing_else_of_the_answer_counts() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(
        part(0, records=records(20), diverging_epoch=diverging(3, 12), high_watermark=20)
    )
    assert hand.told == [(T0, Diverged(EPOCH, 3, 12))]
    hand.progress(T0, 12, 3)
    assert hand.fetched() == {("t", 0): (12, EPOCH, 3)}
    (notice,) = hand.fetcher.notices
    assert notice.kind is NoticeKind.DIVERGED
    assert notice.text == "leader epoch 3 ends at 12 there, ours is cut from 20 to 12"


def test_an_epoch_without_records_that_the_leader_lacks_is_no_divergence() -> None:
    """A leader that wrote nothing follows: its epoch is forgotten, and no record is cut."""
    hand = fetching((1525, 4))
    hand.answer_fetch(part(0, diverging_epoch=diverging(3, 1525)))
    hand.progress(T0, 1525, 3)
    assert hand.fetched() == {("t", 0): (1525, EPOCH, 3)}
    assert hand.fetcher.notices == []


def test_a_high_watermark_that_a_cut_may_have_taken_is_told_again() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(part(0, high_watermark=15))
    hand.progress(T0, 20, 4)
    hand.answer_fetch(part(0, diverging_epoch=diverging(3, 12)))
    hand.progress(T0, 12, 3)
    hand.told.clear()
    hand.answer_fetch(part(0, high_watermark=15))
    assert [type(order) for _, order in hand.told] == [Fetched]


def test_a_leader_that_diverges_at_the_same_place_again_and_again_is_asked_seldom() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(part(0, diverging_epoch=diverging(4, 20)))
    hand.progress(T0, 20, 4)
    hand.answer_fetch(session_id=0)
    assert not hand.is_asking
    hand.wait()
    assert hand.fetched() == {("t", 0): (20, EPOCH, 4)}


def test_a_batch_that_does_not_fit_is_not_asked_for_at_once_again() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(part(0, records=records(20, epoch=EPOCH + 1)))
    hand.progress(T0, 20, 4)  # KAFKA-18723: of an epoch that was not agreed on
    assert hand.forgotten() == [("t", 0)]


@pytest.mark.parametrize("at", [8, 11, 16, 17, 40, -1])
def test_a_damaged_batch_is_not_given_to_the_partition(at: int) -> None:
    hand = fetching((20, 4))
    data = bytearray(records(20))
    data[at] ^= 0x41
    hand.answer_fetch(part(0, records=bytes(data)))
    assert all(not order.batches for _, order in hand.told)


def test_a_damaged_batch_is_told_of_and_fetched_again_later() -> None:
    hand = fetching((20, 4))
    data = bytearray(records(20))
    data[-1] ^= 1
    hand.answer_fetch(part(0, records=bytes(data)))
    assert hand.told == []
    assert hand.fetcher.notices[-1].kind is NoticeKind.CORRUPT
    assert hand.forgotten() == [("t", 0)]


def test_a_batch_that_is_cut_at_the_end_of_an_answer_is_left_out() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(part(0, records=[records(20), records(21)[:-3]]))
    ((_, order),) = hand.told
    assert [batch.header.base_offset for batch in order.batches] == [20]


# -- out of range --------------------------------------------------------------------------------


def answer_offset(hand: Hand, offset: int, error: int = 0) -> None:
    listed = list_offsets.ListOffsetsPartitionResponse(
        partition_index=0, offset=offset, error_code=error
    )
    topic = list_offsets.ListOffsetsTopicResponse(name="t", partitions=[listed])
    hand.answer(list_offsets.ListOffsetsResponse(topics=[topic]))


def out_of_range() -> Hand:
    hand = fetching((20, 4))
    hand.answer_fetch(part(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    request = hand.last
    assert isinstance(request, list_offsets.ListOffsetsRequest)
    asked = request.topics[0].partitions[0]
    assert request.replica_id == BROKER
    assert (asked.timestamp, asked.current_leader_epoch) == (-1, EPOCH)
    return hand


def test_a_leader_whose_log_ends_before_ours_was_elected_uncleanly() -> None:
    hand = out_of_range()
    answer_offset(hand, 15)
    assert hand.told == [(T0, FetchedOutOfRange(EPOCH, -1, 15))]
    assert hand.fetcher.notices[-1].kind is NoticeKind.UNCLEAN
    hand.progress(T0, 15, 4)
    assert hand.fetched() == {("t", 0): (15, EPOCH, 4)}


def test_a_leader_whose_log_starts_behind_ours_makes_us_start_over() -> None:
    hand = out_of_range()
    answer_offset(hand, 90)
    assert hand.last.topics[0].partitions[0].timestamp == -2
    answer_offset(hand, 40)
    assert hand.told == [(T0, FetchedOutOfRange(EPOCH, 40, 90))]
    assert hand.fetcher.notices[-1].kind is NoticeKind.STARTS_OVER
    hand.progress(T0, 40, -1)
    assert hand.fetched() == {("t", 0): (40, EPOCH, -1)}


def test_a_leader_whose_log_ends_where_ours_does_is_asked_where_it_starts() -> None:
    hand = out_of_range()
    answer_offset(hand, 20)
    assert hand.last.topics[0].partitions[0].timestamp == -2


def test_an_empty_log_of_a_leader_is_looked_up_to_its_start() -> None:
    hand = fetching((0, -1))
    hand.answer_fetch(part(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    answer_offset(hand, 0)
    answer_offset(hand, 0)
    assert hand.told == [(T0, FetchedOutOfRange(EPOCH, 0, 0))]


def test_a_leader_that_does_not_know_where_its_log_ends_is_asked_again_later() -> None:
    hand = out_of_range()
    answer_offset(hand, -1)
    assert hand.told == []
    assert hand.fetcher.notices == []
    assert hand.forgotten() == [("t", 0)]


@pytest.mark.parametrize("error", [ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_OUT_OF_RANGE])
def test_a_look_up_that_is_refused_is_made_again_later(error: ErrorCode) -> None:
    hand = out_of_range()
    answer_offset(hand, -1, error)
    assert hand.told == []
    hand.answer_fetch(session_id=0)
    hand.wait()
    assert isinstance(hand.last, list_offsets.ListOffsetsRequest)


def test_a_look_up_without_an_answer_for_us_is_made_again_later() -> None:
    hand = out_of_range()
    hand.answer(list_offsets.ListOffsetsResponse())
    hand.answer_fetch(session_id=0)
    hand.wait()
    assert isinstance(hand.last, list_offsets.ListOffsetsRequest)


def test_a_look_up_of_an_older_epoch_is_not_used() -> None:
    hand = out_of_range()
    hand.follow(T0, 20, 4, epoch=EPOCH + 1)
    answer_offset(hand, 3)
    assert hand.told == []
    assert hand.fetched() == {("t", 0): (20, EPOCH + 1, 4)}


# -- leaders that fail -----------------------------------------------------------------------------


def test_a_leader_that_does_not_answer_is_asked_again_after_a_while_in_full() -> None:
    hand = fetching((20, 4), (7, 4))
    hand.fail()
    assert not hand.is_asking
    assert hand.fetcher.notices[-1].kind is NoticeKind.UNREACHABLE
    hand.wait()
    assert hand.now_ms == 5_000 + CONFIG.backoff_ms
    assert sorted(hand.fetched()) == [("t", 0), ("t", 1)]
    assert (hand.last.session_id, hand.last.session_epoch) == (5, 0), "closes the one it had"
    hand.answer_fetch(part(0), part(1))
    assert hand.fetcher.notices[-1].kind is NoticeKind.RECOVERED


def test_an_error_of_the_whole_answer_delays_the_fetcher() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert not hand.is_asking
    hand.wait()
    assert hand.last.session_epoch == 0


def test_late_answers_and_failures_of_earlier_requests_are_dropped() -> None:
    hand = fetching((20, 4))
    earlier = hand.asked[-2]
    count = len(hand.asked)
    hand.feed(LeaderAnswered(earlier.number, fetch.FetchResponse()))
    hand.feed(LeaderFailed(earlier.number, "too late"))
    assert hand.is_asking
    assert len(hand.asked) == count


# -- replicas that stand still ---------------------------------------------------------------------


def test_a_refused_partition_is_halted_until_the_leader_answers_with_something() -> None:
    hand = fetching((20, 4), (7, 4))
    hand.answer_fetch(part(0, ErrorCode.UNKNOWN_TOPIC_ID))
    assert list(hand.fetcher.halted()) == [(T0, False, "UNKNOWN_TOPIC_ID")]
    hand.now_ms += CONFIG.backoff_ms
    hand.answer_fetch()
    hand.answer_fetch(part(0, high_watermark=20))
    assert list(hand.fetcher.halted()) == [(T0, False, "UNKNOWN_TOPIC_ID")], "it is at it yet"
    hand.progress(T0, 20, 4)
    assert list(hand.fetcher.halted()) == []


def test_a_fenced_partition_is_halted_in_its_leader_epoch() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(part(0, ErrorCode.FENCED_LEADER_EPOCH))
    assert list(hand.fetcher.halted()) == [(T0, True, "FENCED_LEADER_EPOCH")]
    hand.follow(T0, 20, 4, epoch=EPOCH + 1)
    assert list(hand.fetcher.halted()) == []


def test_a_partition_that_no_answer_moves_is_halted() -> None:
    hand = fetching((20, 4))
    hand.answer_fetch(part(0, records=records(20, epoch=EPOCH + 1)))
    hand.progress(T0, 20, 4)
    assert list(hand.fetcher.halted()) == [(T0, False, DOES_NOT_MOVE)]
    hand.answer_fetch(session_id=0)
    hand.wait()
    hand.answer_fetch(part(0, records=records(20)))
    hand.progress(T0, 21, 4)
    assert list(hand.fetcher.halted()) == []


def test_a_partition_with_corrupt_records_is_halted() -> None:
    hand = fetching((20, 4))
    data = bytearray(records(20))
    data[-1] ^= 1
    hand.answer_fetch(part(0, records=bytes(data)))
    ((_, is_stopped, why),) = hand.fetcher.halted()
    assert (is_stopped, "CRC" in why) == (False, True)


def test_all_partitions_of_a_leader_that_does_not_answer_are_halted() -> None:
    hand = fetching((20, 4), (7, 4))
    hand.fail()
    whys = {why for _, _, why in hand.fetcher.halted()}
    assert [where for where, _, _ in hand.fetcher.halted()] == [T0, T1]
    assert whys != {""}
    hand.wait()
    hand.answer_fetch(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert {why for _, _, why in hand.fetcher.halted()} == {"CLUSTER_AUTHORIZATION_FAILED"}
    hand.wait()
    hand.answer_fetch(part(0), part(1))
    assert list(hand.fetcher.halted()) == []


def test_a_look_up_without_an_answer_halts_a_partition() -> None:
    hand = out_of_range()
    hand.answer(list_offsets.ListOffsetsResponse())
    assert list(hand.fetcher.halted()) == [(T0, False, NO_ANSWER)]
