"""The file that says how far a log was durable, after a power loss that keeps nothing unsynced."""

from __future__ import annotations

from fencepost.log.durable_end import DurableEnd
from fencepost.sim.disk import SimDisk

DIRECTORY = "/d"
PATH = f"{DIRECTORY}/durable-end"


def begun() -> tuple[SimDisk, DurableEnd]:
    """A file that is there, in a directory that is durable."""
    disk = SimDisk()
    disk.mkdir(DIRECTORY)
    disk.sync_dir("/")
    end = DurableEnd(disk, PATH)
    assert not end.is_there
    end.begin()
    return disk, end


def after_power_loss(disk: SimDisk) -> DurableEnd:
    disk.lose_power_keeping(0)
    return DurableEnd(disk, PATH)


def test_a_log_that_was_begun_is_known_to_be_there() -> None:
    """Otherwise a log whose records are gone would pass for one that never was."""
    disk, _ = begun()
    found = after_power_loss(disk)
    assert found.is_there and found.offset == 0


def test_a_log_that_is_about_to_be_cut_has_said_so_durably() -> None:
    """Otherwise what was cut off would be missed as damage."""
    disk, end = begun()
    end.note(10)
    disk.open(PATH).sync()
    end.lower(4)
    assert end.offset == 4
    assert after_power_loss(disk).offset == 4


def test_what_is_noted_only_rises_and_what_is_lowered_only_falls() -> None:
    disk, end = begun()
    end.note(10)
    end.note(7)
    assert end.offset == DurableEnd(disk, PATH).offset == 10
    end.lower(12)
    assert end.offset == DurableEnd(disk, PATH).offset == 10
    end.close()
    end.lower(3)
    assert end.offset == DurableEnd(disk, PATH).offset == 3
