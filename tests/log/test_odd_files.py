"""Files that are too large, and what is no file at all: refused at once, never waited for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from fencepost.cli.log.holder import holder_of
from fencepost.log.disk import FILE_BYTES_MAX, OsDisk, index_bytes_max
from fencepost.log.dump.files import PlainFile, dump
from fencepost.log.dump.kinds import kind_of
from fencepost.log.dump.segments import DumpOptions
from fencepost.log.epochs import EpochEntry, LeaderEpochCache
from fencepost.log.errors import CorruptFileError
from fencepost.log.meta import decode_clean_shutdown, format_log_dir, read_clean_shutdown
from fencepost.log.verify.directory import Verifier
from fencepost.log.verify.files import PlainFiles
from fencepost.log.verify.problems import Severity
from fencepost.wire.types import Uuid

from .helpers import NOW_MS, append, config, contents, open_log

HUGE = 64 << 30
CHECKPOINTS = [
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
    "meta.properties",
]
PARTS = [
    "partition.metadata",
    "leader-epoch-checkpoint",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.txnindex",
    "00000000000000000002.snapshot",
]


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)
    try:  # the path itself may be too long for a socket's
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


ODD = [make_pipe, make_socket, make_loop, make_huge, Path.mkdir]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A log directory with a partition of two segments, closed."""
    path = tmp_path / "data"
    format_log_dir(OsDisk(), str(path), cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
    log = open_log(OsDisk(), str(path / "t-0"), config())
    append(log)
    append(log)
    log.roll(NOW_MS)
    append(log)
    log.flush()
    log.close()
    (path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    return path


def problems(data_dir: Path):
    return list(Verifier(PlainFiles(), is_live=lambda _: False).run([str(data_dir)]))


@pytest.mark.parametrize("make", ODD[:-1], ids=lambda make: make.__name__)
def test_what_is_no_file_of_ours_is_refused(tmp_path, make):
    path = tmp_path / "odd"
    make(path)
    for read in (OsDisk().read, PlainFiles().read):
        with pytest.raises((OSError, CorruptFileError), match="odd"):
            read(str(path))
    if make is not make_huge:
        for opening in (OsDisk().open, PlainFile):
            with pytest.raises(OSError, match="odd"):
                opening(str(path))


def test_a_file_may_have_as_many_bytes_as_asked_for(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert OsDisk().read(str(path), 5) == b"12345"
    with pytest.raises(CorruptFileError, match="has 5 bytes, more than 4"):
        OsDisk().read(str(path), 4)


def test_a_million_epochs_are_below_the_bound():
    entries = (EpochEntry((1 << 30) + at, (1 << 40) + at) for at in range(3))
    line = max(map(len, LeaderEpochCache(entries).encode().splitlines()))
    assert 1_000_000 * (line + 1) < FILE_BYTES_MAX


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", [*CHECKPOINTS, *(f"t-0/{name}" for name in PARTS)])
def test_verify_reports_it_and_goes_on(data_dir, name, make):
    assert [one for one in problems(data_dir) if one.severity is Severity.ERROR] == []
    path = data_dir / name
    path.unlink(missing_ok=True)
    make(path)
    (data_dir / "t-0" / "00000000000000000007.log.cleaned").write_bytes(b"")
    found = problems(data_dir)
    assert any(one.path == str(path) and one.is_problem for one in found)
    assert any(one.path.endswith(".cleaned") for one in found), "the rest is looked at"


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex", "snapshot"])
def test_a_dump_of_a_huge_file_ends_at_once(tmp_path, suffix):
    path = tmp_path / f"00000000000000000000.{suffix}"
    make_huge(path)
    with PlainFile(str(path)) as file:
        (item,) = dump(file, str(path), kind_of(str(path)), DumpOptions())
    assert item.is_damage
    assert str(HUGE) in item.fields["reason"]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_index_larger_than_its_segment_needs_is_rebuilt(data_dir, suffix):
    path = data_dir / "t-0" / f"00000000000000000000.{suffix}"
    make_huge(path)
    log = open_log(OsDisk(), str(data_dir / "t-0"), recovery_point=3, clean_shutdown=True)
    assert [offset for offset, _ in contents(log)] == [0, 1, 2]
    first = log._row.segments[0]
    assert (len(first.index), len(first.time_index)) == (0, 1)
    log.close()
    assert path.stat().st_size < index_bytes_max(0)


def test_a_marker_of_brackets_counts_as_none(data_dir):
    marker = data_dir / ".kafka_cleanshutdown"
    for content in (b"[" * 100_000, b"[" * (2 << 20)):
        marker.write_bytes(content)
        assert read_clean_shutdown(OsDisk(), str(data_dir)) is None
    assert decode_clean_shutdown(b"[" * 100_000) is None


def test_a_lock_file_that_is_a_pipe_has_no_holder(data_dir):
    make_pipe(data_dir / ".lock")
    assert holder_of(str(data_dir)) is None
