"""Opening a log whose compaction was interrupted: unneeded files, copies half in place, S95."""

from __future__ import annotations

import pytest

from fencepost.batch.header import iter_headers, read_header
from fencepost.log.errors import DurableDataLostError
from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import Crash, SimDisk

from .helpers import contents
from .recovery_fixtures import (
    LOG,
    all_batches,
    filled_disk,
    reopen,
    segment_name,
    set_content,
)


def copies(disk: SimDisk, names: list[str], suffix: str) -> None:
    for name in names:
        set_content(disk, name + suffix, disk.read(f"{LOG}/{name}"))


def test_deleted_cleaned_and_temporary_files_go():
    disk, log = filled_disk()
    everything = all_batches(disk)
    first = [segment_name(log, 0, suffix) for suffix in (".log", ".index", ".timeindex")]
    copies(disk, first, ".deleted")
    copies(disk, first, ".cleaned")
    set_content(disk, "leader-epoch-checkpoint.tmp", b"half")
    set_content(disk, "quorum-state.tmp", b"half")
    set_content(disk, "00000000000000000005-0000000003.checkpoint", b"a metadata snapshot")
    set_content(disk, "00000000000000000005-0000000003.checkpoint.deleted", b"another's business")
    again = reopen(disk)
    assert contents(again) == everything
    left = disk.list(LOG)
    assert not [name for name in left if name.endswith((".cleaned", ".tmp"))]
    assert [name for name in left if name.endswith(".deleted")] == [
        "00000000000000000005-0000000003.checkpoint.deleted"
    ]
    assert "00000000000000000005-0000000003.checkpoint" in left


def compacted(disk: SimDisk, log: PartitionLog, segments: int) -> tuple[bytes, list]:
    """The first `segments` segments compacted into one: every other batch is left."""
    batches = [
        batch for batch in all_batches(disk) if batch[0] < log.segment_base_offsets[segments]
    ]
    kept = batches[1::2]
    if kept[-1] != batches[-1]:
        kept.append(batches[-1])
    return b"".join(data for _, data in kept), kept


@pytest.mark.parametrize("already_deleted", [0, 1, 2, 3])
def test_a_finished_compaction_takes_effect(already_deleted):
    """S95: wherever the renames were stopped, it is the new set that is found."""
    disk, log = filled_disk()
    everything = all_batches(disk)
    data, kept = compacted(disk, log, 3)
    set_content(disk, segment_name(log, 0) + ".swap", data)
    for at in range(already_deleted):
        for suffix in (".log", ".index", ".timeindex"):
            name = segment_name(log, at, suffix)
            disk.rename(f"{LOG}/{name}", f"{LOG}/{name}.deleted")
    again = reopen(disk)
    rest = [batch for batch in everything if batch[0] >= log.segment_base_offsets[3]]
    assert contents(again) == kept + rest
    assert again.segment_base_offsets == [0, *log.segment_base_offsets[3:]]
    assert not [name for name in disk.list(LOG) if name.endswith((".swap", ".deleted"))]
    for base, batch in kept + rest:
        assert bytes(again.read(base, 1, again.end_offset).buffers[0]) == batch


def test_an_unfinished_compaction_does_not_take_effect():
    disk, log = filled_disk()
    everything = all_batches(disk)
    data, _ = compacted(disk, log, 3)
    set_content(disk, segment_name(log, 0) + ".cleaned", data)
    # part of the same work: a swap at or behind a cleaned file
    set_content(disk, segment_name(log, 1) + ".swap", data)
    again = reopen(disk)
    assert contents(again) == everything
    assert not [name for name in disk.list(LOG) if name.endswith((".swap", ".cleaned"))]


def test_a_crash_at_every_step_of_finishing_a_compaction():
    disk, log = filled_disk()
    everything = all_batches(disk)
    data, kept = compacted(disk, log, 3)
    expected = kept + [batch for batch in everything if batch[0] >= log.segment_base_offsets[3]]
    for crash_at in range(1, 60):
        for seed in range(4):
            disk, log = filled_disk()
            disk.reseed(seed * 100 + crash_at)
            set_content(disk, segment_name(log, 0) + ".swap", data)
            disk.crash_at = disk.changes + crash_at
            try:
                reopen(disk)
                disk.crash_at = None
            except Crash:
                disk.power_loss()
            assert contents(reopen(disk)) == expected


