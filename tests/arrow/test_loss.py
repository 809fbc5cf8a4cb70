"""The table of what counts as loss, case by case."""

from __future__ import annotations

import pickle
from typing import NamedTuple

import pytest

from fencepost.arrow.errors import DataLossError
from fencepost.arrow.loss import (
    UNKNOWN_END,
    PartitionState,
    judge,
    unseen_beginning,
)
from fencepost.arrow.offsets import Position
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EpochEnd

WHERE = TopicPartition("t", 0)
STORED = Position(100, leader_epoch=3)
NO_EPOCH = Position(100)
FITTING_END = EpochEnd(3, 120)
UNKNOWN_EPOCH = EpochEnd(-1, -1)


def state(
    *,
    topic_id: str = "id",
    earliest: int = 0,
    latest: int = 200,
    leader_epoch: int = 5,
    epoch_end: EpochEnd | None = FITTING_END,
) -> PartitionState:
    return PartitionState(topic_id, earliest, latest, leader_epoch, epoch_end)


class Case(NamedTuple):
    """What was stored and what the cluster says now; what is lost (its kind and offsets), and
    where the query may go on."""

    stored: Position
    now: PartitionState | None
    lost: tuple[str, int, int] | None
    goes_on_at: int | None
    stored_id: str = "id"


