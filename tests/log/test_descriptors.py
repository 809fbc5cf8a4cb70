"""File descriptors that are short (EMFILE, ENFILE): who waits, who fails; nothing is lost."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from fencepost.batch.header import read_header
from fencepost.log.descriptors import RETRY_S, Descriptors, is_shortage
from fencepost.log.disk import OsDisk, OsFile
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.log.segment_cache import FILES_PER_MAX, SegmentCache
from fencepost.wire.types import Uuid

from .helpers import NOW_MS, append, config, contents, make_batch

T = TypeVar("T")

SMALL = {"segment_bytes": 1 << 20, "segment_index_bytes": 1 << 20}


class Kernel:
    """Opens nothing, and fails the first `failures` times."""

    def __init__(self, failures: int, number: int = errno.EMFILE) -> None:
        self.left = failures
        self.number = number
        self.calls = 0

    def open(self) -> str:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise OSError(self.number, os.strerror(self.number), "file")
        return "opened"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_call_waits_until_there_is_a_descriptor(number):
    waits: list[float] = []
    kernel = Kernel(12, number)
    assert Descriptors(pause=waits.append).open(kernel.open) == "opened"
    assert waits == [RETRY_S] * 10, "the first two times idle files are closed instead"


def test_idle_files_are_closed_before_anybody_waits_or_fails():
    waits: list[float] = []
    descriptors = Descriptors(pause=waits.append)
    kernel = Kernel(1000)

    def close_idle() -> None:
        kernel.left = 0

    descriptors.on_shortage = close_idle
    with descriptors.without_waiting():
        assert descriptors.open(kernel.open) == "opened"
    assert not waits


def test_a_request_does_not_wait():
    waits: list[float] = []
    descriptors = Descriptors(pause=waits.append)
    kernel = Kernel(1000)
    with descriptors.without_waiting(), pytest.raises(OSError, match="Too many") as caught:
        descriptors.open(kernel.open)
    assert is_shortage(caught.value)
    assert not waits
    kernel.left = 5
    assert descriptors.open(kernel.open) == "opened", "behind it calls wait again"


def test_within_a_request_that_does_not_wait_nothing_else_makes_it_wait():
    descriptors = Descriptors(pause=pytest.fail)
    with descriptors.without_waiting():
        with descriptors.without_waiting():
            pass
        with pytest.raises(OSError, match="Too many"):
            descriptors.open(Kernel(1000).open)


def test_other_threads_wait_while_a_request_does_not():
    waits: list[float] = []
    descriptors = Descriptors(pause=waits.append)
    opened: list[str] = []
    kernel = Kernel(5)
    with descriptors.without_waiting():
        thread = threading.Thread(target=lambda: opened.append(descriptors.open(kernel.open)))
        thread.start()
        thread.join()
    assert opened == ["opened"] and len(waits) == 3


def test_waiting_ends_when_the_node_stops():
    waits: list[float] = []
    descriptors = Descriptors(pause=waits.append)
    descriptors.patience_s = 10 * RETRY_S
    with pytest.raises(OSError, match="Too many"):
        descriptors.open(Kernel(1000).open)
    assert 9 <= len(waits) <= 11
    descriptors.patience_s = 0.0
    with pytest.raises(OSError, match="Too many"):
        descriptors.open(Kernel(1000).open)
    assert len(waits) <= 11, "who has no patience does not wait once"


@pytest.mark.parametrize(
    ("number", "whose"), [(errno.EMFILE, "this process"), (errno.ENFILE, "the system")]
)
def test_a_wait_is_told_now_and_then_and_says_whose_limit_it_is(number, whose, caplog):
    waits: list[float] = []
    Descriptors(pause=waits.append).open(Kernel(1002, number).open)
    assert len(waits) == 1000
    texts = [record.getMessage() for record in caplog.records]
    assert f"waiting for a file descriptor: {whose} has none left (ulimit -n)" in texts[0]
    assert len(texts) < 100


def test_another_error_is_raised_at_once():
    kernel = Kernel(1, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        Descriptors(pause=pytest.fail).open(kernel.open)
    assert kernel.calls == 1


def test_a_spare_descriptor_is_closed_in_favour_of_a_file_and_replaced_when_there_is_one_again():
    before = len(os.listdir("/dev/fd"))

    def spares() -> int:
        return len(os.listdir("/dev/fd")) - before

    descriptors = Descriptors(3, pause=pytest.fail)
    assert spares() == 3
    seen: list[int] = []

    def open_when_one_is_closed() -> str:
        if spares() == 3:
            raise OSError(errno.EMFILE, "Too many open files")
        seen.append(spares())
        return "opened"

    assert descriptors.open(open_when_one_is_closed) == "opened"
    assert seen == [2]
    assert spares() == 3
    descriptors.close()
    assert spares() == 0
    descriptors.open(lambda: "opened")
    assert spares() == 0, "nor are there any from now on"


def test_the_last_spare_descriptor_is_given_too():
    before = len(os.listdir("/dev/fd"))

    def open_when_it_is_closed() -> str:
        if len(os.listdir("/dev/fd")) > before:
            raise OSError(errno.EMFILE, "Too many open files")
        return "opened"

    descriptors = Descriptors(1, pause=pytest.fail)
    assert descriptors.open(open_when_it_is_closed) == "opened"
    descriptors.close()


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    """The kernel refuses this process every further descriptor (EMFILE)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/dev/fd")))
    fillers: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                fillers.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)