def damaged_copies(log: PartitionLog, data: bytes) -> dict[str, bytes]:
    """What may have become of a copy of the first three segments."""
    last = max(position for position, _ in iter_headers(data))
    huge = bytearray(data)
    huge[last : last + 8] = (1 << 30).to_bytes(8)  # the CRC does not cover it
    beyond = bytearray(data)
    beyond[last : last + 8] = (log.segment_base_offsets[4]).to_bytes(8)
    corrupt = bytearray(data)
    corrupt[len(data) // 2] ^= 1
    lower = bytearray(data)
    lower[last : last + 8] = (read_header(data, last).base_offset - 1).to_bytes(8)
    return {
        "empty": b"",
        "cut": data[:-7],
        "without its last batch's records": data[: last + 61],
        "huge": bytes(huge),
        "beyond": bytes(beyond),
        "lower": bytes(lower),
        "corrupt": bytes(corrupt),
        "longer": data + bytes(10),
    }


@pytest.mark.parametrize("already_deleted", [0, 1, 2, 3])
def test_a_damaged_copy_replaces_nothing(already_deleted, caplog):
    disk, log = filled_disk()
    everything = all_batches(disk)
    data, _ = compacted(disk, log, 3)
    for what, damaged in damaged_copies(log, data).items():
        disk, log = filled_disk()
        name = segment_name(log, 0) + ".swap"
        set_content(disk, name, damaged)
        for at in range(already_deleted):
            for suffix in (".log", ".index", ".timeindex"):
                old = segment_name(log, at, suffix)
                disk.rename(f"{LOG}/{old}", f"{LOG}/{old}.deleted")
        caplog.clear()
        again = reopen(disk, recovery_point=log.end_offset)
        assert contents(again) == everything, what
        assert again.segment_base_offsets == log.segment_base_offsets
        assert f"/{name}: " in caplog.text
        assert disk.read(f"{LOG}/{name}.aside") == damaged
        disk.process_death()
        assert contents(reopen(disk)) == everything


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_damaged_copy_of_segments_that_are_damaged_too_is_refused(is_gone):
    disk, log = filled_disk()
    data, _ = compacted(disk, log, 3)
    set_content(disk, segment_name(log, 0) + ".swap", data[:-1])
    name = segment_name(log, 0)
    if is_gone:
        disk.unlink(f"{LOG}/{name}")
    else:
        disk.rename(f"{LOG}/{name}", f"{LOG}/{name}.deleted")
        disk.flip_bit(f"{LOG}/{name}.deleted", 900)
    names = disk.list(LOG)
    with pytest.raises(DurableDataLostError, match="swap" if is_gone else "deleted"):
        reopen(disk)
    assert disk.list(LOG) == names


def test_a_cleaned_file_does_not_undo_a_finished_compaction_whose_segments_are_renamed():
    disk, log = filled_disk()
    everything = all_batches(disk)
    data, _ = compacted(disk, log, 3)
    set_content(disk, segment_name(log, 0) + ".swap", data)
    set_content(disk, segment_name(log, 0) + ".cleaned", b"")
    for at in range(3):
        name = segment_name(log, at)
        disk.rename(f"{LOG}/{name}", f"{LOG}/{name}.deleted")
    assert contents(reopen(disk)) == everything


def test_a_crash_at_every_step_of_setting_a_copy_aside():
    disk, log = filled_disk()
    everything = all_batches(disk)
    data, _ = compacted(disk, log, 3)
    for crash_at in range(1, 25):
        for seed in range(4):
            disk, log = filled_disk()
            disk.reseed(seed * 100 + crash_at)
            set_content(disk, segment_name(log, 0) + ".swap", data[:-1])
            for at in range(2):
                name = segment_name(log, at)
                disk.rename(f"{LOG}/{name}", f"{LOG}/{name}.deleted")
            disk.sync_dir(LOG)
            disk.crash_at = disk.changes + crash_at
            try:
                reopen(disk)
                disk.crash_at = None
            except Crash:
                disk.power_loss()
            assert contents(reopen(disk)) == everything
