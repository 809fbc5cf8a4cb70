"""The bare log under power cuts: what was reported as durable is there, whole, in order, for good.

S87, S88, S94, S95; invariants I51 and I53.
"""

from __future__ import annotations

import os
import random
import signal

import pytest

from fencepost.log.disk import Disk, OsDisk
from fencepost.log.errors import LogError

from .conftest import Tally
from .filesystem import Filesystem
from .life import DataLiar, Liar, events, living
from .rig import Rig

pytestmark = pytest.mark.timeout(3600)  # as many cycles as were asked for

EVENTS_MAX = 160


def rig_on(filesystem: Filesystem, tally: Tally) -> Rig:
    """A log directory on the file system."""
    return Rig(str(filesystem.path / "data"), tally, random.Random(filesystem.kind))


def cycle(rig: Rig, filesystem: Filesystem, disk: Disk | None = None) -> None:
    """A life, a power cut, and everything looked at; AssertionError, LogError."""
    rig.tally.cycles += 1
    live_until_cut(rig, filesystem, disk or OsDisk())
    rig.recover(power=True)
    if rig.random.random() < 0.5:
        filesystem.cut_power()  # what was found and served must not be lost now (S88)
        rig.log_dir.close(clean=False)
        filesystem.come_back()
        rig.compare(clean=False)
    if rig.random.random() < 0.5:
        rig.log_dir.close()
        filesystem.come_back()
        rig.compare(clean=True)
    rig.log_dir.close(clean=rig.random.random() < 0.5)


def live_until_cut(rig: Rig, filesystem: Filesystem, disk: Disk) -> None:
    """Read what the writer tells; cut the power after a number of events, while it works."""
    left = rig.random.randrange(1, EVENTS_MAX)
    with living(disk, rig.path, rig.known, rig.random.getrandbits(60)) as (pid, told):
        for event in events(told):
            rig.note(event)
            left -= 1
            if left == 0:
                # Killed first: with the power gone a writer says nothing any more, but file
                # systems that have been shut down may tell it that an unfinished sync is done.
                os.kill(pid, signal.SIGKILL)
                filesystem.cut_power()
    assert left <= 0, "the writer ended before the power was cut"
    filesystem.come_back()


def test_nothing_that_was_reported_as_durable_is_lost(filesystem, tally, cycles):
    rig = rig_on(filesystem, tally)
    for number in range(cycles):
        try:
            cycle(rig, filesystem)
        except Exception as error:
            error.add_note(f"{filesystem.kind}, cycle {number}")
            raise
    assert tally.acknowledged_lost == 0
    assert tally.acknowledged > 10 * cycles
    assert cycles < 50 or tally.unsynced_lost > 0, "the power was never really cut"


@pytest.mark.parametrize("liar", [Liar, DataLiar])
def test_a_disk_that_lies_about_syncs_is_found_out(filesystem, liar):
    """The tester tested: without the syncs the same check must find losses."""
    rig = rig_on(filesystem, Tally("canary"))
    for _ in range(20):
        try:
            cycle(rig, filesystem, liar())
        except (AssertionError, LogError) as error:
            if "the writer failed" in str(error):
                raise
            return
    pytest.fail("twenty power cuts on a disk that does not sync, and nothing was missed")
