"""The table of what counts as loss, case by case."""

from __future__ import annotations

import pickle

import pytest

from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EpochEnd
from fencepost.spark.errors import DataLossError
from fencepost.spark.loss import (
    UNKNOWN_END,
    PartitionState,
    judge,
    unseen_beginning,
)
from fencepost.spark.offsets import Position

WHERE = TopicPartition("t", 0)
STORED = Position(100, leader_epoch=3)
FITTING_END = EpochEnd(3, 120)


def state(
    *,
    topic_id: str = "id",
    earliest: int = 0,
    latest: int = 200,
    leader_epoch: int = 5,
    epoch_end: EpochEnd | None = FITTING_END,
) -> PartitionState:
    return PartitionState(topic_id, earliest, latest, leader_epoch, epoch_end)


CASES = {
    "G intact": (STORED, "id", state(), None, 100),
    "G ends exactly there": (STORED, "id", state(epoch_end=EpochEnd(3, 100)), None, 100),
    "G ids unknown": (STORED, "", state(topic_id=""), None, 100),
    "G stored id unknown": (STORED, "", state(), None, 100),
    "G old epochs forgotten with old records": (
        STORED,
        "id",
        state(earliest=90, epoch_end=EpochEnd(2, 110)),
        None,
        100,
    ),
    "G epoch fits, high watermark lags": (
        STORED,
        "id",
        state(latest=80, epoch_end=EpochEnd(3, 100)),
        None,
        100,
    ),
    "A gone": (STORED, "id", None, ("deleted", 100, UNKNOWN_END), None),
    "B recreated": (
        STORED,
        "id",
        state(topic_id="other", earliest=7),
        ("recreated", 100, UNKNOWN_END),
        7,
    ),
    "C epoch unknown, offset inside": (
        STORED,
        "id",
        state(epoch_end=EpochEnd(-1, -1)),
        ("history replaced", 0, 100),
        100,
    ),
    "C epoch unknown, log shorter": (
        STORED,
        "id",
        state(latest=40, epoch_end=EpochEnd(-1, -1)),
        ("history replaced", 0, 100),
        40,
    ),
    "C epoch unknown, log begins later": (
        STORED,
        "id",
        state(earliest=150, epoch_end=EpochEnd(-1, -1)),
        ("history replaced", 100, 150),
        150,
    ),
    "D cut and not yet grown": (
        STORED,
        "id",
        state(latest=80, epoch_end=EpochEnd(3, 80)),
        ("truncated", 80, 100),
        80,
    ),
    "D cut and grown beyond": (
        STORED,
        "id",
        state(latest=500, epoch_end=EpochEnd(2, 80)),
        ("rewritten", 80, 100),
        80,
    ),
    "D cut, then old records deleted": (
        STORED,
        "id",
        state(earliest=90, latest=500, epoch_end=EpochEnd(2, 80)),
        ("rewritten", 80, 100),
        90,
    ),
    "E no epoch, end went back": (
        Position(100),
        "id",
        state(latest=60, epoch_end=None),
        ("truncated", 60, 100),
        60,
    ),
    "E no epoch, end is there": (Position(100), "id", state(epoch_end=None), None, 100),
    "E no epoch, ends exactly there": (
        Position(100),
        "id",
        state(latest=100, epoch_end=None),
        None,
        100,
    ),
    "G begins exactly there": (STORED, "id", state(earliest=100), None, 100),
    "G begins and ends exactly there": (
        Position(100),
        "id",
        state(earliest=100, latest=100, epoch_end=None),
        None,
        100,
    ),
    "F aged out by one": (STORED, "id", state(earliest=101), ("aged out", 100, 101), 101),
    "F aged out": (STORED, "id", state(earliest=130), ("aged out", 100, 130), 130),
    "F without epoch": (
        Position(100),
        "",
        state(earliest=130, epoch_end=None),
        ("aged out", 100, 130),
        130,
    ),
}