# By the letters of `loss`. Of every comparison in `judge` there are one below where it changes its
# answer, there, and one above.
CASES = {
    "A gone": Case(STORED, None, ("deleted", 100, UNKNOWN_END), None),
    "B recreated": Case(
        STORED,
        state(topic_id="other", earliest=7),
        ("recreated", 100, UNKNOWN_END),
        7,
    ),
    "C epoch unknown, offset inside": Case(
        STORED,
        state(epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 0, 100),
        100,
    ),
    "C epoch unknown, log shorter": Case(
        STORED,
        state(latest=40, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 0, 100),
        40,
    ),
    "C epoch unknown, log ends one below": Case(
        STORED,
        state(latest=99, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 0, 100),
        99,
    ),
    "C epoch unknown, log ends there": Case(
        STORED,
        state(latest=100, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 0, 100),
        100,
    ),
    "C epoch unknown, log ends one above": Case(
        STORED,
        state(latest=101, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 0, 100),
        100,
    ),
    "C epoch unknown, log begins one below": Case(
        STORED,
        state(earliest=99, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 99, 100),
        100,
    ),
    "C epoch unknown, log begins one above": Case(
        STORED,
        state(earliest=101, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 100, 101),
        101,
    ),
    "C epoch unknown, log begins later": Case(
        STORED,
        state(earliest=150, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 100, 150),
        150,
    ),
    "C epoch unknown, log empty and begins one above": Case(
        STORED,
        state(earliest=101, latest=100, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 100, 101),
        101,
    ),
    "D cut and not yet grown": Case(
        STORED,
        state(latest=80, epoch_end=EpochEnd(3, 80)),
        ("truncated", 80, 100),
        80,
    ),
    "D cut, log ends one below the epoch": Case(
        STORED,
        state(latest=79, epoch_end=EpochEnd(3, 80)),
        ("truncated", 80, 100),
        80,
    ),
    "D cut, log ends one above the epoch": Case(
        STORED,
        state(latest=81, epoch_end=EpochEnd(3, 80)),
        ("rewritten", 80, 100),
        80,
    ),
    "D cut and grown beyond": Case(
        STORED,
        state(latest=500, epoch_end=EpochEnd(2, 80)),
        ("rewritten", 80, 100),
        80,
    ),
    "D cut, then old records deleted": Case(
        STORED,
        state(earliest=90, latest=500, epoch_end=EpochEnd(2, 80)),
        ("rewritten", 80, 100),
        90,
    ),
    "D cut, log begins one below the epoch's end": Case(
        STORED,
        state(earliest=79, epoch_end=EpochEnd(3, 80)),
        ("rewritten", 80, 100),
        80,
    ),
    "D cut, log begins one above the epoch's end": Case(
        STORED,
        state(earliest=81, epoch_end=EpochEnd(3, 80)),
        ("rewritten", 80, 100),
        81,
    ),
    "D epoch ends at 0": Case(
        STORED,
        state(latest=0, epoch_end=EpochEnd(2, 0)),
        ("truncated", 0, 100),
        0,
    ),
    "D epoch ends at 1": Case(
        STORED,
        state(latest=1, epoch_end=EpochEnd(2, 1)),
        ("truncated", 1, 100),
        1,
    ),
    "D epoch ends one below": Case(
        STORED,
        state(epoch_end=EpochEnd(3, 99)),
        ("rewritten", 99, 100),
        99,
    ),
    "D epoch 0 is asked for": Case(
        Position(100, leader_epoch=0),
        state(epoch_end=EpochEnd(0, 99)),
        ("rewritten", 99, 100),
        99,
    ),
    "D epoch 1 is asked for": Case(
        Position(100, leader_epoch=1),
        state(epoch_end=EpochEnd(1, 99)),
        ("rewritten", 99, 100),
        99,
    ),
    "E no epoch, end went back": Case(
        NO_EPOCH,
        state(latest=60, epoch_end=None),
        ("truncated", 60, 100),
        60,
    ),
    "E no epoch, log ends one below": Case(
        NO_EPOCH,
        state(latest=99, epoch_end=None),
        ("truncated", 99, 100),
        99,
    ),
    "F aged out by one": Case(STORED, state(earliest=101), ("aged out", 100, 101), 101),
    "F aged out": Case(STORED, state(earliest=130), ("aged out", 100, 130), 130),
    "F without epoch": Case(
        NO_EPOCH,
        state(earliest=130, epoch_end=None),
        ("aged out", 100, 130),
        130,
        stored_id="",
    ),
    "G intact": Case(STORED, state(), None, 100),
    "G epoch ends exactly there": Case(STORED, state(epoch_end=EpochEnd(3, 100)), None, 100),
    "G epoch ends one above": Case(STORED, state(epoch_end=EpochEnd(3, 101)), None, 100),
    "G ids unknown": Case(STORED, state(topic_id=""), None, 100, stored_id=""),
    "G stored id unknown": Case(STORED, state(), None, 100, stored_id=""),
    "G old epochs forgotten with old records": Case(
        STORED,
        state(earliest=90, epoch_end=EpochEnd(2, 110)),
        None,
        100,
    ),
    "G epoch fits, high watermark lags": Case(
        STORED,
        state(latest=80, epoch_end=EpochEnd(3, 100)),
        None,
        100,
    ),
    "G epoch fits, log ends one below": Case(
        STORED,
        state(latest=99, epoch_end=EpochEnd(3, 100)),
        None,
        100,
    ),
    "G no epoch, end is there": Case(NO_EPOCH, state(epoch_end=None), None, 100),
    "G no epoch, log ends exactly there": Case(
        NO_EPOCH,
        state(latest=100, epoch_end=None),
        None,
        100,
    ),
    "G no epoch, log ends one above": Case(
        NO_EPOCH,
        state(latest=101, epoch_end=None),
        None,
        100,
    ),
    "G no epoch, whatever ends one below": Case(
        NO_EPOCH,
        state(epoch_end=EpochEnd(3, 99)),
        None,
        100,
    ),
    "G log begins one below": Case(STORED, state(earliest=99), None, 100),
    "G log begins exactly there": Case(STORED, state(earliest=100), None, 100),
    "G log begins and ends exactly there": Case(
        NO_EPOCH,
        state(earliest=100, latest=100, epoch_end=None),
        None,
        100,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_case_of_loss_is_decided_as_the_table_says(case: str):
    stored, now, lost, goes_on_at, stored_id = CASES[case]
    loss, onward = judge(WHERE, stored, stored_id, now)
    found = None if loss is None else (loss.kind, loss.start, loss.end)
    assert (found, onward) == (lost, goes_on_at)


def test_errors_list_everything_there_is_to_know():
    stored = Position(100, 3)
    first, _ = judge(WHERE, stored, "id", state(epoch_end=EpochEnd(2, 80)))
    second, _ = judge(TopicPartition("t", 1), stored, "id", None)
    assert first is not None and second is not None
    error = DataLossError([first, second])
    text = str(error)
    for part in (
        "2 partition(s)",
        "t-0: rewritten, offsets 80 to 100",
        "leader epoch 3",
        "epoch 2",
    ):
        assert part in text
    assert "t-1: deleted, offsets 100 to the end" in text
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_new_partitions_begin_at_zero():
    assert unseen_beginning(WHERE, 0) is None
    for earliest in (1, 5):
        loss = unseen_beginning(WHERE, earliest)
        assert loss is not None and (loss.start, loss.end) == (0, earliest)