def test_spare_descriptors_are_as_many_as_before_when_there_is_one_again():
    before = len(os.listdir("/dev/fd"))
    descriptors = Descriptors(3, pause=pytest.fail)

    def open_one() -> int:
        return os.open(os.devnull, os.O_RDONLY)

    with no_descriptor_left():
        opened = [descriptors.open(open_one)]
    assert len(os.listdir("/dev/fd")) == before + 3, "one spare descriptor became the file's"
    opened.append(descriptors.open(open_one))
    assert len(os.listdir("/dev/fd")) == before + 2 + 3
    descriptors.close()
    for one in opened:
        os.close(one)


class Flaky(Descriptors):
    """Has no descriptor for the `nth` file, or for each, several times in a row."""

    def __init__(self, nth: int | None, number: int) -> None:
        super().__init__(pause=lambda _: None)
        self.nth = nth
        self.number = number
        self.opened = 0

    def open(self, call: Callable[[], T]) -> T:
        self.opened += 1
        failures = 5 if self.nth in (None, self.opened) else 0

        def flaky() -> T:
            nonlocal failures
            if failures:
                failures -= 1
                raise OSError(self.number, os.strerror(self.number))
            return call()

        return super().open(flaky)


def format_dir(path: Path) -> str:
    format_log_dir(OsDisk(), str(path), cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
    return str(path)


def live(disk: OsDisk, path: str) -> list[list[tuple[int, bytes]]]:
    """A life of a directory with all that opens files; what is in its logs at the end."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    log_dir = LogDir.open(disk, format_dir(Path(path)), files_max=2)
    logs = [
        log_dir.create("t", at, Uuid(bytes([7] * 16)), config(**SMALL), wall_ms=NOW_MS)
        for at in range(3)
    ]
    for log in logs:
        for number in range(6):
            append(log, make_batch(1, 10, fill=number), epoch=number // 3)
            if number % 2:
                log.flush()
                log.roll(NOW_MS)
    log_dir.checkpoint({("t", 0): 4})
    logs[0].truncate_to(3)
    logs[1].advance_start_offset(4)
    logs[1].delete_old_files(NOW_MS)
    log_dir.delete(logs[2], "f" * 32)
    log_dir.remove_deleted()
    contents(logs[0])
    log_dir.close(clean=False)
    again = LogDir.open(disk, path, files_max=2)
    again.open_all(lambda _: config(**SMALL), wall_ms=NOW_MS)
    assert not again.failed
    append(again.logs["t", 0])
    found = [contents(log) for log in again.logs.values()]
    again.close()
    last = LogDir.open(disk, path, files_max=2)
    assert last.was_clean
    last.open_all(lambda _: config(**SMALL), wall_ms=NOW_MS)
    assert [contents(log) for log in last.logs.values()] == found
    last.close()
    return found


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_life_in_which_no_file_finds_a_descriptor_at_first_ends_as_any_other(tmp_path, number):
    counting = Flaky(0, number)
    expected = live(OsDisk(counting), str(tmp_path / "plenty"))
    assert [len(log) for log in expected] == [4, 2]
    assert counting.opened > 100
    flaky = Flaky(None, number)
    assert live(OsDisk(flaky), str(tmp_path / "short")) == expected
    assert flaky.opened == counting.opened


# ---- requests, which do not wait: they fail, and nothing else does


def test_a_log_has_files_for_what_needs_no_file_to_be_opened(tmp_path):
    path = format_dir(tmp_path / "d")
    log_dir = LogDir.open(OsDisk(Descriptors()), path, files_max=2)
    rolling = config(segment_bytes=1 << 20, segment_ms=100, segment_jitter_ms=0)
    log = log_dir.create("t", 0, None, rolling, wall_ms=NOW_MS)
    append(log, make_batch(1, timestamp_ms=1000))
    soon, later = (read_header(make_batch(1, timestamp_ms=when)) for when in (1100, 1101))
    assert log.has_files_for(soon, NOW_MS)
    assert not log.has_files_for(later, NOW_MS), "it rolls"
    log.flush()
    log_dir.close_idle_files()
    assert not log.has_files_for(soon, NOW_MS)
    for header in (soon, later):
        log.prepare_append(header, NOW_MS)
        assert log.has_files_for(header, NOW_MS)
    append(log, make_batch(1, timestamp_ms=1101))
    log_dir.close()
    again = LogDir.open(OsDisk(Descriptors()), path, files_max=2)
    log = again.create("t", 0, None, rolling, wall_ms=NOW_MS)
    assert log.read(1, 1000, 2).first_offset == 1
    assert not log.has_files_for(soon, NOW_MS), "its greatest timestamp is not known yet"
    log.prepare_append(soon, NOW_MS)
    assert log.has_files_for(soon, NOW_MS)
    again.close()


def test_an_append_that_finds_no_descriptor_can_be_repeated(tmp_path):
    """At each file that preparing an append opens, with a roll and without."""
    for nth in range(1, 12):
        flaky = Flaky(0, errno.EMFILE)
        path = format_dir(tmp_path / str(nth))
        log_dir = LogDir.open(OsDisk(flaky), path, files_max=2)
        rolling = config(segment_bytes=1 << 20, segment_ms=10, segment_jitter_ms=0)
        log = log_dir.create("t", 0, None, rolling, wall_ms=NOW_MS)
        append(log, make_batch(1, timestamp_ms=1000))
        log.flush()
        log_dir.close_idle_files()
        flaky.nth = flaky.opened + nth
        batch = make_batch(1, timestamp_ms=5000)
        with contextlib.suppress(OSError), flaky.without_waiting():
            log.prepare_append(read_header(batch), NOW_MS)
        refused = flaky.opened == flaky.nth
        log.prepare_append(read_header(batch), NOW_MS)
        assert log.failure is None
        append(log, batch)
        assert [offset for offset, _ in contents(log)] == [0, 1]
        assert log.segment_base_offsets == [0, 1], "it rolled"
        log_dir.close()
        if not refused:
            assert nth > 4, "index, time index, snapshot, the new segment"
            return
    pytest.fail("it opens more files than that")


def test_a_read_that_finds_no_descriptor_can_be_repeated(tmp_path):
    flaky = Flaky(0, errno.ENFILE)
    log_dir = LogDir.open(OsDisk(flaky), format_dir(tmp_path / "d"), files_max=2)
    log = log_dir.create("t", 0, None, config(**SMALL), wall_ms=NOW_MS)
    for _ in range(3):
        append(log)
        log.flush()
        log.roll(NOW_MS)
    log.flush()
    expected = contents(log)
    log_dir.close_idle_files()
    flaky.nth = flaky.opened + 1
    with flaky.without_waiting(), pytest.raises(OSError) as caught:
        log.read(0, 1 << 20, log.end_offset)
    assert is_shortage(caught.value)
    assert log.failure is None
    assert contents(log) == expected
    log_dir.close()


# ---- how many files are open, and that none is closed that waits for its fsync


class Watched(OsFile):
    """Knows whether something waits for fsync."""

    __slots__ = ("disk", "is_open", "is_written")

    def __init__(self, disk: WatchedDisk, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self.disk = disk
        self.is_open = True
        self.is_written = False

    def write_at(self, data, position: int) -> None:
        self.is_written = True
        super().write_at(data, position)

    def sync(self) -> None:
        super().sync()
        self.is_written = False

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.disk.open_files -= 1
            if self.is_written:
                self.disk.unsynced.append(self.path)
        super().close()


class WatchedDisk(OsDisk):
    """Counts open files, and notes those that are closed too early."""

    sync_threads = 1

    def __init__(self) -> None:
        super().__init__()
        self.open_files = self.most = 0
        self.unsynced: list[str] = []

    def open(self, path: str, *, create: bool = False) -> Watched:
        file = super().open(path, create=create)
        watched = Watched(self, path, os.dup(file._descriptor))
        file.close()
        self.open_files += 1
        self.most = max(self.most, self.open_files)
        return watched


def test_that_many_logs_are_made_closes_no_file_of_another(tmp_path):
    disk = OsDisk()
    log_dir = LogDir.open(disk, format_dir(tmp_path / "d"), files_max=4)
    busy = log_dir.create("busy", 0, Uuid(bytes([7] * 16)), config(**SMALL), wall_ms=NOW_MS)
    append(busy, make_batch(1, 10))
    busy.flush()
    for at in range(60):
        log_dir.create("t", at, Uuid(bytes([7] * 16)), config(**SMALL), wall_ms=NOW_MS)
    assert [one.is_ready for one in busy._row.segments] == [True]
    assert log_dir.open_files == 1
    log_dir.close()


def test_many_logs_are_written_rolled_and_closed_with_few_files_open(tmp_path):
    disk = WatchedDisk()
    files_max = 4
    log_dir = LogDir.open(disk, format_dir(tmp_path / "d"), files_max=files_max)
    logs = [
        log_dir.create("t", at, Uuid(bytes([7] * 16)), config(**SMALL), wall_ms=NOW_MS)
        for at in range(60)
    ]
    for round_ in range(3):
        for log in logs:  # no flush in between: everything waits for one
            append(log, make_batch(1, 10, fill=round_))
            if round_:
                log.roll(NOW_MS)
    for log in logs[::2]:
        log.flush()
    log_dir.close_idle_files()
    for log in logs[::7]:
        assert len(contents(log)) == 3
    log_dir.close()
    writing = 5  # what one roll writes
    assert disk.most <= FILES_PER_MAX * files_max + writing
    # The file of the topic id is synced later, by its name; what became of it a start notices.
    assert [path for path in disk.unsynced if not path.endswith("/partition.metadata")] == []
    assert disk.open_files == 0
    again = LogDir.open(disk, str(tmp_path / "d"), files_max=files_max)
    assert again.was_clean
    again.open_all(lambda _: config(**SMALL), wall_ms=NOW_MS)
    assert all(len(contents(log)) == 3 for log in again.logs.values())
    again.close()


def test_as_many_files_of_rolls_may_wait_for_a_flush_as_may_be_open():
    cache = SegmentCache(files_max=3)
    cache.deferred = 3
    assert not cache.defers_too_many
    cache.deferred = 4
    assert cache.defers_too_many


class Looked:
    """A segment that counts how often it is asked whether it may be released."""

    releasable_index_bytes = 0
    is_pinned = False

    def __init__(self) -> None:
        self.looks = 0
        self.dirty = False
        self.is_open = True

    @property
    def is_dirty(self) -> bool:
        self.looks += 1
        return self.dirty

    def settle(self) -> None:
        self.dirty = False

    def release(self) -> None:
        self.is_open = False

    close_file = release


def test_what_cannot_be_released_is_not_looked_at_with_every_file_that_is_opened():
    cache = SegmentCache(files_max=10)
    dirty = [Looked() for _ in range(39)]
    for segment in dirty:
        segment.dirty = True
        cache.touch(segment)
    for _ in range(100):
        clean = Looked()
        cache.touch(clean)
        cache.touch(Looked())
        assert not clean.is_open
    assert sum(segment.looks for segment in dirty) <= 2 * len(dirty)
    assert len(cache) <= len(dirty) + 1


def test_segments_that_have_become_durable_are_released():
    cache = SegmentCache(files_max=2)
    segments = [Looked() for _ in range(6)]
    for segment in segments:
        segment.dirty = True
        cache.touch(segment)
    assert all(segment.is_open for segment in segments)
    for segment in segments[1:]:
        segment.dirty = False
    cache.settled(segments)
    assert segments[0].is_open and sum(segment.is_open for segment in segments[1:]) == 1
    assert len(cache) == 2
    segments[0].dirty = False
    cache.settled(segments[:1])
    for _ in range(2):
        cache.touch(Looked())
    assert not segments[0].is_open and len(cache) == 2
