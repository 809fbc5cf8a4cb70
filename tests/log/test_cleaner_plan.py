"""What is due for compaction, and how far it has come: ratios, lags, groups, the checkpoint."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fencepost.log.cleaner.plan import Dirt, Source, group_sources
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .cleaning import clean, put, settle
from .helpers import NOW_MS, config, open_log

SMALL = {"internal_segment_bytes": 300, "index_interval_bytes": 100, "cleanup_policy": "compact"}
TOPIC_ID = Uuid(bytes(range(16)))
CHECKPOINT = "/data/cleaner-offset-checkpoint"


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    format_log_dir(disk, "/data", cluster_id="c", node_id=1, directory_id=Uuid(bytes(15) + b"\1"))
    return disk


def filled(disk, count=20, **props):
    log = open_log(disk, "/data/t-0", config(**{**SMALL, **props}))
    for at in range(count):
        put(log, (b"k", b"%03d" % at * 5), timestamp_ms=NOW_MS + at)
    settle(log)
    return log


def dirt_of(log, cleaned_offset=None, wall_ms=NOW_MS + 1000) -> Dirt:
    return log.measure_dirt(cleaned_offset, log.end_offset, wall_ms)


# ---- how dirty


def test_the_ratio_is_of_bytes_on_both_sides_of_the_checkpoint(disk):
    log = filled(disk)
    bases = log.segment_base_offsets
    half = bases[len(bases) // 2]
    whole, part, none = (dirt_of(log, at) for at in (None, half, log.end_offset))
    assert (whole.clean_bytes, whole.ratio) == (0, 1)
    assert whole.cleanable_bytes == log.size_bytes
    assert part.clean_bytes + part.cleanable_bytes == log.size_bytes
    assert 0 < part.ratio < 1
    assert (part.first_dirty, part.first_uncleanable) == (half, log.end_offset)
    assert (none.cleanable_bytes, none.ratio) == (0, 0)


@pytest.mark.parametrize(
    ("dirt", "due"),
    [
        (Dirt(0, 9, 50, 50, False), False),
        (Dirt(0, 9, 49, 51, False), True),
        (Dirt(0, 9, 99, 1, True), True),
        (Dirt(0, 9, 99, 0, True), False),
        (Dirt(0, 0, 0, 0, False), False),
    ],
)
def test_a_log_is_due_by_its_ratio_or_its_age(dirt, due):
    assert dirt.is_due(0.5) == due


def test_a_ratio_of_nothing_takes_any_dirt():
    assert Dirt(0, 9, 1_000_000, 1, False).is_due(0)


def test_a_checkpoint_that_makes_no_sense_counts_as_none(disk):
    log = filled(disk)
    assert dirt_of(log, log.end_offset + 1).first_dirty == 0
    log.advance_start_offset(5)
    assert dirt_of(log, 3).first_dirty == 5
    assert dirt_of(log, 5).first_dirty == 5
    assert dirt_of(log, 6).first_dirty == 6


def test_young_segments_wait(disk):
    log = filled(disk, min_compaction_lag_ms=100)
    bases = log.segment_base_offsets
    assert dirt_of(log, wall_ms=NOW_MS + 99).first_uncleanable == 0
    assert dirt_of(log, wall_ms=NOW_MS + 119).first_uncleanable == log.end_offset
    newest_of_second = bases[2] - 1  # offsets are milliseconds here
    assert dirt_of(log, wall_ms=NOW_MS + 100 + newest_of_second).first_uncleanable == bases[2]
    assert dirt_of(log, wall_ms=NOW_MS + 99 + newest_of_second).first_uncleanable == bases[1]


def test_old_segments_do_not_wait_for_others(disk):
    log = filled(disk, max_compaction_lag_ms=100)
    bases = log.segment_base_offsets
    assert not dirt_of(log, wall_ms=NOW_MS + 100).is_overdue
    assert dirt_of(log, wall_ms=NOW_MS + 101).is_overdue
    assert not dirt_of(log, bases[1], wall_ms=NOW_MS + 101).is_overdue
    assert dirt_of(log, bases[1], wall_ms=NOW_MS + 101 + bases[1]).is_overdue


# ---- groups


def grouped(*sources: tuple[int, int, int], index_bytes=None, **props) -> list[list[int]]:
    """Base offsets by group, of sources given as (base, end, bytes)."""
    made = [Source(SimpleNamespace(), *source) for source in sources]
    groups = group_sources(made, config(**props), index_bytes or (lambda _: 8))
    return [[source.base_offset for source in group] for group in groups]


def test_groups_stay_within_a_segments_bytes():
    props = {"internal_segment_bytes": 100}
    assert grouped((0, 5, 40), (5, 9, 60), (9, 12, 1), (12, 13, 99), **props) == [
        [0, 5], [9, 12],
    ]  # fmt: skip
    assert grouped((0, 5, 500), (5, 9, 0), (9, 10, 0), **props) == [[0], [5, 9]]
    assert grouped(**props) == []


def test_groups_stay_within_an_indexs_bytes():
    assert grouped(
        (0, 5, 1), (5, 9, 1), (9, 12, 1), segment_index_bytes=20, index_bytes=lambda _: 10
    ) == [[0, 5], [9]]


def test_groups_stay_within_31_bits_of_offsets():
    most = (1 << 31) - 1
    assert grouped((7, 9, 1), (9, 7 + most + 1, 1)) == [[7, 9]]
    assert grouped((7, 9, 1), (9, 7 + most + 2, 1)) == [[7], [9]]


# ---- the checkpoint


def opened(disk) -> tuple[LogDir, object]:
    log_dir = LogDir.open(disk, "/data")
    return log_dir, log_dir.create("t", 0, TOPIC_ID, config(**SMALL), wall_ms=NOW_MS)


def cleaned(disk):
    log_dir, log = opened(disk)
    for at in range(20):
        put(log, (b"k%d" % at, b"%03d" % at * 5))
    settle(log)
    assert log_dir.cleaned_offset(log) is None
    cleaning = clean(log)
    log_dir.note_cleaned(log, cleaning)
    return log_dir, log, cleaning


def test_it_is_kafkas_file_and_survives_a_restart(disk):
    log_dir, log, cleaning = cleaned(disk)
    assert cleaning.cleaned_offset == log.end_offset == 20
    assert disk.read(CHECKPOINT) == b"0\n1\nt 0 20\n"
    log_dir.checkpoint({})
    log_dir.close(high_watermarks={("t", 0): 20})
    log_dir, log = opened(disk)
    assert log_dir.cleaned_offset(log) == 20


def test_it_is_lowered_before_the_log_is_cut(disk):
    log_dir, log, _ = cleaned(disk)
    log_dir.checkpoint({})
    log.truncate_to(7)
    assert log_dir.cleaned_offset(log) == 7
    assert disk.read(CHECKPOINT) == b"0\n1\nt 0 7\n"


def test_a_cleaning_that_was_called_off_is_not_noted(disk):
    log_dir, log, cleaning = cleaned(disk)
    log.truncate_to(7)
    cleaning.abort()
    log_dir.note_cleaned(log, cleaning)
    assert log_dir.cleaned_offset(log) == 7


def test_it_forgets_deleted_partitions(disk):
    log_dir, log, _ = cleaned(disk)
    log_dir.delete(log)
    log_dir.checkpoint({})
    assert disk.read(CHECKPOINT) == b"0\n0\n"


def test_a_file_that_cannot_be_read_is_as_good_as_none(disk, caplog):
    log_dir, log, _ = cleaned(disk)
    log_dir.close(high_watermarks={("t", 0): 20})
    disk.write_atomic(CHECKPOINT, b"garbage")
    log_dir, log = opened(disk)
    assert log_dir.cleaned_offset(log) is None
    assert "cleaner-offset-checkpoint" in caplog.text
    log_dir.note_cleaned(log, clean(log))
    assert log_dir.cleaned_offset(log) == 20
