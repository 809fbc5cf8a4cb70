"""What deleted records leave: where the log starts, which epochs it has, what `verify` says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fencepost.batch.header import iter_headers, stamp
from fencepost.log.checkpoints import OffsetCheckpoint, encode_lines
from fencepost.log.epochs import decode_epochs
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.log.partition_log import PartitionLog
from fencepost.log.verify.directory import Verifier
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .data_dir import change
from .helpers import NOW_MS, append, apply_retention, config, make_batch

ROOT = "/data"
PATH = f"{ROOT}/t-0"
FILE = f"{PATH}/leader-epoch-checkpoint"
END = 24
CONFIG = config(internal_segment_bytes=900)


class Life:
    """A partition of 24 records in four segments, two to a batch, of epochs 0, 1 and 2."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        format_log_dir(self.disk, ROOT, cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
        self.open()
        for turn in range(12):
            append(self.log, make_batch(2, 60, timestamp_ms=turn), epoch=turn // 4)
        self.log.flush()
        self.log_dir.checkpoint()

    def open(self) -> None:
        self.log_dir = LogDir.open(self.disk, ROOT)
        self.log: PartitionLog = self.log_dir.create(
            "t", 0, Uuid(bytes(15) + b"\1"), CONFIG, wall_ms=NOW_MS
        )

    def close(self) -> None:
        self.log_dir.close(broker_epoch=1)

    def lead(self, epoch: int) -> None:
        self.log.epochs.assign(epoch, self.log.end_offset)

    def in_file(self) -> list[tuple[int, int]]:
        return decode_epochs(FILE, self.disk.read(FILE))

    def problems(self, *paths: str, live: bool = False) -> list[str]:
        verifier = Verifier(self.disk, is_live=lambda _: live)
        return [str(one) for one in verifier.run(list(paths or (ROOT,))) if one.is_problem]


def delete_to(offset: int) -> Callable[[PartitionLog], object]:
    return lambda log: log.advance_start_offset(offset)


def expire(log: PartitionLog) -> None:
    """Retention deletes everything."""
    log.config = config(internal_segment_bytes=900, retention_ms=1)
    apply_retention(log, NOW_MS, END)
    assert log.start_offset == log.end_offset == END


EVERY_WAY = [delete_to(offset) for offset in (1, 2, 7, 8, 9, 16, 21, 23, END)] + [expire]


def test_an_emptied_log_keeps_the_epoch_of_its_last_record_in_the_file():
    """As Kafka's LeaderEpochFileCache.truncateFromStart does."""
    life = Life()
    life.log.advance_start_offset(END)
    assert list(life.log.epochs) == [(2, END)]
    life.log.flush()
    assert life.in_file() == [(2, END)]
    life.close()
    assert life.in_file() == [(2, END)]


def test_a_new_leader_of_an_emptied_log_is_in_the_file():
    life = Life()
    life.log.advance_start_offset(END)
    life.lead(5)
    life.close()
    assert life.in_file() == [(5, END)]


def test_a_leader_that_wrote_nothing_is_not_in_the_file_of_a_log_with_records():
    life = Life()
    life.log.advance_start_offset(20)
    life.lead(5)
    life.close()
    assert life.in_file() == [(2, 20)]


def test_opening_an_emptied_log_forgets_the_epoch_at_its_end():
    """As Kafka's LogLoader does, which truncates the epochs from the log's end."""
    life = Life()
    life.log.advance_start_offset(END)
    life.close()
    life.open()
    assert (life.log.start_offset, life.log.end_offset, list(life.log.epochs)) == (END, END, [])
    life.close()
    assert life.in_file() == []
    assert life.problems() == []


def test_a_log_that_starts_over_has_no_epochs():
    """As Kafka's truncateFullyAndStartAt does: a follower's, whose leader has deleted more."""
    life = Life()
    life.log.truncate_fully_and_start_at(100)
    life.log.flush()
    assert life.in_file() == []
    assert life.problems(live=True) == []


@pytest.mark.parametrize("delete", EVERY_WAY)
def test_what_is_left_is_sound_while_it_is_served(delete):
    life = Life()
    delete(life.log)
    assert life.problems(live=True) == []
    append(life.log, make_batch(1, 60), epoch=4)
    life.log.flush()
    assert life.problems(live=True) == []
    assert life.problems(PATH) == [], "the partition alone, whose start is not known"
    life.log_dir.checkpoint()
    assert life.problems(live=True) == []


@pytest.mark.parametrize("delete", EVERY_WAY)
@pytest.mark.parametrize("leads", [False, True])
def test_what_is_left_is_sound_after_orderly_stops(delete, leads):
    life = Life()
    delete(life.log)
    for _ in range(2):
        life.close()
        assert life.problems() == []
        assert life.problems(PATH) == []
        life.open()
        if leads:
            life.lead((life.log.epochs.latest_epoch() or 2) + 1)
    append(life.log, make_batch(1, 60), epoch=9)
    life.close()
    assert life.problems() == []


@pytest.mark.parametrize("delete", EVERY_WAY)
@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("written", [False, True])
def test_what_is_left_is_sound_after_a_crash(delete, checkpointed, written):
    """The epochs in the file may be ahead of the start in the checkpoint."""
    life = Life()
    delete(life.log)
    if written:
        append(life.log, make_batch(1, 60), epoch=2)
    life.log.flush()
    if checkpointed:
        life.log_dir.checkpoint()
    life.disk.power_loss()
    assert life.problems() == []
    life.open()
    assert life.log.end_offset == END + written
    life.close()
    assert life.problems() == []


def test_a_start_that_was_not_written_down_falls_back_to_the_first_segment():
    """As in Kafka: `log.flush.start.offset.checkpoint.interval.ms` says how long that may be."""
    life = Life()
    life.log.advance_start_offset(21)
    first_segment = min(name for name in life.disk.list(PATH) if name.endswith(".log"))
    life.log.flush()
    life.disk.power_loss()
    life.open()
    assert life.log.start_offset == int(first_segment.removesuffix(".log")) < 21
    life.log.advance_start_offset(21)
    life.log_dir.checkpoint_start_offsets()
    assert OffsetCheckpoint(life.disk, f"{ROOT}/log-start-offset-checkpoint").read() == {
        ("t", 0): 21
    }
    life.disk.power_loss()
    life.open()
    assert life.log.start_offset == 21


@pytest.mark.parametrize("live", [False, True])
def test_batches_in_front_of_the_start_that_are_of_a_later_epoch_are_a_problem(live):
    life = Life()
    life.log.advance_start_offset(END)
    life.close()
    (path,) = (f"{PATH}/{name}" for name in life.disk.list(PATH) if name.endswith(".log"))
    data = bytearray(life.disk.read(path))
    for position, header in list(iter_headers(data)):
        stamp(data, position, base_offset=header.base_offset, leader_epoch=7)
    change(life.disk, path, bytes(data))
    (problem,) = life.problems(live=live)
    assert "epoch 7 is not there" in problem


def test_a_missing_first_epoch_of_a_log_that_was_closed_in_order_is_a_problem():
    life = Life()
    life.close()
    change(life.disk, FILE, encode_lines(["1 8", "2 16"]))
    assert len(life.problems()) == 1
