"""What real file systems leave after a power cut is among what the simulated disk may leave.

Each story is told once to the real file system and hundreds of times to `SimDisk`. What is promised
to be durable must come out the same everywhere; of the rest, `SimDisk` must allow for what was
really seen, or tests on it would prove too little.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Final

import pytest

from fencepost.log.disk import Disk, OsDisk
from fencepost.sim.disk import SimDisk

from .filesystem import Filesystem

SEEDS: Final = range(400)
Left = frozenset[tuple[str, bytes]]
"""Names and contents that are left."""


class Machine:
    """A disk whose power can be cut; `root` is a directory on it that is durable."""

    disk: Disk
    root: str

    def write_back(self, path: str) -> None:
        """Let the kernel write the file's data, as it does after a while, and nothing else."""

    def cut(self) -> None:
        """The power fails, and comes back."""

    def commit(self) -> None:
        """Something unrelated is synced; real file systems commit the whole journal with it."""
        self.append("unrelated", b"!")
        self.sync("unrelated")

    def append(self, name: str, data: bytes) -> None:
        """Append to a file, which is made if it is not there."""
        file = self.disk.open(f"{self.root}/{name}", create=True)
        file.write_at(data, file.size())
        file.close()

    def sync(self, name: str) -> None:
        """Sync a file."""
        file = self.disk.open(f"{self.root}/{name}")
        file.sync()
        file.close()

    def left(self) -> Left:
        """What is there, the unrelated file apart."""
        names = [name for name in self.disk.list(self.root) if name != "unrelated"]
        return frozenset((name, self.disk.read(f"{self.root}/{name}")) for name in names)


class Real(Machine):
    """A file system with a power switch."""

    def __init__(self, filesystem: Filesystem) -> None:
        self.disk = OsDisk()
        self.filesystem = filesystem
        self.root = str(filesystem.path / "d")
        self.disk.mkdir(self.root)
        self.disk.sync_dir(str(filesystem.path))

    def write_back(self, path: str) -> None:
        descriptor = os.open(f"{self.root}/{path}", os.O_RDWR)
        whole, write_and_wait = ctypes.c_int64(0), 7
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.sync_file_range(descriptor, whole, whole, write_and_wait) == 0
        os.close(descriptor)

    def cut(self) -> None:
        self.filesystem.cut_power()
        self.filesystem.come_back()


class Simulated(Machine):
    """A simulated disk."""

    def __init__(self, seed: int) -> None:
        self.disk = SimDisk(seed)
        self.root = "/d"
        self.disk.mkdir(self.root)
        self.disk.sync_dir("/")

    def cut(self) -> None:
        assert isinstance(self.disk, SimDisk)
        self.disk.power_loss()


# ---- stories whose end is promised


def file_and_name_synced(machine: Machine) -> None:
    machine.append("a", b"kept")
    machine.sync("a")
    machine.disk.sync_dir(machine.root)
    machine.cut()


def replaced_atomically(machine: Machine) -> None:
    machine.disk.write_atomic(f"{machine.root}/a", b"old")
    machine.disk.write_atomic(f"{machine.root}/a", b"the new one")
    machine.cut()


def removed_and_synced(machine: Machine) -> None:
    file_and_name_synced(machine)
    machine.disk.unlink(f"{machine.root}/a")
    machine.disk.sync_dir(machine.root)
    machine.cut()


def cut_and_synced(machine: Machine) -> None:
    file_and_name_synced(machine)
    file = machine.disk.open(f"{machine.root}/a")
    file.truncate(2)
    file.sync()
    file.close()
    machine.append("a", b"!!")
    machine.sync("a")
    machine.cut()


def last_block_rewritten(machine: Machine) -> None:
    """What recovery does about `bytes_of_an_earlier_incarnation`: they never come back."""
    _lose_an_append(machine)
    file = machine.disk.open(f"{machine.root}/a")
    if file.size() > 4:  # a simulated disk may have kept it all
        file.truncate(4)
    file.write_at(file.read_at(1, 3), 3)
    file.sync()
    file.close()
    machine.append("a", b"yyyy")
    machine.commit()
    machine.cut()
    file = machine.disk.open(f"{machine.root}/a")
    assert b"x" not in file.read_at(8, 0)
    file.truncate(4)
    file.close()


