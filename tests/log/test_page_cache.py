"""Reads without waiting: what is in the page cache, what is not, and who cannot tell."""

from __future__ import annotations

import errno
import logging
import os
import threading
from pathlib import Path

import pytest

from fencepost.log import page_cache
from fencepost.log.disk import OsDisk

from .page_cache_fixtures import make_cold, refusal_of

DATA = os.urandom(300_000)


WAYS = [page_cache._read_by_python]
if page_cache._compiled is not None:
    WAYS.append(page_cache._compiled.read_cached)


@pytest.fixture(params=WAYS, ids=lambda way: way.__module__.rpartition(".")[2])
def world(tmp_path, request, monkeypatch):
    """A disk, and a file on it that is not in the page cache."""
    monkeypatch.setattr(page_cache, "read_cached", request.param)
    disk, path = OsDisk(), tmp_path / "t-0" / "0.log"
    path.parent.mkdir()
    file = disk.open(str(path), create=True)
    file.write_at(DATA, 0)
    file.sync()
    make_cold(path)
    yield disk, file
    file.close()


def test_what_is_not_cached_is_named_and_read_where_waiting_is_allowed(world):
    disk, file = world
    with disk.page_cache:
        cold = refusal_of(Path(file.path), lambda: file.read_at(200_000, 50_000))
    assert cold.path == file.path and cold.log_dir == os.path.dirname(os.path.dirname(file.path))
    assert (cold.position, cold.position + cold.size_bytes) == (50_000, 250_000)
    with disk.page_cache:
        refusal_of(Path(file.path), lambda: disk.read(file.path))
    assert file.read_at(200_000, 50_000) == DATA[50_000:250_000]
    assert disk.read(file.path) == DATA
    with disk.page_cache:
        assert file.read_at(200_000, 50_000) == DATA[50_000:250_000]
        assert file.read_at(200_000, 250_000) == DATA[250_000:]
        assert file.read_at(10, len(DATA)) == b""
        assert disk.read(file.path) == DATA


def test_other_threads_wait_for_the_disk_as_ever(world):
    disk, file = world
    found = []
    with disk.page_cache:
        thread = threading.Thread(target=lambda: found.append(file.read_at(300_000, 0)))
        thread.start()
        thread.join()
    assert found == [DATA]


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_without_the_flag_is_read_as_ever_and_named_once(
    world, number, monkeypatch, caplog
):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(page_cache, "read_cached", refuse)
    disk, file = world
    with caplog.at_level(logging.INFO), disk.page_cache:
        for _ in range(2):
            assert file.read_at(300_000, 0) == DATA
            assert disk.read(file.path) == DATA
    (line,) = caplog.messages
    assert "does not say what is in the page cache" in line


def test_a_file_system_without_the_flag_says_nothing_of_another(world, tmp_path, monkeypatch):
    disk, file = world
    other_path = tmp_path / "other" / "t-0" / "0.log"
    other_path.parent.mkdir(parents=True)
    other = disk.open(str(other_path), create=True)
    other.write_at(DATA, 0)
    read_cached = page_cache.read_cached

    def read(descriptor, *asked):
        if os.path.samestat(os.fstat(descriptor), os.stat(other_path)):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return read_cached(descriptor, *asked)

    monkeypatch.setattr(page_cache, "read_cached", read)
    with disk.page_cache:
        assert other.read_at(300_000, 0) == DATA
        refusal_of(Path(file.path), lambda: file.read_at(300_000, 0))
    other.close()


def test_a_disk_that_refuses_is_an_error(world, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(page_cache, "read_cached", refuse)
    disk, file = world
    with disk.page_cache, pytest.raises(OSError, match="Input/output"):
        file.read_at(300_000, 0)


@pytest.mark.parametrize("read", WAYS)
def test_a_system_that_is_asked_for_what_is_not_there_says_so(tmp_path, read):
    with pytest.raises(OSError) as caught:
        read(-1, 10, 0)
    assert caught.value.errno == errno.EBADF
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=r"(directory|not supported)"):
            read(directory, 10, 0)
    finally:
        os.close(directory)


@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize(("size", "position"), [(-1, 0), (10, -1), (10, -5), (0, -1)])
def test_no_place_in_a_file_is_negative(world, read, size, position):
    """Linux reads from wherever the descriptor stands if it is told -1."""
    with pytest.raises(ValueError, match=f"{size} bytes from {position} on"):
        read(world[1]._descriptor, size, position)


@pytest.mark.parametrize("read", WAYS)
def test_a_file_that_is_cut_meanwhile_ends_there(tmp_path, read):
    path = tmp_path / "0.log"
    path.write_bytes(DATA)
    descriptor = os.open(path, os.O_RDWR)
    try:
        assert read(descriptor, 300_000, 0) == DATA
        os.ftruncate(descriptor, 100)
        assert read(descriptor, 300_000, 40) == DATA[40:100]
        assert read(descriptor, 300_000, 100) == read(descriptor, 10, 2**63 - 11) == b""
    finally:
        os.close(descriptor)


def test_nothing_is_read_that_is_not_in_the_file(world):
    disk, file = world
    assert file.read_at(len(DATA), 0) == DATA
    with disk.page_cache:
        for size in (0, 1, 65_535, 65_536, 65_537, len(DATA), len(DATA) + 1):
            for position in (0, 1, 200_000):
                assert file.read_at(size, position) == DATA[position : position + size]
