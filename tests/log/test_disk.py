"""One suite for every disk: the operating system's and the simulated one behave alike."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fencepost.log.disk import ClosedFileError, Disk, OsDisk
from fencepost.log.errors import LogDirLockedError
from fencepost.sim.disk import Crash, SimDisk
from fencepost.sim.disk_contents import BLOCK_BYTES

from ..waiting import DEADLINE_S


@dataclass
class World:
    """A disk and a directory on it."""

    disk: Disk
    root: str


@pytest.fixture(params=["os", "sim"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "os":
        yield World(OsDisk(), str(tmp_path))
    else:
        disk = SimDisk()
        disk.mkdir("/data")
        yield World(disk, "/data")


def test_write_read_size_truncate(world: World):
    file = world.disk.open(f"{world.root}/a", create=True)
    assert file.size() == 0
    file.write_at(b"hello", 0)
    file.write_at(memoryview(b"world"), 5)
    file.write_at(bytearray(b"J"), 0)
    assert file.read_at(10, 0) == b"Jelloworld"
    assert file.read_at(100, 8) == b"ld"
    assert file.read_at(5, 50) == b""
    assert file.size() == 10
    file.truncate(3)
    assert file.read_at(10, 0) == b"Jel"
    file.write_at(b"!", 6)
    assert world.disk.read(f"{world.root}/a") == b"Jel\0\0\0!"
    assert world.disk.size(f"{world.root}/a") == 7
    file.sync()
    file.close()


def test_a_closed_file_is_not_synced(world: World):
    file = world.disk.open(f"{world.root}/a", create=True)
    file.close()
    file.close()
    with pytest.raises(ClosedFileError):
        file.sync()


def test_open_does_not_create_unless_asked(world: World):
    with pytest.raises(FileNotFoundError):
        world.disk.open(f"{world.root}/missing")
    with pytest.raises(FileNotFoundError):
        world.disk.open(f"{world.root}/no/dir", create=True)
    with pytest.raises(FileNotFoundError):
        world.disk.read(f"{world.root}/missing")
    with pytest.raises(FileNotFoundError):
        world.disk.size(f"{world.root}/missing")


def test_create_keeps_what_is_there(world: World):
    path = f"{world.root}/a"
    world.disk.write_atomic(path, b"there")
    file = world.disk.open(path, create=True)
    assert file.read_at(10, 0) == b"there"
    file.close()


def test_create_takes_no_pipe_for_a_file(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Not a regular file"):
        OsDisk().open(f"{tmp_path}/pipe", create=True)


def test_directories(world: World):
    disk, root = world.disk, world.root
    assert disk.mkdir(f"{root}/x/y")
    assert not disk.mkdir(f"{root}/x/y")
    assert not disk.mkdir(f"{root}/x")
    assert disk.mkdir(f"{root}/x/z")
    disk.rmdir(f"{root}/x/z")
    assert disk.is_dir(f"{root}/x/y")
    disk.write_atomic(f"{root}/x/b", b"")
    disk.write_atomic(f"{root}/x/a", b"")
    assert disk.list(f"{root}/x") == ["a", "b", "y"]
    assert not disk.is_dir(f"{root}/x/a")
    with pytest.raises(NotADirectoryError):
        disk.mkdir(f"{root}/x/a")
    assert disk.exists(f"{root}/x/a")
    assert not disk.exists(f"{root}/x/c")
    with pytest.raises(OSError, match="not empty"):
        disk.rmdir(f"{root}/x")
    disk.rmdir(f"{root}/x/y")
    disk.rmdir(f"{root}/x/y")
    disk.unlink(f"{root}/x/a")
    disk.unlink(f"{root}/x/a")
    disk.sync_dir(f"{root}/x")
    assert disk.list(f"{root}/x") == ["b"]
    with pytest.raises(FileNotFoundError):
        disk.list(f"{root}/nowhere")
    with pytest.raises(FileNotFoundError):
        disk.sync_dir(f"{root}/nowhere")


def test_rename_replaces_files_and_moves_directories(world: World):
    disk, root = world.disk, world.root
    disk.write_atomic(f"{root}/a", b"A")
    disk.write_atomic(f"{root}/b", b"B")
    disk.rename(f"{root}/a", f"{root}/b")
    assert disk.read(f"{root}/b") == b"A"
    assert not disk.exists(f"{root}/a")
    disk.mkdir(f"{root}/d")
    disk.write_atomic(f"{root}/d/f", b"F")
    disk.rename(f"{root}/d", f"{root}/e")
    assert disk.read(f"{root}/e/f") == b"F"
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/a", f"{root}/c")


def test_an_open_file_follows_its_rename(world: World):
    disk, root = world.disk, world.root
    file = disk.open(f"{root}/a", create=True)
    disk.rename(f"{root}/a", f"{root}/b")
    file.write_at(b"late", 0)
    file.close()
    assert disk.read(f"{root}/b") == b"late"


def test_write_atomic_leaves_nothing_behind(world: World):
    disk, root = world.disk, world.root
    disk.write_atomic(f"{root}/a", b"one")
    disk.write_atomic(f"{root}/a", b"longer than one", sync_directory=False)
    assert disk.list(root) == ["a"]
    assert disk.read(f"{root}/a") == b"longer than one"


def test_locks_exclude(world: World):
    path = f"{world.root}/.lock"
    lock = world.disk.lock(path)
    with pytest.raises(LogDirLockedError):
        world.disk.lock(path)
    lock.release()
    lock.release()
    world.disk.lock(path).release()


def test_another_process_cannot_take_the_lock(tmp_path: Path):
    lock = OsDisk().lock(str(tmp_path / ".lock"))
    attempt = (
        "import sys\n"
        "from fencepost.log.disk import OsDisk\n"
        "from fencepost.log.errors import LogDirLockedError\n"
        "try: OsDisk().lock(sys.argv[1])\n"
        "except LogDirLockedError as error: print(error); sys.exit(7)\n"
    )
    command = [sys.executable, "-c", attempt, str(tmp_path / ".lock")]
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    assert refused.returncode == 7
    if sys.platform.startswith("linux"):  # elsewhere the holder of a lock is unknown
        assert refused.stdout == f"{tmp_path}/.lock is in use by process {os.getpid()}\n"
    lock.release()
    assert subprocess.run(command, check=False).returncode == 0


def test_modification_times_move(world: World):
    path = f"{world.root}/a"
    if isinstance(world.disk, SimDisk):
        world.disk.now_ms = 5_000_000_000_000
    file = world.disk.open(path, create=True)
    file.write_at(b"x", 0)
    file.close()
    assert world.disk.modified_ms(path) > 1_600_000_000_000


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = os.pwrite

    def stingy(descriptor: int, data: bytes, position: int) -> int:
        return real(descriptor, bytes(data)[:3], position)

    monkeypatch.setattr(os, "pwrite", stingy)
    file = OsDisk().open(str(tmp_path / "a"), create=True)
    file.write_at(b"0123456789", 2)
    assert file.read_at(20, 0) == b"\0\x000123456789"
    file.close()


def test_a_close_waits_for_the_sync_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    began, go_on = threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        began.set()
        assert go_on.wait(DEADLINE_S)
        os.fstat(descriptor)  # fails if the descriptor was closed meanwhile

    monkeypatch.setattr("fencepost.log.disk._sync_descriptor", slow)
    file = OsDisk().open(str(tmp_path / "a"), create=True)
    errors: list[BaseException] = []

    def sync() -> None:
        try:
            file.sync()
        except (OSError, ValueError) as error:
            errors.append(error)

    syncing = threading.Thread(target=sync)
    syncing.start()
    assert began.wait(DEADLINE_S)
    closing = threading.Thread(target=file.close)
    closing.start()
    assert closing.is_alive()
    go_on.set()
    syncing.join(DEADLINE_S)
    closing.join(DEADLINE_S)
    assert not errors


# ---- the simulated disk's own promises


def test_synced_data_survives_any_power_loss():
    for seed in range(200):
        disk = SimDisk(seed)
        disk.mkdir("/d")
        disk.sync_dir("/")
        file = disk.open("/d/a", create=True)
        file.write_at(b"durable", 0)
        file.sync()
        disk.sync_dir("/d")
        file.write_at(b" and then some", 7)
        disk.power_loss()
        assert disk.read("/d/a").startswith(b"durable")


def test_unsynced_things_are_lost_now_and_then_and_the_same_seed_loses_the_same():
    def outcome(seed: int) -> tuple[bytes, bool]:
        disk = SimDisk(seed)
        file = disk.open("/a", create=True)
        disk.sync_dir("/")
        file.write_at(bytes(range(256)) * 8, 0)
        disk.open("/b", create=True)
        disk.power_loss()
        return disk.read("/a"), disk.exists("/b")

    outcomes = [outcome(seed) for seed in range(300)]
    assert outcomes == [outcome(seed) for seed in range(300)]
    contents = {content for content, _ in outcomes}
    whole = bytes(range(256)) * 8
    assert whole in contents
    assert b"" in contents
    assert any(content and whole.startswith(content) and content != whole for content in contents)
    assert any(len(content) > 512 and content[:512] == bytes(512) for content in contents)
    assert {exists for _, exists in outcomes} == {True, False}


def test_a_rename_without_a_sync_can_leave_an_empty_file():
    seen = set()
    for seed in range(200):
        disk = SimDisk(seed)
        file = disk.open("/a.tmp", create=True)
        file.write_at(b"content", 0)
        disk.rename("/a.tmp", "/a")
        disk.power_loss()
        seen.add(disk.read("/a") if disk.exists("/a") else None)
    assert {b"content", b"", None} <= seen


def test_a_size_can_be_kept_to_a_blocks_end_or_whole_without_the_bytes():
    def left(seed: int, durable: bytes) -> bytes:
        disk = SimDisk(seed)
        file = disk.open("/a", create=True)
        disk.sync_dir("/")
        file.write_at(durable, 0)
        file.sync()
        file.write_at(b"x" * 5000, len(durable))
        disk.power_loss()
        return disk.read("/a")

    assert bytes(5000) in {left(seed, b"") for seed in range(200)}
    grown = {left(seed, b"durable") for seed in range(200)}
    assert {b"durable".ljust(size, b"\0") for size in (7, BLOCK_BYTES, 5007)} <= grown


def bytes_come_back(disk: SimDisk, rewrite: bool) -> bool:
    file = disk.open("/a", create=True)
    disk.sync_dir("/")
    file.write_at(b"d" * 10, 0)
    file.sync()
    file.write_at(b"x" * 10, 10)
    disk.power_loss()
    file = disk.open("/a")
    if file.size() > 10:
        return False
    if rewrite:
        file.write_at(b"d", 9)
    file.sync()
    file.write_at(b"y" * 10, 10)
    disk.power_loss()
    return disk.read("/a")[10:11] == b"x"


def test_bytes_that_a_crash_took_come_back_unless_their_block_is_written():
    assert any(bytes_come_back(SimDisk(seed), rewrite=False) for seed in range(300))
    assert not any(bytes_come_back(SimDisk(seed), rewrite=True) for seed in range(300))


def test_process_death_keeps_what_was_written():
    disk = SimDisk()
    file = disk.open("/a", create=True)
    file.write_at(b"cached", 0)
    disk.process_death()
    assert disk.read("/a") == b"cached"
    with pytest.raises(Crash):
        file.write_at(b"x", 0)


def test_faults_and_crash_points():
    disk = SimDisk()
    file = disk.open("/a", create=True)
    disk.fault = lambda operation, path, count: (
        OSError(errno.ENOSPC, "full") if operation == "write" else None
    )
    with pytest.raises(OSError, match="full"):
        file.write_at(b"abcd", 0)
    assert disk.read("/a") == b"ab"
    disk.fault = lambda operation, path, count: (
        OSError(errno.EIO, "io") if operation == "sync" and count == 1 else None
    )
    with pytest.raises(OSError, match="io"):
        file.sync()
    file.sync()
    disk.fault = None
    disk.crash_at = disk.changes + 2
    file.write_at(b"x", 0)
    with pytest.raises(Crash):
        file.write_at(b"y", 1)


def test_what_is_made_is_for_the_owner_and_the_group(tmp_path: Path):
    """Whatever the umask lets others do; what is there keeps its modes."""
    disk = OsDisk()
    before = os.umask(0)
    try:
        disk.mkdir(f"{tmp_path}/made")
        disk.open(f"{tmp_path}/made/00.log", create=True).close()
        disk.write_atomic(f"{tmp_path}/made/checkpoint", b"0")
        disk.lock(f"{tmp_path}/made/.lock").release()
        old = tmp_path / "old"
        old.mkdir(0o755)
        (old / "00.log").touch(0o644)
        disk.mkdir(str(old))
        disk.open(f"{old}/00.log", create=True).close()
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "made").iterdir()}
    assert modes == dict.fromkeys(["00.log", "checkpoint", ".lock"], 0o640)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o750
    assert [path.stat().st_mode & 0o777 for path in (old, old / "00.log")] == [0o755, 0o644]


def test_a_link_in_the_place_of_a_new_file_is_not_followed(tmp_path: Path):
    disk = OsDisk()
    other = tmp_path / "other"
    other.write_bytes(b"of another program")
    for name in ("checkpoint.tmp", "00.log"):
        (tmp_path / name).symlink_to(other)
    disk.write_atomic(f"{tmp_path}/checkpoint", b"0")
    assert (tmp_path / "checkpoint").read_bytes() == b"0"
    assert not (tmp_path / "checkpoint").is_symlink()
    with pytest.raises(OSError) as refused:
        disk.open(f"{tmp_path}/00.log", create=True)
    assert refused.value.errno == errno.ELOOP
    assert other.read_bytes() == b"of another program"


def test_a_temporary_file_is_never_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Not even one that comes between the removal of an old one and the making of ours."""
    disk = OsDisk()
    (tmp_path / "checkpoint.tmp").write_bytes(b"left by a crash")
    disk.write_atomic(f"{tmp_path}/checkpoint", b"0")
    (tmp_path / "checkpoint.tmp").write_bytes(b"of another program")
    monkeypatch.setattr(disk, "unlink", lambda path: None)
    with pytest.raises(FileExistsError):
        disk.write_atomic(f"{tmp_path}/checkpoint", b"1")
    assert (tmp_path / "checkpoint").read_bytes() == b"0"