# ---- stories whose end is open


def append_not_synced(machine: Machine) -> None:
    file_and_name_synced(machine)
    machine.append("a", b" and more")
    machine.cut()


def append_written_back(machine: Machine) -> None:
    file_and_name_synced(machine)
    machine.append("a", b" and more")
    machine.write_back("a")
    machine.cut()


def append_committed_by_another(machine: Machine) -> None:
    file_and_name_synced(machine)
    machine.append("a", b" and more")
    machine.commit()
    machine.cut()


def _lose_an_append(machine: Machine) -> None:
    file_and_name_synced(machine)
    machine.append("a", b"xxxx")
    machine.write_back("a")
    machine.cut()


def bytes_of_an_earlier_incarnation(machine: Machine) -> None:
    _lose_an_append(machine)
    if len(machine.disk.read(f"{machine.root}/a")) == 4:
        machine.append("a", b"yyyy")
        machine.commit()
        machine.cut()


def never_synced(machine: Machine) -> None:
    machine.append("a", b"data")
    machine.cut()


def name_synced_only(machine: Machine) -> None:
    machine.append("a", b"data")
    machine.disk.sync_dir(machine.root)
    machine.cut()


def file_synced_only(machine: Machine) -> None:
    machine.append("a", b"data")
    machine.sync("a")
    machine.cut()


def renamed_without_any_sync(machine: Machine) -> None:
    file_and_name_synced(machine)
    machine.append("a.tmp", b"new")
    machine.disk.rename(f"{machine.root}/a.tmp", f"{machine.root}/a")
    machine.cut()


def renamed_to_a_new_name_and_name_synced(machine: Machine) -> None:
    machine.append("a.tmp", b"new")
    machine.disk.rename(f"{machine.root}/a.tmp", f"{machine.root}/a")
    machine.disk.sync_dir(machine.root)
    machine.cut()


def renamed_over_another_and_name_synced(machine: Machine) -> None:
    file_and_name_synced(machine)
    renamed_to_a_new_name_and_name_synced(machine)


def file_synced_and_renamed(machine: Machine) -> None:
    file_and_name_synced(machine)
    machine.disk.write_atomic(f"{machine.root}/a", b"new", sync_directory=False)
    machine.cut()


def removed(machine: Machine) -> None:
    file_and_name_synced(machine)
    machine.disk.unlink(f"{machine.root}/a")
    machine.cut()


def truncated(machine: Machine) -> None:
    file_and_name_synced(machine)
    file = machine.disk.open(f"{machine.root}/a")
    file.truncate(2)
    file.close()
    machine.cut()


def two_files_one_synced(machine: Machine) -> None:
    machine.append("a", b"a")
    machine.append("b", b"b")
    machine.sync("b")
    machine.cut()


PROMISED: Final = [
    file_and_name_synced,
    replaced_atomically,
    removed_and_synced,
    cut_and_synced,
    last_block_rewritten,
]
OPEN: Final = [
    append_not_synced,
    append_written_back,
    append_committed_by_another,
    bytes_of_an_earlier_incarnation,
    never_synced,
    name_synced_only,
    file_synced_only,
    renamed_without_any_sync,
    renamed_to_a_new_name_and_name_synced,
    renamed_over_another_and_name_synced,
    file_synced_and_renamed,
    removed,
    truncated,
    two_files_one_synced,
]
Plot = Callable[[Machine], None]


def outcomes(plot: Plot) -> set[Left]:
    """All that `SimDisk` made of a story."""
    ends = set()
    for seed in SEEDS:
        machine = Simulated(seed)
        plot(machine)
        ends.add(machine.left())
    return ends


@pytest.mark.parametrize("plot", PROMISED)
def test_what_is_promised_is_kept_by_all(filesystem: Filesystem, plot: Plot):
    machine = Real(filesystem)
    plot(machine)
    assert outcomes(plot) == {machine.left()}


@pytest.mark.parametrize("plot", OPEN)
def test_what_is_not_promised_ends_in_a_way_the_simulation_knows(
    filesystem: Filesystem, plot: Plot
):
    machine = Real(filesystem)
    plot(machine)
    possible = outcomes(plot)
    assert machine.left() in possible
    assert len(possible) > 1, "the simulated disk takes for promised what is not"