# Every comparison of `judge`, one below where it changes its answer, there, and one above.
EPOCH_0 = Position(100, leader_epoch=0)
NO_EPOCH = Position(100)
UNKNOWN_EPOCH = EpochEnd(-1, -1)
BOUNDARIES = {
    "no epoch is asked for at -1": (
        NO_EPOCH,
        state(epoch_end=EpochEnd(3, 99)),
        None,
        100,
    ),
    "an epoch is asked for at 0": (
        EPOCH_0,
        state(epoch_end=EpochEnd(0, 99)),
        ("rewritten", 99, 100),
        99,
    ),
    "an epoch is asked for at 1": (
        Position(100, leader_epoch=1),
        state(epoch_end=EpochEnd(1, 99)),
        ("rewritten", 99, 100),
        99,
    ),
    "an epoch is unknown at -1": (
        STORED,
        state(epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 0, 100),
        100,
    ),
    "an epoch ends at 0": (
        STORED,
        state(latest=0, epoch_end=EpochEnd(2, 0)),
        ("truncated", 0, 100),
        0,
    ),
    "an epoch ends at 1": (
        STORED,
        state(latest=1, epoch_end=EpochEnd(2, 1)),
        ("truncated", 1, 100),
        1,
    ),
    "an epoch ends one below": (
        STORED,
        state(epoch_end=EpochEnd(3, 99)),
        ("rewritten", 99, 100),
        99,
    ),
    "an epoch ends there": (STORED, state(epoch_end=EpochEnd(3, 100)), None, 100),
    "an epoch ends one above": (STORED, state(epoch_end=EpochEnd(3, 101)), None, 100),
    "a log ends one below": (
        NO_EPOCH,
        state(latest=99, epoch_end=None),
        ("truncated", 99, 100),
        99,
    ),
    "a log ends there": (NO_EPOCH, state(latest=100, epoch_end=None), None, 100),
    "a log ends one above": (NO_EPOCH, state(latest=101, epoch_end=None), None, 100),
    "a log of a known epoch ends one below": (
        STORED,
        state(latest=99, epoch_end=EpochEnd(3, 100)),
        None,
        100,
    ),
    "a log begins one below": (STORED, state(earliest=99), None, 100),
    "a log begins there": (STORED, state(earliest=100), None, 100),
    "a log begins one above": (STORED, state(earliest=101), ("aged out", 100, 101), 101),
    "a cut log ends one below the epoch": (
        STORED,
        state(latest=79, epoch_end=EpochEnd(3, 80)),
        ("truncated", 80, 100),
        80,
    ),
    "a cut log ends with the epoch": (
        STORED,
        state(latest=80, epoch_end=EpochEnd(3, 80)),
        ("truncated", 80, 100),
        80,
    ),
    "a cut log ends one above the epoch": (
        STORED,
        state(latest=81, epoch_end=EpochEnd(3, 80)),
        ("rewritten", 80, 100),
        80,
    ),
    "a cut log begins one below the epoch's end": (
        STORED,
        state(earliest=79, epoch_end=EpochEnd(3, 80)),
        ("rewritten", 80, 100),
        80,
    ),
    "a cut log begins one above the epoch's end": (
        STORED,
        state(earliest=81, epoch_end=EpochEnd(3, 80)),
        ("rewritten", 80, 100),
        81,
    ),
    "another history ends one below": (
        STORED,
        state(latest=99, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 0, 100),
        99,
    ),
    "another history ends there": (
        STORED,
        state(latest=100, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 0, 100),
        100,
    ),
    "another history ends one above": (
        STORED,
        state(latest=101, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 0, 100),
        100,
    ),
    "another history begins one below": (
        STORED,
        state(earliest=99, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 99, 100),
        100,
    ),
    "another history begins one above": (
        STORED,
        state(earliest=101, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 100, 101),
        101,
    ),
    "another history is empty, and begins above": (
        STORED,
        state(earliest=101, latest=100, epoch_end=UNKNOWN_EPOCH),
        ("history replaced", 100, 101),
        101,
    ),
}


@pytest.mark.parametrize("case", BOUNDARIES)
def test_every_comparison_changes_its_answer_where_it_should(case: str):
    stored, now, expected, onward = BOUNDARIES[case]
    loss, goes_on_at = judge(WHERE, stored, "id", now)
    found = None if loss is None else (loss.kind, loss.start, loss.end)
    assert (found, goes_on_at) == (expected, onward)


@pytest.mark.parametrize("case", CASES)
def test_every_case_of_loss_is_decided_as_the_table_says(case: str):
    stored, stored_id, now, expected, onward = CASES[case]
    loss, goes_on_at = judge(WHERE, stored, stored_id, now)
    found = None if loss is None else (loss.kind, loss.start, loss.end)
    assert (found, goes_on_at) == (expected, onward)


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
    assert "failOnDataLoss=false" in text
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_new_partitions_begin_at_zero():
    assert unseen_beginning(WHERE, 0) is None
    for earliest in (1, 5):
        loss = unseen_beginning(WHERE, earliest)
        assert loss is not None and (loss.start, loss.end) == (0, earliest)
