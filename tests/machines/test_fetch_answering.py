"""When a fetch is answered: every row of the tables, over real partition machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from fencepost.log.errors import CorruptFileError, OffsetOutOfRange
from fencepost.machines.fetch import (
    NO_WAIT,
    FetchTerms,
    FetchWanted,
    Look,
    PendingFetch,
    PendingFetches,
    ReadBudget,
    bytes_to_wait_with,
    is_out_of_date,
    look_at,
)
from fencepost.machines.fetch.answering import available_bytes
from fencepost.machines.partition import (
    AdvanceLogStart,
    BecomeFollower,
    FetchBounds,
    StopReplica,
)
from fencepost.wire.errors import ErrorCode

from .test_partition_produce import KEY, Leader
from .test_partition_queries import history

RECORD_BYTES = 100
MAX_BYTES = 1 << 20


class Log:
    """A log whose records have a hundred bytes each, unless it is damaged."""

    error: Exception | None = None

    @property
    def config(self) -> Log:
        return self

    def measure(self, offset: int, max_bytes: int, upper_bound_offset: int) -> int:
        if self.error is not None:
            raise self.error
        return min((upper_bound_offset - offset) * RECORD_BYTES, max_bytes)


@dataclass
class Hosted:
    machine: Any
    log: Log


def hosted(leader: Leader | None = None) -> Hosted:
    """Start 2, high watermark 12, end 20, leader epoch 5; an open transaction begins at 9."""
    leader = leader or history()
    leader.log.producers._ongoing[9] = 7
    return Hosted(leader.machine, Log())


def wanted(offset: int, *, max_bytes: int = MAX_BYTES, **asked: int) -> FetchWanted[str]:
    return FetchWanted(KEY, offset, max_bytes, **asked)


def terms(min_bytes: int = 1 << 30, **said: Any) -> FetchTerms:
    return FetchTerms(min_bytes, said.pop("max_bytes", 1 << 30), said.pop("deadline_ms", 9), **said)


# What a partition has


@pytest.mark.parametrize(
    ("asked", "said", "expected"),
    [
        pytest.param(wanted(1), {}, None, id="a-out-of-range"),
        pytest.param(wanted(5, current_leader_epoch=4), {}, None, id="a-fenced"),
        pytest.param(wanted(5), {"replica_id": 7}, None, id="a-stranger"),
        pytest.param(wanted(12, last_fetched_epoch=2), {}, None, id="b-diverged"),
        pytest.param(wanted(5), {}, 700, id="f-consumers-to-the-high-watermark"),
        pytest.param(wanted(5), {"isolation": 1}, 400, id="f-committed-to-the-stable-offset"),
        pytest.param(wanted(5), {"replica_id": 2}, 1500, id="f-replicas-to-the-logs-end"),
        pytest.param(wanted(5, max_bytes=250), {}, 250, id="f-the-partitions-limit"),
        pytest.param(wanted(5), {"max_bytes": 350}, 350, id="f-the-fetchs-limit"),
        pytest.param(wanted(5), {"min_bytes": 1}, 1, id="f-not-measured-for-one-byte"),
        pytest.param(wanted(12), {}, 0, id="g-consumers"),
        pytest.param(wanted(9), {"isolation": 1}, 0, id="g-committed"),
        pytest.param(wanted(10), {"isolation": 1}, 0, id="g-behind-the-stable-offset"),
        pytest.param(wanted(20), {"replica_id": 2}, 0, id="g-replicas"),
    ],
)
def test_what_a_partition_has_for_a_fetch(
    asked: FetchWanted[str], said: dict[str, Any], expected: int | None
) -> None:
    given = terms(**said)
    assert available_bytes(look_at(hosted(), asked, given), given) == expected


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.KAFKA_STORAGE_ERROR])
def test_a_partition_that_cannot_be_had_is_told_at_once(error: ErrorCode) -> None:
    look: Look[Hosted, str] = look_at(error, wanted(0), terms())
    assert (look.error, look.is_urgent, look.has_data) == (error, True, False)
    assert not look.has_moved


def test_a_fetch_that_is_to_go_to_another_replica_is_told_so_at_once_and_reads_nothing() -> None:
    bounds = FetchBounds(12, 12, 12, 2, 20, preferred_replica=3)
    look: Look[Hosted, str] = Look(wanted(5), partition=hosted(), bounds=bounds)
    assert look.is_urgent and not look.has_data
    assert bytes_to_wait_with([look], terms()) is None


@pytest.mark.parametrize(
    "error", [CorruptFileError("x.log", "garbage"), OSError("EIO"), OffsetOutOfRange(1, 2, 3)]
)
def test_a_log_that_cannot_be_measured_is_read_at_once_to_say_what_is_wrong(
    error: Exception,
) -> None:
    partition = hosted()
    partition.log.error = error
    assert available_bytes(look_at(partition, wanted(5), terms()), terms()) is None
    assert bytes_to_wait_with([look_at(partition, wanted(5), terms())], terms()) is None


# When it is answered


@pytest.mark.parametrize(
    ("offsets", "said", "expected"),
    [
        pytest.param([5], {"deadline_ms": NO_WAIT}, None, id="1-does-not-wait"),
        pytest.param([], {}, None, id="2-no-partitions"),
        pytest.param([12], {"min_bytes": 0}, None, id="3-no-bytes-wanted"),
        pytest.param([12], {"min_bytes": -1}, None, id="3-fewer-than-none"),
        pytest.param([12, 1], {}, None, id="4-an-error-among-others"),
        pytest.param([12, 5], {"min_bytes": 1}, None, id="5-one-byte"),
        pytest.param([5, 10], {"min_bytes": 900}, None, id="5-over-all-partitions"),
        pytest.param([5, 10], {"min_bytes": 901}, [700, 200], id="7-one-byte-too-few"),
        pytest.param([12, 12], {"min_bytes": 1}, [0, 0], id="7-nothing"),
    ],
)
def test_when_a_fetch_is_answered(
    offsets: list[int], said: dict[str, Any], expected: list[int] | None
) -> None:
    given = terms(**said)
    looks = [look_at(hosted(), wanted(offset), given) for offset in offsets]
    assert bytes_to_wait_with(looks, given) == expected


MOVES = {
    "high-watermark": lambda leader: leader.fetched(2, 13),
    "log-start": lambda leader: leader.feed(AdvanceLogStart(3)),
    "leader-epoch": lambda leader: leader.lead(6, 6, (1, 2), (1, 2)),
    "role": lambda leader: leader.feed(BecomeFollower(2, 6, 6, (1, 2), (2,))),
    "deleted": lambda leader: leader.feed(StopReplica(is_deleted=True)),
    "assigned-to-others": lambda leader: leader.feed(StopReplica(is_deleted=False)),
    "disk-failed": lambda leader: leader.world.driver.disk_failed(KEY, "EIO"),
}


@pytest.mark.parametrize("move", MOVES)
def test_what_moved_while_others_were_looked_at_answers_the_fetch(move: str) -> None:
    """Row 6: it has moved before the fetch waits on it, so nobody would say so again."""
    leader = history()
    look = look_at(hosted(leader), wanted(12), terms())
    assert not is_out_of_date([look], terms(), 1)
    MOVES[move](leader)
    assert is_out_of_date([look], terms(), 1)


def test_a_log_that_grew_while_others_were_looked_at_answers_a_replica() -> None:
    leader = history()
    given = terms(replica_id=2)
    look = look_at(hosted(leader), wanted(20), given)
    assert not is_out_of_date([look], given, 1)
    assert is_out_of_date([look], given, 2), "one that was quiet is to be looked at, too"
    leader.produce()
    assert not look.has_moved, "consumers see nothing of it"
    assert is_out_of_date([look], given, 1)
    assert not is_out_of_date([look], terms(), 1)


# Who waits is looked at again


@pytest.mark.parametrize(
    ("move", "offset", "said"),
    [
        pytest.param("high-watermark", 12, {"min_bytes": 1}, id="enough-bytes"),
        pytest.param("log-start", 2, {}, id="below-the-new-start"),
        pytest.param("leader-epoch", 12, {"current_leader_epoch": 5}, id="fenced"),
        pytest.param("role", 12, {"leader_only": True}, id="not-the-leader"),
        pytest.param("deleted", 12, {}, id="deleted"),
        pytest.param("assigned-to-others", 12, {}, id="assigned-to-others"),
        pytest.param("disk-failed", 12, {}, id="disk-failed"),
    ],
)
def test_a_move_ends_the_wait_if_there_is_something_to_tell(
    move: str, offset: int, said: dict[str, Any]
) -> None:
    leader = history()
    epoch = said.pop("current_leader_epoch", -1)
    given = terms(**said)
    fetches: PendingFetches[str] = PendingFetches()
    share = wanted(offset, current_leader_epoch=epoch)
    fetch = PendingFetch("token", {KEY: share}, given)
    fetches.add(fetch)
    partition = hosted(leader)
    assert fetches.moved(KEY, partition) == [], "nothing has moved yet"
    MOVES[move](leader)
    assert fetches.moved(KEY, partition) == [fetch]


@pytest.mark.parametrize("move", ["high-watermark", "log-start", "leader-epoch"])
def test_a_move_that_says_nothing_to_a_reader_lets_it_wait(move: str) -> None:
    leader = history()
    fetches: PendingFetches[str] = PendingFetches()
    fetches.add(PendingFetch("token", {KEY: wanted(12)}, terms()))
    MOVES[move](leader)
    assert fetches.moved(KEY, hosted(leader)) == [] and len(fetches) == 1


# How much is in the answer


def look_with(offset: int, *, max_bytes: int = MAX_BYTES) -> Look[Hosted, str]:
    return look_at(hosted(), wanted(offset, max_bytes=max_bytes), terms())


def test_each_partition_has_its_own_limit_and_all_have_one_together() -> None:
    budget = ReadBudget(1_000)
    assert budget.limit_for(look_with(5, max_bytes=400)) == 400
    budget.spend(400)
    assert budget.limit_for(look_with(5, max_bytes=900)) == 600
    budget.spend(600)
    assert budget.limit_for(look_with(5)) is None


def test_only_the_first_partition_with_data_may_exceed_every_limit() -> None:
    budget = ReadBudget(0)
    assert budget.limit_for(look_with(12)) is None, "it has nothing"
    assert budget.takes_any_batch and budget.limit_for(look_with(5)) == 0
    budget.spend(0)
    assert budget.takes_any_batch, "it turned out to have nothing"
    budget.spend(5_000)
    assert not budget.takes_any_batch and budget.limit_for(look_with(5)) is None


def test_a_limit_below_nothing_is_none() -> None:
    budget = ReadBudget(-5)
    assert budget.limit_for(look_with(5, max_bytes=-1)) == 0
    budget.spend(1)
    assert budget.limit_for(look_with(5, max_bytes=-1)) is None


def test_a_partition_whose_log_diverges_is_not_read() -> None:
    look = look_at(hosted(), wanted(5, last_fetched_epoch=2), terms())
    assert look.bounds is None or not look.has_data
    diverged = look_at(hosted(), wanted(11, last_fetched_epoch=1), terms())
    assert diverged.bounds is not None and diverged.bounds.diverging is not None
    assert ReadBudget(100).limit_for(diverged) is None


def test_a_fetch_whose_partitions_are_all_quiet_waits() -> None:
    """It has some, unlike that of an emptied session (row 2)."""
    assert bytes_to_wait_with([], terms()) is None
    assert bytes_to_wait_with([], terms(), others_are_quiet=True) == []
    assert bytes_to_wait_with([], terms(min_bytes=0), others_are_quiet=True) is None
